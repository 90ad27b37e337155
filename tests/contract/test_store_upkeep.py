"""What every store promises about readiness and pruning; memory, SQLite and PostgreSQL alike."""

from dataclasses import replace
from datetime import timedelta

import pytest

from state.errors import StaleTerm
from state.model.automation import Acknowledgement, NoticeCursor
from state.model.entities import Phase
from state.model.maintenance import PrunedRows
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of

DAY = timedelta(days=1)
LATER = AT + DAY
NOTHING = PrunedRows()


def closed(
    store: ControllerStore, term: int, name: str, *, days: int, phase: Phase = Phase.ABORTED, query: str = "late"
) -> None:
    """An operation that began so many days after ``AT`` and ended within a second, with all that belongs to it."""
    at = AT + days * DAY
    under_way = samples.operation(id=name, query=query, started_at=at)
    store.record(
        under_way,
        term=term,
        steps=[samples.step(operation=name)],
        events=[samples.event(at=at, operation=name, text=name)],
        intents=[samples.intent(id=f"{name}-fence", operation=name)],
    )
    outcome = "aborted" if phase is Phase.ABORTED else "done"
    ended = samples.operation(id=name, query=query, started_at=at, ended_at=at + SECOND, phase=phase, outcome=outcome)
    store.record(ended, term=term)
    given = Acknowledgement(operation=name, query=query, actor="ann@desk", reason="", at=at)
    store.acknowledge(given, event=samples.event(at=at, operation=name, text=f"{name} seen"))


def names(store: ControllerStore) -> list[str]:
    return sorted(operation.id for operation in store.operations())


def texts(store: ControllerStore) -> list[str]:
    return [event.text for event in store.history()]


# -- readiness -------------------------------------------------------------------------------------------------------
def test_readiness_enters_history_only_when_its_answer_changes(
    store: ControllerStore,
) -> None:
    term = term_of(store)
    assert store.keep_readiness(samples.readiness(), term=term, event=samples.event(text="ready"))
    later = samples.readiness(since=LATER, sampled_at=LATER, target="south", gates=())
    assert not store.keep_readiness(later, term=term, event=samples.event(text="still ready"))
    assert store.readiness() == [samples.readiness(sampled_at=LATER, target="south", gates=())]
    for answer in (False, None):
        changed = samples.readiness(ready=answer, since=LATER, sampled_at=LATER)
        assert store.keep_readiness(changed, term=term, event=samples.event(text=f"ready: {answer}"))
        assert store.readiness() == [changed]
    assert store.keep_readiness(samples.readiness(query="late"), term=term, event=samples.event(text="late"))
    assert [fact.query for fact in store.readiness()] == ["late", "revenue"]
    assert texts(store) == ["ready", "ready: False", "ready: None", "late"]


def test_readiness_of_a_stale_term_changes_nothing(store: ControllerStore) -> None:
    stale = term_of(store, "one")
    term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.keep_readiness(samples.readiness(), term=stale, event=samples.event(), replication=samples.replication())
    assert (store.readiness(), store.history(), store.replication("revenue")) == ([], [], None)


def test_a_replication_sample_comes_and_goes_with_its_readiness(
    store: ControllerStore,
) -> None:
    term = term_of(store)
    assert store.replication("revenue") is None
    first, second = samples.replication(), samples.replication(copies=(), latencies={"orders": (7, -9)})
    for sample in (first, second):
        store.keep_readiness(samples.readiness(), term=term, event=samples.event(), replication=sample)
        assert store.replication("revenue") == sample
    assert store.replication("late") is None
    assert store.readiness() == [samples.readiness()]
    store.keep_readiness(samples.readiness(), term=term, event=samples.event())
    assert store.replication("revenue") is None
    store.keep_readiness(samples.readiness(), term=term, event=samples.event(), replication=first)
    assert store.prune(LATER, keep=1, limit=10, term=term).readiness == 1
    assert store.replication("revenue") is None


