"""Environments for scenarios: one for all that leave it as they found it, and one for each that does not."""

import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe

from chaos.docker import Environment
from chaos.errors import DockerFailed
from chaos.leak_check import STORE_PASSWORD, searched
from chaos.play import Say, ScenarioRun, WaitLimits
from chaos.scenario_outcome import Outcome, judge
from chaos.scenarios import SECURED, Scenario
from chaos.watcher import Watcher

PROJECT = "tideover-chaos"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where scenarios are played: on which files and images, and where logs go."""

    root: Path
    folder: Path
    env_file: Path | None
    files: tuple[str, ...]
    """Compose files beside the main one, in every environment."""
    say: Say
    patience: WaitLimits

    def play(self, scenarios: Sequence[Scenario]) -> Generator[tuple[Scenario, Outcome]]:
        """Play all, those first that share an environment; hand out each as soon as it is over."""
        for group in share(scenarios):
            waiting = list(group)
            while waiting:
                yield from self._play_in_one(waiting)

    def _play_in_one(self, waiting: list[Scenario]) -> Iterator[tuple[Scenario, Outcome]]:
        """Play one after the other in one environment, until one does not end as expected; those left stay waiting."""
        name = waiting[0].name
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        files = dict.fromkeys((*self.files, *(file for scenario in waiting for file in scenario.files)))
        with ExitStack() as stack:
            log = stack.enter_context((folder / "docker.log").open("w", encoding="utf-8"))
            environment = Environment(
                self.root, project=PROJECT, files=tuple(files), env_file=self.env_file, log=log,
                settings={STORE_PASSWORD: token_urlsafe(24)} if SECURED in files else {},
            )  # fmt: skip
            environment.down()
            stack.callback(self._clear, environment, folder / "logs")
            watcher = stack.enter_context(Watcher(environment))
            while waiting:
                scenario = waiting.pop(0)
                self.say(f"{scenario.name}: {scenario.title}")
                fresh = scenario.name == name
                outcome = ScenarioRun(
                    scenario, environment, watcher, self.say, fresh=fresh, patience=self.patience
                ).play(name)
                if SECURED in files:
                    outcome = searched(outcome, environment, folder / "docker.log")
                yield scenario, outcome
                if judge(scenario, outcome):
                    return  # the next one would be blamed for what this one left

    def _clear(self, environment: Environment, logs: Path) -> None:
        """Keep the logs and take the environment down."""
        with self._reporting():
            environment.save_logs(logs)
        with self._reporting():
            for network in environment.down():
                self.say(f"network {network} stays until Docker restarts; the next environment uses it")

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """What fails in here is reported, and is not the scenario's fault."""
        try:
            yield
        except DockerFailed as error:
            self.say(f"the environment was not cleared: {error}")


def share(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """Sort out who shares an environment: all in which nothing moves; every other one has its own."""
    staying = [each for each in scenarios if not each.moves]
    return [*([staying] if staying else []), *([each] for each in scenarios if each.moves)]
