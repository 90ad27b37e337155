"""A world for people: a table of both sides, the targets with what is false in them, and Python to paste in a test."""

from collections.abc import Sequence
from dataclasses import MISSING, fields

from streaming.resume.model import Target
from tests.worlds.judge import Finding
from tests.worlds.question import ring
from tests.worlds.world import Kept, Lie, Partition, Sample, World, Written

_PLAIN = World(partitions=(), now=0)
_ROWS = 150


def report(world: World, targets: Sequence[Target], findings: Sequence[Finding]) -> str:
    """Settings, each partition as a table, each target, each finding, and the world as Python."""
    lines = [f"settings  {_settings(world)}"]
    for number, part in enumerate(world.partitions):
        lines += ["", f"partition {number}", *_table(part, world)]
    lines += ["", *(_target(target) for target in targets)]
    lines += [f"  {finding.kind} in partition {finding.partition}: {finding.text}" for finding in findings]
    return "\n".join([*lines, "", to_python(world)])


def to_python(value: object) -> str:
    """The world as an expression that ``from tests.worlds.world import *`` makes valid; defaults are left out."""
    if isinstance(value, World | Partition | Written | Kept | Sample | Lie):
        given = [(field, getattr(value, field.name)) for field in fields(value)]
        reported = [
            to_python(item) if isinstance(value, Written | Kept) and field.default is MISSING
            else f"{field.name}={to_python(item)}"
            for field, item in given
            if field.default is MISSING or item != field.default
        ]  # fmt: skip
        return f"{type(value).__name__}({', '.join(reported)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(to_python, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def _settings(world: World) -> str:
    reported = [
        f"{field.name}={getattr(world, field.name)!r}"
        for field in fields(world)
        if field.name not in ("partitions", "now") and getattr(world, field.name) != getattr(_PLAIN, field.name)
    ]
    return ", ".join(reported) or "as by default"


def _table(part: Partition, world: World) -> list[str]:
    known = {each.offset for each in ring(part, world)}
    left = [
        f"{each.offset:>5} {each.time:>9} {each.payload:<6}{each.state:<8}"
        f"{'ring' if each.offset in known else 'read' if each.offset < part.position else '':<5}"
        for each in part.written
    ]
    right = [
        f"{row.offset:>5} {row.time:>9} {row.payload:<6}{row.state:<8}"
        f"{'' if row.of is None else f'of {row.of}'}{'' if row.by is None else f' in {row.by}'}"
        f"{' deleted' if row.offset < part.kept_begin else ''}"
        for row in part.kept
    ]
    rows = max(len(left), len(right))
    lines = [f"  {'old log: offset, time, payload':<40}| standby"]
    for index in range(min(rows, _ROWS)):
        one, two = (side[index] if index < len(side) else "" for side in (left, right))
        lines.append(f"  {one:<40}| {two}")
    if rows > _ROWS:
        lines.append(f"  ... {rows - _ROWS} more")
    claims = f"position {part.position}, tracked to {part.ring_at}, old end {part.written_end}, sample {part.sample}"
    there = f"standby [{part.kept_begin}, {part.kept_end}), stable {part.stable}, replicator at {part.next_copy}"
    return [*lines, f"  {claims}", f"  {there}"]


def _target(target: Target) -> str:
    return (
        f"target of {target.target_partition}: {target.target_offset} by {target.method}, "
        f"{'exact' if target.exact else 'not exact'}, replay {target.replay_records}, later "
        f"{target.replay_later_records}, exposure {target.exposure_records} / {target.exposure_seconds} s, "
        f"expired {target.expired}, [{target.begin}, {target.end}), note: {target.note or '-'}"
    )
