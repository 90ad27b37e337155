"""Where a test run plays: a world's directory, with the processes that were started in it.

Everything is done as a user would do it, through the two command lines, each in a process of its own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.errors import ERROR
from lab.runner_log import STARTED, WARM, RunnerLog, in_words

Say = Callable[[str], None]

GRACE_SECONDS = 30.0
_GLANCE_SECONDS = 0.2
"""Between two readings of a log."""
_LOOK_SECONDS, _RARE_SECONDS = 3.0, 20.0
"""Between two looks by a command: for what no log says, and where it says when it is time to look."""


class ScenarioFailed(Exception):
    """A step of the run did not come to its end; the sentence names the step and the log to look at."""


class TooSlow(ScenarioFailed):
    """The machine does not keep up with the load: a failover would be refused, or the replicator falls behind."""


class Stage:
    """A world's directory with the processes that the run started in it."""

    def __init__(self, directory: Path, say: Say) -> None:
        self.directory = directory.resolve()
        self.world = self.directory / "world"
        self.config = self.world / "tideover.yaml"
        self.say = say
        self.environment: dict[str, str] = {}
        """What its processes get beside our own."""
        self._started: list[subprocess.Popen[bytes]] = []
        self._logs: dict[int, RunnerLog] = {}

    def lab(self, *arguments: str, timeout: float = 300.0, check: bool = True) -> str:
        """Run a verb of the lab and return what it printed."""
        return self._run([sys.executable, "-m", "lab", *arguments, "--dir", str(self.world)], timeout, check)[1]

    def tideover(self, *arguments: str, timeout: float = 180.0, check: bool = True) -> tuple[int, str]:
        """Run a verb of the product and return its exit code and what it printed."""
        command = [sys.executable, "-m", "orchestrator", "-c", str(self.config), *arguments]
        return self._run(command, timeout, check)

    def query(self, *arguments: str, timeout: float = 60.0) -> Any:
        """Run a verb of the product with ``-o json`` and parse its answer."""
        return json.loads(self.tideover(*arguments, "-o", "json", timeout=timeout)[1])

    def move(self, *arguments: str) -> tuple[int, list[str]]:
        """Type a verb that moves queries; its exit code and the ids of the operations."""
        code, printed = self.tideover(*arguments, "--yes", "-o", "json", check=False)
        rows = json.loads(printed)
        return code, [row["id"] for row in (rows if isinstance(rows, list) else [rows])]

    def start(self, name: str, *command: str, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a module of Python in the background; its log is ``<name>.log``, and it ends with the run."""
        return self.launch(name, *inside, sys.executable, "-m", *command)

    def launch(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start any program in the background, as ``start`` does for one of Python."""
        path = self.directory / f"{name}.log"
        said = RunnerLog(path)
        with path.open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, env=self._environment())
        self._started.append(process)
        self._logs[process.pid] = said
        return process

    def start_runner(self, name: str = "a", *, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start ``tideover run``, behind the words ``inside``: a namespace of its own, say."""
        command = ("orchestrator", "-c", str(self.config), "run", "--name", name)
        return self.start(f"runner-{name}", *command, inside=inside)

    def hear(self, runner: subprocess.Popen[bytes]) -> set[str]:
        """What a runner's log has said since the last time, by name; what matters to a person is printed."""
        news = self.log_of(runner).news()
        for text in in_words(news):
            self.say(text)
        return {entry.event for entry in news}

    def log_of(self, runner: subprocess.Popen[bytes]) -> RunnerLog:
        """The log of a process that was started here, as far as it was heard."""
        return self._logs[runner.pid]

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
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()

    def close(self) -> None:
        """End everything that the run started, newest first."""
        for process in reversed(self._started):
            self.stop(process)
        if self.world.exists():
            self.lab("down", "--now", check=False)

    def _run(self, command: list[str], timeout: float, check: bool) -> tuple[int, str]:
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, env=self._environment(), check=False)
        except subprocess.TimeoutExpired as error:
            raise ScenarioFailed(f"{' '.join(command[2:5])} did not end within {timeout:g} s") from error
        with (self.directory / "commands.log").open("ab") as log:
            log.write(" ".join(command[2:]).encode() + b"\n" + done.stderr + done.stdout + b"\n")
        if check and done.returncode:
            said = reason_in((done.stderr or done.stdout).decode(errors="replace"))
            raise ScenarioFailed(f"{' '.join(command[2:5])} ended with exit code {done.returncode}: {said}")
        return done.returncode, done.stdout.decode()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1", **self.environment}


