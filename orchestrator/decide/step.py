"""``step(snapshot, now) -> Decision``: the one place where the next move of an operation is decided.

Each phase has one function. None of them does anything: a decision is recorded first and acted on afterwards, so the
same snapshot always leads to the same move, and a process that dies between the two is followed by one that sees the
same and goes on. Whatever was asked of a runner stays asked; it is asked anew only of another runner, or when the
first try failed in a way that can pass.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from orchestrator.decide.phases import Happening, move
from orchestrator.decide.snapshot import Act, Ask, Commit, Decision, GoBack, Resolve, Settle, Snapshot, Wait
from orchestrator.decide.times import iso
from state.model import Intent, IntentKind, IntentState, Phase, QueryFact, RunState
from state.protocol import (
    Failure,
    FenceReport,
    FenceRequest,
    InspectRequest,
    PrepareReport,
    PrepareRequest,
    ReleaseRequest,
)

TRIES = 3
"""How often an intent that failed in an unforeseen way is asked again."""
FENCE_AGAIN = timedelta(seconds=2)
"""Evidence may turn up later (a host comes back, an application ends): how long until the next look."""
LASTING = frozenset({"no-space", "unreadable", "not-a-checkpoint", "empty"})
"""Kinds of failure that asking again does not heal."""


def step(snapshot: Snapshot, now: datetime) -> Decision:
    """Decide the next move. Raises ``IllegalMove`` only where this module contradicts the table of phases."""
    return _DECIDERS[snapshot.operation.phase](snapshot, now)


def _stay(snapshot: Snapshot, sentence: str, act: Act | None = None) -> Decision:
    return Decision(phase=snapshot.operation.phase, sentence=sentence, act=act or Wait())


def _moved(
    snapshot: Snapshot,
    happening: Happening,
    sentence: str,
    act: Act | None = None,
    *,
    detail: Mapping[str, object] | None = None,
    plan: Mapping[str, object] | None = None,
) -> Decision:
    return Decision(
        phase=move(snapshot.operation.phase, happening),
        sentence=sentence,
        act=act or Wait(),
        happening=happening,
        detail=detail,
        plan=plan,
    )


def _given_up(snapshot: Snapshot, outcome: str, sentence: str, plan: Mapping[str, object] | None = None) -> Decision:
    return Decision(
        phase=move(snapshot.operation.phase, Happening.GIVEN_UP),
        sentence=sentence,
        happening=Happening.GIVEN_UP,
        ending=outcome,
        plan=plan,
        detail={"outcome": outcome, "text": sentence},
    )


def _no_runner(snapshot: Snapshot) -> str:
    names = snapshot.settings.runners
    return f"no runner of {snapshot.operation.query} is alive: start one with tideover run --name {names[0]}"


def _ask(snapshot: Snapshot, kind: IntentKind, request: Mapping[str, object]) -> Ask | None:
    """The asking of a runner that is alive, under the next free name; None when none is alive."""
    runner = snapshot.chosen_runner
    if runner is None:
        return None
    earlier = snapshot.of(kind)
    name = kind.value if not earlier else f"{kind.value}#{len(earlier) + 1}"
    pending = tuple(intent.id for intent in earlier if intent.state is IntentState.PENDING)
    return Ask(name=name, kind=kind, runner=runner.runner, request=request, withdraw=pending)


def _pursue(snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object]) -> Decision | Ask | None:
    """What to do about an intent that is not done: a decision, another asking, or None when it failed for good."""
    if intent.state is IntentState.PENDING and snapshot.is_alive(intent.runner):
        return _stay(snapshot, f"waiting for runner {intent.runner} {doing}")
    if intent.state is not IntentState.PENDING:
        failure = _failure(intent)
        failed = [i for i in snapshot.of(intent.kind) if i.state is IntentState.FAILED]
        unforeseen = [i for i in failed if _failure(i).kind != "withdrawn"]
        if failure.kind in LASTING or len(unforeseen) >= TRIES:
            return None
    ask = _ask(snapshot, intent.kind, request)
    if ask is not None:
        return ask
    if snapshot.operation.phase is Phase.ABORTED:
        return _stay(snapshot, _no_runner(snapshot))
    return _moved(snapshot, Happening.NO_RUNNER, _no_runner(snapshot))


def _failure(intent: Intent) -> Failure:
    return Failure.of(intent.result or {"kind": "internal", "text": "no reason was given"})


def _fence_request(snapshot: Snapshot) -> Mapping[str, object]:
    return FenceRequest(
        checkpoint=snapshot.assignment.checkpoint,
        epoch=snapshot.operation.epoch,
        operation=snapshot.operation.id,
        hosting=snapshot.hosting,
    ).as_json()


def _fencing(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.FENCE)
    request = _fence_request(snapshot)
    if latest is None:
        ask = _ask(snapshot, IntentKind.FENCE, request)
        if ask is None:
            return _moved(snapshot, Happening.NO_RUNNER, _no_runner(snapshot))
        return _stay(snapshot, f"asking runner {ask.runner} to stop the query and to fence its checkpoint", ask)
    if latest.state is IntentState.DONE:
        return _fenced(snapshot, FenceReport.of(latest.result))
    pursued = _pursue(snapshot, latest, "to stop the query", request)
    if pursued is None:
        return _given_up(snapshot, "failed", f"the old checkpoint cannot be fenced: {_failure(latest).text}")
    if isinstance(pursued, Ask):
        return _stay(snapshot, f"asking runner {pursued.runner} to fence the checkpoint", pursued)
    if pursued.happening is None:
        return _stay(snapshot, pursued.sentence, Wait(ahead=True))
    return pursued


def _fenced(snapshot: Snapshot, report: FenceReport) -> Decision:
    detail = {"evidence": snapshot.proof, "detail": report.detail, "planted": list(report.planted)}
    if snapshot.proof is None:
        text = f"nothing proves that the old run has stopped: {report.detail}; looking again, or consent unfenced"
        return _moved(snapshot, Happening.UNPROVEN, text, detail=detail)
    text = f"the old run is stopped ({snapshot.proof}): {report.detail}"
    return _moved(snapshot, Happening.FENCED, text, Resolve(report=report.checkpoint), detail=detail)


def _blocked(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.FENCE)
    if snapshot.chosen_runner is None:
        return _stay(snapshot, _no_runner(snapshot))
    if latest is None or latest.state is not IntentState.DONE:
        return _moved(snapshot, Happening.UNBLOCKED, f"runner {snapshot.chosen_runner.runner} is alive")
    report = FenceReport.of(latest.result)
    if snapshot.proof is not None:
        return _fenced(snapshot, report)
    if latest.ended_at is not None and now - latest.ended_at < FENCE_AGAIN:
        return _stay(snapshot, snapshot.operation.sentence)
    ask = _ask(snapshot, IntentKind.FENCE, _fence_request(snapshot))
    return _moved(snapshot, Happening.UNBLOCKED, "looking again for evidence that the old run has stopped", ask)


def _resolving(snapshot: Snapshot, now: datetime) -> Decision:
    inspection = snapshot.last(IntentKind.INSPECT)
    if inspection is not None and inspection.state is not IntentState.DONE:
        pursued = _pursue(snapshot, inspection, "to read the checkpoint again", inspection.request)
        if pursued is None:
            return _given_up(snapshot, "failed", f"the checkpoint cannot be read: {_failure(inspection).text}")
        if isinstance(pursued, Ask):
            return _stay(snapshot, f"asking runner {pursued.runner} to read the checkpoint again", pursued)
        return pursued
    report, findings = snapshot.report, snapshot.findings
    if report is None:
        return _given_up(snapshot, "failed", "the fence reported no checkpoint")
    if findings is None or findings.report != report:
        return _stay(snapshot, f"looking for the place on {snapshot.operation.target}", Resolve(report=report))
    if findings.unreachable and snapshot.patient:
        text = f"{snapshot.operation.target} cannot be asked, trying again: {findings.unreachable}"
        return _stay(snapshot, text, Resolve(report=report))
    if findings.unreachable:
        return _given_up(snapshot, "failed", f"{snapshot.operation.target} could not be asked: {findings.unreachable}")
    if findings.refusal is not None:
        text = f"{findings.refusal.name}: {findings.refusal.text}"
        return _given_up(snapshot, "refused", text, plan=findings.plan)
    if findings.prepare is None:
        return _given_up(snapshot, "failed", "resolving gave no offsets")
    ask = _ask(snapshot, IntentKind.PREPARE, findings.prepare.as_json())
    if ask is None:
        return _moved(snapshot, Happening.NO_RUNNER, _no_runner(snapshot))
    text = f"every partition has its place; runner {ask.runner} makes the checkpoint for it"
    return _moved(snapshot, Happening.RESOLVED, text, ask, plan=findings.plan)


def _preparing(snapshot: Snapshot, now: datetime) -> Decision:
    latest = snapshot.last(IntentKind.PREPARE)
    if latest is None:
        raise ValueError(f"operation {snapshot.operation.id} is in PREPARING without having asked for it")
    request = PrepareRequest.of(latest.request)
    if latest.state is IntentState.DONE:
        report = PrepareReport.of(latest.result)
        commit = Commit(request=request, data_batch=report.data_batch, runner=latest.runner)
        text = f"placed on {snapshot.operation.target} with epoch {snapshot.operation.epoch}: the point of no return"
        return _moved(snapshot, Happening.COMMITTED, text, commit, detail=report.as_json())
    if latest.state is IntentState.FAILED and _failure(latest).kind == "moved-on":
        ask = _ask(snapshot, IntentKind.INSPECT, InspectRequest(checkpoint=request.checkpoint).as_json())
        if ask is None:
            return _moved(snapshot, Happening.NO_RUNNER, _no_runner(snapshot))
        return _moved(snapshot, Happening.MOVED_ON, f"{_failure(latest).text}: resolving again", ask)
    again = request.model_copy(update={"target": _next_folder(request.target, len(snapshot.of(IntentKind.PREPARE)))})
    pursued = _pursue(snapshot, latest, "to make the checkpoint", again.as_json())
    if pursued is None:
        return _given_up(snapshot, "failed", f"the new checkpoint cannot be made: {_failure(latest).text}")
    if isinstance(pursued, Ask):
        return _stay(snapshot, f"asking runner {pursued.runner} to make the checkpoint", pursued)
    return pursued


def folder(base: str, epoch: int, operation: str, attempt: int = 1) -> str:
    """The new checkpoint's folder. Each attempt has its own, so that a runner that wakes up late spoils none."""
    suffix = "" if attempt == 1 else f"-{attempt}"
    return f"{base.rstrip('/')}/epoch-{epoch}-{operation}{suffix}"


