"""Reading what the standby holds behind the places found by content, to count what was sent again of what was read.

Mostly that is little: what the replicator copied while the last batch was under way. How much is read is bounded by
records and by time; where the bound is met, it is not known what lies there.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from state.model.entities import Fingerprint, TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import OFFSET, LogRecord, Spec
from streaming.resolve.answer_checks import BEFORE
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.lookup import Case, Lookup
from streaming.resolve.ranges import read_ranges
from streaming.resume import notes
from streaming.resume.contradictions import doubted
from streaming.resume.methods.content_search import Found
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.sent_again import Behind, Resent, most_later, unknown

MOST_READ = 200_000
"""Behind the place of one partition no more offsets are looked through."""
MOST_SEARCHED = 20_000
"""Records before the place that are read to find the first copy of one record."""
MOST_BY_CONTENT = 2_000
"""So many records right before the place, and as many at the log's begin, are read where only contents show first
copies."""
MOST_RECALLED = 500
"""So many offsets before those of the search are read where a few records behind the place may be late, or copies."""
SEARCH_SECONDS = 2.0
"""How long is searched by default: as long as a verb that only looks may take."""
AT_ONCE = 500


@dataclass(kw_only=True, slots=True, eq=False)
class _Look:
    """One place, and what lies behind it."""

    case: Case
    first: int
    """Behind the last remembered record; from there to the place records were read that are not remembered."""
    place: int
    begin: int
    end: int
    known: Sequence[LogRecord]
    """What the search has read already from ``first`` on."""
    read_to: int
    behind: Behind | None = None
    left: list[int] = field(default_factory=list)
    """Records that look too old to be unread, and whose first copy was not looked for yet."""
    oldest: int = 0
    """The first of them."""
    newest: int = 0
    """The last of them."""
    counted: int = -1
    """The last record that counts as read, or lies before one, because its first copy was found."""
    decided: bool
    """Whether a first copy would have been found; compaction may have removed it."""
    hides: bool = False
    """Whether records that are no longer there, or not known, may have been sent again: what is to come is unknown."""


def count_sent_again(run: Lookup, cases: Iterable[Case]) -> None:
    """Give each case whose place was found by content what was sent again behind it; say where time was too short."""
    looks = [look for case in cases if (look := _look(run, case)) is not None]
    deadline = Deadline.after(min(run.search_seconds, run.deadline.remaining / 2))
    for some in _in_turns(looks):
        _read(run, some, deadline)
    _compare(run, [look for look in looks if look.left and look.behind and look.behind.needs_contents], deadline)
    doubted = [look for look in looks if look.left]
    while doubted:
        _search(run, doubted, deadline)
        doubted = [look for look in doubted if look.left]
    _recall(run, looks, deadline)
    for look in looks:
        if look.hides:
            look.case.resent = replace(look.case.resent, later=most_later(look.case.want))
    has_unknown = any(look.case.resent.records is None for look in looks)
    run.search_cut_short = has_unknown and deadline.passed


def _look(run: Lookup, case: Case) -> _Look | None:
    found, scan = case.alignment, case.scan
    if not isinstance(found, Found) or not case.want.ring:
        return None
    end, place = run.bound(case.key, Spec.LATEST), found.offset + (found.repeats or 0)
    if found.offset >= end:
        case.behind = ()
    if found.offset >= end:
        return None
    first = found.offset if scan is None or scan.found is None else scan.found.offset
    known = () if scan is None else scan.search.records
    return _Look(
        case=case,
        first=first,
        place=place,
        begin=run.bound(case.key, Spec.EARLIEST),
        end=end,
        known=known[bisect_left(known, first, key=OFFSET) :],
        read_to=first if scan is None else min(end, max(first, scan.next)),
        decided=not run.is_compacted(case.key.topic),
    )


def _in_turns(looks: Sequence[_Look]) -> Iterator[list[_Look]]:
    """The shortest first, this many at once that their answer has a bound."""
    rest = iter(sorted(looks, key=lambda look: look.end - look.read_to))
    while some := list(islice(rest, AT_ONCE)):
        yield some


def _read(run: Lookup, looks: Sequence[_Look], deadline: Deadline) -> None:
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for look in looks:
        first, last = ranges.get(look.case.key, (look.read_to, look.end))
        if look.read_to < look.end and look.end - look.place <= MOST_READ:
            ranges[look.case.key] = min(first, look.read_to), max(last, look.end)
    read: Mapping[TopicPartition, Sequence[LogRecord] | None] = {}
    if ranges and not deadline.passed:
        read = read_ranges(run.log, ranges, limit=MOST_READ, timeout=deadline.remaining)
    for look in looks:
        rest = read.get(look.case.key) if look.read_to < look.end else ()
        if rest is None:
            behind = look.end - look.place
            note = notes.unread_behind(behind) if behind > MOST_READ else notes.unsearched_behind(behind)
            look.case.resent = unknown(note)
            continue
        records = [*look.known, *rest[bisect_left(rest, look.read_to, key=OFFSET) :]]
        assert isinstance(look.case.alignment, Found)
        look.case.behind = records[bisect_left(records, look.case.alignment.offset, key=OFFSET) :]
        if taken := _read_before(look, records):
            look.place = max(look.place, records[taken - 1].offset + 1)
        look.behind = _behind(look, records, compacted=run.is_compacted(look.case.key.topic))
        look.case.resent = _with_twice(look.behind.proven(), look)
        look.hides = _takes_strangers(look, records) or _is_thinned(run, look)
        look.left = look.behind.suspects()
        look.oldest, look.newest = min(look.left, default=0), max(look.left, default=0)


def _behind(look: _Look, records: Sequence[LogRecord], *, compacted: bool) -> Behind:
    """Records that were read after those remembered are known from the standby, where they follow."""
    want, place = look.case.want, _read_before(look, records)
    if not place:
        scan = look.case.scan
        ring = FingerprintMatcher(want.ring, 1) if scan is None else (scan.read or scan.ring)
        return Behind(ring, records, keeps_offsets=isinstance(look.case.copy, Found), compacted=compacted)
    last = want.ring[-1].offset
    more = (Fingerprint(last + 1 + i, each.timestamp_ms, each.digest) for i, each in enumerate(records[:place]))
    return Behind(FingerprintMatcher((*want.ring, *more), 1), records[place:], compacted=compacted)


def _read_before(look: _Look, records: Sequence[LogRecord]) -> int:
    """How many of the records from ``first`` on are taken for read ones.

    Where they are those that are not remembered, a remembered one is none of them: it was sent again.
    """
    found, scan = look.case.alignment, look.case.scan
    assert isinstance(found, Found)
    at = bisect_left(records, found.offset, key=OFFSET)
    until = min(at + (found.repeats or 0), len(records))
    if scan is None or not found.is_partial or (scan.found is not None and scan.found.repeats != 0):
        return until
    ring = FingerprintMatcher(look.case.want.ring, 1)
    again = (i for i in range(at, until) if ring.newest(records[i]) >= 0)
    return next(again, until)


def _with_twice(resent: Resent, look: _Look) -> Resent:
    """At least as many as equal a remembered record, and where records were read that are not, all that come twice.

    Of the records that are not remembered no more than ``repeats`` were read, but each of them may lie there again.
    All up to the last copy of a remembered one may have been read, and so many behind it.
    """
    found, behind = look.case.alignment, look.case.behind
    if resent.records is None or not isinstance(found, Found) or not found.is_partial or not behind:
        return resent
    timed = not any(each.append_time for each in behind)
    known = {(each.digest, timed and each.timestamp_ms) for each in look.case.want.ring}
    there = [(each.digest, timed and each.timestamp_ms) for each in behind]
    others = [each for each in there if each not in known]
    again = len(behind) - len(others)
    if found.repeats:
        distinct = len(set(others))
        again += min(found.repeats, distinct) + len(others) - distinct - found.repeats
        last = max((i for i, each in enumerate(there, 1) if each in known), default=0)
        again = max(again, min(last + len(others) - distinct, len(behind) - found.repeats))
    return replace(resent, records=max(resent.records, again))


def _takes_strangers(look: _Look, records: Sequence[LogRecord]) -> bool:
    """Whether a record that is taken for a read one may as well be one from before all remembered, sent again."""
    ring = FingerprintMatcher(look.case.want.ring, 1)
    if ring.is_whole:
        return False
    behind = Behind(ring, ())
    taken = records[: _read_before(look, records)]
    return any(ring.newest(each) < 0 and (each.append_time or behind.is_suspect(each)) for each in taken)


def _is_thinned(run: Lookup, look: _Look) -> bool:
    """Whether compaction may have removed what was sent again: more offsets behind the place have no record than were
    read and are not there.

    Only a later record of its key lets one go, so holes behind the last record hide nothing.
    """
    found, behind = look.case.alignment, look.case.behind
    if not behind or not isinstance(found, Found) or not run.is_compacted(look.case.key.topic):
        return False
    return behind[-1].offset + 1 - found.offset - len(behind) > (found.missing or 0)


def _compare(run: Lookup, looks: Sequence[_Look], deadline: Deadline) -> None:
    """Look for first copies by content: among the records before the place, and those at the log's begin.

    A replicator that lost its position begins again where the source begins, one that was restarted a little before.
    """
    nearest: dict[_Look, tuple[int, int]] = {}
    oldest: dict[_Look, tuple[int, int]] = {}
    for look in looks:
        first = max(look.begin, look.place - MOST_BY_CONTENT)
        nearest[look] = first, max(first, look.place)
        oldest[look] = look.begin, min(first, look.begin + MOST_BY_CONTENT)
    read = [_read_each(run, ranges, deadline) for ranges in (nearest, oldest)]
    for look in looks:
        assert look.behind is not None
        look.left = []
        before, after = read[1][look], read[0][look]
        if before is None or after is None:
            look.case.resent = unknown(notes.unsearched_behind(look.end - look.place))
            continue
        is_whole = look.begin == 0 or nearest[look][0] > look.begin
        found = look.behind.by_contents([*before, *after], place=look.place, is_whole=is_whole)
        look.case.resent = look.case.resent if found is None else _with_twice(found, look)


def _recall(run: Lookup, looks: Iterable[_Look], deadline: Deadline) -> None:
    """Compare what may be late, or a copy, with the records right before the place: a restarted replicator sends those.

    Where it is as new as the lower bound of the search, its first copy lies behind that, and the search has read it.
    """
    late: dict[_Look, list[int]] = {}
    before: dict[_Look, tuple[int, int]] = {}
    for look in looks:
        if look.behind is None or look.case.scan is None or look.case.resent.records is None:
            continue
        found = [at for at in look.behind.latecomers() if at > look.counted]
        if not found:
            continue
        start = min(look.case.scan.start, look.first)
        is_read = all(look.behind.records[at].timestamp_ms >= look.case.scan.requested_ms for at in found)
        late[look], before[look] = found, (start if is_read else max(look.begin, start - MOST_RECALLED), start)
    read = _read_each(run, before, deadline)
    for look, found in late.items():
        assert look.behind is not None
        assert look.case.scan is not None
        known = look.case.scan.search.records
        earlier = [*(read[look] or ()), *known[: bisect_left(known, look.first, key=OFFSET)]]
        again = look.behind.recalled(found, earlier, place=look.place)
        if again.records:
            look.case.resent = look.case.resent.with_more(_with_twice(again, look))


def _read_each(
    run: Lookup, ranges: Mapping[_Look, tuple[int, int]], deadline: Deadline
) -> dict[_Look, Sequence[LogRecord] | None]:
    """The records of each range, of which one partition may have several; None where it was not read whole."""
    found: dict[_Look, Sequence[LogRecord] | None] = {}
    left = dict(ranges)
    while left:
        turn = {look.case.key: look for look in reversed(left)}
        bounds = {key: left[look] for key, look in turn.items() if left[look][0] < left[look][1]}
        read: Mapping[TopicPartition, Sequence[LogRecord] | None] = {}
        if bounds and not deadline.passed:
            read = read_ranges(run.log, bounds, limit=MOST_BY_CONTENT, timeout=deadline.remaining)
        found |= {look: read.get(key) if key in bounds else () for key, look in turn.items()}
        left = {look: each for look, each in left.items() if look not in found}
    return found


def _search(run: Lookup, looks: Sequence[_Look], deadline: Deadline) -> None:
    """Look for the first copy of one old record of each, from the first offset of its time up to the place."""
    requested: dict[TopicPartition, tuple[_Look, LogRecord]] = {}
    for look in looks:
        if look.case.key not in requested and look.behind is not None:
            requested[look.case.key] = look, look.behind.records[look.left[0]]
    times = {key: look.behind.since_ms(record) for key, (look, record) in requested.items() if look.behind is not None}
    answers = request_offsets(run.log, times.items(), deadline)
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for key, (look, _) in requested.items():
        offset = answers[key, times[key]].offset
        if offset is not None:
            ranges[key] = max(look.begin, offset - BEFORE), max(offset, min(look.place, offset + MOST_SEARCHED))
    read: Mapping[TopicPartition, Sequence[LogRecord] | None] = {}
    if not deadline.passed:
        read = read_ranges(run.log, ranges, limit=BEFORE + MOST_SEARCHED, timeout=deadline.remaining)
    for key, (look, record) in requested.items():
        records, looked = read.get(key), answers[key, times[key]]
        if records is not None:
            known = run.snapshot(key, records, read_from=ranges[key][0], read_to=ranges[key][1])
            if doubted(replace(known, times={times[key]: looked}), times[key]):
                records = None  # it went past a record as new as the time, so a first copy may lie before it
        _take(look, record, None if looked.offset is None else (looked.offset, ranges[key][1]), records)


def _take(
    look: _Look, wanted: LogRecord, searched: tuple[int, int] | None, records: Sequence[LogRecord] | None
) -> None:
    assert look.behind is not None
    at = look.left.pop(0)
    same = [each for each in records or () if (each.digest, each.timestamp_ms) == (wanted.digest, wanted.timestamp_ms)]
    if same:
        upto = max([at, *look.left]) if look.decided else look.newest
        look.counted = upto
        again = look.behind.with_copies(upto, to_come=look.place - same[0].offset - 1)
        is_last = look.decided or at == look.newest  # else it may be any old record
        look.case.resent = _with_twice(again if is_last else replace(again, later=None), look)
        look.left = []
        return
    whole = records is not None and searched is not None and searched[1] >= look.place
    look.decided = look.decided and whole and (look.begin == 0 or (searched is not None and searched[0] > look.begin))
    if not look.left and not look.decided:
        look.case.resent = look.behind.unknown(look.oldest)
