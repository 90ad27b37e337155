"""A world in one process: a clock that jumps, two clusters of lists, a runner that answers intents."""

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import Leadership
from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.execute import Executor
from orchestrator.operation.requests import RequestHandler
from state.checkpoint_folders import mapping_name, read_folder
from state.drill_messages import DrillReport, DrillRequest, DrillSource, DrillStep
from state.messages import (
    ALREADY_RUN,
    HELD,
    MOVED_ON,
    CheckpointReport,
    Failure,
    FenceReport,
    FenceRequest,
    Planned,
    PrepareReport,
    PrepareRequest,
    Proof,
    ReleaseRequest,
    Retained,
    RetainedBatch,
    SinkMemory,
    StateOperator,
    UncommittedBatch,
)
from state.model.column_uses import ColumnUses
from state.model.entities import (
    Assignment,
    Desired,
    EndSample,
    Event,
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
)
from state.model.found_places import FoundPlace
from state.model.maintenance import CleanedFiles, FormerCheckpoint
from state.settings.keys import Tideover
from state.settings.topics import chains_of
from state.store.controller_store import ControllerStore
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import Placed, chain_to
from streaming.spark.place import Folder, MoveFile, place_of
from streaming.spark.runner.assignments import is_older
from tests.memory_store import MemoryStore
from tests.simulation.clusters import Cluster
from tests.simulation.stores import Crash, CrashingStore

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


BEAT_SECONDS = 1.0
"""How often a runner that has nothing new to say says it again, as the real one does."""


_STUCK_SECONDS, _ABSENT_SECONDS = 60.0, 2.0
"""How long a thread is waited for that drives an operation, and one that may have something else to do."""
_LOOK_SECONDS = 0.001


class ManualClock:
    """Time that passes only when a thread waits; every wait lets the world live a moment."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.set_ahead = 0.0
        """By how much a person has set the hosts' wall clocks; the store's keeps its time."""
        self.store_set_ahead = 0.0
        self.lives: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._turns = threading.Condition()
        self._owed: dict[threading.Thread, set[threading.Thread]] = {threading.current_thread(): set()}
        """By thread that waited, or made this world: those which have to do so before it does again."""
        self._absent: set[threading.Thread] = set(filter(_drives, threading.enumerate()))
        """Threads that did not come in time, and those that a failed test left behind: they are of another world."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed + self.set_ahead)

    def store_now(self) -> datetime:
        return START + timedelta(seconds=self.passed + self.store_set_ahead)

    def at(self, passed: float) -> datetime:
        """What the hosts' clocks showed when so many seconds had passed."""
        return START + timedelta(seconds=passed + self.set_ahead)

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self._await_turn(threading.current_thread())
        with self._lock:
            self.passed += seconds
            for live in self.lives:
                live()

    def _await_turn(self, me: threading.Thread) -> None:
        """No one lets time pass twice before each other thread has come to wait, too.

        On a loaded machine a thread may get no core for a while, in which another would let minutes pass.
        """
        began = time.monotonic()
        with self._turns:
            self._absent.discard(me)
            for others in self._owed.values():
                others.discard(me)
            self._turns.notify_all()
            while late := {each for each in self._owed.get(me, ()) if each.is_alive()}:
                if time.monotonic() - began >= (_STUCK_SECONDS if any(map(_drives, late)) else _ABSENT_SECONDS):
                    self._absent |= late
                    break
                self._turns.wait(_LOOK_SECONDS)
            present = {*filter(_drives, threading.enumerate()), *self._owed}
            self._owed[me] = {each for each in present if each.is_alive()} - self._absent - {me}


def _drives(thread: threading.Thread) -> bool:
    """Whether it drives an operation."""
    return thread.name.startswith("drive ")


