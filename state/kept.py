"""Positions and sightings as the memory store keeps them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from state.guards import KEPT_BATCHES, is_newer
from state.model import Position
from state.sighting import Belief, Sighting

PositionKey = tuple[int, int, str, str, int]


class KeptPositions:
    """Positions of the newest batches; not thread-safe, its store locks."""

    def __init__(self) -> None:
        self._kept: dict[PositionKey, Position] = {}

    def save(self, positions: Iterable[Position]) -> None:
        """Upsert, then forget old batches.

        A batch id that starts low again under one epoch belongs to a checkpoint that was made anew: the higher batches
        that were tracked before it go. A spool that is flushed late was tracked before and drops nothing.
        """
        newest: Position | None = None
        for position in positions:
            key = (position.epoch, position.batch, position.source, position.topic, position.partition)
            self._kept[key] = position
            if newest is None or is_newer(position, newest):
                newest = position
        if newest is None:
            return
        kept = {
            key: position
            for key, position in self._kept.items()
            if position.epoch != newest.epoch
            or position.batch <= newest.batch
            or position.tracked_at >= newest.tracked_at
        }
        batches = sorted({(position.epoch, position.batch) for position in kept.values()})[-KEPT_BATCHES:]
        self._kept = {key: position for key, position in kept.items() if (position.epoch, position.batch) in batches}

    def of(self, batch: int | None) -> Sequence[Position]:
        """Of one batch, or all; ordered by epoch, batch, source, topic, partition."""
        return [self._kept[key] for key in sorted(self._kept) if batch is None or key[1] == batch]


class KeptSightings:
    """What was seen and is believed of the clusters; not thread-safe, its store locks."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Sighting] = {}
        self._beliefs: dict[str, Belief] = {}

    def see(self, sightings: Iterable[Sighting], now: datetime) -> None:
        """Upsert, the newer one winning; what claims to come from the future gives way."""
        for sighting in sightings:
            key = (sighting.cluster, sighting.viewpoint)
            stands = self._seen.get(key)
            if stands is None or stands.seen_at <= sighting.seen_at or stands.seen_at > now:
                self._seen[key] = sighting

    def of(self, cluster: str | None) -> Sequence[Sighting]:
        """Of one cluster, or all; ordered by cluster and viewpoint."""
        return [self._seen[key] for key in sorted(self._seen) if cluster is None or key[0] == cluster]

    def prune(self, before: datetime, limit: int) -> int:
        """Forget the oldest of what nobody has renewed since that time."""
        old = [key for key, seen in self._seen.items() if seen.seen_at < before]
        gone = sorted(old, key=lambda key: (self._seen[key].seen_at, *key))[:limit]
        for key in gone:
            del self._seen[key]
        return len(gone)

    def believe(self, belief: Belief) -> bool:
        """Whether the verdict is another than before."""
        stands = self._beliefs.get(belief.cluster)
        same = stands is not None and stands.verdict is belief.verdict
        self._beliefs[belief.cluster] = replace(belief, since=stands.since) if stands and same else belief
        return not same

    def beliefs(self) -> Sequence[Belief]:
        """Ordered by cluster."""
        return [self._beliefs[cluster] for cluster in sorted(self._beliefs)]
