"""Replication age: how much older the copies are that a standby's partition is known to hold; an upper bound.

The largest timestamp of each side (KIP-734) says where to look, and proves nothing of what follows it. One record dated
ahead is the newest for as long as its date lies ahead, on both sides, whatever was copied since. So the source is read
behind the newest copy. Copies come in order: the record of that time was copied, and all before it; what follows it
may lack.
"""

from dataclasses import KW_ONLY, dataclass

from state.model.entities import EndSample
from streaming.cluster_log import Fetched, OffsetAnswer, PartitionError

SILENT = "the cluster in use is silent: the records after the newest copy cannot be read"
UNREAD = "the records after the newest copy could not be read"
NO_SUCH_TIME = "no record of the cluster in use is as new as the newest one on the standby, which is no copy of one"


@dataclass(frozen=True, slots=True)
class ReplicationAge:
    """How far one partition of the standby is behind, in time and in offsets of the source."""

    source_ms: int | None
    """Largest timestamp on the source; None when it holds no record."""
    newest_ms: int | None
    """Largest timestamp on the standby; None when it holds no record."""
    _: KW_ONLY
    seconds: float | None
    """From the newest copy, or an older record that may be missing, to the newest record of the source, or to the clock
    where that one is dated ahead. It is 0 where none is missing, None where it is unknown."""
    records: int | None
    """Offsets of the source that the standby may lack; markers and aborted records count."""
    error: PartitionError | None = None
    by_standby: bool = False
    """Whether the error is the standby's."""
    note: str = ""
    """Why the time is unknown, where no error says it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLog:
    """What the source answered of one partition."""

    newest: OffsetAnswer
    begin: OffsetAnswer
    end: OffsetAnswer
    reached: OffsetAnswer | None
    """Its first record that is as new as the standby's newest one; None when the standby holds no record."""

    @property
    def log_end(self) -> int | None:
        """The newest record may have come after the end was looked up: the log ends behind it."""
        if self.end.offset is None:
            return None
        return max(self.end.offset, 0 if self.newest.offset is None else self.newest.offset + 1)

    def first_missing(self, newest_copy_ms: int) -> int | None:
        """The first offset that the standby may lack; None where no record here is as new as the newest copy."""
        reached = self.reached
        if reached is None or reached.offset is None:
            return None
        return reached.offset + (reached.timestamp_ms == newest_copy_ms)


def replication_age(here: SourceLog, there: OffsetAnswer, tail: Fetched | None, *, now_ms: int) -> ReplicationAge:
    """Of one partition. ``there``: the standby's largest timestamp; ``tail``: the source from ``first_missing`` on.

    ``tail`` is None where it was not read. Times ahead of ``now_ms`` count as that.
    """
    looked = [here.newest, there, here.begin, here.end, *([] if here.reached is None else [here.reached])]
    failed = next((each for each in looked if each.error is not None), None)
    newest = here.newest.timestamp_ms
    if failed is not None:
        return _unknown(newest, there, failed)
    end, begin = here.log_end, here.begin.offset
    if end is None or begin is None:
        return ReplicationAge(newest, there.timestamp_ms, seconds=None, records=None)
    if newest is None:
        return ReplicationAge(None, there.timestamp_ms, seconds=0.0, records=0)
    if there.timestamp_ms is None:
        return ReplicationAge(newest, None, seconds=None, records=end - begin)
    first = here.first_missing(there.timestamp_ms)
    if first is None:
        return ReplicationAge(newest, there.timestamp_ms, seconds=None, records=None, note=NO_SUCH_TIME)
    records = max(0, end - first)
    seconds = _between(there.timestamp_ms, tail, end, min(newest, now_ms)) if records else 0.0
    if seconds == 0.0 and tail is not None and not tail.records:
        records = 0
    note = UNREAD if seconds is None else ""
    return ReplicationAge(newest, there.timestamp_ms, seconds=seconds, records=records, note=note)


def _between(copy_ms: int, tail: Fetched | None, end: int, newest_ms: int) -> float | None:
    """Seconds from the newest copy or the oldest of the records behind it to the newest time; 0 where none follow.

    The oldest, because the copy and the first ones behind it may be dated ahead.
    """
    if tail is None or tail.error is not None:
        return None
    if not tail.records:
        return 0.0 if tail.next_offset >= end else None
    oldest = min(copy_ms, *(record.timestamp_ms for record in tail.records))
    return max(0, newest_ms - oldest) / 1000


def age_at(sample: EndSample, there: OffsetAnswer) -> ReplicationAge:
    """Beside a source as it was last sampled, because it is silent now: nothing shows what follows the newest copy.

    What the standby lacks is known only where it holds nothing, or there was nothing to copy.
    """
    if there.error is not None:
        return _unknown(sample.newest_timestamp_ms, there, there)
    if sample.begin == sample.end:
        return ReplicationAge(None, there.timestamp_ms, seconds=0.0, records=0)
    lacking = sample.end - sample.begin if there.timestamp_ms is None else None
    return ReplicationAge(sample.newest_timestamp_ms, there.timestamp_ms, seconds=None, records=lacking, note=SILENT)


def _unknown(here_ms: int | None, there: OffsetAnswer, failed: OffsetAnswer) -> ReplicationAge:
    by_standby = failed is there
    return ReplicationAge(
        here_ms, there.timestamp_ms, seconds=None, records=None, error=failed.error, by_standby=by_standby
    )
