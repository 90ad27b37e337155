"""A position made fit for searching, and the position of a query that has read nothing."""

from dataclasses import replace

from state.model.entities import EndSample
from streaming.resume import notes
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.model import Want


def normalised(want: Want, old: EndSample | None) -> Want:
    """The want with a ring that ends at or before its offset, and with the best T that is known.

    A ring tracked past the wanted offset is cut back to it, and T with it. Without a T, the ring's largest time stands
    in, or the time of the sample that saw the old partition end at or before the position.
    """
    ring, time = want.ring, want.timestamp_ms
    cut = bool(ring) and ring[-1].offset >= want.offset
    if cut:
        ring = tuple(record for record in ring if record.offset < want.offset)
    if cut or time is None:
        time = max((record.timestamp_ms for record in ring), default=None)
    if time is None and old is not None and old.end <= want.offset:
        time = int(old.sampled_at.timestamp() * 1000)
    place = want.offset if want.ring_offset is None else min(want.ring_offset, want.offset)
    return replace(want, ring=ring, ring_offset=place, timestamp_ms=time)


def nothing_read(want: Want, *, begin: int, end: int) -> Found | NoPlace:
    """The place of a position without any remembered record: the standby's begin, if nothing can have been read.

    The standby may hold records there that this query has no business with, but none before it that it has. An old
    partition that had begun above 0 may have been read and then emptied by retention: then all may be replay.
    """
    if want.offset == 0:
        return Found(begin, note=notes.NOTHING_READ)
    if want.offset == want.begin_known:
        return Found(
            begin,
            exact=begin == end,
            repeats=min(end - begin, want.offset),
            note=notes.NOTHING_LEFT,
        )
    return NoPlace(Cause.NOT_REMEMBERED)
