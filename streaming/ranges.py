"""Reading ranges of several partitions' logs, whole or not at all."""

from bisect import bisect_left
from collections.abc import Mapping

from state.model import TopicPartition
from streaming.deadline import Deadline
from streaming.log import OFFSET, Fetched, Log, LogRecord
from streaming.scan import FIRST_BYTES, MOST_BYTES, TRIES

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition to the offsets ``[first, last)``."""


def read_ranges(
    log: Log, ranges: Ranges, *, limit: int, timeout: float
) -> dict[TopicPartition, tuple[LogRecord, ...] | None]:
    """The records of each range; None where an error, the deadline or ``limit`` records of a partition came between.

    Records that retention has deleted meanwhile make a range incomplete as well. Raises ``KafkaError`` when the
    cluster cannot be asked.
    """
    deadline = Deadline.after(timeout)
    readers = {key: _Reader(first, last) for key, (first, last) in ranges.items()}
    while not deadline.passed:
        starts = {key: (reader.next, reader.size) for key, reader in readers.items() if not reader.is_over(limit)}
        if not starts:
            break
        for key, fetched in log.fetch(starts, timeout=deadline.remaining).items():
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
