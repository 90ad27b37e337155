"""What an operator is shown to do after a failover."""

from typing import Any

from orchestrator.cli.moves.next_step import next_steps
from orchestrator.decide.operation.snapshot import AWAITS
from orchestrator.decide.operation.turns import THERE
from state.model.entities import Operation
from state.model.plan import Plan, Totals
from tests.contract import samples


def ended(query: str = "revenue", later: int | None = 0, **change: Any) -> Operation:
    plan = Plan(totals=Totals(replay_later_records=later))
    return samples.operation(**{"id": f"op-{query}", "query": query, "outcome": "done", "plan": plan} | change)


def steps(*operations: Operation | None) -> list[str]:
    named = [each.query if each is not None else f"q{number}" for number, each in enumerate(operations)]
    requests = [
        samples.request(query=name, target="west", refused=None if each else "no")
        for name, each in zip(named, operations, strict=True)
    ]
    return next_steps(list(zip(requests, operations, strict=True)))


def test_after_a_whole_failover_the_producers_follow() -> None:
    assert steps(ended(), ended("clicks")) == ["next: let the producers write to west"]


def test_a_replicator_that_would_append_what_was_read_is_to_stay_stopped() -> None:
    assert steps(ended(later=3), ended("clicks", later=1))[1] == (
        "next: keep the replicator from east stopped: it would append up to 3 records of a query that were read already"
    )


def test_an_unknown_number_of_later_records_is_not_called_nothing() -> None:
    assert "an unknown number of records" in steps(ended(later=3), ended("clicks", later=None))[1]


def test_a_query_that_stayed_is_named_with_the_command_that_shows_why() -> None:
    assert steps(ended(), None, ended("sums", outcome="refused"))[1:] == [
        "next: tideover plan failover q1 --to west shows what refuses: q1, sums"
    ]
    assert steps(ended("late", outcome="failed")) == ["next: tideover show-op op-late shows what failed: late"]


def test_an_open_operation_is_followed_by_the_same_command() -> None:
    assert steps(ended(outcome=None)) == ["next: run the same command again to see how it ends: revenue"]


def test_a_request_that_waits_for_its_turn_is_open() -> None:
    waiting = samples.request(query="late", target="west", operation=None, refused=None)
    assert next_steps([(waiting, None)]) == ["next: run the same command again to see how it ends: late"]


def test_a_query_that_was_there_already_needs_no_next_step() -> None:
    there = samples.request(query="sums", target="west", operation=None, refused=f"{THERE}: sums is on west")
    assert next_steps([(there, None)]) == []


def test_an_application_that_starts_later_has_moved() -> None:
    assert steps(ended(outcome=None, sentence=AWAITS + "x")) == ["next: let the producers write to west"]


def test_where_nothing_was_to_do_nothing_follows() -> None:
    assert steps() == []
