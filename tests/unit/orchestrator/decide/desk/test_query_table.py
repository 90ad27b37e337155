"""Which queries the overview lists, and in which order."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.desk.lines import QueryLine, copy_age, query_lines
from orchestrator.decide.desk.query_table import Chosen, chosen_of, counts_of
from state.model.entities import RunState
from tests.contract import samples
from tests.contract.samples import AT
from tests.unit.orchestrator.decide.desk.test_attention import COPY, QUERIES, status


def lines() -> tuple[QueryLine, ...]:
    """Revenue fails, sums is away and not ready, totals has the oldest progress, users an old copy."""
    facts = [
        samples.fact(query="revenue", state=RunState.FAILED, error="no such topic"),
        samples.fact(query="totals", progressed_at=AT - timedelta(seconds=50)),
        *(samples.fact(query=name) for name in ("sums", "users")),
    ]
    assignments = [samples.assignment(query=name, cluster="west" if name == "sums" else "east") for name in QUERIES]
    readiness = [samples.readiness(query=name, ready=name != "sums") for name in QUERIES]
    copies = {
        name: copy_age(name, samples.replication(copies=(COPY._replace(age_ms=age),)))
        for name, age in (("users", 9_000), ("totals", 100))
    }
    return query_lines(status(facts=facts, assignments=assignments, readiness=readiness), copies)


def names(**chosen: Any) -> list[str]:
    return [line.query.query for line in chosen_of(lines(), Chosen(**chosen))]


def test_the_kinds_are_counted_and_those_without_a_query_left_out() -> None:
    assert counts_of(lines()) == [("failing", 1), ("not-ready", 1), ("away", 1)]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"only": "failing"}, ["revenue"]),
        ({"only": "away"}, ["sums"]),
        ({"only": "moving"}, []),
        ({"find": "USER"}, ["users"]),
        ({"find": "nothing"}, []),
        ({"cluster": "west"}, ["sums"]),
        ({"source": "east", "target": "west", "sort": "query"}, ["totals", "users"]),
        ({"source": "west", "target": "east"}, []),
    ],
)
def test_only_queries_that_match_are_listed(chosen: dict[str, Any], found: list[str]) -> None:
    assert names(**chosen) == found


def test_each_order_begins_with_the_worst_or_the_unknown() -> None:
    assert names(sort="query") == ["revenue", "sums", "totals", "users"]
    assert names(sort="copy") == ["revenue", "sums", "users", "totals"]
    assert names(sort="progress")[0] == "totals"
    assert names(sort="cluster")[-1] == "sums"
    assert set(names()[:2]) == {"revenue", "sums"}, "those that need attention"
