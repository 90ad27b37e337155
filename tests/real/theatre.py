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
from functools import partial
from pathlib import Path
from typing import Any

from lab.world import CLUSTERS, World
from state.errors import StoreUnavailable
from state.store.sql.migrate import open_store
from tests.real.pipelines import HOLD, kept, kept_ids, kept_sums, sums_of
from tests.scene import Driver, Stage, exactly
from tests.streams import Cluster, position
from tests.topics import read_whole
from tests.world import running_clusters

ORDERS, PARCELS, LETTERS, COPIES = "orders", "parcels", "letters", "copies"
BATCH = 200


class Theatre(Stage):
    """The scene of this page: ``rows`` and ``sums`` read orders, ``boxed`` reads parcels and ``copied`` letters.

    ``rows`` and ``copied`` keep their checkpoints, as is the default, the others are carried. The checkpoints of
    ``boxed`` lie on a small disk of their own, ``copied`` writes to Kafka. One runner hosts all of them; which one, and
    on which cluster, depends on the tests that came before.
    """

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def store_file(self) -> Path:
        return self.folder / "tideover.db"

    def sink(self, query: str) -> Path:
        return self.folder / "sinks" / query

    @property
    def host(self) -> Driver:
        """The runner that the queries run on."""
        (name,) = {row.runner for row in self.store.assignments()}
        return self.drivers[name]

    def stand_by(self) -> Driver:
        """Start the other runner, and wait until it is there."""
        (name,) = {"a", "b"} - {self.host.name}
        spare = self.run(name)
        self.until(f"{name} is there", lambda: spare.process.pid in {fact.pid for fact in self.store.runners()})
        return spare

    def gathered(self) -> tuple[str, str]:
        """Where all queries are, and where none is; those that a test has moved alone follow ``rows`` first.

        Both clusters hold every order then, and each is read and tracked: a standby that lacks the newest records has
        no exact place for who has read them, and what is not tracked is read again.
        """
        here, there = self.sides("rows")
        self.extend(ORDERS, max(each.ends[ORDERS] for each in self.clusters.values()))
        self.await_all(ORDERS)
        if {row.cluster for row in self.store.assignments()} != {here}:
            said = self.failover("--all", here).end()
            assert said.code == 0, said.err
        return here, there

    def move(self, verb: str, there: str, *more: str) -> dict[str, Any]:
        """Type it for all queries; how their operations went."""
        said = self.type(verb, "--all", "--to", there, *more, "--yes", "-o", "json").end()
        assert said.code == 0, said.err + said.out
        return said.operations

    def ids(self, query: str = "rows") -> Counter[int]:
        return kept_ids(self.sink(query))

    def more(self, topic: str, *names: str, count: int = BATCH) -> int:
        """Write the next ids to the clusters named, or to both; returns how many there are now."""
        end = max(each.ends[topic] for each in self.clusters.values()) + count
        self.extend(topic, end, *names)
        return end

    def make_again(self, topic: str, name: str) -> None:
        """A topic that was deleted from a cluster is there again, with all that the other one holds."""
        end = max(each.ends[topic] for each in self.clusters.values())
        self.clusters[name].make(topic, foreign=name != CLUSTERS[0])
        self.extend(topic, end, name)

    def await_all(self, topic: str) -> None:
        """Wait until the queries of a topic have read what any cluster holds, have said so, and nothing is under way.

        A runner that is struck between a commit and its report leaves a batch to be read again, as the plan says then.
        """
        end = max(each.ends[topic] for each in self.clusters.values())
        if topic == ORDERS:
            self.until(
                f"rows has {end}",
                lambda: self.ids().keys() >= set(range(end)),
                instead=lambda: f"and lacks {sorted(set(range(end)) - self.ids().keys())[:3]}",
            )
            self.until(f"sums has {end}", lambda: sum(count for count, _ in self.sums().values()) >= end)
        else:
            self.until(f"boxed has {end}", lambda: end - 1 in self.ids("boxed") and end - 2 in self.ids("boxed"))
        for query in ("rows", "sums") if topic == ORDERS else ("boxed",):
            self.until(f"all that {query} has read is tracked", partial(self.is_tracked, query, topic))
        self.until("operations are closed", lambda: not self.store.operations(only_open=True))

    def is_tracked(self, query: str, topic: str) -> bool:
        """Whether the newest record of each partition that the query has read is remembered."""
        here, _ = self.sides(query)
        ends = position(self.clusters[here].ends[topic], topic=topic, shifted=here != CLUSTERS[0])[topic]
        last = {str(row.partition): row.ring[-1].offset for row in self.store.positions(query) if row.ring}
        return all(last.get(key, -1) >= end - 1 for key, end in ends.items())

    def sums(self) -> dict[str, tuple[int, int]]:
        return kept_sums(self.sink("sums"))

    def assert_all_once(self) -> None:
        """Every order, once, in batches without a hole, by both queries that read them."""
        end = max(each.ends[ORDERS] for each in self.clusters.values())
        assert self.ids() == exactly(range(end))
        assert self.sums() == sums_of(end)
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

    def hold_batches(self, *queries: str) -> dict[str, int]:
        """One of each that its sink has and Spark has not committed, until ``HOLD`` is taken away; their ids."""
        held = {query: kept(self.sink(query))[-1]["batch"] + 1 for query in queries}
        for query in queries:
            self.sink(query).joinpath(HOLD).touch()
        self.more(ORDERS)
        for query, batch in held.items():
            self.until(f"{query} has a batch", partial(self._has_batch, query, batch))
        return held

    def _has_batch(self, query: str, batch: int) -> bool:
        """Whether the sink has it."""
        return bool(kept(self.sink(query))[-1]["batch"] >= batch)

    def assert_no_batch_skipped(self, query: str) -> None:
        """Batch ids run from 0, each with one content."""
        batches = [each["batch"] for each in kept(self.sink(query))]
        assert batches == list(range(len(batches))), query

    def run_ids(self) -> dict[str, str | None]:
        """By query the run that its runner reported last."""
        return {fact.query: fact.run_id for fact in self.store.query_facts()}

    def fence_text(self, operation: str) -> str:
        """What the fence of an operation found."""
        found = [each.detail["detail"] for each in self.store.steps(operation) if "proof" in each.detail]
        return str(found[-1])

    def freeze_host(self) -> Driver:
        """The runner is frozen, but not in a transaction: the lock of a SQLite file would stand still with it."""
        host = self.host
        while True:
            host.freeze()
            if is_unlocked(self.store_file):
                return host
            host.thaw()
            time.sleep(0.02)

    @contextmanager
    def frozen_host(self) -> Iterator[None]:
        """The runner is frozen, so that whatever is requested of it stays open.

        Its heart is beaten for it: else a verb that starts slowly, as on a busy machine, finds no runner.
        """
        host = self.freeze_host()
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(host.name, over), name=f"heart of {host.name}")
        beating.start()
        try:
            yield
        finally:
            over.set()
            host.thaw()
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
    store_url = f"sqlite:///{folder / 'tideover.db'}"
    with (
        small_disk(folder / "disk"),
        running_clusters(folder / "world") as world,
        closing(open_store(store_url)) as store,
        closing(Theatre(folder, store, settings(world, folder, store_url), sides_of(world), world=world)) as stage,
    ):
        stage.make(ORDERS, PARCELS, LETTERS, COPIES)
        for topic in (ORDERS, PARCELS, LETTERS):
            stage.extend(topic, BATCH)
        stage.run("a")
        stage.await_all(ORDERS)
        stage.await_all(PARCELS)
        stage.until("the letters are copied", lambda: stage.copied()[CLUSTERS[0]] == exactly(range(BATCH)))
        yield stage


def sides_of(world: World) -> dict[str, Cluster]:
    return {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def settings(world: World, folder: Path, store_url: str) -> dict[str, Any]:
    def query(pipeline: str, name: str, topic: str, **more: Any) -> dict[str, Any]:
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
            "sums": query("sums_by_batch", "sums", ORDERS, resume="carry"),
            "boxed": query(
                "rows_by_batch", "boxed", PARCELS, checkpoint=str(folder / "disk" / "boxed"), resume="carry"
            ),
            "copied": query(
                "copies", "copied", LETTERS, sink="append", settings={}, output={"cluster": "active", "topic": COPIES}
            ),
        },
    }


def read_ids(bootstrap: str, topic: str) -> list[int]:
    """All ids of a topic, by another client than the product's."""
    found = [json.loads(value)["id"] for *_, value in read_whole(bootstrap, topic)]
    return [number for number in found if number >= 0]


def is_unlocked(path: Path) -> bool:
    """Whether no process is frozen with the store's one write lock; who merely writes is waited for."""
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
        connection.execute("PRAGMA busy_timeout = 60000")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def free_bytes(folder: Path) -> int:
    reported = os.statvfs(folder)
    return reported.f_bavail * reported.f_frsize
