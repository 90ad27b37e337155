"""Fences a query: orders its run to stop, plants the old checkpoint, and says what proves that nothing writes any more.

Neither half is enough alone. A planted entry does not hold back a batch that is already running (32 of 32 finished it).
A stopped run of a process that cannot be reached is hearsay. Without proof the report says what was tried, and the
controller waits or needs the operator's consent.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from state.messages import CheckpointReport, FenceReport, FenceRequest, Process, Proof, SinkState
from state.settings.keys import Spark
from streaming.clocks import Clock, SystemClock
from streaming.process import Identity
from streaming.spark.authority import Authority
from streaming.spark.checkpoint.files import CheckpointFiles
from streaming.spark.checkpoint.log_fence import Knows, Still, is_under_way, require_unmoved
from streaming.spark.checkpoint.log_text import Declared, Fence
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.checkpoint.retained import with_retained
from streaming.spark.errors import Outrun
from streaming.spark.masters.proof import FenceFinding, prove_gone
from streaming.spark.query.sink_memory import WrittenTo
from streaming.spark.recut import restore_entry
from streaming.spark.runner.supervisor import QuerySupervisor

_LOOK_SECONDS = 0.02
_NEXT_SECONDS = 1.2
"""The default trigger, and a little: so long a planned move waits for the batch behind which it stops the query."""
_HOLD_SECONDS = 0.1
"""How long the batch under way may take to finish before a run is stopped instead of held, where its cluster is down.
Then it waits for records that do not come."""
_SILENT_SECONDS = 3.0
"""How long, where a part of the run waits for its cluster already. The others come to that as soon as Kafka's consumer
gives up (``kafkaConsumer.pollTimeoutMs``, then ``kafka.default.api.timeout.ms``), which no stop shortens. A run that
looks for what is new comes to the hold within 20 ms, but not on a machine with more to do than it can. There a start,
which it would need instead, takes seconds."""

_STOPPED = "stopped here: no task, no callback and no batch of it is running"
_HELD = "held here between two batches: no task and no callback of it is running"
_HELD_IN_BATCH = "held here in the middle of a batch: all of its tasks wait for records, and it publishes nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class FenceContext:
    """What a fence needs to know of this process."""

    instance: str
    here: Identity
    spark: Spark
    files: CheckpointFiles
    knows: Knows
    still: Still
    """Whether the request counts; see ``Authority``."""
    with_sink: Callable[[CheckpointReport, WrittenTo], CheckpointReport]
    """Adds what is known of the query's sink, which may mean reading its table."""
    outside: Callable[[], str | None] = lambda: None
    """What runs of the query outside all runners, in one sentence, by a look of now: an answer of before is none."""


class FinishWait:
    """How long the batch under way may still finish, counted from now.

    As long as the request says, but no longer than three seconds once the cluster is silent. Then the batch waits for
    records that do not come, be it in an executor that this process cannot look into.
    """

    def __init__(self, request: FenceRequest, is_silent: Callable[[], bool], clock: Clock | None = None) -> None:
        """``is_silent``: whether the newest look of this runner at the query's cluster was not answered."""
        self.clock = clock or SystemClock()
        self._is_silent = is_silent
        self._heard = self.clock.monotonic()
        self._until = self._heard + request.finish_seconds

    def is_over(self) -> bool:
        """Whether no move waits for the batch any more; to be called often, for it counts the silence."""
        now = self.clock.monotonic()
        if not self._is_silent():
            self._heard = now
        return now >= self._until or now - self._heard >= _SILENT_SECONDS


def hold(wait: FinishWait, hosted: Sequence[QuerySupervisor]) -> bool:
    """Keep the query's run alive between two batches, so that it can continue elsewhere; whether it is quiet there.

    It stays where it is while the move finds its place. That costs no start, and its batch is finished first, or kept
    where it is if all its tasks wait for a silent cluster. What does not come to rest in time is left for ``fence`` to
    stop.
    """
    running = [one for one in hosted if not one.is_quiet]
    if len(running) != 1:
        return False
    (one,), clock = running, wait.clock
    is_silent = one.waits_for_cluster  # before: a run that is held waits for no answer any more
    if not (one.is_held or one.hold()):
        return False
    began = clock.monotonic()
    while one.unrest() is not None and not one.keep_in_batch():
        is_silent = is_silent or one.waits_for_cluster
        least = _SILENT_SECONDS if is_silent else _HOLD_SECONDS
        if wait.is_over() and clock.monotonic() - began >= least:
            return False
        clock.wait(_LOOK_SECONDS)
    one.keep_held()
    return one.is_held


