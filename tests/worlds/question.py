"""A world as the resolver's question: positions as tracking would have left them, and the last samples."""

from dataclasses import replace
from datetime import UTC, datetime

from state.model.entities import EndSample, Fingerprint, TopicPartition
from state.model.fingerprints import LIMIT, Fingerprints
from state.settings.keys import MethodName
from streaming.resolve.resolver import resolve
from streaming.resume.model import Resolution, Rules, Want
from tests.worlds.log import WorldLog, digest
from tests.worlds.truth import consumed, time_known, was_given, within
from tests.worlds.world import COMMITTED, EPOCH_MS, SOURCE, SYNCS, TOPIC, Partition, Sample, World, Written

_TIMEOUT = 600.0


def resolution(world: World, *, backwards: bool = False) -> Resolution:
    """What the resolver answers; ``backwards``: to the same partitions from the last to the first."""
    order = -1 if backwards else 1
    ends = [
        (TopicPartition(TOPIC, number), end_sample(number, part, part.sample))
        for number, part in enumerate(world.partitions)
        if part.sample is not None
    ]
    return resolve(
        WorldLog(world),
        wants(world)[::order],
        rules(world),
        old_ends=dict(ends[::order]),
        now=datetime.fromtimestamp((EPOCH_MS + world.now) / 1000, UTC),
        timeout=_TIMEOUT,
        search_seconds=_TIMEOUT,
    )


def rules(world: World) -> Rules:
    """The settings of the query and its route."""
    return Rules(
        methods=tuple(MethodName(name) for name in world.methods),
        buffer_ms=world.buffer_ms,
        on_no_match=world.on_no_match,
        committed_only=frozenset({SOURCE} if world.committed else ()),
        keeps_offsets=world.keeps_offsets,
        offset_syncs=None if world.sync_lag is None else SYNCS,
    )


def wants(world: World) -> list[Want]:
    """The position in each partition."""
    return [_want(number, part, world) for number, part in enumerate(world.partitions)]


def end_sample(number: int, partition: Partition, sample: Sample) -> EndSample:
    """What was last seen of the old partition."""
    times = [each.time for each in partition.written if sample.begin <= each.offset < sample.end]
    return EndSample(
        cluster="east",
        topic=TOPIC,
        partition=number,
        begin=sample.begin,
        end=sample.end,
        newest_timestamp_ms=EPOCH_MS + max(times) if times else None,
        leader_epoch=0,
        topic_id="primary",
        sampled_at=datetime.fromtimestamp((EPOCH_MS + sample.at) / 1000, UTC),
    )


def ring(partition: Partition, world: World) -> list[Written]:
    """The records that are remembered, oldest first."""
    if partition.ring_at is None:
        return []
    known = within(consumed(partition, world), partition.remembered)
    return [each for each in known if each.offset < partition.ring_at][-LIMIT:]


def is_dense(partition: Partition, world: World) -> bool:
    """Whether each old offset between ring and position held a record that was read."""
    assert partition.ring_at is not None
    gap = range(partition.ring_at, partition.position)
    held = {each.offset for each in partition.written if was_given(each, world)}
    return all(offset in held for offset in gap)


def _want(number: int, partition: Partition, world: World) -> Want:
    known = ring(partition, world)
    packed = [Fingerprint(each.offset, EPOCH_MS + each.time, digest(each.payload)) for each in known]
    marked = frozenset(each.offset for each in known if each.state != COMMITTED)
    time = time_known(partition, world)
    want = Want(
        source=SOURCE,
        topic=TOPIC,
        partition=number,
        target_topic=TOPIC,
        offset=partition.position,
        ring=Fingerprints.of(packed, marked),
        ring_offset=partition.ring_at if known else None,
        dense=None,
        begin_known=partition.sample.begin if partition.sample else None,
        timestamp_ms=None if time is None else EPOCH_MS + time,
        uncommitted=marked,
    )
    if want.ring_offset is None:
        return want
    dense = is_dense(partition, world)
    return replace(want, dense=dense if partition.proves or partition.ring_at == partition.position else None)
