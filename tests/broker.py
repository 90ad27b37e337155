"""One real KRaft broker for a test session, on free ports of the loopback, ended by its own pid."""

import os
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.java import archive
from streaming import class_archive
from streaming.jars import jar_paths, java_home_binary
from tests.ports import free_port

_FORMAT_SECONDS = 120
_START_SECONDS = 120.0


@contextmanager
def running_broker(
    folder: Path,
    *,
    kafka: str = "kafka-4.3.1",
    settings: Mapping[str, str] | None = None,
    cluster_id: str | None = None,
    scram: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[str]:
    """Start a broker and yield its bootstrap address; in a folder of an earlier one its storage is used again.

    ``settings`` are added to its configuration; ``LISTEN`` in their values is the client listener's address, and
    ``LISTEN_PORT`` its port.
    ``scram`` are passwords by user that are there (SCRAM-SHA-512) before the broker first starts.
    ``java_options`` are for its JVM.
    """
    listen, controller = (f"127.0.0.1:{free_port()}" for _ in range(2))
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "broker.properties"
    lines = _properties(folder, listen, controller) | {
        key: value.replace("LISTEN_PORT", listen.split(":")[1]).replace("LISTEN", listen)
        for key, value in (settings or {}).items()
    }
    configuration.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    log_settings = folder / "log4j2.yaml"
    log_settings.write_text(_LOGGING, encoding="utf-8")
    jars = os.pathsep.join(str(jar) for jar in jar_paths(kafka))
    environment = {**os.environ, "CLASSPATH": jars}
    java = [str(java_home_binary()), "-Xmx512m", f"-Dlog4j2.configurationFile={log_settings}"]
    formatter, broker = ([*java, *class_archive.options(archive(name, jars))] for name in ("StorageTool", "Kafka"))
    with (folder / "broker.log").open("wb") as log:
        identity = cluster_id or new_cluster_id()
        format_storage = [*formatter, "kafka.tools.StorageTool", "format", "-g", "-t", identity]
        format_storage += ["-c", str(configuration)]
        for user, password in (scram or {}).items():
            format_storage += ["-S", f"SCRAM-SHA-512=[name={user},password={password}]"]
        subprocess.run(format_storage, env=environment, stdout=log, stderr=log, timeout=_FORMAT_SECONDS, check=True)
        process = subprocess.Popen(
            [*broker, *java_options, "kafka.Kafka", str(configuration)], env=environment, stdout=log, stderr=log
        )
    try:
        _await(process, listen, folder)
        yield listen
    finally:
        process.kill()
        process.wait(_START_SECONDS)


def new_cluster_id() -> str:
    """A cluster id; a dash in front would be taken for an option."""
    return "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _await(process: "subprocess.Popen[bytes]", listen: str, folder: Path) -> None:
    host, port = listen.split(":")
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    text = (folder / "broker.log").read_text(encoding="utf-8", errors="replace")
    raise AssertionError(f"the broker did not start:\n{text[-2000:]}")


def _properties(folder: Path, listen: str, controller: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{listen},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{listen}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "true",  # a link that creates topics by a request shall be caught
        "log.retention.ms": "-1",  # tests write records of long ago
    }


_LOGGING = """Configuration:
  Appenders: {Console: {name: C, PatternLayout: {pattern: "%d %p %m (%c)%n"}}}
  Loggers: {Root: {level: WARN, AppenderRef: {ref: C}}}
"""