def fence(
    guard: FenceContext,
    request: FenceRequest,
    wait: FinishWait,
    hosted: Sequence[QuerySupervisor],
    declared: Declared,
    sink_of: Callable[[], WrittenTo],
    placed: Placed | None = None,
) -> FenceReport:
    """Stop what is not held, plant, wait for proof, and read the checkpoint; doing it again gives the same report.

    ``placed``: where the row of the query says that it is.
    """
    if placed is not None:
        require_unmoved(
            guard.files, request.checkpoint, placed=placed.epoch, operation=request.operation, knows=guard.knows
        )
    restore_entry(guard.files, request.checkpoint)  # a batch whose cut was broken off is planned all the same
    token = Fence(request.epoch, request.operation, request.attempt)
    authority = Authority(guard.files, request.checkpoint, token, guard.still)
    with authority.writing():
        planted, found = _fence(guard, authority, request, wait, hosted)
    sink = sink_of()
    report = read_checkpoint(guard.files, request.checkpoint, declared, file_sink=sink.folder, placed=placed)
    report = _with_callbacks(report, hosted)
    report = with_retained(guard.files, guard.with_sink(report, sink), declared, request.to_time_ms, placed)
    return FenceReport(
        checkpoint=report,
        planted=planted,
        proof=found.proof,
        detail=found.detail,
    )


def _fence(
    guard: FenceContext,
    authority: Authority,
    request: FenceRequest,
    wait: FinishWait,
    hosted: Sequence[QuerySupervisor],
) -> tuple[tuple[int, ...], FenceFinding]:
    """Stop, plant, and wait for proof; the batch ids that are held, and what was found."""
    if not wait.is_over() and any(one.is_finishing for one in hosted):
        _await_batch(guard.files, request, wait, hosted)
        with contextlib.suppress(Outrun):  # then it is stopped where it is
            authority.plant(guard.knows)
        _let_finish(guard.files, request, wait, hosted)
    deadline = time.monotonic() + request.wait_seconds
    for one in hosted:
        if not one.is_held:
            one.close()
    authority.plant(guard.knows)
    found = _prove_after_planting(guard, request.hosting, hosted)
    while found.proof is None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        found = _prove_after_planting(guard, request.hosting, hosted)
    # A batch that was in flight may have been committed until it was quiet: the entries move on with it.
    planted = authority.plant(guard.knows)
    # Only now: until here a batch that its sink has was welcome to be committed.
    authority.plant_epoch(is_held=any(one.is_held for one in hosted))
    return planted, found


def _await_batch(
    files: CheckpointFiles, request: FenceRequest, wait: FinishWait, hosted: Sequence[QuerySupervisor]
) -> None:
    """Wait until a batch is under way, if one begins soon: what a query rests between two would be part of its pause.

    Nothing is planted yet, so a query that has nothing to read, or a long trigger, runs on as it is.
    """
    deadline = wait.clock.monotonic() + _NEXT_SECONDS
    while wait.clock.monotonic() < deadline and not wait.is_over() and any(one.is_finishing for one in hosted):
        if is_under_way(files, request.checkpoint):
            return
        wait.clock.wait(_LOOK_SECONDS)


def _let_finish(
    files: CheckpointFiles, request: FenceRequest, wait: FinishWait, hosted: Sequence[QuerySupervisor]
) -> None:
    """Wait until the batch under way is committed: behind planted entries no other one begins."""
    while not wait.is_over() and any(one.is_finishing for one in hosted):
        if not is_under_way(files, request.checkpoint):
            return
        wait.clock.wait(_LOOK_SECONDS)


def _with_callbacks(report: CheckpointReport, hosted: Sequence[QuerySupervisor]) -> CheckpointReport:
    """The report, with what the run knows of a planned batch where the files do not show it."""
    planned = report.planned
    if planned is None or not hosted:
        return report
    newest = hosted[-1]
    sink = newest.sink_state(planned.batch) if planned.sink is SinkState.UNKNOWN else planned.sink
    run_id = newest.run_id_in_batch()
    known = {"sink": sink, "held": run_id is not None, "run_id": run_id}
    return report.model_copy(update={"planned": planned.model_copy(update=known)})


def _prove_after_planting(
    guard: FenceContext, hosting: Process | None, hosted: Sequence[QuerySupervisor]
) -> FenceFinding:
    found = _prove(guard, hosting, hosted)
    outside = None if found.proof is None else guard.outside()
    return found if outside is None else FenceFinding(None, f"ordered to stop, but {outside}")


def _prove(guard: FenceContext, hosting: Process | None, hosted: Sequence[QuerySupervisor]) -> FenceFinding:
    unrest = next((sentence for one in hosted if (sentence := one.unrest()) is not None), None)
    if unrest is not None:
        return FenceFinding(None, f"ordered to stop, but {unrest}")
    if hosting is None:
        return FenceFinding(Proof.RUNNER, "no other process ever hosted it, and it does not run here")
    if hosting.instance == guard.instance:
        held = next((one for one in hosted if one.is_held), None)
        if held is None:
            return FenceFinding(Proof.RUNNER, _STOPPED)
        return FenceFinding(Proof.RUNNER, _HELD_IN_BATCH if held.is_kept_in_batch else _HELD)
    who = f"runner {hosting.runner} (pid {hosting.pid} on {hosting.host})"
    if hosting.stopped:
        return FenceFinding(
            Proof.RUNNER, f"{who} reported that it had stopped the query and that nothing of it was running"
        )
    return prove_gone(guard.here, guard.spark, hosting, who)
