"""Worlds in which the resolver was wrong once, as the fuzzer of ``tests/worlds`` made them small."""

from dataclasses import fields
from typing import Any

import pytest

from streaming.resolve import sent_again_scan
from streaming.resume.methods.content_search import Search
from tests.worlds.honest import dishonest
from tests.worlds.play import findings
from tests.worlds.show import report
from tests.worlds.spread import placed, respread
from tests.worlds.world import OPEN, Kept, Lie, Partition, Sample, World, Written

IN_WORLD = {each.name for each in fields(World)}


def _one(old: str, here: str, **given: Any) -> World:
    """A world of one partition: ``offset time payload [state]``, and ``offset time payload [of OLD] [state]``.

    Unless ``given``: the query has read to ``position`` and remembers it all, and the replicator has copied all.
    """
    written = tuple(_written(*row.split()) for row in old.split(", "))
    kept = tuple(_kept(*row.split()) for row in here.split(", "))
    part = {
        "written_end": written[-1].offset + 1,
        "kept_end": kept[-1].offset + 1,
        "ring_at": given["position"],
        "remembered": ((0, given["position"]),),
    } | {name: value for name, value in given.items() if name not in IN_WORLD}
    part = {"next_copy": part["written_end"]} | part
    world = {name: value for name, value in given.items() if name in IN_WORLD}
    return World(partitions=(Partition(written=written, kept=kept, **part),), **world)


def _written(offset: str, time: str, payload: str, state: str = "") -> Written:
    return Written(int(offset), int(time), payload, state)


def _kept(offset: str, time: str, payload: str, *more: str) -> Kept:
    of = int(more[1]) if more[:1] == ("of",) else None
    state = more[-1] if len(more) % 2 else ""
    return Kept(int(offset), int(time), payload, of, state)


def _spread_after_one() -> World:
    """Of the records remembered in the first partition, another partitioner left the oldest one and an unread one."""
    names = [f"r{each}" for each in range(400)]
    here = iter([each for each in names if placed(f"{each}.0", 2) == 0])
    there = iter([each for each in names if placed(f"{each}.0", 2) == 1])
    payloads = [next(here), *(next(there) for _ in range(16)), next(here)]
    written = tuple(Written(each, 10 * each, payload) for each, payload in enumerate(payloads, 50))
    copies = tuple(Kept(each.offset, each.time, each.payload, each.offset) for each in written)
    first = Partition(written, 68, copies, 68, position=67, next_copy=68, remembered=((50, 67),), ring_at=67)
    none = Partition(written=(), written_end=0, kept=(), kept_end=0, position=0, next_copy=0)
    return World(respread((first, none)), now=1000, spread=True)


def _old(count: int) -> str:
    """So many records, one every 10 ms, from offset 0 on."""
    return ", ".join(f"{each} {10 * each} r{each}" for each in range(count))


def _copies(*old: int) -> str:
    """Their copies, by the offsets of ``_old``, each at the next offset."""
    return ", ".join(f"{at} {10 * each} r{each} of {each}" for at, each in enumerate(old))


def _equal_last(again: int, since: int, step: int = 1) -> World:
    """A replicator was restarted twice: it sent two records from ``again`` on, and later the first of the last two.

    These are alike in time and content. What was read from ``since`` on is remembered. ``step``: offsets from copy to
    copy; between them lie markers.
    """
    old = [(10 * each, f"r{each}") for each in range(40)] + [(400, "last")] * 2
    sent = (*range(again + 2), *range(again, 41), 40)
    kept = [Kept(step * at, old[of][0], old[of][1], of) for at, of in enumerate(sent)]
    part = Partition(
        written=tuple(Written(each, *row) for each, row in enumerate(old)),
        written_end=42,
        kept=tuple(kept),
        kept_end=kept[-1].offset + 1,
        position=42,
        next_copy=41,
        remembered=((since, 42),),
        ring_at=42,
    )
    return World(partitions=(part,), now=500)


def _by_time_alone() -> World:
    """A standby that lags behind all that is remembered, on which another writer has added a record.

    The query may not go by content, and the broker says that no record is as new as T minus the buffer.
    """
    part = Partition(
        written=tuple(Written(each, 1000 * each, f"r{each}") for each in range(17)),
        written_end=17,
        kept=(Kept(0, 0, "r0", 0), Kept(1, 500, "x1")),
        kept_end=2,
        position=17,
        next_copy=17,
        remembered=((1, 17),),
        ring_at=17,
    )
    return World(partitions=(part,), now=20_000, methods=("timestamp",), lie=Lie("time-none"))


def _spread_with_an_error() -> World:
    """Another partitioner has put a record of the third partition, of which no time is known, into the second one.

    The answers of the third one do not agree, so it has an error.
    """
    first = Partition(
        written=(Written(3, 1000, "r3.0"), Written(5, 2000, "r5.0")),
        written_end=7,
        kept=(Kept(21, 2000, "r5.0", of=5, by=0),),
        kept_end=22,
        position=4,
        next_copy=7,
        remembered=((0, 4),),
        ring_at=4,
    )
    second = Partition(
        written=(Written(17, 3000, "p0.1"),),
        written_end=448,
        kept=(Kept(0, 0, "r1000.2", of=1000, by=2),),
        kept_end=221,
        position=138,
        next_copy=448,
        remembered=((0, 138),),
        ring_at=138,
    )
    third = Partition(
        written=(Written(1000, 0, "r1000.2"),), written_end=1064, kept=(), kept_end=32, position=1000, next_copy=1064
    )
    lie = Lie("stale-end", partition=2, only=0)
    return World((first, second, third), now=4000, committed=True, buffer_ms=0, lie=lie, spread=True)


