"""The naive way, timed: a new driver on the standby, from the start of its process to the commit of its first batch."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from lab.configuration import declaration
from lab.stage import Stage
from lab.world import TOPIC

WHAT = "new driver, startingOffsetsByTimestamp, state lost"
_GUESS_SECONDS = 5.0
_NAIVE_SECONDS = 120.0
_POLL_SECONDS = 0.01


def start_anew(on: Stage, query: str, struck_at: float) -> float:
    """Seconds from the start of a new driver to the commit of its first batch, by the commit file's own time."""
    folder = on.config.parent
    checkpoint = folder / "naive-checkpoint"
    wanted = naive_settings(declaration(on.config), query, folder, struck_at)
    started_at = time.time()
    process = on.start("naive", "bench.baseline_driver", json.dumps(wanted))
    commit, deadline = checkpoint / "commits" / "0", time.monotonic() + _NAIVE_SECONDS
    while not commit.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"the naive driver committed nothing: see {on.directory / 'naive.log'}")
        time.sleep(_POLL_SECONDS)
    took = commit.stat().st_mtime - started_at
    on.stop(process)
    return took


def naive_settings(configuration: Mapping[str, Any], query: str, folder: Path, struck_at: float) -> dict[str, Any]:
    """What ``bench.baseline_driver`` gets: the query as declared, from a guessed time, with nothing kept."""
    told, spark = configuration["queries"][query], configuration["spark"]
    return {
        "bootstrap": configuration["clusters"]["west"]["bootstrap"][0],
        "topic": TOPIC,
        "partitions": 4,
        "time_ms": int((struck_at - _GUESS_SECONDS) * 1000),
        "checkpoint": str(folder / "naive-checkpoint"),
        "pipeline": told["pipeline"],
        "settings": {**told["settings"], "sink": str(folder / "naive.db")},
        "conf": {**spark["conf"], "spark.master": spark["master"], "spark.ui.enabled": "false"},
    }
