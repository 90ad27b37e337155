"""A world: what lies in its directory, and what is remembered of it between commands.

`world.json` is written before and after every start. A start whose pid never got written down (the command was killed
in between) is found by the marker on its command line.
"""

import contextlib
import fcntl
import json
import os
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol, Self

from lab import processes
from lab.access import KINDS, Access, Kind, Servers
from lab.errors import LabError, NoWorld, Refused
from lab.processes import Process

Phase = Literal["rising", "up", "down"]

CLUSTERS = ("east", "west")
PRIMARY, STANDBY = CLUSTERS
REPLICATOR = "replicator"
TOPIC = "orders"
ISOLATIONS = ("read_committed", "read_uncommitted")
KAFKA_VERSIONS = ("4.3.1", "3.9.1")
PORTS = 20
"""A world uses the ports [base_port, base_port + PORTS)."""

SECURED: Mapping[str, Mapping[str, Kind]] = {
    one if one == other else f"{one},{other}": {PRIMARY: one, STANDBY: other} for one in KINDS for other in KINDS
}
"""How the clusters of a world may be secured: both in one way, or the primary in one and the standby in another."""

_PORTS_OF_A_CLUSTER = 8
_HTTP_OFFSET = 18
_FORMAT = 1


class Place(Protocol):
    """Two clusters and what is known of the traffic to them."""

    @property
    def acked(self) -> Path: ...

    def bootstrap(self, cluster: str) -> list[str]: ...

    def access_to(self, cluster: str) -> Access | None: ...

    def replicas(self, cluster: str) -> int: ...

    def may_answer(self, cluster: str) -> bool: ...


