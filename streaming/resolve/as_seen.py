"""Reading a log as one query reads it: under its isolation, and several readers of one partition apart.

A request reads a partition once and under one isolation, so readers that differ get their requests one after the other.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord, Spec
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.ranges import read_ranges

Key = TypeVar("Key", bound=Hashable)


class Reader(NamedTuple):
    """Who reads a partition."""

    partition: TopicPartition
    committed: bool
    """Whether it reads only what is committed."""


class Wanted(NamedTuple):
    """The offsets ``[first, last)`` of one reader's partition."""

    reader: Reader
    first: int
    last: int


class Ends(NamedTuple):
    """How far one partition goes; None where the broker does not answer for it."""

    stable: int | None
    """For this reader: before the first open transaction where it reads only what is committed."""
    last: int | None
    """With open transactions: the high watermark."""


def read_as_seen(
    log: ClusterLog, wanted: Mapping[Key, Wanted], *, limit: int, deadline: Deadline
) -> dict[Key, tuple[LogRecord, ...] | None]:
    """The records of each range, as ``read_ranges`` does; None where they could not be read whole.

    Raises ``KafkaError`` when the cluster cannot be reached.
    """
    found: dict[Key, tuple[LogRecord, ...] | None] = {}
    for alike in _rounds({key: each.reader for key, each in wanted.items()}):
        ranges = {wanted[key].reader.partition: wanted[key][1:] for key in alike}
        committed = wanted[alike[0]].reader.committed
        read = read_ranges(log, ranges, limit=limit, timeout=deadline.remaining, read_committed=committed)
        found |= {key: read[wanted[key].reader.partition] for key in alike}
    return found


def ends_as_seen(log: ClusterLog, readers: Mapping[Key, Reader], deadline: Deadline) -> dict[Key, Ends]:
    """Where each reader's partition ends. The last stable offset is read first: it is never behind the other then."""
    only = {each.partition for each in readers.values() if each.committed}
    stable = request_offsets(log, [(key, Spec.LATEST) for key in only], deadline, read_committed=True)
    every = {each.partition for each in readers.values()}
    last = request_offsets(log, [(key, Spec.LATEST) for key in every], deadline)
    return {
        key: Ends((stable if each.committed else last)[each.partition, Spec.LATEST].offset, last[question].offset)
        for key, each in readers.items()
        for question in ((each.partition, int(Spec.LATEST)),)
    }


def _rounds(readers: Mapping[Key, Reader]) -> Iterator[list[Key]]:
    """Keys that one request can answer: of one isolation, and no partition twice."""
    waiting = list(readers)
    while waiting:
        committed, taken = readers[waiting[0]].committed, dict[TopicPartition, Key]()
        for key in waiting:
            if readers[key].committed is committed:
                taken.setdefault(readers[key].partition, key)
        yield list(taken.values())
        chosen = set(taken.values())
        waiting = [key for key in waiting if key not in chosen]
