"""Reading the standby for all partitions that are being aligned, until each search has its answer.

A broker fills a response in the order of the request and stops at its byte limit (KIP-74). Only the first partition
gets a batch larger than its own limit, and the last ones may get nothing. So the order rotates from request to request,
and a partition's limit grows as it is read on.

Reading a record takes longer than carrying it here, and the place mostly lies a few records behind the lower bound. So
of what is sent only so much is read at first, and the rest is sent again to the few that need it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from state.model.entities import EndSample, TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import OFFSET, ClusterLog, Fetched, LogRecord, OffsetAnswer
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.ranges import FIRST_BYTES, MOST_BYTES, TRIES
from streaming.resume.contradictions import Snapshot, doubted
from streaming.resume.gaps import PartialSearch, move_on, stay
from streaming.resume.methods.content_search import LOOK_AHEAD, Cause, Found, NeedMore, NoPlace, Outcome, Search
from streaming.resume.methods.fingerprint_match import FingerprintMatcher

FIRST_RECORDS = 24
"""How many records from the lower bound on are read at first."""
NEAR_RECORDS = 128
"""So near the end all of it is read at first: behind the place it is looked through anyway for what was sent again."""
_GROWTH = 4
SCAN_RECORDS = 200_000
"""Records of one partition after which the search is given up."""
PARTITIONS_AT_ONCE = 500
SKEW_MS = 10_000
"""How far the clock of a standby that stamps records itself may be behind, at first sight."""
CLOCK_RECORDS = 20_000
"""Records that are searched before that, where such a clock says that the standby lags or holds other records."""
FOUND_RECORDS = 2_000
"""Records that are searched before that, where the place was found: with a slow clock it may be in a second copy."""


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
    requested_ms: int
    """The time whose look-up gave ``lo``: nothing before that is as new, says the standby."""
    hint: OffsetAnswer | None = None
    """That answer; None where no answer gave ``lo``."""
    old: EndSample | None = None
    """The old partition as it was last seen."""
    newest: OffsetAnswer | None = None
    """The standby's record with the largest timestamp."""
    read: FingerprintMatcher | None = None
    """All records read, where ``ring`` has only those that a replicator of committed records copies."""
    ahead_ms: int | None = None
    """The newest time of the old log, if it was last sampled with records behind the position; else None."""
    start: int = field(init=False)
    search: Search = field(init=False)
    next: int = field(init=False)
    size: int = FIRST_BYTES
    ahead: int = field(init=False)
    """How many offsets from ``next`` on are read in the next look."""
    tries: int = 0
    is_wide: bool = False
    """Whether the lower bound is that of all remembered records, and not only of the last ones."""
    is_older: bool = field(init=False)
    """Whether the standby says that it has no record as new as the newest of the last ones read."""
    back: int = 0
    """How many records before its lower bound are searched, because an answer is in doubt."""
    is_shorter: bool = False
    """Whether the log does not reach back to its begin, as that was looked up."""
    is_grown: bool = False
    """Whether the log was longer when it was read than when its end was looked up."""
    found: Found | None = None
    outcome: Found | NoPlace | None = None
    former: tuple[Found, Found | None] | None = None
    """What was found behind the bound by a clock of the standby, before the records before it were searched."""

    def __post_init__(self) -> None:
        self.is_older = self.lo >= self.end
        self.restart(self.lo)

    @property
    def contradiction(self) -> str:
        """What speaks against the answer that gave the lower bound; empty if nothing does so far."""
        if self.hint is None:
            return ""
        known = Snapshot(
            begin=self.begin,
            end=self.end,
            newest=self.newest,
            times={self.requested_ms: self.hint},
            records=self.search.records,
            read_from=self.start,
            read_to=self.next,
        )
        return doubted(known, self.requested_ms)

    def restart(self, lo: int) -> None:
        """Search again from another lower bound."""
        self.outcome = self.found = None
        fillers = min(self.ring.hidden, LOOK_AHEAD)  # what filled the holes may have been copied, aborted records say
        back = self.ring.size if self.compacted else 2 * self.ring.context + 8 + fillers
        self.lo = lo
        doubtful = self.ring.may_be_unread(self.begin_ms, append_time=self.append_time)
        from_begin = 0 < self.begin < lo and (doubtful or lo - self.begin <= self.ring.unbroken)
        whole = self.compacted and self.ring.is_whole and lo - self.begin <= LOOK_AHEAD
        self.start = self.next = self.begin if from_begin or whole else max(self.begin, lo - back)
        left = self.end - lo
        self.ahead = min(lo - self.start, LOOK_AHEAD) + (left if left <= NEAR_RECORDS else FIRST_RECORDS)
        cut = self.start == self.begin > 0
        if self.read is None:
            self.search = Search(
                self.ring,
                lo=lo,
                end=self.end,
                compacted=self.compacted,
                cut=cut,
                is_older=self.is_older,
                from_begin=self.start == self.begin,
            )
        else:
            self.search = PartialSearch(self.ring, self.read, lo=lo, end=self.end, cut=cut, ahead_ms=self.ahead_ms)

    def search_back(self, why: str) -> None:
        """Search so many records before the lower bound as shows that the first copies lie behind it, within a limit.

        ``why``: what speaks against the look-up by time that gave the bound. A record before the bound that is as new
        as the oldest one remembered does so as well: what was read may lie before it.
        """
        if self.back >= CLOCK_RECORDS or self.start <= self.begin:
            self.outcome = NoPlace(Cause.CONTRADICTED, why)
            return
        from_ms = self.ring.whole_from_ms
        self.back = min(CLOCK_RECORDS, max(LOOK_AHEAD, _GROWTH * self.back))
        self.is_wide, self.hint = True, None
        self.requested_ms = 0 if from_ms is None else from_ms
        self.restart(max(self.begin, min(self.lo, self.end) - self.back))

    def look_before(self, found: Found) -> None:
        """Search the records before a bound by the standby's clock, too: the first copy lies there if that is slow."""
        self.former, self.is_wide = (found, self.found), True
        self.restart(max(self.begin, min(self.lo, self.end) - FOUND_RECORDS))

    def take_first(self) -> None:
        """Of two places the earlier one, where its record is unlike others: the other one is in a second copy."""
        if self.former is None:
            return
        found, now = self.former[0], self.outcome
        is_first = isinstance(now, Found) and now.offset < found.offset
        if not (is_first and self.ring.last_is_unique(append_time=True)):
            self.outcome, self.found = self.former

    def is_begun_late(self) -> bool:
        """Whether the search went back before a doubted bound, and what it found there is as new as what was read."""
        if not self.back or self.append_time or self.start <= self.begin:
            return False
        before = self.search.records[: bisect_left(self.search.records, self.lo, key=OFFSET)]
        return any(record.timestamp_ms >= self.requested_ms for record in before)


