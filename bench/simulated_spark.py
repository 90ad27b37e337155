"""A runner without Spark: it writes to the store and reads Kafka as a runner does, and its queries only count offsets.

``python -m bench.simulated_spark -c FILE --name RUNNER`` obeys its rows, answers intents, beats its heart and watches
the clusters. It remembers the last records that its queries read. All of it is done by the product's own classes, so
what a hundred queries cost the store, the controller and the brokers is real. A batch is simulated: it ends where its
partitions end now, and takes ``BATCH_SECONDS``, behind each start too. A checkpoint is a value in memory; a copy of it
is ready at once.
"""

import argparse
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.config.load import load
from state.errors import StoreError
from state.messages import (
    CheckpointReport,
    Failure,
    FenceReport,
    FenceRequest,
    Message,
    Offsets,
    PrepareReport,
    PrepareRequest,
    Process,
    Proof,
    ReleaseRequest,
)
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    QueryFact,
    RunnerFact,
    RunState,
    TopicPartition,
)
from state.settings.keys import Tideover
from state.settings.topics import topics_of
from state.store.runner_store import RunnerStore
from state.store.sql.migrate import open_store
from streaming.cluster_log import Spec
from streaming.errors import KafkaError
from streaming.kafka.link import Link
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from streaming.process import own_identity
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import BatchListener, EndedRun, Subject
from streaming.spark.runner.assignments import Start, Stop, decide_runs
from streaming.spark.runner.runner_probe import BatchListeners, RunnerProbe
from streaming.spark.tracking.tracker import Tracker

BATCH_SECONDS = 0.5
TRIGGER_SECONDS = 2.0
TICK_SECONDS, REST_SECONDS = 0.05, 0.25
BEAT_SECONDS = 1.0
"""The last three are a runner's own."""
_ANSWER_SECONDS = 1.0
_CATCH_UP_SECONDS = 2.0
_NOTHING = -1
"""The batch of a checkpoint in which none was committed."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a folder would hold."""

    batch: int = _NOTHING
    offsets: Offsets = field(default_factory=dict)


@dataclass(kw_only=True)
class Run:
    """One hosted query; times on the monotonic clock."""

    row: Assignment
    due: float
    data_batch: int
    first_commit_at: datetime | None = None
    progressed_at: datetime | None = None
    reported: float = 0.0


