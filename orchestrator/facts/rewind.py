"""Where a query continues that goes back in time on its cluster: a few bounded questions to that cluster's log.

A query without state begins at the first record at or after the time, in each partition. One with state begins where a
retained batch ended: its offsets, state and watermark belong together. A mere plan cannot read the checkpoint; it takes
the timeline, which may say a step too early, so that its count is never too small.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.decide.move_facts import MoveFacts, Rewind, to_time_ms_of
from orchestrator.decide.uncommitted_batch import choose_rewound
from state.messages import CheckpointReport, Offsets
from state.model.entities import Position, TopicPartition
from state.model.timeline import Stretch
from state.settings.canonical import are_one_folder
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, OffsetAnswer, PartitionError, Spec
from streaming.resolve.batched_lookups import Question, request_offsets
from streaming.resume.model import Resolution, Target

_BEGIN_MS = 0
"""The first record at or after the epoch is the first one of the log, with its time."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One partition as one source reads it."""

    source: str
    key: TopicPartition
    position: int


def with_time(facts: MoveFacts, parameters: Mapping[str, object], now: datetime) -> MoveFacts:
    """The facts with the time to go back to, and what a runner last reported of the checkpoint in use.

    A rewind stays on its cluster, and topics have the names that they have there. Raises ``ValueError`` where the
    parameters name no time.
    """
    fact, row = facts.fact, facts.assignment
    is_here = fact is not None and row is not None and are_one_folder(fact.checkpoint, row.checkpoint)
    known = fact if is_here else None
    since = known.retained_from if known is not None else None
    rewind = Rewind(
        to_time_ms=to_time_ms_of(parameters),
        now_ms=round(now.timestamp() * 1000),
        oldest_ms=None if since is None else round(since.timestamp() * 1000),
    )
    return replace(
        facts,
        rewind=rewind,
        topics={topic: topic for topic in facts.topics or {}},
        stateful=known.stateful if known is not None else None,
    )


def with_rewound(
    log: ClusterLog,
    facts: MoveFacts,
    report: CheckpointReport,
    *,
    stretch: Stretch | None,
    tracked: Iterable[Position] = (),
    now: datetime,
    timeout: float,
) -> MoveFacts:
    """The facts with where each partition continues; a mere plan goes by a ``stretch`` of the timeline and by what is
    ``tracked``.

    Without a place for the state there is no resolution: a gate says why. Raises ``KafkaError``.
    """
    rewind = facts.rewind
    if rewind is None:
        raise ValueError(f"operation {facts.operation} is not a rewind")
    if report.retained is not None:
        kept = report.retained
        rewind = replace(rewind, oldest_ms=kept.oldest_ms, batch=kept.batch, is_read=True)
    facts = replace(facts, report=report, rewind=rewind)
    wanted = _wanted(facts, stretch, tracked)
    if wanted is None or not report.offsets:
        return facts
    began, deadline = time.monotonic(), Deadline.after(timeout)
    places = list(_places(report.offsets))
    keys = dict.fromkeys(place.key for place in places)
    # Ends before times: what has no record at or after the time continues at an end that was there before.
    answers: dict[Question, OffsetAnswer] = {}
    for time_ms in (Spec.LATEST, Spec.EARLIEST, rewind.to_time_ms, _BEGIN_MS):
        answers |= request_offsets(log, [(key, time_ms) for key in keys], deadline)
    targets = tuple(_target(place, facts, wanted, answers) for place in places)
    earliest = {
        place.key: answers[place.key, _BEGIN_MS].timestamp_ms
        for place in places
        if _is_gone(place, wanted, answers, rewind.to_time_ms)
    }
    resolution = Resolution(targets=targets, looked_up_at=now, seconds=time.monotonic() - began)
    facts = replace(facts, rewind=replace(rewind, earliest=earliest), resolution=resolution)
    return replace(facts, choice=choose_rewound(report, fresh=facts.fresh, stateful=facts.stateful))


def _wanted(facts: MoveFacts, stretch: Stretch | None, tracked: Iterable[Position]) -> Offsets | None:
    """Offsets at which the state continues; empty where time decides, None where that is unknown."""
    rewind = facts.rewind
    assert rewind is not None
    if not facts.stateful or facts.fresh:
        return {}
    if rewind.batch is not None:
        return rewind.batch.offsets
    return None if rewind.is_read else _read_by(facts, rewind.to_time_ms, stretch, tracked) or None


