"""Records that the replicator appends after a move although the query had read them: remembered, and counted.

A standby that lags is resumed at its end. What it lacked then comes when the replicator runs again, and is read a
second time. Offsets cannot tell these records from new ones, for producers write to the standby by then; their
fingerprints can. They are kept with the operation, because positions are kept for a few batches only. The replicator
keeps its order, so once one remembered record has come, those announced before it have come as well.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from state.model import Fingerprint
from streaming.log import LogRecord
from streaming.resume.model import Want

Identity = tuple[int, bytes]
"""``(timestamp_ms, digest)``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """What one partition of the standby lacked at the move, of the records that were read already."""

    announced: int
    missing: tuple[Identity, ...]
    """The newest of them, in their order, as far as they have not come yet."""
    matched: int = 0
    """How many of those that were remembered have come."""

    @property
    def came(self) -> int | None:
        """How many of the announced have come; None where none of them was ever remembered."""
        remembered = self.matched + len(self.missing)
        if self.announced and not remembered:
            return None
        return self.matched + self.announced - remembered if self.matched else 0

    def after(self, records: Iterable[LogRecord]) -> "Awaited":
        """The same once these records have been read; a record that comes twice counts once."""
        missing = list(self.missing)
        waiting = Counter(digest for _, digest in missing)
        for record in records:
            if not waiting[record.digest]:
                continue
            known = (each for each in missing if each[1] == record.digest)
            found = next((each for each in known if record.append_time or each[0] == record.timestamp_ms), None)
            if found is not None:
                missing.remove(found)
                waiting[record.digest] -= 1
        return replace(self, missing=tuple(missing), matched=self.matched + len(self.missing) - len(missing))


def remembered(want: Want, missing: int | None) -> tuple[Fingerprint, ...]:
    """Of the ``missing`` offsets before the wanted one, those whose records the ring holds."""
    ring = tuple(each for each in want.ring if each.offset < want.offset)
    gap = max(0, want.offset - want.ring_offset) if want.ring_offset is not None else 0
    count = (missing or 0) - gap  # records of the gap were counted, never read: nothing is known of them
    return tuple(each for each in ring if each.offset > ring[-1].offset - count)
