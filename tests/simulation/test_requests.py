"""Requests that cannot be taken do not keep the others waiting."""

from collections.abc import Mapping
from typing import cast

import pytest

from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import NAME, TTL
from orchestrator.new_requests import TAKEN_WITHIN, RequestSpec, submit
from orchestrator.operation.automatic_failover import AutomaticFailover
from orchestrator.operation.execute import Executor
from orchestrator.operation.pauses import pause
from state.errors import Conflict, StaleTerm
from state.model.automation import AUTOMATIC, EVERY
from state.model.cluster_status import ClusterStatus, Verdict
from state.model.entities import OperationKind, Phase, Request
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.simulation.control import scheduler, see_to
from tests.simulation.stores import Crash, CrashingStore, FrozenStore
from tests.simulation.world import World, settings


@pytest.fixture
def world() -> World:
    return World(settings(queries=("first", "second"), policy={"automatic": True}))


def requested_automatically(world: World) -> Request:
    """A failover that a leader, who may be gone since, requested."""
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={"first": "west"}, expect_active={}, actor=AUTOMATIC,
        reason="east is down", consents=(),
    )  # fmt: skip
    return submit(world.store, wish)[0]


def test_requests_of_one_command_are_numbered_from_one(world: World) -> None:
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={"first": "west", "second": "west"}, expect_active={}, actor="ann",
        reason="", consents=(),
    )  # fmt: skip
    first, second = submit(world.store, wish)
    assert (first.id, second.id) == (f"{first.group}-1", f"{first.group}-2")


def record_status(world: World, verdicts: Mapping[str, Verdict], term: int) -> dict[str, ClusterStatus]:
    now = world.store.now()
    given = {
        name: samples.status(
            cluster=name, verdict=verdict, since=now, down_since=now if verdict is Verdict.DOWN else None,
            decided_at=now, term=term,
        )
        for name, verdict in verdicts.items()
    }  # fmt: skip
    for status in given.values():
        world.store.record_status(status, term=term, event=samples.event())
    return given


def opened(world: World) -> list[str]:
    return [operation.query for operation in world.store.operations(only_open=True)]


def test_a_verb_never_follows_the_operation_of_another_verb(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.new_requests.secrets.token_hex", lambda size: "ab" * size)
    first = world.request("first")
    assert first.id.endswith("-abababab"), "32 bits"
    with pytest.raises(Conflict, match="requests something else"):
        world.request("second")
    scheduler(world).take()
    assert opened(world) == ["first"]


@pytest.mark.parametrize("verdict", [Verdict.UP, Verdict.SUSPECT, Verdict.DOWN])
def test_a_person_may_request_a_move_whatever_the_verdict(world: World, verdict: Verdict) -> None:
    """Each of the phases before an operation is left by a hold."""
    held = scheduler(world)
    record_status(world, {"east": verdict}, held.lead.term)
    request = world.request("first")
    held.take()
    (operation,) = world.store.operations()
    assert (operation.id, operation.phase) == (request.id, Phase.FENCING)


def test_a_query_that_is_declared_no_more_is_refused_also_behind_its_commit(world: World) -> None:
    world.runner.commits = False
    placed = world.carry_out(world.request("first"), seconds=1)
    assert placed is not None
    assert placed.phase is Phase.VERIFYING
    requested = [world.request("first", target="east"), world.request("second")]
    world.settings = world.settings.model_copy(update={"queries": {"second": world.settings.queries["second"]}})
    scheduler(world).take()
    answers = [world.store.request(request.id) for request in requested]
    assert [answer and answer.refused for answer in answers] == ["query 'first' is not declared", None]
    assert opened(world) == ["second", "first"]


def test_an_operation_to_an_undeclared_cluster_stops_nothing_else(world: World) -> None:
    world.runner.commits = False
    placed = world.carry_out(world.request("first"), seconds=1)
    assert placed is not None
    assert placed.phase is Phase.VERIFYING
    back = world.request("first", target="east")
    declared = {"east": world.settings.clusters["east"]}
    world.settings = world.settings.model_copy(update={"clusters": declared, "routes": ()})
    del world.clusters["west"]
    held = scheduler(world)
    see_to(world, held, 5)
    operation = world.store.operation(placed.id)
    assert operation is not None
    assert operation.outcome == "failed"
    assert "west does not answer: it is no longer declared" in operation.sentence
    answered = world.store.request(back.id)
    assert answered is not None
    assert (answered.refused or "").startswith("route-declared")


def test_a_request_that_contradicts_the_store_is_left_and_the_next_one_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = world.request("first"), world.request("second")
    hold = world.store.hold

    def contradict(operation, **rest):  # type: ignore[no-untyped-def]  # passes on
        if operation.query == "first":
            raise Conflict
        return hold(operation, **rest)

    monkeypatch.setattr(world.store, "hold", contradict)
    held = scheduler(world)
    held.take()
    assert opened(world) == ["second"]
    assert [request.id for request in world.store.open_requests()] == [first.id]
    monkeypatch.undo()
    held.take()
    assert sorted(opened(world)) == ["first", "second"]


@pytest.mark.parametrize(
    ("east", "paused", "refused"),
    [
        (Verdict.DOWN, False, None),
        (Verdict.UP, False, "cluster-down: east is not known to be down: UP"),
        (None, False, "cluster-down: east is not known to be down: no verdict"),
        (
            Verdict.DOWN,
            True,
            "not-paused: ann@desk paused automatic failover of all queries until tideover resume --all: upgrade",
        ),
    ],
)
def test_an_automatic_request_is_judged_again_when_it_is_taken(
    world: World, east: Verdict | None, paused: bool, refused: str | None
) -> None:
    request, held = requested_automatically(world), scheduler(world)
    record_status(world, {"west": Verdict.UP} | ({"east": east} if east else {}), held.lead.term)
    if paused:
        pause(world.store, EVERY, until=None, actor="ann@desk", reason="upgrade")
    held.take()
    stored = world.store.request(request.id)
    assert stored is not None
    assert (stored.refused or "").startswith(refused or "")
    assert opened(world) == ([] if refused else ["first"])


def test_a_request_of_a_former_leader_needs_a_verdict_of_ones_own(world: World) -> None:
    before = scheduler(world).lead.term
    record_status(world, {"east": Verdict.DOWN, "west": Verdict.UP}, before)
    world.clock.wait(8)
    request = requested_automatically(world)
    world.clock.wait(TTL.total_seconds() - 8)
    scheduler(world).take()
    stored = world.store.request(request.id)
    assert stored is not None
    assert stored.refused == "cluster-down: east is not known to be down: no verdict"


def test_a_leader_that_was_replaced_makes_no_request(world: World) -> None:
    term = scheduler(world).lead.term
    statuses = record_status(world, {"east": Verdict.DOWN, "west": Verdict.UP}, term)
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    automatic_failover = AutomaticFailover(
        store=world.store, settings=world.settings, gatherer=gatherer, clock=world.clock
    )
    assert world.store.lead(NAME, "next", TTL) is None
    assert world.store.seize(NAME, "next", world.store.leader(NAME).holder, TTL)  # type: ignore[union-attr] # led
    with pytest.raises(StaleTerm):
        automatic_failover.submit(statuses, term=term)
    assert world.store.open_requests() == []


def test_a_frozen_leader_sends_no_notice_when_it_wakes_up(world: World) -> None:
    term = scheduler(world).lead.term
    statuses = record_status(world, {"east": Verdict.DOWN, "west": Verdict.DOWN}, term)
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )

    def others() -> None:
        assert world.store.seize(NAME, "next", world.store.leader(NAME).holder, TTL)  # type: ignore[union-attr] # led

    store = cast(ControllerStore, FrozenStore(world.store, "note", others))
    before = world.store.history()
    with pytest.raises(StaleTerm):
        AutomaticFailover(store=store, settings=world.settings, gatherer=gatherer, clock=world.clock).submit(
            statuses, term=term
        )
    assert world.store.history() == before


