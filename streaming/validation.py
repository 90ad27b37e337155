"""Asking a cluster whether its log still holds what was read from it: Kafka's "position validation" (KIP-320)."""

from collections.abc import Sequence

from state.model import Position, TopicPartition
from streaming.deadline import Deadline
from streaming.log import EpochEnd, Log, Looked, PartitionError, Spec
from streaming.lookup import ask
from streaming.resume.truncation import LogNow, Standing, judge

_LATE = PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True)


def validate(log: Log, positions: Sequence[Position], *, timeout: float) -> tuple[Standing, ...]:
    """What became of each position, in their order, within ``timeout`` seconds; ``log`` is where they were read.

    One partition may be asked for several positions and several epochs. Raises ``KafkaError`` when the cluster cannot
    be asked at all; an error of one partition leaves its positions unproven.
    """
    deadline = Deadline.after(timeout)
    facts = log.describe(sorted({position.topic for position in positions}), timeout=deadline.remaining)
    keys = dict.fromkeys(TopicPartition(position.topic, position.partition) for position in positions)
    # Epochs before ends: what is appended while we ask must not make a cut log look long enough.
    epochs = _epoch_ends(log, positions, deadline)
    bounds = ask(log, [(key, spec) for spec in (Spec.LATEST, Spec.EARLIEST) for key in keys], deadline)
    standings = []
    for position in positions:
        key = TopicPartition(position.topic, position.partition)
        topic = facts.get(position.topic)
        error = topic.error if topic is not None else None
        end, begin = bounds[key, Spec.LATEST], bounds[key, Spec.EARLIEST]
        now = error or _log_now(begin, end, topic.topic_id if topic else None, epochs.get((key, position.leader_epoch)))
        standings.append(judge(position, now))
    return tuple(standings)


def _log_now(begin: Looked, end: Looked, topic_id: str | None, epoch_end: EpochEnd | None) -> LogNow | PartitionError:
    if begin.offset is None or end.offset is None:
        return begin.error or end.error or _LATE
    return LogNow(topic_id=topic_id, begin=begin.offset, end=end.offset, epoch_end=epoch_end)


def _epoch_ends(
    log: Log, positions: Sequence[Position], deadline: Deadline
) -> dict[tuple[TopicPartition, int | None], EpochEnd]:
    """Ask for every epoch that a position names; a request holds one epoch of a partition."""
    waiting = dict.fromkeys(
        (TopicPartition(position.topic, position.partition), position.leader_epoch)
        for position in positions
        if position.leader_epoch is not None
    )
    answers: dict[tuple[TopicPartition, int | None], EpochEnd] = {}
    while waiting:
        batch = {key: epoch for key, epoch in waiting}  # noqa: C416 # of one partition the last
        if deadline.passed:
            late = EpochEnd(leader_epoch=None, end_offset=None, error=_LATE)
            return answers | dict.fromkeys(waiting, late)
        for key, found in log.epoch_ends(batch, timeout=deadline.remaining).items():
            answers[key, batch[key]] = found
        waiting = dict.fromkeys(each for each in waiting if each not in answers)
    return answers
