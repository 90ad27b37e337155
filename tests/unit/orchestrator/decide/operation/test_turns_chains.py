"""Which query is upstream of which, in which order they are moved, and what one that has to follow waits for."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.operation.turns import Turn, Upstream, too_late, turn_behind
from state.model.entities import Operation, OperationKind, Phase, Request
from state.settings.keys import Tideover
from state.settings.topics import Chains, chains_of, handed_on
from tests.contract import samples

IDENTITY = [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}]
PREFIXED = [
    {"from": "east", "to": "west", "topics": {"prefix": "east."}},
    {"from": "west", "to": "east", "topics": {"prefix": "west."}},
]


def configured(queries: Mapping[str, Mapping[str, Any]], routes: object = IDENTITY) -> Tideover:
    """Queries of which each reads ``orders``, but for what is said of it."""
    common = {
        "pipeline": "a:b", "sources": {"s": {"topics": ["orders"]}}, "clusters": ["east", "west"], "runners": ["a"],
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {name: {"bootstrap": [f"{name}:1"]} for name in ("east", "west", "north")},
            "routes": routes,
            "runners": {"a": {}},
            "queries": {name: {"checkpoint": f"/cp/{name}", **common, **query} for name, query in queries.items()},
        }
    )


def reads(**source: Any) -> dict[str, Any]:
    return {"sources": {"s": source}}


def writes(topic: str, **more: Any) -> dict[str, Any]:
    return {"output": {"topic": topic, **more}}


def upstream(queries: Mapping[str, Mapping[str, Any]], routes: object = IDENTITY) -> Mapping[str, tuple[str, ...]]:
    return chains_of(configured(queries, routes)).upstream


def test_a_query_that_reads_an_output_comes_after_its_writer() -> None:
    queries = {"sums": reads(topics=["clean"]), "clean": writes("clean"), "other": reads(topics=["else"])}
    assert upstream(queries) == {"sums": ("clean",)}
    chains = chains_of(configured(queries))
    assert chains.in_order(("sums", "other", "clean")) == ("other", "clean", "sums")
    assert chains.in_order(("sums", "other")) == ("sums", "other")


def test_higher_priorities_come_first_and_lift_those_upstream() -> None:
    queries = {
        "early": {}, "low": {"priority": -5}, "clean": {**writes("clean"), "priority": -9}, "high": {"priority": 5},
        "sums": {**reads(topics=["clean"]), "priority": 9}, "late": {},
    }  # fmt: skip
    assert chains_of(configured(queries)).in_order(queries) == ("clean", "sums", "high", "early", "late", "low")


def test_an_output_is_found_behind_a_pattern_too() -> None:
    assert upstream({"sums": reads(pattern="cl.*"), "clean": writes("clean")}) == {"sums": ("clean",)}
    assert upstream({"sums": reads(pattern="cl"), "clean": writes("clean")}) == {}, "a pattern is of the whole name"


@pytest.mark.parametrize(
    ("cluster", "topic", "found"),
    [
        ("active", "clean", True),  # both at home
        ("east", "clean", True),
        ("west", "clean", False),  # read on west is east.clean, and its copy on east is west.clean
        ("west", "east.clean", True),  # there it is what the reader reads, whatever writes it
        ("active", "west.clean", False),
        ("north", "clean", False),  # a cluster that no one reads, and no route leads from it
    ],
)
def test_names_are_those_of_the_cluster_that_is_written_to(cluster: str, topic: str, found: bool) -> None:
    queries = {"sums": reads(topics=["clean"]), "clean": writes(topic, cluster=cluster)}
    assert (upstream(queries, PREFIXED) == {"sums": ("clean",)}) is found


def test_an_output_elsewhere_is_found_as_its_copy() -> None:
    routes = [*IDENTITY, {"from": "north", "to": "east", "topics": {"raw": "clean"}}]
    queries = {"sums": reads(topics=["clean"]), "clean": writes("raw", cluster="north")}
    assert upstream(queries, routes) == {"sums": ("clean",)}
    assert upstream(queries, [*IDENTITY, {"from": "north", "to": "east", "topics": {"old": "clean"}}]) == {}


def test_a_declared_order_counts_where_nothing_shows_it() -> None:
    queries: dict[str, dict[str, Any]] = {"sums": {"after": ["clean"]}, "clean": {}, "last": {"after": ["sums"]}}
    assert upstream(queries) == {"sums": ("clean",), "last": ("sums",)}
    assert chains_of(configured(queries)).in_order(("last", "sums", "clean")) == ("clean", "sums", "last")


def test_a_query_that_reads_its_own_output_waits_for_no_other() -> None:
    assert upstream({"loop": writes("orders")}) == {}


def test_a_circle_of_queries_has_no_order_and_is_named() -> None:
    queries = {
        "a": {**reads(topics=["b"]), **writes("a")},
        "b": {**reads(topics=["a"]), **writes("b")},
        "sums": reads(topics=["a"]),
    }
    chains = chains_of(configured(queries))
    assert chains.upstream == {"sums": ("a",)}
    (circle,) = chains.circles
    assert sorted(circle) == ["a", "b"]
    assert chains.in_order(("b", "a")) == ("b", "a")


def test_a_declared_order_opens_a_circle_that_is_found() -> None:
    queries = {
        "a": {**reads(topics=["b"]), **writes("a")},
        "b": {**reads(topics=["a"]), **writes("b"), "after": ["a"]},
    }
    assert upstream(queries) == {"b": ("a",)}


def test_a_topic_is_handed_on_where_both_logs_meet_and_a_query_reads_it() -> None:
    queries = {"sums": reads(topics=["clean"]), "clean": writes("clean")}
    assert handed_on(configured(queries), "clean", "east", "west") == "clean"
    assert handed_on(configured(queries, PREFIXED), "clean", "east", "west") is None, "the copy has another name"
    assert handed_on(configured(queries), "sums", "east", "west") is None, "it writes nothing"
    assert handed_on(configured({**queries, "sums": {}}), "clean", "east", "west") is None, "nobody reads it"
    stays = {**queries, "clean": writes("clean", cluster="east")}
    assert handed_on(configured(stays), "clean", "east", "west") is None, "its output does not move"


NAMES = [f"q{number}" for number in range(6)]


@given(st.permutations(NAMES), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_an_order_keeps_every_chain_and_moves_no_other(names: list[str], pairs: set[tuple[int, int]]) -> None:
    before = {NAMES[later]: tuple(NAMES[a] for a, b in pairs if b == later and a < b) for later in range(6)}
    ordered = Chains(upstream=before).in_order(names)
    assert sorted(ordered) == sorted(names)
    assert all(ordered.index(first) < ordered.index(name) for name in names for first in before[name])
    if not any(before.values()):
        assert list(ordered) == names


FOLLOWS = samples.request(id="g-2", group="g", kind=OperationKind.SWITCHOVER, query="sums", target="west")
REQUESTED = replace(FOLLOWS, id="g-1", query="clean")


def found(
    operation: Operation | None = None, *, requested: Request | None = REQUESTED, cluster: str | None = "east"
) -> Upstream:
    if requested is not None and operation is not None:
        requested = replace(requested, operation=operation.id)
    return Upstream(query="clean", cluster=cluster, request=requested, operation=operation)


def moving(phase: Phase, outcome: str | None = None, sentence: str = "caught-up: west lacks 7") -> Operation:
    return samples.operation(id="op", query="clean", phase=phase, outcome=outcome, sentence=sentence)


@pytest.mark.parametrize("phase", [Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING])
def test_it_waits_until_what_is_upstream_is_committed(phase: Phase) -> None:
    text = f"sums keeps running and waits for clean, which is upstream of it: operation op is {phase}"
    assert turn_behind(FOLLOWS, [found(moving(phase))]) == Turn(text=text)
    assert turn_behind(FOLLOWS, [found(moving(phase), requested=None)]) == Turn(text=text), "asked for by itself"


@pytest.mark.parametrize(
    "each",
    [
        found(moving(Phase.STARTING)),
        found(moving(Phase.VERIFYING)),
        found(moving(Phase.SETTLED, "done")),
        found(None, requested=None),
        found(requested=replace(REQUESTED, refused="not-already-there: clean is already on west"), cluster="west"),
        found(moving(Phase.ABORTED), requested=None),
    ],
    ids=["starting", "verifying", "done", "not asked for", "there already", "of another command and going back"],
)
def test_it_begins_when_nothing_upstream_is_on_its_way(each: Upstream) -> None:
    assert turn_behind(FOLLOWS, [each]) is None


@pytest.mark.parametrize(
    ("each", "why"),
    [
        (found(moving(Phase.ABORTED)), "operation op (going back): caught-up: west lacks 7"),
        (found(moving(Phase.ABORTED, "refused")), "operation op (refused): caught-up: west lacks 7"),
        (found(moving(Phase.SETTLED, "failed", "it fails")), "operation op (failed): it fails"),
        (found(requested=replace(REQUESTED, refused="runner-alive: none")), "runner-alive: none"),
    ],
)
def test_it_stays_where_what_is_upstream_did_not_go(each: Upstream, why: str) -> None:
    text = f"upstream-moved: sums is not moved, because clean, which is upstream of it, was not: {why}"
    waits = replace(found(moving(Phase.FENCING)), query="more")
    assert turn_behind(FOLLOWS, [waits, each]) == Turn(text=text, never=True)


def test_a_time_that_is_up_names_what_was_waited_for() -> None:
    turn = turn_behind(FOLLOWS, [found()])
    assert turn is not None
    reported = too_late(replace(FOLLOWS, expires_at=samples.AT + timedelta(minutes=2)), waited=True, turn=turn)
    assert reported.endswith(
        "sums keeps running and waits for clean, which is upstream of it: request g-1 has not begun; run the command "
        "again with a longer --timeout"
    )
