"""``step(snapshot, now) -> Decision``: the one place where the next move of an operation is decided.

Each phase has one function. None of them does anything: a decision is recorded first and acted on afterwards. So the
same snapshot always leads to the same move. A process that dies between the two is followed by one that sees the same
and continues. The phases behind the commit are in ``post_commit``, what all of them use in ``intents``.

A runner that beats and does not answer is waited for no longer than ``ANSWER_WITHIN`` (``COPY_WITHIN``): another one
gets the order, or the move is given up. Its late answer does no harm: a checkpoint that it makes has a folder of its
own. What it writes into the one in use, a fence or a mapping, is taken away only after it has answered, or is gone.
"""

from dataclasses import replace
from datetime import datetime

from orchestrator.decide.gates.copies import WAITED_FOR
from orchestrator.decide.operation.intents import (
    count_failures,
    failure,
    fence_request,
    given_up,
    insist,
    is_mapped,
    late,
    moved,
    no_runner,
    order,
    overdue,
    pursue,
    release_request,
    stay,
    to_time_of,
    unproven,
    way_out,
)
from orchestrator.decide.operation.post_commit import looks_later, starting, verifying
from orchestrator.decide.operation.snapshot import Commit, Decision, GoBack, Order, Resolve, Snapshot, Wait
from orchestrator.decide.phases import BEFORE_COMMIT, Trigger
from orchestrator.decide.reconcile import is_put_back, lost_text, put_back_text
from state.checkpoint_folders import next_folder
from state.messages import (
    ALREADY_RUN,
    CONTRADICTED,
    HELD,
    MOVED_ON,
    FenceReport,
    InspectRequest,
    PrepareReport,
    PrepareRequest,
)
from state.model.entities import Intent, IntentKind, IntentState, OperationKind, Phase

MOVES_ON = 10
"""How often a checkpoint may be found further on than the fence had read it. What stops once is found further on once.
What moves on again and again is a run that is still active (behind a consent to go unfenced), and resolving never
ends."""
_BEFORE_COMMIT = (IntentKind.FENCE, IntentKind.INSPECT, IntentKind.PREPARE)


def step(snapshot: Snapshot, now: datetime) -> Decision:
    """Decide the next move. Raises ``IllegalMove`` only where this module contradicts the table of phases.

    An operation that came back with an older store is of the past: it is left as it is until an operator reconciles.
    """
    snapshot = replace(snapshot, late=late(snapshot, now), overdue=overdue(snapshot, now))
    if snapshot.fact is not None and is_put_back(snapshot.assignment, snapshot.fact):
        return Decision(phase=snapshot.operation.phase, sentence=put_back_text(snapshot.assignment, snapshot.fact))
    if snapshot.is_bound:
        return _DECIDERS[snapshot.operation.phase](snapshot, now)
    if snapshot.called_off_by is not None and not _is_requested(snapshot):
        text = f"cancelled by {snapshot.called_off_by}: {snapshot.operation.query} stays on {snapshot.operation.source}"
        return given_up(snapshot, "refused", text)
    if snapshot.cluster_down and not _is_requested(snapshot):
        where = snapshot.operation.target
        text = f"{where} is down ({snapshot.cluster_down}): {snapshot.operation.query} stays at its position"
        return given_up(snapshot, "failed", text)
    if snapshot.second is not None and snapshot.second.against and not _is_requested(snapshot):
        text = f"{snapshot.operation.query} stays on {snapshot.operation.source}: {snapshot.second.against}"
        return given_up(snapshot, "refused", text)
    staying = next((each for each in snapshot.companions if each.stays), None)
    if staying is not None and snapshot.operation.phase in BEFORE_COMMIT and not _is_requested(snapshot):
        return given_up(snapshot, "refused", stays_text(snapshot.operation.query, staying.query, staying.stays))
    return _DECIDERS[snapshot.operation.phase](snapshot, now)


def stays_text(query: str, companion: str, why: str) -> str:
    """Why a query is not moved whose application has another one that is not."""
    return f"moves-together: {query} is not moved, because {companion} of the same application is not: {why}"


def _is_requested(snapshot: Snapshot) -> bool:
    """Whether a runner is at what it was ordered, and answers soon: then that is waited for.

    What takes too long, or a silent runner has begun, holds up nothing here: it is waited for in ABORTED, before
    anything is undone.
    """
    pending = [i for kind in _BEFORE_COMMIT for i in snapshot.of(kind) if i.state is IntentState.PENDING]
    return any(intent.id not in snapshot.late and snapshot.is_alive(intent.runner) for intent in pending)


