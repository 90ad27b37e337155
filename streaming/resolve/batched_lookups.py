"""Many requests to a log at once under one deadline."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, EpochEnd, OffsetAnswer, PartitionError, Segments, Spec

T = TypeVar("T")
Question = tuple[TopicPartition, int]
"""A partition and a time in milliseconds, or a ``Spec``; or a leader epoch."""

LATE = PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True)
TIMED_OUT = OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=LATE)
_NOT_YET = PartitionError(
    name="OFFSET_NOT_AVAILABLE", text="its newest record is not on all replicas in sync yet", retriable=True
)


def request_offsets(
    log: ClusterLog, questions: Iterable[Question], deadline: Deadline, *, read_committed: bool = False
) -> dict[Question, OffsetAnswer]:
    """The offset at each time."""
    return _separately(
        questions,
        lambda batch: log.offsets(batch, read_committed=read_committed, timeout=deadline.remaining),
        TIMED_OUT,
        deadline,
    )


def request_newest(
    log: ClusterLog, partitions: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, OffsetAnswer]:
    """The record with the largest timestamp; without an offset and an error where a log is empty.

    A leader returns none either while the newest record is not on all replicas in sync, instead of the one before it
    (``ReplicaManager.fetchOffset``). So a leader that returned none gets the request again, and one for the bounds of
    its log: where that holds records, it is an error that passes.
    """
    reported = request_offsets(log, [(partition, Spec.MAX_TIMESTAMP) for partition in partitions], deadline)
    blank = [partition for (partition, _), looked in reported.items() if looked.is_blank]
    specs = (Spec.MAX_TIMESTAMP, Spec.EARLIEST, Spec.LATEST)
    again = request_offsets(log, [(partition, spec) for spec in specs for partition in blank], deadline)
    newest = {partition: looked for (partition, _), looked in reported.items()}
    return newest | {partition: _newest(*(again[partition, spec] for spec in specs)) for partition in blank}


def _newest(newest: OffsetAnswer, begin: OffsetAnswer, end: OffsetAnswer) -> OffsetAnswer:
    if not newest.is_blank:
        return newest
    error = begin.error or end.error
    if error is None and begin.offset != end.offset:
        error = _NOT_YET
    return replace(newest, error=error)


def request_segments(
    log: ClusterLog, questions: Iterable[Question], deadline: Deadline, *, limit: int
) -> dict[Question, Segments]:
    """The newest segments at each time, at most ``limit``."""
    return _separately(
        questions,
        lambda batch: log.segments(batch, limit=limit, timeout=deadline.remaining),
        Segments(offsets=(), error=LATE),
        deadline,
    )


def request_epoch_ends(log: ClusterLog, questions: Iterable[Question], deadline: Deadline) -> dict[Question, EpochEnd]:
    """Where each leader epoch ends."""
    return _separately(
        questions,
        lambda batch: log.epoch_ends(batch, timeout=deadline.remaining),
        EpochEnd(leader_epoch=None, end_offset=None, error=LATE),
        deadline,
    )


def _separately(
    questions: Iterable[Question],
    look: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, T]],
    late: T,
    deadline: Deadline,
) -> dict[Question, T]:
    """Answer every question; several for one partition go into separate requests, as a broker refuses them in one."""
    waiting = list(dict.fromkeys(questions))
    answers: dict[Question, T] = {}
    while waiting:
        batch: dict[TopicPartition, int] = {}
        later: list[Question] = []
        for question in waiting:
            if question[0] in batch:
                later.append(question)
            else:
                batch[question[0]] = question[1]
        looked = look(batch) if not deadline.passed else {}
        answers.update({(key, requested): looked.get(key, late) for key, requested in batch.items()})
        waiting = later
    return answers
