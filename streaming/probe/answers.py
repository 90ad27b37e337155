"""What a cluster answered to questions whose answers are known, and where it contradicts itself. Pure.

A look-up by time that answers too late skips records, and nothing in the answer shows it. A broker with a defect in its
index, or one that serves another's copy of a partition, looks healthy to every probe. But some answers are known
beforehand. The time of a record that was just read is answered by that record or an earlier one. An end does not go
back. A log does not begin behind its end; the largest timestamp is not below one that was read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from state.model.entities import TopicPartition
from streaming.cluster_log import OffsetAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionAnswers:
    """What the leader of one partition answered, in this order; None where it did not answer, or got no request."""

    partition: TopicPartition
    broker: str
    """``host:port (broker 3)``."""
    begin: int | None
    first_end: int | None
    record: tuple[int, int] | None = None
    """Offset and time, in milliseconds since the epoch, of a record that was read."""
    by_time: OffsetAnswer | None = None
    """To the time of that record."""
    newest: OffsetAnswer | None = None
    """To ``MAX_TIMESTAMP``."""
    last_end: int | None = None


class Contradiction(NamedTuple):
    """Two answers of one broker that cannot both be right."""

    partition: TopicPartition | None
    """None: of the cluster as a whole."""
    broker: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAnswers:
    """What became of the questions to one cluster."""

    cluster: str
    at: datetime
    """On the store's clock."""
    partitions: int
    """How many were checked with a record of their own."""
    contradictions: tuple[Contradiction, ...] = ()
    error: str = ""
    """Why nothing was checked."""


def contradictions_of(requested: Iterable[PartitionAnswers]) -> tuple[Contradiction, ...]:
    """Every contradiction, each with the broker that gave the answers."""
    return tuple(Contradiction(each.partition, each.broker, text) for each in requested for text in _texts(each))


def _texts(requested: PartitionAnswers) -> Iterable[str]:
    begin, first, last = requested.begin, requested.first_end, requested.last_end
    if begin is not None and first is not None and begin > first:
        yield f"it begins at offset {begin}, after its end {first}"
    if first is not None and last is not None and last < first:
        yield f"its end went back from {first} to {last}"
    if requested.record is None:
        return
    offset, time_ms = requested.record
    if last is not None and offset >= last:
        yield f"it served record {offset}, and says that the log ends at {last}"
    found = requested.by_time
    if found is not None and found.error is None:
        if found.offset is None:
            yield f"a look-up by the time of its record {offset} finds none"
        elif found.offset > offset:
            late = found.offset - offset
            yield f"a look-up by the time of its record {offset} finds {found.offset}: {late} too late"
        elif found.timestamp_ms is not None and found.timestamp_ms < time_ms:
            yield f"a look-up by the time of its record {offset} finds an older one, {found.offset}"
    newest = requested.newest
    if newest is not None and newest.error is None:
        if newest.timestamp_ms is None:
            yield f"it served record {offset}, and names no largest timestamp"
        elif newest.timestamp_ms < time_ms:
            newer = time_ms - newest.timestamp_ms
            yield f"record {offset} is {newer} ms newer than what it calls its largest timestamp"
