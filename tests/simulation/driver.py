"""A Spark driver of the one-process world: it obeys its rows, reads, commits, remembers, looks, and answers intents.

It does what ``streaming.spark`` does, on a checkpoint and a sink of values: ``decide_runs`` and ``may_run`` are the
product's own. A batch is planned, handed to the sink and committed at three different moments, so that a fault may
come between any two of them. Whether a process is gone is seen from its own host only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from state.drill_messages import DrillReport
from state.errors import StoreUnavailable
from state.messages import (
    MOVED_ON,
    CheckpointReport,
    Failure,
    FenceReport,
    FenceRequest,
    Offsets,
    Planned,
    PrepareReport,
    PrepareRequest,
    Process,
    Proof,
    ReleaseRequest,
    RetainedBatch,
    SinkState,
    UncommittedBatch,
)
from state.model.cluster_status import ELSEWHERE, ProbeReport
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    QueryFact,
    RunnerFact,
    RunState,
)
from streaming.spark.runner.assignments import FenceWait, Skip, Start, Stop, decide_runs, may_run
from tests.simulation.looks import Looks
from tests.simulation.sink import Sink
from tests.simulation.stores import AwayStore, Crash
from tests.simulation.world import START, Checkpoint, World, already_run, drilled, found_place, time_of, went_to

OBEY_SECONDS = 0.1
BEAT_SECONDS = 1.0
TRIGGER_SECONDS = 1.0
STAGE_SECONDS = 0.2
RETRY_SECONDS = 2.0
KEPT = 100
"""Batches that a checkpoint holds."""
DRILL_SECONDS = 3.0


@dataclass(kw_only=True)
class Run:
    """One run of a query in a driver."""

    row: Assignment
    begun: float
    """When it was requested, in seconds of the world's clock."""
    due: float
    data_batch: int
    is_ordered_to_stop: bool = False
    is_quiet: bool = False
    """It has stopped: for ever."""
    is_reported: bool = False
    """Its end is in the store."""
    batch: int | None = None
    first_commit: float | None = None
    progressed: float | None = None
    error: str | None = None
    in_sink: bool = False
    """The planned batch was handed to the sink."""


