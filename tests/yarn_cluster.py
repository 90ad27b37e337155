"""YARN with one node, by its real daemons, from the jar that Hadoop publishes for tests. It uses the local disk."""

import contextlib
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.ports import free_base_port
from tests.hadoop_daemons import configure, running_daemon
from tests.waiting import PROCESS_SECONDS, until

EXPIRY_SECONDS = 6
"""So long a node may be silent before YARN takes it for lost."""
_DAEMONS = {
    "manager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "node": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}


@dataclass(frozen=True)
class Yarn:
    """The daemons, and what a user of YARN may do."""

    folder: Path
    url: str
    """Of the ResourceManager's web page and REST interface."""
    daemons: Mapping[str, "subprocess.Popen[bytes]"]

    @property
    def conf(self) -> Path:
        """``HADOOP_CONF_DIR``."""
        return self.folder / "conf"

    def request(self, path: str, body: object = None, method: str | None = None) -> Any:
        """The JSON at a path of the ResourceManager."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/ws/v1/cluster/{path}", data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=PROCESS_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def submit_sleep(self) -> str:
        """Submit an application whose attempts, at most two, sleep; its id."""
        application = str(self.request("apps/new-application", method="POST")["application-id"])
        self.request("apps", {
            "application-id": application,
            "application-name": "sleeper",
            "application-type": "SPARK",
            "max-app-attempts": 2,
            "am-container-spec": {"commands": {"command": "exec sleep 3600"}},
            "resource": {"memory": 128, "vCores": 1},
        })  # fmt: skip
        return application

    def kill_application(self, application: str) -> None:
        self.request(f"apps/{application}/state", {"state": "KILLED"}, "PUT")

    def state_of(self, attempt: str) -> str | None:
        """The state of an attempt; None where there is none yet."""
        application = "_".join(("application", *attempt.split("_")[1:3]))
        listed = self.request(f"apps/{application}/appattempts")["appAttempts"] or {}
        return next(
            (row["appAttemptState"] for row in listed.get("appAttempt", ()) if row["appAttemptId"] == attempt), None
        )

    def send(self, daemon: str, number: signal.Signals) -> None:
        self.daemons[daemon].send_signal(number)

    def log(self, attempt: str) -> str:
        """What the application master of an attempt has printed."""
        found = (self.folder / "logs").glob(f"*/{container_of(attempt)}/std*")
        return "".join(each.read_text(encoding="utf-8", errors="replace") for each in sorted(found))


def attempt_of(application: str, number: int) -> str:
    return f"{application.replace('application', 'appattempt')}_{number:06d}"


def container_of(attempt: str) -> str:
    """The container of an attempt's application master."""
    _, began, application, number = attempt.split("_")
    return f"container_{began}_{application}_{int(number):02d}_000001"


def processes_of(container: str) -> list[int]:
    """What runs of a container: everything in it has its id in the environment."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"CONTAINER_ID={container}\0".encode() in (each / "environ").read_bytes():
                found.append(int(each.name))
    return found


def kill_container(container: str) -> None:
    """SIGKILL of everything in it, as if its host had lost its power."""
    while found := processes_of(container):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def yarn_cluster(folder: Path) -> Iterator[Yarn]:
    """A ResourceManager and a NodeManager."""
    base = free_base_port()
    url = f"http://127.0.0.1:{base}"
    _configure(folder, base)
    with contextlib.ExitStack() as running:
        daemons = {name: running.enter_context(running_daemon(folder, name, main)) for name, main in _DAEMONS.items()}
        made = Yarn(folder, url, daemons)

        def has_node() -> bool:
            with contextlib.suppress(OSError):
                return bool(made.request("metrics")["clusterMetrics"]["activeNodes"] == 1)
            return False

        until(has_node, f"no node, by the logs in {folder}", seconds=240)
        yield made
        for row in (made.request("apps")["apps"] or {}).get("app", ()):
            if row["state"] not in {"FINISHED", "FAILED", "KILLED"}:
                made.kill_application(row["id"])
        until(lambda: not _containers(folder), "YARN ends what it started", seconds=PROCESS_SECONDS)


def _containers(folder: Path) -> list[int]:
    """Processes of containers that were started in this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"CONTAINER_ID=" in (known := (each / "environ").read_bytes()) and f"{folder}/".encode() in known:
                found.append(int(each.name))
    return found


def _configure(folder: Path, base: int) -> None:
    host = "127.0.0.1"
    known = {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": f"{folder}/tmp",
        "yarn.resourcemanager.hostname": host,
        "yarn.resourcemanager.webapp.address": f"{host}:{base}",
        "yarn.resourcemanager.address": f"{host}:{base + 1}",
        "yarn.resourcemanager.scheduler.address": f"{host}:{base + 2}",
        "yarn.resourcemanager.resource-tracker.address": f"{host}:{base + 3}",
        "yarn.resourcemanager.admin.address": f"{host}:{base + 4}",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 200,
        "yarn.nm.liveness-monitor.expiry-interval-ms": EXPIRY_SECONDS * 1000,
        "yarn.nodemanager.hostname": host,
        "yarn.nodemanager.address": f"{host}:{base + 5}",
        "yarn.nodemanager.localizer.address": f"{host}:{base + 6}",
        "yarn.nodemanager.webapp.address": f"{host}:{base + 7}",
        "yarn.nodemanager.local-dirs": f"{folder}/local",
        "yarn.nodemanager.log-dirs": f"{folder}/logs",
        "yarn.nodemanager.resource.memory-mb": 8192,
        "yarn.nodemanager.vmem-check-enabled": False,
        "yarn.nodemanager.pmem-check-enabled": False,
        "yarn.nodemanager.disk-health-checker.enable": False,
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.scheduler.capacity.maximum-am-resource-percent": 1.0,
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": 100,
    }
    configure(folder, known, ("core-site", "yarn-site", "capacity-scheduler"))
    for page in ("cluster", "node"):  # the jar has no web pages, and a daemon looks for the folder of its own
        (folder / "conf" / "webapps" / page).mkdir(parents=True)
