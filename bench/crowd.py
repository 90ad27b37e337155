"""Twenty-five light queries in one driver that leave a dead cluster at once, by one command.

One world of two clusters, MirrorMaker 2 and load, and one runner, warmed up, with 25 queries that read the same topic
and keep nothing. First all of them are restarted the plain way (``bench.restarting_runner``): from the first ``stop()``
to the first batch with data of each, on the living cluster. Then the primary is killed, and a second later
``tideover failover --all`` is typed: from the first operation's record to the first batch that each committed on the
standby. A query that was not moved, or not to an exact place, fails the measurement.
"""

import time
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.demanding import Sources, nowhere
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from bench.switchover import Places, await_more, moved, restart, run_restartable
from lab.configuration import changing
from lab.scenario import Script, open_world
from lab.stage import stage

NAME = "crowd"
QUERIES = tuple(f"light-{number:02}" for number in range(1, 26))
TIMES = 1.25
"""To reach, of Spark's own restart of all."""
RATE = 500
_DEAD_SECONDS = 1.0
_TRIGGER = "2s"
_SLOTS = 2 * 4 * len(QUERIES)
"""Two for every partition of every query: what waits for a dead cluster holds its own."""


def light(sources: Sources, _: Mapping[str, object]) -> DataStreamWriter:
    """Read the orders of one topic, and keep nothing of them."""
    return nowhere(sources["orders"].select("timestamp", "value"))


def measure(setting: Setting) -> list[Row]:
    """One crowd, moved once. Raises BenchError."""
    with stage(setting.directory, setting.say) as on:
        open_world(on, Script(base_port=setting.base_port))
        opened = run_restartable(on, declare(on.config), rate=RATE)
        setting.say("all run: restarted the plain way")
        restarts = restart(on, opened.places)
        await_more(on, opened.places)
        setting.say("the primary is killed")
        on.lab("kill", "east")
        time.sleep(_DEAD_SECONDS)
        switches = _taken(moved(on, opened.places, "failover", "--all", "--to", "west").values())
        on.stop(opened.traffic)
        on.stop(opened.runner)
    beside = Spread.of(restarts)
    return [
        Row(
            measurement=NAME, what=f"{len(QUERIES)} queries of one driver: decision to the first commit of each",
            unit="s", ours=Spread.of(switches), limit=multiple(TIMES, beside),
            others=(Other(name="stop() and start() of all of them", spread=beside),),
            note=(
                f"The primary is killed, and one command moves all. {RATE:,} records/s, a batch every {_TRIGGER}."
                f" Reach: {TIMES:g} times Spark's own restart of all, one after the other."
            ),
        )
    ]  # fmt: skip


def declare(config: Path) -> Places:
    """Have these queries in the configuration instead of the examples; where their checkpoints begin."""
    checkpoints = {name: config.parent / "checkpoints" / name for name in QUERIES}
    with changing(config) as declared:
        light = {**declared["queries"]["archive"], "pipeline": "bench.crowd:light", "settings": {}, "trigger": _TRIGGER}
        declared["queries"] = {name: {**light, "checkpoint": str(path)} for name, path in checkpoints.items()}
        spark = declared["spark"]
        spark["master"], spark["conf"]["spark.kafka.consumer.cache.capacity"] = f"local[{_SLOTS}]", _SLOTS
    return checkpoints


def _taken(operations: Collection[Mapping[str, Any]]) -> list[float]:
    """Of each query, the seconds from the first decision to its first commit on the standby. Raises BenchError."""
    inexact = [
        each["query"] for each in operations if each["measured"]["first_commit_at"] is None or not is_exact(each)
    ]
    if inexact:
        raise BenchError(f"{len(inexact)} queries did not resume at exact offsets, first {inexact[0]}")
    decided = min(datetime.fromisoformat(each["started_at"]) for each in operations)
    return [
        (datetime.fromisoformat(each["measured"]["first_commit_at"]) - decided).total_seconds() for each in operations
    ]


def is_exact(operation: Mapping[str, Any]) -> bool:
    """Whether the query resumed at offsets found by content, and reads nothing twice."""
    plan = operation["plan"]
    return plan["totals"]["replay_records"] == 0 and all(row["method"] == "exact" for row in plan["partitions"])
