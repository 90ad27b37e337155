"""A lab's world for a test, on ports of its own, ended when the test ends."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import cluster
from lab.world import CLUSTERS, Options, World
from tests.ports import free_base_port

ROOT = Path(__file__).resolve().parents[1]
RATE_BESIDE_OTHERS = 500
"""Records a second of a whole run in ``make test-all``: its four queries share two cores with all other tests. Under
2,000, which the reports have, a batch took half a minute beside a load, and a query fell behind by 160,000 records:
none could be moved that far behind."""


@dataclass(frozen=True)
class RunningWorld:
    """A world that is up."""

    directory: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """The product's configuration for it."""
        return self.directory / "tideover.yaml"

    def bootstrap(self, cluster: str) -> str:
        """Bootstrap servers of a cluster, comma-separated."""
        return ",".join(self.status()["clusters"][cluster]["bootstrap"])

    def lab(self, *arguments: str, timeout: float = 300.0, exit_code: int = 0) -> str:
        """Run a verb of the lab, assert its exit code, and return what it printed."""
        return run_lab(self.directory, *arguments, timeout=timeout, exit_code=exit_code)

    def status(self) -> dict[str, Any]:
        """What runs."""
        return dict(json.loads(self.lab("status", "-o", "json")))

    def states(self) -> dict[str, str]:
        """State of every process by its name."""
        return {part["name"]: part["state"] for part in self.status()["parts"]}

    def pids(self) -> list[int]:
        """Pids of the processes that run."""
        return [part["pid"] for part in self.status()["parts"] if part["state"] in ("running", "frozen")]

    def traffic(self, *arguments: str, rate: int = 500, seconds: float = 2.0, to: str = "east") -> dict[str, Any]:
        """Send orders and return the tally."""
        reported = self.lab(
            "traffic", "--rate", str(rate), "--seconds", str(seconds), "--to", to, "-o", "json", *arguments
        )
        return dict(json.loads(reported))

    def start_traffic(
        self, *arguments: str, rate: int = 500, seconds: float = 600.0, to: str = "east"
    ) -> subprocess.Popen[bytes]:
        """Start orders in the background; the caller ends it with SIGTERM. One that is left dies with the world."""
        traffic = subprocess.Popen(
            [sys.executable, "-m", "lab", "traffic", "--dir", str(self.directory), "--rate", str(rate),
             "--seconds", str(seconds), "--to", to, "-o", "json", *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._started.append(traffic)
        return traffic

    def end_traffic(self) -> None:
        """SIGKILL of what a test has left behind."""
        for each in self._started:
            each.kill()  # no signal is sent to one that was waited for
            each.wait()

    def verdict(self, *, wait: float = 120.0) -> dict[str, dict[str, Any]]:
        """What `verify` says, by query."""
        return dict(json.loads(self.lab("verify", "--wait", str(wait), "-o", "json", timeout=wait + 120)))


@contextlib.contextmanager
def running_world(tmp_path: Path, **options: Any) -> Iterator[RunningWorld]:
    """Bring a world up in `tmp_path/world`; options as `lab up` takes them, such as `brokers=3` or `kafka="3.9.1"`."""
    world = RunningWorld(tmp_path / "world")
    options.setdefault("base_port", free_base_port())
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    try:
        world.lab("up", *words, timeout=900)
        yield world
    finally:
        world.end_traffic()
        run_lab(world.directory, "down", "--now", exit_code=None)


@contextlib.contextmanager
def running_clusters(directory: Path, *names: str, **options: Any) -> Iterator[World]:
    """Only the brokers of a world, of both clusters or of those named: no replicator, and no topic."""
    world = World(directory=directory, options=Options(base_port=free_base_port(), **options))
    directory.mkdir(parents=True, exist_ok=True)
    parts = [part for name in names or CLUSTERS for part in world.parts(name)]
    try:
        cluster.start(world, parts, print)
        yield world
    finally:
        world.end(parts, 0.0)


def run_lab(directory: Path, *arguments: str, timeout: float = 300.0, exit_code: int | None = 0) -> str:
    """Run a verb of the lab as a user does."""
    command = [sys.executable, "-m", "lab", *arguments, "--dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=timeout, text=True, check=False)
    if exit_code is not None:
        assert done.returncode == exit_code, f"{' '.join(command[2:])}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout
