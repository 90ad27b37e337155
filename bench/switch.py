"""From the decision to the first batch committed on the standby: carried by a warmed and by a cold runner, and naively.

One world per sample: two clusters, MirrorMaker 2, load, and the same stateful query twice, hosted by a runner that is
warmed up and by one that never was (its first move, all classes of the move still to be loaded). The primary is
killed; both queries are failed over, one after the other, in turns which goes first. Then both runners are stopped and
the naive way is taken on the same standby: a new driver process with ``startingOffsetsByTimestamp`` from five seconds
before the kill and a new checkpoint, the same pipeline and session settings.

In our figure: hold, fence, look-up, forecast, preparing and checking the checkpoint, start, the bridge batch if there
is one, and the first batch that can hold data, to its commit. It starts when the operation is recorded; *typed* starts
half a second earlier, with the command line's own process, and so is what an operator feels. In the naive figure:
process start to commit of the first batch, and nothing of what a person does before. Not in either: noticing that the
cluster is gone. The naive driver has the machine to itself; ours shares it with the other runner. It starts without its
state, and nobody knows what it lost or repeated.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from bench.errors import BenchError
from bench.report import Other, Row
from bench.setting import Setting
from bench.spread import Spread
from lab.rehearsal import Script, Stage, open_world, stage
from lab.world import TOPIC

NAME = "switch"
WARM_SECONDS = 1.2
COLD_SECONDS = 2.0
QUERY = "revenue"
RATE = 2000
_CALM_SECONDS = 6.0
_DECIDE_SECONDS = 1.0
_GUESS_SECONDS = 5.0
_RUNNING_SECONDS = 400.0
_NAIVE_SECONDS = 120.0
_POLL_SECONDS = 0.01
_RUNNERS = {"warm": "a", "cold": "b"}


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One carried query."""

    switch: float
    """Seconds from the recorded decision to the commit."""
    typed: float
    """Seconds from the start of the command's process to the commit."""


def measure(setting: Setting) -> list[Row]:
    """Take ``setting.runs`` samples of each kind, one world for each round."""
    moves: dict[str, list[Moved]] = {kind: [] for kind in _RUNNERS}
    naive: list[float] = []
    for number in range(setting.runs):
        setting.say(f"world {number + 1} of {setting.runs}")
        with stage(setting.directory / f"world-{number}", setting.say) as on:
            for kind, moved in _carry_both(on, setting.base_port, cold_first=number % 2 == 1).items():
                moves[kind].append(moved)
            naive.append(_restart_naively(on))
    return _rows(moves, naive)


def _carry_both(on: Stage, base_port: int, *, cold_first: bool) -> Mapping[str, Moved]:
    open_world(on, Script(base_port=base_port))
    _declare_twice(on.config)
    runners = {
        "warm": on.start_runner(_RUNNERS["warm"]),
        "cold": on.start("runner-b", "bench.cold_runner", "-c", str(on.config), "run", "--name", _RUNNERS["cold"]),
    }
    traffic = on.start_traffic("east", RATE, 600)
    _await_running(on, list(runners.values()))
    time.sleep(_CALM_SECONDS)
    on.lab("kill", "east")
    (on.directory / "struck").write_text(str(time.time()), encoding="ascii")
    time.sleep(_DECIDE_SECONDS)
    moved = {kind: _fail_over(on, _query_of(kind)) for kind in sorted(_RUNNERS, reverse=not cold_first)}
    for process in (traffic, *runners.values()):
        on.stop(process)
    return moved


def _query_of(kind: str) -> str:
    return f"{QUERY}-{kind}"


def _declare_twice(config: Path) -> None:
    """Leave only the query that is measured, once for each runner, with a sink and a checkpoint of its own."""
    declared = yaml.safe_load(config.read_text(encoding="utf-8"))
    template = declared["queries"][QUERY]
    declared["queries"] = {
        _query_of(kind): {
            **template,
            "runners": [runner],
            "checkpoint": f"{template['checkpoint']}-{kind}",
            "settings": {**template["settings"], "sink": f"{template['settings']['sink']}.{kind}"},
        }
        for kind, runner in _RUNNERS.items()
    }
    declared["runners"] = {runner: {"site": "bench"} for runner in _RUNNERS.values()}
    config.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")


