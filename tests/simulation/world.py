"""A world in one process: a clock that jumps, two clusters of lists, a runner that answers intents."""

import hashlib
import itertools
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from orchestrator.execute import Executor
from orchestrator.lease import Lead
from orchestrator.places import Places
from orchestrator.requests import Taker, Wish, ask
from state.memory import MemoryStore
from state.model import (
    Assignment,
    Desired,
    EndSample,
    Fingerprint,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Position,
    QueryFact,
    Request,
    RunnerFact,
    RunState,
    TopicPartition,
)
from state.ports import Store
from state.protocol import (
    CheckpointReport,
    Evidence,
    Failure,
    FenceReport,
    Planned,
    PrepareReport,
    PrepareRequest,
    StateOperator,
    Treatment,
)
from state.settings import Tideover
from streaming.errors import ClusterUnreachable
from streaming.log import Fetched, Log, LogRecord, Looked, PartitionFacts, Spec, TopicFacts

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


class ManualClock:
    """Time that passes only when somebody waits; every wait lets the world live a moment."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.lives: list[Callable[[], None]] = []
        self._lock = threading.RLock()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        with self._lock:
            self.passed += seconds
            for live in self.lives:
                live()


class ListCluster(Log):
    """A cluster whose partitions are lists of records; offset = first offset + index."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, list[LogRecord]] = {}
        self.reachable = True
        self.asked = 0

    def append(self, topic: str, partition: int, key: str, timestamp_ms: int) -> int:
        log = self.partitions.setdefault(TopicPartition(topic, partition), [])
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        log.append(LogRecord(offset=len(log), timestamp_ms=timestamp_ms, digest=digest, append_time=False))
        return len(log) - 1

    def _reach(self) -> None:
        self.asked += 1
        if not self.reachable:
            raise ClusterUnreachable("no bootstrap server answered")

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        self._reach()
        facts = PartitionFacts(leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
        return {
            topic: TopicFacts(
                name=topic,
                topic_id=topic,
                partitions={tp.partition: facts for tp in self.partitions if tp.topic == topic},
                timestamp_type="CreateTime",
                cleanup_policy="delete",
            )
            for topic in topics
            if any(tp.topic == topic for tp in self.partitions)
        }

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, Looked]:
        self._reach()
        return {tp: self._look(self.partitions[tp], time) for tp, time in times.items()}

    def _look(self, log: list[LogRecord], time: int) -> Looked:
        if time == Spec.LATEST:
            return Looked(offset=len(log), timestamp_ms=None, leader_epoch=0)
        if time == Spec.EARLIEST:
            return Looked(offset=0, timestamp_ms=None, leader_epoch=0)
        if time == Spec.MAX_TIMESTAMP:
            newest = max(log, key=lambda record: record.timestamp_ms, default=None)
        else:
            newest = next((record for record in log if record.timestamp_ms >= time), None)
        found = newest is not None
        return Looked(
            offset=newest.offset if newest and found else None,
            timestamp_ms=newest.timestamp_ms if newest and found else None,
            leader_epoch=0 if found else None,
        )

    def fetch(
        self, starts: Mapping[TopicPartition, tuple[int, int]], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, Fetched]:
        self._reach()
        return {
            tp: Fetched(
                records=tuple(self.partitions[tp][offset:]),
                next_offset=max(offset, len(self.partitions[tp])),
                high_watermark=len(self.partitions[tp]),
                log_start=0,
            )
            for tp, (offset, _) in starts.items()
        }


@dataclass
class Checkpoint:
    """What a checkpoint holds, as far as the controller can tell."""

    batch: int
    offsets: dict[str, dict[str, dict[str, int]]]
    planned: Planned | None = None
    planted: set[int] = field(default_factory=set)
    operators: tuple[StateOperator, ...] = ()


