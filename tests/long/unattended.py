"""A real world in which no command is typed: clusters, replicator, a runner under load, and controllers that decide.

Everything is started and struck as ``lab.scenario`` does it, and read through the command line.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.configuration import changing, declaration
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage
from lab.world import CLUSTERS, World
from state.store.sql.migrate import open_store
from tests.namespace import Namespace, cabled
from tests.ports import free_base_port
from tests.scene import leads

RATE = 500
"""Records a second: load, but not so much that a busy machine is taken for a dead one."""
LOAD_SECONDS = 7200.0
PATIENCE_SECONDS = 120.0


@dataclass
class Unattended:
    """A stage with queries running on east; ``mark`` is where the run begins in the history."""

    on: Stage
    runner: "subprocess.Popen[bytes]"
    controllers: dict[str, "subprocess.Popen[bytes]"]
    mark: int = 0
    rate: int = RATE
    _load: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def load(self, cluster: str, seconds: float = LOAD_SECONDS) -> None:
        """Start producers against a cluster."""
        self._load[cluster] = self.on.start_traffic(cluster, self.rate, seconds)

    def lab(self, *arguments: str) -> None:
        self.on.lab(*arguments)

    def begin(self) -> None:
        """The run begins here."""
        self.mark = max((int(event["sequence"]) for event in self._history()), default=0)

    def broker(self, part: str) -> int:
        """The process of a broker."""
        parts = json.loads(self.on.lab("status", "-o", "json"))["parts"]
        return int(next(each["pid"] for each in parts if each["name"] == part))

    # -- what is known ---------------------------------------------------------------------------------------------
    def events(self, kind: str | None = None) -> list[Mapping[str, Any]]:
        """Lines of history since the run began, oldest first."""
        return [each for each in self._history() if each["sequence"] > self.mark and kind in {None, each["kind"]}]

    def verdicts(self, cluster: str) -> list[str]:
        """The verdicts on a cluster since the run began, in order."""
        words = (event["text"].split(":")[0].split() for event in self.events("verdict"))
        return [word[2] for word in words if word[0] == cluster]

    def held(self) -> list[str]:
        """The queries that an operation took hold of since the run began, with repeats."""
        return [str(event["query"]) for event in self.events("hold")]

    def attempts(self) -> list[Mapping[str, Any]]:
        """The operations that were begun since the run began, as ``show-op`` prints them."""
        return [self.on.query("show-op", str(event["operation"])) for event in self.events("hold")]

    def leads(self, controller: str) -> bool:
        """Whether a controller leads, by what it said last."""
        return leads(self.log(controller))

    def leader(self) -> str:
        """The controller that leads; one of them does."""
        return next(name for name in self.controllers if self.leads(name))

    def log(self, controller: str) -> str:
        return (self.on.directory / f"controller-{controller}.log").read_text(encoding="utf-8", errors="replace")

    def places(self) -> dict[str, str]:
        """Where each query is, those apart that are on their way."""
        return {row["query"]: row["cluster"] for row in self.on.query("list") if row["operation"] is None}

    def has_moved(self) -> bool:
        return self.is_on("west")

    def is_on(self, cluster: str) -> bool:
        """Whether every query is there, at rest and running."""
        rows = self.on.query("list")
        return all((row["cluster"], row["operation"], row["state"]) == (cluster, None, "running") for row in rows)

    def until(self, what: str, holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                reported = "\n".join(f"{each['at']} {each['text']}" for each in self.events())
                raise AssertionError(f"not within {seconds:g} s: {what}; see {self.on.directory}\n{reported}")
            time.sleep(1.0)  # each look is a process of its own

    def await_up(self) -> None:
        """Until both clusters are believed UP."""
        self.until("both are UP", lambda: all(self.verdicts(each)[-1:] == ["UP"] for each in CLUSTERS))

    # -- what has to be so -----------------------------------------------------------------------------------------
    def assert_left_alone(self) -> None:
        """No operation was begun, and every query runs where it ran."""
        assert self.held() == []
        self.until("every query runs where it ran", lambda: self.is_on("east"))

    def assert_moved_once(self) -> None:
        """Every query left by one operation."""
        assert sorted(self.held()) == sorted(self.places())

    def assert_nothing_lost(self, *, announced: bool = False) -> None:
        """Let the load end, and compare what was acknowledged with what the sinks hold.

        Of a query that is not carried the repeats are in the forecast; here only its losses count. With ``announced``
        the primary came back, and what its replicator brought later may repeat, as often as it was announced.
        """
        planned = [each for each in self.attempts() if each["plan"] is not None]
        later = {each["query"]: each["plan"]["totals"]["replay_later_records"] or 0 for each in planned}
        for process in self._load.values():
            self.on.stop(process)
        if not announced:  # what is written to the standby itself is read there, too
            assert self.on.start_traffic("west", self.rate, 4.0).wait(60) == 0
        rows = json.loads(self.on.lab("verify", "--wait", "60", "-o", "json"))
        resumes = {query: str(reported.get("resume", "carry")) for query, reported in self._declared().items()}
        wrong = {
            query: (row["lost"], row["duplicated"], row["judged"])
            for query, row in rows.items()
            if row["lost"]
            or not row["delivered"]
            or (resumes[query] == "carry" and row["duplicated"] > (later.get(query, 0) if announced else 0))
        }
        assert wrong == {}, "lost and repeated records, and by what they were judged, by query"
        assert rows.keys() == resumes.keys(), "every query was judged"

    def _history(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.on.query("history", "--limit", "10000")
        return found

    def _declared(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = declaration(self.on.config)["queries"]
        return found


@contextmanager
def unattended(
    directory: Path,
    *,
    controllers: Sequence[str] = ("one",),
    brokers: int = 1,
    secured: str | None = None,
    rate: int = RATE,
    changes: Mapping[str, Any] | None = None,
    prepare: Callable[[World, dict[str, Any]], None] | None = None,
    inside: Sequence[str] = (),
    helped: bool = False,
) -> Iterator[Unattended]:
    """Queries run on east under load, both clusters are believed UP, and automatic mode is on.

    ``changes`` replace groups of the configuration, and ``prepare`` does what else has to be done to the world and the
    configuration; ``inside`` is put in front of the runner's command. Without ``controllers`` there is no verdict
    yet. ``helped`` has a second runner ready, to which any query may go.
    """
    with stage(directory, print) as on:
        open_world(on, Script(base_port=free_base_port(), brokers=brokers, secured=secured))
        with changing(on.config) as declared:
            declared |= {"policy": {"automatic": True}, **(changes or {})}
            if prepare is not None:
                prepare(World.load(on.world), declared)
            if helped:
                declared["runners"] = {name: dict(declared["runners"]["a"]) for name in ("a", "b")}
                for query in declared["queries"].values():
                    query["runners"] = ["a", "b"]
        runner = on.start_runner(inside=inside)
        world = Unattended(on, runner, {name: on.start_controller(name) for name in controllers}, rate=rate)
        world.load("east")
        await_running(on, runner, warm=True)
        if helped:
            on.start_runner("b")
            with closing(open_store(str(declared["store"]))) as store:
                warm = lambda: {each.runner for each in store.runners() if each.warm}  # noqa: E731
                world.until("both runners are ready", lambda: warm() == {"a", "b"}, 300.0)
        if controllers:
            world.await_up()
        world.until("every query runs on east", lambda: world.is_on("east"))
        time.sleep(5.0)
        world.begin()
        yield world


@contextmanager
def cut_off(world: Unattended, controllers: Sequence[str] = ("one",)) -> Iterator[Namespace]:
    """Start controllers that reach each cluster through one cable, and the run once they believe both are UP.

    For a world without controllers; ends them, before the cables are taken away.
    """
    declared = declaration(world.on.config)["clusters"]
    ports = {name: [int(each.split(":")[1]) for each in reported["bootstrap"]] for name, reported in declared.items()}
    with cabled(ports) as cables:
        for name in controllers:
            inside = cables.command(
                sys.executable, "-m", "orchestrator", "-c", str(world.on.config), "control", "--name", name
            )
            with (world.on.directory / f"controller-{name}.log").open("ab") as log:
                world.controllers[name] = subprocess.Popen(inside, stdout=log, stderr=log)
        try:
            world.await_up()
            world.begin()
            yield cables
        finally:
            for process in world.controllers.values():
                process.terminate()
            for process in world.controllers.values():
                process.wait(120)


@contextmanager
def stopped(*processes: "subprocess.Popen[bytes]") -> Iterator[None]:
    """SIGSTOP, and SIGCONT afterwards."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def number(name: str, standard: int) -> int:
    """A count that the environment may change."""
    return int(os.environ.get(name, str(standard)))
