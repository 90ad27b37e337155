"""The seam to Docker and Compose: their command lines, by subprocess.

Containers are found by the labels that every version of Compose gives them, and acted on by `docker` itself, since
Compose 1.29 takes a second for each word. What both say is kept in one log.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from chaos.errors import DockerFailed

_QUICK_SECONDS = 60.0
_LABEL = "com.docker.compose"


class Environment:
    """One project of Compose's."""

    def __init__(self, root: Path, *, project: str, files: Sequence[str], env_file: Path | None, log: IO[str]) -> None:
        self._root = root
        self._project = project
        self._log = log
        options = [option for file in ("docker-compose.yml", *files) for option in ("--file", str(root / file))]
        if env_file is not None:
            options += ["--env-file", str(env_file)]
        self._compose = [*_compose(), "--project-name", project, *options]

    def compose(self, *arguments: str, timeout: float = _QUICK_SECONDS) -> str:
        """Run a verb of Compose's. Raises DockerFailed."""
        return self._run([*self._compose, *arguments], timeout)[1]

    def container(self, service: str) -> str:
        """Return the id of a service's container, running or not. Raises DockerFailed when there is none."""
        labels = (f"{_LABEL}.project={self._project}", f"{_LABEL}.service={service}", f"{_LABEL}.oneoff=False")
        filters = [word for label in labels for word in ("--filter", f"label={label}")]
        found = self._run(["docker", "ps", "--all", "--quiet", *filters], _QUICK_SECONDS)[1].split()
        if not found:
            raise DockerFailed(f"service {service} has no container")
        return found[0]

    def docker(self, verb: str, services: Sequence[str], *options: str) -> None:
        """Kill, pause, unpause, start, stop: all services in one command, so that it strikes them together."""
        self._run(["docker", verb, *options, *map(self.container, services)], _QUICK_SECONDS)

    def cut(self, network: str, service: str) -> None:
        """Take a service off a network."""
        self._run(["docker", "network", "disconnect", self._network(network), self.container(service)], _QUICK_SECONDS)

    def join(self, network: str, service: str) -> None:
        """Put a service back on a network, under its name."""
        command = ["docker", "network", "connect", "--alias", service, self._network(network), self.container(service)]
        self._run(command, _QUICK_SECONDS)

    def execute(
        self, service: str, *command: str, timeout: float = _QUICK_SECONDS, check: bool = True
    ) -> tuple[int, str]:
        """Run a command in a service; its exit code and what it printed. Raises DockerFailed."""
        return self._run(["docker", "exec", self.container(service), *command], timeout, check=check)

    def stream(self, service: str, *command: str) -> subprocess.Popen[str]:
        """Start a command in a service and hand out what it prints, line by line."""
        return subprocess.Popen(
            ["docker", "exec", self.container(service), *command],
            stdout=subprocess.PIPE, stderr=self._log, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def save_logs(self, folder: Path) -> None:
        """Write the log of every container into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        label = f"label={_LABEL}.project={self._project}"
        listed = self._run(["docker", "ps", "--all", "--filter", label, "--format", "{{.ID}} {{.Names}}"], 60.0)[1]
        for line in listed.splitlines():
            identity, _, name = line.partition(" ")
            with (folder / f"{name}.log").open("wb") as file:
                subprocess.run(
                    ["docker", "logs", identity], stdout=file, stderr=file, timeout=_QUICK_SECONDS, check=False
                )

    def down(self) -> None:
        """End everything and remove it with its data."""
        label = f"label={_LABEL}.project={self._project}"
        frozen = self._run(["docker", "ps", "--quiet", "--filter", label, "--filter", "status=paused"], 60.0)[1].split()
        if frozen:
            self._run(["docker", "unpause", *frozen], _QUICK_SECONDS)
        listed = self._run(["docker", "ps", "--quiet", "--filter", label], _QUICK_SECONDS)[1].split()
        if listed:  # killed, not stopped: a dozen JVMs need not say goodbye
            self._run(["docker", "kill", *listed], _QUICK_SECONDS, check=False)
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "1", timeout=120.0)

    def _network(self, name: str) -> str:
        return f"{self._project}_{name}"

    def _run(self, command: Sequence[str], timeout: float, *, check: bool = True) -> tuple[int, str]:
        self._log.write(f"$ {' '.join(command)}\n")
        self._log.flush()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, cwd=self._root, check=False,
                env={**os.environ, "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0")},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise DockerFailed(f"{' '.join(command[:4])} took longer than {timeout:g} s") from error
        except FileNotFoundError as error:
            raise DockerFailed(f"{command[0]} is not installed", hint="install Docker and Compose") from error
        self._log.write(done.stderr + done.stdout)
        self._log.flush()
        if check and done.returncode:
            raise DockerFailed(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.returncode, done.stdout


def _compose() -> list[str]:
    """Compose as a plugin of Docker's where there is one, else as a program of its own."""
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"]