def _await_running(on: Stage, runners: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _RUNNING_SECONDS
    while time.monotonic() < deadline:
        for runner in runners:
            if runner.poll() is not None:
                raise BenchError(f"a runner ended with exit code {runner.returncode}: see {on.directory}")
        rows = on.ask("list")
        running = [row for row in rows if row["state"] == "running" and (row["batch"] or 0) >= 3]
        if len(running) == len(_RUNNERS) and on.ask("show", _query_of("warm"))["runner"]["warm"]:
            return
        time.sleep(0.5)
    raise BenchError(f"not both queries ran, one of them warmed up, within {_RUNNING_SECONDS:g} s: see {on.directory}")


def _fail_over(on: Stage, query: str) -> Moved:
    typed_at = time.time()
    code, printed = on.tideover("failover", query, "--to", "west", "--yes", "--reason", "bench", "-o", "json")
    told = json.loads(printed)
    identity = (told[0] if isinstance(told, list) else told)["id"]
    operation = on.ask("show-op", identity)
    seconds = operation["measured"].get("switch_seconds")
    if code or seconds is None:
        raise BenchError(f"{query} was not moved: {operation['outcome']}, see {on.directory / 'commands.log'}")
    decided_at = datetime.fromisoformat(operation["started_at"]).timestamp()
    return Moved(switch=seconds, typed=decided_at + seconds - typed_at)


def _restart_naively(on: Stage) -> float:
    """Seconds from the start of a new driver to the commit of its first batch, by the commit file's own time."""
    checkpoint = on.directory / "naive-checkpoint"
    wanted = _naive_settings(on, checkpoint)
    started_at = time.time()
    process = on.start("naive", "bench.naive", json.dumps(wanted))
    commit, deadline = checkpoint / "commits" / "0", time.monotonic() + _NAIVE_SECONDS
    while not commit.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"the naive driver committed nothing: see {on.directory / 'naive.log'}")
        time.sleep(_POLL_SECONDS)
    took = commit.stat().st_mtime - started_at
    on.stop(process)
    return took


def _naive_settings(on: Stage, checkpoint: Path) -> dict[str, Any]:
    declared = yaml.safe_load(on.config.read_text(encoding="utf-8"))
    query = declared["queries"][_query_of("warm")]
    struck_at = float((on.directory / "struck").read_text(encoding="ascii"))
    return {
        "bootstrap": declared["clusters"]["west"]["bootstrap"][0],
        "topic": TOPIC,
        "partitions": 4,
        "time_ms": int((struck_at - _GUESS_SECONDS) * 1000),
        "checkpoint": str(checkpoint),
        "pipeline": query["pipeline"],
        "settings": {**query["settings"], "sink": str(on.directory / "naive.db")},
        "conf": {**declared["spark"]["conf"], "spark.master": declared["spark"]["master"], "spark.ui.enabled": "false"},
    }


def _rows(moves: Mapping[str, list[Moved]], naive: list[float]) -> list[Row]:
    beside = Other(name="new driver, startingOffsetsByTimestamp, state lost", spread=Spread.of(naive))
    note = (
        "Ours from the recorded decision (typed: from the start of the command) to the first batch with data committed "
        "on the standby, look-up, fence and state included; naive from process start to its first commit."
    )
    rows = []
    for kind, limit in (("warm", WARM_SECONDS), ("cold", COLD_SECONDS)):
        for what, limited, samples in (
            ("decision to first committed batch", limit, [moved.switch for moved in moves[kind]]),
            ("the same, typed", None, [moved.typed for moved in moves[kind]]),
        ):
            rows.append(
                Row(
                    measurement=NAME, what=f"carry, {kind} runner: {what}", unit="s", ours=Spread.of(samples),
                    limit=limited, others=(beside,), note=note,
                )
            )  # fmt: skip
    return rows