def _last_left_out(before: int) -> World:
    """A replicator left out the last record read. Two unread ones that equal the last two follow.

    ``before``: so many others were read before, of which the first two equal these as well.
    """
    older = [(0, "p1"), (0, "p0"), *((10 * each, f"r{each}") for each in range(2, before))][:before]
    last = [(1000, "p1"), (2000, "p0"), (0, "p1"), (3000, "p1"), (4000, "p0"), (0, "p1"), (0, "p1"), (0, "p0")]
    rows = [*older, *last, (0, "p1"), (0, "p0")]
    left_out = before + 7
    sent = [each for each in range(len(rows)) if each != left_out]
    part = Partition(
        written=tuple(Written(each, *row) for each, row in enumerate(rows)),
        written_end=len(rows),
        kept=tuple(Kept(at, *rows[of], of) for at, of in enumerate(sent)),
        kept_end=len(sent),
        position=before + 8,
        next_copy=len(rows),
        filtered=(left_out,),
        remembered=((0, before + 8),),
        ring_at=before + 8,
    )
    return World(partitions=(part,), now=5000)


def _spread_with_open_ones() -> World:
    """Another partitioner has put an unread record of the first partition into the second one.

    What was read there last was not committed and is younger than all that lies there, but for one such record.
    """
    first = Partition(
        written=(Written(89, 840, "r89.0"),),
        written_end=91,
        kept=(),
        kept_end=86,
        position=88,
        next_copy=91,
        remembered=((0, 88),),
        ring_at=88,
    )
    read = [Written(each, 3_600_000 + 10 * each, f"p{each % 2}.1") for each in range(3, 19)]
    last = [Written(25, 3_600_330, "p1.1", state=OPEN), Written(27, 3_600_360, "p0.1", state=OPEN)]
    second = Partition(
        written=(*read, *last),
        written_end=28,
        kept=(Kept(37, 840, "r89.0", of=89, by=0), Kept(48, 3_600_330, "p1.1", of=25, by=1)),
        kept_end=72,
        position=28,
        next_copy=28,
        remembered=((0, 28),),
        ring_at=28,
    )
    return World((first, second), now=3_600_360, spread=True)