def other(cluster: str) -> str:
    """The other one of the two."""
    return STANDBY if cluster == PRIMARY else PRIMARY


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a world is made of; fixed for its life."""

    kafka: str = KAFKA_VERSIONS[0]
    brokers: int = 1
    """Per cluster: 1, or 3 (topics then have 3 replicas)."""
    base_port: int = 19092
    partitions: int = 4
    """Of the topic `orders`."""
    secured: str | None = None
    """The clusters want certificates (`mtls`) or passwords (`scram`), and allow only what the documents list."""
    isolation: str = "read_committed"
    """The `isolation.level` of the replicator: whether it copies aborted transactions as ordinary records."""

    def __post_init__(self) -> None:
        if self.kafka not in KAFKA_VERSIONS:
            raise Refused(f"the lab has no Kafka {self.kafka}", hint=f"choose one of {', '.join(KAFKA_VERSIONS)}")
        if self.brokers not in (1, 3):
            raise Refused(f"a cluster has 1 or 3 brokers, not {self.brokers}")
        if self.secured not in (None, *SECURED):
            raise Refused(f"a world cannot be secured by {self.secured}", hint=f"choose one of {' '.join(SECURED)}")
        if self.isolation not in ISOLATIONS:
            raise Refused(f"{self.isolation} is not an isolation level", hint=f"choose one of {' '.join(ISOLATIONS)}")
        if self.partitions < 1:
            raise Refused(f"a topic cannot have {self.partitions} partitions")
        if not 1024 <= self.base_port <= 65535 - PORTS:
            raise Refused(f"base port {self.base_port} leaves no room for {PORTS} ports")


@dataclass(frozen=True, kw_only=True)
class Broker:
    """One broker of a cluster; it is also one of its controllers."""

    cluster: str
    node: int
    """From 1."""
    port: int
    controller_port: int

    @property
    def name(self) -> str:
        """Name it goes by: `east-1`."""
        return f"{self.cluster}-{self.node}"


@dataclass(kw_only=True)
class World:
    """One world; every change is written at once."""

    directory: Path
    options: Options
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Distinguishes the processes of this world from those of any other."""
    phase: Phase = "rising"
    cluster_ids: dict[str, str] = field(default_factory=lambda: {cluster: _cluster_id() for cluster in CLUSTERS})
    started: dict[str, Process | None] = field(default_factory=dict)
    """By part: the process, or None while its pid is not known yet."""
    source: str = PRIMARY
    """Which cluster the replicator copies from."""

    @property
    def target(self) -> str:
        """Which cluster the replicator copies to."""
        return other(self.source)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read a world back; NoWorld when nothing was brought up here."""
        path = directory / "world.json"
        try:
            answer = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NoWorld(
                f"there is no world in {directory}", hint="bring one up: python -m lab up --dir DIR"
            ) from None
        except ValueError as error:
            raise LabError(f"{path} cannot be read: {error}", hint="remove the directory") from error
        if answer.pop("format", None) != _FORMAT:
            raise LabError(f"{path} was written by another version of the lab", hint="remove the directory")
        parts = {name: Process(**process) if process else None for name, process in answer.pop("started").items()}
        return cls(directory=directory, options=Options(**answer.pop("options")), started=parts, **answer)

    def save(self) -> None:
        """Write the world, whole or not at all."""
        reported = {
            "format": _FORMAT, "token": self.token, "phase": self.phase, "options": asdict(self.options),
            "cluster_ids": self.cluster_ids, "source": self.source,
            "started": {name: asdict(process) if process else None for name, process in self.started.items()},
        }  # fmt: skip
        partial = self.directory / "world.json.partial"
        partial.write_text(json.dumps(reported, indent=2) + "\n", encoding="utf-8")
        partial.replace(self.directory / "world.json")

    def enter(self, phase: Phase) -> None:
        """Move to a phase."""
        self.phase = phase
        self.save()

    def brokers(self, cluster: str) -> list[Broker]:
        """Return the brokers of a cluster with their ports."""
        first = self.options.base_port + CLUSTERS.index(cluster) * _PORTS_OF_A_CLUSTER
        return [
            Broker(cluster=cluster, node=node, port=first + 2 * (node - 1), controller_port=first + 2 * (node - 1) + 1)
            for node in range(1, self.options.brokers + 1)
        ]

    def broker(self, name: str) -> Broker:
        """Return a broker by its name."""
        return next(broker for cluster in CLUSTERS for broker in self.brokers(cluster) if broker.name == name)

    def bootstrap(self, cluster: str) -> list[str]:
        """Return the bootstrap servers of a cluster."""
        if cluster not in CLUSTERS:
            raise Refused(f"this world has no cluster {cluster}", hint=f"it has {' and '.join(CLUSTERS)}")
        return Servers([f"127.0.0.1:{broker.port}" for broker in self.brokers(cluster)], self.access_to(cluster))

    def access_to(self, cluster: str) -> Access | None:
        """Return the certificates or passwords of a cluster, where the world wants them."""
        secured = self.options.secured
        return None if secured is None else Access(self.directory / "secrets" / cluster, SECURED[secured][cluster])

    def replicas(self, cluster: str) -> int:
        """Return how many replicas a topic has."""
        return self.options.brokers

    def may_answer(self, cluster: str) -> bool:
        """Whether any broker of a cluster runs."""
        return any(self.look(part) == "running" for part in self.parts(cluster))

    @property
    def http_port(self) -> int:
        """Port of the controller's page, as written to the configuration."""
        return self.options.base_port + _HTTP_OFFSET

    @property
    def acked(self) -> Path:
        """Where traffic writes what was acknowledged to it."""
        return self.directory / "acked"

    @property
    def configuration(self) -> Path:
        """The product's configuration for this world."""
        return self.directory / "tideover.yaml"

    def parts(self, name: str | None = None) -> list[str]:
        """Return the names of the processes behind a name: a cluster, one of its brokers, the replicator, or all."""
        brokers = {cluster: [broker.name for broker in self.brokers(cluster)] for cluster in CLUSTERS}
        everything = [*brokers[PRIMARY], *brokers[STANDBY], REPLICATOR]
        if name is None:
            return everything
        if name in brokers:
            return brokers[name]
        if name in everything:
            return [name]
        raise Refused(
            f"this world has no part called {name}",
            hint=f"its parts: {', '.join(dict.fromkeys([*CLUSTERS, *everything]))}",
        )

    def folder(self, part: str) -> Path:
        """Return the folder of a process: its configuration, data and log."""
        return self.directory / part

    def log(self, part: str) -> Path:
        """Return the log of a process."""
        return self.folder(part) / "log"

    def marker(self, part: str) -> str:
        """Return the Java argument by which a process of this world is known."""
        return f"-Dtideover.lab={self.token}/{part}"

    def look(self, part: str) -> processes.State | Literal["stopped"]:
        """Return the state of a process; `stopped` when it was never started or was taken down on purpose."""
        if part not in self.started:
            return "stopped"
        process = self.started[part]
        return processes.look(process) if process else "gone"

    def start(self, part: str, command: Sequence[str], classpath: str) -> Process:
        """Start a process and remember it; the marker becomes the first argument after the binary."""
        self.started[part] = None
        self.save()
        binary, *arguments = command
        process = processes.spawn(
            [binary, self.marker(part), *arguments],
            log=self.log(part),
            environment={**os.environ, "CLASSPATH": classpath},
        )
        self.started[part] = process
        self.save()
        return process

    def adopt(self) -> None:
        """Find the processes whose pid was never written down."""
        for part, process in list(self.started.items()):
            if process is None:
                found = processes.find(self.marker(part))
                self.started[part] = found[0] if found else None
        self.save()

    def end(self, parts: Sequence[str], grace_seconds: float) -> None:
        """End processes and forget them."""
        self.adopt()
        processes.end([process for part in parts if (process := self.started.get(part))], grace_seconds)
        for part in parts:
            self.started.pop(part, None)
        self.save()


@contextlib.contextmanager
def hold(directory: Path, wait_seconds: float = 60.0) -> Iterator[None]:
    """Hold a world's lock, so that two commands never change it at once; the kernel frees it when we die."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refused(f"another command has been changing {directory} for {wait_seconds:g} s") from None
                time.sleep(0.1)
        yield


def _cluster_id() -> str:
    """Make an id as Kafka writes them: 16 bytes, and never a leading dash, which its own tool takes for an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return text
