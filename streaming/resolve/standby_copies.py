"""Which records of one log are copies of those of another, by content and time."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord
from streaming.resolve.as_seen import Wanted, read_as_seen

Key = TypeVar("Key", bound=Hashable)


class Copies:
    """Records of the standby, each of which is the copy of one record of the old cluster."""

    def __init__(self, records: Sequence[LogRecord]) -> None:
        self._left = Counter((each.digest, None if each.append_time else each.timestamp_ms) for each in records)

    def takes(self, record: LogRecord) -> bool:
        """Whether the standby has a copy that no earlier record has taken."""
        for key in ((record.digest, record.timestamp_ms), (record.digest, None)):
            if self._left[key] > 0:
                self._left[key] -= 1
                return True
        return False

    def take(self, records: Iterable[LogRecord]) -> None:
        """Let earlier records have their copies first."""
        for record in records:
            self.takes(record)


def copies_in(standby: ClusterLog, ranges: Mapping[Key, Wanted], *, most: int, deadline: Deadline) -> Copies | None:
    """The records of all these ranges together; None where one was not read whole, or has times of its own.

    ``most``: records of a range. Times that a standby gave itself show no copy: records of other times may have the
    same content. Raises ``KafkaError``.
    """
    read = read_as_seen(standby, ranges, limit=most, deadline=deadline)
    found: list[LogRecord] = []
    for records in read.values():
        if records is None or any(record.append_time for record in records):
            return None
        found += records
    return Copies(found)
