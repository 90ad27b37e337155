"""The positions of one query as the memory store keeps them."""

from collections.abc import Iterable, Sequence

from state.guards import KEPT_BATCHES
from state.model import Position

PositionKey = tuple[int, str, str, int]


class KeptPositions:
    """Positions of the newest batches; not thread-safe, its store locks."""

    def __init__(self) -> None:
        self._kept: dict[PositionKey, Position] = {}

    def save(self, positions: Iterable[Position]) -> None:
        """Upsert, then forget old batches.

        A batch id that starts low again belongs to a new checkpoint: the higher batches that were tracked before it
        are what the old checkpoint left, and go. A spool that is flushed late was tracked before and drops nothing.
        """
        newest: Position | None = None
        for position in positions:
            self._kept[(position.batch, position.source, position.topic, position.partition)] = position
            if newest is None or newest.tracked_at <= position.tracked_at:
                newest = position
        if newest is None:
            return
        kept = {
            key: position
            for key, position in self._kept.items()
            if position.batch <= newest.batch or position.tracked_at >= newest.tracked_at
        }
        batches = sorted({position.batch for position in kept.values()})[-KEPT_BATCHES:]
        self._kept = {key: position for key, position in kept.items() if position.batch in batches}

    def of(self, batch: int | None) -> Sequence[Position]:
        """Of one batch, or all; ordered by batch, source, topic, partition."""
        return [self._kept[key] for key in sorted(self._kept) if batch is None or key[0] == batch]
