"""One whole story on real parts: world up, queries running, load, fault, failover, verdict.

The demo tells it once to a person, the tests tell it many times to an assertion. Everything is done as a user would do
it, through the two command lines, each in a process of its own; nothing is imported from the product. A story leaves
its directory behind (logs, sinks, store), so that a verdict can be looked at again.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import yaml

Fault = Literal["kill", "freeze"]
Say = Callable[[str], None]

_GRACE_SECONDS = 30.0
_MOVED_SECONDS = 90.0


class StoryFailed(Exception):
    """A step of the story did not come to its end; the sentence names the step and the log to look at."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """What shall happen, and when."""

    fault: Fault = "kill"
    rate: int = 2000
    """Records per second."""
    calm_seconds: float = 8.0
    """Load on the primary, once all queries run, before the fault strikes."""
    decide_seconds: float = 1.0
    """From the fault to the moment the operator types the failover."""
    after_seconds: float = 4.0
    """Load on the standby after the move."""
    base_port: int = 19092
    kafka: str = "4.3.1"
    brokers: int = 1
    wait_warm: bool = True
    automatic: bool = False
    """A controller watches, and nobody types anything."""

    @classmethod
    def at_random(cls, seed: int, *, fault: Fault, base_port: int, wait_warm: bool) -> "Script":
        """A script whose moments are drawn from the seed: the fault strikes anywhere in a batch."""
        draw = random.Random(seed)
        return cls(
            fault=fault,
            calm_seconds=draw.uniform(5.0, 9.0),
            decide_seconds=draw.uniform(0.3, 4.0),
            base_port=base_port,
            wait_warm=wait_warm,
        )


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened."""

    script: Script
    plan: Sequence[Mapping[str, Any]]
    operations: Sequence[Mapping[str, Any]]
    """``show-op -o json`` of each query's operation."""
    verdict: Mapping[str, Mapping[str, Any]]
    """``python -m lab verify -o json``."""
    failover_exit: int
    fault_to_first_commit_seconds: Mapping[str, float | None]
    fault_to_verdict_seconds: float | None = None
    """Until the controller called the cluster DOWN, by its own record; None where none watched."""
    events: Sequence[Mapping[str, Any]] = ()
    """``history -o json`` from the fault on, oldest first."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long the parts of the story took."""

    def operation(self, query: str) -> Mapping[str, Any]:
        """The operation that moved a query."""
        return next(operation for operation in self.operations if operation["query"] == query)


class Stage:
    """A world's directory with the processes that the story started in it."""

    def __init__(self, directory: Path, say: Say) -> None:
        self.directory = directory.resolve()
        self.world = self.directory / "world"
        self.config = self.world / "tideover.yaml"
        self.say = say
        self._started: list[subprocess.Popen[bytes]] = []

    def lab(self, *arguments: str, timeout: float = 300.0, check: bool = True) -> str:
        """Run a verb of the lab and return what it printed."""
        return self._run([sys.executable, "-m", "lab", *arguments, "--dir", str(self.world)], timeout, check)[1]

    def tideover(self, *arguments: str, timeout: float = 180.0, check: bool = True) -> tuple[int, str]:
        """Run a verb of the product and return its exit code and what it printed."""
        command = [sys.executable, "-m", "orchestrator", "-c", str(self.config), *arguments]
        return self._run(command, timeout, check)

    def ask(self, *arguments: str, timeout: float = 60.0) -> Any:
        """Run a verb of the product with ``-o json`` and parse its answer."""
        return json.loads(self.tideover(*arguments, "-o", "json", timeout=timeout)[1])

    def start(self, name: str, *command: str, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a process in the background; its log is ``<name>.log``, and it ends with the story."""
        words = [*inside, sys.executable, "-m", *command]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, env=_environment())
        self._started.append(process)
        return process

    def start_runner(self, name: str = "a", *, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start ``tideover run``, behind the words ``inside``: a namespace of its own, say."""
        command = ("orchestrator", "-c", str(self.config), "run", "--name", name)
        return self.start(f"runner-{name}", *command, inside=inside)

    def start_controller(self, name: str = "one") -> subprocess.Popen[bytes]:
        """Start ``tideover control``."""
        return self.start(f"controller-{name}", "orchestrator", "-c", str(self.config), "control", "--name", name)

    def start_traffic(self, cluster: str, rate: int, seconds: float) -> subprocess.Popen[bytes]:
        """Start producers against one cluster."""
        return self.start(
            f"traffic-{cluster}", "lab", "traffic", "--dir", str(self.world), "--to", cluster,
            "--rate", str(rate), "--seconds", str(seconds),
        )  # fmt: skip

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM, a grace time, then SIGKILL; the exit code."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()

    def close(self) -> None:
        """End everything that the story started, newest first."""
        for process in reversed(self._started):
            self.stop(process)
        if self.world.exists():
            self.lab("down", check=False)

    def _run(self, command: list[str], timeout: float, check: bool) -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, timeout=timeout, env=_environment(), check=False)
        with (self.directory / "commands.log").open("ab") as log:
            log.write(" ".join(command[2:]).encode() + b"\n" + done.stderr + done.stdout + b"\n")
        if check and done.returncode:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise StoryFailed(f"{' '.join(command[2:5])} ended with exit code {done.returncode}: {said[-800:]}")
        return done.returncode, done.stdout.decode()


