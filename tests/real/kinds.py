"""More kinds of queries in a world of the lab, and a judge who reads each of their sinks whole.

``joined`` joins two topics, ``copied`` writes to Kafka, ``delta`` writes to a Delta table, and ``taken`` reads what
``handed`` writes to Kafka. Each id is produced once to ``requested`` and once to ``paid``. The topic of ``copied`` has
a name that MirrorMaker 2 leaves out by default (``DefaultTopicFilter``), so what is in it on either cluster was
written by the query, and a repeat cannot hide. The topic of ``handed`` is copied like any other.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pyspark
from confluent_kafka import Producer

from lab import topics
from lab.configuration import changing, declaration
from lab.log import read_on
from lab.stage import Stage
from lab.world import CLUSTERS
from streaming.jars import jar_paths
from tests.real.pipelines import kept, kept_ids
from tests.waiting import until

REQUESTED, PAID, COPIES, HANDS = "requested", "paid", "copies.replica", "hands"
JOINED, COPIED, DELTA, HANDED, TAKEN = "joined", "copied", "delta", "handed", "taken"
PARTITIONS = 2
_READS = {JOINED: (REQUESTED, PAID), COPIED: (REQUESTED,), DELTA: (PAID,), HANDED: (REQUESTED,), TAKEN: (REQUESTED,)}
"""The topics whose ids come to a query, at first or at second hand."""
_WRITES = {COPIED: COPIES, HANDED: HANDS}
_PIPELINES = {
    JOINED: "joined_ids", COPIED: "copies", DELTA: "delta_ids", HANDED: "copies", TAKEN: "rows_by_batch",
}  # fmt: skip
DELTA_CONF = {
    "spark.databricks.delta.snapshotPartitions": 1,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_TICK_SECONDS = 0.02
_FLUSH_SECONDS = 10.0
_MOST_REPORTED = 20

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


def declare(on: Stage, *names: str, alone: bool = False) -> None:
    """Add these queries to the configuration of a world, or put them in the place of its own; make their topics."""
    with changing(on.config) as declared:
        example = next(iter(declared["queries"].values()))
        common = {"clusters": example["clusters"], "runners": example["runners"]}
        added = {name: {**_settings_of(on, name), **common} for name in names}
        declared["queries"] = added if alone else {**declared["queries"], **added}
        if DELTA in names:
            jars = ",".join(map(str, jar_paths(f"delta-{pyspark.__version__}")))
            declared["spark"]["conf"] |= {**DELTA_CONF, "spark.jars": jars}
    home, away = CLUSTERS
    for topic in (REQUESTED, PAID, COPIES, HANDS):
        topics.create(bootstrap(on, away), topic, PARTITIONS, 1)
        if topic != COPIES:
            topics.put_foreign(bootstrap(on, away), topic, lambda partition: 7 * (partition + 1), aged=True)
        topics.create(bootstrap(on, home), topic, PARTITIONS, 1)


def _settings_of(on: Stage, name: str) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "pipeline": f"tests.real.pipelines:{_PIPELINES[name]}",
        "sources": {topic: {"topics": [topic]} for topic in _READS[name]},
        "checkpoint": str(on.world / "checkpoints" / name),
        "settings": {"sink": str(sink(on, name))},
        "sink": "batch-id",
    }
    if name in _WRITES:
        output = {"cluster": "active", "topic": _WRITES[name]}
        declared |= {"sources": {"orders": {"topics": [REQUESTED]}}, "settings": {}, "sink": "append", "output": output}
    if name == TAKEN:
        declared["sources"] = {"orders": {"topics": [HANDS]}}
    return declared


def sink(on: Stage, name: str) -> Path:
    """The folder of a sink."""
    return on.world / "sinks" / name


def bootstrap(on: Stage, cluster: str) -> Sequence[str]:
    """Where a cluster listens."""
    return list(declaration(on.config)["clusters"][cluster]["bootstrap"])


class Pairs:
    """Produces each id once to either topic, until it is stopped; no two of them may begin at one id."""

    def __init__(self, servers: Sequence[str], first: int, rate: int) -> None:
        self._next, self._rate = first, rate
        settings = {"enable.idempotence": True, "message.timeout.ms": 5000, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": ",".join(servers), **settings})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="pairs", daemon=True)
        self._thread.start()

    def _produce(self) -> None:
        first, began = self._next, time.monotonic()
        while not self._over.wait(_TICK_SECONDS):
            while self._next < first + (time.monotonic() - began) * self._rate:
                for topic in (REQUESTED, PAID):
                    value = json.dumps({"id": self._next})
                    self._producer.produce(topic, key=str(self._next), value=value, partition=self._next % PARTITIONS)
                self._next += 1
            self._producer.poll(0)

    def stop(self) -> None:
        """Produce no more; what was produced is answered, or given up where the cluster is dead."""
        self._over.set()
        self._thread.join()
        self._producer.flush(_FLUSH_SECONDS)


@contextmanager
def pairs(on: Stage, cluster: str, first: int, rate: int = 200) -> Iterator[Pairs]:
    """Load on a cluster for the length of a block."""
    load = Pairs(bootstrap(on, cluster), first, rate)
    try:
        yield load
    finally:
        load.stop()


def records(on: Stage, cluster: str, topic: str) -> dict[Place, tuple[Any, ...]]:
    """By place, key, value and time of every record, by another client than the product's."""
    return {
        (topic, message.partition(), message.offset()): (message.key(), message.value(), message.timestamp()[1])
        for message in read_on(bootstrap(on, cluster), topic, {})
    }


