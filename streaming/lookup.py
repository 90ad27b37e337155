"""Asking a log many times at once under one deadline."""

import time
from collections.abc import Iterable

from state.model import TopicPartition
from streaming.log import Log, Looked, PartitionError

Question = tuple[TopicPartition, int]
"""A partition and a time in milliseconds, or a ``Spec``."""


class Deadline:
    """One point in monotonic time that a whole chain of calls shares."""

    def __init__(self, timeout: float) -> None:
        self._started = time.monotonic()
        self._ends = self._started + timeout

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started


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
        looked = log.offsets(batch, read_committed=read_committed, timeout=deadline.left) if deadline.left else {}
        answers.update({(key, asked): looked.get(key, TIMED_OUT) for key, asked in batch.items()})
        waiting = later
    return answers
