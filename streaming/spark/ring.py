"""The fingerprints remembered of a partition; pure.

A ring holds what is known of the newest records before an offset, oldest first. Chunks of it may lie apart, where a
long batch was read at its end only: a fingerprint keeps its offset, so nothing is claimed about what lies between.
"""

from collections.abc import Sequence

from state.model import EndSample, Fingerprint

LIMIT = 256

Ring = tuple[Fingerprint, ...]


def merge_ring(ring: Sequence[Fingerprint], tail: Sequence[Fingerprint], *, limit: int = LIMIT) -> Ring:
    """The ring with the records of a tail added, the newest ``limit`` kept; what is read again replaces what was."""
    known = {each.offset: each for each in ring}
    known |= {each.offset: each for each in tail}
    return tuple(known[offset] for offset in sorted(known)[-limit:])


def before(ring: Sequence[Fingerprint], offset: int, *, limit: int = LIMIT) -> Ring:
    """The part of a ring that lies before an offset."""
    return tuple(each for each in ring if each.offset < offset)[-limit:]


def covers(ring: Sequence[Fingerprint], begin: int, end: int) -> bool:
    """Whether every offset of ``[begin, end)`` held a record that is in the ring."""
    return sum(begin <= each.offset < end for each in ring) == end - begin


def newest_timestamp(ring: Sequence[Fingerprint]) -> int | None:
    """The largest timestamp, which need not be the last record's."""
    return max((each.timestamp_ms for each in ring), default=None)


def read_until(offset: int, timestamp_ms: int | None, sample: EndSample | None) -> int | None:
    """The time up to which a partition counts as read, in milliseconds.

    A position at the sampled end has read all that there was when it was sampled, so an idle partition does not drag
    the time of its query into the past.
    """
    if sample is None or sample.end != offset:
        return timestamp_ms
    sampled_ms = int(sample.sampled_at.timestamp() * 1000)
    return sampled_ms if timestamp_ms is None else max(timestamp_ms, sampled_ms)
