"""Where a move placed one partition, checked in the log of the cluster that the query went to.

*resume-offset*: behind the copy of the last record that was consumed, nothing was skipped. *replay*: the number of
records behind the resume offset that had been read before. The first is found by the fingerprints that the document
keeps, the second is counted in the log as it was when the move was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.decide.evidence.claims import Claim, Placed, Verdict
from orchestrator.decide.move.forecast import MOST_FOLLOWED
from orchestrator.decide.move.outcome import replayed_again
from streaming.cluster_log import LogRecord

READ_BEFORE = 1_024
"""How many offsets before a resume offset are read; besides, one for each record read after the remembered ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a partition's log holds now, around the resume offset."""

    begin: int | None = None
    end: int | None = None
    first: int = 0
    """From which offset on it was read."""
    last: int = 0
    records: Sequence[LogRecord] | None = None
    """None: they could not be read whole."""
    error: str = ""
    """Why nothing could be read; empty where it was answered."""


def range_of(one: Placed, begin: int, end: int) -> tuple[int, int]:
    """Which offsets have to be read for the claims of one partition, of those that its log holds."""
    at = one.row.target_offset or 0
    before = READ_BEFORE + max((each.following for each in one.remembered), default=0)
    until = at if one.followed is None else min(one.followed.until, at + MOST_FOLLOWED)
    first = min(max(begin, at - before), end)
    return first, max(first, min(end, until))


def of_partition(one: Placed, seen: Seen) -> list[Claim]:
    """The two claims that the cluster which a query went to can answer."""
    return [_resume_offset(one, seen), _replay(one, seen)]


def _resume_offset(one: Placed, seen: Seen) -> Claim:
    at, about = one.row.target_offset, ("resume-offset", one.key.topic, one.key.partition)

    def unknown(text: str) -> Claim:
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, at, None, text)

    if at is None:
        return unknown(_NO_OFFSET)
    if one.row.end is not None and at > one.row.end:
        text = f"{at - one.row.end} offsets after the end that the log had then: what was written between was skipped"
        return Claim(*about, Verdict.DOES_NOT_HOLD, at, one.row.end, text)
    if (why := _cannot_look(at, seen)) is not None:
        return unknown(why)
    if one.is_rewound:
        return _rewound(one, at)
    if one.is_unread:
        return _unread_before(one, at)
    if not one.remembered:
        return unknown("no fingerprints of the last consumed records were kept")
    if seen.records is None:
        return unknown(_unread(seen, at))
    copy = _newest_copy(one, seen.records)
    if copy is None:
        if seen.begin is not None and seen.begin >= seen.first and seen.begin > (one.row.begin or 0):
            return unknown(f"retention has deleted the records before offset {seen.begin}")
        text = f"none of the last consumed records has a copy from offset {seen.first} to {seen.last}"
        return Claim(*about, Verdict.DOES_NOT_HOLD, at, None, text)
    return _behind(one, at, seen.records, *copy)


def _unread_before(one: Placed, at: int) -> Claim:
    begin, about = one.row.begin, ("resume-offset", *one.key[1:])
    if begin is None:
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, at, None, "the plan does not say where the log began")
    if at <= begin:
        return Claim(*about, Verdict.HOLDS, at, at, "nothing had been read: it resumes at the start of the log")
    text = f"nothing had been read, and {at - begin} offsets at the start of the log were skipped"
    return Claim(*about, Verdict.DOES_NOT_HOLD, at, begin, text)


def _behind(one: Placed, at: int, records: Sequence[LogRecord], record: LogRecord, after: int) -> Claim:
    """The claim once the copy of a remembered record is found, after which this many more were read."""
    about = ("resume-offset", *one.key[1:])
    if record.offset >= at:
        text = f"the copy of the last consumed record is at {record.offset}, not before the resume offset"
        return Claim(*about, Verdict.HOLDS, at, at, text)
    between = [each.offset for each in records if record.offset < each.offset < at]
    if len(between) <= after:
        text = f"right after the copy of the last consumed record at {between[-1] if between else record.offset}"
        return Claim(*about, Verdict.HOLDS, at, at, text)
    skipped = between[after:]
    text = f"{len(skipped)} records before the resume offset, from {skipped[0]} on, were skipped"
    return Claim(*about, Verdict.DOES_NOT_HOLD, at, skipped[0], text)


def _rewound(one: Placed, at: int) -> Claim:
    position, about = one.row.offset, ("resume-offset", *one.key[1:])
    if position is None:
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, at, None, "the plan does not say which position it had")
    if at <= position:
        return Claim(*about, Verdict.HOLDS, at, at, f"not after the position that it had, {position}")
    text = f"{at - position} offsets after the position that it had: the records in between were skipped"
    return Claim(*about, Verdict.DOES_NOT_HOLD, at, position, text)


def _newest_copy(one: Placed, records: Sequence[LogRecord]) -> tuple[LogRecord, int] | None:
    """The first copy of the newest remembered record that is there, and how many were read after it."""
    for each in reversed(one.remembered):
        for record in records:
            if record.digest == each.digest and (record.append_time or record.timestamp_ms == each.timestamp_ms):
                return record, each.following
    return None


def _left_over(one: Placed, at: int, records: Sequence[LogRecord]) -> int | None:
    """Of the records read after the last one whose copy lies before the resume offset, those that are not before it."""
    copy = _newest_copy(one, records)
    if copy is None or copy[0].offset >= at:
        return None
    before = sum(1 for each in records if copy[0].offset < each.offset < at)
    return max(0, copy[1] - before)


def _replay(one: Placed, seen: Seen) -> Claim:
    expected, about = one.row.replay_records, ("replay", one.key.topic, one.key.partition)

    def unknown(text: str) -> Claim:
        return Claim(*about, Verdict.CANNOT_BE_CHECKED, expected, None, text)

    at = one.row.target_offset
    if expected is None:
        return unknown("the plan could not forecast it")
    if at is None:
        return unknown(_NO_OFFSET)
    if (why := _cannot_look(at, seen)) is not None:
        return unknown(why)
    if one.followed is None:
        return unknown("no fingerprints of the last consumed records were kept")
    if seen.begin is not None and seen.begin > at:
        return unknown(f"retention has deleted the records before offset {seen.begin}")
    if seen.records is None:
        return unknown(_unread(seen, at))
    behind = [record for record in seen.records if record.offset >= at]
    found = replayed_again(one.row, one.followed, behind, max(at, seen.last))
    if found is None and one.row.end is not None and seen.last >= one.row.end:
        found = _left_over(one, at, seen.records)
    if found is None:
        return unknown("its records look the same, or there are more of them than are read")
    if found <= expected:  # each forecast is an upper bound, and a record that was skipped is the other claim's
        said = "as many records were read again as was forecast"
        text = said if found == expected else "no more records were read again than was forecast"
        return Claim(*about, Verdict.HOLDS, expected, found, text)
    text = f"{found} records after the resume offset had been read before, and {expected} were forecast"
    return Claim(*about, Verdict.DOES_NOT_HOLD, expected, found, text)


_NO_OFFSET = "the plan names no resume offset"


def _cannot_look(at: int, seen: Seen) -> str | None:
    if seen.error:
        return seen.error
    if seen.end is not None and seen.end < at:
        return f"the log ends at {seen.end}, before the resume offset: it was cut, or the topic was recreated"
    return None


def _unread(seen: Seen, at: int) -> str:
    if seen.begin is not None and seen.begin > at:
        return f"retention has deleted the records before offset {seen.begin}"
    return f"offsets {seen.first} to {seen.last} could not be read in time"
