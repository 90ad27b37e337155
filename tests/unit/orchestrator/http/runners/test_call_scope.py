"""The table of rules: what a runner's token includes, call by call."""

from typing import Any

import pytest

from orchestrator.http.runners.call_scope import RULES, CallScope
from state.model.found_places import FoundPlace
from state.model.maintenance import FormerCheckpoint
from state.model.timeline import Stretch
from state.settings.keys import Tideover
from state.store.remote.runner_calls import CALLS
from tests.contract import samples
from tests.contract.samples import AT

_SOURCES = {"orders": {"topics": ["orders"]}}
SETTINGS = Tideover.model_validate({
    "store": "sqlite://",
    "clusters": {name: {"bootstrap": [f"{name}:1"]} for name in ("east", "west", "north")},
    "routes": [{"from": "east", "to": "west", "topics": {"prefix": "east."}}],
    "runners": {"shop": {}, "bank": {}},
    "queries": {
        "revenue": {"attach": "shop", "sources": _SOURCES, "clusters": ["east", "west"], "checkpoint": "/cp/r"},
        "clicks": {"attach": "shop", "sources": {"c": {"pattern": "click.*"}}, "clusters": ["east", "west"],
                   "checkpoint": "/cp/c"},
        "ledger": {"attach": "bank", "sources": {"l": {"topics": ["ledger"]}}, "clusters": ["north", "east"],
                   "checkpoint": "/cp/l"},
    },
})  # fmt: skip
SCOPE = CallScope(SETTINGS, "shop")


def place(**change: Any) -> FoundPlace:
    values: dict[str, Any] = {
        "query": "revenue", "runner": "shop", "instance": "i", "row_epoch": 1, "checkpoint": None, "cluster": None,
        "mapping": None, "epoch": 1, "moved_by": None, "held_by": None, "held_epoch": None, "text": "", "found_at": AT,
    }  # fmt: skip
    return FoundPlace(**(values | change))


def former(**change: Any) -> FormerCheckpoint:
    values: dict[str, Any] = {
        "query": "revenue", "checkpoint": "/cp/r", "placed_epoch": 1, "left_epoch": 2, "left_at": AT,
        "operation": None, "runner": "shop",
    }  # fmt: skip
    return FormerCheckpoint(**(values | change))


def stretch(**change: Any) -> Stretch:
    values: dict[str, Any] = {
        "query": "revenue",
        "epoch": 1,
        "cluster": "east",
        "begin": AT,
        "until": AT,
        "packed": b"",
    }
    return Stretch(**(values | change))


def own_event(**change: Any) -> Any:
    return samples.event(**({"actor": "runner shop", "kind": "drill", "operation": None} | change))


