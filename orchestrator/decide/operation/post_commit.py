"""Behind the point of no return: the query is placed on the standby, and has to be seen to run there.

There is no way back from here but a new operation, so each way in which a landing can fail has an end of its own. A
runner that is silent is followed by another one that is alive. The query is held again under the next epoch. The lost
run is fenced on the very checkpoint that it was given, and only what is proven gone is followed. A standby that is
gone, or a query that keeps failing there, ends the operation as failed. The query stays placed there and starts when it
can, and a new operation may carry it elsewhere from there.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.decide.move_facts import is_planned
from orchestrator.decide.operation.intents import (
    failure,
    fence_request,
    insist,
    moved,
    no_runner,
    order,
    pursue,
    release_request,
    stay,
    unproven,
)
from orchestrator.decide.operation.snapshot import Decision, Land, Order, Settle, Snapshot, TakeOver
from orchestrator.decide.operation.turns import without_wave
from orchestrator.decide.phases import BEHIND_COMMIT, FINAL, PLANNED, Trigger
from orchestrator.decide.times import iso
from state.messages import FenceReport, FenceRequest
from state.model.entities import (
    COMPLETE,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    QueryFact,
    Request,
    RunState,
)
from state.model.measured import Measured
from state.plain_text import amount

FENCE_AGAIN = timedelta(seconds=2)
"""A proof may turn up later (a host comes back, an application ends): how long until the next look."""
FENCE_AGAIN_AT_MOST = timedelta(minutes=1)
_PROMPT_LOOKS = 5
"""This many follow each other quickly. Then the pauses double: a person may be asleep, and each look is recorded."""
LANDING = BEHIND_COMMIT - FINAL


def looks_later(snapshot: Snapshot, fence: Intent, now: datetime) -> bool:
    """Whether it is too early to look again for a proof that this fence did not find; news ends the pause at once.

    The pause is counted from when the fence was ordered, on the store's clock; when it ended is on the clock of the
    runner's host, which may be hours ahead. A clock that was set back since does not prolong it.
    """
    chosen = snapshot.chosen_runner
    if chosen is None or chosen.runner != fence.runner:
        return False
    if snapshot.hosted_by != FenceRequest.of(fence.request).hosting:
        return False
    more = max(0, len(snapshot.of(IntentKind.FENCE)) - _PROMPT_LOOKS)
    pause = min(FENCE_AGAIN * (1 << min(more, 10)), FENCE_AGAIN_AT_MOST)
    return abs(now - fence.created_at) < pause


def joins(request: Request, operation: Operation) -> bool:
    """Whether an open operation does what a request wants; a failover hurries a planned move to the same cluster."""
    planned = {request.kind, operation.kind} <= PLANNED
    same = request.kind is operation.kind or planned or cuts_short(request, operation)
    alike = without_wave(request.parameters) == without_wave(operation.parameters)
    return same and alike and request.target in {None, operation.target}


def cuts_short(request: Request, operation: Operation) -> bool:
    """Whether a request wants a planned move to continue without waiting for what the standby lacks."""
    return request.kind is OperationKind.FAILOVER and is_planned(operation.kind, operation.consents)


def calls_off(request: Request, operation: Operation) -> bool:
    """Whether a request wants the query to stay where an open operation takes it away from.

    A rewind names the cluster that it stays on, too, and wants more.
    """
    stays = request.target == operation.source and request.kind is not OperationKind.REWIND
    return stays and request.query == operation.query


def stranded(operation: Operation, fact: QueryFact | None, unreachable: str) -> str | None:
    """Why a placed query cannot be seen to run on its target, in one sentence; None while nothing speaks against it."""
    if operation.phase not in LANDING:
        return None
    if unreachable:
        return f"{operation.target} does not answer: {unreachable}"
    if fact is not None and _is_of(operation, fact) and fact.first_commit_at is None and fact.error is not None:
        error = fact.error.partition("\n")[0]
        return f"the query fails on {operation.target} and is retried: {error}"
    return None


def starting(snapshot: Snapshot, now: datetime) -> Decision:
    """Wait for the runner that was given the query, or for its successor."""
    if snapshot.assignment.desired is Desired.HELD:
        return _taking_over(snapshot, now)
    fact = snapshot.fact
    if fact is not None and _is_of(snapshot.operation, fact):
        text = f"runner {fact.runner} starts the query on {snapshot.operation.target}"
        return moved(snapshot, Trigger.STARTED, text)
    return _unproven(snapshot, _waiting_for_start(snapshot))


def verifying(snapshot: Snapshot, now: datetime) -> Decision:
    """Wait for the batch whose commit proves the move."""
    fact, operation = snapshot.fact, snapshot.operation
    if fact is None or not _is_of(operation, fact):
        return _unproven(snapshot, _waiting_for_start(snapshot))
    wanted = operation.plan.data_batch if operation.plan is not None else None
    reached = wanted is None or (fact.batch is not None and fact.batch >= wanted)
    if fact.first_commit_at is not None and reached:
        text = f"batch {fact.batch} is committed on {operation.target}"
        text += "; its sink took nothing of it" if fact.sink_took is False else ""
        return _proven(snapshot, fact, fact.first_commit_at, text, committed=True)
    if fact.state in COMPLETE and not _expected(operation):
        text = f"its run on {operation.target} has ended; nothing was there to read"
        return _proven(snapshot, fact, fact.reported_at, text, committed=False)
    if not snapshot.is_alive(fact.runner):
        return _unproven(snapshot, _waiting_for_start(snapshot))
    if fact.state is RunState.FAILED:
        return _unproven(snapshot, stranded(operation, fact, "") or f"the query fails on {operation.target}")
    if fact.first_commit_at is None and fact.progressed_at is not None:
        if waiting := _expected(operation):
            found = f"running on {operation.target}; it found nothing to read yet"
            seen = f"the plan saw {amount(waiting, 'record')} there"
            return _unproven(snapshot, f"{found}, and {seen}: waiting for its first batch with data to be committed")
        text = f"running on {operation.target}; nothing was there to read, so no batch has proven it yet"
        return _proven(snapshot, fact, fact.progressed_at, text, committed=False)
    return _unproven(snapshot, f"running on {operation.target}; waiting for its first batch with data to be committed")


def _expected(operation: Operation) -> int:
    """Offsets that the plan saw behind the resume offsets: Spark plans a batch for them, even if all are markers."""
    return (operation.plan.totals.first_batch_records or 0) if operation.plan is not None else 0


def _is_of(operation: Operation, fact: QueryFact) -> bool:
    return fact.epoch == operation.epoch and fact.cluster == operation.target


def _waiting_for_start(snapshot: Snapshot) -> str:
    runner = snapshot.assignment.runner
    if not snapshot.is_alive(runner):
        if (application := snapshot.settings.attach) is not None:
            return f"{application} does not run: its next start reads {snapshot.operation.target}"
        return (
            f"runner {runner} is silent: the query starts when it is back; start it with tideover run --name {runner}"
        )
    return f"waiting for runner {runner} to start the query on {snapshot.operation.target}"


def _unproven(snapshot: Snapshot, sentence: str) -> Decision:
    """Nothing proves the move yet: end where that may last, change the runner where another one is there, or wait."""
    operation, runner, other = snapshot.operation, snapshot.assignment.runner, snapshot.chosen_runner
    why = stranded(operation, snapshot.fact, snapshot.unreachable)
    if why is not None and (snapshot.awaited or not snapshot.patient):
        text = (
            f"{why}; {operation.query} stays assigned to {operation.target}; to move it: tideover "
            f"failover {operation.query}"
        )
        measured = _measured(snapshot, snapshot.fact, None, committed=False)
        return moved(snapshot, Trigger.UNVERIFIED, text, Settle(measured=measured, outcome="failed"))
    if other is not None and not snapshot.is_alive(runner):
        text = (
            f"runner {runner} is silent: making sure that its run has ended, so that runner "
            f"{other.runner} can take over"
        )
        return moved(snapshot, Trigger.RUNNER_LOST, text, TakeOver())
    return stay(snapshot, why or sentence)


def _taking_over(snapshot: Snapshot, now: datetime) -> Decision:
    lost, latest = snapshot.assignment.runner, snapshot.last(IntentKind.FENCE)
    request = fence_request(snapshot)
    doing_what = "to fence the run of runner " + lost
    if latest is None:
        return _ordered(snapshot, order(snapshot, IntentKind.FENCE, request), doing_what)
    if latest.state is not IntentState.DONE:
        pursued = pursue(snapshot, latest, doing_what, request, now)
        return _kept(snapshot, latest, now) if pursued is None else _ordered(snapshot, pursued, doing_what)
    if snapshot.proof is not None:
        return _released(snapshot, FenceReport.of(latest.result), now)
    text = unproven(snapshot, f"the run of runner {lost}", FenceReport.of(latest.result))
    if looks_later(snapshot, latest, now):
        return stay(snapshot, text)
    return stay(snapshot, text, order(snapshot, IntentKind.FENCE, request))


def _kept(snapshot: Snapshot, fence: Intent, now: datetime) -> Decision:
    """The fence failed for good: take away what it may have planted, and leave the query with the lost runner."""
    release, lost = snapshot.last(IntentKind.RELEASE), snapshot.assignment.runner
    if release is None or release.state is not IntentState.DONE:
        return _unplanted(snapshot, release, now)
    text = f"the checkpoint cannot be fenced, so runner {lost} keeps the query: {failure(fence).text}"
    return moved(snapshot, Trigger.UNVERIFIED, text, Land(runner=lost, outcome="failed"))


def _released(snapshot: Snapshot, fenced: FenceReport, now: datetime) -> Decision:
    """The lost run is proven gone: take the fence away and give the query to a runner that is alive."""
    release, runner = snapshot.last(IntentKind.RELEASE), snapshot.chosen_runner
    if release is None or release.state is not IntentState.DONE:
        return _unplanted(snapshot, release, now)
    taker = runner.runner if runner is not None else release.runner
    text = (
        f"the run of the silent runner has ended ({snapshot.proof}): runner {taker} takes over with "
        f"epoch {snapshot.operation.epoch}"
    )
    detail = {"proof": snapshot.proof, "detail": fenced.detail, "runner": taker}
    return moved(snapshot, Trigger.TAKEN_OVER, text, Land(runner=taker), detail=detail)


def _unplanted(snapshot: Snapshot, release: Intent | None, now: datetime) -> Decision:
    """Have the fence taken away, for as long as that takes: a query on a checkpoint that is fenced runs nowhere."""
    doing_what, request = "to remove the fence", release_request(snapshot, made=None, committed=True)
    if release is None:
        return _ordered(snapshot, order(snapshot, IntentKind.RELEASE, request), doing_what)
    return _ordered(snapshot, insist(snapshot, release, doing_what, request, now), doing_what)


def _ordered(snapshot: Snapshot, intent: Order | Decision | None, doing: str) -> Decision:
    if isinstance(intent, Decision):
        return intent
    if intent is None:
        return stay(snapshot, no_runner(snapshot))
    return stay(snapshot, f"ordering runner {intent.runner} {doing}", intent)


def _proven(snapshot: Snapshot, fact: QueryFact, at: datetime, text: str, *, committed: bool) -> Decision:
    measured = _measured(snapshot, fact, at, committed=committed)
    text = f"{text}, {measured.switch_seconds:.1f} s after the decision"
    return moved(snapshot, Trigger.PROVEN, text, Settle(measured=measured), detail=measured.as_json())


def _measured(snapshot: Snapshot, fact: QueryFact | None, proven_at: datetime | None, *, committed: bool) -> Measured:
    seconds = (proven_at - snapshot.operation.started_at).total_seconds() if proven_at is not None else None
    return replace(
        _batch_repeated(snapshot.operation, fact),
        switch_seconds=round(seconds, 3) if seconds is not None else None,
        first_commit_at=iso(proven_at) if committed else None,
        replay_records=None,
        exposure_records=None,
        dropped_late_rows=fact.dropped_late_rows if fact is not None and proven_at is not None else None,
        sink_took=fact.sink_took if fact is not None and committed else None,
    )


def _batch_repeated(operation: Operation, fact: QueryFact | None) -> Measured:
    """With what the sink may have got twice of a batch that was to continue in its run: 0 if that run continues."""
    in_run = operation.plan.in_run if operation.plan is not None else None
    if in_run is None:
        return operation.measured
    went_on = fact is not None and fact.epoch == operation.epoch and fact.run_id == in_run.run_id
    repeated = 0 if went_on else in_run.otherwise_repeats
    return replace(operation.measured, possible_replay_records=repeated, batch_went_on=went_on)