WORLDS = {
    "a stale end of one partition": World(
        partitions=(
            Partition(
                written=(Written(0, 0, "r0"), Written(1, 10, "r1")),
                written_end=2,
                kept=(Kept(0, 0, "r0", of=0), Kept(1, 0, "r0", of=0), Kept(2, 10, "r1", of=1)),
                kept_end=3,
                position=2,
                next_copy=2,
                remembered=((0, 2),),
                ring_at=2,
            ),
            Partition(written=(), written_end=0, kept=(), kept_end=10, position=0, next_copy=0),
        ),
        now=20,
        committed=True,
        lie=Lie(kind="stale-end", partition=1, only=0),
    ),
    "one topic id and other records": World(
        partitions=(
            Partition(
                written=(Written(1, 10, "r1"),),
                written_end=15,
                kept=(Kept(1, 10, "r1", of=1), Kept(2, 0, "x2")),
                kept_end=36,
                position=13,
                next_copy=15,
                sample=Sample(end=15, at=10),
            ),
        ),
        now=20,
        methods=("identity", "exact", "timestamp"),
        keeps_offsets=True,
        same_id=True,
    ),
    "a time ahead before deleted records": World(
        partitions=(
            Partition(
                written=(
                    Written(0, 5, "r0"),
                    Written(1, 3600006, "r1"),
                    Written(2, 3600016, "r2"),
                    Written(3, 16, "r3"),
                ),
                written_end=4,
                kept=(Kept(0, 3600016, "r2", of=2), Kept(1, 16, "r3", of=3)),
                kept_end=2,
                position=2,
                next_copy=4,
                kept_begin=1,
                remembered=((0, 2),),
                ring_at=2,
            ),
        ),
        now=3600016,
    ),
    "a sync whose records are deleted": World(
        partitions=(
            Partition(
                written=(Written(12, 3616000, "p3"), Written(13, 3617000, "p3")),
                written_end=24,
                kept=(Kept(0, 3617000, "p3", of=13), Kept(1, 29000, "x14")),
                kept_end=2,
                position=13,
                next_copy=24,
                kept_begin=1,
                remembered=((0, 13),),
                ring_at=13,
            ),
        ),
        now=3617000,
        methods=("synced",),
        sync_lag=10,
    ),
    "a compacted log and a record that was read in between": _one(
        "0 20 r0, 1 0 r1, 2 30 r2",
        "0 20 r0 of 0, 1 0 r1 of 1",
        position=3,
        remembered=((0, 1), (2, 3)),
        compacted=True,
        now=10,
    ),
    "a standby that stamps, and a gap sent again": _one(
        "29 0 r29, 30 10 r30, 31 20 r31, 32 30 r32, 33 40 r33, 35 40 r35, 36 40 r36, 38 50 r38, 39 60 r39, "
        "40 70 r40, 42 80 r42, 43 90 r43, 44 90 r44",
        "0 100 r29 of 29, 1 110 r30 of 30, 2 120 r31 of 31, 3 130 r32 of 32, 4 140 r33 of 33, "
        "5 140 r35 of 35, 6 140 r36 of 36, 7 150 r38 of 38, 8 160 r39 of 39, 9 170 r40 of 40, "
        "10 180 r38 of 38, 11 180 r39 of 39, 12 180 r40 of 40, 13 180 r42 of 42, 14 190 r43 of 43, "
        "15 190 r44 of 44, 16 200 r29 of 29, 17 200 r30 of 30, 18 200 r31 of 31, 19 200 r32 of 32, "
        "20 200 r33 of 33, 21 200 r35 of 35, 22 200 r36 of 36, 23 200 r38 of 38, 24 200 r39 of 39, "
        "25 200 r40 of 40, 26 200 r42 of 42, 27 200 r43 of 43, 28 200 r44 of 44",
        position=59,
        written_end=202,
        remembered=((0, 39),),
        ring_at=39,
        append_time=True,
        now=210,
    ),
    "aborted records sent again": _one(
        "0 0 r0, 1 10 r1 aborted, 2 20 r2 aborted, 3 20 r3 aborted, 4 20 r4 aborted, 5 20 r5 aborted",
        "0 10 r1 of 1, 1 20 r2 of 2, 2 20 r3 of 3, 3 20 r4 of 4, 4 10 r1 of 1, 5 30 x5",
        position=6,
        now=40,
    ),
    "another writer in a hole of the same offsets": _one(
        "1000 0 r1000, 1001 0 r1001, 1004 1000 r1004, 1005 2000 r1005, 1006 3000 r1006, 1007 3000 r1007, "
        "1009 4000 r1009, 1013 5000 r1013",
        "1000 0 r1000 of 1000, 1001 0 r1001 of 1001, 1004 1000 r1004 of 1004, 1005 2000 r1005 of 1005, "
        "1006 3000 r1006 of 1006, 1007 3000 r1007 of 1007, 1009 4000 r1009 of 1009, 1013 5000 r1013 of 1013, "
        "1027 6000 x1027",
        position=1030,
        written_end=1030,
        kept_end=1033,
        methods=("identity", "exact", "timestamp"),
        keeps_offsets=True,
        now=7000,
    ),
    "a slow clock and one equal record": _one(
        "0 3700 p1, 1 195000 p1", "0 -197000 p1 of 0, 1 -5000 p1 of 1", position=1, append_time=True, now=195000
    ),
    "another writer is all that retention left": _one(
        "6 10 r6, 7 20 r7", "0 20 r7 of 7, 1 0 x1", position=7, kept_begin=1, buffer_ms=0, now=30
    ),
    "a begin that is no longer the begin": _one(
        "0 0 r0, 1 0 r1",
        "0 0 r1 of 1",
        position=1,
        kept_begin=1,
        lie=Lie(kind="stale-begin", amount=1, partition=0, only=None),
        now=10,
    ),
    "a second copy is all that retention left": _one(
        "0 10 r0, 1 0 r1, 2 20 r2",
        "0 10 r0 of 0, 1 0 r1 of 1, 2 20 r2 of 2, 3 10 r0 of 0, 4 0 r1 of 1",
        position=2,
        kept_begin=3,
        now=30,
    ),
    "the last record equals one that nobody remembers": _one(
        "0 0 p1, 1 0 p1", "0 0 p1 of 0", position=2, next_copy=1, remembered=((1, 2),), now=1000
    ),
    "one equal record of a handful": _one(
        "0 0 p0, 1 0 p0", "0 0 p0 of 0", position=2, next_copy=1, remembered=((1, 2),), now=10
    ),
    "two records and the first of them again": _one(
        "4 0 r4, 5 1000 r5",
        "0 0 r4 of 4, 1 1000 r5 of 5, 2 0 r4 of 4",
        position=32,
        written_end=32,
        next_copy=5,
        now=2000,
    ),
    "old records again where times go back an hour": _one(
        "10 210 r10, 21 3600330 r21, 24 370 r24, 25 380 r25, 26 390 r26, 33 460 r33, 34 3600470 r34",
        "0 210 r10 of 10, 1 370 r24 of 24, 2 380 r25 of 25, 3 390 r26 of 26, 4 460 r33 of 33, 5 210 r10 of 10",
        position=38,
        written_end=55,
        remembered=((19, 23), (24, 27), (29, 30), (31, 32), (33, 38)),
        now=3600470,
    ),
    "equal records of which the older one was copied": _one(
        "0 0 p0, 1 0 p4, 2 0 p0, 3 0 p3", "0 0 p0 of 0, 1 0 p4 of 1", position=4, remembered=((2, 4),), now=1000
    ),
    "the last record twice among equal ones": _one(
        "0 0 p0, 1 0 p0, 2 1000 p0, 3 2000 p0",
        "0 0 p0 of 0, 1 0 p0 of 1, 2 1000 p0 of 2, 3 2000 p0 of 3, 4 2000 p0 of 3",
        position=4,
        now=3000,
    ),
    "a lag, and the first record again": _one(
        "0 40 r0, 1 0 r1, 2 50 r2, 3 10 r3, 4 60 r4, 5 20 r5, 6 70 r6, 7 80 r7",
        "0 40 r0 of 0, 1 0 r1 of 1, 2 40 r0 of 0",
        position=8,
        next_copy=1,
        now=30,
    ),
    "a compacted log of which the first unread record is deleted": _one(
        "0 0 p3, 1 0 p4, 2 0 p4, 3 0 p4", "0 0 p4 of 2, 1 0 p4 of 3", position=2, kept_begin=1, compacted=True, now=10
    ),
    "a standby that stamps, and the oldest record again": _one(
        "0 0 r0, 1 160 r1, 2 10 r2, 3 170 r3, 4 20 r4, 5 180 r5, 6 30 r6, 7 190 r7, 8 40 r8",
        "0 60 r0 of 0, 1 70 r1 of 1, 2 80 r2 of 2, 3 90 r3 of 3, 4 100 r4 of 4, 5 110 r5 of 5, 6 120 r6 of 6, "
        "7 130 r7 of 7, 8 140 r8 of 8, 9 150 r0 of 0",
        position=9,
        remembered=((1, 9),),
        append_time=True,
        now=200,
    ),
    "a standby that stamps, a gap, and the oldest record again": _one(
        "0 0 r0, 1 20 r1, 2 40 r2, 3 50 r3, 4 80 r4, 5 100 r5, 6 100 r6, 7 100 r7, 8 100 r8, 9 110 r9, 10 120 r10",
        "0 10 r0 of 0, 1 30 r1 of 1, 2 60 r2 of 2, 3 70 r3 of 3, 4 90 r4 of 4, 5 120 r5 of 5, 6 120 r6 of 6, "
        "7 120 r7 of 7, 8 120 r8 of 8, 9 130 r9 of 9, 10 140 r10 of 10, 11 160 r0 of 0",
        position=11,
        remembered=((1, 9),),
        ring_at=9,
        append_time=True,
        now=200,
    ),
    "a standby that stamps, and a deleted record again": _one(
        "0 0 r0, 1 10 r1, 2 20 r2, 3 30 r3, 4 40 r4, 5 50 r5, 6 60 r6, 7 70 r7, 8 80 r8, 9 90 r9, 10 100 r10",
        "0 0 r0 of 0, 1 10 r1 of 1, 2 20 r2 of 2, 3 30 r3 of 3, 4 40 r4 of 4, 5 50 r5 of 5, 6 60 r6 of 6, "
        "7 70 r7 of 7, 8 80 r8 of 8, 9 90 r9 of 9, 10 100 r10 of 10, 11 110 r0 of 0",
        position=11,
        remembered=((2, 11),),
        kept_begin=1,
        append_time=True,
        now=200,
    ),
    "an equal record that is not remembered is the last that came": _one(
        "0 0 p0, 1 10 p1, 2 10 p1, 3 20 p1, 4 30 p1",
        "0 0 p0 of 0, 1 10 p1 of 1",
        position=5,
        remembered=((0, 1), (2, 3)),
        ring_at=3,
        next_copy=2,
        now=40,
    ),
    "a compacted log of another writer's equal record alone": _one(
        "0 0 p1, 1 10 p1", "0 0 p1", position=2, next_copy=0, compacted=True, now=10
    ),
    "another writer's equal record, and others behind it": _one(
        "0 10 p1, 1 40 p0", "0 10 p1, 1 50 p0, 2 0 p1", position=2, next_copy=0, now=50
    ),
    "a gap, and a remembered record again": _one(
        "0 0 r0, 1 10 r1, 2 20 r2",
        "0 0 r0 of 0, 1 10 r1 of 1, 2 20 r2 of 2, 3 0 r0 of 0",
        position=13,
        written_end=13,
        ring_at=12,
        remembered=((0, 12),),
        next_copy=1,
        now=20,
    ),
    "holes, and a newest record ahead of the clock": _one(
        "0 0 r0, 1 10 r1, 2 20 r2, 3 30 r3, 4 40 r4",
        "0 0 r0 of 0, 1 20 r2 of 2, 2 40 r4 of 4",
        position=1,
        sample=Sample(end=5, at=31),
        now=40,
    ),
    "holes, and a record from after the sample": _one(
        "0 0 r0, 1 10 r1, 2 20 r2, 3 30 r3, 4 50 r4",
        "0 0 r0 of 0, 1 20 r2 of 2, 2 50 r4 of 4",
        position=1,
        sample=Sample(end=4, at=40),
        now=50,
    ),
    "holes around the newest copy, and a record from after the sample": _one(
        f"{_old(11)}, 11 120 r11",
        f"{_copies(*range(8), 9)}, 9 120 r11 of 11",
        position=8,
        sample=Sample(end=11, at=105),
        now=120,
    ),
    "a tail of another writer up to the same end": _one(
        "0 20 r0, 11 10 r11",
        "0 20 r0 of 0, 11 10 x11",
        position=12,
        written_end=17,
        kept_end=17,
        next_copy=1,
        ring_at=4,
        remembered=((0, 4),),
        sample=Sample(end=17, at=30),
        methods=("identity", "exact", "timestamp"),
        keeps_offsets=True,
        now=30,
    ),
    "a compacted log, and an old record again whose first copy is gone": _one(
        "0 0 r0, 1 10 r1, 2 20 r2, 3 30 r3",
        "0 0 r0 of 0, 1 10 r1 of 1 gone, 2 30 r3 of 3, 3 0 r0 of 0, 4 10 r1 of 1",
        position=4,
        remembered=((2, 4),),
        compacted=True,
        now=30,
    ),
    "aborted records right before the position": _one(
        "0 0 r0, 1 0 r1, 2 0 r2, 3 0 r3, 4 0 r4 aborted, 5 0 r5 aborted, 6 0 r6 aborted, 8 0 r8, 9 0 r9, 10 0 r10",
        "0 0 r0 of 0, 1 0 r1 of 1, 2 0 r2 of 2, 3 0 r3 of 3, 4 0 r4 of 4, 5 0 r5 of 5, 6 0 r6 of 6",
        position=8,
        next_copy=8,
        committed=True,
        sample=Sample(end=11, at=1000),
        now=1000,
    ),
    "a slow clock, and a second copy behind another writer's record": _one(
        "0 47000 r0, 1 48000 r1, 2 48000 r2, 3 48000 r3, 4 48000 r4, 5 49000 r5, 6 50000 r6, 7 50000 r7",
        "0 -92000 r0 of 0, 1 -92000 r1 of 1, 2 -92000 r2 of 2, 3 -92000 r3 of 3, 4 -92000 r4 of 4, 5 -91000 r5 of 5, "
        "6 -90000 r6 of 6, 7 -90000 r7 of 7, 8 227005 x8, 9 227005 r0 of 0, 10 227005 r1 of 1, 11 227005 r2 of 2, "
        "12 227005 r3 of 3, 13 227005 r4 of 4, 14 227005 r5 of 5, 15 227005 r6 of 6, 16 227005 r7 of 7",
        position=8,
        append_time=True,
        now=437000,
    ),
    "equal records of which retention may have taken the first": _one(
        "0 0 p0, 1 0 p0, 2 0 p0, 3 0 p0",
        "0 0 p0 of 1, 1 0 p0 of 2, 2 0 p0 of 3",
        position=1,
        kept_begin=1,
        compacted=True,
        now=10,
    ),
    "a compacted log with one of an old row that came again": _one(
        "0 12 r0, 1 13 r1, 2 14 r2, 3 2015 r3, 4 15 r4, 5 16 r5, 6 2017 r6, 7 2018 r7, 8 2019 r8, 9 2024 r9",
        "0 12 r0 of 0, 1 13 r1 of 1 gone, 2 14 r2 of 2 gone, 3 2015 r3 of 3, 4 12 r0 of 0, 5 13 r1 of 1 gone, "
        "6 14 r2 of 2 gone, 7 2015 r3 of 3 gone, 8 2024 r9 of 9",
        position=9,
        remembered=((1, 9),),
        compacted=True,
        now=2030,
    ),
    "an old record that comes again behind markers": _one(
        "0 0 p0, 1 10 p0, 2 10 p0",
        "8 0 p0 of 0, 10 10 p0 of 1, 12 10 p0 of 2, 14 0 p0 of 0",
        position=3,
        kept_begin=8,
        next_copy=1,
        now=10,
    ),
    "a time answered too late hides a first copy": _one(
        ", ".join(f"{each} {each}0 r{each}" for each in range(60)),
        ", ".join(f"{each} {each}0 r{each} of {each}" for each in range(60)) + ", 60 0 r0 of 0",
        position=60,
        remembered=((58, 60),),
        next_copy=1,
        now=600,
        lie=Lie(kind="time-late", amount=40),
    ),
    "an unread record between two that equal read ones": _one(
        "0 0 p2, 1 1000 p0, 2 2000 p2, 3 2000 p1, 4 3000 p2, 5 4000 p0",
        "0 6000 p2 of 2, 1 6000 p1 of 3, 2 7000 p2 of 4, 3 8000 p0 of 5",
        position=2,
        append_time=True,
        now=8000,
    ),
    "a stale begin of a log with nothing as new as what was read": _one(
        "0 0 r0, 1 10 r1",
        "1 10 r1 of 1",
        position=1,
        kept_begin=4,
        kept_end=7,
        compacted=True,
        now=20,
        lie=Lie(kind="stale-begin", amount=5),
    ),
    "a compacted log, holes of the old one, and a remembered record again": _one(
        "0 0 r0, 1 0 r1, 2 0 r2, 3 3000 r3, 4 0 r4, 5 1000 r5, 6 1000 r6, 10 4000 r10",
        "0 0 r0 of 0, 1 0 r4 of 4, 2 0 r0 of 0",
        position=12,
        written_end=20,
        remembered=((0, 12),),
        next_copy=1,
        compacted=True,
        now=4000,
    ),
    "a compacted log whose second copy follows an older unread record": _one(
        "0 2000 r0, 1 0 r1", "0 2000 r0 of 0 gone, 1 0 r1 of 1, 2 2000 r0 of 0", position=1, compacted=True, now=1000
    ),
    "a compacted log with an older unread record among second copies": _one(
        "0 2000 r0, 1 2010 r1, 2 0 r2, 3 2020 r3",
        "0 2000 r0 of 0, 1 2010 r1 of 1 gone, 2 0 r2 of 2, 3 2000 r0 of 0 gone, 4 2010 r1 of 1, 5 0 r2 of 2 gone, "
        "6 2020 r3 of 3",
        position=2,
        compacted=True,
        now=2020,
    ),
    "another writer's record where one of a gap has not come": _one(
        "0 0 p4, 1 10 p2, 2 0 p1, 3 20 p1, 4 0 p0, 5 0 p4, 6 20 p1, 7 20 p0, 8 30 p3, 9 30 p2",
        "0 0 p4 of 0, 1 10 p2 of 1, 2 0 p1 of 2, 3 20 p1 of 3, 4 0 p0 of 4, 5 0 p4 of 5, 6 20 p1 of 6, 7 20 p0 of 7, "
        "8 30 p3 of 8, 9 30 x8",
        position=10,
        next_copy=9,
        remembered=((0, 7),),
        ring_at=7,
        sample=Sample(end=10, at=40),
        now=40,
    ),
    "aborted records to come, and another writer's newer one": _one(
        "0 0 r0, 1 20 r1 aborted, 2 10 r2 aborted", "0 0 r0 of 0, 1 40 x1", position=3, next_copy=2, now=40
    ),
    "aborted records to come, and another writer's under a slow clock": _one(
        ", ".join(f"{each} {each} r{each}" for each in range(10)) + ", 10 10 r10 aborted, 11 11 r11 aborted, 12 12 r12",
        ", ".join(f"{each} {each + 1} r{each} of {each}" for each in range(10)) + ", 10 12 x10",
        position=12,
        next_copy=10,
        append_time=True,
        sample=Sample(end=13, at=30),
        now=40,
    ),
    "a copy that was aborted on the standby": _one(
        "0 0 r0, 1 3000 r1, 2 1000 r2",
        "0 0 r0 of 0 aborted, 1 3000 r1 of 1 aborted",
        position=1,
        committed=True,
        sample=Sample(end=3, at=2000),
        now=4000,
    ),
    "a lagging standby with an older record that equals the last one": _one(
        "8 20 p0, 9 20 p1, 10 0 p0, 11 20 p1, 238 0 p0, 241 0 p0, 242 20 p1",
        "0 20 p0 of 8, 1 20 p1 of 9, 2 0 p0 of 10, 3 20 p1 of 11",
        position=243,
        written_end=425,
        next_copy=61,
        remembered=((237, 243),),
        now=20,
    ),
    "a lagging standby with older records like the last ones": _one(
        "0 20 p0, 1 0 p1, 2 20 p1, 3 0 p0, 4 20 p1, 5 0 p0, 6 20 p0, 7 0 p1, 8 0 p0, 9 20 p1",
        "0 20 p0 of 0, 1 0 p1 of 1, 2 20 p1 of 2, 3 0 p0 of 3, 4 20 p1 of 4",
        position=10,
        next_copy=5,
        remembered=((5, 10),),
        now=20,
    ),
    "a record that equals the oldest remembered one": _one(
        "0 50 p0, 1 50 p0, 2 60 p0, 3 60 p1, 4 70 p0, 5 0 p0, 6 80 p0, 7 10 p1, 8 20 p1",
        "0 30 x13, 1 50 p0 of 0",
        position=9,
        next_copy=1,
        remembered=((1, 9),),
        now=80,
    ),
    "a record that equals the oldest remembered one, all others unlike": _one(
        "0 50 a, 1 50 a, 2 60 b, 3 60 c, 4 70 d, 5 0 e, 6 80 f, 7 10 g, 8 20 h",
        "0 30 x13, 1 50 a of 0",
        position=9,
        next_copy=1,
        remembered=((1, 9),),
        now=80,
    ),
    "one older record of another writer is all that retention left": _one(
        ", ".join(f"{each} {2000 + each} r{each}" for each in range(40, 57)),
        "40 2056 r56 of 56, 140 -8975 x140",
        position=56,
        kept_begin=88,
        kept_end=176,
        buffer_ms=5000,
        now=2056,
    ),
    "a standby that lags, and the policy that nothing is lost": _one(
        ", ".join(f"{each} {10 * each} r{each}" for each in range(17)),
        "0 0 r0 of 0, 1 5 x1",
        position=17,
        remembered=((1, 17),),
        methods=("synced",),
        on_no_match="earliest",
        now=160,
    ),
    "a segment that was written last in the millisecond of the last record": _one(
        "0 0 p0, 1 0 p1, 2 0 p0",
        "19 0 p1 of 1, 21 0 p0 of 2",
        position=1,
        kept_end=26,
        append_time=True,
        buffer_ms=0,
        methods=("segment",),
        segment_rows=3,
        now=1000,
    ),
    "a hole, and an older record of a remembered content again": _one(
        "0 0 p1, 6 30 p0, 7 30 p1, 8 10 p0, 9 30 p0, 10 40 p0, 15 50 p1",
        "0 0 p1 of 0, 1 30 p0 of 6, 2 30 p1 of 7, 3 10 p0 of 8, 4 30 p0 of 9, 5 40 p0 of 10, 6 0 p1 of 0",
        position=16,
        remembered=((6, 16),),
        next_copy=1,
        now=50,
    ),
    "a standby that stamps, and another writer before a second copy": _one(
        "12 0 r12",
        "0 1000 r12 of 12, 1 2000 x1, 2 2000 r12 of 12",
        position=17,
        written_end=30,
        kept_begin=1,
        append_time=True,
        sample=Sample(end=17, at=0, begin=7),
        now=2000,
    ),
    "an unread record where a handful has a hole, and equal ones": _one(
        "7 20 p4, 8 20 p2, 9 0 p3, 14 0 p1, 16 20 p4, 21 0 p0, 22 0 p1",
        "0 20 p4 of 16, 1 0 p0 of 21, 2 0 p1 of 22",
        position=15,
        written_end=37,
        compacted=True,
        now=20,
    ),
    "an unread record of the newest time in a hole, and one like the last": _one(
        "18 4000 p0, 23 0 p0, 25 1000 p0, 31 2000 p1, 41 5000 p1, 44 5000 p0, 45 5000 p1",
        "0 0 p0 of 23, 1 1000 p0 of 25, 2 2000 p1 of 31, 3 5000 p0 of 44, 4 5000 p1 of 45",
        position=42,
        written_end=47,
        now=3000,
    ),
    "an unread record of the newest time in a hole of many, and one like the last": _one(
        "13 5000 p1, 18 6000 p0, 20 7000 p1, 21 0 p0, 23 1000 p0, 25 2000 p0, 31 3000 p1, 41 8000 p1, 44 8000 p0, "
        "45 8000 p1",
        "0 5000 p1 of 13, 1 6000 p0 of 18, 2 7000 p1 of 20, 3 0 p0 of 21, 4 1000 p0 of 23, 5 2000 p0 of 25, "
        "6 3000 p1 of 31, 7 8000 p0 of 44, 8 8000 p1 of 45",
        position=42,
        written_end=47,
        now=4000,
    ),
    "another partition shows that the standby stamps records": World(
        partitions=(
            Partition(
                written=tuple(Written(each, 10 * each, f"r{each}") for each in range(40)),
                written_end=40,
                kept=tuple(Kept(each - 20, -9000, f"r{each}", of=each) for each in range(20, 40)),
                kept_end=20,
                position=20,
                next_copy=40,
                remembered=((0, 20),),
                ring_at=20,
            ),
            Partition(
                written=(Written(0, 200, "a"), Written(1, 210, "b")),
                written_end=2,
                kept=(Kept(0, -9000, "b", of=1), *(Kept(each, -9000, f"x{each}") for each in range(1, 6))),
                kept_end=6,
                position=1,
                next_copy=2,
                kept_begin=1,
                seen=((0, 1),),
            ),
        ),
        now=400,
        append_time=True,
        buffer_ms=5000,
        knows_type=False,
    ),
    "an older record again where all that is remembered has one time": _one(
        "0 0 r0, 33 0 r33, 34 0 r34, 36 0 r36, 37 0 r37, 38 0 r38, 39 0 r39, 40 0 r40, 41 0 r41",
        "0 0 r0 of 0, 1 0 r33 of 33, 2 0 r34 of 34, 3 0 r36 of 36, 4 0 r37 of 37, 5 0 r0 of 0, 6 1000 x6",
        position=78,
        written_end=136,
        remembered=((25, 78),),
        now=2000,
    ),
    "an older record again behind times that go back": _one(
        "0 50 r0, 33 100 r33, 34 100 r34, 36 100 r36, 37 100 r37, 38 0 r38, 39 0 r39, 40 0 r40, 41 0 r41",
        "0 50 r0 of 0, 1 100 r33 of 33, 2 100 r34 of 34, 3 100 r36 of 36, 4 100 r37 of 37, 5 0 r38 of 38, "
        "6 0 r39 of 39, 7 0 r40 of 40, 8 50 r0 of 0, 9 1000 x",
        position=78,
        written_end=136,
        remembered=((25, 78),),
        now=2000,
    ),
    "an older record again, or a late one": _one(
        "0 120 r0, 40 100 r40, 41 110 r41, 42 120 r42, 43 130 r43, 44 80 r44, 45 140 r45, 46 150 r46, 47 160 r47, "
        "48 170 r48, 49 180 r49, 50 190 r50, 51 200 r51",
        "0 120 r0 of 0, 1 100 r40 of 40, 2 110 r41 of 41, 3 120 r42 of 42, 4 130 r43 of 43, 5 80 r44 of 44, "
        "6 140 r45 of 45, 7 150 r46 of 46, 8 160 r47 of 47, 9 170 r48 of 48, 10 180 r49 of 49, 11 190 r50 of 50, "
        "12 200 r51 of 51, 13 120 r0 of 0, 14 1000 x",
        position=78,
        written_end=136,
        remembered=((25, 78),),
        now=2000,
    ),
    "an older record of another writer before copies sent again": _one(
        "16 3600180 r16, 17 3600190 r17, 18 3600200 r18, 19 3600200 r19",
        "0 3600180 r16 of 16, 1 3600190 r17 of 17, 2 3600200 r18 of 18, 3 3600200 r19 of 19, 4 975 x, "
        "5 3600180 r16 of 16, 6 3600190 r17 of 17, 7 3600200 r18 of 18, 8 3600200 r19 of 19",
        position=22,
        written_end=24,
        kept_begin=4,
        now=3600200,
    ),
    "another writer before copies sent again, and a sample from before the position": _one(
        "16 3600180 r16, 17 3600190 r17",
        "0 3600180 r16 of 16, 1 3600190 r17 of 17, 2 971 x, 3 3600180 r16 of 16, 4 3600190 r17 of 17",
        position=22,
        written_end=24,
        kept_begin=2,
        sample=Sample(end=10, at=108),
        now=3600190,
    ),
    "another writer before copies sent again, as old as some of a few that were read": _one(
        "13 3600150 r13, 14 180 r14, 15 180 r15, 16 3600180 r16, 17 3600190 r17",
        "0 3600150 r13 of 13, 1 180 r14 of 14, 2 180 r15 of 15, 3 3600180 r16 of 16, 4 3600190 r17 of 17, 5 971 x, "
        "6 3600150 r13 of 13, 7 180 r14 of 14, 8 180 r15 of 15, 9 3600180 r16 of 16, 10 3600190 r17 of 17",
        position=22,
        written_end=24,
        kept_begin=5,
        now=3600190,
    ),
    "a compacted log that lost the first copy, and an unread record like it": _one(
        "0 0 p1, 1 0 p1",
        "0 0 p1 of 0 gone, 1 0 p1 of 1, 2 0 p1 of 0",
        position=1,
        now=10,
        compacted=True,
    ),
    "a compacted log with an older record before equal ones": _one(
        "0 20 p0, 1 0 p0, 2 20 p0, 3 20 p0",
        "0 0 p0 of 1, 1 20 p0 of 2, 2 20 p0 of 3, 3 10 x",
        position=1,
        now=30,
        compacted=True,
    ),
    "the last ones left out, an unread one in a hole, and one like a read one": _one(
        "5 0 p4, 6 0 p3, 7 0 p4, 11 0 p2, 13 1000 p0, 20 0 p0, 22 0 p2",
        "0 0 p4 of 5, 1 0 p3 of 6, 2 0 p4 of 7, 3 0 p0 of 20, 4 0 p2 of 22",
        position=19,
        written_end=24,
        now=2000,
    ),
    "an unread record like the oldest one read, all of one content": _one(
        "0 0 p0, 1 10 p0, 2 50 p0, 3 60 p0, 4 20 p0, 5 70 p0, 6 80 p0, 7 30 p0, 8 40 p0, 9 0 p0",
        "0 40 p0 of 8, 1 0 p0 of 9",
        position=8,
        now=90,
    ),
    "a compacted log with an unread record like the oldest one read": _one(
        "0 0 p0, 1 10 p0, 2 50 p0, 3 60 p0, 4 20 p0, 5 70 p0, 6 80 p0, 7 30 p0, 8 40 p0, 9 0 p0",
        "0 40 p0 of 8, 1 0 p0 of 9",
        position=8,
        now=90,
        compacted=True,
    ),
    "a partition with the oldest remembered record alone, the others elsewhere": _spread_after_one(),
    "another partitioner, and a partition with an error whose records lie in another one": _spread_with_an_error(),
    "another partitioner, where the youngest records read were not committed": _spread_with_open_ones(),
    "a few alike that are remembered, and a run like theirs from before them": _one(
        "0 0 p0, 1 10 p0, 2 20 p0, 3 10 p0, 4 20 p0",
        "0 0 p0 of 0, 1 10 p0 of 1, 2 20 p0 of 2",
        position=5,
        next_copy=3,
        remembered=((3, 5),),
        now=30,
    ),
    "an aborted copy of one of two equal last ones, and an older record again": _one(
        "0 0 p1, 1 0 p0, 2 0 p1, 3 10 p0, 4 10 p0",
        "56 0 p1 of 0, 116 0 p1 of 0, 118 0 p0 of 1, 120 0 p1 of 2, 122 10 p0 of 3 aborted, 124 10 p0 of 3",
        position=5,
        kept_end=126,
        next_copy=4,
        now=20,
    ),
    "second copies alone by the standby's own times, before an open record": _one(
        "2 0 r2, 3 0 r3, 4 0 r4, 5 20 r5, 6 60 r6, 7 80 r7, 8 50 r8, 9 110 r9, 26 130 r26",
        "0 10 r2 of 2, 1 30 r3 of 3, 2 30 r4 of 4, 3 40 r5 of 5, 4 70 r6 of 6, 5 90 r7 of 7, 6 100 r8 of 8, "
        "7 120 r9 of 9, 8 140 r26 of 26, 9 160 r2 of 2, 10 160 r3 of 3, 11 160 r4 of 4, 12 160 r5 of 5, "
        "13 160 r6 of 6, 14 160 r7 of 7, 15 160 r8 of 8, 16 160 r9 of 9, 17 160 r26 of 26 open",
        position=15,
        written_end=33,
        kept_begin=9,
        stable=17,
        now=150,
        committed=True,
        append_time=True,
    ),
    "the last ones left out, and unread ones that look like some sent again": _one(
        "0 10 p1, 1 20 p0, 2 0 p1, 3 30 p1, 4 40 p0, 5 0 p1, 6 0 p1, 7 0 p0, 8 0 p1, 9 0 p0",
        "0 0 p1 of 2, 1 40 p0 of 4, 2 0 p1 of 5, 3 0 p1 of 6, 4 0 p1 of 8, 5 0 p0 of 9",
        position=8,
        filtered=(0, 1, 3, 7),
        now=50,
    ),
    "the last one left out, and unread ones like it, as all that was read shows": _last_left_out(before=0),
    "the last one left out, and unread ones like it and like the first ones": _last_left_out(before=60),
    "a compacted log that holds one like a remembered one, all of one content": _one(
        "211 4830 p0, 214 2870 p0, 217 2920 p0, 230 5040 p0, 233 3050 p0, 234 3060 p0, 350 6730 p0, 351 4740 p0, "
        "352 6740 p0, 353 4750 p0, 354 6780 p0, 355 4790 p0, 356 4820 p0, 357 4830 p0",
        "0 4830 p0 of 211, 1 2870 p0 of 214, 2 2920 p0 of 217, 3 5040 p0 of 230, 4 3050 p0 of 233, 5 3060 p0 of 234",
        position=372,
        written_end=372,
        ring_at=368,
        remembered=((350, 368),),
        compacted=True,
        now=7000,
    ),
    "a stale begin before copies of older records that were sent again": _one(
        _old(66),
        _copies(*range(66), *range(42)),
        position=60,
        remembered=((42, 60),),
        kept_begin=66,
        next_copy=42,
        sample=Sample(end=66, at=800),
        now=1000,
        lie=Lie("stale-begin", amount=100),
    ),
    "a late record behind a few, and the two before it left out": _one(
        "0 10 r0, 1 20 r1, 2 30 r2, 3 40 r3, 4 25 r4",
        "0 10 r0 of 0, 1 20 r1 of 1, 2 25 r4 of 4",
        position=2,
        filtered=(2, 3),
        sample=Sample(end=4, at=45),
        now=50,
    ),
    "an aborted record right before the position, and no copy of those behind it": _one(
        f"{_old(10)}, 10 100 a aborted, 12 120 r12, 13 130 r13, 14 140 r14",
        f"{_copies(*range(10))}, 10 100 a of 10",
        position=12,
        next_copy=11,
        sample=Sample(end=15, at=150),
        committed=True,
        now=200,
    ),
    "a compacted log with two older records again, one without its first copy": _one(
        _old(30),
        _copies(*range(30), 0, 1).replace("r1 of 1,", "r1 of 1 gone,", 1),
        position=30,
        next_copy=2,
        remembered=((10, 30),),
        compacted=True,
        now=400,
    ),
    "a time that no record is said to have, where the query goes by time alone": _by_time_alone(),
    "one of a few equal last ones again, and one from before them": _one(
        "0 0 p0, 1 10 p0, 2 20 p0, 3 20 p0, 4 20 p0",
        "0 0 p0 of 0, 1 0 p0 of 0, 2 10 p0 of 1, 3 20 p0 of 2, 4 20 p0 of 2, 5 20 p0 of 3",
        position=5,
        next_copy=4,
        remembered=((1, 5),),
        now=30,
    ),
    "the first of two equal last ones again, behind the only one that came of those before": _one(
        "0 2000 p0, 1 2000 p0, 2 0 p0, 3 0 p0",
        "0 2000 p0 of 1, 1 0 p0 of 2, 2 0 p0 of 2, 3 1000 x0",
        position=4,
        next_copy=3,
        now=3000,
    ),
    "the first of two equal last ones again, and a record from before them": _equal_last(0, since=0),
    "the first of two equal last ones again, and one long before them": _equal_last(0, since=30),
    "the first of two equal last ones again, and a remembered one, with markers": _equal_last(23, since=10, step=2),
    "the first of two equal last ones again, and an older one, with markers": _equal_last(34, since=36, step=2),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_that_was_found_once_stays_mended(name: str) -> None:
    world = WORLDS[name]
    targets, found = findings(world)
    assert not dishonest(world)
    assert not found, report(world, targets, found)


ONLY_RECALLED = ("an older record again behind times that go back", "an older record again, or a late one")
"""Found by nothing but the comparison with the records right before the place."""
ONLY_IN_EXCESS = (
    "a compacted log that lost the first copy, and an unread record like it",
    "a compacted log with an older record before equal ones",
)
"""Found by nothing but the number of equal records."""


@pytest.mark.parametrize("name", [each for each in WORLDS if each not in (*ONLY_RECALLED, *ONLY_IN_EXCESS)])
def test_a_mended_world_needs_neither_of_two_later_checks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_again_scan, "_recall", lambda *_: None)
    monkeypatch.setattr(Search, "_excess", lambda *_: None)
    assert not findings(WORLDS[name])[1]
