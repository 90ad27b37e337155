"""A lab's world for a test, on ports of its own, ended when the test ends."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.world import PORTS

ROOT = Path(__file__).resolve().parents[1]
_LOWEST, _HIGHEST = 20_000, 32_000
"""Below the ports that the kernel gives to clients, so nobody takes one while we look."""


@dataclass(frozen=True)
class RunningWorld:
    """A world that is up."""

    directory: Path

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
        told = self.lab("traffic", "--rate", str(rate), "--seconds", str(seconds), "--to", to, "-o", "json", *arguments)
        return dict(json.loads(told))

    def start_traffic(
        self, *arguments: str, rate: int = 500, seconds: float = 600.0, to: str = "east"
    ) -> subprocess.Popen[bytes]:
        """Start orders in the background; the caller ends it with SIGTERM."""
        return subprocess.Popen(
            [sys.executable, "-m", "lab", "traffic", "--dir", str(self.directory), "--rate", str(rate),
             "--seconds", str(seconds), "--to", to, "-o", "json", *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def verdict(self, *, wait: float = 60.0) -> dict[str, dict[str, Any]]:
        """What `verify` says, by query."""
        return dict(json.loads(self.lab("verify", "--wait", str(wait), "-o", "json", timeout=wait + 120)))


@contextlib.contextmanager
def running_world(tmp_path: Path, **options: object) -> Iterator[RunningWorld]:
    """Bring a world up in `tmp_path/world`; options as `lab up` takes them, such as `brokers=3` or `kafka="3.9.1"`."""
    world = RunningWorld(tmp_path / "world")
    options.setdefault("base_port", free_base_port())
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    try:
        world.lab("up", *words, timeout=900)
        yield world
    finally:
        run_lab(world.directory, "down", "--now", exit_code=None)


def run_lab(directory: Path, *arguments: str, timeout: float = 300.0, exit_code: int | None = 0) -> str:
    """Run a verb of the lab as a user does."""
    command = [sys.executable, "-m", "lab", *arguments, "--dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=timeout, text=True, check=False)
    if exit_code is not None:
        assert done.returncode == exit_code, f"{' '.join(command[2:])}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def free_base_port() -> int:
    """Return a base port such that all ports of a world are free; workers start looking at different places."""
    chance = random.Random(os.getpid() ^ random.SystemRandom().getrandbits(30))
    for _ in range(200):
        base = chance.randrange(_LOWEST, _HIGHEST, PORTS)
        if all(_is_free(port) for port in range(base, base + PORTS)):
            return base
    raise AssertionError("no free ports for a world")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
