"""By how much the times of a query's records go back, and the buffer that follows from it.

Its timeline shows it. Each step of one has, for every partition, the largest time among the last records read and by
how much their times went back. The largest time so far against that one less what it went back: that is the disorder,
for a reader that looked once a step. A day of 3,500 partitions at minute steps takes some 15 seconds, so it is measured
ahead of need, and never more than ``MOST_BYTES`` of the newest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from orchestrator.decide.buffer import Buffer, Measures, buffers_of
from orchestrator.decide.move_facts import MoveFacts
from state.errors import Damaged
from state.model.entities import Assignment, Position
from state.model.maintenance import Disorder, ReplicationSample, TopicDisorder
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from state.store.controller_store import ControllerStore


def measured_buffers(store: ControllerStore, facts: MoveFacts, positions: Sequence[Position]) -> tuple[Buffer, ...]:
    """One for each topic; none where the configuration says a buffer. Raises ``StoreError``."""
    if facts.settings.buffer != "measured":
        return ()
    given = Measures(
        assignment=facts.assignment, disorder=store.disorder(facts.query), positions=positions, now=store.now()
    )
    return buffers_of(sorted(facts.topics or {}), given, target=facts.target, latencies=_latencies(store, facts))


def _latencies(store: ControllerStore, facts: MoveFacts) -> Mapping[str, Sequence[int] | None]:
    """Of the topics whose standby stamps records itself: how late it was seen to do so."""
    there = (facts.standby.topics if facts.standby is not None else None) or {}
    described = {topic: there.get(name or "") for topic, name in (facts.topics or {}).items()}
    stamped = [
        topic
        for topic, topic_facts in described.items()
        if topic_facts and topic_facts.timestamp_type == "LogAppendTime"
    ]
    sample = _sample(store, facts.query) if stamped else None
    same = sample is not None and (sample.source, sample.target) == (facts.source, facts.target)
    known = sample.latencies if sample is not None and same else {}
    return {topic: known.get(topic) for topic in stamped}


def _sample(store: ControllerStore, query: str) -> ReplicationSample | None:
    """A sample that cannot be read is none: it must not keep a query from being moved."""
    try:
        return store.replication(query)
    except Damaged:
        return None


SINCE = timedelta(hours=24)
MOST_BYTES = 16 << 20
"""Of packed stretches: a day of 3,500 partitions at minute steps is 13 MB."""
_JUST_BEFORE = timedelta(milliseconds=1)


def measure_disorder(store: ControllerStore, assignment: Assignment, now: datetime) -> Disorder:
    """What the timeline shows since the query was placed where it is. Raises ``StoreError``."""
    found = Seen()
    for stretch in reversed(list(newest_stretches(store, assignment, now))):
        try:
            steps = stretch.steps()
        except Damaged:
            found = Seen()  # what lies before a gap says nothing of what came after it
        else:
            found.add(steps.lanes, steps.moments, precision_ms=stretch.precision_ms)
    return Disorder(
        query=assignment.query,
        placed_epoch=assignment.placed_epoch,
        cluster=assignment.cluster,
        topics=found.topics(),
        measured_at=now,
    )


def newest_stretches(store: ControllerStore, assignment: Assignment, now: datetime) -> Iterator[Stretch]:
    """Stretches of the place in use, the newest first, as far back as they count. Raises ``StoreError``."""
    time, size = now, 0
    while (stretch := store.timeline_at(assignment.query, time)) is not None:
        size += len(stretch.packed)
        placed_here = stretch.cluster == assignment.cluster and stretch.epoch >= assignment.placed_epoch
        if not placed_here or stretch.until < now - SINCE or size > MOST_BYTES:
            return
        yield stretch
        time = stretch.begin - _JUST_BEFORE


class Seen:
    """What steps of a timeline show, added in their order."""

    def __init__(self) -> None:
        self._tops: dict[SourcePartition, int] = {}
        """Of each lane the largest time so far, but no later than the clock when it was seen."""
        self._offsets: dict[SourcePartition, int] = {}
        self._topics: dict[str, TopicDisorder] = {}

    def add(self, lanes: Sequence[SourcePartition], moments: Iterable[Moment], *, precision_ms: int) -> None:
        """Take the steps of one stretch; ``precision_ms`` is what their times may be off."""
        tops = [self._tops.get(lane, NO_TIME) for lane in lanes]
        before: Sequence[int] = [self._offsets.get(lane, NO_TIME) for lane in lanes]
        spans = _spans(lanes)
        for moment in moments:
            stamps = list(zip(moment.timestamps, moment.disorders, strict=True))
            tops = [max(top, min(stamp, moment.at_ms)) for top, (stamp, _) in zip(tops, stamps, strict=True)]
            drops = [
                max(0, top - stamp + disorder) if stamp != NO_TIME else NO_TIME
                for top, (stamp, disorder) in zip(tops, stamps, strict=True)
            ]
            for topic, spanned in spans.items():
                moved = any(
                    list(before[span]) != list(moment.offsets[span]) and NO_TIME not in before[span] for span in spanned
                )
                drop = max(max(drops[span]) for span in spanned)
                self._note(topic, moment.at_ms, drop if drop == NO_TIME else drop + precision_ms, moved=moved)
            before = moment.offsets
        self._tops |= zip(lanes, tops, strict=True)
        self._offsets |= zip(lanes, before, strict=True)

    def topics(self) -> tuple[TopicDisorder, ...]:
        """What was seen of each topic at least once; a topic that several sources read counts once."""
        return tuple(each for _, each in sorted(self._topics.items()))

    def _note(self, topic: str, at_ms: int, drop: int, *, moved: bool) -> None:
        known = self._topics.get(topic, TopicDisorder(topic, 0, 0, at_ms, at_ms))
        known = known._replace(disorder_ms=max(known.disorder_ms, drop))
        if moved and drop != NO_TIME:
            since = at_ms if known.steps == 0 else known.since_ms
            known = known._replace(steps=known.steps + 1, since_ms=since, until_ms=at_ms)
        self._topics[topic] = known


def _spans(lanes: Sequence[SourcePartition]) -> Mapping[str, list[slice]]:
    """Where the lanes of each topic stand; they are neighbours, once for each source that reads it."""
    spans: dict[str, list[slice]] = {}
    for (_, topic), run in groupby(range(len(lanes)), key=lambda index: (lanes[index].source, lanes[index].topic)):
        indices = list(run)
        spans.setdefault(topic, []).append(slice(indices[0], indices[-1] + 1))
    return spans