@contextmanager
def stage(directory: Path, say: Say) -> Iterator[Stage]:
    """A stage that is cleared at the end, whatever happens."""
    directory.mkdir(parents=True, exist_ok=True)
    built = Stage(directory, say)
    try:
        yield built
    finally:
        built.close()


def tell(script: Script, directory: Path, say: Say = lambda _: None) -> Story:
    """Play the script once, from an empty directory to the verdict."""
    with stage(directory, say) as on:
        watch = _Stopwatch()
        open_world(on, script)
        if script.automatic:
            allow_automatic(on.config)
        watch.mark("world_up")
        runner = on.start_runner()
        if script.automatic:
            on.start_controller()
        say("a runner with all queries of the example" + (", warmed up on the standby" if script.wait_warm else ""))
        await_running(on, runner, warm=script.wait_warm)
        traffic = on.start_traffic("east", script.rate, 600)
        await_running(on, runner, batches=3)
        if script.automatic:
            await_verdicts(on)
        watch.mark("queries_running")
        time.sleep(script.calm_seconds)
        plan = on.ask("plan", "failover", "--all", "--to", "west")
        before = max((event["sequence"] for event in on.ask("history")), default=0)
        say(f"{script.fault} east, under {script.rate:,} records/s")
        struck_at = datetime.fromisoformat(on.lab(script.fault, "east").strip()).timestamp()
        watch.mark("struck")
        code, identities = (_watch_it if script.automatic else _type_it)(on, script, struck_at)
        watch.mark("failover")
        on.stop(traffic)
        after = on.start_traffic("west", script.rate, script.after_seconds)
        after.wait(script.after_seconds + _GRACE_SECONDS)
        verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
        watch.mark("verdict")
        operations = [on.ask("show-op", identity) for identity in identities]
        events = [event for event in on.ask("history", "--limit", "1000") if event["sequence"] > before]
        on.stop(runner)
        return Story(
            script=script,
            plan=plan,
            operations=operations,
            verdict=verdict,
            failover_exit=code,
            fault_to_first_commit_seconds={op["query"]: first_commit_after(op, struck_at) for op in operations},
            fault_to_verdict_seconds=verdict_after(events, struck_at),
            events=events,
            seconds=watch.seconds,
        )


