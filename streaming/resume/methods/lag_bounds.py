"""At most how much a standby lacks that lags further than records are remembered. Pure.

Of a partition 256 records are remembered before its position. Where the standby ends before all of them, neither the
exposure nor the number of later repeats can be counted. But how far its copies reach at least can be shown. The records
of an older batch are found there. Or, by the timeline, its newest records are younger than all that was read up to an
older offset. Everything behind that offset may be lacking, and no more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from state.errors import Damaged
from state.model.entities import EndSample, Position
from state.model.fingerprints import Fingerprints
from state.model.timeline import NO_TIME, Steps, Stretch
from state.settings.keys import MethodName
from streaming.resume import notes
from streaming.resume.model import AtMost, Resolution, Target, Want

LAST = 4
"""So many of the standby's last records show by their times how far it has come, though one of them is dated ahead."""

Key = tuple[str, str, int]
"""Source, topic and partition on the cluster that is left."""


class Reached(NamedTuple):
    """An offset up to which the standby is shown to hold all that was read."""

    offset: int
    time_ms: int
    """The largest time among the last records before it."""


def is_unbounded(target: Target) -> bool:
    """Whether a number of a partition that has a place is unknown."""
    unknown = target.exposure_records is None or target.replay_later_records is None
    return unknown and target.target_offset is not None and target.at_most is None


def lags(target: Target) -> bool:
    """Whether all that the standby holds is older than what is remembered, so that its own end is the place."""
    at_end = target.method == MethodName.EXACT and not target.exact and target.target_offset == target.end
    return at_end and target.replay_later_records is None


def key_of(requested: Want | Target) -> Key:
    """By which partition of the old cluster something is meant."""
    return requested.source, requested.topic, requested.partition


def older_batches(
    rows: Iterable[Position], wants: Iterable[Want], newest_ms: Mapping[Key, int | None]
) -> Mapping[Key, Sequence[Position]]:
    """Of each partition the rows by which to look for older records, the newest first; the rings may be counted.

    ``newest_ms``: the time up to which the standby has come, as its last records show it. The newest batch whose
    records are all that old should be there in full, and the one behind it in part.
    """
    requested = {key_of(want): want for want in wants if newest_ms.get(key_of(want)) is not None}
    found: dict[Key, list[Position]] = {}
    for row in sorted(rows, key=lambda row: row.offset):
        want = requested.get((row.source, row.topic, row.partition))
        if want is not None and row.ring and row.timestamp_ms is not None and row.offset < want.offset:
            found.setdefault(key_of(want), []).append(row)
    return {key: _around(each, newest_ms[key] or 0) for key, each in found.items()}


def _around(rows: Sequence[Position], newest_ms: int) -> Sequence[Position]:
    older = [row for row in rows if (row.timestamp_ms or 0) <= newest_ms]
    younger = [row for row in rows if row not in older]
    return [*younger[:1], *older[-1:]]


def requested_again(want: Want, row: Position) -> Want:
    """The question where the records of an older batch are."""
    ring = Fingerprints.of(row.ring)
    return replace(
        want,
        offset=row.offset,
        ring=ring,
        ring_offset=row.offset,
        dense=True,
        timestamp_ms=row.timestamp_ms,
        read_to=None,
        uncommitted=ring.uncommitted,
    )


def by_older_records(target: Target, older: Iterable[Target]) -> AtMost | None:
    """The least bound of the places that were found for older batches; None where none was found."""
    found = [
        AtMost(
            exposure_records=each.exposure_records,
            exposure_seconds=0.0 if each.exposure_records == 0 else each.exposure_seconds,
            replay_later_records=each.replay_later_records + target.offset - each.offset,
            by=f"by the records read up to offset {each.offset}",
        )
        for each in older
        if each.offset < target.offset
        and each.exposure_records is not None
        and each.replay_later_records is not None
        and not each.expired
    ]
    return min(found, key=lambda each: each.exposure_records, default=None)


def reached_by(
    stretches: Iterable[Stretch], targets: Iterable[Target], newest_ms: Mapping[Key, int | None]
) -> Mapping[Key, Reached]:
    """By the timeline, how far copies reach at least: to the newest moment at which all that was read was older.

    ``stretches``: of the place in use, the newest first. Times go back by no more than the buffer of a partition. So a
    record of the standby that is younger than the last ones before an offset by more than that comes from behind that
    offset. A replicator keeps the order. A stretch that cannot be read says nothing, nor do those before it.
    """
    times = {key_of(each): (newest_ms.get(key_of(each)), each.buffer_ms) for each in targets}
    limits = {key: time - buffer_ms for key, (time, buffer_ms) in times.items() if time is not None}
    found: dict[Key, Reached] = {}
    for stretch in stretches:
        if limits.keys() <= found.keys():
            break
        try:
            steps, precision_ms = stretch.steps(), stretch.precision_ms
        except Damaged:
            break
        for lane, key in enumerate(map(tuple, steps.lanes)):
            if key in limits and key not in found:
                place = _newest_before(steps, lane, limits[key] - precision_ms)
                found |= {} if place is None else {key: place}
    return found


def _newest_before(steps: Steps, lane: int, before_ms: int) -> Reached | None:
    for moment in reversed(steps.moments):
        time = moment.timestamps[lane]
        if time != NO_TIME and time < before_ms:
            return Reached(moment.offsets[lane], time)
    return None


def by_timeline(target: Target, reached: Reached, old: EndSample | None) -> AtMost | None:
    """The bound of a partition whose copies reach so far at least; None without a sample of the old log's end."""
    if old is None or reached.offset > target.offset:
        return None
    newest = old.newest_timestamp_ms
    behind = None if newest is None else min(newest, int(old.sampled_at.timestamp() * 1000)) - reached.time_ms
    return AtMost(
        exposure_records=max(0, max(old.end, target.offset) - reached.offset),
        exposure_seconds=None if behind is None else max(0, behind) / 1000,
        replay_later_records=target.offset - reached.offset,
        by=f"by the times of the records read up to offset {reached.offset}, where only the replicator writes",
    )


def with_bounds(resolution: Resolution, bounds: Mapping[Key, AtMost]) -> Resolution:
    """The places with their bounds, each of which says what shows it."""
    if not bounds:
        return resolution
    return replace(resolution, targets=tuple(_bounded(each, bounds.get(key_of(each))) for each in resolution.targets))


def _bounded(target: Target, bound: AtMost | None) -> Target:
    if bound is None or not is_unbounded(target):
        return target
    note = (
        f"the standby lacks at most {bound.exposure_records} records, of which {bound.replay_later_records} were read: "
        f"{bound.by}"
    )
    return replace(target, at_most=bound, note=notes.joined(target.note, note))