# -- samples ---------------------------------------------------------------------------------------------------------
def test_samples_of_a_standby_are_kept_with_each_check_and_go_by_age(store: ControllerStore) -> None:
    term = term_of(store)
    first, second = samples.standby_sample(), samples.standby_sample(
        sampled_at=AT + SECOND, ready=None, exposure_records=None, exposure_seconds=None, copy_age_seconds=None
    )  # fmt: skip
    other = samples.standby_sample(query="late")
    for each in (second, first, other):
        store.keep_readiness(samples.readiness(query=each.query), term=term, event=samples.event(), sample=each)
    store.keep_readiness(samples.readiness(), term=term, event=samples.event())
    assert store.standby_samples("revenue") == [first, second]
    assert store.standby_samples("revenue", since=AT + SECOND) == [second]
    assert store.standby_samples("never") == []
    with pytest.raises(StaleTerm):
        store.keep_readiness(samples.readiness(), term=term - 1, event=samples.event(), sample=first)
    for before, limit, refusal in ((AT + SECOND, 1, StaleTerm), (store.now() + DAY, 1, ValueError)):
        with pytest.raises(refusal):
            store.prune_standby_samples(before, limit=limit, term=term - (refusal is StaleTerm))
    assert [store.prune_standby_samples(AT + SECOND, limit=1, term=term) for _ in range(3)] == [1, 1, 0]
    assert [store.standby_samples(query) for query in ("revenue", "late")] == [[second], []]


# -- disorder --------------------------------------------------------------------------------------------------------
def test_each_receiver_of_notices_has_one_row_that_only_a_leader_writes(store: ControllerStore) -> None:
    assert store.notice_cursors() == []
    term = term_of(store)
    texts = NoticeCursor(
        target="oncall", sequence=7, incidents={"cluster:east": "east is DOWN"}, told_at=AT, failures=2
    )
    other = NoticeCursor(target="mail", sequence=2**40, incidents={}, failing_since=AT, error="refused")
    for each in (texts, other):
        store.keep_notice_cursor(each, term=term)
    assert store.notice_cursors() == [other, texts]
    newer = replace(texts, sequence=9, incidents={})
    store.keep_notice_cursor(newer, term=term)
    with pytest.raises(StaleTerm):
        store.keep_notice_cursor(texts, term=term - 1)
    assert store.notice_cursors() == [other, newer]


def test_the_last_measure_of_disorder_is_kept(store: ControllerStore) -> None:
    term = term_of(store)
    assert store.disorder("revenue") is None
    moved = samples.disorder(placed_epoch=3, cluster="west", topics=(), measured_at=LATER)
    for found in (samples.disorder(), samples.disorder(query="late"), moved):
        store.keep_disorder(found, term=term)
        assert store.disorder(found.query) == found
    assert store.disorder("late") == samples.disorder(query="late")
    stale, term = term, term_of(store, "another")
    with pytest.raises(StaleTerm):
        store.keep_disorder(samples.disorder(), term=stale)
    assert store.prune(LATER, keep=1, limit=10, term=term) == PrunedRows(disorders=1)
    assert (store.disorder("late"), store.disorder("revenue")) == (None, moved)


# -- pruning ---------------------------------------------------------------------------------------------------------
def test_an_operation_goes_with_all_that_belongs_to_it(store: ControllerStore) -> None:
    term = term_of(store)
    for number in range(3):
        closed(store, term, f"x{number}", days=number)
    assert store.prune(AT + DAY, keep=1, limit=10, term=term) == PrunedRows(operations=1, events=2)
    assert names(store) == ["x1", "x2"]
    assert (store.steps("x0"), store.intents("x0")) == ([], [])
    assert [given.operation for given in store.acknowledgements("late")] == ["x2", "x1"]
    assert texts(store) == ["x1", "x1 seen", "x2", "x2 seen"]
    assert store.prune(AT + DAY, keep=1, limit=10, term=term) == NOTHING


def test_pruning_keeps_the_newest_placing_and_the_newest_other_operations(store: ControllerStore) -> None:
    term = term_of(store)
    closed(store, term, "placed-0", days=0, phase=Phase.SETTLED)
    closed(store, term, "placed-1", days=1, phase=Phase.SETTLED)
    for number in range(4):
        closed(store, term, f"vain-{number}", days=2 + number)
    closed(store, term, "other", days=0, query="other")
    assert store.prune(AT + 30 * DAY, keep=1, limit=10, term=term).operations == 4
    assert names(store) == ["other", "placed-1", "vain-3"]
    assert set(texts(store)) == {text for name in names(store) for text in (name, f"{name} seen")}


def test_pruning_keeps_open_and_assigned_operations_with_their_lines(store: ControllerStore) -> None:
    store.adopt(samples.assignment(operation="x0"))
    term = term_of(store)
    closed(store, term, "x0", days=0, query="revenue")
    closed(store, term, "x1", days=1, query="revenue")
    store.record(samples.operation(started_at=AT - DAY), term=term, steps=[samples.step()], events=[samples.event()])
    assert store.prune(AT + 30 * DAY, keep=1, limit=10, term=term) == NOTHING
    assert names(store) == ["op-1", "x0", "x1"]
    assert len(store.steps("op-1")) == 1
    assert "revenue is held" in texts(store)


