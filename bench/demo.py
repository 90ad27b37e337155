"""``make demo`` from its start to the kill, beside the start of two clusters and Spark alone.

Ours is the demo as it is typed, its lines timed as they come. It plays on to its verdict, and one that does not keep
what it promises fails the measurement. The floor is all that must be there before a kill means something, with
nothing of Tideover. These are the same clusters and replicator, then a plain driver with the same queries. The load
begins as soon as each has committed its first batch, which is empty. It ends when each has committed one with data.

Both are taken twice, one after the other. First with archives of classes, as ``make test`` or ``make archives``
leaves them on a machine. Then without, as where the demo is the first command. A plain driver maps none, and its
clusters do.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.baseline_restart import await_commits
from bench.errors import BenchError
from bench.plain_driver import plain_conf
from bench.report import STEPS, Other, Row
from bench.samples import Spread
from bench.setting import Setting
from lab import archive
from lab.configuration import declaration
from lab.scenario import Script, open_world
from lab.stage import stage
from lab.world import TOPIC
from streaming import class_archive

NAME = "demo"
LIMIT_SECONDS = 40.0
SAMPLES = 3
_MODES = {"read": "with archives of classes", "off": "without archives of classes"}
_ENDS = {
    "two clusters, replicator": "runner a starts",
    "Spark session": "runner a is up",
    "start of four queries": "started on",
    "their first batch, warm-up": "warmed up",
    "load, batches, plan": "kill east",
}
"""By step, how the line begins that ends it; of several the last one does."""
_LINE = re.compile(r" *\d+\.\d s  (.*)")
_TRAFFIC_SECONDS = 120.0

Timed = Sequence[tuple[float, str]]
"""Lines of a demo, each with the seconds since its start."""


def measure(setting: Setting) -> list[Row]:
    """Three samples of each kind. Raises BenchError where a demo broke its promise."""
    archive.make(setting.say)
    runs: dict[str, list[Timed]] = {mode: [] for mode in _MODES}
    floors: dict[str, list[float]] = {mode: [] for mode in _MODES}
    for number in range(setting.count(SAMPLES)):
        for mode, words in _MODES.items():
            floors[mode].append(_take_floor(setting, f"floor-{mode}-{number}", mode))
            runs[mode].append(_play(setting, f"demo-{mode}-{number}", mode))
            struck = sum(steps(runs[mode][-1]).values())
            setting.say(f"{words}: killed after {struck:.1f} s; plain {floors[mode][-1]:.1f} s")
    return [row(words, runs[mode], floors[mode]) for mode, words in _MODES.items()]


def row(words: str, runs: Sequence[Timed], floors: Sequence[float]) -> Row:
    """One kind as a line of the report."""
    taken = [steps(lines) for lines in runs]
    return Row(
        measurement=NAME, what=f"start of the demo to the kill, {words}", unit="s",
        ours=Spread.of(sum(each.values()) for each in taken), limit=LIMIT_SECONDS,
        others=(Other(name="two clusters, MirrorMaker 2, plain driver with these queries", spread=Spread.of(floors)),),
        note=(
            "Ours has a runner, a controller with its page, the warm-up and the plan beside the floor. Both end with a"
            " batch of each query under 2,000 records/s. Nothing is fetched during that time."
        ),
        detail={STEPS: {name: statistics.median(each[name] for each in taken) for name in _ENDS}},
    )  # fmt: skip


def steps(timed: Timed) -> dict[str, float]:
    """Seconds of each step up to the kill. Raises BenchError where a line is missing."""
    found: dict[str, float] = {}
    began = 0.0
    for name, start in _ENDS.items():
        ends = [at for at, text in timed if text.startswith(start)]
        if not ends:
            raise BenchError(f"the demo did not say {start!r}")
        found[name], began = ends[-1] - began, ends[-1]
    return found


def plain_settings(configuration: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What ``bench.plain_driver`` gets: every query as declared, with a checkpoint and a sink of its own."""
    return {
        "bootstrap": configuration["clusters"]["east"]["bootstrap"][0],
        "topic": TOPIC,
        "conf": plain_conf(configuration["spark"]),
        "queries": {
            name: {
                "pipeline": declared["pipeline"],
                "settings": {**declared["settings"], "sink": str(folder / f"{name}.out")},
                "checkpoint": str(folder / "checkpoints" / name),
            }
            for name, declared in configuration["queries"].items()
        },
    }


def _play(setting: Setting, name: str, mode: str) -> Timed:
    folder = setting.directory / name
    command = [
        sys.executable, "-m", "lab.demo", "--dir", str(folder), "--base-port", str(setting.base_port),
        "--rate", str(Script().rate),
    ]  # fmt: skip
    began = time.monotonic()
    environment = {**os.environ, class_archive.SETTING: mode}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines = ((time.monotonic() - began, line) for line in process.stdout or ())  # each timed as it comes
        timed = [(at, found[1]) for at, line in lines if (found := _LINE.match(line))]
    if process.returncode:
        raise BenchError(f"the demo ended with exit code {process.returncode}: see {folder / 'summary.txt'}")
    return timed


def _take_floor(setting: Setting, name: str, mode: str) -> float:
    folder = setting.directory / name
    with stage(folder, setting.say) as on:
        on.environment[class_archive.SETTING] = mode
        began = time.time()
        open_world(on, Script(base_port=setting.base_port))
        wanted = plain_settings(declaration(on.config), on.world / "plain")
        driver = on.start("plain", "bench.plain_driver", json.dumps(wanted))
        checkpoints = [Path(query["checkpoint"]) for query in wanted["queries"].values()]
        await_commits(on, driver, checkpoints, batch=0)
        on.start_traffic("east", Script().rate, _TRAFFIC_SECONDS)
        return await_commits(on, driver, checkpoints, batch=1) - began
