"""The naive way, timed: a new driver on the standby, from the start of its process to the commit of its first batch."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any

from bench.errors import BenchError
from bench.plain_driver import plain_conf
from lab.configuration import declaration
from lab.stage import Stage
from lab.world import TOPIC

WHAT = "new driver, startingOffsetsByTimestamp, state lost"
_GUESS_SECONDS = 5.0
_NAIVE_SECONDS = 120.0
_POLL_SECONDS = 0.01


def restart(on: Stage, query: str, struck_at: float) -> float:
    """Seconds from the start of a new driver to the commit of its first batch, by the commit file's own time."""
    folder = on.config.parent
    checkpoint = folder / "naive-checkpoint"
    wanted = naive_settings(declaration(on.config), query, folder, struck_at)
    started_at = time.time()
    process = on.start("naive", "bench.baseline_driver", json.dumps(wanted))
    took = await_commits(on, process, [checkpoint], batch=0) - started_at
    on.stop(process)
    return took


def await_commits(on: Stage, driver: "Popen[bytes]", checkpoints: Sequence[Path], *, batch: int) -> float:
    """Wait until each checkpoint has a batch committed; when the last one was, by the commit file's own time.

    Raises BenchError where the driver ends before, or takes two minutes.
    """
    commits, deadline = [each / "commits" / str(batch) for each in checkpoints], time.monotonic() + _NAIVE_SECONDS
    while not all(each.exists() for each in commits):
        if driver.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"a plain driver did not commit batch {batch}: see {on.log_of(driver).path}")
        time.sleep(_POLL_SECONDS)
    return max(each.stat().st_mtime for each in commits)


def naive_settings(configuration: Mapping[str, Any], query: str, folder: Path, struck_at: float) -> dict[str, Any]:
    """What ``bench.baseline_driver`` gets: the query as declared, from a guessed time, with nothing kept."""
    reported = configuration["queries"][query]
    return {
        "bootstrap": configuration["clusters"]["west"]["bootstrap"][0],
        "topic": TOPIC,
        "partitions": 4,
        "time_ms": int((struck_at - _GUESS_SECONDS) * 1000),
        "checkpoint": str(folder / "naive-checkpoint"),
        "pipeline": reported["pipeline"],
        "settings": {**reported["settings"], "sink": str(folder / "naive.db")},
        "conf": plain_conf(configuration["spark"]),
    }
