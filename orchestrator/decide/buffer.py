"""The measured buffer: X of ``T - X`` from what was seen of the order of times (KIP-33). Pure.

X is given per topic, because disorder is the work of its producers, and these write to all its partitions. A quiet
partition is covered by what its busy neighbours showed. It is the largest disorder that was seen, and a margin for what
lay between the looks. Then an unread record is never older than ``T - X``, as long as times go back no further than
they did. Wherever it lies on the standby, it is not skipped.

Two things have no measure in the order of times. A partition that is read to its end has the time of a look for its T.
Its X reaches back from the last record instead, or by the default where that is less far. A time ahead of the clock
says nothing of what is to come: X reaches back from the clock. So X may differ from one partition to the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.decide.lookup_wants import DEFAULT_BUFFER, newest_of
from state.model.entities import Assignment, Position
from state.model.fingerprints import back, timestamps_of
from state.model.maintenance import Disorder, TopicDisorder
from state.model.plan import PlannedBuffer
from streaming.resume.model import Want

LEAST_STEPS = 60
LEAST_SPAN = timedelta(hours=1)
"""How many steps of the timeline with new records, over so long, show enough of a topic's disorder."""
LEAST_SAMPLES = 60
"""How many samples, one a minute, show enough of how a standby stamps the records of a topic."""
LOOK = 32
"""Records that a step of the timeline sees, and so all that a measure of times ahead of the clock holds for."""
LEAST_MARGIN = timedelta(seconds=10)
MARGIN_SHARE = 4
"""The margin is a quarter of what was measured, at least ten seconds: each look sees the last 32 records only."""
VALID_FOR = timedelta(hours=24)
"""What was measured longer ago than this is not believed."""
_DEFAULT_MS = DEFAULT_BUFFER // timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Buffer:
    """X of one topic, and why."""

    topic: str
    buffer_ms: int
    measured: bool
    """Whether it is the measure that decided; else the default holds."""
    text: str

    @property
    def planned(self) -> PlannedBuffer:
        """Its row of a plan."""
        return PlannedBuffer(topic=self.topic, buffer_ms=self.buffer_ms, measured=self.measured, text=self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """What is known of the order of a query's times, where it is placed."""

    assignment: Assignment | None
    disorder: Disorder | None
    """Of the timeline, as kept last."""
    positions: Sequence[Position]
    """With the records read last, which the timeline may not have yet."""
    now: datetime


def buffers_of(
    topics: Iterable[str], given: Measures, *, target: str, latencies: Mapping[str, Sequence[int] | None]
) -> tuple[Buffer, ...]:
    """The buffer of each topic, in their order.

    ``latencies`` has the topics whose standby stamps records itself, and by how many milliseconds it was seen to stamp
    them after their own time (None or few: not known).
    """
    kept, why = _kept(given)
    rings = newest_of(given.positions)
    found = []
    for topic in topics:
        last = max((_back(row) for row in rings if row.topic == topic), default=0)
        found.append(_buffer(topic, kept.get(topic), last, why, target=target, stamped=_stamped(topic, latencies)))
    return tuple(found)


def buffered(wants: Iterable[Want], buffers: Iterable[Buffer], positions: Iterable[Position]) -> tuple[Want, ...]:
    """The wants with the buffer of their topic, as far back as each one's T makes necessary."""
    known = {each.topic: each for each in buffers}
    clocks = {(row.source, row.topic, row.partition): clock_ms(row) for row in newest_of(positions)}
    return tuple(
        replace(want, buffer_ms=reach(want, known[want.topic].buffer_ms, clocks.get(_place(want))))
        if want.topic in known
        else want
        for want in wants
    )


def reach(want: Want, buffer_ms: int, clock_ms: int | None) -> int | None:
    """X of one partition: from its T back to a topic's buffer before the last records that T may stand for.

    ``clock_ms``: the clock when that was read, if it is known. None where there is no T.
    """
    if want.timestamp_ms is None:
        return None
    default = max(buffer_ms, _DEFAULT_MS)
    newest = max(timestamps_of(want.ring), default=None)
    if newest is None:
        return default
    last = max(timestamps_of(want.ring[-LOOK:]))
    behind = want.timestamp_ms - (last if clock_ms is None else min(last, clock_ms))
    return min(buffer_ms + behind, default) if want.timestamp_ms > newest else buffer_ms + behind


def _back(row: Position) -> int:
    return back(timestamps_of(row.ring), clock_ms(row))


def clock_ms(row: Position) -> int:
    """The clock when a position was tracked."""
    return int(row.tracked_at.timestamp() * 1000)


def _buffer(
    topic: str, kept: TopicDisorder | None, last_ms: int, why: str, *, target: str, stamped: tuple[int, int] | None
) -> Buffer:
    """``stamped``: by how much the standby stamps early at most, and in how many samples; None where it does not."""
    lacks = why or _lacks(kept)
    early, samples = stamped or (0, LEAST_SAMPLES)
    if not lacks and samples < LEAST_SAMPLES:
        lacks = f"{target} uses LogAppendTime: {LEAST_SAMPLES} samples of its delay are needed, there are {samples}"
    seen = max(last_ms, kept.disorder_ms if kept is not None else 0) + early
    margin = max(LEAST_MARGIN // timedelta(milliseconds=1), seen // MARGIN_SHARE)
    if lacks or kept is None:
        buffer_ms = max(_DEFAULT_MS, seen + margin if seen else 0)
        more = "" if buffer_ms == _DEFAULT_MS else f"; timestamps up to {_seconds(seen)} out of order were seen"
        return Buffer(topic=topic, buffer_ms=buffer_ms, measured=False,
                      text=f"{_seconds(buffer_ms)} by default: {lacks}{more}")  # fmt: skip
    hours = (kept.until_ms - kept.since_ms) / 3_600_000
    stamps = f", {target} stamps up to {_seconds(early)} early in {samples:,} samples" if stamped else ""
    text = (
        f"{_seconds(seen + margin)} measured: timestamps up to {_seconds(seen - early)} out of order in "
        f"{hours:.3g} h over "
        f"{kept.steps:,} steps{stamps}, margin {_seconds(margin)}"
    )
    return Buffer(topic=topic, buffer_ms=seen + margin, measured=True, text=text)


def _kept(given: Measures) -> tuple[dict[str, TopicDisorder], str]:
    """What was measured where the query is placed, or why that does not count."""
    disorder, assignment = given.disorder, given.assignment
    if disorder is None or assignment is None:
        return {}, "not measured yet; the leading controller measures it"
    kept = {each.topic: each for each in disorder.topics}
    if (disorder.placed_epoch, disorder.cluster) != (assignment.placed_epoch, assignment.cluster):
        return {}, f"not measured since the query moved to {assignment.cluster}"
    age = given.now - disorder.measured_at
    if age > VALID_FOR:
        return kept, f"the last measurement is {age / timedelta(hours=1):.0f} h old; no controller has measured since"
    return kept, ""


def _lacks(kept: TopicDisorder | None) -> str:
    """Why too little was measured of a topic; empty where it was enough."""
    steps = kept.steps if kept is not None else 0
    span = timedelta(milliseconds=kept.until_ms - kept.since_ms) if kept is not None else timedelta(0)
    if steps >= LEAST_STEPS and span >= LEAST_SPAN:
        return ""
    needed = f"needs {LEAST_STEPS} steps with new records over {LEAST_SPAN // timedelta(minutes=1)} min"
    return f"{needed}, has {steps} over {span // timedelta(minutes=1)} min"


def _stamped(topic: str, latencies: Mapping[str, Sequence[int] | None]) -> tuple[int, int] | None:
    if topic not in latencies:
        return None
    samples = latencies[topic] or ()
    return max(0, -min(samples, default=0)), len(samples)


def _place(want: Want) -> tuple[str, str, int]:
    return want.source, want.topic, want.partition


def _seconds(milliseconds: int) -> str:
    """Rounded up to tenths, as seconds."""
    tenths = -(-milliseconds // 100)
    return f"{tenths // 10:,} s" if tenths % 10 == 0 else f"{tenths / 10:,.1f} s"
