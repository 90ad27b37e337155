"""Whether the answers of the standby agree with its records: its look-ups by time, and the ends of its log.

A broker that answers a time too late makes a query skip records, and nothing in the answer shows it. The records before
it do: a few are read, and one that is as new as the time in question contradicts the answer. Then the first record of
that time is searched for among the records before, from the end of the log where the answer was that there is none.
Where so many records do not show where that time begins, the answer is an error, and the method does not apply.

A leader that just changed may have cut its log behind the look-up of its end. What comes to such a log later takes the
offsets before the place, and the query would skip it without a word. So the end is looked up once more where no record
shows that the log goes so far. That is where the place is that end, or what a sync, a segment or the same offset says.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from state.model.entities import TopicPartition
from state.settings.keys import MethodName
from streaming.cluster_log import OFFSET, LogRecord, OffsetAnswer, PartitionError, Spec
from streaming.resolve.batched_lookups import Question, request_offsets
from streaming.resolve.lookup import Case, Lookup
from streaming.resolve.ranges import read_ranges
from streaming.resume import notes
from streaming.resume.contradictions import doubted
from streaming.resume.methods.content_search import NoPlace
from streaming.resume.methods.timestamp import requested_time
from streaming.resume.model import Target
from streaming.resume.target import failed_target

BEFORE = 32
"""Records before an answer that are read."""
SEARCHED = 20_000
"""Records that are searched where an answer is in doubt."""


def confirm_times(run: Lookup, cases: Iterable[Case]) -> None:
    """Check the look-ups by time of the cases that content does not place, and mend or drop those in doubt.

    Where the query may not go by content, a standby that seems to lag has no place that content has proven.
    """
    by_content = MethodName.EXACT in run.rules.methods
    requested: dict[TopicPartition, set[int]] = {}
    for case in cases:
        time = requested_time(case.want.timestamp_ms, run.rules.buffer_of(case.want))
        looked = None if time is None else run.answers.get((case.key, time))
        is_placed = by_content and not isinstance(case.alignment, NoPlace)
        if not is_placed and time is not None and looked is not None and looked.error is None:
            requested.setdefault(case.key, set()).add(time)
    doubts: dict[Question, str] = {}
    for turn in range(max((len(times) for times in requested.values()), default=0)):
        doubts |= _doubts(run, {key: sorted(times)[turn] for key, times in requested.items() if turn < len(times)})
    for question, why in doubts.items():
        run.answers[question] = _searched(run, question, why)


def _last(run: Lookup, question: Question) -> int:
    """Before which offset there is no record of that time, by the answer."""
    snapshot, offset = run.snapshot(question[0]), run.answers[question].offset
    return snapshot.end if offset is None else max(snapshot.begin, min(offset, snapshot.end))


def _doubts(run: Lookup, questions: dict[TopicPartition, int]) -> dict[Question, str]:
    ranges = {}
    for key, time in questions.items():
        snapshot, last = run.snapshot(key), _last(run, (key, time))
        ranges[key] = max(snapshot.begin, last - BEFORE), min(last + 1, snapshot.end)
    held = {key: bounds for key, bounds in ranges.items() if bounds[0] < bounds[1]}
    read = read_ranges(run.log, held, limit=2 * BEFORE, timeout=run.deadline.remaining / 2) if held else {}
    found = {}
    for key, time in questions.items():
        records, bounds = read.get(key), ranges[key]
        known = run.snapshot(key) if records is None else run.snapshot(
            key, records, read_from=bounds[0], read_to=bounds[1]
        )  # fmt: skip
        if why := doubted(known, time):
            found[key, time] = why
    return found


def _searched(run: Lookup, question: Question, why: str) -> OffsetAnswer:
    """The first record of a time by the records themselves, or an error that names the contradiction."""
    key, time = question
    last, begin = _last(run, question), run.snapshot(key).begin
    first = max(begin, last - SEARCHED)
    records: Sequence[LogRecord] | None = ()
    if first < last:
        timeout = run.deadline.remaining / 2
        records = read_ranges(run.log, {key: (first, last)}, limit=SEARCHED, timeout=timeout)[key]
    error = PartitionError(name="CONTRADICTION", text=f"the answers of the standby do not agree: {why}", retriable=True)
    looked = replace(run.answers[question], error=error)
    if records is None:
        return looked
    found = next((record for record in records if record.timestamp_ms >= time), None)
    if found is None:
        return (
            looked
            if first > begin
            else replace(looked, offset=last if last < run.snapshot(key).end else None, error=None)
        )
    if first > begin and bisect_left(records, found.offset, key=OFFSET) < BEFORE:
        return looked
    return OffsetAnswer(offset=found.offset, timestamp_ms=found.timestamp_ms, leader_epoch=None)


_SHOWN = frozenset({MethodName.EXACT, MethodName.TIMESTAMP})
"""A record that lies at the place, or before it, was read or named by a look-up, unless the place is the end."""


def unless_cut(run: Lookup, cases: Sequence[Case], targets: Sequence[Target]) -> list[Target]:
    """The targets of these cases, in their order; one that lies behind the end as it is now has an error instead."""
    pairs = list(zip(cases, targets, strict=True))
    requested = [(case.key, int(Spec.LATEST)) for case, target in pairs if _is_unshown(target)]
    ends = {key: looked.offset for (key, _), looked in request_offsets(run.log, requested, run.deadline).items()}
    kept = []
    for case, target in pairs:
        place, end = target.target_offset or 0, ends.get(case.key)
        is_cut = end is not None and end < place and _is_unshown(target)
        error = notes.cut_since(place, end) if is_cut and end is not None else None
        kept.append(target if error is None else failed_target(case.want, run.rules, error))
    return kept


def _is_unshown(target: Target) -> bool:
    """Whether nothing that was read or named shows that the log goes as far as the place."""
    place = target.target_offset or 0
    return place > 0 and (place >= (target.end or 0) or target.method not in _SHOWN)
