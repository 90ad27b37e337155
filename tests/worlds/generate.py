"""Worlds by seed: the same number gives the same world, on every machine."""

import random
from dataclasses import dataclass, replace

from tests.worlds.apart import APART, READS_COMMITTED, STAMPS
from tests.worlds.copying import Copying, copied, mirrored
from tests.worlds.reading import reading
from tests.worlds.spread import respread
from tests.worlds.world import Lie, Partition, World
from tests.worlds.writing import Writing, written

LIES = ("time-late", "time-early", "time-none", "stale-begin", "stale-end", "stale-newest", "no-newest")
_CUT = 0.04
_LYING = 0.25
_PLAIN = 0.25
_MIRRORED = 0.08
_SYNCED = 0.2
_SPREAD = 0.3
_SEGMENTS = 0.06


@dataclass(frozen=True)
class _Settings:
    committed: bool
    copies_committed: bool
    append_time: bool
    compacted: bool
    mirrored: bool


def world_of(seed: int) -> World:
    """The world of a seed."""
    return drawn(seed)[0]


def drawn(seed: int) -> tuple[World, str]:
    """The world of a seed, and in what it differs from a plain one if that is one thing alone."""
    chance = random.Random(seed)
    plain = chance.random() < _PLAIN
    apart = chance.choice(APART) if plain and chance.random() < 0.5 else ""
    is_mirrored = not plain and chance.random() < _MIRRORED
    settings = _Settings(
        committed=apart == READS_COMMITTED or (not plain and chance.random() < 0.3),
        copies_committed=not plain and not is_mirrored and chance.random() < 0.3,
        append_time=apart == STAMPS or (not plain and not is_mirrored and chance.random() < 0.2),
        compacted=not plain and not is_mirrored and chance.random() < 0.12,
        mirrored=is_mirrored,
    )
    count = chance.choices((1, 2, 3), (0.8, 0.15, 0.05))[0]
    made = [_partition(chance, settings, plain=plain, apart=apart) for _ in range(count)]
    sampled = [part.sample.at for part, _ in made if part.sample is not None]
    now = max([now for _, now in made] + sampled) + chance.choice((0, 500, 60_000))
    lie = None
    if not plain and chance.random() < _LYING:
        lie = Lie(
            chance.choice(LIES),
            amount=chance.choice((1, 3, 20, 100)),
            partition=chance.randrange(count),
            only=chance.choice((None, None, 0, 1)),
        )
    synced = not plain and not is_mirrored and chance.random() < _SYNCED
    if lie is None and not plain and chance.random() < _CUT:
        lie = Lie("end-ahead", amount=chance.choice((1, 3, 20, 100)), partition=chance.randrange(count), only=0)
    apart_from = random.Random(f"spread {seed}")
    parts = tuple(part for part, _ in made)
    may_spread = count > 1 and not (plain or is_mirrored or synced or settings.append_time or settings.compacted)
    spread = may_spread and all(part.stable is None for part in parts) and apart_from.random() < _SPREAD
    world = World(
        partitions=respread(parts) if spread else parts,
        now=now,
        committed=settings.committed,
        copies_committed=settings.copies_committed,
        append_time=settings.append_time,
        compacted=settings.compacted,
        buffer_ms=chance.choice((900_000, 900_000, 60_000, 5_000, 0)),
        methods=_methods(chance, plain=plain, mirrored=is_mirrored, synced=synced),
        on_no_match=chance.choice(("fail", "fail", "fail", "earliest", "closest", "latest")),
        knows_type=plain or chance.random() < 0.95,
        per_fetch=chance.choice((1_000, 1_000, 7, 50)),
        keeps_offsets=is_mirrored or (not plain and chance.random() < 0.02),
        same_id=is_mirrored and chance.random() < 0.5,
        sync_lag=chance.choice((0, 10, 100)) if synced else None,
        syncs_lost=chance.choice((0, 0, 1, 3, 20)) if synced else 0,
        lie=lie,
        spread=spread,
    )
    return _by_segments(world, seed) if not (plain or is_mirrored or synced or spread) else world, apart


def _by_segments(world: World, seed: int) -> World:
    """Perhaps the broker searches by whole segments, and the query may not go by the times of records."""
    chance = random.Random(f"segments {seed}")
    if chance.random() >= _SEGMENTS:
        return world
    methods = chance.choice((("exact", "segment"), ("segment",)))
    return replace(world, methods=methods, segment_rows=chance.choice((1, 3, 20, 100)))


def _methods(chance: random.Random, *, plain: bool, mirrored: bool, synced: bool) -> tuple[str, ...]:
    first = ("identity",) if mirrored else ()
    if synced:
        return (*chance.choice((("exact", "synced"), ("synced",))), *chance.choice((("timestamp",), ())))
    usual = ("exact", "timestamp")
    return (*first, *(usual if plain else chance.choice((usual,) * 4 + (("timestamp",), ("exact",)))))


def _partition(chance: random.Random, settings: _Settings, *, plain: bool, apart: str) -> tuple[Partition, int]:
    source = written(chance, Writing.drawn(chance, plain=plain, apart=apart))
    position = source.position(chance, committed=settings.committed, plain=plain)
    copying = Copying.drawn(
        chance,
        source,
        position,
        copies_committed=settings.copies_committed,
        append_time=settings.append_time,
        compacted=settings.compacted,
        plain=plain,
        apart=apart,
    )
    standby = mirrored(chance, source, position) if settings.mirrored else copied(chance, source, copying)
    query = reading(chance, source, position, committed=settings.committed, plain=plain, apart=apart)
    return Partition(
        written=source.records,
        written_end=source.end,
        kept=standby.rows,
        kept_end=standby.end,
        position=position,
        next_copy=standby.next_copy,
        kept_begin=standby.begin,
        stable=standby.stable,
        remembered=query.remembered,
        ring_at=query.ring_at,
        seen=query.seen,
        proves=query.proves,
        filtered=() if settings.mirrored else tuple(sorted(copying.filtered)),
        sample=query.sample,
    ), standby.now
