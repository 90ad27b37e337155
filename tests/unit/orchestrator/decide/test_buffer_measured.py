"""Resuming at T - X skips no unread record as long as times go back no further than was measured, in whatever order.

The standby of these worlds keeps no order at all, and may partition otherwise: only time decides, as with a replicator
that shuffles. X is measured as a controller does, from steps of a timeline; T comes from the records read last, or from
the clock where a partition was read to its end.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.decide.buffer import LEAST_SPAN, LEAST_STEPS, Measures, buffered, buffers_of
from orchestrator.facts.timestamp_disorder import Seen
from state.model.fingerprints import Fingerprints
from state.model.maintenance import Disorder, TopicDisorder
from state.model.timeline import Moment, SourcePartition
from state.settings.keys import MethodName
from tests.contract import samples
from tests.thorough import tries
from tests.unit.orchestrator.decide.gates.test_checks import ASSIGNMENT
from tests.unit.streaming.standby import T0, Slot, found, rules, standby, want

Record = tuple[int, int, str]
MOST_MS = 600_000
SPAN_MS = int(LEAST_SPAN.total_seconds() * 1000)


def moment(clocks: list[int], log: list[Record], read: int) -> Moment:
    last = [time for _, time, _ in log[:read]][-32:]
    return Moment(clocks[read - 1], [read], [max(last)], [max(last) - last[-1]])


def measured(clocks: list[int], logs: list[list[Record]]) -> tuple[TopicDisorder, ...]:
    """From a timeline with a step for every record, of both partitions."""
    seen = Seen()
    for number, log in enumerate(logs):
        lane = SourcePartition("orders", "orders", number)
        seen.add([lane], [moment(clocks, log, read) for read in range(1, len(log) + 1)], precision_ms=1)
    return tuple(
        each._replace(steps=LEAST_STEPS, since_ms=each.until_ms - SPAN_MS) for each in seen.topics()
    )  # as if it had been looked at for long enough


@settings(max_examples=tries(300), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.booleans())
def test_no_unread_record_is_skipped_by_a_measured_buffer(seed: int, partitions: int, idle: bool) -> None:
    chance = random.Random(seed)
    count, spread, ahead = chance.randint(2, 40), chance.choice([0, 5_000, MOST_MS]), chance.choice([0, 0, 10**10])
    clocks = sorted(T0 + chance.randint(0, 3_600_000) for _ in range(count))
    logs = [
        [
            (i, clock - chance.randint(0, spread) + (ahead if chance.random() < 0.1 else 0), f"{number}-{i}")
            for i, clock in enumerate(clocks)
        ]
        for number in range(2)
    ]
    reads = [chance.randint(1, count) for _ in logs]
    disorder = Disorder(
        query="q", placed_epoch=1, cluster="east", topics=measured(clocks, logs), measured_at=datetime.now(UTC)
    )
    positions, wants, unread = [], [], set()
    for number, (log, read) in enumerate(zip(logs, reads, strict=True)):
        remembered = chance.choice([1, 8, 256])
        position = want(log[:read], partition=number, remembered=remembered)
        if idle and position.timestamp_ms is not None:  # the end was looked at just before the next record came
            looked = clocks[read] - 1 if read < count else clocks[-1] + chance.randint(0, 10**8)
            position = replace(position, timestamp_ms=max(position.timestamp_ms, looked))
        tracked_at = datetime.fromtimestamp(clocks[read - 1] / 1000, UTC)
        ring = Fingerprints.of(position.ring)
        positions.append(
            samples.position(source="orders", topic="orders", partition=number, ring=ring, tracked_at=tracked_at)
        )
        wants.append(position)
        unread |= {value for _, _, value in log[read:]}
    known = Measures(assignment=ASSIGNMENT, disorder=disorder, positions=positions, now=datetime.now(UTC))
    (buffer,) = buffers_of(["orders"], known, target="west", latencies={})
    assert buffer.measured
    assert buffer.buffer_ms >= disorder.topics[0].disorder_ms

    shuffled = [record for log in logs for record in log]
    chance.shuffle(shuffled)
    slots: list[list[Record]] = [[] for _ in range(partitions)]
    for _, time, value in shuffled:
        number = int(value[0]) if partitions == 2 else chance.randrange(partitions)
        slots[number].append((len(slots[number]), time, value))
    result = found(
        standby(*(Slot(slot) for slot in slots)),
        buffered(wants, [buffer], positions),
        rules(MethodName.TIMESTAMP, buffer_ms=0),
    )
    assert len(result.targets) == partitions
    for target in result.targets:
        assert target.target_offset is not None
        before = {value for offset, _, value in slots[target.target_partition] if offset < target.target_offset}
        assert not before & unread, (buffer, target)
