"""MirrorMaker 2's offset syncs, the pairs that it writes of what it copied where, and which of them count.

A sync ``(u, d)`` says that the record at offset ``u`` of the old cluster is the one at ``d`` here. At ``u`` the place
is ``d``. Above it the place is ``d + 1`` and never further. How many of the old offsets in between hold a record that
was copied is not known: markers, aborted and compacted records are not. To add the distance would skip unread records.
Below the oldest sync there is no answer. That is the rule of Kafka's own ``OffsetSyncStore``.

Stricter than that store, a sync counts only if the replicator was at its front when it wrote it. A replicator that was
restarted sends again, and the syncs of the second copies point behind the first ones. If it dies before it has sent
all of them a second time, what was unread then lies *before* such a sync. So syncs of a re-send are left out until as
many records have been sent again as lay behind the place where it began. The ones that count grow in both offsets.

Two things cannot be seen from here: what compaction has taken out of the topic of the syncs, so the oldest sync known
is taken for one of the front. And a restart whose every trace lies in a hole of the old offsets of its very width.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

_UPSTREAM = attrgetter("upstream")


class Sync(NamedTuple):
    """The record at ``upstream`` of the old partition is the one at ``downstream`` of the standby's."""

    upstream: int
    downstream: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Syncs:
    """One old partition's syncs that count, both offsets growing."""

    front: tuple[Sync, ...] = ()
    resent_from: int | None = None
    """Where on the standby the newest re-send began, if there was one; what follows may hold second copies."""

    @classmethod
    def of(cls, written: Iterable[Sync]) -> "Syncs":
        """Keep those that count, of all that were written, in the order in which they were."""
        sorting = _Sorting()
        for sync in written:
            sorting.take(sync)
        return cls(front=tuple(sorting.front), resent_from=sorting.resent_from)

    def before(self, offset: int) -> tuple[Sync, Sync | None] | None:
        """The last sync at or below an old offset, with the one after it; None below the oldest."""
        at = bisect_right(self.front, offset, key=_UPSTREAM)
        return (self.front[at - 1], self.front[at] if at < len(self.front) else None) if at else None

    def translate(self, offset: int) -> int | None:
        """The place of an old offset (next to read) on the standby; None below the oldest sync."""
        around = self.before(offset)
        return None if around is None else place_of(around[0], offset)

    def repeats(self, offset: int) -> int | None:
        """At most this many records from the place on were already read; None where a re-send followed it."""
        around = self.before(offset)
        if around is None:
            return None
        sync, after = around
        if self.resent_from is not None and self.resent_from >= sync.downstream:
            return None
        most = max(0, offset - sync.upstream - 1)
        return most if after is None else min(most, after.downstream - place_of(sync, offset))


class _Sorting:
    """Which syncs were written at the front, passed one after the other.

    From one record to the next the old offset grows by one or more, and the standby's by one. Where the standby's grew
    by more than the old one, something was sent again in between.
    """

    def __init__(self) -> None:
        self.front: list[Sync] = []
        self.resent_from: int | None = None
        self._last: Sync | None = None
        self._began: Sync | None = None
        self._owed = 0

    def take(self, sync: Sync) -> None:
        last, self._last = self._last, sync
        if sync == last:
            return
        if last is None or sync.downstream <= last.downstream:
            self._restart(sync)  # the standby's topic was created again: nothing that was said of it holds
        elif sync.upstream - last.upstream < sync.downstream - last.downstream:
            self._began = sync
            self.resent_from = last.downstream + 1
            self._owed = self._sent_before(sync)
        elif self._is_caught_up(sync):
            self._began = None
            self.front.append(sync)

    def _restart(self, sync: Sync) -> None:
        self.front, self._began, self.resent_from = [sync], None, None

    def _is_caught_up(self, sync: Sync) -> bool:
        if self._began is None:
            return True
        return sync.downstream - self._began.downstream >= self._owed and sync.upstream > self.front[-1].upstream

    def _sent_before(self, began: Sync) -> int:
        """How many records must be sent again, at most, until all that was ever sent has been.

        Counted in records: what the standby appended since the last front sync at or below the beginning.
        """
        at = bisect_right(self.front, began.upstream, key=_UPSTREAM)
        known = self.front[max(0, at - 1)]
        return began.downstream - 1 - known.downstream + max(0, known.upstream - began.upstream)


def place_of(sync: Sync, offset: int) -> int:
    return sync.downstream + (offset > sync.upstream)
