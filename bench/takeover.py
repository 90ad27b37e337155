"""From the death of the active runner and its cluster to the first batch that another runner commits on the standby.

One world of two clusters, MirrorMaker 2 and load; a round for each sample, each with a configuration, a store and
checkpoints of its own. Runner ``a`` hosts two queries of the same kind, and runner ``b`` stands by, warmed up. The
primary and ``a`` are killed, and after a second ``b``'s query is failed over: the warm figure. Then ``b`` is ended,
runner ``c`` is started for the other query, and that is failed over as soon as ``c`` is up: the cold figure. At last
the naive way is taken: a new driver, as in the measurement *switch*. Then the primary is started again.

Warm, from the decision: the operation's record to the commit. It holds the proof that ``a`` and its JVM are gone. A
runner that died a second ago still passes for a living one where no process has seen that it is dead. Warm, from the
kill: the same, and the second that passes before the decision. Cold and naive, from the start of the new process: there
was no detection and no decision. No round is begun late, so that all of it stays within minutes.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from subprocess import Popen
from typing import Any

import yaml

from bench.baseline_restart import WHAT, restart
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread
from bench.setting import Setting
from lab.configuration import declaration
from lab.runner_log import UP, WARM
from lab.scenario import Script, open_world
from lab.stage import Stage, stage

NAME = "takeover"
WARM_SECONDS = 2.5
QUERY = "revenue"
RATE = 2000
LATEST_BEGIN_SECONDS = 170.0
"""A round takes a minute: one that would begin later is left out."""
_WARM, _COLD = "guarded", "unguarded"
"""The queries: ``b`` stands by for the first, and no runner for the second."""
_BATCHES = 10
_DECIDE_SECONDS = 1.0
_RUNNING_SECONDS = 150.0
_UP_SECONDS = 120.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class TakenOver:
    """One query that another runner took over; seconds to its first commit with data on the standby."""

    decided: float
    """From the operation's record."""
    killed: float
    """From the kill of the primary."""
    started: float
    """From the start of the runner that took over, or of the command where it was there already."""


def measure(setting: Setting) -> list[Row]:
    """Take three samples of each kind, or as many as are requested, or as there is time for."""
    began, runs = time.monotonic(), setting.count(3)
    warm: list[TakenOver] = []
    cold: list[TakenOver] = []
    naive: list[float] = []
    with stage(setting.directory, setting.say) as on:
        open_world(on, Script(base_port=setting.base_port))
        declared = declaration(on.config)
        for number in range(runs):
            if not may_begin(number, time.monotonic() - began):
                setting.say(f"{runs - number} rounds left out: {LATEST_BEGIN_SECONDS:g} s are over")
                break
            setting.say(f"round {number + 1} of {runs}")
            _play(on, declared, number, warm, cold, naive)
    return rows(warm, cold, naive)


def may_begin(number: int, seconds: float) -> bool:
    """Whether a round may still begin; the first always."""
    return number == 0 or seconds <= LATEST_BEGIN_SECONDS


