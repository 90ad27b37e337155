"""What every store reports of changes: by open operation a mark, another one once something came for its driver."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from state.model.entities import IntentState, OperationKind, Phase, RunState
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held


def waiting(store: ControllerStore) -> int:
    """An operation whose intent is requested, of a query that a runner reported; the term."""
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    assert store.report_query(samples.fact())
    return term


def answer(store: ControllerStore, term: int) -> None:
    assert store.report(samples.intent(state=IntentState.DONE, result={}, ended_at=AT + SECOND))


def report(store: ControllerStore, term: int) -> None:
    assert store.report_query(samples.fact(batch=118))


def stop(store: ControllerStore, term: int) -> None:
    assert store.report_query(samples.fact(state=RunState.STOPPED))


def write_request(store: ControllerStore, term: int) -> None:
    store.add_request(samples.request(kind=OperationKind.FAILOVER, query=samples.operation().query))


def consent(store: ControllerStore, term: int) -> None:
    assert store.consent("op-1", ("gap",), term=term, event=samples.event())


@pytest.mark.parametrize("come", [answer, report, stop, write_request, consent], ids=lambda come: come.__name__)
def test_a_mark_changes_with_all_that_a_driver_waits_for(
    store: ControllerStore, come: Callable[[ControllerStore, int], None]
) -> None:
    term = waiting(store)
    before = store.change_marks()
    assert list(before) == ["op-1"]
    assert store.change_marks() == before
    come(store, term)
    after = store.change_marks()
    assert list(after) == ["op-1"]
    assert after["op-1"] != before["op-1"]


def test_news_of_another_query_leaves_a_mark_as_it_is(store: ControllerStore) -> None:
    waiting(store)
    before = store.change_marks()
    assert store.report_query(samples.fact(query="another"))
    store.add_request(samples.request(id="another", query="another"))
    assert store.change_marks() == before


def test_a_closed_operation_has_no_mark(store: ControllerStore) -> None:
    term = waiting(store)
    closed = replace(samples.operation(), phase=Phase.ABORTED, outcome="aborted", ended_at=AT + SECOND)
    store.record(closed, term=term)
    assert store.change_marks() == {}


def test_the_report_of_one_query_is_read_alone(store: ControllerStore) -> None:
    for query in ("one", "two"):
        assert store.report_query(samples.fact(query=query))
    assert store.query_facts(query="two") == [samples.fact(query="two")]
    assert store.query_facts(query="three") == []


def test_the_ends_of_some_topics_are_read_alone(store: ControllerStore) -> None:
    wanted, other = samples.end(topic="wanted"), samples.end(topic="other")
    store.save_ends([wanted, other, samples.end(topic="wanted", cluster="elsewhere")])
    assert list(store.ends(wanted.cluster, topics=frozenset({"wanted", "absent"})).values()) == [wanted]
    assert store.ends(wanted.cluster, topics=frozenset()) == {}
    assert len(store.ends(wanted.cluster)) == 2
