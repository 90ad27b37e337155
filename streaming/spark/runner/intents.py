"""What controllers order from a runner: each intent once at a time, in a thread of its own, and again without harm.

Up to ``operations.at_once`` queries are moved together. No fence may wait for another query's copy, nor for an intent
that hangs in a file system that does not answer. So only copies take turns (``CopyTurns``).
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from state.checkpoint_folders import mapping_name
from state.errors import StoreError, TideoverError
from state.messages import (
    CheckpointReport,
    Failure,
    FenceRequest,
    InspectRequest,
    Offsets,
    PrepareRequest,
    ReleaseRequest,
)
from state.model.entities import Assignment, Desired, Intent, IntentKind, IntentState
from state.settings.canonical import are_one_folder
from state.settings.keys import Resume
from streaming.spark.authority import Authority, counts, restore_mappings
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import MAPPINGS, Placed, read_move
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.checkpoint.retained import with_retained
from streaming.spark.errors import CompanionMissing, DrillFailed, MovedOn, Overtaken, RunError
from streaming.spark.external.external_supervisor import end_application, unrest_of_application
from streaming.spark.handback import complete_rewrite, require_not_released, require_place
from streaming.spark.hosting import EndedRun, Hosting, about, logger_about
from streaming.spark.jvm import cause_of
from streaming.spark.known_files import require_known
from streaming.spark.query.launch import Sinks, changes_in_its_run
from streaming.spark.query.sink_memory import UNKNOWN_SINK, Tables, WrittenTo
from streaming.spark.query.writers_ahead import WritersAhead
from streaming.spark.runner.drill import rehearse
from streaming.spark.runner.fence import FenceContext, FinishWait, fence, hold
from streaming.spark.runner.supervisor import QuerySupervisor

_LOOK_SECONDS = 0.2


class CopyTurns:
    """How many at once; one that has taken long no longer counts, for it may never end."""

    def __init__(self, at_once: int, long_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._long = long_seconds
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._began: dict[object, float] = {}
        """By turn, when it began, on the monotonic clock."""

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a turn, and give it back."""
        turn = object()
        with self._changed:
            while self._counted() >= self._at_once:
                self._changed.wait(_LOOK_SECONDS)
            self._began[turn] = self._monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._began[turn]
                self._changed.notify_all()

    def _counted(self) -> int:
        now = self._monotonic()
        return sum(now - began < self._long for began in self._began.values())


_COPIES = 8
_LONG_COPY_SECONDS = 10.0
"""A copy that takes longer does not keep the next one waiting: it is large, or it hangs."""
_CATCH_UP_SECONDS = 2.0
"""How long one wait for the newest positions to be in the store lasts."""
_POSITIONS_SECONDS = 60.0
"""How long a fence is held back for them, counted from when the store last refused its answer. A store that is slow or
away keeps both waiting, and the reader of the answer takes the newest positions that it finds for all there are.
"""
_APPLICATION_SECONDS = 60.0
"""How long an application may take to end."""
_REPORT_PAUSE_SECONDS = 0.2

Result = Mapping[str, object]
HostedOf = Callable[[str], Sequence[QuerySupervisor]]


class UnknownQuery(TideoverError):
    """The intent names a query that this runner does not know."""

    kind = "unknown-query"


