"""What every store promises about the evidence of operations; memory, SQLite and PostgreSQL alike."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.facts.evidence.chain import check_chain
from state.errors import StaleTerm
from state.model.entities import Departure, Operation, Phase
from state.model.evidence import BEFORE_ALL, KEPT, Evidence, canonical, sha256_of
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of

DAY = timedelta(days=1)


def closed(store: ControllerStore, *names: str, outcome: str = "done") -> tuple[int, list[Operation]]:
    """Operations that ended one after the other, each of a query of its own; with the term."""
    term = held(store)
    made = [
        samples.operation(
            id=name, query=f"of-{name}", phase=Phase.SETTLED, outcome=outcome, ended_at=AT + number * SECOND
        )
        for number, name in enumerate(names)
    ]
    for operation in made:
        store.record(operation, term=term)
    return term, made


def kept(store: ControllerStore, operation: Operation, term: int, **facts: object) -> Evidence:
    facts = {"operation": {"id": operation.id}, **facts}
    found = store.keep_evidence(operation, facts, term=term, actor="controller:one")
    assert found is not None
    return found


def test_each_document_names_the_hash_of_the_one_before_it(store: ControllerStore) -> None:
    term, operations = closed(store, "a", "b", "c")
    first, second, third = (kept(store, each, term, note=each.id) for each in operations)
    assert (first.sequence, first.previous, second.previous) == (1, BEFORE_ALL, first.sha256)
    assert third.document == canonical(
        {"operation": {"id": "c"}, "note": "c", "shape": 1, "sequence": 3, "previous": second.sha256}
    )
    assert third.sha256 == sha256_of(third.document)
    assert store.evidence("c") == third
    assert list(store.evidence_after(0, limit=2)) == [first, second]
    assert list(store.evidence_after(2, limit=2)) == [third]
    assert check_chain(store)[1] == []


def test_it_is_written_once_and_announced_in_the_history(store: ControllerStore) -> None:
    term, (operation,) = closed(store, "a")
    made = kept(store, operation, term)
    assert store.keep_evidence(operation, {"another": 1}, term=term, actor="two") is None
    (event,) = store.history(kind=KEPT)
    assert (event.operation, event.query, event.actor) == ("a", "of-a", "controller:one")
    assert event.detail == {"sequence": 1, "sha256": made.sha256}
    assert store.evidence("a") == made


def test_those_without_are_the_closed_ones_in_the_order_of_their_ends(store: ControllerStore) -> None:
    term, operations = closed(store, "b", "a", outcome="failed")
    assert [each.id for each in store.without_evidence(limit=9)] == ["b", "a"], "and not the open one"
    assert [each.id for each in store.without_evidence(limit=1)] == ["b"]
    kept(store, operations[0], term)
    assert [each.id for each in store.without_evidence(limit=9)] == ["a"]


def test_only_the_leader_writes_it(store: ControllerStore) -> None:
    term, (operation,) = closed(store, "a")
    term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.keep_evidence(operation, {}, term=term, actor="one")
    assert store.evidence("a") is None
    assert store.history(kind=KEPT) == []


def test_an_open_operation_and_one_that_is_gone_get_none(store: ControllerStore) -> None:
    term, (operation,) = closed(store, "a")
    with pytest.raises(ValueError, match="is open"):
        store.keep_evidence(samples.operation(), {}, term=term, actor="one")
    assert store.keep_evidence(replace(operation, id="gone"), {}, term=term, actor="one") is None


def test_a_document_goes_with_its_operation_and_its_hash_stays(store: ControllerStore) -> None:
    term, operations = closed(store, "a", "b")
    again = [replace(each, id=f"{each.id}2", started_at=each.started_at + DAY) for each in operations]
    for each in again:
        store.record(each, term=term)
    made = [kept(store, each, term) for each in (*operations, *again)]
    assert store.prune(store.now() - SECOND, keep=1, limit=10, term=term).operations == 2
    assert [store.evidence(each.operation) for each in made] == [
        replace(made[0], document=None), replace(made[1], document=None), made[2], made[3]
    ]  # fmt: skip
    chain, flaws = check_chain(store)
    assert (chain.links, chain.documents, flaws) == (4, 2, [])


def test_of_a_forgotten_query_the_hashes_stay(store: ControllerStore) -> None:
    term, operations = closed(store, "a", "b")
    for each in operations:
        kept(store, each, term)
    store.forget("of-a", reported_at=None, event=samples.event(query="of-a", operation=None))
    assert [each.document is None for each in store.evidence_after(0, limit=9)] == [True, False]
    assert check_chain(store)[1] == []


def test_departures_name_the_last_move_away_from_each_cluster(store: ControllerStore) -> None:
    term = held(store)
    for epoch, source, target, phase in (
        (3, "east", "west", Phase.SETTLED),
        (4, "west", "east", Phase.SETTLED),
        (5, "east", "west", Phase.SETTLED),
        (6, "east", "west", Phase.ABORTED),
        (7, "east", "east", Phase.SETTLED),
    ):
        store.record(
            samples.operation(
                id=f"m{epoch}", query="other", epoch=epoch, source=source, target=target, phase=phase, outcome="done",
                started_at=AT + epoch * SECOND,
            ),
            term=term,
        )  # fmt: skip
    assert store.departures() == [
        Departure(query="other", source="east", target="west", operation="m5", epoch=5, at=AT + 5 * SECOND),
        Departure(query="other", source="west", target="east", operation="m4", epoch=4, at=AT + 4 * SECOND),
    ]
