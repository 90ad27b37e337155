"""The desk of a real installation: two clusters, queries under load, and two controllers, each with its page.

A browser test acts on it, and the pictures of the docs are made of it.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import yaml

from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage
from tests.ports import free_base_port, free_port
from tests.served import ENVIRONMENT
from tests.waiting import until

CONTROLLERS = ("one", "two")
RATE = 500
TOKENS = [
    {"name": "dashboard", "role": "viewer", "token": "env:VIEWER"},
    {"name": "anna", "role": "operator", "token": "env:OPERATOR"},
]
_OPENER = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class DeskWorld:
    """Everything runs."""

    on: Stage
    controllers: Mapping[str, "subprocess.Popen[bytes]"]
    ports: Mapping[str, int]
    """Where the page of each controller is."""


@contextmanager
def running_desk(folder: Path, queries: Sequence[str]) -> Iterator[DeskWorld]:
    """These queries of the lab have committed batches under load, and both controllers answer."""
    with stage(folder, print) as on:
        on.environment.update(ENVIRONMENT)
        open_world(on, Script(base_port=free_base_port()))
        ports = _declare(on, queries)
        runner = on.start_runner()
        controllers = {
            name: on.start(
                f"controller-{name}", "orchestrator", "-c", str(_config(on, name)), "control", "--name", name
            )
            for name in ports
        }
        on.start_traffic("east", RATE, 1200)
        await_running(on, runner, batches=3)
        for port in ports.values():
            until(lambda port=port: _answers(port), "a controller does not answer")  # type: ignore[misc]
        yield DeskWorld(on, controllers, ports)


def _declare(on: Stage, queries: Sequence[str]) -> dict[str, int]:
    """Only these queries; a configuration for each controller, with a port of its own; these ports."""
    declared = yaml.safe_load(on.config.read_text(encoding="utf-8"))
    declared["queries"] = {name: declared["queries"][name] for name in queries}
    ports = {name: free_port() for name in CONTROLLERS}
    for file, port in ((on.config, free_port()), *((_config(on, name), port) for name, port in ports.items())):
        declared["http"] = {"listen": f"127.0.0.1:{port}", "tokens": TOKENS}
        file.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    return ports


def _config(on: Stage, controller: str) -> Path:
    return on.world / f"tideover-{controller}.yaml"


def _answers(port: int) -> bool:
    try:
        with _OPENER.open(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
