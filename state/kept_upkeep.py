"""History and readiness as the memory store keeps them, and what it may prune; not thread-safe, its store locks."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from state.guards import PLACED
from state.model import Event, Operation
from state.plain import plain
from state.replication import pack, unpack
from state.upkeep import ReadinessFact, Replication


class KeptHistory:
    """Events, numbered in the order in which they came; a number that was given is never given again."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._given = 0

    def append(self, event: Event) -> None:
        self._given += 1
        self._events.append(replace(event, sequence=self._given, detail=plain(event.detail)))

    def of(self, query: str | None, operation: str | None, after: int, limit: int) -> Sequence[Event]:
        """The newest ``limit`` of those after ``after``, oldest first."""
        found = [
            event
            for event in self._events
            if (event.sequence or 0) > after
            and (query is None or event.query == query)
            and (operation is None or event.operation == operation)
        ]
        return found[max(0, len(found) - limit) :]

    def prune(self, before: datetime, limit: int, known: Collection[str]) -> int:
        """Forget lines of before that time whose operation, if they have one, is not known any more."""
        old = [each for each in self._events if each.at < before and each.operation not in known]
        gone = {each.sequence for each in sorted(old, key=lambda each: (each.at, each.sequence or 0))[:limit]}
        self._events = [each for each in self._events if each.sequence not in gone]
        return len(gone)


class KeptReadiness:
    """The last answer for each query."""

    def __init__(self) -> None:
        self._found: dict[str, ReadinessFact] = {}
        self._packed: dict[str, bytes] = {}

    def keep(self, fact: ReadinessFact, replication: Replication | None) -> bool:
        """Whether the answer is another than before."""
        stands = self._found.get(fact.query)
        same = stands is not None and stands.ready is fact.ready
        since = stands.since if stands is not None and same else fact.since
        self._found[fact.query] = replace(fact, since=since, gates=tuple(plain(list(fact.gates))))
        self._packed.pop(fact.query, None)
        if replication is not None:
            self._packed[fact.query] = pack(replication)
        return not same

    def replication(self, query: str) -> Replication | None:
        packed = self._packed.get(query)
        return unpack(packed) if packed is not None else None

    def all(self) -> Sequence[ReadinessFact]:
        """Ordered by query."""
        return [self._found[query] for query in sorted(self._found)]

    def prune(self, before: datetime, limit: int) -> int:
        gone = oldest(self._found, limit, lambda query: self._found[query].sampled_at, before)
        for query in gone:
            del self._found[query]
            self._packed.pop(query, None)
        return len(gone)


def prunable(
    operations: Iterable[Operation], before: datetime, *, keep: int, limit: int, in_use: Collection[str | None]
) -> list[str]:
    """Ids of closed operations that may go, the oldest first."""
    places: dict[tuple[str, bool], int] = {}
    gone: list[str] = []
    for operation in sorted(operations, key=lambda each: (each.started_at, each.id), reverse=True):
        kind = (operation.query, operation.phase in PLACED)
        places[kind] = places.get(kind, 0) + 1
        ended = operation.ended_at or operation.started_at
        if places[kind] > keep and not operation.is_open and ended < before and operation.id not in in_use:
            gone.append(operation.id)
    return gone[::-1][:limit]


def oldest(keys: Iterable[str], limit: int, at: Callable[[str], datetime], before: datetime) -> list[str]:
    """The keys of what lies before a time, the oldest first."""
    return sorted((key for key in keys if at(key) < before), key=lambda key: (at(key), key))[:limit]
