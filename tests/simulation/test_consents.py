"""Consents that are typed while an operation is under way: on its way back, and while the gates judge."""

import pytest

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.move_facts import MoveFacts
from state.model.entities import Phase, Request
from tests.simulation.control import scheduler, see_to
from tests.simulation.world import World, settings


def cautious() -> World:
    """West lacks 10 s of records, and one is allowed."""
    return World(settings(policy={"max_exposure": "1s"}))


def test_a_consent_given_on_the_way_back_opens_the_next_operation() -> None:
    world = cautious()
    refused, held = world.request(), scheduler(world)
    world.clock.lives.insert(0, lambda: setattr(world.runner, "answers", opened_phase(world) is not Phase.ABORTED))
    see_to(world, held, 2)
    assert opened_phase(world) is Phase.ABORTED
    request = world.request(consents=("loss",))
    see_to(world, held, 2)
    assert [request.id for request in world.store.open_requests()] == [request.id], "it waits"
    del world.clock.lives[0]
    world.runner.answers = True
    see_to(world, held, 20)
    outcomes = {operation.id: operation.outcome for operation in world.store.operations()}
    assert outcomes == {refused.id: "refused", request.id: "done"}
    assert world.store.open_requests() == []


def opened_phase(world: World) -> Phase | None:
    return next((operation.phase for operation in world.store.operations(only_open=True)), None)


def test_a_failover_typed_on_the_way_back_begins_the_next_operation() -> None:
    """What kept the first one back is over by then; it inherits no refusal."""
    world = cautious()
    world.clock.lives.insert(0, lambda: setattr(world.runner, "answers", opened_phase(world) is not Phase.ABORTED))
    operation = world.carry_out(world.request(), seconds=2)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, None)
    again, held = world.request(), scheduler(world)
    see_to(world, held, 2)
    assert [request.id for request in world.store.open_requests()] == [again.id], "it waits"
    del world.clock.lives[0]
    world.runner.answers = True
    world.settings = settings()  # east lags no more than is allowed now
    held.settings = world.settings
    see_to(world, held, 20)
    assert {each.id: each.outcome for each in world.store.operations()} == {operation.id: "refused", again.id: "done"}


def test_a_consent_that_comes_while_the_gates_judge_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cautious()
    judge = checks.judge_move
    requested: list[Request] = []

    def consent(facts: MoveFacts) -> tuple[Gate, ...]:
        judged = judge(facts)
        operations = world.store.operations()
        if not requested and operations and operations[0].phase is Phase.RESOLVING:
            requested.append(world.request(consents=("loss",)))
            scheduler(world, lead).take()
        return judged

    monkeypatch.setattr(checks, "judge_move", consent)
    request, lead = world.request(), world.lead()
    assert lead.take()
    see_to(world, scheduler(world, lead), 20)
    (operation,) = world.store.operations()
    assert (operation.id, operation.outcome, operation.consents) == (request.id, "done", ("loss",))