@dataclass(kw_only=True)
class Driver:
    """One process of ``tideover run``; a killed one is followed by another of the same name."""

    world: World
    name: str
    host: str
    checkpoints: dict[str, Checkpoint]
    sink: Sink
    processes: dict[str, "Driver"]
    """All that ever were, by instance."""
    store: AwayStore
    instance: str = ""
    frozen: bool = False
    alive: bool = True
    is_stubborn: bool = False
    """A run that is ordered to stop continues with its batch."""
    start_errors: dict[str, str] = field(default_factory=dict)
    """By query, why it cannot be started here."""
    prepare_error: Failure | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    ended: list[Run] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What its log says."""
    report_delay: float = 0.0
    """Seconds from the end of a look until the store knows."""
    _reports: list[tuple[float, list[ProbeReport]]] = field(default_factory=list)
    _newest: dict[str, int] = field(default_factory=dict)
    _spool: list[tuple[str, int, int, Offsets, str]] = field(default_factory=list)
    _finishing: dict[str, float] = field(default_factory=dict)
    """By intent, until when its batch under way may finish."""
    _drills: dict[str, float] = field(default_factory=dict)
    """By intent, when a drill is through."""
    _due: float = 0.0
    _beat: float = 0.0
    _reported: dict[str, tuple[object, datetime]] = field(default_factory=dict)
    """By query, what was reported last, and when."""

    def __post_init__(self) -> None:
        self.instance = f"{self.name}-{len(self.processes) + 1}"
        self.processes[self.instance] = self
        self.looks = Looks(world=self.world, viewpoint=f"runner:{self.name}", instance=self.instance)
        self._due = self.world.clock.passed
        self._fence_wait = FenceWait(lambda operation: self.store.operation(operation), lambda: self.world.clock.passed)

    @property
    def goes_on(self) -> Iterator[Run]:
        """Runs that write, or may write again: also of a process that is frozen."""
        return (run for run in (*self.runs.values(), *self.ended) if self.alive and self._is_active(run))

    def live(self) -> None:
        """A moment of its life."""
        now = self.world.clock.passed
        if not self.alive or self.frozen:
            return
        if self.looks.live():
            self._quietly(self._report_looks)
        while self._reports and self._reports[0][0] <= now:
            self._quietly(lambda: self.store.save_probe_reports(self._reports.pop(0)[1]))
        if now < self._due:
            return
        self._due = now + OBEY_SECONDS
        for run in [*self.runs.values(), *self.ended]:
            self._advance(run, now)
        self._quietly(self._obey)

    def _report_looks(self) -> None:
        seen = self.looks.probe_reports(self.store)
        self._reports.append((self.world.clock.passed + self.report_delay, seen))

    def kill(self) -> None:
        """SIGKILL: nothing of it continues."""
        self.alive = False

    def _is_active(self, run: Run) -> bool:
        run.is_quiet = run.is_quiet or (run.is_ordered_to_stop and not self.is_stubborn)
        return run.error is None and not run.is_quiet

    def _quietly(self, act: Callable[[], object]) -> None:
        try:
            act()
        except StoreUnavailable as error:
            self.said.append(str(error))
        except Crash:
            self.kill()

    # -- obeying ---------------------------------------------------------------------------------------------------
    def _obey(self) -> None:
        now = self.world.clock.passed
        if now >= self._beat:
            if not self._register():
                return
            self._beat = now + BEAT_SECONDS
            for cluster in {run.row.cluster for run in self.runs.values()}:
                if self.looks.reaches(cluster):
                    self.world.sample(cluster, self.store)
        rows = list(self.store.assignments())
        hosted = {query: run.row for query, run in self.runs.items()}
        for action in decide_runs(self.name, rows, hosted, self._newest, self._fence_wait.goes_on):
            if isinstance(action, Stop):
                self._stop(action.query, action.why)
            elif isinstance(action, Start):
                self._start(action.assignment)
            else:
                self._refrain(action)
        for row in rows:
            held = row.desired is Desired.HELD and not self._hosts(row.query)
            if row.runner == self.name and (held or self._fails(row)):
                self._find(row)
            self._newest[row.query] = max(row.epoch, self._newest.get(row.query, 0))
        for run in self.ended:
            if not run.is_reported and not self._is_active(run):
                self._report_run(run.row.query, run, RunState.STOPPED)
                run.is_reported = True
        for intent in self.store.pending_intents(self.name):
            self._answer(intent)
        for query, run in list(self.runs.items()):
            self._report_run(query, run, RunState.FAILED if run.error else RunState.RUNNING)
        self._flush()

    def _register(self) -> bool:
        """A name is had by one process; one that is gone from this very host gives it up."""
        standing = self.store.register(self._fact())
        if standing is None:
            return True
        former = self.processes.get(standing.instance)
        if former is None or former.host != self.host or former.alive:
            self.said.append(f"runner {self.name} is taken by {standing.instance} on {standing.host}")
            self.alive = former is None or former is self
            return False
        self.store.unregister(standing.runner, standing.instance)
        return self.store.register(self._fact()) is None

    def _start(self, row: Assignment) -> None:
        now, known = self.world.clock.passed, next((f for f in self.store.query_facts() if f.query == row.query), None)
        failed = self.runs.get(row.query)
        if failed is not None and failed.row.epoch == row.epoch:
            return
        self.runs.pop(row.query, None)
        checkpoint = self.checkpoints[row.checkpoint]
        run = Run(row=row, begun=now, due=now + STAGE_SECONDS, data_batch=checkpoint.data_batch)
        if not self.store.report_query(self._query_fact(row.query, run, RunState.STARTING)):
            return
        if not may_run(self.name, self.store.assignment(row.query), row.epoch, known.epoch if known else None):
            return
        run.error = self._why_not(row)
        run.data_batch = checkpoint.data_batch
        self.runs[row.query] = run
        if run.error is None:
            self.world.starts.append(row)
        else:
            self._find(row)

    def _find(self, row: Assignment) -> None:
        """Where its files show a query that this process does not run; reported where that is news."""
        found = found_place(self.checkpoints, self.world.starts, row, runner=self.name, instance=self.instance)
        if self.store.found_place(row.query) != found:
            self.store.report_place(found)

    def _fails(self, row: Assignment) -> bool:
        """Whether its run ended with an error: each try to start it looks at the files again."""
        run = self.runs.get(row.query)
        return run is not None and run.error is not None and run.row.epoch == row.epoch

    def _hosts(self, query: str) -> bool:
        """Whether a run of a query continues here."""
        return any(self._is_active(run) for run in (*self.runs.values(), *self.ended) if run.row.query == query)

    def _refrain(self, action: Skip) -> None:
        row = action.assignment
        if any(self._is_active(run) for run in self.ended if run.row.query == row.query):
            return
        self._find(row)
        why = action.why(bool(self.checkpoints[row.checkpoint].planted))
        if why not in self.said:
            self.said.append(why)
        self._report_run(
            row.query, Run(row=row, begun=self.world.clock.passed, due=0.0, data_batch=0, error=why), RunState.FAILED
        )

    def _why_not(self, row: Assignment) -> str | None:
        self.checkpoints[row.checkpoint].begin(row)
        if self.checkpoints[row.checkpoint].planted:  # Spark reads the newest entry first, which is a planted one
            return f"the checkpoint {row.checkpoint} is fenced"
        former = [run for run in self.ended if (run.row.query, run.row.checkpoint) == (row.query, row.checkpoint)]
        if any(self._is_active(run) for run in former):
            return "it still runs here from before"
        return self.start_errors.get(row.query)

    def _stop(self, query: str, why: str) -> None:
        run = self.runs.pop(query)
        run.is_ordered_to_stop = True
        self.said.append(f"stops {query}: {why}")
        self.ended.append(run)

    # -- streaming -------------------------------------------------------------------------------------------------
    def _advance(self, run: Run, now: float) -> None:
        """Plan a batch, hand it to the sink, commit it: one of the three at a time."""
        row = run.row
        if run.error is not None and not run.is_ordered_to_stop and now >= run.due:
            run.error, run.due = self._why_not(row), now + RETRY_SECONDS
        if not self._is_active(run) or now < run.due or not self.looks.reaches(row.cluster):
            return
        stranger = self.looks.stranger(row.cluster)
        if stranger is not None and stranger.kind == ELSEWHERE:
            return
        checkpoint = self.checkpoints[row.checkpoint]
        if row.epoch < checkpoint.taken:
            run.error = f"epoch {row.epoch} is over: epoch {checkpoint.taken} has this checkpoint"
        elif checkpoint.planned is None:
            self._plan(run, checkpoint, now)
        elif not run.in_sink:
            self._hand_over(run, checkpoint)
            run.due = now + STAGE_SECONDS
        else:
            self._commit(run, checkpoint, now)
            run.due = now + TRIGGER_SECONDS

    def _plan(self, run: Run, checkpoint: Checkpoint, now: float) -> None:
        if checkpoint.batch + 1 in checkpoint.planted:
            run.error = "the next batch is planted: another epoch has this checkpoint"
            return
        cluster = self.world.clusters[run.row.cluster]
        ends = {str(tp.partition): end for tp, end in cluster.ends("orders").items()}
        self.looks.proven[run.row.cluster] = now
        run.due = now + STAGE_SECONDS
        if ends == checkpoint.offsets["orders"]["orders"]:
            run.progressed = now
            return
        offsets, run.in_sink = {"orders": {"orders": ends}}, False
        checkpoint.planned = Planned(batch=checkpoint.batch + 1, offsets=offsets, sink=SinkState.UNKNOWN)
        checkpoint.planned_ms = round(self.world.clock.now().timestamp() * 1000)
        self._spool.append((run.row.query, run.row.epoch, checkpoint.batch + 1, offsets, run.row.cluster))

    def _hand_over(self, run: Run, checkpoint: Checkpoint) -> None:
        planned = checkpoint.planned
        assert planned is not None
        cluster, start = self.world.clusters[run.row.cluster], checkpoint.offsets["orders"]["orders"]
        records = [
            record.digest
            for number, end in planned.offsets["orders"]["orders"].items()
            for record in cluster.between("orders", int(number), start.get(number, 0), end)
        ]
        self.sink.take(run.row.query, planned.batch, records, begun=checkpoint.begun)
        run.in_sink = True

    def _commit(self, run: Run, checkpoint: Checkpoint, now: float) -> None:
        planned = checkpoint.planned
        assert planned is not None
        checkpoint.batch, checkpoint.offsets, checkpoint.planned = planned.batch, planned.offsets, None
        kept = RetainedBatch(
            batch=planned.batch, planned_at_ms=checkpoint.planned_ms, offsets=planned.offsets, watermark_ms=0
        )  # fmt: skip
        checkpoint.history = [*checkpoint.history, kept][-KEPT:]
        run.in_sink, run.batch, run.progressed = False, planned.batch, now
        if run.first_commit is None and planned.batch >= run.data_batch:
            run.first_commit = now

    # -- reporting -------------------------------------------------------------------------------------------------
    def _flush(self) -> None:
        """What was remembered goes to the store, oldest first; it waits here while that is away."""
        while self._spool:
            query, epoch, batch, offsets, cluster = self._spool[0]
            ends = {int(number): end for number, end in offsets["orders"]["orders"].items()}
            self.world.track_ends(query, batch, ends, cluster=cluster, epoch=epoch, store=self.store)
            self._spool.pop(0)

    def _report_run(self, query: str, run: Run, state: RunState) -> None:
        checkpoint, now = self.checkpoints[run.row.checkpoint], self.world.clock.now()
        news = (
            run.row.epoch, state, run.first_commit, run.progressed, run.error, checkpoint.batch, checkpoint.offsets,
            checkpoint.operators,
        )  # fmt: skip
        reported = self._reported.get(query)
        if reported is None or reported[0] != news or (now - reported[1]).total_seconds() >= BEAT_SECONDS:
            self.store.report_query(self._query_fact(query, run, state))
            self._reported[query] = (news, now)

    def _fact(self) -> RunnerFact:
        return RunnerFact(
            runner=self.name, instance=self.instance, site="one", host=self.host, boot_id="b", pid=1, pid_started=1,
            spark_master="local[*]", application_id=None, warm=True, started_at=START,
            seen_at=self.world.clock.now(),
        )  # fmt: skip

    def _query_fact(self, query: str, run: Run, state: RunState) -> QueryFact:
        checkpoint, clock = self.checkpoints[run.row.checkpoint], self.world.clock
        starting = state is RunState.STARTING
        held = checkpoint if checkpoint.planted and run.error is not None else None
        return QueryFact(
            query=query, runner=self.name, instance=self.instance, host=self.host, boot_id="b", pid=1, pid_started=1,
            spark_master="local[*]", application_id=None, epoch=run.row.epoch, cluster=run.row.cluster,
            checkpoint=run.row.checkpoint, state=state, run_id="r", batch=checkpoint.batch,
            offsets=checkpoint.offsets, started_at=clock.at(run.begun), error=run.error,
            held_by=held.holder if held else None, held_epoch=held.held_epoch if held else None,
            first_commit_at=None if starting or run.first_commit is None else clock.at(run.first_commit),
            progressed_at=None if starting or run.progressed is None else clock.at(run.progressed), input_rows=0,
            dropped_late_rows=0, stateful=bool(checkpoint.operators), deduplicates_ahead=False,
            reported_at=clock.now(), retained_from=checkpoint.retained_from, columns=checkpoint.columns,
            mapping=run.row.mapping, sink="ForeachBatchSink",
        )  # fmt: skip

    # -- answering -------------------------------------------------------------------------------------------------
    def _answer(self, intent: Intent) -> None:
        if intent.kind is IntentKind.FENCE and self._lets_finish(intent):
            return
        due = self._drills.setdefault(intent.id, self.world.clock.passed + DRILL_SECONDS)
        if intent.kind is IntentKind.DRILL and self.world.clock.passed < due:
            return
        result = self._do(intent)
        state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE
        self.store.report(replace(intent, state=state, result=result.as_json(), ended_at=self.world.clock.now()))

    def _lets_finish(self, intent: Intent) -> bool:
        """Whether the batch under way of a query that is to be fenced may still be committed; none follows it."""
        request, now, run = FenceRequest.of(intent.request), self.world.clock.passed, self.runs.get(intent.query)
        checkpoint = self.checkpoints[request.checkpoint]
        if not request.finish_seconds or run is None or run.error is not None or checkpoint.planned is None:
            return False
        batch = checkpoint.planned.batch
        checkpoint.plant(self.store, request.checkpoint, intent, {batch + 1, batch + 2})
        return now < self._finishing.setdefault(intent.id, now + request.finish_seconds)

    def _do(self, intent: Intent) -> CheckpointReport | FenceReport | PrepareReport | DrillReport | Failure:
        if intent.kind is IntentKind.DRILL:
            return drilled(intent)
        run = self.runs.get(intent.query)
        if run is not None and run.row.epoch >= intent.epoch:
            return Failure(kind="overtaken", text="its epoch runs here already")
        checkpoint = self.checkpoints[str(intent.request["checkpoint"])]
        match intent.kind:
            case IntentKind.FENCE:
                return self._fence(intent, FenceRequest.of(intent.request), checkpoint)
            case IntentKind.PREPARE:
                return self.prepare_error or self._prepare(PrepareRequest.of(intent.request), checkpoint)
            case IntentKind.RELEASE:
                run_since = went_to(ReleaseRequest.of(intent.request), self.world.starts)
                if run_since is not None or checkpoint.went_on(ReleaseRequest.of(intent.request)):
                    return already_run(run_since or str(intent.request["checkpoint"]))
                checkpoint.release(intent)
        return self._report(str(intent.request["checkpoint"]), checkpoint, time_of(intent))

    def _fence(self, intent: Intent, request: FenceRequest, checkpoint: Checkpoint) -> FenceReport | Failure:
        query = intent.query
        if query in self.runs:
            self._stop(query, f"operation {request.operation} fences it")
        proof, detail = self._prove(query, request.hosting)
        first = checkpoint.batch + (1 if checkpoint.planned is None else 2)
        held = checkpoint.plant(self.store, request.checkpoint, intent, {first, first + 1})
        if held is not None:
            return held
        report = self._report(request.checkpoint, checkpoint, request.to_time_ms)
        hosted = next((run for run in reversed(self.ended) if run.row.query == query), None)
        if report.planned is not None and hosted is not None and not self._is_active(hosted):
            reported = SinkState.HAS if hosted.in_sink else SinkState.HAS_NOT
            report = report.model_copy(update={"planned": report.planned.model_copy(update={"sink": reported})})
        planted = tuple(sorted(checkpoint.planted))
        return FenceReport(checkpoint=report, planted=planted, proof=proof, detail=detail)

    def _prove(self, query: str, hosting: Process | None) -> tuple[Proof | None, str]:
        """As ``streaming.spark.runner.fence`` does: what this process and this host can know."""
        if any(self._is_active(run) for run in self.ended if run.row.query == query):
            return None, "told to stop, but a task of it is running"
        if hosting is None or hosting.instance == self.instance:
            return Proof.RUNNER, "stopped here"
        if hosting.stopped:
            return Proof.RUNNER, f"runner {hosting.runner} reported that it had stopped the query"
        if hosting.host != self.host:
            return None, f"runner {hosting.runner} is on another host, which {self.host} cannot check"
        if self.processes[hosting.instance].alive:
            return None, f"runner {hosting.runner} is alive and is not this process"
        return Proof.PROCESS, f"runner {hosting.runner} is gone, and so is its JVM"

    def _report(self, path: str, checkpoint: Checkpoint, to_time_ms: int | None) -> CheckpointReport:
        return CheckpointReport(
            checkpoint=path,
            batch=checkpoint.batch if checkpoint.batch >= 0 else None,
            offsets=checkpoint.offsets if checkpoint.batch >= 0 else {},
            planned=checkpoint.planned,
            operators=checkpoint.operators,
            retained=checkpoint.retained(to_time_ms),
            sink_memory=checkpoint.sink_memory,
        )

    def _prepare(self, request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        switches = request.resume == "switch"
        if any(start.checkpoint == request.target for start in self.world.starts) and not switches:
            return already_run(request.target)
        if (request.batch, request.offsets) != (old.batch, old.offsets):
            return Failure(kind=MOVED_ON, text="the checkpoint moved on")
        if request.resume == "fresh":
            begun = Checkpoint(
                batch=-1, offsets=request.target_offsets, operators=old.operators, begun=request.target
            )  # fmt: skip
            self.checkpoints[request.target] = begun
            return PrepareReport(checkpoint=request.target, data_batch=0, files=0, bytes=0, seconds=0.0)
        made = old.carried(request)
        if request.treatment in {UncommittedBatch.BRIDGE, UncommittedBatch.PROMOTE}:
            made.batch += 1
        if request.planned_target_offsets is not None:
            planned = request.planned_target_offsets
            made.planned = Planned(batch=old.batch + 1, offsets=planned, sink=SinkState.UNKNOWN)
        made.data_batch = made.batch + 1
        refused = old.map(request, made) if switches else None
        if refused is not None:
            return refused
        if not switches:
            self.checkpoints[request.target] = made
        return PrepareReport(checkpoint=request.target, data_batch=made.data_batch, files=9, bytes=900, seconds=0.1)