def configuration(declared: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The world's configuration for one round: two queries, three runners, and all that is kept in ``folder``."""

    def query(name: str, *runners: str) -> dict[str, Any]:
        given = declared["queries"][QUERY]
        return {
            **given,
            "runners": list(runners),
            "checkpoint": str(folder / "checkpoints" / name),
            "settings": {**given["settings"], "sink": str(folder / f"{name}.db")},
            "sources": {key: {**source, "starting": "latest"} for key, source in given["sources"].items()},
        }

    return {
        **declared,
        "store": f"sqlite:///{folder / 'tideover.db'}",
        "runners": {name: {"site": "bench"} for name in "abc"},
        "queries": {_WARM: query(_WARM, "a", "b"), _COLD: query(_COLD, "a", "c")},
    }


def taken_over(operation: Mapping[str, Any], *, struck_at: float, started_at: float) -> TakenOver:
    """The figures of one operation, by its own record. Raises BenchError when it moved nothing."""
    seconds = operation["measured"].get("switch_seconds")
    if seconds is None:
        raise BenchError(f"{operation['query']} was not taken over: {operation['outcome']}, {operation['sentence']}")
    committed_at = datetime.fromisoformat(operation["started_at"]).timestamp() + seconds
    return TakenOver(decided=seconds, killed=committed_at - struck_at, started=committed_at - started_at)


def rows(warm: Sequence[TakenOver], cold: Sequence[TakenOver], naive: Sequence[float]) -> list[Row]:
    """The measurement as lines of the report."""
    beside = (
        Other(name="runner started at that moment, state kept", spread=Spread.of(each.started for each in cold)),
        Other(name=WHAT, spread=Spread.of(naive)),
    )
    note = (
        "The runner and its cluster are killed. Warm: another runner stands by on the same host; what it takes to see "
        "that the first is gone is in the figure. Beside it: from the start of the new process, and of nothing before."
    )
    lines = (
        ("decision to first committed batch", WARM_SECONDS, [each.decided for each in warm]),
        ("the same, typed", None, [each.started for each in warm]),
        ("kill to first committed batch, decided after 1 s", None, [each.killed for each in warm]),
    )
    return [
        Row(
            measurement=NAME, what=f"warm standby runner: {what}", unit="s", ours=Spread.of(samples), limit=limit,
            others=beside, note=note,
        )
        for what, limit, samples in lines
    ]  # fmt: skip


def _play(
    on: Stage,
    declared: Mapping[str, Any],
    number: int,
    warm: list[TakenOver],
    cold: list[TakenOver],
    naive: list[float],
) -> None:
    folder = on.directory / f"round-{number}"
    folder.mkdir()
    on.config = folder / "tideover.yaml"
    on.config.write_text(yaml.safe_dump(configuration(declared, folder), sort_keys=False), encoding="utf-8")
    active = _start(on, "bench.cold_runner", "a")  # it is never switched to: its warm-up would only cost time
    standby = _start(on, "orchestrator", "b")
    traffic = on.start_traffic("east", RATE, 600)
    _await_ready(on, active, standby)
    struck_at = datetime.fromisoformat(on.lab("kill", "east").strip()).timestamp()
    active.kill()
    time.sleep(max(0.0, struck_at + _DECIDE_SECONDS - time.time()))
    typed_at = time.time()
    warm.append(taken_over(_fail_over(on, _WARM), struck_at=struck_at, started_at=typed_at))
    on.say(f"warm: {warm[-1]}")
    for process in (traffic, standby):
        on.stop(process)
    started_at = time.time()
    successor = _start(on, "orchestrator", "c")
    _await_event(on, successor, UP, _UP_SECONDS)
    cold.append(taken_over(_fail_over(on, _COLD), struck_at=struck_at, started_at=started_at))
    on.say(f"cold: {cold[-1]}")
    on.stop(successor)
    naive.append(restart(on, _WARM, struck_at))
    on.say(f"naive: {naive[-1]:.1f} s")
    on.lab("start", "east")


def _start(on: Stage, program: str, name: str) -> "Popen[bytes]":
    return on.start(
        f"{on.config.parent.name}-runner-{name}", program, "-c", str(on.config), "run", "--name", name
    )  # fmt: skip


def _await_ready(on: Stage, active: "Popen[bytes]", standby: "Popen[bytes]") -> None:
    """Until both queries have committed their batches, the standby runner is warm, and both may be moved."""
    _await_event(on, standby, WARM, _RUNNING_SECONDS)
    deadline = time.monotonic() + _RUNNING_SECONDS
    while time.monotonic() < deadline:
        if active.poll() is not None:
            raise BenchError(f"runner a ended with exit code {active.returncode}: see {on.log_of(active).path.name}")
        if all(row["state"] == "running" and (row["batch"] or 0) >= _BATCHES for row in on.query("list")):
            code, _ = on.tideover("plan", "failover", "--all", "--to", "west", check=False)
            if code == 0:
                return
        time.sleep(1.0)  # each look is a process of its own
    raise BenchError(f"the queries could not be moved within {_RUNNING_SECONDS:g} s: see {on.directory}")


def _await_event(on: Stage, process: "Popen[bytes]", event: str, seconds: float) -> None:
    """Until the log of a runner says so: a command would take a process, which costs what is measured."""
    deadline = time.monotonic() + seconds
    while event not in on.hear(process):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"a runner did not say {event!r} within {seconds:g} s: see {on.log_of(process).path}")
        time.sleep(_LOOK_SECONDS)


def _fail_over(on: Stage, query: str) -> Mapping[str, Any]:
    _, printed = on.tideover("failover", query, "--to", "west", "--yes", "--reason", "bench", "-o", "json", check=False)
    answer = json.loads(printed)
    moved = answer[0] if isinstance(answer, list) else answer
    found: Mapping[str, Any] = on.query("show-op", moved["id"]) if "id" in moved else {}
    if not found:
        raise BenchError(f"{query} was not moved: {printed[-500:]}")
    return found
