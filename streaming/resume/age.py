"""Replication age: by how much the newest record of a standby's partition is older than that of its source (KIP-734).

Both ages go by the largest timestamp of each side. It need not be that of the last record produced: a producer sets it,
and a replicator keeps it. So an age is a good sign that a partition is copied, and no proof of what is missing.
"""

from dataclasses import dataclass

from streaming.log import Looked, PartitionError


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """How far one partition of the standby is behind, in time and in offsets of the source."""

    newest_ms: int | None
    """Largest timestamp on the standby; None when it holds no record."""
    seconds: float | None
    """Between the two largest timestamps; 0 where the source holds nothing newer, None where it cannot be told."""
    records: int | None
    """Offsets of the source from its first record with a later time on; markers and aborted records count."""
    error: PartitionError | None = None


def age(*, here: Looked, there: Looked, begin: Looked, end: Looked, after: Looked | None) -> Age:
    """Compare the largest timestamps ``here`` (source) and ``there`` (standby).

    ``begin`` and ``end`` bound the source's log; ``after`` is its first record later than the standby's largest
    timestamp, None when that was not asked because the standby holds no record.
    """
    looked = [here, there, begin, end, *([] if after is None else [after])]
    error = next((each.error for each in looked if each.error is not None), None)
    if error is not None or end.offset is None or begin.offset is None:
        return Age(newest_ms=there.timestamp_ms, seconds=None, records=None, error=error)
    if here.timestamp_ms is None:
        return Age(newest_ms=there.timestamp_ms, seconds=0.0, records=0)
    if there.timestamp_ms is None:
        return Age(newest_ms=None, seconds=None, records=end.offset - begin.offset)
    first = end.offset if after is None or after.offset is None else after.offset
    return Age(
        newest_ms=there.timestamp_ms,
        seconds=max(0, here.timestamp_ms - there.timestamp_ms) / 1000,
        records=max(0, end.offset - max(first, begin.offset)),
    )