def test_a_leader_that_dies_when_it_has_refused_leaves_the_line_of_history(world: World) -> None:
    request = world.request("first", target="east")
    dying = CrashingStore(world.store, 1, verbs={"answer"})
    with pytest.raises(Crash):
        world.carry_out(request, store=cast(ControllerStore, dying))
    assert [(event.kind, event.text) for event in world.store.history()] == [
        ("refused", "not-already-there: first is already on east")
    ]


def test_a_request_whose_operation_has_ended_since_moves_nothing_again(world: World) -> None:
    """Its taker died after the hold; the next leader drives what is open before it takes requests again."""
    request = world.request("first")
    dying = CrashingStore(world.store, 1, verbs={"hold"})
    with pytest.raises(Crash):
        world.carry_out(request, store=cast(ControllerStore, dying))
    assert opened(world) == ["first"]
    world.clock.wait(TTL.total_seconds())
    next_leader = scheduler(world)
    Executor(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock,
        lead=next_leader.lead, actor="controller",
    ).drive(request.id)  # fmt: skip
    next_leader.take()
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.operation, answered.refused) == (request.id, None)
    assert [(each.id, each.phase) for each in world.store.operations(query="first")] == [(request.id, Phase.SETTLED)]


def test_a_request_that_was_answered_since_it_was_listed_is_not_taken_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, lead = world.request("first"), world.lead()
    listed = world.store.open_requests()
    assert lead.take()
    world.store.answer(request.id, term=lead.term, refused="called off")
    monkeypatch.setattr(world.store, "open_requests", lambda **_: listed)
    scheduler(world, lead).take()
    assert opened(world) == []


def test_a_request_is_taken_in_its_time_or_not_at_all(world: World) -> None:
    request = world.request("first")
    world.clock.wait(TAKEN_WITHIN.total_seconds())
    scheduler(world).take()
    stored = world.store.request(request.id)
    assert stored is not None
    assert (
        stored.refused == "no controller took it before it expired at 2026-01-31T12:02:00.000Z; run the command again"
    )
    assert opened(world) == []


def test_an_operation_has_all_that_was_requested_beside_its_target(world: World) -> None:
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={"first": "west"}, expect_active={}, actor="operator", reason="",
        consents=(), parameters={"rate": 2},
    )  # fmt: skip
    (request,) = submit(world.store, wish)
    scheduler(world).take()
    opened_for = world.store.operation(request.id)
    assert opened_for is not None
    assert opened_for.parameters == {"rate": 2}
