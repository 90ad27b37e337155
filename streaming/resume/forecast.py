"""What a place costs: records read again now, read again later, and records that the standby does not have.

The place found by content is the yardstick, also for a place that another method chose. Between the two, records are
counted where they were read and offsets are subtracted before that; no more can be repeated than was ever read.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace

from state.model import EndSample
from streaming.log import OFFSET
from streaming.resume import notes
from streaming.resume.exact import Found
from streaming.resume.facts import Facts, Place
from streaming.resume.model import Want


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Numbers of one partition; None where they cannot be told."""

    replay_records: int | None
    replay_later_records: int | None
    exposure_records: int | None
    exposure_seconds: float | None
    note: str = ""


def forecast(want: Want, place: Place, facts: Facts, old: EndSample | None, *, ever_read: int) -> Forecast:
    """Weigh a chosen place. ``old`` is the last sample of the old partition's end, if any.

    ``ever_read`` bounds the replay: the old offset, or the sum of a topic's old offsets where partitions do not match.
    """
    replay, note = _replay(place, facts, ever_read)
    found = facts.alignment if isinstance(facts.alignment, Found) else None
    records, seconds = exposure(want, found, facts, old)
    return Forecast(
        replay_records=replay,
        replay_later_records=found.missing if found is not None else None,
        exposure_records=records,
        exposure_seconds=seconds,
        note=note,
    )


def set_back(cost: Forecast, records: int, room: int) -> Forecast:
    """The forecast of a position that was set back by so many offsets, where the standby has ``room`` records ahead.

    What was read of the old log behind the place it parts may have been copied before it was cut, and may not.
    """
    if cost.replay_records is None:
        return cost
    replay = min(cost.replay_records + records, room)
    return replace(cost, replay_records=replay, note=notes.joined(cost.note, notes.UNPROVEN_BOUND if replay else ""))


def _replay(place: Place, facts: Facts, ever_read: int) -> tuple[int | None, str]:
    found = facts.alignment
    if not isinstance(found, Found) or found.repeats is None:
        known = () if place.repeats is None else (place.repeats,)
        bound = min(facts.log_end - place.offset, ever_read, *known)
        return bound, notes.UNPROVEN_BOUND if bound else ""
    if place.offset >= found.offset:
        return found.repeats, ""
    return min(data_records(facts, place.offset, found.offset) + found.repeats, ever_read), ""


def data_records(facts: Facts, first: int, last: int) -> int:
    """Data records in ``[first, last)``: counted where they were read, offsets subtracted before that."""
    if facts.scanned_from is None or last <= facts.scanned_from:
        return last - first
    unread = max(0, facts.scanned_from - first)
    start = bisect_left(facts.scanned, first, key=OFFSET)
    return unread + bisect_left(facts.scanned, last, key=OFFSET) - start


def exposure(want: Want, found: Found | None, facts: Facts, old: EndSample | None) -> tuple[int | None, float | None]:
    """Records and seconds by which the standby is behind what was last seen of the old cluster."""
    if old is None:
        return None, None
    if old.begin == old.end:
        return 0, 0.0
    seconds = None
    if old.newest_timestamp_ms is not None and facts.newest_ms is not None and not facts.append_time:
        seconds = max(0, old.newest_timestamp_ms - facts.newest_ms) / 1000
    if found is None or found.repeats != 0 or found.missing is None:
        return None, seconds
    ahead_there = max(0, old.end - want.offset)
    ahead_here = facts.log_end - found.offset - found.missing
    return max(0, ahead_there - ahead_here, 1 if seconds else 0), seconds
