"""When a replicator gets a request for the state of its copies, and what becomes of its answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.decide.gates.checks import judge_move
from orchestrator.decide.move_facts import MirrorAnswer, MoveFacts
from orchestrator.facts.gather import FactGatherer
from state.model.entities import OperationKind, TopicPartition
from state.settings.keys import Route
from streaming.errors import ServiceTrouble
from streaming.probe import mirrors as module
from streaming.probe.mirrors import MirrorState
from tests.simulation.world import QUERY, World, settings
from tests.unit.orchestrator.decide.gates.test_checks import FACT, GOOD, REPORT, query

LINK = {"kind": "cluster-linking", "url": "https://west.example/kafka/v3/clusters/lkc-1/links/dr"}
LINKED = {"from": "east", "to": "west", "keeps_offsets": True, "replicator": LINK}
BACK = {"from": "west", "to": "east"}
ROUTE = Route.model_validate(LINKED)
FACTS = replace(GOOD, route=ROUTE, topics={"orders": "orders", "sums": "sums", "none": None})


class ReplicatorRequests:
    """The states that the replicator has, and how many requests it got."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, states: Any, topics: Sequence[str] = ("orders", "sums")
    ) -> None:
        self.count = 0
        self.topics = list(topics)
        self.states = states
        monkeypatch.setattr(module, "mirror_states", self.answer)

    def answer(self, _replicator: object, topics: Any, *, timeout: float) -> Any:
        self.count += 1
        assert sorted(topics) == self.topics
        if isinstance(self.states, Exception):
            raise self.states
        return self.states


def gatherer() -> tuple[FactGatherer, World]:
    world = World(settings())
    return FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    ), world  # fmt: skip


def test_a_move_learns_which_topics_are_mirrors_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of one that runs is of a moment ago, and limits nothing."""
    states = {"orders": MirrorState("ACTIVE", False, {0: 40}), "sums": MirrorState("STOPPED", True, {1: 7})}
    ReplicatorRequests(monkeypatch, states)
    assert gatherer()[0]._mirrors(FACTS) == MirrorAnswer(
        stopped=("sums",), running={"orders": "ACTIVE"}, ends={TopicPartition("sums", 1): 7}
    )


@pytest.mark.parametrize("states", [{}, ServiceTrouble("https://west.example answers 401", status=401)])
def test_an_answer_of_a_replicator_counts_for_two_seconds(monkeypatch: pytest.MonkeyPatch, states: Any) -> None:
    requested, (facts, world) = ReplicatorRequests(monkeypatch, states), gatherer()
    for seconds, count in ((0.0, 1), (1.9, 1), (0.2, 2)):
        world.clock.wait(seconds)
        found = facts._mirrors(FACTS)
        assert found is not None
        assert found.error == (str(states) if isinstance(states, Exception) else "")
        assert requested.count == count


def by_pattern(name: str = "s", offsets: Any = None, **more: Any) -> MoveFacts:
    """Of a query with a source by pattern, whose runner on east reported these offsets."""
    fact = replace(FACT, cluster="east", offsets=offsets)
    sources = {name: {"pattern": "ord.*"}, **more}
    return replace(FACTS, settings=query(sources=sources), fact=fact, report=None, topics={})


@pytest.mark.parametrize(
    "facts",
    [
        by_pattern(),
        replace(by_pattern(offsets={"other": {"sums": {"0": 1}}}, other={"topics": ["sums"]}), topics={"sums": "sums"}),
        replace(by_pattern(offsets={"s": {"orders": {"0": 1}}}), report=None, topics={}),
        replace(by_pattern(offsets={"s": {"orders": {"0": 1}}}), source="north", topics={"orders": "orders"}),
        replace(by_pattern(), report=REPORT.model_copy(update={"offsets": {}}), topics={"orders": "orders"}),
    ],
    ids=["no report", "one of two sources", "no topic", "a report of elsewhere", "no batch"],
)
def test_a_replicator_that_was_not_queried_for_a_topic_has_no_answer(
    facts: MoveFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "mirror_states", lambda _, topics, **__: dict.fromkeys(topics, MirrorState("STOPPED", True))
    )
    found = gatherer()[0]._mirrors(facts)
    assert found == MirrorAnswer(error="which topics q reads is not known yet")
    (gate,) = [each for each in judge_move(replace(facts, mirrors=found)) if each.name == "mirror-stopped"]
    assert not gate.ok


def test_the_look_before_a_stop_knows_the_topics_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = ReplicatorRequests(monkeypatch, {"orders": MirrorState("ACTIVE", False)}, topics=["orders"])
    world = World(settings(sources={"orders": {"pattern": "ord.*"}}, groups={"routes": [LINKED, BACK]}))
    facts = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    ).before(OperationKind.FAILOVER, QUERY, "west")  # fmt: skip
    assert (facts.topics, requested.count) == ({"orders": "orders"}, 1)
    assert facts.mirrors == MirrorAnswer(running={"orders": "ACTIVE"})


@pytest.mark.parametrize(
    "facts",
    [GOOD, replace(FACTS, kind=OperationKind.DRILL), replace(FACTS, route=None)],
    ids=["none", "drill", "route"],
)
def test_no_request_goes_out_where_nothing_moves_or_nothing_is_reported(
    facts: MoveFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = ReplicatorRequests(monkeypatch, {})
    assert gatherer()[0]._mirrors(facts) is None
    assert requested.count == 0
