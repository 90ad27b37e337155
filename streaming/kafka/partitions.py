"""Sends requests to every partition's leader at once, and again where the protocol says that a retry can help.

One partition's error never touches another's answer: what is not answered by the deadline carries its last error.
"""

import gc
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import PartitionError
from streaming.errors import ClusterUnreachable
from streaming.kafka.errors import DESCRIBE, broken, explained, no_leader, refuse_strangers, silent, unknown_partition
from streaming.kafka.metadata import Metadata, pauses
from streaming.kafka.network import BrokerRequest, Network

T = TypeVar("T")
Reply = tuple[TopicPartition, T | PartitionError]

_CHUNK = 5000
_LARGE = 2000


def by_count(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Split into requests of this many partitions that none takes a leader long."""
    for start in range(0, len(partitions), _CHUNK):
        yield partitions[start : start + _CHUNK]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionRequest(Generic[T]):
    """One kind of question to leaders."""

    request: Callable[[list[TopicPartition]], Any]
    replies: Callable[[Any], Iterable[Reply[T]]]
    """Reads a response: per partition the answer or its error."""
    failure: Callable[[TopicPartition, PartitionError], T]
    """Makes the answer of a partition that has none."""
    chunks: Callable[[list[TopicPartition]], Iterable[list[TopicPartition]]] = by_count
    """Splits what goes to one leader into requests."""
    objects: int = 1
    """That an answer is made of, about."""
    needs: str = DESCRIBE
    """The operation on a topic that its ACL must allow."""


class Collector:
    """Python's cyclic garbage collector, held back while any thread has a large answer at hand; one for the process.

    Decoding 100,000 partitions makes half a million objects that all live to the end; the collector would walk them
    again and again and double the time. Small answers do not pay for the switch.
    """

    _lock = threading.Lock()
    _holders = 0
    _was_enabled = False

    @classmethod
    @contextmanager
    def held_back(cls, size: int) -> Iterator[None]:
        """Keep the collector off during the block if ``size`` answers are worth it."""
        if size < _LARGE:
            yield
            return
        with cls._lock:
            if not cls._holders:
                cls._was_enabled = gc.isenabled()
                gc.disable()
            cls._holders += 1
        try:
            yield
        finally:
            with cls._lock:
                cls._holders -= 1
                if not cls._holders and cls._was_enabled:
                    gc.enable()


class Partitions:
    """The leaders of a cluster's partitions, as one addressee."""

    def __init__(self, network: Network, metadata: Metadata) -> None:
        self._network = network
        self._metadata = metadata

    def exchange(
        self, inquiry: PartitionRequest[T], wanted: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, T]:
        """Return an answer for each partition, in the wanted order.

        Raises ClusterUnreachable or CredentialRefused only if not even the leaders' names can be had, and WrongCluster
        where a leader is of another cluster.
        """
        answers: dict[TopicPartition, T] = {}
        failures: dict[TopicPartition, PartitionError] = {}
        pending, pause, began = list(wanted), pauses(), time.monotonic()
        first = True
        while pending:
            try:
                questions = self._questions(inquiry, pending, failures, began, deadline)
            except ClusterUnreachable as error:
                if first:
                    raise
                failures.update((partition, _lost(error)) for partition in pending if partition not in failures)
                break
            self._collect(inquiry, questions, answers, failures, deadline)
            pending = [each for each in pending if each not in answers and failures[each].retriable]
            if not pending or deadline.passed:
                break
            self._metadata.forget({partition.topic for partition in pending})
            pause(deadline)
            first = False
        return {each: answers[each] if each in answers else inquiry.failure(each, failures[each]) for each in wanted}

    def _questions(
        self,
        inquiry: PartitionRequest[T],
        pending: list[TopicPartition],
        failures: dict[TopicPartition, PartitionError],
        began: float,
        deadline: Deadline,
    ) -> list[tuple[list[TopicPartition], BrokerRequest]]:
        """Group the partitions by leader, noting those that have none."""
        topics = self._metadata.leaders({partition.topic for partition in pending}, deadline)
        groups: dict[int, list[TopicPartition]] = {}
        for each in pending:
            leaders = topics[each.topic]
            node = leaders.nodes.get(each.partition)
            if leaders.error is not None:
                failures[each] = leaders.error
            elif node is None:
                failures[each] = unknown_partition(retriable=leaders.heard_at < began)
            elif node < 0:
                failures[each] = no_leader()
            else:
                groups.setdefault(node, []).append(each)
        return [
            (chunk, BrokerRequest(node, inquiry.request(chunk)))
            for node, group in groups.items()
            for chunk in inquiry.chunks(group)
        ]

    def _collect(
        self,
        inquiry: PartitionRequest[T],
        questions: list[tuple[list[TopicPartition], BrokerRequest]],
        answers: dict[TopicPartition, T],
        failures: dict[TopicPartition, PartitionError],
        deadline: Deadline,
    ) -> None:
        outcomes = self._network.exchange([question for _, question in questions], deadline)
        refuse_strangers(outcomes)
        for (chunk, question), outcome in zip(questions, outcomes, strict=True):
            if outcome is None or isinstance(outcome, BaseException):
                error = broken(outcome, self._network.address(question.node))
                # a retry that ran out of time says less than the answer before it
                refused = [each for each in chunk if not (silent(outcome) and each in failures)]
                failures.update(dict.fromkeys(refused, error))
                continue
            left_out = dict.fromkeys(chunk, _left_out(self._network.address(question.node)))
            with Collector.held_back(inquiry.objects * len(chunk)):
                for partition, reply in inquiry.replies(outcome):
                    left_out.pop(partition, None)
                    if isinstance(reply, PartitionError):
                        failures[partition] = explained(reply, inquiry.needs, partition.topic)
                    else:
                        answers[partition] = reply
            failures.update(left_out)


def _left_out(address: str) -> PartitionError:
    return PartitionError(
        name="UNKNOWN_SERVER_ERROR", text=f"{address} did not answer for this partition", retriable=True
    )


def _lost(error: ClusterUnreachable) -> PartitionError:
    return PartitionError(name="TIMED_OUT", text=str(error), retriable=True)
