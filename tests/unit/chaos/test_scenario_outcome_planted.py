"""What is planted into the counts of a scenario makes it end not as expected, whatever the scenario allows."""

import os
import random
from dataclasses import asdict, replace

from chaos.scenario_outcome import Outcome, judge
from lab.judge import QueryVerdict
from tests.planted import IN_DELIVERIES, MISTAKES, Planted, world
from tests.thorough import tries
from tests.unit.chaos.test_scenario_outcome import MOVED, RETURNED, STAYED, SWITCHED, operation, scenario

TRIALS = tries(500)
SEED = int(os.environ.get("TIDEOVER_SEED", "0")) or random.SystemRandom().randrange(10**9)
SCENARIOS = ("primary-returns-late", "kill-cluster", "replicator-dead", "kill-one-broker", "switchover-under-load")
CALM = ("kill-one-broker", "switchover-under-load")
"""All that was acknowledged comes to the standby, and nothing twice."""


def drawn(name: str, seed: int) -> Planted:
    """A world as the scenario leaves one behind."""
    while True:
        planted = world(seed, returns=name in {"primary-returns-late", *CALM})
        exposed = planted.by_id().exposed
        if (name != "replicator-dead" or exposed) and (name not in CALM or not planted.repeats):
            return planted
        seed += TRIALS


def outcome(name: str, planted: Planted, verdict: QueryVerdict) -> Outcome:
    """All went well, and so many repeats were announced as there are."""
    row = {"q": asdict(verdict)}
    totals = {"replay_records": 0, "replay_later_records": planted.repeats}
    moved = operation(plan={"totals": totals})
    match name:
        case "primary-returns-late":
            return replace(RETURNED, verdict=row, operations=(moved,))
        case "kill-one-broker":
            return replace(STAYED, verdict=row)
        case "switchover-under-load":
            return replace(SWITCHED, verdict=row)
        case "replicator-dead":
            return replace(MOVED, verdict=row, operations=(operation(id="o0", outcome="refused"), moved))
    return replace(MOVED, verdict=row, operations=(moved,))


def test_every_planted_mistake_ends_a_scenario_not_as_expected() -> None:
    print(f"TIDEOVER_SEED={SEED}")
    for number in range(TRIALS):
        name, mistake = SCENARIOS[number % len(SCENARIOS)], list(MISTAKES)[number % len(MISTAKES)]
        planted, chance, again = drawn(name, SEED + number), random.Random(SEED + number), 0
        while not MISTAKES[mistake](planted, chance):  # this world has no room for it
            again += 1
            mistake = list(MISTAKES)[(number + again) % len(MISTAKES)]
        for verdict in (planted.by_sums(), *([planted.by_id()] if mistake in IN_DELIVERIES else [])):
            problems = judge(scenario(name), outcome(name, planted, verdict))
            assert problems, f"{mistake} in {name}, world {planted.seed}: {verdict}"


def test_every_right_outcome_is_as_expected() -> None:
    print(f"TIDEOVER_SEED={SEED}")
    for number in range(TRIALS):
        name = SCENARIOS[number % len(SCENARIOS)]
        planted = drawn(name, SEED + number)
        for verdict in (planted.by_sums(), planted.by_id()):
            problems = judge(scenario(name), outcome(name, planted, verdict))
            assert problems == [], f"{name}, world {planted.seed}: {verdict}"