def scan(log: ClusterLog, scans: Iterable[Scan], deadline: Deadline) -> None:
    """Give every scan an ``outcome``. One partition may be scanned several times, for several positions."""
    items = list(scans)
    _read_all(log, items, deadline)
    for item in items:
        item.take_first()


def _read_all(log: ClusterLog, items: Sequence[Scan], deadline: Deadline) -> None:
    todo = list(items)
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
        _widen(log, [item for item in batch.values() if _is_doubtful(item)], deadline)
        for item in batch.values():
            if item.outcome is None and item.next >= item.end:
                _settle(item, item.search.feed((), item.next))
        todo = [item for item in (*todo[1:], todo[0]) if item.outcome is None]


def _is_doubtful(item: Scan) -> bool:
    """Whether an answer of the standby is contradicted, or may hold only because not the whole ring was looked for.

    What contradicts is searched for from further back at once; the rest is left to the caller.
    """
    if isinstance(item.outcome, NoPlace) and item.outcome.cause in _FINAL:
        return False
    if item.next > item.lo or item.outcome is not None:
        why = item.contradiction or (_LATE if item.is_begun_late() else "")
        if why:
            item.search_back(why)
            return False
        item.hint = None
    if item.is_wide or item.compacted or item.outcome is None:
        return False
    stamped = item.outcome if item.append_time and isinstance(item.outcome, Found) else None
    if stamped is not None and not item.search.is_by_end and stamped.repeats is not None:
        if item.lo > item.begin:
            item.look_before(stamped)
        return False
    return item.search.is_by_end or stamped is not None