def test_lines_of_history_go_by_age_and_numbers_are_never_given_again(store: ControllerStore) -> None:
    term = term_of(store)
    for number in range(3):
        store.note(samples.event(at=AT + number * SECOND, operation=None, text=str(number)))
    assert store.prune(AT + 2 * SECOND, keep=1, limit=10, term=term) == PrunedRows(events=2)
    assert texts(store) == ["2"]
    assert store.prune(AT + DAY, keep=1, limit=10, term=term) == PrunedRows(events=1)
    store.note(samples.event(operation=None))
    assert [event.sequence for event in store.history()] == [4]
    assert [event.sequence for event in store.history(after=3)] == [4]
    assert store.history(after=4) == []


def test_requests_go_when_they_are_over_and_never_while_they_wait(store: ControllerStore) -> None:
    term = term_of(store)
    closed(store, term, "x0", days=0)
    closed(store, term, "x1", days=1)
    for name in ("waiting", "refused", "gone", "stands"):
        store.add_request(samples.request(id=name))
    store.add_request(samples.request(id="young", created_at=AT + 40 * DAY))
    for name in ("refused", "young"):
        store.answer(name, term=term, refused="no runner")
    store.answer("gone", term=term, operation="x0")
    store.answer("stands", term=term, operation="x1")
    pruned = store.prune(AT + 30 * DAY, keep=1, limit=10, term=term)
    assert (pruned.operations, pruned.requests) == (1, 2)
    assert [store.request(name) is None for name in ("waiting", "refused", "gone", "stands", "young")] == [
        False, True, True, False, False,
    ]  # fmt: skip


def test_pruning_removes_probe_reports_and_readiness_that_are_not_renewed(store: ControllerStore) -> None:
    term = term_of(store)
    store.save_probe_reports([samples.probe_report(), samples.probe_report(viewpoint="runner:a", seen_at=LATER)])
    for query, at in (("revenue", LATER), ("gone", AT)):
        store.keep_readiness(samples.readiness(query=query, sampled_at=at), term=term, event=samples.event(at=LATER))
    assert store.prune(LATER, keep=1, limit=10, term=term) == PrunedRows(probe_reports=1, readiness=1)
    assert [seen.viewpoint for seen in store.probe_reports()] == ["runner:a"]
    assert [fact.query for fact in store.readiness()] == ["revenue"]


def test_one_round_takes_no_more_than_it_may_and_the_oldest_first(store: ControllerStore) -> None:
    term = term_of(store)
    for number in range(5):
        at = AT + number * DAY
        closed(store, term, f"x{number}", days=number)
        store.add_request(samples.request(id=f"r{number}", created_at=at))
        store.answer(f"r{number}", term=term, refused="no")
        store.save_probe_reports([samples.probe_report(viewpoint=f"runner:{number}", seen_at=at)])
    assert store.prune(AT + 30 * DAY, keep=1, limit=2, term=term) == PrunedRows(
        operations=2, requests=2, probe_reports=2, events=2
    )
    assert names(store) == ["x2", "x3", "x4"]
    assert [seen.viewpoint for seen in store.probe_reports()] == ["runner:2", "runner:3", "runner:4"]
    assert (store.request("r1"), store.request("r2") is None) == (None, False)
    assert texts(store)[:2] == ["x1", "x1 seen"]
    rounds = [store.prune(AT + 30 * DAY, keep=1, limit=2, term=term) for _ in range(5)]
    assert rounds[-1] == NOTHING
    assert names(store) == ["x4"]


def test_a_stale_term_and_a_time_to_come_prune_nothing(store: ControllerStore) -> None:
    stale = term_of(store, "one")
    store.note(samples.event(operation=None))
    term = term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.prune(LATER, keep=1, limit=10, term=stale)
    for before, keep, limit in ((store.now() + DAY, 1, 1), (LATER, 0, 1), (LATER, 1, 0)):
        with pytest.raises(ValueError, match=r"past|at least 1"):
            store.prune(before, keep=keep, limit=limit, term=term)
    assert len(store.history()) == 1


def test_pruning_with_an_earlier_time_than_before_is_harmless(store: ControllerStore) -> None:
    """A person chose to keep more from now on: what is gone is gone, and the rest stays."""
    term = held(store)
    store.note(samples.event(operation=None, text="alone"))
    assert store.prune(AT + DAY, keep=1, limit=10, term=term) == PrunedRows(events=1)
    assert store.prune(AT, keep=1, limit=10, term=term) == NOTHING
    assert texts(store) == ["revenue is held"]
