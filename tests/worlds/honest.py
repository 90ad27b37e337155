"""What no world may claim: a smaller one that does is no example, and the generator makes none."""

from dataclasses import replace
from itertools import pairwise

from tests.worlds.question import ring
from tests.worlds.spread import placed
from tests.worlds.truth import consumed
from tests.worlds.world import COMMITTED, GONE, MARKER, OPEN, Partition, World


def dishonest(world: World) -> str:
    """Why the world cannot be, or nothing."""
    for number, part in enumerate(world.partitions):
        reason = (_spread_in_logs(number, world) if world.spread else _in_logs(part, world)) or _in_claims(part, world)
        if reason:
            return f"partition {number}: {reason}"
    return ""


def _in_logs(part: Partition, world: World) -> str:
    source = {each.offset: each for each in part.written}
    offsets, rows = [each.offset for each in part.written], [row.offset for row in part.kept]
    copies = [row for row in part.kept if row.of is not None]
    first_open = next((row.offset for row in part.kept if row.state == OPEN), None)
    checks = {
        "the old offsets do not ascend": _ascend(offsets) and (not offsets or offsets[-1] < part.written_end),
        "the standby's offsets do not ascend": _ascend(rows) and (not rows or rows[-1] < part.kept_end),
        "a copy of no record": all(row.of in source for row in copies),
        "a copy has another payload": all(row.payload == source[row.of].payload for row in copies if row.of in source),
        "a copy has another time": world.append_time
        or all(row.time == source[row.of].time for row in copies if row.of in source),
        "the standby's clock went back": not world.append_time or _ascend([row.time for row in part.kept], equal=True),
        "one topic id, but other offsets": not world.same_id or all(row.of == row.offset for row in copies),
        "a record is gone from a log that is not compacted": world.compacted
        or all(row.state != GONE for row in part.kept),
        "a marker is a copy": all(row.of is None for row in part.kept if row.state == MARKER),
        "the last stable offset is not that of the first open record": part.stable == first_open,
        "the standby's begin is outside of it": 0
        <= part.kept_begin
        <= (part.kept_end if first_open is None else first_open),
        "the replicator changed the order": _is_in_order([row.of for row in copies if row.of is not None], offsets),
        "the replicator copied what is not committed": not world.copies_committed
        or all(source[row.of].state == COMMITTED for row in copies if row.of in source),
    }
    return next((reason for reason, holds in checks.items() if not holds), "")


def _spread_in_logs(number: int, world: World) -> str:
    """The same of a partition that has copies of several, each of them alone."""
    part = world.partitions[number]
    for by, old in enumerate(world.partitions):
        here = tuple(each for each in old.written if placed(each.payload, len(world.partitions)) == number)
        rows = tuple(row for row in part.kept if row.of is None or row.by == by)
        reason = _in_logs(replace(part, written=here, written_end=old.written_end, kept=rows), world)
        if reason:
            return reason
    return ""


def _in_claims(part: Partition, world: World) -> str:
    source = {each.offset for each in part.written}
    copied = {row.of for row in part.kept if row.of is not None and not world.spread}
    known = ring(part, world)
    read = [each for each in consumed(part, world) if part.ring_at is None or each.offset < part.ring_at]
    sample = part.sample
    checks = {
        "the position is behind the old end": part.position <= part.written_end,
        "an open transaction was read": not world.committed
        or all(each.state != OPEN for each in part.written if each.offset < part.position),
        "tracking is ahead": part.ring_at is None or part.ring_at <= part.position,
        "the last record that was tracked is not remembered": part.ring_at is None
        or not read
        or (bool(known) and known[-1] == read[-1]),
        "a sample from behind the end": sample is None or (sample.end <= part.written_end and sample.at <= world.now),
        "a record before the sampled begin": sample is None or not source or min(source) >= sample.begin,
        "a copy of what the replicator leaves out": not copied & set(part.filtered),
    }
    return next((reason for reason, holds in checks.items() if not holds), "")


def _ascend(numbers: list[int], *, equal: bool = False) -> bool:
    return all(one < two or (equal and one == two) for one, two in pairwise(numbers))


def _is_in_order(copies: list[int], offsets: list[int]) -> bool:
    """Whether each copy is of the next record or, after a restart, an earlier one; none that was skipped is copied."""
    copied = set(copies)
    known = [offset for offset in offsets if offset in copied]
    index = {offset: number for number, offset in enumerate(known)}
    if any(of not in index for of in copies) or (copies and copies[0] != known[0]):
        return not copies
    return all(index[two] <= index[one] + 1 for one, two in pairwise(copies))
