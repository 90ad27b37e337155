"""From facts to the target that is reported: choice, forecast and notes in one row."""

from collections.abc import Iterable, Sequence

from state.model import EndSample, Fingerprint
from state.settings import MethodName
from streaming.log import PartitionError
from streaming.resume import notes, segment
from streaming.resume.choose import Question, choose
from streaming.resume.exact import Cause, NoPlace, is_retention
from streaming.resume.facts import Facts, Place, Unheld
from streaming.resume.forecast import Forecast, exposure, forecast, set_back
from streaming.resume.later import remembered
from streaming.resume.model import Rules, Target, Want


def target(question: Question, old: EndSample | None, *, ever_read: int, note: str) -> Target:
    """Choose one partition's place and weigh it."""
    want, facts = question.want, question.facts
    place = choose(question)
    if isinstance(place, Place):
        cost = forecast(want, place, facts, old, ever_read=ever_read)
        if want.read_to is not None and not want.lost:
            cost = set_back(cost, want.read_to - want.offset, facts.end - place.offset)
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
        target_offset=place.offset if isinstance(place, Place) else None,
        method=place.method.value if isinstance(place, Place) else None,
        exact=exact,
        begin=facts.begin,
        end=facts.end,
        replay_records=cost.replay_records,
        replay_later_records=cost.replay_later_records,
        exposure_records=cost.exposure_records,
        exposure_seconds=cost.exposure_seconds,
        note=notes.joined(note, place.note, cost.note),
        error=None if isinstance(place, Place) else _error(facts),
        expired=is_retention(facts.alignment) or _emptied(question),
        later=remembered(want, cost.replay_later_records),
        last=_last(want, facts),
        after_last=0 if want.ring_offset is None else want.offset - want.ring_offset,
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


def _last(want: Want, facts: Facts) -> tuple[Fingerprint, ...]:
    """The ring, unless it is of other partitions, of a log that was cut, or nobody knows what was read after it."""
    mixed = isinstance(facts.alignment, NoPlace) and facts.alignment.cause is Cause.REPARTITIONED
    whole = want.ring_offset == want.offset or want.dense is True
    return want.ring if whole and not mixed and want.read_to is None else ()


def _buffer(want: Want, place: Place | Unheld, rules: Rules) -> int:
    """X as the method that decided went by it."""
    by_segment = isinstance(place, Place) and place.method is MethodName.SEGMENT
    return segment.buffer_of(want, rules) if by_segment else rules.buffer_of(want)


def _read_to(want: Want) -> int:
    """The query's own position, wherever the place was looked for."""
    return want.offset if want.read_to is None else want.read_to


def _emptied(question: Question) -> bool:
    """Whether the standby has deleted all it had, although unread records are known to have followed the position."""
    return question.facts.begin == question.facts.end > 0 and question.idle is False


def _error(facts: Facts) -> str | None:
    if facts.by_time is not None and facts.by_time.error is not None:
        return facts.by_time.error.name
    if isinstance(facts.alignment, NoPlace) and facts.alignment.cause in (Cause.ERROR, Cause.DEADLINE):
        return str(facts.alignment.cause)
    return None
