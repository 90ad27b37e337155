"""A drill is open beside whatever else a query is in: it hides nothing, holds nothing up, and is requested by name."""

import pytest

from state.errors import Conflict
from state.model.entities import DRILLS, EVERY_KIND, MOVES, Desired, IntentKind, OperationKind, Phase
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND


@pytest.fixture
def term(store: ControllerStore) -> int:
    """A query that runs, and a drill of it that is open."""
    store.adopt(samples.assignment())
    term = samples.term_of(store)
    begin(store, term, "drill-1")
    return term


def begin(store: ControllerStore, term: int, name: str, **change: object) -> None:
    drill = samples.operation(id=name, kind=OperationKind.DRILL, epoch=1, phase=Phase.RESOLVING, **change)
    store.record(drill, term=term, steps=[samples.step(operation=name)])


def test_a_drill_is_found_only_where_it_is_named(store: ControllerStore, term: int) -> None:
    assert store.operations() == store.operations(query="revenue", only_open=True) == []
    for kinds in (DRILLS, EVERY_KIND):
        assert [each.id for each in store.operations(query="revenue", only_open=True, kinds=kinds)] == ["drill-1"]
    assert store.operations(kinds=MOVES) == []


def test_a_query_is_held_while_it_is_rehearsed(store: ControllerStore, term: int) -> None:
    moved = store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())
    assert moved is not None
    assert moved.desired is Desired.HELD
    assert [each.id for each in store.operations(only_open=True)] == ["op-1"]
    assert [each.id for each in store.operations(only_open=True, kinds=DRILLS)] == ["drill-1"]


def test_a_query_has_one_open_drill(store: ControllerStore, term: int) -> None:
    with pytest.raises(Conflict):
        begin(store, term, "drill-2")
    begin(store, term, "drill-1", outcome="done", ended_at=AT)
    begin(store, term, "drill-2")


def test_reconciling_leaves_an_open_drill_to_itself(store: ControllerStore, term: int) -> None:
    wanted = samples.assignment(epoch=4, placed_epoch=4, changed_at=AT + SECOND)
    assert store.reconcile(wanted, from_epoch=1, event=samples.event())
    drill = store.operation("drill-1")
    assert drill is not None
    assert drill.is_open


def test_a_drill_is_requested_of_a_runner_and_closing_takes_it_back(store: ControllerStore, term: int) -> None:
    intent = samples.intent(operation="drill-1", name="drill", kind=IntentKind.DRILL, epoch=1)
    drill = store.operation("drill-1")
    assert drill is not None
    store.record(drill, term=term, intents=[intent])
    assert store.pending_intents("a") == [intent]
    begin(store, term, "drill-1", outcome="refused", ended_at=AT)
    assert store.pending_intents("a") == []


def test_requests_of_drills_are_read_by_their_kind(store: ControllerStore) -> None:
    move, drill = samples.request(), samples.request(id="request-2", kind=OperationKind.DRILL)
    for each in (move, drill):
        store.add_request(each)
    assert store.open_requests() == [move]
    assert store.open_requests(kinds=DRILLS) == [drill]
    assert store.open_requests(kinds=EVERY_KIND) == [move, drill]


def test_drills_push_no_move_out_of_what_is_kept(store: ControllerStore, term: int) -> None:
    begin(store, term, "drill-1", outcome="done", ended_at=AT)
    moved = samples.operation(epoch=1, phase=Phase.SETTLED, outcome="done", ended_at=AT, started_at=AT - SECOND)
    store.record(moved, term=term)
    settled = samples.operation(
        id="drill-3", kind=OperationKind.DRILL, epoch=1, phase=Phase.SETTLED, outcome="done", ended_at=AT
    )
    store.record(settled, term=term)
    store.prune(store.now(), keep=1, limit=100, term=term)
    assert store.operation("op-1") is not None


def test_a_drill_takes_no_query_away(store: ControllerStore, term: int) -> None:
    begin(store, term, "drill-1", outcome="done", ended_at=AT)
    proven = samples.operation(
        id="drill-3", kind=OperationKind.DRILL, epoch=1, phase=Phase.SETTLED, outcome="done", ended_at=AT
    )
    store.record(proven, term=term)
    assert store.departures() == []
