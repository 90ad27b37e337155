"""Pauses and acknowledgements as the memory store keeps them; not thread-safe, its store locks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from state.automation import Acknowledgement, Pause


class KeptAutomation:
    """The newest pause of each scope, and one acknowledgement for each operation."""

    def __init__(self) -> None:
        self._pauses: dict[str, Pause] = {}
        self._acknowledged: dict[str, Acknowledgement] = {}

    def pause(self, pause: Pause) -> None:
        self._pauses[pause.scope] = pause

    def resume(self, scope: str, at: datetime) -> Pause | None:
        """The pause that was in force and is not any more."""
        stands = self._pauses.get(scope)
        if stands is None or not stands.is_in_force(at):
            return None
        self._pauses[scope] = replace(stands, resumed_at=at)
        return self._pauses[scope]

    def pauses(self) -> Sequence[Pause]:
        return [self._pauses[scope] for scope in sorted(self._pauses)]

    def acknowledge(self, given: Acknowledgement) -> bool:
        """False where the operation is acknowledged already."""
        if given.operation in self._acknowledged:
            return False
        self._acknowledged[given.operation] = given
        return True

    def acknowledgements(self, query: str) -> Sequence[Acknowledgement]:
        found = [given for given in self._acknowledged.values() if given.query == query]
        return sorted(found, key=lambda given: (given.at, given.operation), reverse=True)

    def forget(self, operations: Iterable[str]) -> None:
        """Acknowledgements go with their operations."""
        for operation in operations:
            self._acknowledged.pop(operation, None)
