"""Reading the standby for all partitions that are being aligned, until each search has its answer; and whole ranges.

A broker fills a response in the order of the request and stops at its byte limit (KIP-74): only the first partition
gets a batch larger than its own limit, and the last ones may get nothing. So the order rotates from request to request,
and a partition's limit grows as it is read on.

Reading a record takes longer than carrying it here, and the place mostly lies a few records behind the lower bound. So
of what is sent only so much is read at first, and the rest is sent again to the few that need it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import OFFSET, ClusterLog, Entries, Entry, Fetched, LogRecord
from streaming.resolve.batched_lookups import ask_offsets
from streaming.resume import notes
from streaming.resume.gaps import PartialSearch, move_on, stay
from streaming.resume.methods.content_search import LOOK_AHEAD, Cause, Found, NeedMore, NoPlace, Outcome, Search
from streaming.resume.methods.fingerprint_match import FingerprintMatcher

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition to the offsets ``[first, last)``."""


def read_ranges(
    log: ClusterLog, ranges: Ranges, *, limit: int, timeout: float, read_committed: bool = False
) -> dict[TopicPartition, tuple[LogRecord, ...] | None]:
    """The records of each range; None where an error, the deadline or ``limit`` records of a partition came between.

    Records that retention has deleted meanwhile make a range incomplete as well, and so does the end of what a
    ``read_committed`` reader may see. Raises ``KafkaError`` when the cluster cannot be asked.
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


ENTRY_BYTES = 1 << 20
FIRST_BYTES = 64 << 10
MOST_BYTES = 4 << 20
FIRST_RECORDS = 24
"""How many records from the lower bound on are read at first."""
NEAR_RECORDS = 128
"""So near the end all of it is read at first: behind the place it is looked through anyway for what was sent again."""
_GROWTH = 4
SCAN_RECORDS = 200_000
"""Records of one partition after which the search is given up."""
PARTITIONS_AT_ONCE = 500
TRIES = 3
"""How often a retriable error of one partition is met before it counts."""
SKEW_MS = 10_000
"""How far the clock of a standby that stamps records itself may be behind, at first sight."""
CLOCK_RECORDS = 20_000
"""Records that are searched before that, where such a clock says that the standby lags or holds other records."""


@dataclass(kw_only=True, slots=True, eq=False)
class Scan:
    """One alignment under way. ``search`` starts at ``start``; ``gap`` old records lie between ring and checkpoint."""

    key: TopicPartition
    ring: FingerprintMatcher
    begin: int
    begin_ms: int | None = None
    """Time of the first record that retention has left; None unknown, or nothing was deleted."""
    end: int
    lo: int
    lo_time_ms: int
    compacted: bool
    append_time: bool
    gap: int
    dense: bool
    read: FingerprintMatcher | None = None
    """All records read, where ``ring`` has only those that a replicator of committed records copies."""
    start: int = field(init=False)
    search: Search = field(init=False)
    next: int = field(init=False)
    size: int = FIRST_BYTES
    ahead: int = field(init=False)
    """How many offsets from ``next`` on are read in the next look."""
    tries: int = 0
    doubted: NoPlace | None = None
    found: Found | None = None
    outcome: Found | NoPlace | None = None

    def __post_init__(self) -> None:
        self.restart(self.lo)

    def restart(self, lo: int) -> None:
        """Search again from another lower bound."""
        fillers = min(self.ring.hidden, LOOK_AHEAD)  # what filled the holes may have been copied, aborted records say
        back = self.ring.size if self.compacted else 2 * self.ring.context + 8 + fillers
        self.lo = lo
        doubtful = self.ring.may_be_unread(self.begin_ms, append_time=self.append_time)
        from_begin = 0 < self.begin < lo and (doubtful or lo - self.begin <= self.ring.unbroken)
        self.start = self.next = self.begin if from_begin else max(self.begin, lo - back)
        left = self.end - lo
        self.ahead = min(lo - self.start, LOOK_AHEAD) + (left if left <= NEAR_RECORDS else FIRST_RECORDS)
        cut = self.start == self.begin > 0
        if self.read is None:
            self.search = Search(self.ring, lo=lo, end=self.end, compacted=self.compacted, cut=cut)
        else:
            self.search = PartialSearch(self.ring, self.read, lo=lo, end=self.end, cut=cut)

    def doubt(self) -> None:
        """Where only the standby's clock speaks against a place, look before it, once; then say nothing by that clock.

        A clock further behind than was allowed for makes a standby that has all look as if it lagged.
        """
        if not self.append_time or not isinstance(self.outcome, NoPlace) or self.outcome.cause not in _BY_CLOCK:
            return
        if self.doubted is None:
            self.doubted, self.outcome, self.found = self.outcome, None, None
            self.restart(max(self.begin, self.lo - CLOCK_RECORDS))
        elif self.doubted.cause is Cause.LAGS and self.lo > self.begin:
            self.outcome = NoPlace(Cause.SCAN_LIMIT, f"{CLOCK_RECORDS} records before its time here")
        else:
            self.outcome = self.doubted


_BY_CLOCK = frozenset({Cause.LAGS, Cause.MISMATCH})


def scan(log: ClusterLog, scans: Iterable[Scan], deadline: Deadline) -> None:
    """Give every scan an ``outcome``. One partition may be scanned several times, for several positions."""
    todo = list(scans)
    for item in todo:
        if item.next >= item.end:
            _settle(item, item.search.feed((), item.next))
    todo = [item for item in todo if item.outcome is None]
    while todo:
        if deadline.passed:
            for item in todo:
                item.outcome = NoPlace(Cause.DEADLINE)
            return
        batch = _batch(todo)
        starts = {key: (item.next, item.size) for key, item in batch.items()}
        until = {key: item.next + item.ahead for key, item in batch.items() if not item.compacted}
        answers = log.fetch(starts, until=until, timeout=deadline.remaining)
        restamped = [item for key, item in batch.items() if key in answers and _take(item, answers[key])]
        _restart_earlier(log, restamped, deadline)
        for item in batch.values():
            item.doubt()
        todo = [item for item in (*todo[1:], todo[0]) if item.outcome is None]


def _batch(todo: Iterable[Scan]) -> dict[TopicPartition, Scan]:
    batch: dict[TopicPartition, Scan] = {}
    for item in todo:
        batch.setdefault(item.key, item)
        if len(batch) == PARTITIONS_AT_ONCE:
            break
    return batch


def _take(item: Scan, got: Fetched) -> bool:
    """Feed one answer to its search; True when the search must begin again earlier (LogAppendTime)."""
    if got.error is not None:
        _take_error(item, got)
        return False
    item.size = max(min(MOST_BYTES, item.size * _GROWTH if got.records else item.size), got.needs_bytes)
    if got.records and got.records[0].append_time and not item.append_time:
        return True
    if got.high_watermark is not None and item.next >= got.high_watermark and not got.records:
        item.outcome = NoPlace(Cause.ERROR, "the end of the log went back")
        return False
    if got.next_offset > item.next:
        item.next, item.ahead = got.next_offset, item.ahead * _GROWTH
        records = got.records[: bisect_left(got.records, item.end, key=OFFSET)]  # what came after the snapshot is later
        _settle(item, _step(item, records))
    return False


def _take_error(item: Scan, got: Fetched) -> None:
    assert got.error is not None
    if got.error.name == "OFFSET_OUT_OF_RANGE" and got.log_start is not None and got.log_start > item.next:
        item.next = item.begin = got.log_start  # retention moved the begin meanwhile
        item.search.cut = not item.search.records
        if item.next >= item.end:
            _settle(item, item.search.feed((), item.next))
        return
    item.tries += 1
    if not got.error.retriable or item.tries >= TRIES:
        item.outcome = NoPlace(Cause.ERROR, f"{got.error.name}: {got.error.text}")


def _step(item: Scan, records: Sequence[LogRecord]) -> Outcome:
    if item.found is None:
        return item.search.feed(records, item.next)
    item.search.records.extend(records)
    return item.found


def _settle(item: Scan, outcome: Outcome) -> None:
    """Take a search's answer; a place found for the ring may have to be moved on to the checkpoint's."""
    if isinstance(outcome, Found) and item.gap:
        item.found = outcome
        outcome = _bridge(item, outcome)
    if isinstance(outcome, NeedMore):
        if len(item.search.records) <= SCAN_RECORDS:
            return
        outcome = stay(item.found, item.gap) if item.found else NoPlace(Cause.SCAN_LIMIT, f"{SCAN_RECORDS} records")
    item.outcome = outcome


def _bridge(item: Scan, found: Found) -> Found | NeedMore:
    if not item.dense or item.compacted or item.gap > SCAN_RECORDS:
        return stay(found, item.gap)
    return move_on(found, item.gap, item.ring, item.search.records, read_to=item.next, end=item.end)


def _restart_earlier(log: ClusterLog, items: list[Scan], deadline: Deadline) -> None:
    """The standby's own clock stamped these records: look the lower bound up again, allowing for its skew."""
    asked = [(item.key, max(0, item.lo_time_ms - SKEW_MS)) for item in items]
    answers = ask_offsets(log, asked, deadline)
    for item, question in zip(items, asked, strict=True):
        item.append_time = True
        looked = answers[question]
        if looked.error is not None:
            item.outcome = NoPlace(Cause.ERROR, f"{looked.error.name}: {looked.error.text}")
        else:
            item.restart(min(item.lo, item.end if looked.offset is None else looked.offset))