def _read_by(facts: MoveFacts, time_ms: int, stretch: Stretch | None, tracked: Iterable[Position]) -> Offsets:
    """How far had been read at a time, at least: what was tracked by then was planned before."""
    found: Offsets = {}
    placed = facts.assignment.placed_epoch if facts.assignment is not None else 0
    if stretch is not None and stretch.cluster == facts.source and stretch.epoch >= placed:
        steps = stretch.steps()
        moment = steps.at(time_ms)
        for lane, offset in zip(steps.lanes, moment.offsets if moment is not None else (), strict=moment is not None):
            found.setdefault(lane.source, {}).setdefault(lane.topic, {})[str(lane.partition)] = offset
    for row in tracked:
        if row.tracked_at.timestamp() * 1000 <= time_ms:
            known = found.setdefault(row.source, {}).setdefault(row.topic, {})
            known[str(row.partition)] = max(row.offset, known.get(str(row.partition), 0))
    return found


def _places(offsets: Offsets) -> Iterator[_Place]:
    for source, topics in sorted(offsets.items()):
        for topic, partitions in sorted(topics.items()):
            for partition, position in sorted(partitions.items(), key=lambda item: int(item[0])):
                yield _Place(source, TopicPartition(topic, int(partition)), position)


def _target(place: _Place, facts: MoveFacts, wanted: Offsets, answers: Mapping[Question, OffsetAnswer]) -> Target:
    rewind = facts.rewind
    assert rewind is not None
    begin, end = answers[place.key, Spec.EARLIEST], answers[place.key, Spec.LATEST]
    found, note, error = _found(place, wanted, answers, rewind.to_time_ms)
    method = "time" if not wanted else "timeline" if rewind.batch is None else "batch"
    return Target(
        source=place.source,
        topic=place.key.topic,
        partition=place.key.partition,
        offset=place.position,
        timestamp_ms=rewind.to_time_ms,
        buffer_ms=0,
        target_topic=place.key.topic,
        target_partition=place.key.partition,
        target_offset=found,
        method=None if found is None else method,
        exact=False,
        begin=begin.offset,
        end=end.offset,
        replay_records=None if found is None else place.position - found,
        replay_later_records=0,
        exposure_records=0,
        exposure_seconds=0.0,
        note=note,
        error=None if error is None else error.name,
    )


def _found(
    place: _Place, wanted: Offsets, answers: Mapping[Question, OffsetAnswer], to_time_ms: int
) -> tuple[int | None, str, PartitionError | None]:
    """Where a partition continues, never after its position; a remark; why it is unknown."""
    begin, end = answers[place.key, Spec.EARLIEST], answers[place.key, Spec.LATEST]
    by_time = answers[place.key, to_time_ms]
    error = begin.error or end.error or (None if wanted else by_time.error)
    if error is not None or begin.offset is None or end.offset is None:
        return None, "" if error is None else f"{error.name}: {error.text}", error
    if place.position > end.offset:
        return None, f"the log ends at {end.offset}, before the position: it was cut, or the topic was recreated", None
    if wanted:
        if place.source not in wanted:
            return None, f"source {place.source} had read nothing at that time", None
        before = _offset(wanted, place)
        at = begin.offset if before is None else max(begin.offset, before)  # a partition that was not there yet
        return min(at, place.position), "" if before is not None else "new since then: from its beginning", None
    at = end.offset if by_time.offset is None else by_time.offset
    return min(at, place.position), "" if at < place.position else "nothing was read since then", None


def _offset(wanted: Offsets, place: _Place) -> int | None:
    return wanted.get(place.source, {}).get(place.key.topic, {}).get(str(place.key.partition))


def _is_gone(place: _Place, wanted: Offsets, answers: Mapping[Question, OffsetAnswer], to_time_ms: int) -> bool:
    """Whether the log has lost records that would be read again."""
    begin, first = answers[place.key, Spec.EARLIEST], answers[place.key, _BEGIN_MS]
    if not begin.offset:
        return False
    if wanted:
        before = _offset(wanted, place)
        return before is not None and before < begin.offset
    return first.timestamp_ms is not None and first.timestamp_ms > to_time_ms
