"""One real Kafka broker for the measurements that need no second cluster: controller and broker in one JVM.

`python -m lab` would bring two clusters and a replicator, whose threads would take part in every figure.
"""

import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.errors import BenchError
from streaming.jars import jar_paths
from streaming.java import java_home_binary

KAFKA = "4.3.1"
_START_SECONDS = 60.0

_LOG4J = """Configuration:
  Appenders: {Console: {name: C, PatternLayout: {pattern: "%d %p %m (%c)%n"}}}
  Loggers: {Root: {level: WARN, AppenderRef: {ref: C}}}
"""


def kafka_command(directory: Path, main: str, *arguments: str, heap: str = "512m") -> list[str]:
    """The command line of one of Kafka's own programs, with the locked jars."""
    log4j = directory / "log4j2.yaml"
    log4j.write_text(_LOG4J, encoding="utf-8")
    classpath = ":".join(str(path) for path in jar_paths(f"kafka-{KAFKA}"))
    java = str(java_home_binary())
    return [java, f"-Xmx{heap}", f"-Dlog4j2.configurationFile={log4j}", "-cp", classpath, main, *arguments]


@contextmanager
def broker(directory: Path, port: int) -> Iterator[str]:
    """A broker on ``port`` (its controller on the next one) for the length of a block; gives ``host:port``.

    Raises BenchError when it does not answer within a minute.
    """
    directory.mkdir(parents=True, exist_ok=True)
    bootstrap = f"127.0.0.1:{port}"
    properties = directory / "broker.properties"
    properties.write_text(_properties(directory, bootstrap, f"127.0.0.1:{port + 1}"), encoding="utf-8")
    log = directory / "broker.log"
    with log.open("ab") as out:
        _format(directory, properties, out.fileno())
        command = kafka_command(directory, "kafka.Kafka", str(properties), heap="1g")
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        _await(bootstrap, process, log)
        yield bootstrap
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Make topics with their partition counts, and wait until the broker knows all of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in topics.items()]
    for future in admin.create_topics(wanted, request_timeout=60).values():
        future.result(90)


def _format(directory: Path, properties: Path, out: int) -> None:
    identity = str(uuid.uuid4())
    command = kafka_command(
        directory, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(properties), "--ignore-formatted"
    )
    done = subprocess.run(command, stdout=out, stderr=out, timeout=_START_SECONDS, check=False)
    if done.returncode:
        raise BenchError(f"the broker's storage could not be formatted: see {directory / 'broker.log'}")


def _await(bootstrap: str, process: subprocess.Popen[bytes], log: Path) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            admin.list_topics(timeout=1)
            return
        except KafkaException:
            time.sleep(0.2)
    raise BenchError(f"the broker did not answer within {_START_SECONDS:g} s: see {log}")


def _properties(directory: Path, listener: str, controller: str) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://{listener},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{listener}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        "log.index.size.max.bytes": 65536,  # thousands of partitions on one disk: the default maps 10 MiB each
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