@dataclass
class FakeRunner:
    """Answers intents and starts what it is assigned, one step each time the clock moves."""

    store: Store
    clock: ManualClock
    name: str
    checkpoints: dict[str, Checkpoint]
    starts: list[Assignment]
    alive: bool = True
    instance: str = "one"
    evidence: Evidence | None = Evidence.RUNNER
    failures: dict[IntentKind, list[Failure]] = field(default_factory=dict)
    start_error: str | None = None
    answers: bool = True
    commits: bool = True
    idle: bool = False
    """The standby has nothing new: the query asks, and commits nothing."""
    ran: dict[str, int] = field(default_factory=dict)
    handled: list[str] = field(default_factory=list)

    def live(self) -> None:
        if not self.alive:
            return
        self.store.register(self._fact(), stale_after=timedelta(seconds=5))
        if self.answers:
            for intent in self.store.pending_intents(self.name):
                self.handled.append(intent.name)
                self._answer(intent)
        for assignment in self.store.assignments():
            if assignment.runner == self.name and assignment.desired is Desired.RUNNING:
                self._obey(assignment)

    def _fact(self) -> RunnerFact:
        return RunnerFact(
            runner=self.name, instance=self.instance, site="one", host="h", boot_id="b", pid=1, pid_started=1,
            spark_master="local[*]", application_id=None, warm=True, started_at=START, seen_at=self.clock.now(),
        )  # fmt: skip

    def _answer(self, intent: Intent) -> None:
        planned = self.failures.get(intent.kind, [])
        result = planned.pop(0) if planned else self._do(intent)
        state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE
        self.store.report(replace(intent, state=state, result=result.as_json(), ended_at=self.clock.now()))

    def _do(self, intent: Intent) -> CheckpointReport | FenceReport | PrepareReport | Failure:
        path = str(intent.request["checkpoint"])
        old = self.checkpoints[path]
        report = CheckpointReport(
            checkpoint=path, batch=old.batch, offsets=old.offsets, planned=old.planned, operators=old.operators
        )
        if intent.kind is IntentKind.FENCE:
            old.planted |= {old.batch + 1, old.batch + 2}
            return FenceReport(
                checkpoint=report, planted=tuple(sorted(old.planted)), evidence=self.evidence, detail="stop returned"
            )
        if intent.kind is IntentKind.PREPARE:
            return self._prepare(PrepareRequest.of(intent.request), old)
        if intent.kind is IntentKind.RELEASE:
            old.planted.clear()
        return report

    def _prepare(self, request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        if (request.batch, request.offsets) != (old.batch, old.offsets):
            return Failure(kind="moved-on", text="the checkpoint moved on")
        assert request.batch is not None
        self.checkpoints[request.target] = Checkpoint(batch=request.batch, offsets=request.target_offsets)
        ahead = request.treatment in {Treatment.BRIDGE, Treatment.PROMOTE}
        return PrepareReport(
            checkpoint=request.target, data_batch=request.batch + 1 + ahead, files=9, bytes=900, seconds=0.1
        )

    def _obey(self, assignment: Assignment) -> None:
        committed = self.ran.get(assignment.query) == assignment.epoch
        if not committed and self.start_error is None:
            self.starts.append(assignment)
            self.ran[assignment.query] = assignment.epoch
        checkpoint = self.checkpoints[assignment.checkpoint]
        batch = checkpoint.batch + 3 if committed else checkpoint.batch
        failed = self.start_error is not None
        self.store.report_query(
            QueryFact(
                query=assignment.query, runner=self.name, instance=self.instance, epoch=assignment.epoch,
                cluster=assignment.cluster, state=RunState.FAILED if failed else RunState.RUNNING, run_id="r",
                batch=batch, offsets=checkpoint.offsets, started_at=self.clock.now(),
                progressed_at=self.clock.now() if committed and (self.commits or self.idle) else None,
                first_commit_at=self.clock.now() if committed and self.commits else None,
                input_rows=7, dropped_late_rows=0, stateful=bool(checkpoint.operators), deduplicates_ahead=False,
                error=self.start_error, reported_at=self.clock.now(),
            )
        )  # fmt: skip


class Crash(BaseException):
    """The process died: nothing catches this."""


class CrashingStore:
    """A store whose process dies right after its n-th write."""

    WRITES = frozenset({"ask", "answer", "hold", "place", "record", "report", "note", "lead", "resign", "seize"})

    def __init__(self, store: Store, after: int | None) -> None:
        self._store = store
        self._after = after
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._store, name)
        if name not in self.WRITES:
            return verb

        def written(*args: object, **kwargs: object) -> object:
            result = verb(*args, **kwargs)
            self.writes.append(name)
            if self._after is not None and len(self.writes) >= self._after:
                raise Crash(name)
            return result

        return written


QUERY = "revenue"


def settings(tmp: str = "/cp", *, queries: Collection[str] = (QUERY,), **changes: object) -> Tideover:
    """Two clusters, a route each way, two runners."""
    query = {
        "pipeline": "examples.orders:revenue", "sources": {"orders": {"topics": ["orders"]}},
        "clusters": ["east", "west"], "runners": ["a", "b"], **changes,
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "runners": {"a": {}, "b": {}},
            "queries": {name: {"checkpoint": f"{tmp}/{name}", **query} for name in queries},
        }
    )


