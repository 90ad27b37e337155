"""Looks up how far the copies of a standby reach at least that lags further than records are remembered."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from state.model.entities import EndSample, Position, TopicPartition
from state.model.timeline import Stretch
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog
from streaming.errors import KafkaError
from streaming.resolve.ranges import read_ranges
from streaming.resolve.resolver import resolve
from streaming.resume.methods.lag_bounds import (
    LAST,
    Key,
    by_older_records,
    by_timeline,
    is_unbounded,
    key_of,
    lags,
    older_batches,
    reached_by,
    requested_again,
    with_bounds,
)
from streaming.resume.model import AtMost, Resolution, Rules, Target, Want

BOUND_SECONDS = 2.0
"""How long a look-up is prolonged for a bound, where a number is unknown."""
_LOOKED_AT = 64
"""Offsets before a standby's end among which its last records are looked for; markers lie there, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What is known of a query's way beside the records remembered before its position."""

    rows: Sequence[Position]
    """Of the place in use, all batches that are kept; the rings may be counted."""
    with_rings: Callable[[Collection[int]], Sequence[Position]]
    """The rows with the rings of these batches."""
    stretches: Iterable[Stretch]
    """Of the place in use, the newest first."""


def bounded(
    log: ClusterLog,
    found: Resolution,
    wants: Sequence[Want],
    rules: Rules,
    *,
    old_ends: Mapping[TopicPartition, EndSample],
    memory: Memory,
    now: datetime,
    timeout: float = BOUND_SECONDS,
) -> Resolution:
    """The answer with a bound wherever a number of a partition is unknown and a bound can be shown.

    A standby that does not answer in time leaves it without. Raises ``StoreError`` of the ``memory``.
    """
    unknown = [target for target in found.targets if is_unbounded(target)]
    if not unknown:
        return found
    deadline = Deadline.after(timeout)
    with suppress(KafkaError):
        newest = _come_to(log, unknown, deadline)
        rows = older_batches(memory.rows, wants, newest)
        if rows:
            again = _older(wants, memory, rows)
            exact = replace(rules, methods=(MethodName.EXACT,), on_no_match="fail")
            looked = resolve(log, again, exact, old_ends=old_ends, now=now, timeout=deadline.remaining)
            found = with_bounds(found, _by_content(unknown, looked.targets))
        reached = reached_by(memory.stretches, [each for each in unknown if lags(each)], newest)
        ends = {key_of(each): old_ends.get(TopicPartition(each.topic, each.partition)) for each in unknown}
        bounds = {key_of(each): by_timeline(each, reached[key_of(each)], ends[key_of(each)]) for each in unknown
                  if key_of(each) in reached}  # fmt: skip
        found = with_bounds(found, {key: bound for key, bound in bounds.items() if bound is not None})
    return found


def _come_to(log: ClusterLog, targets: Iterable[Target], deadline: Deadline) -> Mapping[Key, int | None]:
    """The oldest time of the last few records of each partition; None where these are too few or stamped there."""
    places = {key_of(each): each for each in targets if each.begin is not None and each.end is not None}
    ranges = {
        each.there: (max(each.begin or 0, (each.end or 0) - _LOOKED_AT), each.end or 0) for each in places.values()
    }
    ranges = {key: bounds for key, bounds in ranges.items() if bounds[0] < bounds[1]}
    read = read_ranges(log, ranges, limit=_LOOKED_AT, timeout=deadline.remaining) if ranges else {}
    times: dict[Key, int | None] = {}
    for key, target in places.items():
        last = (read.get(target.there) or ())[-LAST:]
        is_known = len(last) == LAST and not any(record.append_time for record in last)
        times[key] = min(record.timestamp_ms for record in last) if is_known else None
    return times


def _older(wants: Iterable[Want], memory: Memory, rows: Mapping[Key, Sequence[Position]]) -> Sequence[Want]:
    """The wants at their older batches, and the others as they are: by their number a topic is known as the same."""
    batches = {row.batch for each in rows.values() for row in each}
    read = {(row.batch, row.epoch, row.source, row.topic, row.partition): row for row in memory.with_rings(batches)}
    again: list[Want] = []
    for want in wants:
        older = [read.get((row.batch, row.epoch, *key_of(want)), row) for row in rows.get(key_of(want), ())]
        again += [requested_again(want, row) for row in older] or [want]
    return again


def _by_content(unknown: Iterable[Target], looked: Iterable[Target]) -> Mapping[Key, AtMost]:
    """Bounds by the places of older batches."""
    places: dict[Key, list[Target]] = {}
    for each in looked:
        places.setdefault(key_of(each), []).append(each)
    bounds = {key_of(each): by_older_records(each, places.get(key_of(each), ())) for each in unknown}
    return {key: bound for key, bound in bounds.items() if bound is not None}
