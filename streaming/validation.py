"""Asking a cluster whether its log still holds what was read from it: Kafka's "position validation" (KIP-320)."""

from collections.abc import Sequence

from state.model import Position, TopicPartition
from streaming.deadline import Deadline
from streaming.log import EpochEnd, Log, Looked, PartitionError, Spec
from streaming.lookup import LATE, ask, ask_epoch_ends
from streaming.resume.truncation import LogNow, Standing, judge


def validate(log: Log, positions: Sequence[Position], *, timeout: float) -> tuple[Standing, ...]:
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
    bounds = ask(log, [(key, spec) for spec in (Spec.LATEST, Spec.EARLIEST) for key in keys], deadline)
    standings = []
    for position in positions:
        key, epoch = _key(position), position.leader_epoch
        topic = facts.get(position.topic)
        error = topic.error if topic is not None else None
        end, begin = bounds[key, Spec.LATEST], bounds[key, Spec.EARLIEST]
        epoch_end = None if epoch is None else epochs[key, epoch]
        now = error or _log_now(begin, end, topic.topic_id if topic else None, epoch_end)
        standings.append(judge(position, now))
    return tuple(standings)


def _log_now(begin: Looked, end: Looked, topic_id: str | None, epoch_end: EpochEnd | None) -> LogNow | PartitionError:
    if begin.offset is None or end.offset is None:
        return begin.error or end.error or LATE
    return LogNow(topic_id=topic_id, begin=begin.offset, end=end.offset, epoch_end=epoch_end)


def _key(position: Position) -> TopicPartition:
    return TopicPartition(position.topic, position.partition)
