"""An operation that waits for proof: it looks again soon at first, seldom later, whatever the clocks of others say."""

import pytest

from orchestrator.cli.progress import QUIET_SECONDS, Progress
from state.model.entities import IntentKind
from tests.simulation.world import World


def looks(world: World, seconds: float) -> int:
    """How often a fence was requested, while nothing proves that the old run has stopped."""
    world.runner.proof = None
    operation = world.carry_out(world.request(), seconds=seconds)
    assert operation is not None
    assert operation.is_open
    return sum(1 for intent in world.store.intents(operation.id) if intent.kind is IntentKind.FENCE)


def test_an_operation_that_waits_for_a_person_writes_less_and_less() -> None:
    assert looks(World(), 9) == 5
    assert looks(World(), 600) <= 20


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_host_with_a_clock_an_hour_off_still_probes_again(ahead: float) -> None:
    world = World()
    world.clock.set_ahead = ahead
    assert looks(world, 9) == 5


def test_a_store_whose_clock_was_set_back_does_not_either() -> None:
    world = World()
    first = looks(world, 9)
    world.clock.store_set_ahead = -3600.0
    assert first < looks(world, 9) <= first + 6


def test_a_command_that_waits_names_what_is_open_each_quarter_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing proves that the old run has stopped, and no step is written: a terminal without a line looks dead."""
    world = World()
    world.runner.proof = None
    request = world.request()
    world.carry_out(request, seconds=5)
    progress = Progress(world.store, [request], at_once=8, upstream={}, now=world.clock.monotonic)
    progress.say()
    begun = capsys.readouterr().err
    assert " hold: " in begun
    assert " is still " not in begun
    for seconds, lines in ((QUIET_SECONDS - 1, 0), (2, 1), (QUIET_SECONDS - 1, 0), (2, 1)):
        world.clock.wait(seconds)
        progress.say()
        said = [line for line in capsys.readouterr().err.splitlines() if " is still " in line]
        assert len(said) == lines
        assert all(line.startswith("revenue is still BLOCKED: ") for line in said)
