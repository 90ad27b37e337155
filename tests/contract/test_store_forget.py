"""What every store promises about forgetting: a query by hand, and by age what no one needs any more."""

from datetime import timedelta

import pytest

from state.errors import Conflict, StaleTerm
from state.model.automation import Pause
from state.model.entities import Phase, RunState
from state.model.maintenance import PrunedRows, RememberedRows
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of
from tests.contract.test_store_upkeep import closed

DAY = timedelta(days=1)
LATER = AT + DAY
AT_MS = int(AT.timestamp() * 1000)
LANES = (SourcePartition("orders", "orders", 0),)
WHOLE = RememberedRows(
    assignments=1,
    operations=1,
    requests=1,
    reports=1,
    positions=2,
    stretches=1,
    readiness=1,
    samples=1,
    disorders=1,
    pauses=1,
    checkpoints=1,
    mappings=1,
)


def fill(store: ControllerStore, query: str, term: int) -> None:
    """A row of each kind, and two positions."""
    store.adopt(samples.assignment(query=query))
    went_on = samples.assignment(query=query, epoch=2, placed_epoch=2, checkpoint="/checkpoints/elsewhere")
    store.reconcile(went_on, from_epoch=1, event=samples.event(query=query))
    closed(store, term, f"op-{query}", days=0, query=query, phase=Phase.SETTLED)
    store.add_request(samples.request(id=f"r-{query}", query=query))
    store.answer(f"r-{query}", term=term, operation=f"op-{query}")
    store.report_query(samples.fact(query=query, state=RunState.STOPPED))
    store.save_positions([samples.position(query=query, partition=number) for number in (0, 1)])
    moment = Moment(AT_MS, (7,), (NO_TIME,), (0,))
    stretch = Stretch.of(query, 1, "east", LANES, [moment], precision_ms=1)
    store.save_timeline(stretch, keep=timedelta(days=10_000))
    event, sample = samples.event(query=query), samples.standby_sample(query=query)
    store.keep_readiness(samples.readiness(query=query), term=term, event=event, sample=sample)
    store.keep_disorder(samples.disorder(query=query), term=term)
    store.keep_mapping(query, "2-op.1", "{}")
    store.pause(Pause(scope=query, since=AT, until=None, reason="", actor="ann"), event=samples.event(query=query))


def reported(store: ControllerStore, query: str):  # type: ignore[no-untyped-def] # a time, or none
    return next((fact.reported_at for fact in store.query_facts() if fact.query == query), None)


def test_a_query_is_forgotten_whole_and_its_neighbour_is_not_touched(store: ControllerStore) -> None:
    term = term_of(store)
    fill(store, "gone", term)
    fill(store, "stays", term)
    events = len(store.history())
    assert (store.remembered("gone"), store.remembered("never")) == (WHOLE, RememberedRows())
    event = samples.event(query="gone", operation=None, text="gone is forgotten")
    assert store.forget("gone", reported_at=reported(store, "gone"), event=event) == WHOLE
    assert (store.remembered("gone"), store.remembered("stays")) == (RememberedRows(), WHOLE)
    assert (store.assignment("gone"), store.positions("gone"), store.timeline("gone")) == (None, [], [])
    assert (store.steps("op-gone"), store.intents("op-gone"), store.acknowledgements("gone")) == ([], [], [])
    assert len(store.steps("op-stays")) == 1
    assert store.request("r-gone") is None
    assert [each.text for each in store.history()][events:] == ["gone is forgotten"], "and every line of before stays"
    assert store.forget("gone", reported_at=None, event=event) == RememberedRows()
    assert store.adopt(samples.assignment(query="gone")).epoch == 1, "a new query"


def test_a_query_that_is_moved_is_not_forgotten(store: ControllerStore) -> None:
    held(store)
    before = store.remembered("revenue")
    with pytest.raises(Conflict, match="operation op-1 of it is open"):
        store.forget("revenue", reported_at=None, event=samples.event(text="forgotten"))
    assert store.remembered("revenue") == before
    assert "forgotten" not in [event.text for event in store.history()]