def tail(on: Stage, name: str, cluster: str, other: str) -> set[Place]:
    """The records that a query reads and that only one cluster has."""
    found: set[Place] = set()
    for topic in _READS[name]:
        there = set(records(on, other, topic).values())
        found |= {place for place, record in records(on, cluster, topic).items() if record not in there}
    return found


def delivered(on: Stage, name: str) -> Counter[int]:
    """How often each id is in a sink."""
    if name == COPIED:
        both = (records(on, cluster, COPIES).values() for cluster in CLUSTERS)
        return Counter(json.loads(value)["id"] for each in both for _, value, _ in each)
    if name == DELTA:
        return Counter(_in_delta(sink(on, name)))
    if name == TAKEN:
        return kept_ids(sink(on, name))
    return Counter(row[0] for each in kept(sink(on, name)) for row in each["rows"])


def _in_delta(table: Path) -> Iterator[int]:
    """By the table's own log: each file that it has added, once for each time; nothing here removes one."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            assert "remove" not in action, entry
            if "add" in action:
                file = table / action["add"]["path"]
                yield from pyarrow.parquet.read_table(file, columns=["id"]).column("id").to_pylist()


def wanted(on: Stage, name: str, home: str, spared: Collection[Place] = ()) -> tuple[set[int], set[int]]:
    """The ids that must stand in a sink, and those that may: of these a record is ``spared``, a tail of ``home``."""
    sure, may = [], set()
    for topic in _READS[name]:
        held = {place: json.loads(record[1])["id"] for place, record in records(on, home, topic).items()}
        sure.append({number for place, number in held.items() if place not in spared and number >= 0})
        may |= {number for place, number in held.items() if place in spared}
    every = set.intersection(*sure)
    return every - may, may | every


def assert_delivered(
    on: Stage, names: Collection[str], home: str, tails: Mapping[str, Collection[Place]], twice: int = 0
) -> None:
    """Every id of the home cluster once in each sink; what only that ever had at most once. Waits for the last ones.

    ``twice``: so many ids may stand twice in the Kafka sink, because a plan said so.
    """
    for name in names:
        must, may = wanted(on, name, home, tails.get(name, ()))
        assert must, name
        until(lambda name=name, must=must: delivered(on, name).keys() >= must, f"{name} lost none")  # type: ignore[misc]
        found = delivered(on, name)
        repeated = {number: count for number, count in found.items() if count > 1}
        assert found.keys() <= may, (name, found.keys() - may)
        declared = (name, len(repeated), sorted(repeated.items())[:_MOST_REPORTED])
        assert not repeated or (name == COPIED and len(repeated) <= twice), declared
        more = len(found.keys() - must)
        print(f"{name}: {len(must):,} ids once each, {more} more of a tail of {len(tails.get(name, ()))}")