PROBE = samples.probe_report(viewpoint="runner:shop")
ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("now", {}),
    ("await_change", {"mark": "", "seconds": 1.0}),
    ("assignments", {}),
    ("assignment", {"query": "revenue"}),
    ("adopt", {"assignment": samples.assignment(runner="shop")}),
    ("operation", {"operation_id": "op-1"}),
    ("pending_intents", {"runner": "shop"}),
    ("report", {"intent": samples.intent(runner="shop")}),
    ("register", {"fact": samples.runner(runner="shop")}),
    ("unregister", {"runner": "shop", "instance": "i"}),
    ("runners", {}),
    ("report_query", {"fact": samples.fact(runner="shop")}),
    ("query_facts", {"query": None}),
    ("query_facts", {"query": "clicks"}),
    ("readiness", {"query": "revenue"}),
    ("report_place", {"found": place()}),
    ("found_place", {"query": "revenue"}),
    ("keep_mapping", {"query": "revenue", "name": "m", "content": ""}),
    ("mappings", {"query": "revenue"}),
    ("save_positions", {"positions": [samples.position(), samples.position(query="clicks", cluster="east")]}),
    ("save_ends", {"samples": [samples.end(), samples.end(cluster="west", topic="east.orders")]}),
    ("save_ends", {"samples": [samples.end(topic="clicks-eu")]}),
    ("save_timeline", {"stretch": stretch(), "keep": None}),
    ("save_probe_reports", {"seen": [PROBE]}),
    ("pins", {}),
    ("to_clean", {"runner": "shop"}),
    ("report_cleaned", {"former": former(), "outcome": "", "event": own_event()}),
    ("note", {"event": own_event()}),
    (
        "note",
        {"event": own_event(kind="take-over", query=None, operation=None, actor="ann@b", detail={"runner": "shop"})},
    ),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("assignment", {"query": "ledger"}, "query ledger"),
    ("assignment", {"query": "unknown"}, "query unknown"),
    ("adopt", {"assignment": samples.assignment(query="ledger", runner="shop")}, "query ledger"),
    ("adopt", {"assignment": samples.assignment(runner="bank")}, "runner bank"),
    ("adopt", {"assignment": samples.assignment(runner="shop", cluster="north")}, "cluster north"),
    ("pending_intents", {"runner": "bank"}, "runner bank"),
    ("report", {"intent": samples.intent(runner="bank")}, "runner bank"),
    ("register", {"fact": samples.runner(runner="bank")}, "runner bank"),
    ("unregister", {"runner": "bank", "instance": "i"}, "runner bank"),
    ("report_query", {"fact": samples.fact(runner="bank")}, "runner bank"),
    ("report_query", {"fact": samples.fact(runner="shop", query="ledger")}, "query ledger"),
    ("report_query", {"fact": samples.fact(runner="shop", cluster="north")}, "cluster north"),
    ("query_facts", {"query": "ledger"}, "query ledger"),
    ("readiness", {"query": "ledger"}, "query ledger"),
    ("report_place", {"found": place(query="ledger")}, "query ledger"),
    ("report_place", {"found": place(runner="bank")}, "runner bank"),
    ("found_place", {"query": "ledger"}, "query ledger"),
    ("keep_mapping", {"query": "ledger", "name": "m", "content": ""}, "query ledger"),
    ("mappings", {"query": "ledger"}, "query ledger"),
    ("save_positions", {"positions": [samples.position(), samples.position(query="ledger")]}, "query ledger"),
    ("save_positions", {"positions": [samples.position(cluster="north")]}, "cluster north"),
    ("save_ends", {"samples": [samples.end(), samples.end(topic="ledger")]}, "topic ledger of east"),
    ("save_ends", {"samples": [samples.end(cluster="west")]}, "topic orders of west"),
    ("save_ends", {"samples": [samples.end(cluster="north")]}, "topic orders of north"),
    ("save_timeline", {"stretch": stretch(query="ledger"), "keep": None}, "query ledger"),
    ("save_timeline", {"stretch": stretch(cluster="north"), "keep": None}, "cluster north"),
    ("save_probe_reports", {"seen": [PROBE, samples.probe_report(viewpoint="runner:bank")]}, "as runner:bank"),
    ("save_probe_reports", {"seen": [samples.probe_report()]}, "as controller:one"),
    ("save_probe_reports", {"seen": [samples.probe_report(viewpoint="runner:shop", cluster="north")]}, "cluster north"),
    ("to_clean", {"runner": "bank"}, "runner bank"),
    ("report_cleaned", {"former": former(query="ledger"), "outcome": "", "event": own_event()}, "query ledger"),
    ("report_cleaned", {"former": former(runner="bank"), "outcome": "", "event": own_event()}, "runner bank"),
    ("report_cleaned", {"former": former(), "outcome": "", "event": own_event(actor="x")}, "history of x"),
    ("note", {"event": own_event(actor="operator")}, "history of operator"),
    ("note", {"event": own_event(actor="runner bank")}, "history of runner bank"),
    ("note", {"event": own_event(query="ledger")}, "query ledger"),
    ("note", {"event": own_event(query=None)}, "of no query"),
    ("note", {"event": own_event(kind="consent")}, "a consent of revenue"),
    (
        "note",
        {"event": own_event(kind="take-over", query=None, operation=None, detail={"runner": "bank"})},
        "runner bank",
    ),
    ("report_cleaned", {"former": former(), "outcome": "", "event": own_event(kind="moved")}, "a moved of revenue"),
]


