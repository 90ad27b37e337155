"""How far the other queries of an application are, read while they begin and end."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.decide.operation.snapshot import Companion
from orchestrator.facts.current import companion_of
from state.model.entities import Operation, Phase
from state.store.controller_store import ControllerStore


class Between:
    """A store in which the request of ``counts`` is answered before read ``at``, and its move is over ``later``."""

    def __init__(self, at: int, later: int, *, outcome: str = "done") -> None:
        self._at, self._over, self._outcome, self._reads = at, at + later, outcome, -1
        self._request = SimpleNamespace(query="counts", target="west", operation=None, refused=None)

    def _is_begun(self) -> bool:
        self._reads += 1
        return self._reads >= self._at

    def _row(self) -> Any:
        outcome = self._outcome if self._reads >= self._over else None
        return SimpleNamespace(id="2", target="west", phase=Phase.FENCING, outcome=outcome, sentence="it did not fit")

    def open_requests(self) -> list[Any]:
        return [] if self._is_begun() else [self._request]

    def requests_of(self, group: str) -> list[Any]:
        return [SimpleNamespace(**{**vars(self._request), "operation": "2" if self._is_begun() else None})]

    def operations(self, **_: Any) -> list[Any]:
        return [self._row()] if self._is_begun() and self._reads < self._over else []

    def operation(self, identity: str) -> Any:
        self._is_begun()
        return self._row()

    def assignment(self, query: str) -> Any:
        is_over = self._is_begun() and self._reads >= self._over
        return SimpleNamespace(cluster="west" if is_over and self._outcome == "done" else "east")


MOVE = cast(Operation, SimpleNamespace(id="1", group="group", target="west"))


def _seen(at: int, later: int, **how: Any) -> Companion:
    return companion_of(cast(ControllerStore, Between(at, later, **how)), "counts", MOVE)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("later", range(1, 4))
def test_a_query_that_begins_or_arrives_between_two_reads_does_not_stay(at: int, later: int) -> None:
    assert _seen(at, later).stays == ""


def test_one_whose_move_has_ended_elsewhere_stays() -> None:
    assert _seen(-2, 1, outcome="refused").stays == "operation 2 (refused): it did not fit"
