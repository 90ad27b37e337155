"""The pause of a query in a switchover, with little state and with gigabytes of it.

For each kind of state, and for ``switch`` and ``carry``, there is a world of its own. The first records make state of
the size wanted (``bench.widening``), the others touch little of it. When the query has caught up, rounds of a plain
restart and a switchover follow, as in ``bench.switchover``, each the other way.

A restart, by Spark or by ``carry``, loads the state from the checkpoint; a run that continues has it. So the pause of
``switch`` is held against the one with little state, and that of ``carry`` against Spark's own restart.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.light import ROCKSDB
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from bench.switchover import Declared, Opened, Taken, await_until, commits, open_restartable, play
from bench.widening import ROW_BYTES, ROWS_EACH
from lab import ledger
from lab.stage import Stage, stage
from lab.world import TOPIC
from streaming.spark.checkpoint.log_text import parse_offset_entry

NAME = "state"
QUERY = "revenue"
ROUNDS = 4
RATE = 250
TIMES = 1.2
"""The pause of a run that continues may be this many times the one with little state."""
TIMES_RESTART = 1.5
_AT_ONCE = 1000
"""Records of a batch, so that the state is made in several."""
_BEHIND_SECONDS = 3.0
_FILL_SECONDS = 900.0
"""The first batches make state as well: those of 5 GB take long."""
_STORE = "spark.sql.streaming.stateStore"
_ROOM = {"spark.sql.streaming.minBatchesToRetain": "2", f"{_STORE}.maintenanceInterval": "10s"}
"""While the state is made RocksDB writes it several times over, and Spark would keep the files of a hundred batches."""


@dataclass(frozen=True)
class Kind:
    """State of one size in one kind of store."""

    what: str
    megabytes: int
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the query."""
    memory: str = "2g"
    """Of the driver, which holds all of what is HDFS-backed."""

    @property
    def records(self) -> int:
        """That make it."""
        return self.megabytes * 1_000_000 // (ROW_BYTES * ROWS_EACH)


IN_ROCKSDB = (Kind("5 MB in RocksDB", 5, ROCKSDB), Kind("5 GB in RocksDB", 5000, ROCKSDB))
HDFS_BACKED = (Kind("5 MB, HDFS-backed", 5, memory="8g"), Kind("1 GB, HDFS-backed", 1000, memory="8g"))
RESUMES = ("switch", "carry")


def measure(setting: Setting) -> list[Row]:
    """Of each kind of state. Raises BenchError."""
    return [
        row
        for little, much in (IN_ROCKSDB, HDFS_BACKED)
        for resume in RESUMES
        for row in rows(resume, little.what, _play(setting, little, resume), much.what, _play(setting, much, resume))
    ]


def rows(resume: str, little: str, with_little: Taken, much: str, with_much: Taken) -> Sequence[Row]:
    """One way to continue, with little state and with much."""
    times, of = (TIMES, with_little.pauses) if resume == "switch" else (TIMES_RESTART, with_much.restarts)
    return [
        _row(f"pause by {resume}, {little}", with_little, None),
        _row(f"pause by {resume}, {much}", with_much, multiple(times, Spread.of(of))),
    ]


def _row(what: str, taken: Taken, limit: float | None) -> Row:
    return Row(
        measurement=NAME, what=what, unit="s", ours=Spread.of(taken.pauses), limit=limit,
        others=(
            Other(name="stop() and start() of the same query", spread=Spread.of(taken.restarts)),
            Other(name="between two commits, when nothing is done", spread=Spread.of(taken.ordinary)),
        ),
        note=(
            "Last batch committed on the old cluster to the first with data committed on the new one, both alive, under"
            f" {RATE:,} records/s. Reach: by switch {TIMES:g} times the pause with little state; by carry"
            f" {TIMES_RESTART:g} times Spark's own restart."
        ),
    )  # fmt: skip


def _play(setting: Setting, kind: Kind, resume: str) -> Taken:
    folder = f"{resume}-{kind.what.replace(' ', '-').replace(',', '')}"
    with stage(setting.directory / folder, setting.say) as on:
        on.say(f"{kind.what}, resume: {resume}")
        opened = open_restartable(
            on, setting.base_port, (QUERY,), partial(changed, kind=kind, resume=resume),
            rate=RATE, conf={"spark.driver.memory": kind.memory, **_ROOM}, within=_FILL_SECONDS,
        )  # fmt: skip
        _await_filled(on, kind, opened)
        taken = play(on, opened, setting.count(ROUNDS), rate=RATE)
    for gigabytes in (on.world / "checkpoints", *on.world.glob("*/data")):  # of the state, and of each broker
        shutil.rmtree(gigabytes)
    return taken


def changed(query: Declared, kind: Kind, resume: str) -> Declared:
    """The query with this kind of state."""
    options = {"maxOffsetsPerTrigger": _AT_ONCE}
    sources = {name: {**source, "options": options} for name, source in query["sources"].items()}
    settings = {"fill": kind.records}
    return {
        **query, "pipeline": "bench.widening:widened", "settings": settings, "sources": sources,
        "spark": dict(kind.spark), "resume": resume, "sink": "batch-id",
    }  # fmt: skip


def _await_filled(on: Stage, kind: Kind, opened: Opened) -> None:
    """Until the state is made, and the query has read what there is but for a few seconds."""
    (place,) = opened.places.values()
    began = time.monotonic()

    def is_filled() -> bool:
        read = _read(place)
        there = ledger.count(on.world / "acked", TOPIC, "east")
        return read >= kind.records and there - read < RATE * _BEHIND_SECONDS

    await_until(on, is_filled, "the state was not made", seconds=_FILL_SECONDS)
    size = sum(path.stat().st_size for path in place.joinpath("state").rglob("*") if path.is_file())
    on.say(f"{size / 1e6:,.0f} MB in {place.name}/state after {time.monotonic() - began:.0f} s")


def _read(checkpoint: Path) -> int:
    """How many records the newest committed batch ends behind, of a query that was never moved."""
    newest = max(commits(checkpoint), default=None)
    if newest is None:
        return 0
    path = checkpoint / "offsets" / str(newest)
    (text,) = parse_offset_entry(path.read_bytes(), str(path)).sources.values()
    return sum(offset for partitions in json.loads(text or "{}").values() for offset in partitions.values())
