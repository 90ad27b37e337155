"""A primary and a standby of one broker each, and a real MirrorMaker 2 between them that can be killed."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from lab import java, topics
from lab.mirror import settings_for
from lab.world import CLUSTERS, KAFKA_VERSIONS, PRIMARY, STANDBY
from tests.broker import running_broker
from tests.topics import make_topic

PARTITIONS = 4
_WAIT_SECONDS = 180.0
_UNMOVED_SECONDS = 1.5
_BROKER = {
    "log.message.timestamp.after.max.ms": str((1 << 63) - 1),  # a far-future record is one of the cases
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "auto.create.topics.enable": "false",
}
_TOPIC = {"retention.ms": "-1", "max.message.bytes": "2000000"}


@dataclass
class Pair:
    """Two clusters; the replicator carries every topic under its own name."""

    east: str
    west: str
    folder: Path
    _replicator: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def make(self, topic: str, *, primary: Mapping[str, str], standby: Mapping[str, str]) -> None:
        """Make a topic on both sides, each with settings of its own."""
        for bootstrap, settings in ((self.east, primary), (self.west, standby)):
            wanted = NewTopic(topic, PARTITIONS, 1, config={**_TOPIC, **settings})
            make_topic({"bootstrap.servers": bootstrap}, wanted)

    def replicate(self) -> None:
        """Start the replicator; it replicates some seconds later."""
        route = f"{PRIMARY}->{STANDBY}"
        settings = settings_for(
            {PRIMARY: [self.east], STANDBY: [self.west]}, replicas=1, isolation="read_uncommitted"
        ) | {
            f"{route}.sync.topic.configs.enabled": "false",  # the sides of a case differ on purpose
            f"{route}.sync.topic.acls.enabled": "false",
        }
        path = self.folder / "mm2.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        jars = java.classpath(KAFKA_VERSIONS[0], print)
        environment = {**os.environ, "CLASSPATH": jars}
        command = java.command("org.apache.kafka.connect.mirror.MirrorMaker", str(path), heap_mb=700, class_path=jars)
        with (self.folder / "mm2.log").open("ab") as log:
            self._replicator = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """End the replicator as a crash does."""
        if self._replicator is not None:
            self._replicator.kill()
            self._replicator.wait(_WAIT_SECONDS)
            self._replicator = None

    def ends(self, bootstrap: str, topic: str) -> dict[int, int]:
        """The end offset of every partition."""
        return topics.ends([bootstrap], topic, timeout=_WAIT_SECONDS)

    def await_growth(self, topic: str, before: int) -> None:
        """Wait until the standby holds more records of a topic than before."""
        self._await(lambda: sum(self.ends(self.west, topic).values()) > before, f"{topic} does not grow")

    def await_records(self, least: Mapping[str, Mapping[int, int]]) -> None:
        """Wait until the standby's partitions end at these offsets or after them, and move no more."""
        for topic, ends in least.items():
            self._await(partial(self._reaches, topic, ends), f"{topic} is not replicated")
        seen: list[dict[int, int]] = []
        while (now := [self.ends(self.west, topic) for topic in least]) != seen:
            seen = now
            time.sleep(_UNMOVED_SECONDS)

    def _reaches(self, topic: str, ends: Mapping[int, int]) -> bool:
        return all(end >= ends[number] for number, end in self.ends(self.west, topic).items())

    def _await(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while not is_so():
            if time.monotonic() > deadline or (self._replicator is not None and self._replicator.poll() is not None):
                text = (self.folder / "mm2.log").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"{what}; the end of the replicator's log:\n{text[-2000:]}")
            time.sleep(0.2)


@contextmanager
def running_pair(folder: Path) -> Iterator[Pair]:
    """Start both brokers; the replicator is started by who needs it, and ends with them."""
    first, second = (folder / name for name in CLUSTERS)
    with ExitStack() as running, ThreadPoolExecutor() as pool:
        brokers = [running_broker(each, settings=_BROKER) for each in (first, second)]
        east, west = pool.map(running.enter_context, brokers)
        pair = Pair(east, west, folder)
        try:
            yield pair
        finally:
            pair.kill()
