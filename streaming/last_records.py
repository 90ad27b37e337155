"""The last records before an offset, for many partitions at once: what a query has just read.

Offsets are no record count: markers, aborted transactions and compaction leave holes. So a reader that finds too few
records steps back, twice as far each time, until it has enough, meets the log's start, or has tried often enough.
Fetches go through the port under the isolation level of the query: just what it could have seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from state.model.entities import TopicPartition
from state.model.fingerprints import Fingerprints
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Fetched, LogRecord, OffsetAnswer, PartitionError, Spec

_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
_FIRST_BYTES = 32 << 10
_MOST_BYTES = 4 << 20
_SLACK = 4
_MOST_RECORDS = 256
"""Of a tail that is made longer for the sake of committed records."""
_MOST_STEPS = 8
"""With the distance doubled each time: 255 times the wanted count, plenty for markers, bounded for compacted logs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRecords:
    """The newest data records of one partition strictly before an end offset."""

    records: Fingerprints
    """At most the wanted count; fewer at the log's start, from what is known on, across wide holes, or with an
    error."""
    start: int
    """Every offset in ``[start, end)`` was looked at, and its data records are ``records``."""
    dense: bool
    """Whether every offset in ``[start, end)`` held a data record."""
    leader_epoch: int | None
    """Epoch of the leader that appended the newest of the records; None without one."""
    error: PartitionError | None = None


def read_last_records(
    log: ClusterLog,
    ends: Mapping[TopicPartition, int],
    *,
    count: int,
    known: Mapping[TopicPartition, int] | None = None,
    timeout: float,
    read_committed: bool = True,
) -> Mapping[TopicPartition, LastRecords]:
    """Read the last ``count`` data records before each end offset, within ``timeout`` seconds.

    A read_uncommitted tail has more of them, up to 256, where fewer than half of ``count`` are committed: a replicator
    may copy only those.
    Who knows the records before some offset already says so by ``known``: nothing before it is read.
    Raises what ``log.fetch`` raises when the cluster cannot be reached at all; a partition's error is in its tail.
    """
    deadline = Deadline.after(timeout)
    known = known or {}
    searches = {each: _Search(end=end, count=count, known=known.get(each, 0)) for each, end in ends.items()}
    while not deadline.passed:
        requesting = {partition: search for partition, search in searches.items() if not search.over}
        if not requesting:
            break
        starts = {partition: (search.position, search.bytes) for partition, search in requesting.items()}
        until = {partition: search.upper for partition, search in requesting.items()}
        answers = log.fetch(starts, until=until, read_committed=read_committed, timeout=deadline.remaining)
        missed = [partition for partition, search in requesting.items() if not search.take(answers[partition])]
        if missed:
            begins = log.offsets(dict.fromkeys(missed, Spec.EARLIEST), timeout=deadline.remaining)
            for partition in missed:
                searches[partition].move(begins[partition])
    return {partition: search.tail() for partition, search in searches.items()}


@dataclass(kw_only=True, slots=True)
class _Search:
    """One partition's way back: stretches ``[lower, upper)`` are read forwards, each before the one read last."""

    end: int
    count: int
    known: int
    lower: int = field(init=False)
    upper: int = field(init=False)
    position: int = field(init=False)
    bytes: int = _FIRST_BYTES
    over: bool = field(init=False)
    _stretch: list[LogRecord] = field(init=False, default_factory=list)
    _newer: list[LogRecord] = field(init=False, default_factory=list)
    _covered: int = field(init=False)
    """Every data record from here to the end is in ``_newer``."""
    _log_start: int = field(init=False, default=0)
    _moved: bool = field(init=False, default=False)
    _steps: int = field(init=False, default=0)
    _error: PartitionError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.upper = self._covered = self.end
        # A few offsets more than records: a marker or two in between then cost no second look.
        self.lower = self.position = max(self.known, self.end - self.count - max(_SLACK, self.count // 8))
        self.over = self.end <= self.known or self.count <= 0

    def take(self, answer: Fetched) -> bool:
        """Use one answer; False when its offset is out of range and the log's start has to be requested."""
        self._log_start = max(self._log_start, answer.log_start or 0)
        if answer.error is not None:
            if answer.error.name == _OUT_OF_RANGE and not self._moved:
                return False
            self._stop(answer.error)
            return True
        self._stretch += (record for record in answer.records if record.offset < self.upper)
        if answer.next_offset > self.position:
            self.position = answer.next_offset
            self.bytes = min(_MOST_BYTES, self.bytes * 4)
        elif answer.needs_bytes > self.bytes:
            self.bytes = answer.needs_bytes
        else:  # no reader sees more of this log: it was cut, or an open transaction holds it back
            self._stop(_cut_short(self.end))
        if self.position >= self.upper and not self.over:
            self._step_back()
        return True

    def move(self, begin: OffsetAnswer) -> None:
        """Continue from the log's start: retention has taken what lies before it."""
        self._moved = True
        if begin.offset is None or begin.error is not None:
            self._stop(begin.error or _cut_short(self.end))
            return
        self._log_start = begin.offset
        self._stretch = []
        self.lower = self.position = min(self.upper, max(self.lower, begin.offset))
        if self.position >= self.upper:
            self._step_back()

    def _step_back(self) -> None:
        self._newer = self._stretch + self._newer
        self._stretch = []
        self._covered = self.upper = self.lower
        self._steps += 1
        enough = self._wanted(self._newer) <= len(self._newer)
        if enough or self.lower <= self._first or self._steps >= _MOST_STEPS:
            self.over = True
            return
        self.lower = self.position = max(self._first, self.lower - (self.count << self._steps))

    @property
    def _first(self) -> int:
        """Where reading back ends at the latest."""
        return max(self.known, self._log_start)

    def _wanted(self, records: Sequence[LogRecord]) -> int:
        """How many of the last of these records make a tail; more than there are while it is too short."""
        committed = self.count // 2
        for back, record in enumerate(reversed(records), 1):
            committed -= not record.uncommitted
            if (committed <= 0 and back >= self.count) or back >= _MOST_RECORDS:
                return back
        return max(self.count, len(records) + 1)

    def _stop(self, error: PartitionError) -> None:
        self._error, self.over = error, True

    def tail(self) -> LastRecords:
        """Return what was found; unfinished stretches do not count, as newer records of theirs are missing."""
        wanted = self._wanted(self._newer)
        records = self._newer[-wanted:]
        start = records[0].offset if len(self._newer) >= wanted else self._covered
        error = self._error or (None if self.over else _timed_out())
        return LastRecords(
            records=Fingerprints.of(
                (each[:3] for each in records), [each.offset for each in records if each.uncommitted]
            ),
            start=start,
            dense=len(records) == self.end - start,
            leader_epoch=records[-1].leader_epoch if records else None,
            error=error,
        )


def _cut_short(end: int) -> PartitionError:
    text = f"the log returned no more records, although it should reach offset {end}"
    return PartitionError(name=_OUT_OF_RANGE, text=text, retriable=False)


def _timed_out() -> PartitionError:
    return PartitionError(name="TIMED_OUT", text="not all of the tail was read in time", retriable=True)
