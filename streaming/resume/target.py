"""From facts to the target that is reported, with the forecast of what it costs."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from state.model.entities import EndSample, Fingerprint
from state.model.fingerprints import timestamps_of
from state.settings.keys import MethodName
from streaming.cluster_log import OFFSET, LogRecord, PartitionError
from streaming.resume import notes
from streaming.resume.methods import segment
from streaming.resume.methods.choose import MethodInput, choose
from streaming.resume.methods.content_search import Cause, Found, NoPlace, is_retention
from streaming.resume.model import Rules, Target, Want
from streaming.resume.sent_again import FEW, remembered
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Numbers of one partition; None where they are unknown."""

    replay_records: int | None
    replay_later_records: int | None
    exposure_records: int | None
    exposure_seconds: float | None
    note: str = ""


def forecast(want: Want, place: ResumeOffset, facts: StandbyLookup, old: EndSample | None) -> Forecast:
    """Weigh a chosen place. ``old`` is the last sample of the old partition's end, if any.

    Records read again now, read again later, and records that the standby does not have. The place found by content is
    the yardstick, also for a place that another method chose. Between the two, records are counted where they were read
    and offsets are subtracted before that. What was read may lie there more than once, so the old offset is no bound.
    """
    replay, note = _replay(place, facts)
    found = facts.alignment if isinstance(facts.alignment, Found) else None
    records, seconds = exposure(want, found, facts, old)
    return Forecast(
        replay_records=replay,
        replay_later_records=_later(want, found, facts),
        exposure_records=records,
        exposure_seconds=seconds,
        note=note,
    )


def _later(want: Want, found: Found | None, facts: StandbyLookup) -> int | None:
    """Records that were read and that come: those the standby lacks, and those that a stopped re-send still owes.

    Each of them comes once, so no more than the old log has before the position.
    """
    if found is None or found.missing is None or facts.resent.later is None:
        return None
    return min(found.missing + found.again + facts.resent.later, want.offset - (want.begin_known or 0))


def set_back_cost(cost: Forecast, records: int, room: int) -> Forecast:
    """The forecast of a position that was set back by this many offsets, where the standby has ``room`` records ahead.

    What was read of the old log behind the place it parts may have been copied before it was cut, and may not.
    """
    if cost.replay_records is None:
        return cost
    replay = min(cost.replay_records + records, room)
    return replace(cost, replay_records=replay, note=notes.joined(cost.note, notes.UNPROVEN_BOUND if replay else ""))


def _replay(place: ResumeOffset, facts: StandbyLookup) -> tuple[int | None, str]:
    found = facts.alignment
    if not isinstance(found, Found) or found.repeats is None:
        known = () if place.repeats is None else (place.repeats,)
        bound = min((facts.log_end - place.offset, *known))
        return bound, notes.UNPROVEN_BOUND if bound else ""
    resent = facts.resent
    if resent.records is None:
        return None, resent.note
    if place.offset >= found.offset:
        return found.repeats + resent.records, resent.note
    once = data_records(facts, place.offset, found.offset) + found.repeats
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
    """Records and seconds by which the standby is behind what was last seen of the old cluster; upper bounds."""
    if old is None:
        return None, None
    if old.begin == old.end:
        return 0, 0.0
    copies = () if found is None else _copies(want, found, facts, old)
    records = _lacking(want, found, copies, old)
    return records, 0.0 if records == 0 else _behind_seconds(want, found, facts, old, copies, records)


def _lacking(want: Want, found: Found | None, copies: Sequence[LogRecord], old: EndSample) -> int | None:
    """Offsets of the old log that the standby lacks at most; None where the position is not found there.

    Each unread offset counts, unless a copy of it is shown.
    """
    if found is None or found.missing is None:
        return None
    ahead = max(0, old.end - want.offset)
    return max(0, ahead - len(copies)) + found.missing + found.gone