class IntentWorker:
    """Takes intents and reports their results."""

    def __init__(self, hosting: Hosting, hosted_of: HostedOf, sinks: Sinks, ahead: WritersAhead | None = None) -> None:
        self._hosting = hosting
        self._ahead = ahead
        self._hosted_of = hosted_of
        self._sinks = sinks
        self._tables = Tables(hosting.session, hosting.files, hosting.now)
        self._copies = CopyTurns(_COPIES, _LONG_COPY_SECONDS)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._taken: dict[str, bool] = {}
        """Intents by id, and whether each is done."""
        self._pending: frozenset[str] = frozenset()
        self._moving: frozenset[str] = frozenset()
        """Queries for which a move has given an order."""
        self._rows: Mapping[str, Assignment] = {}

    def obey(self, assignments: Sequence[Assignment]) -> None:
        """Take note of where queries are to run: a drill of one that is held, or moved, ends."""
        self._rows = {row.query: row for row in assignments}

    def take(self, pending: Sequence[Intent]) -> None:
        """Begin what is new of these; what is done and no longer ordered is forgotten."""
        if self._over.is_set():
            return
        with self._lock:
            self._pending = frozenset(intent.id for intent in pending)
            self._moving = frozenset(intent.query for intent in pending if intent.kind is not IntentKind.DRILL)
            gone = set(self._taken) - {intent.id for intent in pending}
            for done in [each for each in gone if self._taken[each]]:
                del self._taken[done]
            new = [intent for intent in pending if intent.id not in self._taken]
            self._taken |= {intent.id: False for intent in new}
        for intent in new:
            # A daemon: what hangs must not keep the process from ending.
            threading.Thread(target=self._answer, args=(intent,), name=f"intent {intent.name}", daemon=True).start()

    def close(self) -> None:
        """Take nothing more; what is under way is not waited for."""
        self._over.set()

    def _answer(self, intent: Intent) -> None:
        log = logger_about(
            {"query": intent.query, "epoch": intent.epoch, "operation": intent.operation, "intent": intent.name}
        )
        is_due = _at_once
        try:
            result, is_due = self._perform(intent)
            done = replace(intent, state=IntentState.DONE, result=result)
            log.info("intent done")
        except TideoverError as error:
            done = _failed(intent, Failure(kind=error.kind, text=str(error), hint=error.hint))
        except Exception as error:
            log.exception("intent failed")
            done = _failed(intent, Failure(kind="internal", text=cause_of(error)))
        if done.state is IntentState.FAILED:
            log.warning("intent failed", **dict(done.result or {}))
        done = replace(done, ended_at=self._hosting.now())
        with self._lock:
            self._taken[intent.id] = True
        if not self._report(done, is_due, log):
            self._take_back(intent, log)

    def _take_back(self, intent: Intent, log: structlog.stdlib.BoundLogger) -> None:
        """The answer is no longer needed, and what was written for it must not stay beside the checkpoint."""
        if intent.kind not in {IntentKind.FENCE, IntentKind.PREPARE}:
            return
        checkpoint = str(intent.request["checkpoint"])
        try:
            authority = self._authority(intent, checkpoint)
            if intent.kind is IntentKind.FENCE:
                authority.take_back_fence()
            else:
                authority.take_back_mapping()
            log.warning("intent no longer pending: what it wrote was taken back", checkpoint=checkpoint)
        except TideoverError as error:
            log.warning("what a late intent wrote cannot be taken back", error=str(error), checkpoint=checkpoint)

    def _authority(self, intent: Intent, checkpoint: str) -> Authority:
        """What this attempt may write, and for how long."""
        token = Fence(intent.epoch, intent.operation, intent.attempt)
        return Authority(self._hosting.files, checkpoint, token, counts(self._hosting.store, intent))

    def _report(self, done: Intent, is_due: Callable[[], bool], log: structlog.stdlib.BoundLogger) -> bool:
        """Report to the store once it is due, and until it is stored or no longer needed.

        False where the store says that the intent was no longer pending.
        """
        since, refused = time.monotonic(), False
        while not self._over.is_set() and self._is_requested(done):
            if is_due() or time.monotonic() - since >= _POSITIONS_SECONDS:
                try:
                    return self._hosting.store.report(done)
                except StoreError as error:
                    since = time.monotonic()
                    if not refused:
                        log.warning("result not reported yet", error=str(error))
                    refused = True
            self._over.wait(_REPORT_PAUSE_SECONDS)
        return True

    def _is_requested(self, done: Intent) -> bool:
        with self._lock:
            return done.id in self._taken

    def _perform(self, intent: Intent) -> tuple[Result, Callable[[], bool]]:
        """The result, and whether it may be reported: called again and again, each time for a while."""
        if intent.query not in self._hosting.settings.queries:
            raise UnknownQuery(f"query {intent.query} is not in this runner's configuration")
        if intent.kind is IntentKind.DRILL:
            return rehearse(self._hosting, intent, lambda: self._check_wanted(intent)).as_json(), _at_once
        newest = max((each.epoch for each in self._hosted_of(intent.query)), default=0)
        if newest >= intent.epoch:
            raise Overtaken(f"{intent.query} runs here under epoch {newest}; epoch {intent.epoch} is outdated")
        row = self._hosting.store.assignment(intent.query)
        cluster = row.cluster if row is not None else self._hosting.query(intent.query).clusters[0]
        placed = Placed.of(row) if row is not None else None
        declared = self._hosting.declared(intent.query, cluster)
        files = self._hosting.files
        match intent.kind:
            case IntentKind.INSPECT:
                inspect = InspectRequest.of(intent.request)
                self._require_known(row)
                sink = self._written_to(row)
                report = read_checkpoint(files, inspect.checkpoint, declared, file_sink=sink.folder, placed=placed)
                report = self._tables.with_sink(report, sink)
                return with_retained(files, report, declared, inspect.to_time_ms, placed).as_json(), _at_once
            case IntentKind.FENCE:
                request = FenceRequest.of(intent.request).model_copy(update={"attempt": intent.attempt})
                self._require_known(row)
                hosted = self._hosted_of(intent.query)
                if row is not None and self._hosting.query(intent.query).application is not None:
                    self._end_application(row)
                wait = FinishWait(request, lambda: self._hosting.is_silent(cluster))
                if not (self._may_be_held(request, intent.query, cluster) and hold(wait, hosted)):
                    self._build_ahead(intent, request.cluster, self._hosting.resume(intent.query))
                sink_of = partial(self._sink_of, hosted, row)
                fenced = fence(self._guard(intent, row), request, wait, hosted, declared, sink_of, placed)
                ended = ended_run(intent.query, hosted, fenced.checkpoint)
                return fenced.as_json(), lambda: self._hosting.listener.catch_up(cluster, ended, _CATCH_UP_SECONDS)
            case IntentKind.PREPARE:
                wanted, still = PrepareRequest.of(intent.request), counts(self._hosting.store, intent)
                self._require_companion(intent.query, wanted)
                fresh = wanted.resume == Resume.FRESH
                self._build_ahead(intent, wanted.cluster, wanted.resume, wanted.target_offsets if fresh else None)
                with self._copies.one():
                    prepared = prepare(files, wanted, declared, placed=placed, still=still)
                self._keep_mapping(intent, wanted)
                self._require_in_run(intent, wanted, row)
                return prepared.as_json(), _at_once
            case IntentKind.RELEASE:
                if self._ahead is not None:
                    self._ahead.forget(intent.query)
                wish = ReleaseRequest.of(intent.request)
                return {"released": list(self._authority(intent, wish.checkpoint).release(wish))}, _at_once

    def _require_known(self, row: Assignment | None) -> None:
        """No move begins from files that are older than what a run wrote, without a mapping, or of plain Spark.

        Raises ``CheckpointError``.
        """
        if row is not None:
            if self._hosting.query(row.query).application is None:
                require_not_released(self._hosting.files, row)
            else:
                require_place(self._hosting.files, row)
                complete_rewrite(self._hosting.files, row, lambda: self._require_unmoved(row))
            restore_mappings(self._hosting.files, row, self._hosting.store)
            require_known(self._hosting.files, row, self._hosting.store)

    def _require_unmoved(self, row: Assignment) -> None:
        if self._hosting.store.assignment(row.query) != row:
            raise Overtaken(f"the row of {row.query} has changed since")

    def _end_application(self, row: Assignment) -> None:
        """It outlives the runner that started it, so the end of that one is no proof of it."""
        for each in self._hosted_of(row.query):
            each.close()
        end_application(self._hosting, row, _APPLICATION_SECONDS)

    def _keep_mapping(self, intent: Intent, wanted: PrepareRequest) -> None:
        """The store knows what the move depends on before it is committed: the file may be deleted later."""
        if wanted.resume == Resume.SWITCH:
            name = mapping_name(wanted.epoch, wanted.operation, wanted.attempt)
            move = read_move(self._hosting.files, join(wanted.checkpoint, MAPPINGS, name))
            self._hosting.store.keep_mapping(intent.query, name, move.content().decode())

    def _guard(self, intent: Intent, row: Assignment | None) -> FenceContext:
        hosting = self._hosting
        is_external = row is not None and hosting.query(intent.query).application is not None
        return FenceContext(
            instance=hosting.instance,
            here=hosting.here,
            spark=hosting.settings.spark,
            files=hosting.files,
            knows=lambda operation: hosting.store.operation(operation) is not None,
            still=counts(hosting.store, intent),
            with_sink=self._tables.with_sink,
            outside=partial(unrest_of_application, hosting, row) if row is not None and is_external else lambda: None,
        )

    def _may_be_held(self, request: FenceRequest, name: str, here: str) -> bool:
        """Whether a run can continue at the end of this move; one back in time works on a copy."""
        there = request.cluster if request.to_time_ms is None else ""
        return bool(there) and changes_in_its_run(self._hosting, name, here, there)

    def _build_ahead(self, intent: Intent, cluster: str, resume: str, starting: Offsets | None = None) -> None:
        """Build the writer of what is being moved; a fresh start has to know first where it begins."""
        is_known = starting is not None or resume != Resume.FRESH
        is_built_here = self._hosting.query(intent.query).pipeline is not None
        if self._ahead is not None and cluster and is_known and is_built_here:
            self._ahead.begin(
                intent.query, intent.operation, epoch=intent.epoch, cluster=cluster, resume=resume, starting=starting
            )

    def _require_in_run(self, intent: Intent, wanted: PrepareRequest, row: Assignment | None) -> None:
        """A batch that is to continue in its run must be able to, before the move is committed. Raises ``MovedOn``."""
        if wanted.in_run is None or row is None:
            return
        there = replace(
            row,
            cluster=wanted.cluster,
            epoch=wanted.epoch,
            placed_epoch=wanted.epoch,
            mapping=mapping_name(wanted.epoch, wanted.operation, wanted.attempt),
            starting_offsets=None,
        )
        hosted = self._hosted_of(intent.query)
        if not hosted:
            raise MovedOn(f"run {wanted.in_run} is not held here any more")
        hosted[-1].require_in_run(wanted.in_run, there)

    def _require_companion(self, wanted_query: str, wanted: PrepareRequest) -> None:
        """What continues by a mapping can be started only by its source. Raises ``CompanionMissing``.

        An application of a user names its checkpoint itself: it cannot continue from another one. Raises ``RunError``.
        """
        query = self._hosting.query(wanted_query)
        if query.pipeline is None and wanted.resume != Resume.SWITCH:
            raise RunError(
                f"the application of {wanted_query} names its checkpoint itself, so it is moved in place alone"
            )
        if query.application is not None:
            return
        if wanted.resume == Resume.SWITCH and not self._hosting.companion:
            missing = self._hosting.companion_missing
            raise CompanionMissing(
                f"this runner has no companion in its Spark{f' ({missing})' if missing else ''}, so it could not start "
                "the query from a checkpoint that it keeps: use resume: carry"
            )

    def _check_wanted(self, drill: Intent) -> None:
        """Raises ``DrillFailed`` once a drill is in the way of its query's move, or it is no longer ordered."""
        row = self._rows.get(drill.query)
        if self._over.is_set():
            raise DrillFailed("stopped, because the runner ends")
        if drill.query in self._moving or (row is not None and not _is_at(row, drill.epoch)):
            raise DrillFailed(f"stopped, because {drill.query} is being moved")
        if drill.id not in self._pending:
            raise DrillFailed("stopped, because it is not wanted any more")

    def _sink_of(self, hosted: Sequence[QuerySupervisor], row: Assignment | None) -> WrittenTo:
        """A query that ran here has reported it already; no failover waits for an import then."""
        sink = next((each.sink for each in hosted if each.sink is not None), None)
        return self._written_to(row) if sink is None else sink

    def _written_to(self, row: Assignment | None) -> WrittenTo:
        """Unknown where a pipeline cannot be called, which does not stop a fence, and of a query of an application."""
        declared = self._hosting.settings.queries.get(row.query) if row is not None else None
        if row is None or (declared is not None and declared.pipeline is None):
            return UNKNOWN_SINK
        try:
            return self._sinks.sink(row)
        except TideoverError as error:
            logger_about(about(row)).warning("sink unknown", error=str(error))
        except Exception as error:  # noqa: BLE001 - reading a source runs Spark's analysis, which raises what it likes
            logger_about(about(row)).warning("sink unknown", error=cause_of(error))
        return UNKNOWN_SINK


def _is_at(row: Assignment, epoch: int) -> bool:
    return row.epoch == epoch and row.desired is Desired.RUNNING


def _at_once() -> bool:
    return True


def ended_run(query: str, hosted: Sequence[QuerySupervisor], report: CheckpointReport) -> EndedRun | None:
    """What a fence found of the newest run here; None where that had another checkpoint, or none was committed.

    A run that is quiet is let go of: a fence that comes seconds later, as behind a slow store, finds none hosted.
    """
    newest = max((each.subject for each in hosted), key=lambda subject: subject.epoch, default=None)
    if report.batch is None or (newest is not None and not are_one_folder(newest.checkpoint, report.checkpoint)):
        return None
    batches = [Batch(id=report.batch, offsets=report.offsets, committed=True)]
    if report.planned is not None:
        batches.append(Batch(id=report.planned.batch, offsets=report.planned.offsets, committed=False))
    return EndedRun(query, report.checkpoint, None if newest is None else newest.epoch, tuple(batches))


def _failed(intent: Intent, failure: Failure) -> Intent:
    return replace(intent, state=IntentState.FAILED, result=failure.as_json())
