"""Timelines as the memory store keeps them; not thread-safe, its store locks."""

from collections.abc import Sequence
from datetime import datetime

from state.guards import KEPT_STRETCHES
from state.timeline import Stretch

Key = tuple[str, int, str, datetime]


class KeptTimelines:
    """Stretches of every query."""

    def __init__(self) -> None:
        self._kept: dict[Key, Stretch] = {}

    def save(self, stretch: Stretch, before: datetime) -> None:
        """Upsert unless what stands reaches further; then forget what ended before a time, and all but the newest."""
        stands = self._kept.get(_key(stretch))
        if stands is None or stands.until <= stretch.until:
            self._kept[_key(stretch)] = stretch
        for each in self._of(stretch.query):
            if each.until < before:
                del self._kept[_key(each)]
        newest = sorted(self._of(stretch.query), key=lambda each: (each.begin, each.epoch, each.cluster), reverse=True)
        for each in newest[KEPT_STRETCHES:]:
            del self._kept[_key(each)]

    def of(self, query: str, since: datetime | None) -> Sequence[Stretch]:
        found = (each for each in self._of(query) if since is None or each.until >= since)
        return sorted(found, key=lambda each: (each.epoch, each.begin, each.cluster))

    def at(self, query: str, time: datetime) -> Stretch | None:
        begun = (each for each in self._of(query) if each.begin <= time)
        return max(begun, key=lambda each: (each.epoch, each.begin, each.cluster), default=None)

    def prune(self, before: datetime, limit: int) -> int:
        old = sorted(
            (each for each in self._kept.values() if each.until < before), key=lambda each: (each.until, *_key(each))
        )[:limit]
        for each in old:
            del self._kept[_key(each)]
        return len(old)

    def _of(self, query: str) -> list[Stretch]:
        return [each for each in self._kept.values() if each.query == query]


def _key(stretch: Stretch) -> Key:
    return stretch.query, stretch.epoch, stretch.cluster, stretch.begin
