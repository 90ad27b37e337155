"""Comparing two clusters' logs, partition by partition."""

from collections.abc import Mapping, Sequence

from state.model.entities import EndSample, Position, TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, EpochEnd, OffsetAnswer, PartitionError, Spec
from streaming.resolve.batched_lookups import LATE, ask_epoch_ends, ask_newest, ask_offsets
from streaming.resume.age import ReplicationAge, age_at, replication_age
from streaming.resume.truncation import LogNow, Standing, judge_log

_BOUNDS = (Spec.LATEST, Spec.EARLIEST)


def replication_ages(
    source: ClusterLog, standby: ClusterLog, copies: Mapping[TopicPartition, TopicPartition], deadline: Deadline
) -> dict[TopicPartition, ReplicationAge]:
    """How old each copy is, by the source's partition; ``copies`` names the standby's. Raises ``KafkaError``.

    The standby is asked first: what is copied meanwhile makes an age too large, never too small.
    """
    theirs = ask_newest(standby, copies.values(), deadline)
    bounds = ask_offsets(source, [(key, spec) for spec in _BOUNDS for key in copies], deadline)
    ours = ask_newest(source, copies, deadline)
    newest = {key: theirs[copy] for key, copy in copies.items()}
    later = {key: looked.timestamp_ms + 1 for key, looked in newest.items() if looked.timestamp_ms is not None}
    after = ask_offsets(source, later.items(), deadline)
    return {
        key: replication_age(
            here=ours[key],
            there=newest[key],
            begin=bounds[key, Spec.EARLIEST],
            end=bounds[key, Spec.LATEST],
            after=after[key, later[key]] if key in later else None,
        )
        for key in copies
    }


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
    theirs = ask_newest(standby, sampled.values(), deadline)
    return {key: age_at(samples[key], theirs[copy]) for key, copy in sampled.items()}


def validate(log: ClusterLog, positions: Sequence[Position], *, timeout: float) -> tuple[Standing, ...]:
    """What became of each position, in their order, within ``timeout`` seconds; ``log`` is where they were read.

    One partition may be asked for several positions and several epochs. Raises ``KafkaError`` when the cluster cannot
    be asked at all; an error of one partition leaves its positions unproven.
    """
    deadline = Deadline.after(timeout)
    facts = log.describe(sorted({position.topic for position in positions}), timeout=deadline.remaining)
    keys = dict.fromkeys(_key(position) for position in positions)
    # Epochs before ends: what is appended while we ask must not make a cut log look long enough.
    asked = [(_key(position), epoch) for position in positions if (epoch := position.leader_epoch) is not None]
    epochs = ask_epoch_ends(log, asked, deadline)
    bounds = ask_offsets(log, [(key, spec) for spec in (Spec.LATEST, Spec.EARLIEST) for key in keys], deadline)
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
