"""Comparing two clusters' logs, partition by partition."""

from collections.abc import Mapping, Sequence

from state.model.entities import EndSample, Position, TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, EpochEnd, Fetched, OffsetAnswer, PartitionError, Spec
from streaming.resolve.batched_lookups import LATE, request_epoch_ends, request_newest, request_offsets
from streaming.resume.age import ReplicationAge, SourceLog, age_at, replication_age
from streaming.resume.truncation import LogNow, Standing, judge_log

_BOUNDS = (Spec.LATEST, Spec.EARLIEST)
_FEW_BYTES = 4 << 10
_MOST_BYTES = 1 << 20
"""Of one batch, which Kafka's brokers take up to this size by default."""


def replication_ages(
    source: ClusterLog,
    standby: ClusterLog,
    copies: Mapping[TopicPartition, TopicPartition],
    deadline: Deadline,
    *,
    now_ms: int,
) -> dict[TopicPartition, ReplicationAge]:
    """How old each copy is, by the source's partition; ``copies`` names the standby's. Raises ``KafkaError``.

    The standby is read first: what is copied in between makes an age too large, never too small.
    """
    theirs = request_newest(standby, copies.values(), deadline)
    bounds = request_offsets(source, [(key, spec) for spec in _BOUNDS for key in copies], deadline)
    ours = request_newest(source, copies, deadline)
    newest = {key: theirs[copy] for key, copy in copies.items()}
    times = {key: looked.timestamp_ms for key, looked in newest.items() if looked.timestamp_ms is not None}
    reached = request_offsets(source, times.items(), deadline)
    logs = {
        key: SourceLog(
            newest=ours[key],
            begin=bounds[key, Spec.EARLIEST],
            end=bounds[key, Spec.LATEST],
            reached=reached[key, times[key]] if key in times else None,
        )
        for key in copies
    }
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for key, time in times.items():
        first, end = logs[key].first_missing(time), logs[key].log_end
        if first is not None and end is not None and first < end:
            spans[key] = first, end
    tails = _tails(source, spans, deadline)
    return {key: replication_age(logs[key], newest[key], tails.get(key), now_ms=now_ms) for key in copies}


def _tails(
    source: ClusterLog, spans: Mapping[TopicPartition, tuple[int, int]], deadline: Deadline
) -> dict[TopicPartition, Fetched]:
    """The first records of each span of offsets; one more try where the first batch is larger than requested."""
    until = {key: end for key, (_, end) in spans.items()}
    sizes = dict.fromkeys(spans, _FEW_BYTES)
    tails: dict[TopicPartition, Fetched] = {}
    while sizes and not deadline.passed:
        starts = {key: (spans[key][0], size) for key, size in sizes.items()}
        found = source.fetch(starts, until={key: until[key] for key in starts}, timeout=deadline.remaining)
        tails |= found
        sizes = {
            key: answer.needs_bytes for key, answer in found.items() if sizes[key] < answer.needs_bytes <= _MOST_BYTES
        }
    return tails


def ages_since(
    samples: Mapping[TopicPartition, EndSample],
    standby: ClusterLog,
    copies: Mapping[TopicPartition, TopicPartition],
    deadline: Deadline,
) -> dict[TopicPartition, ReplicationAge]:
    """How old each copy is beside a source that is silent, as that was last sampled. Raises ``KafkaError``.

    Partitions without a sample are left out.
    """
    sampled = {key: copy for key, copy in copies.items() if key in samples}
    theirs = request_newest(standby, sampled.values(), deadline)
    return {key: age_at(samples[key], theirs[copy]) for key, copy in sampled.items()}


def validate(log: ClusterLog, positions: Sequence[Position], *, timeout: float) -> tuple[Standing, ...]:
    """What became of each position, in their order, within ``timeout`` seconds; ``log`` is where they were read.

    One partition may be looked up for several positions and several epochs. Raises ``KafkaError`` when the cluster
    cannot be reached at all; an error of one partition leaves its positions unproven.
    """
    deadline = Deadline.after(timeout)
    facts = log.describe(sorted({position.topic for position in positions}), timeout=deadline.remaining)
    keys = dict.fromkeys(_key(position) for position in positions)
    # Epochs before ends: what is appended during the requests must not make a cut log look long enough.
    requested = [(_key(position), epoch) for position in positions if (epoch := position.leader_epoch) is not None]
    epochs = request_epoch_ends(log, requested, deadline)
    bounds = request_offsets(log, [(key, spec) for spec in (Spec.LATEST, Spec.EARLIEST) for key in keys], deadline)
    standings = []
    for position in positions:
        key, epoch = _key(position), position.leader_epoch
        topic = facts.get(position.topic)
        error = topic.error if topic is not None else None
        end, begin = bounds[key, Spec.LATEST], bounds[key, Spec.EARLIEST]
        epoch_end = None if epoch is None else epochs[key, epoch]
        now = error or _log_now(begin, end, topic.topic_id if topic else None, epoch_end)
        standings.append(judge_log(position, now))
    return tuple(standings)


def _log_now(
    begin: OffsetAnswer, end: OffsetAnswer, topic_id: str | None, epoch_end: EpochEnd | None
) -> LogNow | PartitionError:
    if begin.offset is None or end.offset is None:
        return begin.error or end.error or LATE
    return LogNow(topic_id=topic_id, begin=begin.offset, end=end.offset, epoch_end=epoch_end)


def _key(position: Position) -> TopicPartition:
    return TopicPartition(position.topic, position.partition)
