"""When a replicator gets a request for the state of its copies, and what becomes of its answer."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.decide.move_facts import MirrorAnswer, MoveFacts
from orchestrator.facts.gather import FactGatherer
from state.model.entities import OperationKind
from state.settings.keys import Route
from streaming.errors import ServiceTrouble
from streaming.probe import mirrors as module
from tests.simulation.world import World, settings
from tests.unit.orchestrator.decide.gates.test_checks import GOOD

LINK = {"kind": "cluster-linking", "url": "https://west.example/kafka/v3/clusters/lkc-1/links/dr"}
ROUTE = Route.model_validate({"from": "east", "to": "west", "keeps_offsets": True, "replicator": LINK})
FACTS = replace(GOOD, route=ROUTE, topics={"orders": "orders", "sums": "sums", "none": None})


class Asked:
    """The states that the replicator has, and how many requests it got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, states: Any) -> None:
        self.count = 0
        self.states = states
        monkeypatch.setattr(module, "mirror_states", self.answer)

    def answer(self, _replicator: object, topics: Any, *, timeout: float) -> Any:
        self.count += 1
        assert sorted(topics) == ["orders", "sums"]
        if isinstance(self.states, Exception):
            raise self.states
        return self.states


def gatherer() -> tuple[FactGatherer, World]:
    world = World(settings())
    return FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    ), world  # fmt: skip


def test_a_move_learns_which_topics_are_mirrors_still(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, {"orders": ("ACTIVE", False), "sums": ("STOPPED", True)})
    assert gatherer()[0]._mirrors(FACTS) == MirrorAnswer(stopped=("sums",), running={"orders": "ACTIVE"})


@pytest.mark.parametrize("states", [{}, ServiceTrouble("https://west.example answers 401", status=401)])
def test_an_answer_of_a_replicator_counts_for_two_seconds(monkeypatch: pytest.MonkeyPatch, states: Any) -> None:
    asked, (facts, world) = Asked(monkeypatch, states), gatherer()
    for seconds, count in ((0.0, 1), (1.9, 1), (0.2, 2)):
        world.clock.wait(seconds)
        found = facts._mirrors(FACTS)
        assert found is not None
        assert found.error == (str(states) if isinstance(states, Exception) else "")
        assert asked.count == count


@pytest.mark.parametrize(
    "facts",
    [GOOD, replace(FACTS, kind=OperationKind.DRILL), replace(FACTS, route=None)],
    ids=["none", "drill", "route"],
)
def test_no_request_goes_out_where_nothing_moves_or_nothing_is_reported(
    facts: MoveFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, {})
    assert gatherer()[0]._mirrors(facts) is None
    assert asked.count == 0