def test_a_query_that_was_reported_since_is_not_forgotten(store: ControllerStore) -> None:
    fill(store, "revenue", term_of(store))
    seen = reported(store, "revenue")
    store.report_query(samples.fact(reported_at=seen + SECOND))
    for looked in (seen, None):
        with pytest.raises(Conflict, match="a runner has just reported it"):
            store.forget("revenue", reported_at=looked, event=samples.event())
    assert store.remembered("revenue") == WHOLE


def test_a_move_that_comes_after_finds_no_query(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    term = term_of(store)
    store.forget("revenue", reported_at=None, event=samples.event(operation=None))
    hold = store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())
    assert hold is None
    assert store.operations() == []


# -- by age ----------------------------------------------------------------------------------------------------------
def test_the_name_of_a_runner_goes_when_nothing_names_it(store: ControllerStore) -> None:
    for runner in ("assigned", "reported", "silent"):
        store.register(samples.runner(runner=runner))
    store.adopt(samples.assignment(runner="assigned"))
    store.report_query(samples.fact(runner="reported"))
    term = term_of(store)
    assert store.prune(store.now() - DAY, keep=1, limit=10, term=term) == PrunedRows(), "they are young"
    assert store.prune(store.now() - timedelta(microseconds=1), keep=1, limit=10, term=term) == PrunedRows(runners=1)
    assert [fact.runner for fact in store.runners()] == ["assigned", "reported"]


def test_reports_and_positions_stay_with_their_assignment(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    for query in ("revenue", "gone"):
        store.report_query(samples.fact(query=query))
        store.save_positions([samples.position(query=query, partition=number) for number in range(3)])
    term = term_of(store)
    assert store.prune(AT + DAY, keep=1, limit=2, term=term) == PrunedRows(reports=1, positions=2)
    assert store.prune(AT + DAY, keep=1, limit=2, term=term) == PrunedRows(positions=1)
    assert (len(store.positions("revenue")), store.positions("gone")) == (3, [])
    assert [fact.query for fact in store.query_facts()] == ["revenue"]
    store.save_positions([samples.position(query="gone", tracked_at=LATER)])
    assert store.prune(LATER, keep=1, limit=2, term=term) == PrunedRows()


def test_the_end_of_a_partition_goes_when_no_query_reads_it(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    read = samples.position()
    store.save_positions([read])
    ends = [
        samples.end(cluster=read.cluster, topic=read.topic, partition=read.partition),
        samples.end(cluster=read.cluster, topic="dropped"),
        samples.end(cluster=read.cluster, topic="young", sampled_at=LATER),
    ]
    store.save_ends(ends)
    term = term_of(store)
    assert store.prune(LATER, keep=1, limit=10, term=term) == PrunedRows(ends=1)
    assert {key.topic for key in store.ends(read.cluster)} == {read.topic, "young"}


def test_a_verdict_that_is_not_renewed_is_forgotten(store: ControllerStore) -> None:
    term = term_of(store)
    for cluster, at in (("east", LATER), ("gone", AT)):
        status = samples.status(cluster=cluster, decided_at=at, term=term)
        store.record_status(status, term=term, event=samples.event(at=LATER))
    assert store.prune(LATER, keep=1, limit=10, term=term) == PrunedRows(cluster_statuses=1)
    assert [status.cluster for status in store.cluster_statuses()] == ["east"]


def test_a_stale_leader_clears_nothing(store: ControllerStore) -> None:
    stale = term_of(store, "one")
    term_of(store, "two")
    store.report_query(samples.fact(query="gone"))
    with pytest.raises(StaleTerm):
        store.prune(LATER, keep=1, limit=10, term=stale)
    assert len(store.query_facts()) == 1
