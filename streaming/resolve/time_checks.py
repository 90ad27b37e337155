"""Whether the records of the standby agree with its look-ups by time, where a place goes by nothing else.

A broker that answers too late makes a query skip records, and nothing in the answer shows it. The records before it do:
a few are read, and one that is as new as the time in question contradicts the answer. Then the first record of that
time is searched for among the records before, from the end of the log where the answer was that there is none. Where so
many records do not show where that time begins, the answer is an error, and the method does not apply.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from state.model.entities import TopicPartition
from streaming.cluster_log import OFFSET, LogRecord, OffsetAnswer, PartitionError
from streaming.resolve.batched_lookups import Question
from streaming.resolve.offset_syncs import Case, Lookup
from streaming.resolve.ranges import read_ranges
from streaming.resume.contradictions import doubted
from streaming.resume.methods.content_search import NoPlace
from streaming.resume.methods.timestamp import asked_time

BEFORE = 32
"""Records before an answer that are read."""
SEARCHED = 20_000
"""Records that are searched where an answer is in doubt."""


def confirm_times(run: Lookup, cases: Iterable[Case]) -> None:
    """Check the look-ups by time of the cases that content did not place, and mend or drop those in doubt."""
    asked: dict[TopicPartition, set[int]] = {}
    for case in cases:
        time = asked_time(case.want.timestamp_ms, run.rules.buffer_of(case.want))
        looked = None if time is None else run.answers.get((case.key, time))
        if isinstance(case.alignment, NoPlace) and time is not None and looked is not None and looked.error is None:
            asked.setdefault(case.key, set()).add(time)
    doubts: dict[Question, str] = {}
    for turn in range(max((len(times) for times in asked.values()), default=0)):
        doubts |= _doubts(run, {key: sorted(times)[turn] for key, times in asked.items() if turn < len(times)})
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
