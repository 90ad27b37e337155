"""Reading whole ranges of the standby: all records between two offsets, or nothing."""

from bisect import bisect_left
from collections.abc import Mapping

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import OFFSET, ClusterLog, Entries, Entry, Fetched, LogRecord
from streaming.resume import notes

ENTRY_BYTES = 1 << 20
FIRST_BYTES = 64 << 10
MOST_BYTES = 4 << 20
TRIES = 3
"""How often a retriable error of one partition is met before it counts."""
Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition to the offsets ``[first, last)``."""


def read_ranges(
    log: ClusterLog, ranges: Ranges, *, limit: int, timeout: float, read_committed: bool = False
) -> dict[TopicPartition, tuple[LogRecord, ...] | None]:
    """The records of each range; None where an error, the deadline or ``limit`` records of a partition came between.

    Records that retention has deleted in between make a range incomplete as well, and so does the end of what a
    ``read_committed`` reader may see. Raises ``KafkaError`` when the cluster cannot be reached.
    """
    deadline = Deadline.after(timeout)
    readers = {key: _Reader(first, last) for key, (first, last) in ranges.items()}
    while not deadline.passed:
        starts = {key: (reader.next, reader.size) for key, reader in readers.items() if not reader.is_over(limit)}
        if not starts:
            break
        for key, fetched in log.fetch(starts, read_committed=read_committed, timeout=deadline.remaining).items():
            readers[key].take(fetched)
    return {key: reader.records_if_whole() for key, reader in readers.items()}


class _Reader:
    """How far one range is read."""

    def __init__(self, first: int, last: int) -> None:
        self.next = first
        self.size = FIRST_BYTES
        self._last = last
        self._records: list[LogRecord] = []
        self._failures = 0

    def is_over(self, limit: int) -> bool:
        return self.next >= self._last or self._failures >= TRIES or len(self._records) > limit

    def take(self, fetched: Fetched) -> None:
        if fetched.error is not None:
            self._failures = self._failures + 1 if fetched.error.retriable else TRIES
            return
        if fetched.next_offset == self.next and not fetched.needs_bytes:
            self._failures += 1  # nothing there, although the range says so
        self.size = max(min(MOST_BYTES, self.size * 4), fetched.needs_bytes)
        self.next = fetched.next_offset
        self._records += fetched.records[: bisect_left(fetched.records, self._last, key=OFFSET)]

    def records_if_whole(self) -> tuple[LogRecord, ...] | None:
        return tuple(self._records) if self.next >= self._last else None


def read_entries(log: ClusterLog, key: TopicPartition, first: int, end: int, deadline: Deadline) -> list[Entry] | str:
    """The records of one partition from ``first`` up to ``end`` in full, or why not, in one sentence."""
    records: list[Entry] = []
    size, failures = ENTRY_BYTES, 0
    while first < end:
        if deadline.passed:
            return "the deadline passed before its end was read"
        got = log.entries(key, (first, size), timeout=deadline.remaining)
        if got.error is not None and not got.error.retriable:
            return notes.failed(got.error)
        failures = failures + 1 if _is_stuck(got, first) else 0
        if failures >= TRIES:
            return "its end cannot be read" if got.error is None else notes.failed(got.error)
        size = max(size, got.needs_bytes)
        first = max(first, got.next_offset)
        records += (record for record in got.records if record.offset < end)
    return records


def _is_stuck(got: Entries, first: int) -> bool:
    return got.error is not None or (got.next_offset <= first and not got.needs_bytes)
