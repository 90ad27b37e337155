"""A Kafka cluster of the world: brokers that are their own controllers (KRaft), with settings made for quick starts."""

import os
import subprocess
import time
from collections.abc import Sequence

from lab import java, ports, topics
from lab.errors import ClusterSilent, StartFailed
from lab.java import Say
from lab.processes import tail
from lab.world import Broker, World

_FORMAT_SECONDS = 120.0
_START_SECONDS = 120.0
_POLL_SECONDS = 0.1
_HEAP_MB = 512


def properties(world: World, broker: Broker) -> dict[str, object]:
    """Return a broker's configuration."""
    brokers = world.brokers(broker.cluster)
    replicas = len(brokers)
    majority = replicas // 2 + 1
    access = world.access_to(broker.cluster)
    protocol = access.protocol if access else "PLAINTEXT"
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": broker.node,
        "listeners": f"{protocol}://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"{protocol}://127.0.0.1:{broker.port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each.node}@127.0.0.1:{each.controller_port}" for each in brokers),
        "log.dirs": world.folder(broker.name) / "data",
        "default.replication.factor": replicas,
        "min.insync.replicas": majority,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        "num.network.threads": 2,
        "num.io.threads": 4,
    }
    if replicas > 1:  # a lone broker has no other to fail over to, and should not be fenced because the machine is busy
        settings |= {"broker.session.timeout.ms": 5000, "broker.heartbeat.interval.ms": 1000}
    return settings | (access.broker() if access else {})


def start(world: World, parts: Sequence[str], say: Say) -> None:
    """Start brokers, formatting their storage the first time, and wait until their clusters know them.

    Raises StartFailed where a port is in use, and with the end of the log of a broker that did not come up; the others
    are left to the caller.
    """
    classpath = java.classpath(world.options.kafka, say)
    brokers = [world.broker(part) for part in parts]
    _refuse_taken_ports(brokers)
    _format(world, [broker for broker in brokers if not (world.folder(broker.name) / "data").exists()], classpath)
    for broker in brokers:
        program = java.command("kafka.Kafka", _configuration(world, broker), heap_mb=_HEAP_MB, class_path=classpath)
        world.start(broker.name, program, classpath)
    for cluster in dict.fromkeys(broker.cluster for broker in brokers):
        _await(world, [broker for broker in brokers if broker.cluster == cluster])


def _refuse_taken_ports(brokers: Sequence[Broker]) -> None:
    """Before Kafka finds out, who says so in a stack trace."""
    in_use = ports.taken(port for broker in brokers for port in (broker.port, broker.controller_port))
    if in_use:
        raise StartFailed(
            f"another process uses port {', '.join(map(str, in_use))} of this machine",
            hint=f"choose 20 free ports: --base-port {ports.free_base_port()}",
        )


def _format(world: World, brokers: Sequence[Broker], classpath: str) -> None:
    """Format storage, all at once: each is a second of Java."""
    for cluster in {broker.cluster for broker in brokers}:
        if access := world.access_to(cluster):
            access.make()
    running = []
    for broker in brokers:
        access = world.access_to(broker.cluster)
        folder = world.folder(broker.name)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in properties(world, broker).items()]
        (folder / "broker.properties").touch(mode=0o600)  # it may hold a password
        (folder / "broker.properties").write_text("".join(lines), encoding="utf-8")
        command = java.command(
            "kafka.tools.StorageTool", "format", "--cluster-id", world.cluster_ids[broker.cluster],
            "--config", _configuration(world, broker), *(access.storage() if access else ()),
            heap_mb=128, class_path=classpath,
        )  # fmt: skip
        with (folder / "format.log").open("wb") as log:
            environment = {**os.environ, "CLASSPATH": classpath}
            running.append((broker, subprocess.Popen(command, stdout=log, stderr=log, env=environment)))
    for broker, process in running:
        try:
            code = process.wait(_FORMAT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code:
            output = tail(world.folder(broker.name) / "format.log")
            raise StartFailed(f"the storage of {broker.name} could not be formatted:\n{output}")


def _await(world: World, brokers: Sequence[Broker]) -> None:
    """Wait until every started broker is part of its cluster."""
    deadline = time.monotonic() + _START_SECONDS
    wanted = {broker.node for broker in brokers}
    cluster = brokers[0].cluster
    while True:
        for broker in brokers:
            if world.look(broker.name) != "running":
                raise _failed(world, broker, "ended while starting")
        try:
            identity, known = topics.broker_ids(world.bootstrap(cluster), timeout=1.0)
            if identity == world.cluster_ids[cluster] and wanted <= known:  # else another world has our port
                return
        except ClusterSilent:
            pass
        if time.monotonic() > deadline:
            raise _failed(world, brokers[0], f"was not part of {cluster} after {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _failed(world: World, broker: Broker, what: str) -> StartFailed:
    log = world.log(broker.name)
    return StartFailed(f"broker {broker.name} {what}; the end of {log}:\n{tail(log)}")


def _configuration(world: World, broker: Broker) -> str:
    return str(world.folder(broker.name) / "broker.properties")
