"""From facts to the target that is reported, with the forecast of what it costs."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from state.model.entities import EndSample, Fingerprint
from state.settings.keys import MethodName
from streaming.cluster_log import OFFSET, PartitionError
from streaming.resume import notes
from streaming.resume.methods import segment
from streaming.resume.methods.choose import MethodInput, choose
from streaming.resume.methods.content_search import Cause, Found, NoPlace, is_retention
from streaming.resume.model import Rules, Target, Want
from streaming.resume.sent_again import remembered
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Numbers of one partition; None where they cannot be told."""

    replay_records: int | None
    replay_later_records: int | None
    exposure_records: int | None
    exposure_seconds: float | None
    note: str = ""


def forecast(
    want: Want, place: ResumeOffset, facts: StandbyLookup, old: EndSample | None, *, ever_read: int
) -> Forecast:
    """Weigh a chosen place. ``old`` is the last sample of the old partition's end, if any.

    ``ever_read`` bounds the replay: the old offset, or the sum of a topic's old offsets where partitions do not match.

    Records read again now, read again later, and records that the standby does not have. The place found by content is
    the yardstick, also for a place that another method chose. Between the two, records are counted where they were read
    and offsets are subtracted before that; no more can be repeated than was ever read.
    """
    replay, note = _replay(place, facts, ever_read)
    found = facts.alignment if isinstance(facts.alignment, Found) else None
    records, seconds = exposure(want, found, facts, old)
    return Forecast(
        replay_records=replay,
        replay_later_records=_later(found, facts),
        exposure_records=records,
        exposure_seconds=seconds,
        note=note,
    )


def _later(found: Found | None, facts: StandbyLookup) -> int | None:
    return None if found is None or found.missing is None else found.missing + facts.resent.later


def set_back_cost(cost: Forecast, records: int, room: int) -> Forecast:
    """The forecast of a position that was set back by this many offsets, where the standby has ``room`` records ahead.

    What was read of the old log behind the place it parts may have been copied before it was cut, and may not.
    """
    if cost.replay_records is None:
        return cost
    replay = min(cost.replay_records + records, room)
    return replace(cost, replay_records=replay, note=notes.joined(cost.note, notes.UNPROVEN_BOUND if replay else ""))


def _replay(place: ResumeOffset, facts: StandbyLookup, ever_read: int) -> tuple[int | None, str]:
    found = facts.alignment
    if not isinstance(found, Found) or found.repeats is None:
        known = () if place.repeats is None else (place.repeats,)
        bound = min(facts.log_end - place.offset, ever_read, *known)
        return bound, notes.UNPROVEN_BOUND if bound else ""
    resent = facts.resent
    if resent.records is None:
        return None, resent.note
    if place.offset >= found.offset:
        return found.repeats + resent.records, resent.note
    once = min(data_records(facts, place.offset, found.offset) + found.repeats, ever_read)
    return once + resent.records, resent.note


def data_records(facts: StandbyLookup, first: int, last: int) -> int:
    """Data records in ``[first, last)``: counted where they were read, offsets subtracted before that."""
    if facts.scanned_from is None or last <= facts.scanned_from:
        return last - first
    unread = max(0, facts.scanned_from - first)
    start = bisect_left(facts.scanned, first, key=OFFSET)
    return unread + bisect_left(facts.scanned, last, key=OFFSET) - start


def exposure(
    want: Want, found: Found | None, facts: StandbyLookup, old: EndSample | None
) -> tuple[int | None, float | None]:
    """Records and seconds by which the standby is behind what was last seen of the old cluster."""
    if old is None:
        return None, None
    if old.begin == old.end:
        return 0, 0.0
    seconds = None
    if old.newest_timestamp_ms is not None and facts.newest_ms is not None and not facts.append_time:
        seconds = max(0, old.newest_timestamp_ms - facts.newest_ms) / 1000
    resent = facts.resent.records
    if found is None or found.repeats != 0 or found.missing is None or resent is None:
        return None, seconds
    ahead_there = max(0, old.end - want.offset)
    ahead_here = facts.log_end - found.offset - found.missing - resent
    return max(0, ahead_there - ahead_here, 1 if seconds else 0), seconds


