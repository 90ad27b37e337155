"""A long story of random faults, drawn from the scenarios that heal; the same seed gives the same story. Pure."""

import random
from dataclasses import replace

from chaos.faults import When
from chaos.scenarios import SCENARIOS, Scenario, named

_REST_SECONDS = (10.0, 30.0)


def draw_soak(minutes: float, seed: int) -> Scenario:
    """Faults that heal for so many minutes, in any order; then the primary is killed, and every query must move once.

    ValueError when not one fault fits into the time.
    """
    chance = random.Random(seed)
    healing = [each for each in SCENARIOS if heals(each)]
    steps, left, drawn = [], minutes * 60, 0
    while True:
        each = chance.choice(healing)
        rest = chance.uniform(*_REST_SECONDS)
        if (needed := rest + seconds_of(each)) > left:
            break
        first, *others = each.steps
        steps += [replace(first, after_seconds=round(first.after_seconds + rest, 1)), *others]
        left -= needed
        drawn += 1
    if not drawn:
        raise ValueError(f"{minutes:g} minutes are too short for one fault")
    end = named("kill-cluster")
    assert end is not None
    first, *others = end.steps
    return replace(
        end, name=f"soak-{seed}", title=f"{drawn} random faults in {minutes:g} minutes, seed {seed}; then {end.title}",
        steps=(*steps, replace(first, after_seconds=_REST_SECONDS[1]), *others), calm_steps=len(steps),
    )  # fmt: skip


def heals(scenario: Scenario) -> bool:
    """Whether a scenario leaves the environment as it found it, and needs no other one."""
    return not scenario.moves and not scenario.files and all(step.when is When.AT_ONCE for step in scenario.steps)


def seconds_of(scenario: Scenario) -> float:
    """How long the steps of a scenario take."""
    return sum(step.after_seconds for step in scenario.steps)
