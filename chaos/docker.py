"""The seam to Docker and Compose: their command lines, by subprocess.

Containers are found by the labels that every version of Compose gives them, and acted on by `docker` itself, since
Compose 1.29 takes a second for each word. What both say is kept in one log.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from chaos.errors import DockerFailed

_QUICK_SECONDS = 120.0
"""For what takes a second on a machine that has nothing else to do."""
_HELD = "has active endpoints"
_IMAGE = re.compile(r"\$\{(\w+_IMAGE):-([^}]+)\}")
COMPOSE_1 = ["docker-compose"]
_LABEL = "com.docker.compose"
_REVISION = "org.opencontainers.image.revision"
_LOOK = (
    "id -u && tideover --version && for each in pip pip3 uv gcc cc make git javac; do command -v $each; done;"
    " find / -xdev -name pyproject.toml -not -path '*/site-packages/*' 2>/dev/null;"
    " find / -xdev -type d '(' -path /src -o -path /dist -o -path '*/site-packages/setuptools' ')' 2>/dev/null;"
    " find / -xdev '(' -name '*.whl' -o -name .git -o -path '*/site-packages/tests' ')' 2>/dev/null; true"
)
"""What is read of an image: it names what a build leaves behind, and nothing when there is nothing."""
_SETTINGS = {"VERIFY_EVERY": "36000"}  # counting takes seconds of a core, and is requested at the end
_SETTINGS_1 = {"DOCKER_BUILDKIT": "0"}
"""For Compose 1 also: it would need BuildKit, which its `docker` may not have."""


class Environment:
    """One project of Compose's; ``settings`` are variables of its files."""

    def __init__(
        self, root: Path, *, project: str, files: Sequence[str], env_file: Path | None, log: IO[str],
        settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._root = root
        self._project = project
        self._log = log
        options = [option for file in ("docker-compose.yml", *files) for option in ("--file", str(root / file))]
        if env_file is not None:
            options += ["--env-file", str(env_file)]
        program = _compose()
        ours = _SETTINGS | (_SETTINGS_1 if program == COMPOSE_1 else {})
        self._settings = {**ours, **os.environ, **(settings or {})}
        self._compose = [*program, "--project-name", project, *options]

    def compose(self, *arguments: str, timeout: float = _QUICK_SECONDS) -> str:
        """Run a verb of Compose's. Raises DockerFailed."""
        return self._run([*self._compose, *arguments], timeout)[1]

    def contents(self, image: str) -> tuple[str, str, list[str]]:
        """Whom an image runs as, its `tideover --version`, and what it holds of a build. Raises DockerFailed."""
        user, version, *rest = self.printed(image, "sh", "-c", _LOOK).splitlines()
        return user, version, rest

    def build(self, folder: str, tag: str, arguments: Mapping[str, str], *, timeout: float) -> None:
        """Build an image of a folder, on a network that reaches packages. Raises DockerFailed."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self._run(["docker", "build", "--network", "host", *given, "--tag", tag, folder], timeout)

    def printed(self, image: str, *command: str) -> str:
        """What a command in an image prints, without a network and with a root to read only. Raises DockerFailed."""
        run = ["docker", "run", "--rm", "--network", "none", "--read-only", "--entrypoint", command[0], image]
        return self._run([*run, *command[1:]], _QUICK_SECONDS)[1].strip()

    def revision(self, image: str) -> str:
        """The commit that an image is labelled with; empty where it has no such label. Raises DockerFailed."""
        look = ["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{_REVISION}"}}}}', image]
        return self._run(look, _QUICK_SECONDS)[1].strip()

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

    def run_in(self, service: str, *command: str, given: str = "", timeout: float = _QUICK_SECONDS) -> bytes:
        """What a command in a service prints when it is given something on standard input: no log has either of them.

        Raises DockerFailed.
        """
        words = ["docker", "exec", "--interactive", self.container(service), *command]
        reported = f"{words[0]} {words[1]} {service} {command[0]}"
        self._log.write(f"$ {reported}, with what is not for a log\n")
        self._log.flush()
        try:
            done = subprocess.run(words, input=given.encode(), capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise DockerFailed(f"{reported} took longer than {timeout:g} s") from error
        if done.returncode:
            raise DockerFailed(
                f"{reported} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}"
            )
        return done.stdout

    def stream(self, service: str, *command: str) -> subprocess.Popen[str]:
        """Start a command in a service and hand out what it prints, line by line."""
        return subprocess.Popen(
            ["docker", "exec", self.container(service), *command],
            stdout=subprocess.PIPE, stderr=self._log, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def log_of(self, service: str) -> str:
        """What a service has said so far."""
        return _log_of(self.container(service)).decode(errors="replace")

    def services(self) -> list[str]:
        """Those that have a container, running or not."""
        return self._services("--all")

    def running(self) -> list[str]:
        """Those in which a command can be run now."""
        return self._services("--filter", "status=running")

    def save_logs(self, folder: Path) -> None:
        """Write the log of every container into a folder. Raises DockerFailed."""
        folder.mkdir(parents=True, exist_ok=True)
        for line in self._listed("--all", "--format", "{{.ID}} {{.Names}}"):
            identity, _, name = line.partition(" ")
            (folder / f"{name}.log").write_bytes(_log_of(identity))

    def thaw(self) -> None:
        """Let everything continue that is frozen."""
        if frozen := self._listed("--quiet", "--filter", "status=paused"):
            self._run(["docker", "unpause", *frozen], _QUICK_SECONDS)

    def down(self) -> list[str]:
        """End everything and remove it with its data; returns the networks that stayed. Raises DockerFailed.

        Compose would not do. Since 2.23.2 it leaves containers of a profile that is not named, and before version 2
        it leaves the volumes where a network is refused.
        """
        self.thaw()
        if running := self._listed("--quiet"):  # killed, not stopped: a dozen JVMs need not say goodbye
            self._run(["docker", "kill", *running], _QUICK_SECONDS, check=False)
        if standing := self._listed("--all", "--quiet"):
            self._run(["docker", "rm", "--force", "--volumes", *standing], _QUICK_SECONDS)
        if volumes := self._named("volume"):
            self._run(["docker", "volume", "rm", *volumes], _QUICK_SECONDS)
        return [network for network in self._named("network") if not self._removed(network)]

    def _removed(self, network: str) -> bool:
        """Remove a network; False where Docker refuses it although no container is on it.

        Docker 20.10 miscounts the endpoints of a network now and then, until it is started again: no container's name
        frees it (https://github.com/moby/moby/issues/42119). The next environment uses that network.
        """
        try:
            self._run(["docker", "network", "rm", network], _QUICK_SECONDS)
        except DockerFailed as error:
            look = ["docker", "network", "inspect", "--format", "{{len .Containers}}", network]
            if _HELD not in str(error) or self._run(look, _QUICK_SECONDS)[1].strip() != "0":
                raise
            return False
        return True

    def _services(self, *options: str) -> list[str]:
        label = f'{{{{.Label "{_LABEL}.service"}}}}'
        return sorted({*self._listed(*options, "--format", label)})

    def _listed(self, *options: str) -> list[str]:
        """What `docker ps` says of this project's containers, line by line."""
        return self._ours("ps", *options)

    def _named(self, kind: str) -> list[str]:
        """This project's volumes, or networks."""
        return self._ours(kind, "ls", "--format", "{{.Name}}")

    def _ours(self, *words: str) -> list[str]:
        command = ["docker", *words, "--filter", f"label={_LABEL}.project={self._project}"]
        return self._run(command, _QUICK_SECONDS)[1].splitlines()

    def _network(self, name: str) -> str:
        return f"{self._project}_{name}"

    def _run(self, command: Sequence[str], timeout: float, *, check: bool = True) -> tuple[int, str]:
        self._log.write(f"$ {' '.join(command)}\n")
        self._log.flush()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, cwd=self._root, check=False,
                env=self._settings,
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


def images(compose: str, env_file: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The images by variable: as the environment names them, else the env file, else the compose file."""
    named = dict(line.split("=", 1) for line in env_file.splitlines() if "=" in line and not line.startswith("#"))
    defaults = dict(_IMAGE.findall(compose))
    return {name: environment.get(name) or named.get(name) or default for name, default in defaults.items()}


def versions() -> str:
    """Which Docker and which Compose there are."""
    docker = _said("docker", "version", "--format", "{{.Server.Version}}")
    return f"Docker {docker}, Compose {_said(*_compose(), 'version', '--short')}"


def _said(*command: str) -> str:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_QUICK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return process.stdout.strip() or "unknown"


def _log_of(identity: str) -> bytes:
    try:
        return subprocess.run(
            ["docker", "logs", identity],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_QUICK_SECONDS, check=False,
        ).stdout  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DockerFailed(f"the log of {identity} could not be read in {error.timeout:g} s") from error


def _compose() -> list[str]:
    """Compose as a plugin of Docker's where there is one, else as a program of its own."""
    if shutil.which("docker"):
        process = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if process.returncode == 0:
            return ["docker", "compose"]
    return COMPOSE_1