def target(question: MethodInput, old: EndSample | None, *, ever_read: int, note: str) -> Target:
    """Choose one partition's place and weigh it."""
    want, facts = question.want, question.facts
    place = choose(question)
    if isinstance(place, ResumeOffset):
        cost = forecast(want, place, facts, old, ever_read=ever_read)
        if want.read_to is not None and not want.lost:
            cost = set_back_cost(cost, want.read_to - want.offset, facts.end - place.offset)
            note = notes.joined(note, notes.set_back(want.read_to, want.offset))
        exact = place.exact and cost.replay_records == 0
    else:
        _, seconds = exposure(want, None, facts, old)
        cost = Forecast(replay_records=None, replay_later_records=None, exposure_records=None, exposure_seconds=seconds)
        exact = False
    return Target(
        source=want.source,
        topic=want.topic,
        partition=want.partition,
        offset=_read_to(want),
        timestamp_ms=want.timestamp_ms,
        buffer_ms=_buffer(want, place, question.rules),
        target_topic=want.target_topic,
        target_partition=want.partition,
        target_offset=place.offset if isinstance(place, ResumeOffset) else None,
        method=place.method.value if isinstance(place, ResumeOffset) else None,
        exact=exact,
        begin=facts.begin,
        end=facts.end,
        replay_records=cost.replay_records,
        replay_later_records=cost.replay_later_records,
        exposure_records=cost.exposure_records,
        exposure_seconds=cost.exposure_seconds,
        note=notes.joined(note, place.note, cost.note),
        error=None if isinstance(place, ResumeOffset) else _error(facts),
        expired=is_retention(facts.alignment) or _emptied(question),
        later=remembered(want, cost.replay_later_records),
        last=(*_last(want, facts), *facts.resent.seen) if facts.resent.seen else _last(want, facts),
        after_last=0 if want.ring_offset is None else want.offset - want.ring_offset,
        sampled_end=None if old is None else old.end,
        sampled_at=None if old is None else old.sampled_at,
        sent_again=isinstance(place, ResumeOffset) and place.exact and facts.resent.records != 0,
    )


def failed_target(want: Want, rules: Rules, error: PartitionError | None) -> Target:
    """A partition whose facts could not be had."""
    return Target(
        source=want.source,
        topic=want.topic,
        partition=want.partition,
        offset=_read_to(want),
        timestamp_ms=want.timestamp_ms,
        buffer_ms=rules.buffer_of(want),
        target_topic=want.target_topic,
        target_partition=want.partition,
        target_offset=None,
        method=None,
        exact=False,
        begin=None,
        end=None,
        replay_records=None,
        replay_later_records=None,
        exposure_records=None,
        exposure_seconds=None,
        note="" if error is None else notes.failed(error),
        error=None if error is None else error.name,
    )


def in_order(targets: Iterable[Target], wants: Sequence[Want]) -> tuple[Target, ...]:
    """By source in the order wanted, then topic and partition."""
    rank = {want.source: i for i, want in reversed(list(enumerate(wants)))}
    return tuple(sorted(targets, key=lambda t: (rank[t.source], t.target_topic, t.target_partition)))


def _last(want: Want, facts: StandbyLookup) -> Sequence[Fingerprint]:
    """The ring, unless it is of other partitions, of a log that was cut, or it is unknown what was read after it."""
    mixed = isinstance(facts.alignment, NoPlace) and facts.alignment.cause is Cause.REPARTITIONED
    whole = want.ring_offset == want.offset or want.dense is True
    return want.ring if whole and not mixed and want.read_to is None else ()


def _buffer(want: Want, place: ResumeOffset | NotApplicable, rules: Rules) -> int:
    """X as the method that decided went by it."""
    by_segment = isinstance(place, ResumeOffset) and place.method is MethodName.SEGMENT
    return segment.buffer_of(want, rules) if by_segment else rules.buffer_of(want)


def _read_to(want: Want) -> int:
    """The query's own position, wherever the place was looked for."""
    return want.offset if want.read_to is None else want.read_to


def _emptied(question: MethodInput) -> bool:
    """Whether the standby has deleted all it had, although unread records are known to have followed the position."""
    return question.facts.begin == question.facts.end > 0 and question.idle is False


def _error(facts: StandbyLookup) -> str | None:
    if facts.by_time is not None and facts.by_time.error is not None:
        return facts.by_time.error.name
    if isinstance(facts.alignment, NoPlace) and facts.alignment.cause in (Cause.ERROR, Cause.DEADLINE):
        return str(facts.alignment.cause)
    return None
