"""What settings of Spark cost a query with state: its own restart, and an ordinary batch.

For each set of settings a world of its own: two clusters, load, and a runner with one query with state, warmed up. The
query is restarted the plain way again and again (``bench.restarting_runner``). *Restart*: from the call of ``stop()``
to the first batch with data that is committed behind ``start()``. *Batch*: from the plan of a batch to its commit, by
the times of the files in ``offsets`` and ``commits``, while nothing is done. A checkpoint keeps most of these settings
from its first start on, so each set begins with an empty one.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.report import Other, Row
from bench.samples import Spread
from bench.setting import Setting
from bench.switchover import BATCHES, RATE, Declared, await_more, commits, open_restartable, restart
from lab.stage import stage

NAME = "light"
ROUNDS = 6
QUERY = "revenue"
_STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
_CHANGELOG = f"{_STATE}.rocksdb.changelogCheckpointing.enabled"


@dataclass(frozen=True)
class Settings:
    """What differs from what Tideover sets: settings of the session, options of the source, how the query resumes."""

    spark: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    resume: str = "auto"


_OWN_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    )
}
_BASE = {"spark.sql.shuffle.partitions": "4"}
"""What Tideover sets; a lab has fewer."""
AS_SET = "as Tideover sets it: 4 shuffle partitions, HDFS-backed state"
VARIANTS: Mapping[str, Settings] = {
    AS_SET: Settings(),
    "1 shuffle partition": Settings({"spark.sql.shuffle.partitions": "1"}),
    "20 shuffle partitions": Settings({"spark.sql.shuffle.partitions": "20"}),
    "200 shuffle partitions, Spark's default": Settings({"spark.sql.shuffle.partitions": "200"}),
    "RocksDB": Settings({**ROCKSDB, _CHANGELOG: "false"}),
    "RocksDB with changelog": Settings({**ROCKSDB, _CHANGELOG: "true"}),
    "minPartitions 16 of 4 Kafka partitions": Settings(options={"minPartitions": "16"}),
    "Spark's own source (resume: carry)": Settings(resume="carry"),
    "Spark's own source and files, no companion": Settings(_OWN_FILES, resume="carry"),
    "no batch without data": Settings({"spark.sql.streaming.noDataMicroBatches.enabled": "false"}),
}


@dataclass
class Taken:
    """What was measured with one set of settings, in seconds."""

    restarts: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)


def measure(setting: Setting) -> list[Row]:
    """Of each set of settings. Raises BenchError."""
    taken = {what: _play(setting, number, what, settings) for number, (what, settings) in enumerate(VARIANTS.items())}
    return rows(taken)


def rows(taken: Mapping[str, Taken]) -> list[Row]:
    """A restart and a batch of each set, beside those of the first one."""
    return [
        *_rows("restart", {what: each.restarts for what, each in taken.items()}, _RESTART),
        *_rows("batch", {what: each.batches for what, each in taken.items()}, _BATCH),
    ]


_RESTART = f"stop() to the first commit with data, under {RATE:,} records/s, in a JVM that is warm."
_BATCH = "From the plan of a batch to its commit, when nothing is done."


def _rows(kind: str, samples: Mapping[str, list[float]], note: str) -> list[Row]:
    first = Other(name=AS_SET, spread=Spread.of(samples[AS_SET]))
    return [
        Row(
            measurement=NAME, what=f"{kind}, {what}", unit="s", ours=Spread.of(each),
            others=() if what == AS_SET else (first,), note=note,
        )
        for what, each in samples.items()
    ]  # fmt: skip


def durations(checkpoint: Path, count: int) -> list[float]:
    """Of the newest batches that are committed, the seconds from plan to commit."""
    found = []
    for batch, at in sorted(commits(checkpoint).items())[-count:]:
        with suppress(FileNotFoundError):  # Spark keeps the last hundred
            found.append(at - (checkpoint / "offsets" / str(batch)).stat().st_mtime)
    return found


def changed(query: Declared, settings: Settings) -> Declared:
    """The query with these settings."""
    sources = {name: {**source, "options": dict(settings.options)} for name, source in query["sources"].items()}
    return {**query, "spark": {**_BASE, **settings.spark}, "resume": settings.resume, "sources": sources}


def _play(setting: Setting, number: int, what: str, settings: Settings) -> Taken:
    taken = Taken()
    with stage(setting.directory / str(number), setting.say) as on:
        opened = open_restartable(on, setting.base_port, (QUERY,), partial(changed, settings=settings))
        for _ in range(setting.count(ROUNDS)):
            taken.restarts += restart(on, opened.places)
            await_more(on, opened.places)
            taken.batches += durations(opened.places[QUERY], BATCHES - 1)
        on.say(f"{what}: restart {taken.restarts[-1]:.2f} s, batch {taken.batches[-1]:.2f} s")
        on.stop(opened.runner)
    return taken