def _type_it(on: Stage, script: Script, struck_at: float) -> tuple[int, list[str]]:
    """An operator types the failover, some time after the fault; its exit code and operations."""
    time.sleep(max(0.0, struck_at + script.decide_seconds - time.time()))
    on.say("tideover failover --all --to west --yes")
    code, printed = on.tideover(
        "failover", "--all", "--to", "west", "--yes", "--reason", f"rehearsal: {script.fault}", "-o", "json",
        check=False,
    )  # fmt: skip
    rows = json.loads(printed)
    return code, [row["id"] for row in (rows if isinstance(rows, list) else [rows])]


def _watch_it(on: Stage, _: Script, struck_at: float) -> tuple[int, list[str]]:
    """Nobody types anything: wait until every query has left, each by one operation."""
    on.say("nobody types anything; the controller watches")
    while time.time() < struck_at + _MOVED_SECONDS:
        rows = on.ask("list")
        if all(row["cluster"] == "west" and row["operation"] is None for row in rows):
            held = {event["query"]: event["operation"] for event in on.ask("history") if event["kind"] == "hold"}
            return 0, [held[row["query"]] for row in rows]
        time.sleep(0.5)
    raise StoryFailed(f"not every query was moved within {_MOVED_SECONDS:g} s: see controller-one.log")


def allow_automatic(config: Path) -> None:
    """Let the configuration's policy move queries by itself."""
    declared = yaml.safe_load(config.read_text(encoding="utf-8"))
    declared["policy"] = {"automatic": True}
    config.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")


def await_verdicts(on: Stage, timeout: float = 60.0) -> None:
    """Wait until the controller has given a verdict on both clusters."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        told = {event["text"].partition(" is ")[0] for event in on.ask("history") if event["kind"] == "verdict"}
        if {"east", "west"} <= told:
            return
        time.sleep(1.0)
    raise StoryFailed(f"the controller gave no verdict within {timeout:g} s: see controller-one.log")


def open_world(on: Stage, script: Script) -> None:
    """Bring up two clusters and the replicator."""
    on.say(f"two Kafka {script.kafka} clusters and MirrorMaker 2")
    on.lab(
        "up", "--kafka", script.kafka, "--brokers", str(script.brokers), "--base-port", str(script.base_port),
        timeout=900,
    )  # fmt: skip


def await_running(
    on: Stage, runner: subprocess.Popen[bytes], *, batches: int = 0, warm: bool = False, timeout: float = 300.0
) -> None:
    """Wait until every query runs and has committed so many batches, and the runner has warmed up if that is wanted."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if runner.poll() is not None:
            raise StoryFailed(f"the runner ended with exit code {runner.returncode}: see runner-a.log")
        rows = on.ask("list") if (on.world / "tideover.yaml").exists() else []
        running = [row for row in rows if row["state"] == "running" and _committed(row) >= batches]
        if rows and len(running) == len(rows) and (not warm or is_warm(on, rows[0]["query"])):
            return
        time.sleep(2.0)  # each look is a process of its own
    raise StoryFailed(f"not every query ran within {timeout:g} s: see runner-a.log")


def _committed(row: Mapping[str, Any]) -> int:
    """How many batches a query has committed; they are numbered from 0."""
    return 0 if row["batch"] is None else int(row["batch"]) + 1


def is_warm(on: Stage, query: str) -> bool:
    """Whether the runner of a query says that it is warmed up."""
    return bool(on.ask("show", query)["runner"]["warm"])


def first_commit_after(operation: Mapping[str, Any], struck_at: float) -> float | None:
    """Seconds from the fault to the first batch that the standby committed, by the operation's own record."""
    at = operation["measured"].get("first_commit_at")
    if at is None:
        return None
    return datetime.fromisoformat(at).timestamp() - struck_at


def verdict_after(events: Sequence[Mapping[str, Any]], struck_at: float) -> float | None:
    """Seconds from the fault to the verdict DOWN on the primary, by the history."""
    for event in events:
        if event["kind"] == "verdict" and event["text"].startswith("east is DOWN"):
            return datetime.fromisoformat(event["at"]).timestamp() - struck_at
    return None


def _environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def mark(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._last, 2)
        self._last = now