def _fencing(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.FENCE)
    request = fence_request(snapshot)
    if latest is None:
        intent = order(snapshot, IntentKind.FENCE, request)
        if intent is None:
            return moved(snapshot, Trigger.NO_RUNNER, no_runner(snapshot))
        return stay(snapshot, f"ordering runner {intent.runner} to stop the query and to fence its checkpoint", intent)
    if latest.state is IntentState.DONE:
        return _fenced(snapshot, FenceReport.of(latest.result))
    pursued = pursue(snapshot, latest, "to stop the query", request, now)
    if pursued is None and failure(latest).kind in {HELD, ALREADY_RUN}:
        return _put_back(snapshot, latest)
    if pursued is None and failure(latest).kind == CONTRADICTED:
        found = failure(latest)
        return given_up(snapshot, "refused", f"checkpoint-whole: {found.text}: {found.hint}")
    if pursued is None:
        return given_up(snapshot, "failed", f"the old checkpoint cannot be fenced: {failure(latest).text}")
    if isinstance(pursued, Order):
        return stay(snapshot, f"ordering runner {pursued.runner} to fence the checkpoint", pursued)
    if pursued.trigger is None:
        return stay(snapshot, pursued.sentence, Wait(ahead=True))
    return pursued


def _put_back(snapshot: Snapshot, failed: Intent) -> Decision:
    """The checkpoint shows a move that the store has lost."""
    return given_up(snapshot, "refused", f"store-current: {lost_text(snapshot.operation.query, failure(failed).text)}")


def _fenced(snapshot: Snapshot, report: FenceReport) -> Decision:
    detail = {"proof": snapshot.proof, "detail": report.detail, "planted": list(report.planted)}
    if snapshot.proof is None:
        text = unproven(snapshot, "the old run", report)
        return moved(snapshot, Trigger.UNPROVEN, text, detail=detail)
    if snapshot.second is not None and snapshot.second.doubt:
        return stay(snapshot, f"the old run is stopped; the move waits for a verdict: {snapshot.second.doubt}")
    text = f"the old run is stopped ({snapshot.proof}): {report.detail}"
    return moved(snapshot, Trigger.FENCED, text, Resolve(report=report.checkpoint), detail=detail)


def _blocked(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.FENCE)
    if snapshot.chosen_runner is None:
        return stay(snapshot, no_runner(snapshot))
    if latest is None or latest.state is not IntentState.DONE:
        return moved(snapshot, Trigger.UNBLOCKED, f"runner {snapshot.chosen_runner.runner} is alive")
    report = FenceReport.of(latest.result)
    if snapshot.proof is not None:
        return _fenced(snapshot, report)
    if looks_later(snapshot, latest, now):
        return stay(snapshot, snapshot.operation.sentence)
    intent = order(snapshot, IntentKind.FENCE, fence_request(snapshot))
    return moved(snapshot, Trigger.UNBLOCKED, "checking again whether the old run has stopped", intent)


def _resolving(snapshot: Snapshot, now: datetime) -> Decision:
    inspection = snapshot.last(IntentKind.INSPECT)
    if inspection is not None and inspection.state is not IntentState.DONE:
        pursued = pursue(snapshot, inspection, "to read the checkpoint again", inspection.request, now)
        if pursued is None:
            return given_up(snapshot, "failed", f"the checkpoint cannot be read: {failure(inspection).text}")
        if isinstance(pursued, Order):
            return stay(snapshot, f"ordering runner {pursued.runner} to read the checkpoint again", pursued)
        return pursued
    report, findings = snapshot.report, snapshot.findings
    if report is None:
        return given_up(snapshot, "failed", "the fence reported no checkpoint")
    if findings is None or (findings.report, findings.consents) != (report, snapshot.operation.consents):
        return stay(snapshot, f"finding the resume offsets on {snapshot.operation.target}", Resolve(report=report))
    stays = snapshot.operation.kind is OperationKind.REWIND  # then it runs on the sooner, or a failover can begin
    if findings.unreachable and snapshot.patient and not stays:
        text = f"{snapshot.operation.target} does not answer, trying again: {findings.unreachable}"
        return stay(snapshot, text, Resolve(report=report))
    if findings.unreachable:
        return given_up(snapshot, "failed", f"{snapshot.operation.target} did not answer: {findings.unreachable}")
    if findings.refusal is not None and findings.refusal.name in WAITED_FOR and snapshot.catching_up:
        text = f"waiting for the replicator: {findings.refusal.measured} caught up; {findings.refusal.text}"
        return stay(snapshot, text, Resolve(report=report))
    if findings.refusal is not None:
        text = f"{findings.refusal.name}: {findings.refusal.text}"
        return given_up(snapshot, "refused", text, plan=findings.plan)
    if findings.prepare is None:
        return given_up(snapshot, "failed", "no resume offsets were found")
    intent = order(snapshot, IntentKind.PREPARE, findings.prepare.as_json())
    if intent is None:
        return moved(snapshot, Trigger.NO_RUNNER, no_runner(snapshot))
    making = "writing where each source continues" if is_mapped(findings.prepare) else "making the checkpoint"
    text = f"every partition has a resume offset; runner {intent.runner} is {making}"
    return moved(snapshot, Trigger.RESOLVED, text, intent, plan=findings.plan)


