"""Follows a running query's checkpoint: which batch was planned, which one committed.

The checkpoint is the truth, and knowing the next batch id makes watching it cheap. It takes one existence check per log
and look, where a listing of the logs would read hundreds of names. The listener's events come later (130 ms at the
median) and only as a hint.

Where the run itself reports what it publishes (``batch_news``), that is believed, and the folders are looked at when
something is missing between two entries, and every five seconds.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from state.messages import Offsets
from streaming.spark.checkpoint.batch_news import PublishedEntry
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import (
    Declared,
    OffsetEntry,
    bind_sources,
    parse_fence,
    parse_offset_entry,
    source_offsets,
)
from streaming.spark.checkpoint.mapping import Placed, read_moves
from streaming.spark.checkpoint.read import batch_ids, newest_commit
from streaming.spark.errors import FileVanished

_LIST_SECONDS = 5.0
"""How long nothing new may be seen before the logs are listed. More batches may have passed between two looks than
Spark keeps (``spark.sql.streaming.minBatchesToRetain``), and then the next id never comes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """A batch as the checkpoint shows it."""

    id: int
    offsets: Offsets
    """End offsets per declared source."""
    committed: bool
    planned_after: float | None = field(default=None, compare=False)
    """The look, on the monotonic clock, at which it was not planned yet. None where it was there at the first look,
    so that an earlier run may have planned it."""


class Follower:
    """One checkpoint, from where it was when the run began."""

    def __init__(
        self, files: CheckpointFiles, checkpoint: str, declared: Declared, placed: Placed | None = None
    ) -> None:
        """``placed``: where the row of the query says that it is; what it reports is in that cluster's offsets."""
        self._files = files
        self._moves = read_moves(files, checkpoint, placed)
        self._checkpoint = checkpoint
        self._declared = declared
        self._planned: dict[int, Offsets] = {}
        self.committed = max(batch_ids(files, checkpoint, "commits"), default=None)
        """Newest committed batch id, None before the first."""
        self._next_planned = 0 if self.committed is None else self.committed
        self._looked: float | None = None
        self._listed = time.monotonic()
        self._reported: dict[tuple[str, int], bytes] = {}
        self._opened: float | None = None
        """When the folders were last looked at."""
        self._in_folders = True
        self.data_batch = self._first_data_batch()
        """The first batch id of this run that can hold new data."""

    def poll(self, published: Sequence[PublishedEntry] | None = None) -> list[Batch]:
        """What is new since the last look, in order: planned batches before the commits of the same batches.

        ``published`` is what the run has published since, where it reports that; None where it does not, and the
        folders are looked at. Where the batches in between are gone, it continues with the newest that was committed.
        """
        self._reported = {(each.log, each.batch): each.content for each in published or ()}
        seen = self._look(in_folders=published is None or self._is_due())
        if self._is_missing():
            self._looked = None  # it is not known when it was planned
            seen += self._look(in_folders=True)
        self._reported = {}
        if seen:
            self._listed = time.monotonic()
        elif time.monotonic() - self._listed >= _LIST_SECONDS:
            self._listed = time.monotonic()
            newest = newest_commit(self._files, self._checkpoint)
            if newest is not None and newest >= self._next_planned:
                self._next_planned, self.committed = newest, newest - 1
                self._looked = None  # it is not known when it was planned
                seen = self._look(in_folders=True)
        return seen

    def _is_missing(self) -> bool:
        """Whether an entry was reported that comes after one that was not."""
        committed = -1 if self.committed is None else self.committed
        newest = {"offsets": self._next_planned - 1, "commits": committed}
        return any(batch > newest[log] for log, batch in self._reported)

    def _is_due(self) -> bool:
        """Whether the folders have to be looked at though the run reports its batches."""
        return self._opened is None or time.monotonic() - self._opened >= _LIST_SECONDS

    def _look(self, *, in_folders: bool) -> list[Batch]:
        if in_folders:
            self._opened = time.monotonic()
        self._in_folders = in_folders
        seen: list[Batch] = []
        before, self._looked = self._looked, time.monotonic()
        while self._exists("offsets", self._next_planned):
            entry = self._entry(self._next_planned)
            if entry is None:
                break  # a planted entry: this checkpoint is fenced
            offsets = source_offsets(entry, bind_sources([entry], self._declared))
            self._planned[self._next_planned] = offsets
            seen.append(
                Batch(
                    id=self._next_planned,
                    offsets=offsets,
                    committed=self._next_planned == self.committed,
                    planned_after=before,
                )
            )
            self._next_planned += 1
        following = 0 if self.committed is None else self.committed + 1
        while following < self._next_planned and self._exists("commits", following):
            seen.append(Batch(id=following, offsets=self._planned.get(following, {}), committed=True))
            self.committed = following
            following += 1
        self._planned = {batch: offsets for batch, offsets in self._planned.items() if batch >= following - 1}
        return seen

    def _first_data_batch(self) -> int:
        """N+1, or N+2 where N+1 is planned with the very offsets of N: then it is empty (a bridge)."""
        if self.committed is None:
            return 0
        last, following = self._entry(self.committed), self._entry(self.committed + 1)
        bridge = last is not None and following is not None and dict(last.sources) == dict(following.sources)
        return self.committed + (2 if bridge else 1)

    def _exists(self, log: str, batch: int) -> bool:
        if (log, batch) in self._reported:
            return True
        return self._in_folders and self._files.exists(join(self._checkpoint, log, str(batch)))

    def _entry(self, batch: int) -> OffsetEntry | None:
        path = join(self._checkpoint, "offsets", str(batch))
        content = self._reported.get(("offsets", batch))
        try:
            content = self._files.read_bytes(path) if content is None else content
        except FileVanished:
            return None
        return None if parse_fence(content) else self._moves.on_active(parse_offset_entry(content, path), path, batch)