def _copies(want: Want, found: Found, facts: StandbyLookup, old: EndSample) -> Sequence[LogRecord]:
    """The records behind the place that are shown to be copies of what followed the position; empty where none is.

    An offset behind the place proves no copy: a marker, a record that was sent again, or one of another writer lies
    there just as well. Copies are data records, each once, none of them remembered; they come first, before all that
    others wrote there later.
    """
    newest = old.newest_timestamp_ms
    if facts.behind is None or newest is None or facts.append_time:
        return ()
    if found.repeats != 0 or facts.resent.records is None:
        return ()
    known = {(each.digest, each.timestamp_ms) for each in want.ring}
    seen = [record for record in facts.behind if record.offset < facts.end]
    unread = [record for record in seen if (record.digest, record.timestamp_ms) not in known]
    read = timestamps_of(want.ring)
    if facts.resent.records:  # what was read before all that is remembered may have been sent again with it
        unread = [record for record in unread if record.timestamp_ms > max(read)]
    is_newest_ahead = newest > max([*read, want.timestamp_ms or 0])
    lacks = is_newest_ahead and all(record.timestamp_ms != newest for record in unread)
    most, was_later = old.end - want.offset - lacks, old.sampled_at.timestamp() * 1000 > newest
    copies = _before_the_sample(unread, read, newest, most=most, was_later=was_later)[_hole(want) :]
    distinct = len({(each.digest, each.timestamp_ms) for each in copies})
    return copies if distinct == len(copies) else ()


def _hole(want: Want) -> int:
    """How many of the first records behind the place may be of offsets right before the position that gave no record.

    A read_committed query is given nothing of an aborted transaction, and compaction may have removed a record since it
    was copied. A single offset is the marker of a transaction.
    """
    if not want.ring:
        return 0
    hole = (want.offset if want.ring_offset is None else want.ring_offset) - want.ring[-1].offset - 1
    return hole if hole > 1 else 0


def _before_the_sample(
    unread: Sequence[LogRecord], read: Sequence[int], newest: int, *, most: int, was_later: bool
) -> Sequence[LogRecord]:
    """The first of ``unread`` that the old log held when its newest time was seen, at most ``most``; maybe empty.

    ``read``: times of the records remembered, of which the last ones show the order. Where times are in order, all up
    to the newest are older than the sample.
    Of several records of the newest millisecond some may be younger: where there are too many, none of them counts, and
    where holes lie before them only one. That one counts only if the sample was taken after that millisecond
    (``was_later``): else it may be younger as well.
    Where times are not in order, or too few to show one, all up to the one record of the newest time lie before it.
    """
    first = [record for record in unread if record.timestamp_ms <= newest]
    times = [*read[-LAST:], *(record.timestamp_ms for record in first)]
    if len(read) + len(first) >= FEW and times == sorted(times) and first == unread[: len(first)]:
        older = [record for record in first if record.timestamp_ms < newest]
        holes, is_behind = len(first) < most, len(first) < len(unread)
        if len(first) > most:
            first = older
        elif not was_later or (holes and is_behind):
            first = first[: len(older) + (was_later or not holes)]
    else:
        at = [i for i, record in enumerate(unread) if record.timestamp_ms >= newest]
        is_there = bool(at) and [unread[i].timestamp_ms for i in at].count(newest) == 1
        first = list(unread[: at[0] + 1]) if is_there and unread[at[0]].timestamp_ms == newest else []
    return first if len(first) <= most else ()


def _behind_seconds(
    want: Want,
    found: Found | None,
    facts: StandbyLookup,
    old: EndSample,
    copies: Sequence[LogRecord],
    lacking: int | None,
) -> float | None:
    """From the newest record that is known to be there to the old log's newest time.

    Where the newest is there and more than one is ``lacking``, the replicator left holes, and which records it left out
    is not known. Then from the last one that was read. A time ahead of the old cluster's clock when it was seen says
    nothing of the records that are missing.
    """
    if old.newest_timestamp_ms is None or facts.append_time:
        return None
    newest = min(old.newest_timestamp_ms, int(old.sampled_at.timestamp() * 1000))
    if copies:
        behind = max(0, newest - max(record.timestamp_ms for record in copies[-LAST:])) / 1000
        is_there = any(record.timestamp_ms >= newest for record in facts.behind or ())
        if (behind and not is_there) or lacking == 1:
            return behind
    last = timestamps_of(want.ring[-LAST:])
    since = [] if want.timestamp_ms is None else [want.timestamp_ms]
    if found is not None and found.missing != 0:
        if facts.newest_ms is None or facts.newest_ms > max([*since, *last], default=facts.newest_ms):
            return None
        return max(0, newest - facts.newest_ms) / 1000
    return max(0, newest - min(since + last)) / 1000 if since or last else None


