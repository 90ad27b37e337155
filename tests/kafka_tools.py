"""Kafka's own test producers as processes, and what their JSON lines say: the truth of a test run.

``VerifiableProducer`` sends increasing integers and prints one line for each that was acknowledged;
``TransactionalMessageCopier`` copies one partition into a topic in transactions, of which it aborts one in three at
random and sends those records again, and prints before each transaction how many it has committed so far.
"""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import java
from lab.world import KAFKA_VERSIONS

PACKAGE = "org.apache.kafka.tools"
_HEAP_MB = 96
_KEYS = 100


@dataclass
class Tool:
    """One process; its JSON lines go to a file."""

    process: "subprocess.Popen[bytes]"
    out: Path

    @classmethod
    def start(cls, name: str, out: Path, *arguments: object) -> "Tool":
        """Start a tool of ``org.apache.kafka.tools``."""
        command = java.command(f"{PACKAGE}.{name}", *map(str, arguments), heap_mb=_HEAP_MB)
        environment = {**os.environ, "CLASSPATH": java.classpath(KAFKA_VERSIONS[0], print)}
        with out.open("wb") as lines, out.with_suffix(".log").open("wb") as log:
            return cls(subprocess.Popen(command, stdout=lines, stderr=log, env=environment), out)

    def said(self) -> Iterator[Mapping[str, Any]]:
        """The lines so far; a killed tool leaves a last one that is cut off."""
        for line in self.out.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def end(self) -> None:
        """Kill it, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@dataclass
class Producer:
    """A ``VerifiableProducer``; with a ``prefix`` its values are ``prefix.number``."""

    tool: Tool

    @classmethod
    def start(
        cls, out: Path, bootstrap: str, topic: str, *, most: int = -1, rate: int = -1, prefix: int | None = None
    ) -> "Producer":
        """Keys repeat: a record without one would go to whatever partition the producer sticks to."""
        words: list[object] = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", most]
        words += ["--repeating-keys", _KEYS]
        words += ["--throughput", rate, *(() if prefix is None else ("--value-prefix", prefix))]
        return cls(Tool.start("VerifiableProducer", out, *words))

    def acknowledged(self) -> dict[int, dict[int, str]]:
        """The values by partition and offset."""
        found: dict[int, dict[int, str]] = defaultdict(dict)
        for line in self.tool.said():
            if line["name"] == "producer_send_success":
                found[line["partition"]][line["offset"]] = line["value"]
        return found


@dataclass
class Copier:
    """A ``TransactionalMessageCopier`` of one partition, which aborts at random."""

    tool: Tool
    size: int = field(default=0)

    @classmethod
    def start(cls, out: Path, bootstrap: str, source: str, target: str, partition: int, *, size: int) -> "Copier":
        words = ["--broker-list", bootstrap, "--input-topic", source, "--output-topic", target]
        words += ["--input-partition", str(partition), "--transaction-size", str(size), "--enable-random-aborts"]
        words += ["--consumer-group", f"copier-{partition}", "--transactional-id", f"copier-{partition}"]
        return cls(Tool.start("TransactionalMessageCopier", out, *words), size)

    def committed(self) -> int:
        """How many messages it is known to have committed; the transaction after that may be committed as well."""
        return max((line["totalProcessed"] for line in self.tool.said()), default=0)