@dataclass
class Checkpoint:
    """What a checkpoint holds, as far as the controller can show."""

    batch: int
    offsets: dict[str, dict[str, dict[str, int]]]
    planned: Planned | None = None
    planted: set[int] = field(default_factory=set)
    holder: str | None = None
    """The operation that planted these."""
    held_epoch: int | None = None
    """Its epoch."""
    operators: tuple[StateOperator, ...] = ()
    columns: ColumnUses = ()
    """Where the query that runs from it uses columns of its cluster."""
    data_batch: int = 0
    """The first batch that can hold new records of the cluster it was made for."""
    begun: str = ""
    """The checkpoint that was begun afresh and that this one continues; its batches count from 0."""
    history: list[RetainedBatch] = field(default_factory=list)
    """Committed batches that it holds, oldest first."""
    planned_ms: int = 0
    """When the planned batch was planned."""
    sink_memory: SinkMemory = SinkMemory.OWN_CODE
    mapped: dict[int, tuple[str, "Checkpoint"]] = field(default_factory=dict)
    """By the epoch of a move that keeps this checkpoint: its operation, and where the query continues by it."""
    taken: int = 0
    """The epoch of the newest such move that was started: runs of older ones write nothing more."""
    moves: tuple[MoveFile, ...] = ()
    """The same moves as their files show them."""
    cluster: str | None = None
    """That its mark names; None where no move made it."""

    def map(self, request: PrepareRequest, made: "Checkpoint") -> Failure | None:
        """Write where the query continues beside the checkpoint, for the operation that holds it."""
        if not self.planted or self.holder != request.operation:
            if request.epoch in self.mapped:
                return already_run(request.target)
            return Failure(kind=MOVED_ON, text="the operation does not hold it any more")
        self.mapped[request.epoch] = (request.operation, made)
        came = next((move for move in self.moves if move.epoch == self.taken), None)
        left = Placed(came.to if came is not None else self.cluster or "east", self.taken)
        name = mapping_name(request.epoch, request.operation, request.attempt)
        self.moves += (
            MoveFile(name=name, epoch=request.epoch, operation=request.operation, left=left, to=request.cluster),
        )
        return None

    def begin(self, row: Assignment) -> None:
        """What a start does first where the row's own move kept the checkpoint: the fence goes, the mapping counts."""
        placed = Placed.of(row).epoch
        operation, made = self.mapped.get(placed, ("", self))
        if operation and operation == row.operation and self.holder == operation:
            self.planted.clear()
        if self.taken < placed and operation:
            self.taken, self.batch, self.offsets, self.planned = (
                placed,
                made.batch,
                made.offsets,
                made.planned,
            )
            self.history, self.data_batch = made.history, made.data_batch

    def moved_on(self, store: ControllerStore, row: Assignment) -> tuple[int, str] | None:
        """The epoch and the operation that moved the query from where a row says, where the store knows none such."""
        placed = Placed.of(row).epoch
        later = [(epoch, operation) for epoch, (operation, _) in self.mapped.items() if epoch > placed]
        return next((each for each in later if store.operation(each[1]) is None), None)

    def retained(self, to_time_ms: int | None) -> Retained | None:
        """How far back it reaches, as a runner reports it of a query with state."""
        if to_time_ms is None or not self.operators:
            return None
        before = [each for each in self.history if each.planned_at_ms <= to_time_ms]
        return Retained(
            oldest_ms=self.history[0].planned_at_ms if self.history else None, batch=before[-1] if before else None
        )

    @property
    def retained_from(self) -> datetime | None:
        """The same before anything is stopped."""
        if not self.operators or not self.history:
            return None
        return datetime.fromtimestamp(self.history[0].planned_at_ms / 1000, UTC)

    def carried(self, request: PrepareRequest) -> "Checkpoint":
        """The new checkpoint: at the end of this one, or at a batch before."""
        batch = self.batch if request.back_to is None else request.back_to
        kept = [each for each in self.history if each.batch == batch]
        return Checkpoint(
            batch=batch, offsets=request.target_offsets, operators=self.operators, cluster=request.cluster or None,
            begun=self.begun if request.back_to is None else request.target,  # as its sink is given it
            history=[each.model_copy(update={"offsets": request.target_offsets}) for each in kept],
            sink_memory=self.sink_memory,
        )  # fmt: skip

    def plant(self, store: ControllerStore, path: str, intent: Intent, batches: set[int]) -> Failure | None:
        """Hold these batches for an operation; what an operation holds that the store does not know stays its own."""
        if self.planted and self.holder is not None and store.operation(self.holder) is None:
            return Failure(kind=HELD, text=f"{path} is held by operation {self.holder}, which this store does not know")
        row = store.assignment(intent.query)
        moved = self.moved_on(store, row) if row is not None else None
        if moved is not None:
            return Failure(kind=HELD, text=f"{path} was moved by operation {moved[1]}, which this store does not know")
        self.planted, self.holder, self.held_epoch = self.planted | batches, intent.operation, intent.epoch
        return None

    def release(self, intent: Intent) -> None:
        """Take away what its operation planted, and mapped."""
        request = ReleaseRequest.of(intent.request)
        kept = {move.epoch for move in self.moves if move.name in chain_to(self.moves, request.keeps)}
        if request.mapped:
            goes = {e for e, (operation, _) in self.mapped.items() if operation == request.operation and e not in kept}
            self.mapped = {epoch: each for epoch, each in self.mapped.items() if epoch not in goes}
            self.moves = tuple(move for move in self.moves if move.epoch not in goes)
        if self.holder == request.operation:
            self.planted.clear()

    def went_on(self, request: ReleaseRequest) -> bool:
        """Whether the query continues from here by the move that is to be undone."""
        made = any(operation == request.operation for operation, _ in self.mapped.values())
        held = bool(self.planted) and self.holder == request.operation
        return request.mapped and made and not held and not request.reconciled

    def folder(self, path: str, *, has_run: bool) -> Folder:
        """What its files show."""
        made = read_folder(path)
        held = Fence(self.held_epoch or 0, self.holder) if self.planted and self.holder is not None else None
        return Folder(
            path=path, cluster=self.cluster, made_by=None if made is None else Fence(made.epoch, made.rest),
            has_run=has_run, read_epoch=self.taken, moves=self.moves, planted=() if held is None else (held,),
        )  # fmt: skip


