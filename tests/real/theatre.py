"""Where failovers are struck: two clusters, one runner or two, and four queries whose sinks betray every mistake."""

import json
import os
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from lab import cluster, topics
from lab.world import CLUSTERS, Options, World
from state.errors import StoreUnavailable
from state.sql.migrate import open_store
from tests.ports import free_base_port
from tests.real.pipelines import kept, kept_ids, kept_sums
from tests.scene import Stage, exactly
from tests.streams import Cluster

ORDERS, PARCELS, COPIES = "orders", "parcels", "copies"
BATCH = 200


class Theatre(Stage):
    """The scene of this page: ``rows`` and ``sums`` read orders, ``boxed`` and ``copied`` read parcels.

    The checkpoints of ``boxed`` lie on a small disk of their own, ``copied`` writes to Kafka.
    """

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def store_file(self) -> Path:
        return self.folder / "tideover.db"

    def sink(self, query: str) -> Path:
        return self.folder / "sinks" / query

    def ids(self, query: str = "rows") -> Counter[int]:
        return kept_ids(self.sink(query))

    def more(self, topic: str, *names: str, count: int = BATCH) -> int:
        """Write the next ids to the clusters named, or to both; returns how many there are now."""
        end = max(each.ends[topic] for each in self.clusters.values()) + count
        self.extend(topic, end, *names)
        return end

    def await_all(self, topic: str) -> None:
        """Wait until the queries of a topic have read what any cluster holds, and nothing is under way."""
        end = max(each.ends[topic] for each in self.clusters.values())
        if topic == ORDERS:
            self.until(f"rows has {end}", lambda: self.ids().keys() >= set(range(end)))
            self.until(f"sums has {end}", lambda: sum(count for count, _ in self.sums().values()) >= end)
        else:
            self.until(f"boxed has {end}", lambda: end - 1 in self.ids("boxed") and end - 2 in self.ids("boxed"))
        self.until("operations are closed", lambda: not self.store.operations(only_open=True))

    def sums(self) -> dict[str, tuple[int, int]]:
        return kept_sums(self.sink("sums"))

    def assert_all_once(self) -> None:
        """Every order, once, in batches without a hole, by both queries that read them."""
        end = max(each.ends[ORDERS] for each in self.clusters.values())
        assert self.ids() == exactly(range(end))
        ours = [range(key, end, 3) for key in range(3)]
        assert self.sums() == {f"k{key}": (len(ids), sum(ids)) for key, ids in enumerate(ours)}
        for query in ("rows", "sums"):
            self.assert_no_batch_skipped(query)

    def assert_goes_on(self, here: str, there: str) -> None:
        """The queries read on where they were moved to, also when the cluster that was frozen is back."""
        self.more(ORDERS, there)
        self.await_all(ORDERS)
        self.thaw(here)
        self.more(ORDERS)
        self.await_all(ORDERS)
        self.assert_all_once()

    def assert_no_batch_skipped(self, query: str) -> None:
        """Batch ids run from 0, each with one content."""
        batches = [each["batch"] for each in kept(self.sink(query))]
        assert batches == list(range(len(batches))), query

    def freeze_runner(self, name: str) -> None:
        """A runner stands still, but not inside a transaction: the lock of a SQLite file would stand still with it."""
        while True:
            self.drivers[name].freeze()
            if is_unlocked(self.store_file):
                return
            self.drivers[name].thaw()
            time.sleep(0.02)

    @contextmanager
    def frozen_runner(self, name: str = "a") -> Iterator[None]:
        """A runner stands still, so that whatever is asked of it stays asked.

        Its heart is beaten for it: else a verb that starts slowly, as on a busy machine, finds no runner to ask.
        """
        self.freeze_runner(name)
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(name, over), name=f"heart of {name}")
        beating.start()
        try:
            yield
        finally:
            over.set()
            self.drivers[name].thaw()
            beating.join()

    def _beat(self, name: str, over: threading.Event) -> None:
        while not over.wait(0.5):
            with suppress(StoreUnavailable):
                (fact,) = (each for each in self.store.runners() if each.runner == name)
                self.store.register(replace(fact, seen_at=self.store.now()))

    def copied(self) -> dict[str, Counter[int]]:
        """Ids in the Kafka sink of each cluster."""
        return {name: Counter(read_ids(each.bootstrap, COPIES)) for name, each in self.clusters.items()}


@contextmanager
def opened(folder: Path) -> Iterator[Theatre]:
    """Everything runs, and every query has read what there is; all is ended afterwards."""
    world = World(directory=folder / "world", options=Options(base_port=free_base_port()))
    world.directory.mkdir()
    store_url = f"sqlite:///{folder / 'tideover.db'}"
    store = open_store(store_url)
    (folder / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder / "disk")], check=True)
    clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
    stage = Theatre(folder, store, settings(world, folder, store_url), clusters, world=world)
    parts = [part for name in CLUSTERS for part in world.parts(name)]
    try:
        cluster.start(world, parts, print)
        stage.make(ORDERS, PARCELS, COPIES)
        stage.extend(ORDERS, BATCH)
        stage.extend(PARCELS, BATCH)
        stage.run("a")
        stage.await_all(ORDERS)
        stage.await_all(PARCELS)
        yield stage
    finally:
        stage.close()
        store.close()
        world.end(parts, 0.0)
        subprocess.run(["umount", "--lazy", str(folder / "disk")], check=True)


def settings(world: World, folder: Path, store_url: str) -> dict[str, object]:
    def query(pipeline: str, name: str, topic: str, **more: object) -> dict[str, object]:
        return {
            "pipeline": f"tests.real.pipelines:{pipeline}",
            "settings": {"sink": str(folder / "sinks" / name)},
            "sources": {"orders": {"topics": [topic]}},
            "clusters": list(CLUSTERS),
            "runners": ["a", "b"],
            "checkpoint": str(folder / "checkpoints" / name),
            "trigger": "200ms",
            "sink": "batch-id",
            **more,
        }

    east, west = CLUSTERS
    return {
        "store": store_url,
        "clusters": {name: {"bootstrap": world.bootstrap(name)} for name in CLUSTERS},
        "routes": [{"from": east, "to": west}, {"from": west, "to": east}],
        "runners": {"a": {}, "b": {}},
        "spark": {"master": "local[16]", "conf": {"spark.sql.shuffle.partitions": 1}},
        "queries": {
            "rows": query("rows_by_batch", "rows", ORDERS),
            "sums": query("sums_by_batch", "sums", ORDERS),
            "boxed": query("rows_by_batch", "boxed", PARCELS, checkpoint=str(folder / "disk" / "boxed")),
            "copied": query(
                "copies", "copied", PARCELS, sink="append", settings={}, output={"cluster": "active", "topic": COPIES}
            ),
        },
    }


def read_ids(bootstrap: str, topic: str) -> list[int]:
    """All ids of a topic, by another client than the product's."""
    ends = topics.ends([bootstrap], topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: list[int] = []
    try:
        for partition, end in ends.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            while end and (message := consumer.poll(10.0)) is not None:
                assert message.error() is None
                found.append(json.loads(message.value())["id"])
                if message.offset() >= end - 1:
                    break
    finally:
        consumer.close()
    return [number for number in found if number >= 0]


def is_unlocked(path: Path) -> bool:
    """Whether nobody stands still with the store's one write lock; who merely writes is waited for."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0.5)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


@contextmanager
def locked_store(path: Path) -> Iterator[None]:
    """Hold the store's one write lock, as a backup or a stuck process does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def free_bytes(folder: Path) -> int:
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize
