"""Plays one scenario: an environment of its own, from nothing to the verdict, and nothing left behind."""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.docker import Environment
from chaos.errors import DockerFailed, StoryFailed
from chaos.eye import TOOLS, Eye
from chaos.faults import LEADER, Act, Sight, Step, When
from chaos.outcome import Outcome, changes_of
from chaos.scenarios import Scenario
from lab.relay import ORDERS

Say = Callable[[str], None]

PROJECT = "tideover-chaos"
_CONFIG = "/etc/tideover/tideover.yaml"
_FILLER = "/var/lib/kafka/data/filler"
_VERBS = {Act.KILL: "kill", Act.FREEZE: "pause", Act.THAW: "unpause", Act.START: "start"}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long is waited, in seconds."""

    up: float = 420.0
    running: float = 240.0
    calm: float = 10.0
    moment: float = 120.0
    """For the moment of a step."""
    end: float = 150.0
    """For every query to be where it belongs."""
    after: float = 15.0
    """Load on the standby after a move."""
    verify: float = 60.0


class Story:
    """One scenario on one environment."""

    def __init__(self, scenario: Scenario, environment: Environment, say: Say, patience: Patience) -> None:
        self._scenario = scenario
        self._environment = environment
        self._say = say
        self._patience = patience
        self._leader: str | None = None
        self._eye = Eye(environment)
        self._struck_at = 0.0
        self._steps: list[tuple[float, str]] = []
        self._up_seconds = 0.0

    def tell(self) -> Outcome:
        """Play it to its end; what broke on the way stands in the outcome."""
        begun = time.monotonic()
        broke = ""
        verdict: dict[str, Any] = {}
        operations: list[dict[str, Any]] = []
        try:
            self._environment.compose("up", "--detach", "--no-build", timeout=self._patience.up)
            with self._eye:
                self._await_running()
                self._up_seconds = round(time.monotonic() - begun, 1)
                self._say(f"all queries run after {self._up_seconds:.0f} s")
                time.sleep(self._patience.calm)
                self._strike()
                self._await_end()
                operations = self._operations()
                verdict = self._verify()
        except (StoryFailed, DockerFailed) as error:
            broke = str(error)
            self._say(broke)
        sights = self._eye.sights
        return Outcome(
            scenario=self._scenario.name, up_seconds=self._up_seconds, struck_at=self._struck_at,
            steps=tuple(self._steps), changes=tuple(changes_of(sights, self._struck_at)),
            places=_places(sights[-1]) if sights else {}, operations=operations, verdict=verdict, broke=broke,
        )  # fmt: skip

    def _await_running(self) -> None:
        """Until every query has committed a batch on the primary and both clusters have their verdict."""
        self._eye.await_sight(
            lambda sight: sight.all_on("east") and sight.verdict("east") == sight.verdict("west") == "UP",
            self._patience.running, "every query runs on east, and both clusters are UP",
        )  # fmt: skip
        deadline = time.monotonic() + self._patience.running
        while any((row["batch"] or 0) < 2 for row in self._ask("list")):
            if time.monotonic() > deadline:
                raise StoryFailed("the queries did not commit three batches each")
            time.sleep(2.0)

    def _strike(self) -> None:
        for step in self._scenario.steps:
            self._eye.await_sight(_showing(step.when), self._patience.moment, step.when.value)
            time.sleep(step.after_seconds)
            services = [self._resolve(service) for service in step.on]
            now = time.time()
            self._struck_at = self._struck_at or now
            self._steps.append((round(now - self._struck_at, 1), str(step)))
            self._say(f"{now - self._struck_at:6.1f} s  {step}")
            self._do(step, services)

    def _resolve(self, service: str) -> str:
        if service != LEADER:
            return service
        if self._leader is None:
            self._leader = self._eye.await_sight(
                lambda sight: sight.leader is not None, self._patience.moment, "a controller leads"
            ).leader
        return str(self._leader)

    def _do(self, step: Step, services: list[str]) -> None:
        environment = self._environment
        match step.act:
            case Act.KILL | Act.FREEZE | Act.THAW | Act.START:
                environment.docker(_VERBS[step.act], services)
            case Act.CUT:
                for service in services:
                    environment.cut(step.network, service)
            case Act.JOIN:
                for service in services:
                    environment.join(step.network, service)
            case Act.SLOW | Act.CLEAR:
                environment.execute("link", "sh", "-c", f"echo '{step.detail}' > {ORDERS}")
            case Act.FILL:
                for service in services:
                    fill = ("dd", "if=/dev/zero", f"of={_FILLER}", "bs=1M")
                    environment.execute(service, *fill, check=False)  # it ends with an error: the disk is full
            case Act.EMPTY:  # its small disk is mounted anew, and empty
                environment.docker("restart", services, "-t", "10")
            case Act.CONSENT:
                words = ("failover", "--all", "--to", "west", "--yes", "--consent", step.detail)
                self._tideover(*words, "--reason", "chaos", timeout=self._patience.end, check=False)

    def _await_end(self) -> None:
        if self._scenario.moves:
            self._eye.await_sight(lambda sight: sight.all_on("west"), self._patience.end, "every query is on west")
            self._environment.docker("stop", ["traffic"], "-t", "25")
            self._environment.compose("up", "--detach", "--no-build", "--no-deps", "traffic-west")
            time.sleep(self._patience.after)
            self._environment.docker("stop", ["traffic-west"], "-t", "25")
        else:
            time.sleep(self._scenario.hold_seconds)
            self._eye.await_sight(lambda sight: sight.all_on("east"), self._patience.end, "every query is on east")
            self._environment.docker("stop", ["traffic"], "-t", "25")

    def _operations(self) -> list[dict[str, Any]]:
        identities = dict.fromkeys(event["operation"] for event in self._ask("history") if event["operation"])
        return [self._ask("show-op", identity) for identity in identities]

    def _verify(self) -> dict[str, Any]:
        command = ("python", "-m", "lab", "verify", "--dir", "/var/lib/lab", "--config", _CONFIG, "-o", "json")
        wait = ("--wait", str(self._patience.verify))
        _, told = self._environment.execute(TOOLS, *command, *wait, timeout=3 * self._patience.verify)
        return dict(json.loads(told))

    def _ask(self, *words: str) -> Any:
        return json.loads(self._tideover(*words, "-o", "json"))

    def _tideover(self, *words: str, timeout: float = 60.0, check: bool = True) -> str:
        return self._environment.execute(TOOLS, "tideover", *words, timeout=timeout, check=check)[1]


def play(
    scenario: Scenario, root: Path, folder: Path, *, env_file: Path | None, say: Say, patience: Patience
) -> Outcome:
    """Play a scenario in an environment of its own; its logs are left in the folder, and nothing else anywhere."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        log = stack.enter_context((folder / "docker.log").open("w", encoding="utf-8"))
        environment = Environment(root, project=PROJECT, files=scenario.files, env_file=env_file, log=log)
        environment.down()
        stack.callback(environment.down)
        stack.callback(environment.save_logs, folder / "logs")
        return Story(scenario, environment, say, patience).tell()


def _showing(when: When) -> Callable[[Sight], bool]:
    return lambda sight: sight.shows(when)


def _places(sight: Sight) -> dict[str, tuple[str, str, str]]:
    return {
        str(each["query"]): (str(each["cluster"]), str(each["runner"]), str(each["state"]))
        for each in sight.told["queries"]
    }
