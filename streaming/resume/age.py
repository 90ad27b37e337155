"""Replication age: by how much the newest record of a standby's partition is older than that of its source (KIP-734).

Both ages go by the largest timestamp of each side. It need not be that of the last record produced: a producer sets it,
and a replicator keeps it. So an age is a good sign that a partition is copied, and no proof of what is missing.
"""

from dataclasses import KW_ONLY, dataclass

from state.model.entities import EndSample
from streaming.cluster_log import OffsetAnswer, PartitionError


@dataclass(frozen=True, slots=True)
class ReplicationAge:
    """How far one partition of the standby is behind, in time and in offsets of the source."""

    source_ms: int | None
    """Largest timestamp on the source; None when it holds no record."""
    newest_ms: int | None
    """Largest timestamp on the standby; None when it holds no record."""
    _: KW_ONLY
    seconds: float | None
    """Between the two largest timestamps; 0 where the source holds nothing newer, None where it cannot be told."""
    records: int | None
    """Offsets of the source from its first record with a later time on; markers and aborted records count."""
    error: PartitionError | None = None
    by_standby: bool = False
    """Whether the error is the standby's."""


def replication_age(
    *, here: OffsetAnswer, there: OffsetAnswer, begin: OffsetAnswer, end: OffsetAnswer, after: OffsetAnswer | None
) -> ReplicationAge:
    """Compare the largest timestamps ``here`` (source) and ``there`` (standby).

    ``begin`` and ``end`` bound the source's log; ``after`` is its first record later than the standby's largest
    timestamp, None when that was not asked because the standby holds no record.
    """
    looked = [here, there, begin, end, *([] if after is None else [after])]
    failed = next((each for each in looked if each.error is not None), None)
    if failed is not None:
        return _unknown(here.timestamp_ms, there, failed)
    if end.offset is None or begin.offset is None:
        return ReplicationAge(here.timestamp_ms, there.timestamp_ms, seconds=None, records=None)
    if here.timestamp_ms is None:
        return ReplicationAge(None, there.timestamp_ms, seconds=0.0, records=0)
    if there.timestamp_ms is None:
        return ReplicationAge(here.timestamp_ms, None, seconds=None, records=end.offset - begin.offset)
    first = end.offset if after is None or after.offset is None else after.offset
    return ReplicationAge(
        here.timestamp_ms,
        there.timestamp_ms,
        seconds=_seconds(here.timestamp_ms, there.timestamp_ms),
        records=max(0, end.offset - max(first, begin.offset)),
    )


def age_at(sample: EndSample, there: OffsetAnswer) -> ReplicationAge:
    """Compare a source as it was last sampled, because it is silent now, with the standby's largest timestamp.

    What the standby lacks of it in offsets is known only where it holds nothing, or there was nothing to copy.
    """
    if there.error is not None:
        return _unknown(sample.newest_timestamp_ms, there, there)
    if sample.begin == sample.end:
        return ReplicationAge(None, there.timestamp_ms, seconds=0.0, records=0)
    newest = sample.newest_timestamp_ms
    return ReplicationAge(
        newest,
        there.timestamp_ms,
        seconds=None if newest is None or there.timestamp_ms is None else _seconds(newest, there.timestamp_ms),
        records=sample.end - sample.begin if there.timestamp_ms is None else None,
    )


def _unknown(here_ms: int | None, there: OffsetAnswer, failed: OffsetAnswer) -> ReplicationAge:
    by_standby = failed is there
    return ReplicationAge(
        here_ms, there.timestamp_ms, seconds=None, records=None, error=failed.error, by_standby=by_standby
    )


def _seconds(here_ms: int, there_ms: int) -> float:
    return max(0, here_ms - there_ms) / 1000