def reason_in(printed: str) -> str:
    """The line of what a verb printed that says why it failed: the lab marks it, else it is the last one."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    marked = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    return (marked or lines or ["it printed nothing"])[-1]


@contextmanager
def stage(directory: Path, say: Say) -> Iterator[Stage]:
    """A stage that is cleared at the end, whatever happens."""
    directory.mkdir(parents=True, exist_ok=True)
    built = Stage(directory, say)
    try:
        yield built
    finally:
        built.close()


def await_running(
    on: Stage, runner: subprocess.Popen[bytes], *, batches: int = 0, warm: bool = False, timeout: float = 300.0
) -> None:
    """Wait until every query runs and has committed ``batches``, and the runner has warmed up if that is wanted."""
    deadline = time.monotonic() + timeout
    log, wanted = on.log_of(runner), WARM if warm else STARTED
    look_at = time.monotonic() + (_LOOK_SECONDS if wanted in log.said else _RARE_SECONDS)
    while time.monotonic() < deadline:
        if runner.poll() is not None:
            raise ScenarioFailed(f"the runner ended with exit code {runner.returncode}: see {log.path.name}")
        if wanted in on.hear(runner) or time.monotonic() >= look_at:
            rows = on.query("list")
            is_running = bool(rows) and all(row["state"] == "running" for row in rows)
            is_ready = is_running and (not warm or WARM in log.said)
            if is_ready and all(_committed(row) >= batches for row in rows):
                return
            look_at = time.monotonic() + (_LOOK_SECONDS if is_ready else _RARE_SECONDS)
        time.sleep(_GLANCE_SECONDS)
    raise ScenarioFailed(f"not every query ran within {timeout:g} s: see {log.path.name}")


def await_spare(on: Stage, process: subprocess.Popen[bytes], name: str, *, warm: bool, timeout: float = 180.0) -> None:
    """Wait until a runner stands by for every query, warmed up if that is wanted."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ScenarioFailed(f"the runner ended with exit code {process.returncode}: see runner-{name}.log")
        runners = on.query("show", on.query("list")[0]["query"])["runners"]
        if any(each["runner"] == name and (each["warm"] or not warm) for each in runners):
            return
        time.sleep(2.0)
    raise ScenarioFailed(f"runner {name} did not stand by within {timeout:g} s: see runner-{name}.log")


def await_batches(on: Stage, queries: Collection[str], *, more: int, timeout: float = 120.0) -> None:
    """Wait until each of these queries has committed this many more batches; who has not is named with its state."""
    before: dict[str, int] = {}
    late: list[str] = list(queries)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        rows = {row["query"]: row for row in on.query("list") if row["query"] in queries}
        before = before or {name: _committed(row) for name, row in rows.items()}
        since = {name: _committed(row) - before[name] for name, row in rows.items()}
        late = [f"{name} ({rows[name]['state']}) {since[name]}" for name in queries if since[name] < more]
        if not late:
            return
        time.sleep(1.0)
    raise ScenarioFailed(f"of {more} more batches within {timeout:g} s committed: {', '.join(late)}; see runner-a.log")


def _committed(row: Mapping[str, Any]) -> int:
    """How many batches a query has committed; they are numbered from 0."""
    return 0 if row["batch"] is None else int(row["batch"]) + 1


def await_verdicts(on: Stage, timeout: float = 60.0) -> None:
    """Wait until the controller has given a verdict on both clusters."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        reported = {event["text"].partition(" is ")[0] for event in on.query("history") if event["kind"] == "verdict"}
        if {"east", "west"} <= reported:
            return
        time.sleep(1.0)
    raise ScenarioFailed(f"the controller gave no verdict within {timeout:g} s: see controller-one.log")