def found_place(
    checkpoints: Mapping[str, Checkpoint], starts: Iterable[Assignment], row: Assignment, *, runner: str, instance: str
) -> FoundPlace:
    """Where the files show a query, as a runner reports it that does not run it; at no time."""
    run = {start.checkpoint for start in starts}
    base = f"/cp/{row.query}"
    folders = [
        each.folder(path, has_run=path == base or path in run)
        for path, each in checkpoints.items()
        if path == base or path.startswith(f"{base}/")
    ]
    place = place_of(folders, row)
    held = place.held_by
    return FoundPlace(
        query=row.query, runner=runner, instance=instance, row_epoch=row.epoch,
        row_held=row.desired is Desired.HELD, checkpoint=place.checkpoint,
        cluster=place.cluster, mapping=place.mapping, batch=place.batch, epoch=place.epoch, moved_by=place.moved_by,
        held_by=held.operation if held is not None else None, held_epoch=held.epoch if held is not None else None,
        text=place.text, found_at=START,
    )  # fmt: skip


def went_to(request: ReleaseRequest, starts: Iterable[Assignment]) -> str | None:
    """The checkpoint that an operation made and that was started, which a release finds."""
    run = [start.checkpoint for start in starts]
    return next((path for path in run if path == request.prepared or _is_lost(request, path)), None)


def _is_lost(request: ReleaseRequest, path: str) -> bool:
    return request.below is not None and path.startswith(f"{request.below}/") and request.operation in path


def time_of(intent: Intent) -> int | None:
    """The time to go back to that an intent names."""
    named = intent.request.get("to_time_ms")
    return named if isinstance(named, int) else None


def already_run(target: str) -> Failure:
    """What a runner says of a checkpoint that it is to make, or to take away, and that has been run."""
    return Failure(kind=ALREADY_RUN, text=f"{target} has been run since it was made")


ROWS = 5
"""What a drill reads from each partition."""


def drilled(intent: Intent) -> DrillReport:
    """What a runner answers to a drill that went as was forecast; whatever is on the standby."""
    request = DrillRequest.of(intent.request)
    sources = []
    for source, start in request.prepare.target_offsets.items():
        end = {topic: {part: at + ROWS for part, at in parts.items()} for topic, parts in start.items()}
        rows = ROWS * sum(len(parts) for parts in start.values())
        sources.append(DrillSource(source=source, start=start, end=end, rows=rows))
    names = ("copy", "build", "start", "batch", "stop", "clean")
    return DrillReport(
        steps=tuple(DrillStep(name=name, seconds=0.1, text=name) for name in names),
        batch=(request.prepare.batch or 0) + 1, sources=tuple(sources), files=9, bytes=900,
    )  # fmt: skip


