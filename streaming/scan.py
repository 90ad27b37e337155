"""Reading the standby for all partitions that are being aligned, until each search has its answer.

A broker fills a response in the order of the request and stops at its byte limit (KIP-74): only the first partition
gets a batch larger than its own limit, and the last ones may get nothing. So the order rotates from request to request,
and a partition's limit grows as it is read on.

Reading a record takes longer than carrying it here, and the place mostly lies a few records behind the lower bound. So
of what is sent only so much is read at first, and the rest is sent again to the few that need it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from state.model import TopicPartition
from streaming.deadline import Deadline
from streaming.log import OFFSET, Fetched, Log, LogRecord
from streaming.lookup import ask
from streaming.resume.context import Ring
from streaming.resume.exact import LOOK_AHEAD, Cause, Found, NeedMore, NoPlace, Outcome, Search
from streaming.resume.gap import move_on, stay

FIRST_BYTES = 64 << 10
MOST_BYTES = 4 << 20
FIRST_RECORDS = 24
"""How many records from the lower bound on are read at first."""
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
    ring: Ring
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
        """Search anew from another lower bound."""
        back = len(self.ring.records) if self.compacted else 2 * self.ring.context + 8
        self.lo = lo
        doubtful = self.ring.may_be_unread(self.begin_ms, append_time=self.append_time)
        from_begin = 0 < self.begin < lo and (doubtful or lo - self.begin <= self.ring.unbroken)
        self.start = self.next = self.begin if from_begin else max(self.begin, lo - back)
        self.ahead = min(lo - self.start, LOOK_AHEAD) + FIRST_RECORDS
        cut = self.start == self.begin > 0
        self.search = Search(self.ring, lo=lo, end=self.end, compacted=self.compacted, cut=cut)

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


def scan(log: Log, scans: Iterable[Scan], deadline: Deadline) -> None:
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


def _restart_earlier(log: Log, items: list[Scan], deadline: Deadline) -> None:
    """The standby's own clock stamped these records: look the lower bound up again, allowing for its skew."""
    asked = [(item.key, max(0, item.lo_time_ms - SKEW_MS)) for item in items]
    answers = ask(log, asked, deadline)
    for item, question in zip(items, asked, strict=True):
        item.append_time = True
        looked = answers[question]
        if looked.error is not None:
            item.outcome = NoPlace(Cause.ERROR, f"{looked.error.name}: {looked.error.text}")
        else:
            item.restart(min(item.lo, item.end if looked.offset is None else looked.offset))
