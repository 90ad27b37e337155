"""How often an operation could not be driven on, and what follows from it."""

from dataclasses import replace

import pytest

from orchestrator.decide.operation.snapshot import TRIES, cannot_go_on, failures_of
from state.model.entities import Operation, Phase
from tests.contract import samples


def failed(times: int | None, phase: Phase = Phase.RESOLVING) -> Operation:
    operation = samples.operation(phase=phase)
    return replace(operation, measured=replace(operation.measured, failures=times))


@pytest.mark.parametrize(("counted", "failures"), [(None, 0), (1, 1), (TRIES, TRIES)])
def test_an_operation_without_a_count_has_never_failed(counted: int | None, failures: int) -> None:
    assert failures_of(failed(counted)) == failures


@pytest.mark.parametrize(
    ("times", "phase", "given_up"),
    [(TRIES - 1, Phase.RESOLVING, False), (TRIES, Phase.RESOLVING, True), (TRIES, Phase.STARTING, False)],
)
def test_only_before_the_commit_and_after_some_tries_is_it_given_up(times: int, phase: Phase, given_up: bool) -> None:
    assert (cannot_go_on(failed(times, phase), "an error").trigger is not None) is given_up
