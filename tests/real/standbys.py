"""Two real clusters whose records are noted down one by one, and queries whose positions lie in a real store.

What a plan says is held against the notes: no unread record lies before a place, and no more is read again than was
forecast. Positions are made by the product's own tracker, from a batch that no Spark has run.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition as TheirPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from lab.delivery import Delivery
from orchestrator.cli import main
from state.messages import Offsets
from state.model.entities import Assignment, Desired, QueryFact, RunnerFact, RunState
from state.settings.keys import Cluster
from state.store.sql.migrate import open_store
from streaming.kafka.link import Link
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.reading import EndSampler, read_ends
from streaming.spark.tracking.track import RunProgress
from tests.topics import make_topic
from tests.waiting import until

T0_MS = 1_700_000_000_000
EACH, READ = 40, 30
"""Records of a partition on the first cluster, and how many of them were read; record ``n`` is of second ``n``."""
SECONDS = 120.0
NOW = datetime.now(UTC)

PREFIX, MAPPED = {"prefix": "east."}, {"orders": "eu.orders.v1"}
SYNCS = "mm2-offset-syncs.east.internal"
ROUTES: Mapping[str, dict[str, Any]] = {
    "west": {},
    "copy": {"keeps_offsets": True},
    "prefixed": {"topics": PREFIX},
    "mapped": {"topics": MAPPED},
    "synced": {"offset_syncs": SYNCS},
}
"""One broker under the name of each standby, for there is one route to a name."""
SPELLED = ("127.0.0.1", "127.1", "127.0.1", "0x7f000001", "2130706433")
"""Its address, in a spelling of its own for each name: one server of two clusters is a mistake of the configuration."""


@dataclass
class Side:
    """A broker, and the number of the record at every offset; a number below 0 is another writer's record."""

    bootstrap: str
    held: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def make(
        self, topic: str, partitions: int, numbers: Iterable[int] = (), *, foreign: int = 0, **config: str
    ) -> None:
        """A topic with ``foreign`` records in front of each partition, and the numbers dealt out in turn."""
        make_topic({"bootstrap.servers": self.bootstrap}, NewTopic(topic, partitions, 1, config=config))
        before = ((number % partitions, -1 - number) for number in range(foreign * partitions))
        self.write(topic, [*before, *((number % partitions, number) for number in numbers)])

    def write(self, topic: str, records: Iterable[tuple[int, int]]) -> None:
        producer = Delivery({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0})
        for partition, number in records:
            producer.produce(topic, f"record {number}", partition=partition, timestamp=T0_MS + number * 1000)
            self.held.setdefault((topic, partition), []).append(number)
        producer.confirm(SECONDS)

    @contextmanager
    def unfinished(self, topic: str, number: int) -> Iterator[None]:
        """One record in partition 0 whose transaction stays open, and is aborted in the end."""
        settings = {"transactional.id": topic, "transaction.timeout.ms": 600_000, "log_level": 0}
        producer = Delivery({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, f"record {number}", partition=0, timestamp=T0_MS + number * 1000)
        producer.confirm(SECONDS)
        try:
            yield
        finally:
            producer.abort_transaction(SECONDS)

    def note_syncs(self, syncs: Iterable[tuple[str, int, int, int]]) -> None:
        """Write down what a replicator copied where: old topic, partition, offset there, offset here.

        In the binary form of ``org.apache.kafka.connect.mirror.OffsetSync``.
        """
        producer = Delivery({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for topic, partition, upstream, downstream in syncs:
            name = topic.encode()
            key = struct.pack(f">h{len(name)}si", len(name), name, partition)
            producer.produce(SYNCS, struct.pack(">qq", upstream, downstream), key, 0)
        producer.confirm(SECONDS)

    def widen(self, topic: str, partitions: int) -> None:
        """More partitions, empty ones."""
        for future in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(SECONDS)
        until(lambda: self._count(topic) == partitions, f"{topic} has {partitions} partitions")

    def _count(self, topic: str) -> int:
        return len(self.admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions)

    def delete(self, topic: str, partition: int, before: int) -> None:
        """What retention does."""
        for future in self.admin.delete_records([TheirPartition(topic, partition, before)]).values():
            future.result(SECONDS)


@dataclass
class Stage:
    """Both sides, and the store as the runner of queries left it."""

    folder: Path
    east: Side
    west: Side

    def __post_init__(self) -> None:
        self.store = open_store(f"sqlite:///{self.folder / 'tideover.db'}")
        self.queries: dict[str, dict[str, Any]] = {}
        self.ends: dict[str, Offsets] = {}
        self.aged: tuple[int, Any] = (0, [])
        """What the ``offsets`` verb said of both sides while the first still lived."""

    def query(self, name: str, standby: str, *topics: str, pattern: str | None = None, **more: Any) -> None:
        """A query that has read ``READ`` records of every partition of its topics, by default those named."""
        source = {"topics": topics} if pattern is None else {"pattern": pattern}
        self.queries[name] = {
            "pipeline": "examples.orders:revenue", "sources": {"orders": source}, "clusters": ["east", standby],
            "runners": ["a"], "checkpoint": f"/nowhere/{name}", "buffer": "10s", **more,
        }  # fmt: skip
        held = {key: min(READ, len(numbers)) for key, numbers in self.east.held.items() if key[0] in topics}
        ends = {topic: {str(number): end for (each, number), end in held.items() if each == topic} for topic in topics}
        self.ends[name] = {"orders": ends}

    def track(self) -> None:
        """As a runner does with one committed batch of each query."""
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")
        tracks = [RunProgress(Subject(name, 1, "east", f"/nowhere/{name}")) for name in self.queries]
        for track in tracks:
            ends = self.ends[track.subject.query]
            track.see(Batch(id=7, offsets=ends, committed=True, planned_after=0.0))
        with Link(Cluster(bootstrap=(self.east.bootstrap,)), name="east") as link:
            sampler = EndSampler("east", link)
            read_ends(link, tracks, timeout=SECONDS)
            partitions = {each for track in tracks for each in track.partitions()}
            self.store.save_ends(sampler.sample(partitions, NOW, timeout=SECONDS))
        self.beat()
        for track in tracks:
            self._report(track.subject)
            self.store.save_positions(track.positions(NOW, sampler.samples, sampler.topics))

    def track_before(self, query: str, end: int) -> None:
        """As a runner does with an older batch of a query, which ended at this offset of every partition."""
        track = RunProgress(Subject(query, 1, "east", f"/nowhere/{query}"))
        ends = {
            source: {topic: dict.fromkeys(partitions, end) for topic, partitions in topics.items()}
            for source, topics in self.ends[query].items()
        }
        track.see(Batch(id=6, offsets=ends, committed=True, planned_after=0.0))
        with Link(Cluster(bootstrap=(self.east.bootstrap,)), name="east") as link:
            sampler = EndSampler("east", link)
            read_ends(link, [track], timeout=SECONDS)
            sampler.sample(set(track.partitions()), NOW, timeout=SECONDS)
        self.store.save_positions(track.positions(NOW, sampler.samples, sampler.topics))

    def _report(self, subject: Subject) -> None:
        row = Assignment(
            query=subject.query, epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a",
            checkpoint=subject.checkpoint, starting_offsets=None, operation=None, changed_at=NOW,
        )  # fmt: skip
        self.store.adopt(row)
        assert self.store.report_query(
            QueryFact(
                query=subject.query, runner="a", instance="one", host="h", boot_id="b", pid=1, pid_started=1,
                spark_master="local[*]", application_id=None, epoch=1, cluster="east", checkpoint=subject.checkpoint,
                state=RunState.RUNNING, run_id="r", batch=7, offsets=self.ends[subject.query], started_at=NOW,
                first_commit_at=NOW, progressed_at=NOW, input_rows=1, dropped_late_rows=0, stateful=False,
                deduplicates_ahead=False, error=None, held_by=None, held_epoch=None, reported_at=NOW, columns=(),
            )
        )  # fmt: skip

    def beat(self) -> None:
        """The runner is alive."""
        fact = RunnerFact(
            runner="a", instance="one", site="one", host="h", boot_id="b", pid=1, pid_started=1,
            spark_master="local[*]", application_id=None, warm=True, started_at=NOW, seen_at=NOW,
        )  # fmt: skip
        self.store.register(fact)

    @property
    def config(self) -> Path:
        return self.folder / "tideover.yaml"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "store": f"sqlite:///{self.folder / 'tideover.db'}",
            "clusters": {
                "east": {"bootstrap": [self.east.bootstrap]},
                **{
                    name: {"bootstrap": [self.west.bootstrap.replace("127.0.0.1", spelled)]}
                    for name, spelled in zip(ROUTES, SPELLED, strict=True)
                },
            },
            "routes": [{"from": "east", "to": name, **said} for name, said in ROUTES.items()],
            "runners": {"a": {}},
            "queries": self.queries,
        }

    def say(self, *arguments: str) -> tuple[int, Any]:
        """Exit code and JSON of a verb."""
        self.beat()
        with redirect_stdout(StringIO()) as said:
            code = main(["-c", str(self.config), *arguments, "-o", "json"])
        return code, json.loads(said.getvalue())

    def plan(self, query: str, *consents: str) -> "Plan":
        """What a move would do, held against what lies where."""
        flags = [word for consent in consents for word in ("--consent", consent)]
        code, value = self.say("plan", "failover", query, *flags)
        assert (code == 1) is value["refused"]
        plan = Plan(value)
        read = {
            number
            for topic, partitions in self.ends[query]["orders"].items()
            for partition, end in partitions.items()
            for number in self.east.held[topic, int(partition)][:end]
        }
        for row in value["partitions"]:
            if row["target_offset"] is not None:
                held = self.west.held.get((row["target_topic"], row["target_partition"]), [])
                lost = [number for number in held[: row["target_offset"]] if number >= 0 and number not in read]
                assert not lost, row
                assert len(read.intersection(held[row["target_offset"] :])) <= row["replay_records"], row
        return plan


@dataclass(frozen=True)
class Plan:
    """A plan's JSON, and what a test needs of it."""

    value: dict[str, Any]

    @property
    def places(self) -> dict[str, list[tuple[int, str, int]]]:
        """By topic of the standby, for each partition: offset, method, forecast of what is read again."""
        found: dict[str, list[tuple[int, str, int]]] = {}
        for row in self.value["partitions"]:
            place = row["target_offset"], row["method"], row["replay_records"]
            found.setdefault(row["target_topic"], []).append(place)
        return found

    @property
    def notes(self) -> list[str]:
        return [row["note"] for row in self.value["partitions"]]

    @property
    def refusals(self) -> dict[str, str]:
        return {gate["name"]: gate["text"] for gate in self.value["gates"] if not gate["ok"]}

    def text(self, name: str) -> str:
        """What a gate says."""
        return str(next(gate["text"] for gate in self.value["gates"] if gate["name"] == name))
