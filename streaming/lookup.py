"""Asking a log many times at once under one deadline."""

from collections.abc import Iterable

from state.model import TopicPartition
from streaming.deadline import Deadline
from streaming.log import Log, Looked, PartitionError

Question = tuple[TopicPartition, int]
"""A partition and a time in milliseconds, or a ``Spec``."""


TIMED_OUT = Looked(
    offset=None,
    timestamp_ms=None,
    leader_epoch=None,
    error=PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True),
)


def ask(
    log: Log, questions: Iterable[Question], deadline: Deadline, *, read_committed: bool = False
) -> dict[Question, Looked]:
    """Answer every question; several for one partition go into separate requests, as a broker refuses them in one."""
    waiting = list(dict.fromkeys(questions))
    answers: dict[Question, Looked] = {}
    while waiting:
        batch: dict[TopicPartition, int] = {}
        later: list[Question] = []
        for question in waiting:
            if question[0] in batch:
                later.append(question)
            else:
                batch[question[0]] = question[1]
        looked = (
            log.offsets(batch, read_committed=read_committed, timeout=deadline.remaining) if not deadline.passed else {}
        )
        answers.update({(key, asked): looked.get(key, TIMED_OUT) for key, asked in batch.items()})
        waiting = later
    return answers