def _preparing(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.PREPARE)
    if latest is None:
        raise ValueError(f"operation {snapshot.operation.id} is in PREPARING, but no checkpoint was requested")
    request = PrepareRequest.of(latest.request)
    if latest.state is IntentState.DONE:
        others = [each.query for each in snapshot.companions if not (each.is_there or each.is_ready)]
        if others:
            return stay(snapshot, f"ready to move, and waits for {', '.join(others)} of the same application")
        report = PrepareReport.of(latest.result)
        commit = Commit(request=request, data_batch=report.data_batch, runner=latest.runner)
        text = f"committed to {snapshot.operation.target} with epoch {snapshot.operation.epoch}: the point of no return"
        return moved(snapshot, Trigger.COMMITTED, text, commit, detail=report.as_json())
    if latest.state is IntentState.FAILED and failure(latest).kind == MOVED_ON:
        if goes_on(snapshot):
            text = f"{failure(latest).text}, for the {MOVES_ON + 1}th time: something still writes to the checkpoint"
            return given_up(snapshot, "failed", text)
        inspect = InspectRequest(checkpoint=request.checkpoint, to_time_ms=to_time_of(snapshot)).as_json()
        intent = order(snapshot, IntentKind.INSPECT, inspect)
        if intent is None:
            return moved(snapshot, Trigger.NO_RUNNER, no_runner(snapshot))
        return moved(snapshot, Trigger.MOVED_ON, f"{failure(latest).text}: resolving again", intent)
    attempts = len(snapshot.of(IntentKind.PREPARE))
    target = request.target if is_mapped(request) else next_folder(request.target, attempts)
    again = request.model_copy(update={"target": target, "attempt": attempts + 1})
    pursued = pursue(snapshot, latest, "to make the checkpoint", again.as_json(), now)
    if pursued is None and failure(latest).kind == ALREADY_RUN:
        return _put_back(snapshot, latest)
    if pursued is None:
        return given_up(snapshot, "failed", f"the new checkpoint cannot be made: {failure(latest).text}")
    if isinstance(pursued, Order):
        return stay(snapshot, f"ordering runner {pursued.runner} to make the checkpoint", pursued)
    return pursued


def goes_on(snapshot: Snapshot) -> bool:
    """Whether something still writes to the old checkpoint, whatever proved, or who said, that the run has stopped."""
    latest = snapshot.last(IntentKind.PREPARE)
    return latest is not None and count_failures(snapshot, latest, MOVED_ON) > MOVES_ON


def _aborting(snapshot: Snapshot, now: datetime) -> Decision:
    outcome = snapshot.ending or "failed"
    # Reconciling writes no step that says why, only the sentence; what is waited for is added behind a semicolon.
    reason = snapshot.reason or snapshot.operation.sentence.partition("; ")[0]
    fences = snapshot.of(IntentKind.FENCE)
    latest = snapshot.last(IntentKind.RELEASE)
    mapping = [i for i in snapshot.of(IntentKind.PREPARE) if is_mapped(PrepareRequest.of(i.request))]
    writing = (i for i in (*fences, *mapping) if i.state is IntentState.PENDING and snapshot.is_alive(i.runner))
    planting = next(writing, None)
    if planting is not None:
        what = "fence" if planting.kind is IntentKind.FENCE else "mapping"
        text = f"{reason}; runner {planting.runner} may still write the {what} that has to be removed"
        return stay(snapshot, f"{text}; {way_out(snapshot, planting.runner)}")
    if (not fences and latest is None) or (latest is not None and latest.state is IntentState.DONE):
        return moved(snapshot, Trigger.RELEASED, reason, GoBack(outcome=outcome))
    prepared = snapshot.last(IntentKind.PREPARE)
    request = release_request(snapshot, made=PrepareRequest.of(prepared.request) if prepared else None)
    if latest is not None and (not fences or latest.request.get("reconciled")):
        request = latest.request  # the store was restored, and a person requested this
    if latest is None:
        intent = order(snapshot, IntentKind.RELEASE, request)
        return stay(snapshot, snapshot.operation.sentence, intent) if intent else stay(snapshot, no_runner(snapshot))
    insisted = insist(snapshot, latest, "to remove the fence", request, now)
    if isinstance(insisted, Order):
        return stay(snapshot, snapshot.operation.sentence, insisted)
    if latest.state is IntentState.PENDING and snapshot.is_alive(latest.runner) and latest.id not in snapshot.overdue:
        return stay(snapshot, snapshot.operation.sentence)
    text = f"{reason}; {insisted.sentence}"
    if latest.state is IntentState.FAILED and failure(latest).kind == ALREADY_RUN:
        text = f"{reason}; {lost_text(snapshot.operation.query, failure(latest).text)}"
    return stay(snapshot, text)


_DECIDERS = {
    Phase.FENCING: _fencing,
    Phase.BLOCKED: _blocked,
    Phase.RESOLVING: _resolving,
    Phase.PREPARING: _preparing,
    Phase.STARTING: starting,
    Phase.VERIFYING: verifying,
    Phase.ABORTED: _aborting,
}