class SimulatedRunner:
    """One process of ``tideover run``, without the JVM."""

    def __init__(self, settings: Tideover, name: str, store: RunnerStore, folder: Path) -> None:
        self._settings = settings
        self._name = name
        self._store = store
        self._here = own_identity()
        self._instance = uuid.uuid4().hex
        self._started_at = datetime.now(UTC)
        self._identities = Identities(settings)
        self._identities.learn(store)
        self._links = {
            cluster: Link(declared, name=cluster, identify=self._identities.of(cluster))
            for cluster, declared in settings.clusters.items()
        }
        own = [query for query, declared in settings.queries.items() if name in declared.runners]
        self._probe = RunnerProbe(
            name, self._instance, probes_on(settings, self._identities, own), store, settings.detection
        )
        self._tracker = Tracker(
            self._links.__getitem__,
            store,
            folder / name,
            lambda: datetime.now(UTC),
            settings.timeline_of,
            self._probe.is_silent,
        )
        self._listener: BatchListener = BatchListeners(self._tracker, self._probe)
        self._checkpoints: dict[str, Checkpoint] = {}
        self._runs: dict[str, Run] = {}
        self._newest: dict[str, int] = {}
        self._answered: set[str] = set()
        self._beaten = 0.0

    def run(self, over: threading.Event) -> None:
        """Obey until the order to stop; wait for a store that is away."""
        self._tracker.begin(sorted(self._settings.clusters))
        self._probe.begin()
        wakeups = self._store.wakeups()
        while not over.is_set():
            began, woken = time.monotonic(), wakeups.count
            try:
                self._tick(began)
            except StoreError as error:
                print(error, file=sys.stderr)
            rest = REST_SECONDS if wakeups.are_heard else TICK_SECONDS
            due = min((run.due for run in self._runs.values()), default=began + rest)
            wakeups.wait(woken, max(0.0, min(began + rest, due) - time.monotonic()))
        wakeups.close()
        self._probe.close()
        self._tracker.close(1.0)

    def _tick(self, now: float) -> None:
        if now - self._beaten >= BEAT_SECONDS:
            self._store.register(self._fact())
            self._identities.keep(self._store, actor=f"runner:{self._name}")
            self._beaten = now
        rows = self._store.assignments()
        for name in {query for query, each in self._settings.queries.items() if each.runners[0] == self._name} - {
            row.query for row in rows
        }:
            self._store.adopt(self._first_row(name))
        hosted = {query: run.row for query, run in self._runs.items()}
        for action in decide_runs(self._name, rows, hosted, self._newest):
            if isinstance(action, Stop):
                del self._runs[action.query]
            elif isinstance(action, Start):
                self._start(action.assignment, now)
        self._newest |= {row.query: max(row.epoch, self._newest.get(row.query, 0)) for row in rows}
        for intent in self._store.pending_intents(self._name):
            if intent.id not in self._answered:
                self._answered.add(intent.id)
                threading.Thread(target=self._answer, args=(intent,), daemon=True).start()
        self._batches(now)
        for run in self._runs.values():
            if now - run.reported >= BEAT_SECONDS:
                self._report_run(run, RunState.RUNNING)
                run.reported = now

    # -- streaming -------------------------------------------------------------------------------------------------
    def _start(self, row: Assignment, now: float) -> None:
        checkpoint = self._checkpoints.setdefault(row.checkpoint, Checkpoint())
        run = Run(row=row, due=now + BATCH_SECONDS, data_batch=checkpoint.batch + 1)
        if self._report_run(run, RunState.STARTING):
            self._runs[row.query] = run

    def _batches(self, now: float) -> None:
        """One batch of every query that is due, by one look at the ends of each cluster."""
        due = [run for run in self._runs.values() if now >= run.due]
        for cluster in {run.row.cluster for run in due}:
            runs = [run for run in due if run.row.cluster == cluster]
            began = time.monotonic()
            ends = self._ends(cluster, runs)
            for run in runs:
                run.due = time.monotonic() + TRIGGER_SECONDS
                if ends is not None:
                    self._commit(run, ends, began)

    def _ends(self, cluster: str, runs: Sequence[Run]) -> Mapping[str, Mapping[str, int]] | None:
        """By topic and partition; None while the cluster does not answer, as a query makes no progress then."""
        names = {topic for run in runs for topic in self._topics(run.row)}
        try:
            facts = self._links[cluster].describe(names, timeout=_ANSWER_SECONDS)
            wanted = [TopicPartition(topic, number) for topic, each in facts.items() for number in each.partitions]
            found = self._links[cluster].offsets(dict.fromkeys(wanted, Spec.LATEST), timeout=_ANSWER_SECONDS)
        except KafkaError:
            return None
        ends: dict[str, dict[str, int]] = {name: {} for name in names}
        for key, answer in found.items():
            if answer.offset is None:
                return None
            ends[key.topic][str(key.partition)] = answer.offset
        return ends

    def _commit(self, run: Run, ends: Mapping[str, Mapping[str, int]], requested: float) -> None:
        row = run.row
        checkpoint = self._checkpoints[row.checkpoint]
        offsets = {"records": {topic: dict(ends[topic]) for topic in self._topics(row)}}
        at = datetime.now(UTC)
        run.progressed_at = at
        if offsets == checkpoint.offsets and run.first_commit_at is not None:
            return
        subject = Subject(row.query, row.epoch, row.cluster, row.checkpoint)
        batch = checkpoint.batch + 1
        for committed in (False, True):
            self._listener.see(subject, Batch(id=batch, offsets=offsets, committed=committed, planned_after=requested))
        self._checkpoints[row.checkpoint] = Checkpoint(batch=batch, offsets=offsets)
        if run.first_commit_at is None:
            run.first_commit_at = at
            self._report_run(run, RunState.RUNNING)

    def _topics(self, row: Assignment) -> tuple[str, ...]:
        return tuple(topics_of(self._settings, self._settings.queries[row.query], row.cluster)["records"])

    # -- answering -------------------------------------------------------------------------------------------------
    def _answer(self, intent: Intent) -> None:
        result = self._do(intent)
        state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE
        self._store.report(replace(intent, state=state, result=result.as_json(), ended_at=datetime.now(UTC)))

    def _do(self, intent: Intent) -> Message:
        match intent.kind:
            case IntentKind.FENCE:
                return self._fence(intent, FenceRequest.of(intent.request))
            case IntentKind.PREPARE:
                return self._prepare(PrepareRequest.of(intent.request))
            case IntentKind.RELEASE:
                return self._report(ReleaseRequest.of(intent.request).checkpoint)
            case IntentKind.INSPECT:
                return self._report(str(intent.request["checkpoint"]))
        return Failure(kind="internal", text=f"a simulated runner does no {intent.kind}")

    def _fence(self, intent: Intent, request: FenceRequest) -> FenceReport:
        self._runs.pop(intent.query, None)
        row = self._store.assignment(intent.query)
        if row is not None:
            ended = EndedRun(query=intent.query, checkpoint=request.checkpoint, epoch=None, batches=())
            self._tracker.catch_up(row.cluster, ended, _CATCH_UP_SECONDS)
        report = self._report(request.checkpoint)
        planted = (0 if report.batch is None else report.batch + 1,)
        return FenceReport(
            checkpoint=report, planted=planted, proof=Proof.RUNNER, detail="no Spark ran: nothing can write"
        )

    def _prepare(self, request: PrepareRequest) -> PrepareReport:
        batch = _NOTHING if request.batch is None else request.batch
        self._checkpoints[request.target] = Checkpoint(batch=batch, offsets=request.target_offsets)
        return PrepareReport(checkpoint=request.target, data_batch=batch + 1, files=0, bytes=0, seconds=0.0)

    def _report(self, folder: str) -> CheckpointReport:
        checkpoint = self._checkpoints.get(folder, Checkpoint())
        batch = None if checkpoint.batch == _NOTHING else checkpoint.batch
        return CheckpointReport(checkpoint=folder, batch=batch, offsets=checkpoint.offsets)

    # -- reporting ---------------------------------------------------------------------------------------------------
    def _first_row(self, query: str) -> Assignment:
        declared = self._settings.queries[query]
        return Assignment(
            query=query, epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster=declared.clusters[0],
            runner=self._name, checkpoint=declared.checkpoint, starting_offsets=None, operation=None,
            changed_at=datetime.now(UTC),
        )  # fmt: skip

    def _process(self) -> Process:
        return Process(
            runner=self._name, instance=self._instance, host=self._here.host, boot_id=self._here.boot_id,
            pid=self._here.pid, pid_started=self._here.pid_started, spark_master="local[1]",
        )  # fmt: skip

    def _fact(self) -> RunnerFact:
        process = self._process().model_dump(exclude={"epoch", "stopped"})
        return RunnerFact(
            **process, site=self._settings.runners[self._name].site, warm=True, started_at=self._started_at,
            seen_at=datetime.now(UTC),
        )  # fmt: skip

    def _report_run(self, run: Run, state: RunState) -> bool:
        row, checkpoint = run.row, self._checkpoints[run.row.checkpoint]
        process = self._process().model_dump(exclude={"epoch", "stopped"})
        return self._store.report_query(
            QueryFact(
                **process, query=row.query, epoch=row.epoch, cluster=row.cluster, checkpoint=row.checkpoint,
                state=state, run_id=self._instance, batch=None if checkpoint.batch == _NOTHING else checkpoint.batch,
                offsets=checkpoint.offsets or None, started_at=self._started_at,
                first_commit_at=run.first_commit_at, progressed_at=run.progressed_at, input_rows=0,
                dropped_late_rows=0, stateful=True, deduplicates_ahead=False, error=None, held_by=None,
                held_epoch=None, reported_at=datetime.now(UTC), columns=(),
            )
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one runner until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulated_spark", description=__doc__)
    parser.add_argument("-c", "--config", required=True, metavar="FILE")
    parser.add_argument("--name", required=True, metavar="RUNNER")
    chosen = parser.parse_args(arguments)
    loaded = load(chosen.config)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    store = open_store(loaded.settings.store.get_secret_value())
    SimulatedRunner(loaded.settings, chosen.name, store, Path(chosen.config).parent / "spool").run(over)
    os._exit(0)  # daemon threads may sit in a dead client


if __name__ == "__main__":
    sys.exit(main())