class World:
    """Everything around one controller: clock, store, clusters, runners, and queries that have read 100 records."""

    def __init__(self, tideover: Tideover | None = None, *, store: Store | None = None) -> None:
        self.settings = tideover or settings()
        self.clock = ManualClock()
        self.store = store or MemoryStore(self.clock.now)
        self.clusters = {"east": ListCluster(), "west": ListCluster()}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.starts: list[Assignment] = []
        self.runner = FakeRunner(self.store, self.clock, "a", self.checkpoints, self.starts)
        self.other = FakeRunner(self.store, self.clock, "b", self.checkpoints, self.starts, alive=False)
        self.clock.lives += [self.runner.live, self.other.live]
        self.holders = itertools.count()
        self._fill()
        for query in self.settings.queries:
            self._run_on_east(query)
        self.runner.live()

    def _fill(self) -> None:
        """120 records on east, of which west has 110 after 33 foreign ones; the query has read 100."""
        for partition in (0, 1):
            for index in range(33):
                self.clusters["west"].append("orders", partition, f"foreign-{partition}-{index}", START_MS - 900_000)
            for index in range(120):
                key, time = f"{partition}-{index}", START_MS - 120_000 + index * 1000
                self.clusters["east"].append("orders", partition, key, time)
                if index < 110:
                    self.clusters["west"].append("orders", partition, key, time)

    def _run_on_east(self, query: str) -> None:
        path = f"/cp/{query}"
        offsets = {"orders": {"orders": {"0": 100, "1": 100}}}
        self.checkpoints[path] = Checkpoint(batch=7, offsets=offsets)
        self.store.adopt(
            Assignment(
                query=query, epoch=1, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint=path,
                starting_offsets=None, operation=None, changed_at=START,
            )
        )  # fmt: skip
        self.runner.ran[query] = 1
        self.track(query, 7, 100)

    def track(self, query: str, batch: int, offset: int) -> None:
        """Positions of one batch, and the samples of east's end."""
        east = self.clusters["east"].partitions
        self.store.save_positions(
            Position(
                query=query, source="orders", topic="orders", partition=partition, batch=batch, offset=offset,
                timestamp_ms=east[TopicPartition("orders", partition)][offset - 1].timestamp_ms, leader_epoch=0,
                topic_id="orders", dense=True, tracked_at=self.clock.now(),
                ring=tuple(
                    Fingerprint(record.offset, record.timestamp_ms, record.digest)
                    for record in east[TopicPartition("orders", partition)][max(0, offset - 64) : offset]
                ),
            )
            for partition in (0, 1)
        )  # fmt: skip
        self.store.save_ends(
            EndSample(
                cluster="east", topic="orders", partition=partition, begin=0, end=120,
                newest_timestamp_ms=START_MS - 1000, leader_epoch=0, topic_id="orders", sampled_at=self.clock.now(),
            )
            for partition in (0, 1)
        )  # fmt: skip

    # -- acting ----------------------------------------------------------------------------------------------------
    def lead(self, store: Store | None = None) -> Lead:
        return Lead(store or self.store, self.clock, f"nowhere/1:boot:{next(self.holders)}:x")

    def request(self, query: str = QUERY, *, target: str = "west", consents: tuple[str, ...] = ()) -> Request:
        wish = Wish(
            kind=OperationKind.FAILOVER, targets={query: target}, expect_active=None, actor="ann", reason="drill",
            consents=consents,
        )  # fmt: skip
        return ask(self.store, wish, self.clock.now())[0]

    def carry_out(self, request: Request, *, store: Store | None = None, seconds: float = 60.0) -> Operation | None:
        """One process: lead, take the request, drive its operation. None when it was refused."""
        store = store or self.store
        lead = self.lead(store)
        while not lead.take():
            self.clock.wait(1.0)
        places = Places(store=store, settings=self.settings, logs=self.clusters.__getitem__, clock=self.clock)
        taker = Taker(store=store, queries=self.settings.queries, places=places, clock=self.clock, lead=lead)
        operation_id = (store.request(request.id) or request).operation or taker.take(request)
        if operation_id is None:
            lead.give_up()
            return None
        until = self.clock.passed + seconds
        executor = Executor(
            store=store, settings=self.settings, logs=self.clusters.__getitem__, clock=self.clock, lead=lead,
            actor="ann",
        )  # fmt: skip
        operation = executor.drive(operation_id, going_on=lambda: self.clock.passed < until)
        lead.give_up()
        return operation