def test_every_call_has_a_rule_and_every_rule_a_call() -> None:
    assert RULES.keys() == CALLS.keys()
    assert {name for name, _ in ALLOWED} == CALLS.keys()


@pytest.mark.parametrize(("name", "sent"), ALLOWED, ids=[name for name, _ in ALLOWED])
def test_a_runner_speaks_of_its_own_queries(name: str, sent: dict[str, Any]) -> None:
    assert RULES[name].refusal(SCOPE, sent) is None


@pytest.mark.parametrize(("name", "sent", "text"), REFUSED, ids=[f"{name}: {text}" for name, _, text in REFUSED])
def test_a_runner_does_not_speak_of_others(name: str, sent: dict[str, Any], text: str) -> None:
    refused = RULES[name].refusal(SCOPE, sent)
    assert refused is not None
    assert refused.startswith("the token of runner shop ")
    assert refused.endswith(text)


@pytest.mark.parametrize("name", ["assignments", "query_facts", "to_clean", "runners", "pins"])
def test_a_list_shows_a_runner_what_is_its_own(name: str) -> None:
    own, other = {
        "assignments": (samples.assignment(), samples.assignment(query="ledger", runner="bank")),
        "query_facts": (samples.fact(), samples.fact(query="ledger")),
        "to_clean": (former(), former(query="ledger")),
        "runners": (samples.runner(runner="shop"), samples.runner(runner="bank")),
        "pins": (samples.pin(cluster="west"), samples.pin(cluster="north")),
    }[name]
    assert RULES[name].shown(SCOPE, [own, other]) == [own]


def test_a_line_beside_an_operation_is_of_the_same_query() -> None:
    """It becomes part of that operation's evidence."""
    operations = {"op-1": samples.operation(), "op-2": samples.operation(query="ledger")}
    scope = CallScope(SETTINGS, "shop", operation=operations.get)
    refused = {each: scope.event(own_event(operation=each)) is not None for each in ("op-1", "op-2", "op-3")}
    assert refused == {"op-1": False, "op-2": True, "op-3": True}


PLACED = samples.assignment(query="new", runner="shop", cluster="north")


def test_a_runner_speaks_of_a_query_that_is_placed_with_it() -> None:
    """The controller's file is older than the runner's, or the query was taken out of it first."""
    scope = CallScope(SETTINGS, "shop", lambda: [PLACED, samples.assignment(query="ledger", runner="bank")])
    fact = samples.fact(query="new", runner="shop", cluster="north")
    for name, sent in (
        ("report_query", {"fact": fact}),
        ("save_positions", {"positions": [samples.position(query="new", cluster="north")]}),
        ("save_ends", {"samples": [samples.end(cluster="north", topic="any")]}),
    ):
        assert RULES[name].refusal(scope, sent) is None
        assert RULES[name].refusal(SCOPE, sent) is not None
    assert scope.query("ledger") is not None
    assert scope.topic("east", "ledger") is not None
    assert RULES["assignments"].shown(SCOPE, [PLACED, samples.assignment(query="ledger", runner="bank")]) == [PLACED]


def test_a_runner_obeys_all_that_is_requested_of_it() -> None:
    orders = [samples.intent(runner="shop", query="new")]
    assert RULES["pending_intents"].shown(SCOPE, orders) == orders
    assert RULES["report"].refusal(SCOPE, {"intent": orders[0]}) is None


def test_an_operation_of_another_runner_is_refused_and_not_called_unknown() -> None:
    """A runner takes an operation that is not found for one that never was, and removes its entries."""
    hidden = RULES["operation"].hidden
    assert hidden(SCOPE, None) is None
    assert hidden(SCOPE, samples.operation()) is None
    assert hidden(SCOPE, samples.operation(query="ledger")) == "the token of runner shop does not include query ledger"