def _event_of(former: FormerCheckpoint) -> Event:
    return Event(
        sequence=None, at=START, kind="cleaned", query=former.query, operation=None, epoch=former.left_epoch,
        actor="runner", text=f"{former.checkpoint} is cleaned",
    )  # fmt: skip


@dataclass
class FakeRunner:
    """Answers intents and starts what it is assigned, one step each time the clock moves."""

    store: ControllerStore
    clock: ManualClock
    name: str
    checkpoints: dict[str, Checkpoint]
    starts: list[Assignment]
    alive: bool = True
    companion: bool = False
    """Whether its Spark has it, as it registers next."""
    instance: str = "one"
    host: str = "h"
    proof: Proof | None = Proof.RUNNER
    """What it can prove on its own; else there is only what the hosting process said."""
    failures: dict[IntentKind, list[Failure]] = field(default_factory=dict)
    start_error: str | None = None
    answers: bool = True
    hangs: set[IntentKind] = field(default_factory=set)
    """What it neither does nor fails for now, and does later, whatever became of the request in the meantime."""
    commits: bool = True
    idle: bool = False
    """The standby has nothing new: the query looks, and commits nothing."""
    stuck: list[Intent] = field(default_factory=list)
    """Begun, and not done."""
    ran: dict[str, int] = field(default_factory=dict)
    runs: dict[str, Assignment] = field(default_factory=dict)
    handled: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    cleans: CleanedFiles | str = field(default_factory=lambda: CleanedFiles(12, 3_000))
    """What it says of each checkpoint that it is to clean."""
    begun: dict[tuple[str, int, str], datetime] = field(default_factory=dict)
    """By query, epoch and process, when a run was first reported."""
    first_commits: dict[tuple[str, int, str], datetime] = field(default_factory=dict)
    _reported: dict[str, tuple[object, float]] = field(default_factory=dict)
    """By query, what was reported last, and when."""
    _registered: tuple[tuple[str, str], float] = (("", ""), 0.0)
    """As whom, and when."""
    _turn: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """One step at a time, whichever thread takes it."""

    def stop(self) -> None:
        """SIGTERM: its queries are quiet and say so, and the name is given back."""
        with self._turn:
            for fact in self.store.query_facts():
                if (fact.runner, fact.instance) == (self.name, self.instance):
                    self.store.report_query(replace(fact, state=RunState.STOPPED))
            self.store.unregister(self.name, self.instance)
            self.alive = False

    def read(self, query: str, offsets: dict[str, dict[str, dict[str, int]]]) -> None:
        """The query reads this far, and says so now and from now on."""
        with self._turn:
            assignment = self.runs[query]
            self.checkpoints[assignment.checkpoint].offsets = offsets
            self._report(assignment, committed=True)

    def live(self) -> None:
        with self._turn:
            if self.alive:
                self._step()

    def _step(self) -> None:
        self._register()
        if self.answers:
            begun = {intent.id: intent for intent in (*self.stuck, *self.store.pending_intents(self.name))}
            self.stuck = [intent for intent in begun.values() if intent.kind in self.hangs]
            for intent in begun.values():
                if intent not in self.stuck:
                    self.handled.append(intent.name)
                    self._answer(intent)
        if self.answers:
            for former in self.store.to_clean(self.name):
                self.cleaned.append(former.checkpoint)
                self.store.report_cleaned(former, self.cleans, event=_event_of(former))
        rows = self.store.assignments()
        for query in self.ran.keys() & self.runs.keys() - {row.query for row in rows}:
            self._report(self.runs[query], committed=True)  # its row is gone with the store: what runs continues
        for assignment in rows:
            under = self.runs.get(assignment.query) if assignment.query in self.ran else None
            if under is not None and is_older(assignment, under):
                self._report(under, committed=True)  # the store was put back: what runs continues
            elif assignment.runner == self.name and assignment.desired is Desired.RUNNING:
                self._obey(assignment)
            elif assignment.runner == self.name and under is None:
                self._find(assignment)

    def _register(self) -> None:
        """At once as another instance, or on another host; else with every beat."""
        is_due = not 0 <= self.clock.monotonic() - self._registered[1] < BEAT_SECONDS
        if not is_due and self._registered[0] == (self.instance, self.host):
            return
        standing = self.store.register(self._fact())
        if standing is not None:  # a new process has seen that the old one is gone
            self.store.unregister(standing.runner, standing.instance)
            self.store.register(self._fact())
        self._registered = (self.instance, self.host), self.clock.monotonic()

    def _fact(self) -> RunnerFact:
        return RunnerFact(
            runner=self.name, instance=self.instance, site="one", host=self.host, boot_id="b", pid=1, pid_started=1,
            spark_master="local[*]", application_id=None, companion=self.companion, warm=True, started_at=START,
            seen_at=self.clock.now(),
        )  # fmt: skip

    def _answer(self, intent: Intent) -> None:
        planned = self.failures.get(intent.kind, [])
        result = planned.pop(0) if planned else self._do(intent)
        state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE
        self.store.report(replace(intent, state=state, result=result.as_json(), ended_at=self.clock.now()))

    def _do(self, intent: Intent) -> CheckpointReport | FenceReport | PrepareReport | DrillReport | Failure:
        if intent.kind is IntentKind.DRILL:
            return drilled(intent)
        if self.ran.get(intent.query, 0) >= intent.epoch:
            return Failure(kind="overtaken", text="its epoch runs here already")
        path = str(intent.request["checkpoint"])
        old = self.checkpoints[path]
        report = CheckpointReport(
            checkpoint=path, batch=old.batch if old.batch >= 0 else None, offsets=old.offsets, planned=old.planned,
            operators=old.operators, retained=old.retained(time_of(intent)),
            sink_memory=old.sink_memory,
        )  # fmt: skip
        if intent.kind is IntentKind.FENCE:
            held = old.plant(self.store, path, intent, {old.batch + 1, old.batch + 2})
            if held is not None:
                return held
            hosting = FenceRequest.of(intent.request).hosting
            said = Proof.RUNNER if hosting is None or hosting.stopped else None
            return FenceReport(
                checkpoint=report, planted=tuple(sorted(old.planted)), proof=self.proof or said,
                detail="stop returned",
            )  # fmt: skip
        if intent.kind is IntentKind.PREPARE:
            return self._prepare(PrepareRequest.of(intent.request), old)
        if intent.kind is IntentKind.RELEASE:
            run = went_to(ReleaseRequest.of(intent.request), self.starts)
            if run is not None or old.went_on(ReleaseRequest.of(intent.request)):
                return already_run(run or path)
            old.release(intent)
        return report

    def _prepare(self, request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        switches = request.resume == "switch"
        if any(start.checkpoint == request.target for start in self.starts) and not switches:
            return already_run(request.target)
        if request.resume == "fresh":
            self.checkpoints[request.target] = Checkpoint(batch=-1, offsets={})
            return PrepareReport(checkpoint=request.target, data_batch=0, files=0, bytes=0, seconds=0.0)
        if (request.batch, request.offsets) != (old.batch, old.offsets):
            return Failure(kind=MOVED_ON, text="the checkpoint moved on")
        made = replace(old.carried(request), operators=())
        refused = old.map(request, made) if switches else None
        if refused is not None:
            return refused
        if not switches:
            self.checkpoints[request.target] = made
        ahead = request.treatment in {UncommittedBatch.BRIDGE, UncommittedBatch.PROMOTE}
        return PrepareReport(
            checkpoint=request.target, data_batch=made.batch + 1 + ahead, files=9, bytes=900, seconds=0.1
        )

    def _obey(self, assignment: Assignment) -> None:
        self.checkpoints[assignment.checkpoint].begin(assignment)
        committed = self.ran.get(assignment.query) == assignment.epoch
        if not committed and self._error(assignment) is None:
            self.starts.append(assignment)
            self.ran[assignment.query] = assignment.epoch
        self.runs[assignment.query] = assignment
        self._report(assignment, committed=committed)
        if self._error(assignment) is not None:
            self._find(assignment)

    def _find(self, row: Assignment) -> None:
        """Where its files show a query that this runner does not run; reported where that is news."""
        found = found_place(self.checkpoints, self.starts, row, runner=self.name, instance=self.instance)
        if self.store.found_place(row.query) != found:
            self.store.report_place(found)

    def _error(self, assignment: Assignment) -> str | None:
        checkpoint = self.checkpoints[assignment.checkpoint]
        if checkpoint.planted or checkpoint.moved_on(self.store, assignment):
            return "the checkpoint is fenced"
        return self.start_error

    def _report(self, assignment: Assignment, *, committed: bool) -> None:
        checkpoint, error = self.checkpoints[assignment.checkpoint], self._error(assignment)
        news = (
            assignment, committed, error, self.commits, self.idle, self.instance, checkpoint.batch, checkpoint.offsets,
        )  # fmt: skip
        reported = self._reported.get(assignment.query)
        if reported is not None and reported[0] == news and 0 <= self.clock.monotonic() - reported[1] < BEAT_SECONDS:
            return
        self._reported[assignment.query] = (news, self.clock.monotonic())
        batch = checkpoint.batch + 3 if committed else checkpoint.batch
        failed, held = error is not None, bool(checkpoint.planted)
        moved = checkpoint.moved_on(self.store, assignment)
        run, now = (assignment.query, assignment.epoch, self.instance), self.clock.now()
        is_new = run not in self.begun
        fact = QueryFact(
            query=assignment.query, runner=self.name, instance=self.instance, host=self.host, boot_id="b", pid=1,
            pid_started=1, spark_master="local[*]", application_id=None, epoch=assignment.epoch,
            cluster=assignment.cluster, checkpoint=assignment.checkpoint,
            state=RunState.FAILED if failed else RunState.RUNNING, run_id="r", batch=batch,
            offsets=checkpoint.offsets, started_at=self.begun.setdefault(run, now),
            progressed_at=now if committed and (self.commits or self.idle) else None,
            first_commit_at=self.first_commits.setdefault(run, now) if committed and self.commits else None,
            input_rows=7, dropped_late_rows=0, stateful=bool(checkpoint.operators), deduplicates_ahead=False,
            error=error, held_by=checkpoint.holder if held else moved[1] if moved else None,
            held_epoch=checkpoint.held_epoch if held else moved[0] if moved else None, reported_at=now,
            retained_from=checkpoint.retained_from, columns=checkpoint.columns, sink="ForeachBatchSink",
            mapping=assignment.mapping,
        )  # fmt: skip
        if is_new:
            self.store.report_query(replace(fact, state=RunState.STARTING, first_commit_at=None, progressed_at=None))
        self.store.report_query(fact)


QUERY = "revenue"


def settings(
    tmp: str = "/cp",
    *,
    queries: Collection[str] = (QUERY,),
    groups: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Tideover:
    """Two clusters, a route each way, two runners; ``groups`` of the configuration, and changes of every query."""
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
            **(groups or {}),
        }
    )


