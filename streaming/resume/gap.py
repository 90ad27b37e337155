"""From the ring's place to the checkpoint's: moving on by count where, and only where, the gap is proven dense.

A cluster can die between the commit of a batch and the reading of its last records, and then the ring is older than
the checkpoint. The records between cannot be recognised, only counted; that is sound where every old offset of the gap
held a consumed record and the standby's records after the ring's place have consecutive offsets too. Everywhere else
the query resumes at the ring and the gap is forecast as replay: counting over a hole would skip unread records.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from streaming.log import OFFSET, LogRecord
from streaming.resume.context import Ring
from streaming.resume.exact import NEED_MORE, Found, NeedMore


def stay(found: Found, gap: int) -> Found:
    """Resume at the ring's place; the gap is read again, now or when the standby has it."""
    if found.missing:
        return replace(found, missing=found.missing + gap, exact=False)
    repeats = None if found.repeats is None else found.repeats + gap
    note = f"the records remembered end {gap} before the checkpoint, and the gap cannot be counted over"
    return replace(found, exact=False, repeats=repeats, note=_joined(found.note, note))


def move_on(
    found: Found, gap: int, ring: Ring, records: Sequence[LogRecord], *, read_to: int, end: int
) -> Found | NeedMore:
    """Move ``found`` on by ``gap`` records of the standby, of which ``records`` were read, up to ``read_to``."""
    if found.missing:
        return stay(found, gap)
    first = bisect_left(records, found.offset, key=OFFSET)
    after = records[first : first + gap]
    if after and after[-1].offset - found.offset != len(after) - 1:
        return stay(found, gap)
    if len(after) < gap:
        if read_to < end:
            return NEED_MORE
        if found.offset + len(after) != end:
            return stay(found, gap)
    moved = replace(found, offset=found.offset + len(after), missing=gap - len(after))
    return _judged(moved, ring, after)


def _judged(moved: Found, ring: Ring, after: Sequence[LogRecord]) -> Found:
    """Not exact if the gap may hold copies sent again: each of them means one record less passed over."""
    keys = {(record.digest, 0 if record.append_time else record.timestamp_ms) for record in after}
    again = len(after) - len(keys) + sum(ring.newest(record) >= 0 for record in after)
    if again:
        repeats = None if moved.repeats is None else moved.repeats + again
        moved = replace(moved, exact=False, repeats=repeats, note=_joined(moved.note, "equal records in the gap"))
    return replace(moved, exact=moved.exact and not moved.missing)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
