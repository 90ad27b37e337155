"""A long test run of random faults that heal; the same seed gives the same run. Pure."""

import random
from dataclasses import replace

from chaos.faults import EAST, HEALS, LEADER, Act, FaultStep, When
from chaos.scenarios import SCENARIOS, Scenario, named

_REST_SECONDS = (10.0, 30.0)


def _killed_and_started(name: str, service: str, *, away_seconds: float, heal_seconds: float, what: str) -> Scenario:
    return Scenario(
        name=name, title=f"{what} is killed, and started again",
        steps=(
            FaultStep(act=Act.KILL, on=(service,)),
            FaultStep(act=Act.START, on=(service,), after_seconds=away_seconds),
        ),
        moves=False, never=frozenset({"DOWN"}), heal_seconds=heal_seconds,
    )  # fmt: skip


SMALLER = (
    # It takes a minute to start on a crowded machine, and until it has caught up nothing could be moved.
    _killed_and_started("replicator-restarts", "replicator", away_seconds=20, heal_seconds=90, what="The replicator"),
    # Its tasks are given to the other worker, and during that time something must be delivered.
    _killed_and_started("worker-restarts", "worker-1", away_seconds=40, heal_seconds=30, what="A Spark worker"),
    _killed_and_started("leader-restarts", LEADER, away_seconds=40, heal_seconds=20, what="The leading controller"),
    _killed_and_started("controller-restarts", "controller-two", away_seconds=40, heal_seconds=20, what="A controller"),
    _killed_and_started("warm-runner-restarts", "runner-b", away_seconds=20, heal_seconds=60, what="The warm runner"),
    Scenario(
        # Four looks must fail for a DOWN, begun every 2 s and given up after 5 s: 11 s at the least. The commands that
        # freeze and thaw take seconds, too.
        name="primary-stands-still", title="All brokers of the primary freeze, for less long than a DOWN takes",
        steps=(FaultStep(act=Act.FREEZE, on=EAST), FaultStep(act=Act.THAW, on=EAST, after_seconds=5)),
        moves=False, never=frozenset({"DOWN"}), heal_seconds=20,
    ),
)  # fmt: skip
"""Faults of the soak only: each alone shows little."""


def draw_soak(minutes: float, seed: int) -> Scenario:
    """Faults that heal, each once all is well; then the primary is killed, and every query must move once.

    The time until all is well again comes on top of the minutes. ValueError when not one fault fits into them.
    """
    chance = random.Random(seed)
    healing = [*(each for each in SCENARIOS if heals(each)), *SMALLER]
    parts: list[Scenario] = []
    left, healed = minutes * 60, 0.0
    while True:
        each = chance.choice(healing)
        rest = chance.uniform(*_REST_SECONDS)
        if (needed := rest + seconds_of(each)) > left:
            break
        parts.append(_rested(each, rest + healed))
        left -= needed
        healed = each.heal_seconds
    if not parts:
        raise ValueError(f"{minutes:g} minutes are too short for one fault")
    end = named("kill-cluster")
    assert end is not None
    return replace(
        end, name=f"soak-{seed}",
        title=f"{len(parts)} random faults in {minutes:g} minutes, seed {seed}; then {end.title}",
        steps=(*(step for part in parts for step in part.steps), *_rested(end, _REST_SECONDS[1] + healed).steps),
        parts=tuple(parts),
    )  # fmt: skip


def heals(scenario: Scenario) -> bool:
    """Whether a scenario is a fault that is undone, leaves the environment as it found it, and needs no other one."""
    undone = any(step.act in HEALS for step in scenario.steps)
    at_once = all(step.when is When.AT_ONCE for step in scenario.steps)
    return undone and at_once and not scenario.moves and not scenario.files


def seconds_of(scenario: Scenario) -> float:
    """How long a scenario takes as a part, beside the waiting until all is well."""
    return sum(step.after_seconds for step in scenario.steps) + scenario.heal_seconds


def _rested(scenario: Scenario, seconds: float) -> Scenario:
    first, *others = scenario.steps
    return replace(
        scenario, steps=(replace(first, when=When.WELL, after_seconds=round(first.after_seconds + seconds, 1)), *others)
    )
