"""Two real clusters, real runners, and the command line as operators type it; sinks that betray every mistake.

Every record is written to both clusters in the same order, behind foreign records on the second, so a query can be
moved to and fro. Each process is one that a user would start, and it can be frozen, killed and started again.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import faults
from lab.world import CLUSTERS, TOPIC, World
from state.model.entities import IntentState, Operation, Phase
from state.store.controller_store import ControllerStore
from streaming.java import java_home_binary
from tests.streams import Cluster
from tests.waiting import PROCESS_SECONDS

ROOT = Path(__file__).resolve().parents[1]
_OF_INTEREST = ("stream execution", "Executor task", "tideover")
"""By their names, the threads of a query, of its tasks, and of the companion."""


@dataclass(frozen=True)
class Said:
    """What a verb ended with."""

    code: int
    out: str
    err: str

    @property
    def operations(self) -> dict[str, Any]:
        """The operations printed by ``-o json``, by query."""
        rows = json.loads(self.out)
        return {row["query"]: row for row in (rows if isinstance(rows, list) else [rows])}


class Typed:
    """A verb that a person has typed and that is under way."""

    def __init__(self, config: Path, arguments: Sequence[str]) -> None:
        self.words = " ".join(arguments)
        command = [sys.executable, "-m", "orchestrator", "-c", str(config), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True)

    def end(self, seconds: float = 300.0) -> Said:
        """Wait for it."""
        out, err = self.process.communicate(timeout=seconds)
        return Said(self.process.returncode, out, err)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.communicate()

    def output(self) -> str:
        """How it is, for a test that has failed; it is ended to hear what it said."""
        if self.process.stderr is None or self.process.stderr.closed:
            return f"{self.words}: ended with {self.process.returncode}"
        code = self.process.poll()
        self.process.kill()
        return f"{self.words}: {'under way' if code is None else f'ended with {code}'}: {self.end().err[-2000:]}"


class Controller:
    """``tideover control``."""

    def __init__(self, config: Path, name: str) -> None:
        self._log = config.parent / f"controller-{name}.log"
        command = [sys.executable, "-m", "orchestrator", "-c", str(config), "control", "--name", name]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def is_up(self) -> bool:
        """Whether it has got through its start, for which it needs its store."""
        return "controller is up" in self.log()

    @property
    def leads(self) -> bool:
        """Whether it leads, by what it said last."""
        return leads(self.log())

    def stop(self) -> None:
        """It gives its lease back, so that the next one leads at once."""
        self.process.terminate()
        self.process.wait(PROCESS_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def leads(log: str) -> bool:
    """Whether the controller of a log leads, by what it said last."""
    said = [line for line in log.splitlines() if " leading" in line]
    return bool(said) and "no longer" not in said[-1]


class Driver:
    """``tideover run``: a runner's process and the JVM that it launched."""

    def __init__(self, config: Path, name: str) -> None:
        self.name = name
        self._ended = False
        self._log = config.parent / f"runner-{name}.log"
        command = [sys.executable, "-m", "orchestrator", "-c", str(config), "run", "--name", name]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def freeze(self) -> None:
        """SIGSTOP, the JVM included: as if the whole host was frozen; returns when every thread does.

        A signal to a process stops its threads one by one, each when it next runs: on a busy machine some run for a
        while after ``kill`` has returned.
        """
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)
            while not all(is_stopped(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
                time.sleep(0.001)

    def thaw(self) -> None:
        for pid in reversed(self._pids()):
            os.kill(pid, signal.SIGCONT)

    @property
    def has_failed(self) -> bool:
        """Whether it ended although no one ended it."""
        return not self._ended and self.process.poll() is not None

    def kill(self) -> None:
        """SIGKILL of the runner alone; its JVM is an orphan from then on."""
        self._ended = True
        self.process.kill()
        self.process.wait()

    def die(self) -> None:
        """SIGKILL, the JVM included: as if the whole host had lost its power."""
        self._ended = True
        for pid in self._pids():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self._ended = True
        if self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.kill()

    def stacks(self) -> str:
        """What the threads of its JVM do that plan, read or wait: a run that hangs says nothing of it in its log."""
        *_, jvm = self._pids()
        command = [str(java_home_binary().with_name("jstack")), str(jvm)]
        try:
            printed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return "the JVM stands still"
        busy = [each for each in printed.stdout.split("\n\n") if "org.apache" in each]  # a pool's own frames are Java's
        output = [each for each in busy if any(name in each[:80] for name in _OF_INTEREST)]
        return "\n\n".join(output) or printed.stderr

    def _pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]


@dataclass
class Scene:
    """What a test acts on; ``settings`` is the configuration file as data."""

    folder: Path
    store: ControllerStore
    settings: Mapping[str, Any]
    clusters: Mapping[str, Cluster]
    drivers: dict[str, Driver] = field(default_factory=dict)
    controllers: dict[str, Controller] = field(default_factory=dict)
    typed: list[Typed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")

    @property
    def config(self) -> Path:
        return self.folder / "tideover.yaml"

    # -- clusters --------------------------------------------------------------------------------------------------
    def make(self, *topics: str) -> None:
        for topic in topics:
            for name, cluster in self.clusters.items():
                cluster.make(topic, foreign=name != CLUSTERS[0])

    def extend(self, topic: str, end: int, *names: str) -> None:
        """Write the ids up to ``end`` that the topic lacks, to all clusters or to those named."""
        for name in names or CLUSTERS:
            self.clusters[name].extend(topic, end)

    # -- runners and operators -------------------------------------------------------------------------------------
    def run(self, name: str = "a") -> Driver:
        self.drivers[name] = Driver(self.config, name)
        return self.drivers[name]

    def control(self, name: str = "one") -> Controller:
        self.controllers[name] = Controller(self.config, name)
        return self.controllers[name]

    def type(self, *arguments: str) -> Typed:
        self.typed.append(Typed(self.config, arguments))
        return self.typed[-1]

    def failover(self, query: str, to: str, *more: str) -> Typed:
        """A person types a failover of one query, or of all by ``--all``."""
        return self.type("failover", query, "--to", to, "--yes", "-o", "json", *more)

    def close(self) -> None:
        for typed in self.typed:
            if typed.process.poll() is None:
                typed.kill()
        for controller in self.controllers.values():
            controller.kill()
        for driver in self.drivers.values():
            driver.stop()

    # -- what is known ---------------------------------------------------------------------------------------------
    def sides(self, query: str) -> tuple[str, str]:
        """Where a query is, and where it is not."""
        row = self.store.assignment(query)
        assert row is not None
        return row.cluster, next(name for name in CLUSTERS if name != row.cluster)

    def operations(self, query: str) -> list[Operation]:
        """Newest first."""
        return list(self.store.operations(query=query))

    def await_operation(self, query: str, *phases: Phase) -> Operation:
        """Wait until the query's open operation is in one of these phases."""
        found: list[Operation] = []

        def holds() -> bool:
            found[:] = self.store.operations(query=query, only_open=True, limit=1)
            return bool(found) and found[0].phase in phases

        self.until(f"{query} is in {', '.join(phases)}", holds)
        return found[0]

    def await_requested(self, query: str) -> Operation:
        """Wait until a runner got a request, which it has not done."""

        def requested() -> bool:
            standing = self.store.operations(query=query, only_open=True, limit=1)
            intents = [intent for each in standing for intent in self.store.intents(each.id)]
            return any(intent.state is IntentState.PENDING for intent in intents)

        self.until(f"something is asked for {query}", requested)
        return self.store.operations(query=query, only_open=True, limit=1)[0]

    def until(
        self,
        what: str,
        holds: Callable[[], object],
        seconds: float = 240.0,
        *,
        instead: Callable[[], str] = lambda: "",
    ) -> None:
        """Wait until something holds; when it never does, show what is found ``instead``, and what runners and
        operations say."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline or any(driver.has_failed for driver in self.drivers.values()):
                raise AssertionError(f"not within {seconds:g} s: {what} {instead()}\n{self._progress()}")
            time.sleep(0.005)

    def _progress(self) -> str:
        lines = [f"{each.query}: {each.phase} {each.sentence}" for each in self.store.operations(limit=6)]
        lines += [f"{fact.query} on {fact.cluster}: {fact.state} {fact.error}" for fact in self.store.query_facts()]
        lines += [each.output() for each in self.typed[-3:]]
        lines += [f"{each.name}: {each.log()[-3000:]}" for each in self.drivers.values()]
        lines += [f"{each.name}: {each.stacks()}" for each in self.drivers.values() if each.process.poll() is None]
        return "\n".join(lines)


@dataclass
class Stage(Scene):
    """A scene between the two clusters of a world of the lab, to which faults can be done."""

    world: World = field(kw_only=True)

    def freeze(self, cluster: str) -> None:
        faults.freeze(self.world, cluster, _quiet)

    def thaw(self, cluster: str) -> None:
        faults.thaw(self.world, cluster, _quiet)

    def kill(self, cluster: str) -> None:
        faults.kill(self.world, cluster, _quiet)

    def start(self, cluster: str) -> None:
        faults.start(self.world, cluster, _quiet)

    def heal(self) -> None:
        """Every broker runs again, whatever was done to it."""
        for name in CLUSTERS:
            if self.world.look(self.world.parts(name)[0]) == "frozen":
                self.thaw(name)
            self.start(name)


def one_query(world: World, url: str, folder: Path, name: str, pipeline: str) -> dict[str, Any]:
    """Settings of one query of ``tests.real.pipelines`` that keeps its rows by batch, hosted by runner ``a``."""
    east, west = CLUSTERS
    return {
        "store": url,
        "clusters": {cluster: {"bootstrap": world.bootstrap(cluster)} for cluster in CLUSTERS},
        "routes": [{"from": east, "to": west}],
        "runners": {"a": {}},
        "spark": {"master": "local[8]", "conf": {"spark.sql.shuffle.partitions": 1}},
        "queries": {
            name: {
                "pipeline": f"tests.real.pipelines:{pipeline}",
                "settings": {"sink": str(folder / name)},
                "sources": {"orders": {"topics": [TOPIC]}},
                "clusters": list(CLUSTERS),
                "runners": ["a"],
                "checkpoint": str(folder / "checkpoint"),
                "trigger": "200ms",
                "sink": "batch-id",
            }
        },
    }


def is_stopped(stat: Path) -> bool:
    """Whether a thread is frozen, by its ``/proc/PID/task/TID/stat``; one that has ended does, too."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in {"T", "t", "Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


def exactly(ids: Iterable[int]) -> Counter[int]:
    """Each of these once."""
    return Counter(dict.fromkeys(ids, 1))


def _quiet(_text: str) -> None:
    """What the lab says of its faults."""
