"""From the decision to the first batch committed on the standby: by a warmed and by a cold runner, and naively.

Four worlds per sample, each with two clusters, MirrorMaker 2, load, and one stateful query. It is hosted by a runner
that is warmed up and has run for a while, as one in service has, once by ``carry`` and twice by ``switch``. Another
one never was warmed up (its first move, all classes of the move still to be loaded): it moves by ``carry``. The
primary is killed, or frozen once with ``switch``, and the query is failed over. Then the runner is stopped and the
naive way is taken on the same standby. That is a new driver process with ``startingOffsetsByTimestamp`` from five
seconds before the kill and a new checkpoint, the same pipeline and session settings.

In our figure: hold, fence, look-up, forecast, preparing and checking the checkpoint, start, and the bridge batch if
there is one. The first batch that can hold data is in it, to its commit. It starts when the operation is recorded;
*typed* starts half a second earlier, with the command line's own process, and so is what an operator feels. In the
naive figure: process start to commit of the first batch, and nothing of what a person does before. Not in either:
noticing that the cluster is gone. The naive driver starts without its state, and what it lost or repeated is unknown.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.baseline_restart import WHAT, restart
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread
from bench.setting import Setting
from lab.configuration import changing
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage

NAME = "switch"
WARM_SECONDS = 1.2
COLD_SECONDS = 2.0
QUERY = "revenue"
RATE = 2000
_BATCHES = {"warm": 61, "kept": 61, "frozen": 61, "cold": 11}
"""Committed by the query before the primary is struck."""
_DECIDE_SECONDS, _FROZEN_SECONDS = 1.0, 3.0
"""From the fault to the command. A cluster that freezes is not called DOWN sooner, and until then tasks try again."""
_RUNNING_SECONDS = 400.0
_RUNNER = "a"
_PROGRAMS = {"warm": "orchestrator", "kept": "orchestrator", "frozen": "orchestrator", "cold": "bench.cold_runner"}
_WORDS = {
    "warm": "carry, warm runner",
    "kept": "switch, warm runner",
    "frozen": "switch, warm runner, primary frozen",
    "cold": "carry, cold runner",
}
_BY_SWITCH = {"kept", "frozen"}


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One carried query."""

    switch: float
    """Seconds from the recorded decision to the commit."""
    typed: float
    """Seconds from the start of the command's process to the commit."""


def measure(setting: Setting) -> list[Row]:
    """Take three samples of each kind, or as many as are requested, a world for each."""
    runs = setting.count(3)
    moves: dict[str, list[Moved]] = {kind: [] for kind in _PROGRAMS}
    naive: list[float] = []
    for number in range(runs):
        for kind, program in _PROGRAMS.items():
            setting.say(f"world {number + 1} of {runs}, {_WORDS[kind]}")
            with stage(setting.directory / f"{kind}-{number}", setting.say) as on:
                moves[kind].append(_move(on, setting.base_port, program, kind))
                struck_at = float((on.directory / "struck").read_text(encoding="ascii"))
                naive.append(restart(on, QUERY, struck_at))
    return _rows(moves, naive)


def _move(on: Stage, base_port: int, program: str, kind: str) -> Moved:
    open_world(on, Script(base_port=base_port))
    _declare_alone(on.config, "switch" if kind in _BY_SWITCH else "carry")
    runner = on.start("runner", program, "-c", str(on.config), "run", "--name", _RUNNER)
    traffic = on.start_traffic("east", RATE, 600)
    await_running(on, runner, batches=_BATCHES[kind], warm=kind != "cold", timeout=_RUNNING_SECONDS)
    on.lab("freeze" if kind == "frozen" else "kill", "east")
    (on.directory / "struck").write_text(str(time.time()), encoding="ascii")
    time.sleep(_FROZEN_SECONDS if kind == "frozen" else _DECIDE_SECONDS)
    moved = _fail_over(on)
    for process in (traffic, runner):
        on.stop(process)
    return moved


def _declare_alone(config: Path, resume: str) -> None:
    """Leave only the query that is measured."""
    with changing(config) as declared:
        declared["queries"] = {QUERY: {**declared["queries"][QUERY], "runners": [_RUNNER], "resume": resume}}
        declared["runners"] = {_RUNNER: {"site": "bench"}}


def _fail_over(on: Stage) -> Moved:
    typed_at = time.time()
    code, printed = on.tideover("failover", QUERY, "--to", "west", "--yes", "--reason", "bench", "-o", "json")
    answer = json.loads(printed)
    identity = (answer[0] if isinstance(answer, list) else answer)["id"]
    operation = on.query("show-op", identity)
    seconds = operation["measured"].get("switch_seconds")
    if code or seconds is None:
        raise BenchError(f"{QUERY} was not moved: {operation['outcome']}, see {on.directory / 'commands.log'}")
    decided_at = datetime.fromisoformat(operation["started_at"]).timestamp()
    return Moved(switch=seconds, typed=decided_at + seconds - typed_at)


def _rows(moves: Mapping[str, list[Moved]], naive: list[float]) -> list[Row]:
    beside = Other(name=WHAT, spread=Spread.of(naive))
    note = (
        "Ours from the recorded decision (typed: from the start of the command) to the first batch with data committed "
        "on the standby, look-up, fence and state included. Naive from process start to its first commit."
    )
    rows = []
    for kind in _PROGRAMS:
        limit = COLD_SECONDS if kind == "cold" else WARM_SECONDS
        for what, limited, samples in (
            ("decision to first committed batch", limit, [moved.switch for moved in moves[kind]]),
            ("the same, typed", None, [moved.typed for moved in moves[kind]]),
        ):
            rows.append(
                Row(
                    measurement=NAME, what=f"{_WORDS[kind]}: {what}", unit="s", ours=Spread.of(samples),
                    limit=limited, others=(beside,), note=note,
                )
            )  # fmt: skip
    return rows
