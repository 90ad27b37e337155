"""A real fault, seen by a real controller, scraped by a real Prometheus, fires the alert that is for it.

The rules are ours but for their patience: what they wait for is cut to seconds, so that the faults come one by one
within minutes. That they wait as long as they say is what promtool tests (test_prometheus.py).
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from orchestrator.config.load import load
from state.store.sql.migrate import open_store
from streaming.secrets import reveal
from tests.contract import samples
from tests.ports import free_port
from tests.prometheus_tools import ROOT, prometheus_tool
from tests.waiting import PROCESS_SECONDS, until
from tests.world import RunningWorld, running_world

pytestmark = pytest.mark.real
RULES = ROOT / "conf" / "prometheus" / "alerts.yaml"
OPENER = build_opener(ProxyHandler({}))


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PROCESS_SECONDS)


def impatient(rules: str) -> str:
    """The same rules, but for how long they wait."""
    text = re.sub(r"for: \d+[smh]", "for: 2s", rules)
    return text.replace("heartbeat_age_seconds) > 60", "heartbeat_age_seconds) > 8")


@contextmanager
def prometheus(folder: Path, target: str, change: Callable[[str], str] = str, *, every: str = "1s") -> Iterator[str]:
    """Prometheus, which queries that target again and again; its address. ``change`` makes the rules more impatient."""
    folder.mkdir()
    (folder / "alerts.yaml").write_text(change(impatient(RULES.read_text(encoding="utf-8"))), encoding="utf-8")
    settings = {
        "global": {"scrape_interval": every, "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "tideover", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        prometheus_tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]  # fmt: skip
    with started(command, folder / "prometheus.log"):
        until(lambda: ready(address), (folder / "prometheus.log").read_text())
        yield address


def ready(address: str) -> bool:
    try:
        with OPENER.open(f"http://{address}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def firing(address: str) -> dict[str, dict[str, Any]]:
    """The alerts that fire now, by name; of several of one name the last."""
    with OPENER.open(f"http://{address}/api/v1/alerts", timeout=PROCESS_SECONDS) as answer:
        alerts = json.load(answer)["data"]["alerts"]
    return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}


def assign(world: RunningWorld) -> None:
    """A query that runs on east, as far as the store knows; no runner is needed to watch its cluster."""
    store = open_store(reveal(load(world.config).settings.store))
    with closing(store):
        store.adopt(samples.assignment(checkpoint=str(world.directory / "checkpoints" / "revenue")))


def test_real_faults_fire_the_alerts_that_are_for_them(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        subprocess.run(
            [sys.executable, "-m", "orchestrator", "-c", str(world.config), "store", "upgrade", "--yes"],
            cwd=ROOT, check=True, capture_output=True, timeout=PROCESS_SECONDS,
        )  # fmt: skip
        assign(world)
        target = load(world.config).settings.http.listen
        command = [sys.executable, "-m", "orchestrator", "-c", str(world.config), "control", "--name", "one"]
        with (
            started(command, tmp_path / "controller.log") as controller,
            prometheus(tmp_path / "prometheus", target) as address,
        ):

            def fires(name: str) -> dict[str, Any]:
                found: dict[str, dict[str, Any]] = {}

                def is_there() -> bool:
                    found.update(firing(address))
                    return name in found

                until(is_there, f"{name} does not fire")
                return found[name]

            until(lambda: {"NotReady", "DrillOverdue"} <= firing(address).keys(), "no runner, and no drill ever")
            until(lambda: "NoLeader" not in firing(address), "it leads")
            until(
                lambda: "runner-alive" in fires("NotReady")["annotations"]["summary"],
                "the gate is named as soon as readiness was sampled",
            )
            assert {"ClusterDown", "ReplicationStalled", "StoreUnreachable"} & firing(address).keys() == set()

            world.lab("kill", "replicator")
            stalled = fires("ReplicationStalled")
            assert (stalled["labels"]["source"], stalled["labels"]["target"]) == ("east", "west")
            assert "ClusterDown" not in firing(address)

            world.lab("kill", "east")
            down = fires("ClusterDown")
            assert (down["labels"]["cluster"], down["labels"]["severity"]) == ("east", "critical")
            assert down["annotations"]["summary"] == "east is DOWN"
            until(lambda: "ReplicationStalled" not in firing(address), "a dead cluster has no heartbeats")

            controller.kill()
            fires("NoLeader")
            assert "ClusterDown" not in firing(address), "nobody knows that any more"