class World:
    """Everything around one controller: clock, store, clusters, runners, and queries that have read 100 records."""

    def __init__(
        self, tideover: Tideover | None = None, *, store: ControllerStore | None = None, partitions: int = 2
    ) -> None:
        self.partitions = range(partitions)
        self.settings = tideover or settings()
        self.clock = ManualClock()
        self.store = store or MemoryStore(self.clock.store_now)
        self.clusters = {name: Cluster(name, self.clock.wait) for name in ("east", "west")}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.starts: list[Assignment] = []
        self.holders = itertools.count()
        self._fill()
        for query in self.settings.queries:
            self._run_on_east(query)
        self._staff()

    def _staff(self) -> None:
        """Two runners that answer as they are set; one of them is there."""
        self.runner = FakeRunner(self.store, self.clock, "a", self.checkpoints, self.starts)
        self.other = FakeRunner(self.store, self.clock, "b", self.checkpoints, self.starts, alive=False)
        self.runner.ran = dict.fromkeys(self.settings.queries, 1)
        self.clock.lives += [self.runner.live, self.other.live]
        self.runner.live()

    def _fill(self) -> None:
        """120 records on east, of which west has 110 after 33 foreign ones; the query has read 100."""
        for cluster in self.clusters.values():
            cluster.create("orders", len(self.partitions))
        for partition in self.partitions:
            for index in range(33):
                self.clusters["west"].write("orders", partition, f"foreign-{partition}-{index}", START_MS - 900_000)
            for index in range(120):
                key, time = f"{partition}-{index}", START_MS - 120_000 + index * 1000
                self.clusters["east"].write("orders", partition, key, time)
                if index < 110:
                    self.clusters["west"].write("orders", partition, key, time)

    def add(self, query: str) -> None:
        """One more query on east, of which the runner has reported a committed batch."""
        self.runner.ran[query] = 1
        self._run_on_east(query)
        self.runner.live()

    def _run_on_east(self, query: str) -> None:
        path = f"/cp/{query}"
        offsets = {"orders": {"orders": {str(partition): 100 for partition in self.partitions}}}
        self.checkpoints[path] = Checkpoint(batch=7, offsets=offsets)
        self.store.adopt(
            Assignment(
                query=query, epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a",
                checkpoint=path, starting_offsets=None, operation=None, changed_at=START,
            )
        )  # fmt: skip
        self.track(query, 7, 100)

    def track(self, query: str, batch: int, offset: int, *, cluster: str = "east", epoch: int = 1) -> None:
        """Positions of one batch that ended at the same offset everywhere, and the samples of the cluster's end."""
        ends = dict.fromkeys(self.clusters[cluster].topics["orders"].partitions, offset)
        self.track_ends(query, batch, ends, cluster=cluster, epoch=epoch)
        self.sample(cluster)

    def track_ends(
        self,
        query: str,
        batch: int,
        ends: Mapping[int, int],
        *,
        cluster: str,
        epoch: int,
        store: ControllerStore | None = None,
    ) -> None:
        """Positions of one batch that ended at these offsets."""
        there = self.clusters[cluster]
        rings = {number: there.ring("orders", number, end) for number, end in ends.items()}
        (store or self.store).save_positions(
            Position(
                query=query, epoch=epoch, cluster=cluster, source="orders", topic="orders", partition=number,
                batch=batch, offset=end, timestamp_ms=max((each.timestamp_ms for each in rings[number]), default=None),
                leader_epoch=0, topic_id=there.topics["orders"].topic_id, dense=True, tracked_at=self.clock.now(),
                ring=rings[number],
            )
            for number, end in ends.items()
        )  # fmt: skip

    def sample(self, cluster: str, store: ControllerStore | None = None) -> None:
        """The ends of a cluster's partitions as they are now."""
        topic = self.clusters[cluster].topics["orders"]
        (store or self.store).save_ends(
            EndSample(
                cluster=cluster, topic="orders", partition=partition, begin=log.begin, end=log.end,
                newest_timestamp_ms=max((each.timestamp_ms for each in log.records[-64:]), default=None),
                leader_epoch=0, topic_id=topic.topic_id, sampled_at=self.clock.now(),
            )
            for partition, log in topic.partitions.items()
        )  # fmt: skip

    # -- acting ----------------------------------------------------------------------------------------------------
    def lead(self, store: ControllerStore | None = None) -> Leadership:
        return Leadership(store or self.store, self.clock, f"nowhere/1:boot:{next(self.holders)}:x")

    def request(
        self,
        query: str = QUERY,
        *,
        kind: OperationKind = OperationKind.FAILOVER,
        target: str = "west",
        consents: tuple[str, ...] = (),
        parameters: Mapping[str, object] | None = None,
    ) -> Request:
        wish = RequestSpec(
            kind=kind, targets={query: target}, expect_active={}, actor="ann", reason="drill",
            consents=consents, parameters=parameters or {},
        )  # fmt: skip
        return submit(self.store, wish)[0]

    def carry_out(
        self, request: Request, *, store: ControllerStore | None = None, seconds: float = 60.0
    ) -> Operation | None:
        """One process: lead, take the request, drive its operation. None when it was refused."""
        store = store or self.store
        lead = self.lead(store)
        while not lead.take():
            self.clock.wait(1.0)
        gatherer = FactGatherer(store=store, settings=self.settings, logs=self.clusters.__getitem__, clock=self.clock)
        handler = RequestHandler(
            store=store, queries=self.settings.queries, upstream=chains_of(self.settings).upstream, gatherer=gatherer,
            lead=lead,
        )  # fmt: skip
        operation_id = (store.request(request.id) or request).operation or handler.take(request)
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


__all__ = ["QUERY", "START", "Checkpoint", "Crash", "CrashingStore", "FakeRunner", "ManualClock", "World", "settings"]