def _next_folder(target: str, attempts: int) -> str:
    return f"{target}-{attempts + 1}" if attempts == 1 else f"{target.rpartition('-')[0]}-{attempts + 1}"


def _is_of_operation(snapshot: Snapshot, fact: QueryFact | None) -> bool:
    operation = snapshot.operation
    return fact is not None and fact.epoch == operation.epoch and fact.cluster == operation.target


def _starting(snapshot: Snapshot, now: datetime) -> Decision:
    if _is_of_operation(snapshot, snapshot.fact):
        runner = snapshot.fact.runner if snapshot.fact else ""
        return _moved(snapshot, Happening.STARTED, f"runner {runner} starts the query on {snapshot.operation.target}")
    return _stay(snapshot, _waiting_for_start(snapshot))


def _waiting_for_start(snapshot: Snapshot) -> str:
    runner = snapshot.assignment.runner
    if not snapshot.is_alive(runner):
        return f"runner {runner} is silent: the query starts when it is back (tideover run --name {runner})"
    return f"waiting for runner {runner} to start the query on {snapshot.operation.target}"


def _verifying(snapshot: Snapshot, now: datetime) -> Decision:
    fact, operation = snapshot.fact, snapshot.operation
    if fact is None or not _is_of_operation(snapshot, fact):
        return _stay(snapshot, _waiting_for_start(snapshot))
    wanted = (operation.plan or {}).get("data_batch")
    reached = not isinstance(wanted, int) or (fact.batch is not None and fact.batch >= wanted)
    if fact.first_commit_at is not None and reached:
        measured = _measured(snapshot, fact, fact.first_commit_at, committed=True)
        seconds = measured["switch_seconds"]
        text = f"batch {fact.batch} is committed on {operation.target}, {seconds:.1f} s after the decision"
        return _moved(snapshot, Happening.PROVEN, text, Settle(measured=measured), detail=measured)
    if fact.state is RunState.FAILED:
        error = (fact.error or "no reason was given").partition("\n")[0]
        return _stay(snapshot, f"the query fails on {operation.target} and is tried again: {error}")
    if not snapshot.is_alive(fact.runner):
        return _stay(snapshot, _waiting_for_start(snapshot))
    if fact.first_commit_at is None and fact.progressed_at is not None:
        measured = _measured(snapshot, fact, fact.progressed_at, committed=False)
        seconds = measured["switch_seconds"]
        text = f"running on {operation.target}, where nothing is left to read yet, {seconds:.1f} s after the decision"
        return _moved(snapshot, Happening.PROVEN, text, Settle(measured=measured), detail=measured)
    return _stay(snapshot, f"running on {operation.target}; waiting for its first batch with data to be committed")