_LATE = "the records before the first one of a time are as new as it"
_FINAL = frozenset({Cause.CONTRADICTED, Cause.DEADLINE, Cause.ERROR, Cause.SCAN_LIMIT})


def _widen(log: ClusterLog, items: Sequence[Scan], deadline: Deadline) -> None:
    """Search again from where the oldest remembered record may lie: the last ones read may never have been copied.

    A standby that stamps the records itself has no time for that; there so many records before the bound are searched.
    """
    requested = {item: item.ring.whole_from_ms for item in items if not item.append_time}
    questions = [(item.key, time) for item, time in requested.items() if time is not None]
    answers = request_offsets(log, questions, deadline)
    for item in items:
        time, item.is_wide = requested.get(item), True
        if time is None:
            item.restart(max(item.begin, item.lo - CLOCK_RECORDS))
            continue
        looked = answers[item.key, time]
        if looked.error is not None:
            item.outcome = NoPlace(Cause.ERROR, f"{looked.error.name}: {looked.error.text}")
            continue
        item.requested_ms, item.hint = time, looked
        item.restart(min(item.lo, item.end if looked.offset is None else max(looked.offset, item.begin)))


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
    if got.high_watermark is not None and got.high_watermark > item.end and not item.is_grown:
        item.is_grown, item.end = True, got.high_watermark  # the log has grown, or its end was an old one
        item.search.end = item.end
    if got.next_offset > item.next:
        item.next, item.ahead = got.next_offset, item.ahead * _GROWTH
        records = got.records[: bisect_left(got.records, item.end, key=OFFSET)]  # what came after the snapshot is later
        _settle(item, _step(item, records))
    return False


def _take_error(item: Scan, got: Fetched) -> None:
    assert got.error is not None
    item.is_shorter = item.is_shorter or got.error.name == "OFFSET_OUT_OF_RANGE"
    if got.error.name == "OFFSET_OUT_OF_RANGE" and got.log_start is not None and got.log_start > item.next:
        item.next = item.begin = got.log_start  # retention has moved the begin
        item.hint = None  # the answers are older than this
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
        outcome = (
            stay(item.found, item.gap, end=item.end)
            if item.found
            else NoPlace(Cause.SCAN_LIMIT, f"{SCAN_RECORDS} records")
        )
    item.outcome = outcome


def _bridge(item: Scan, found: Found) -> Found | NeedMore:
    if not item.dense or item.compacted or item.append_time:
        return stay(found, item.gap, end=item.end)
    records = item.search.records
    return move_on(found, item.gap, item.ring, records, old=item.old, read_to=item.next, end=item.end)


def _restart_earlier(log: ClusterLog, items: list[Scan], deadline: Deadline) -> None:
    """The standby's own clock stamped these records: look the lower bound up again, allowing for its skew."""
    requested = [(item.key, max(0, item.lo_time_ms - SKEW_MS)) for item in items]
    answers = request_offsets(log, requested, deadline)
    for item, question in zip(items, requested, strict=True):
        item.append_time = True
        looked = answers[question]
        item.requested_ms, item.hint = question[1], looked
        if looked.error is not None:
            item.outcome = NoPlace(Cause.ERROR, f"{looked.error.name}: {looked.error.text}")
        else:
            item.restart(min(item.lo, item.end if looked.offset is None else looked.offset))