LAST = 4
"""So many of the last records read show to what time was read, though one of them is ahead."""


def target(question: MethodInput, old: EndSample | None, *, note: str) -> Target:
    """Choose one partition's place and weigh it."""
    want, facts = question.want, question.facts
    place = choose(question)
    if isinstance(place, ResumeOffset):
        cost = forecast(want, place, facts, old)
        if want.read_to is not None and not want.lost:
            cost = set_back_cost(cost, want.read_to - want.offset, facts.end - place.offset)
            note = notes.joined(note, notes.set_back(want.read_to, want.offset))
        expired = facts.alignment.expired or _is_at_edge(question, cost)
        exact = place.exact and cost.replay_records == 0 and not expired
    else:
        _, seconds = exposure(want, None, facts, old)
        cost = Forecast(replay_records=None, replay_later_records=None, exposure_records=None, exposure_seconds=seconds)
        exact, expired = False, facts.alignment.expired
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
        expired=expired or is_retention(facts.alignment) or _emptied(question, place),
        later=remembered(want, cost.replay_later_records),
        last=(*_last(want, facts), *facts.resent.seen) if facts.resent.seen else _last(want, facts),
        after_last=0 if want.ring_offset is None else want.offset - want.ring_offset,
        sampled_end=None if old is None else old.end,
        sampled_at=None if old is None else old.sampled_at,
        sent_again=isinstance(place, ResumeOffset) and place.exact and facts.resent.records != 0 and not expired,
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


def _emptied(question: MethodInput, place: ResumeOffset | NotApplicable) -> bool:
    """Whether the standby has deleted all it had, or what followed the place, and unread records may be among it."""
    if isinstance(place, ResumeOffset) and place.expired:
        return True
    return question.facts.begin == question.facts.end > 0 and question.idle is not True


def _is_at_edge(question: MethodInput, cost: Forecast) -> bool:
    """Whether retention may have deleted unread records before the place; not if the standby is shown to have all."""
    found = question.facts.alignment
    if not isinstance(found, Found) or not found.at_edge or question.idle is True:
        return False
    known = {(each.digest, each.timestamp_ms) for each in question.want.ring}
    is_distinctive = len(known) == len(question.want.ring) >= FEW  # else what seems to come again may be new
    resent = question.facts.resent
    is_shown = bool(resent.records) and resent.later is not None  # else any record may be a second copy
    comes_again = is_distinctive and is_shown  # then the copy before it is no second one
    is_all_there = cost.exposure_records == 0 and not _has_strangers(question.facts, known, found.offset)
    return not is_all_there and not (found.exact and comes_again)


def _has_strangers(facts: StandbyLookup, known: Set[tuple[bytes, int]], place: int) -> bool:
    """Whether records that are not remembered lie before the place: then others write here, and may have before."""
    contents = {digest for digest, _ in known}
    before = facts.scanned[: bisect_left(facts.scanned, place, key=OFFSET)]
    return any(
        each.digest not in contents if each.append_time else (each.digest, each.timestamp_ms) not in known
        for each in before
    )


def _error(facts: StandbyLookup) -> str | None:
    if facts.by_time is not None and facts.by_time.error is not None:
        return facts.by_time.error.name
    if isinstance(facts.alignment, NoPlace) and facts.alignment.cause in (Cause.ERROR, Cause.DEADLINE):
        return str(facts.alignment.cause)
    return None