def _measured(snapshot: Snapshot, fact: QueryFact, proven_at: datetime, *, committed: bool) -> dict[str, object]:
    totals = (snapshot.operation.plan or {}).get("totals")
    known = totals if isinstance(totals, Mapping) else {}
    return {
        **snapshot.operation.measured,
        "switch_seconds": round((proven_at - snapshot.operation.started_at).total_seconds(), 3),
        "first_commit_at": iso(proven_at) if committed else None,
        "replay_records": known.get("replay_records"),
        "exposure_records": known.get("exposure_records"),
        "dropped_late_rows": fact.dropped_late_rows,
    }


def _aborting(snapshot: Snapshot, now: datetime) -> Decision:
    outcome = snapshot.ending or "failed"
    back = f"{snapshot.operation.query} goes on on {snapshot.operation.source}"
    fences = snapshot.of(IntentKind.FENCE)
    latest = snapshot.last(IntentKind.RELEASE)
    if not fences or (latest is not None and latest.state is IntentState.DONE):
        return _moved(snapshot, Happening.RELEASED, snapshot.operation.sentence, GoBack(outcome=outcome))
    planted = {batch for i in fences if i.state is IntentState.DONE for batch in FenceReport.of(i.result).planted}
    prepared = snapshot.last(IntentKind.PREPARE)
    request = ReleaseRequest(
        checkpoint=snapshot.assignment.checkpoint,
        planted=tuple(sorted(planted)),
        prepared=PrepareRequest.of(prepared.request).target if prepared else None,
        operation=snapshot.operation.id,
    ).as_json()
    if latest is None:
        ask = _ask(snapshot, IntentKind.RELEASE, request)
        return _stay(snapshot, snapshot.operation.sentence, ask) if ask else _stay(snapshot, _no_runner(snapshot))
    pursued = _pursue(snapshot, latest, "to undo the fence", request)
    if pursued is None:
        text = f"{back}, but its fence could not be undone: {_failure(latest).text}"
        return _moved(snapshot, Happening.RELEASED, text, GoBack(outcome="failed"))
    if isinstance(pursued, Ask):
        return _stay(snapshot, snapshot.operation.sentence, pursued)
    return _stay(snapshot, snapshot.operation.sentence) if latest.state is IntentState.PENDING else pursued


_DECIDERS = {
    Phase.FENCING: _fencing,
    Phase.BLOCKED: _blocked,
    Phase.RESOLVING: _resolving,
    Phase.PREPARING: _preparing,
    Phase.STARTING: _starting,
    Phase.VERIFYING: _verifying,
    Phase.ABORTED: _aborting,
}
