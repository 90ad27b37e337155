"""What the decisions of all phases are made of: staying, moving on, giving up, and giving an order to a runner. An
order to a runner stays; it is given again only to another runner, or, after a pause, when the first try failed in a way
that can pass. What a fence planted is taken away however often that fails: a query whose checkpoint is still fenced
runs nowhere. What counts is what was ordered under the operation's present epoch: a takeover raises it, and begins with
a fence of its own.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from orchestrator.decide.gates.gate import is_for_another_run
from orchestrator.decide.gates.preconditions import is_awaited, to_start
from orchestrator.decide.move_facts import is_planned, to_time_ms_of
from orchestrator.decide.operation.snapshot import AWAITS, Act, Decision, Order, Snapshot, Wait
from orchestrator.decide.phases import Trigger, move
from state.messages import (
    ALREADY_RUN,
    CLEANED_AWAY,
    CONTRADICTED,
    FINISH_SECONDS,
    HELD,
    NO_ANSWER,
    NO_COMPANION,
    WITHDRAWN,
    Failure,
    FenceReport,
    FenceRequest,
    PrepareRequest,
    ReleaseRequest,
)
from state.model.entities import Intent, IntentKind, IntentState, OperationKind, Phase
from state.model.plan import Plan
from state.settings.keys import Resume

ANSWER_WITHIN = timedelta(seconds=90)
"""How long a runner may take for an answer: a mount that neither returns nor fails leaves its heart beating. It may
answer hours later; see ``step`` for why that does no harm."""
COPY_WITHIN = timedelta(minutes=15)
"""The same for a new checkpoint, which takes as long as the state is large: 90 GB at 100 MB/s. From ``ANSWER_WITHIN``
on a person can call it off."""
_LIMITS = {**dict.fromkeys(IntentKind, ANSWER_WITHIN), IntentKind.PREPARE: COPY_WITHIN}
TRIES = 3
"""How often an intent that failed in an unforeseen way is ordered again."""
LASTING = frozenset(
    {ALREADY_RUN, CLEANED_AWAY, CONTRADICTED, HELD, NO_COMPANION}
    | {"no-space", "access-denied", "unreadable", "not-a-checkpoint", "empty"}
)
"""Kinds of failure that another try does not heal."""
PASSING = frozenset({"file-system", "store-unavailable"})
"""Kinds of failure that pass as a rule (a name node fails over, a mount hangs): ordered again for as long as there is
patience, however often.
"""
AGAIN = timedelta(seconds=0.5)
"""The pause behind a first failure; it doubles with each further one."""
AGAIN_AT_MOST = timedelta(seconds=5)
AGAIN_WITHOUT_PATIENCE = timedelta(minutes=1)
_TAKEN_BACK = frozenset({WITHDRAWN, NO_ANSWER})
_WAITS_FOR_RUNNERS = frozenset({Phase.ABORTED, Phase.STARTING})
"""Phases that BLOCKED is no way out of: they wait where they are."""


def stay(snapshot: Snapshot, sentence: str, act: Act | None = None) -> Decision:
    """Remain in the phase."""
    return Decision(phase=snapshot.operation.phase, sentence=sentence, act=act or Wait())


def moved(
    snapshot: Snapshot,
    trigger: Trigger,
    sentence: str,
    act: Act | None = None,
    *,
    detail: Mapping[str, object] | None = None,
    plan: Plan | None = None,
) -> Decision:
    """Go where the table says. Raises ``IllegalMove``."""
    return Decision(
        phase=move(snapshot.operation.phase, trigger),
        sentence=sentence,
        act=act or Wait(),
        trigger=trigger,
        detail=detail,
        plan=plan,
    )


def given_up(snapshot: Snapshot, outcome: str, sentence: str, plan: Plan | None = None) -> Decision:
    """Begin the way back, which ends with this outcome."""
    return Decision(
        phase=move(snapshot.operation.phase, Trigger.GIVEN_UP),
        sentence=sentence,
        trigger=Trigger.GIVEN_UP,
        ending=outcome,
        plan=plan,
        detail={"outcome": outcome, "text": sentence},
    )


def no_runner(snapshot: Snapshot) -> str:
    """The sentence for when no runner can get the order."""
    operation, settings = snapshot.operation, snapshot.settings
    if is_awaited(settings, snapshot.fact):
        return f"{AWAITS}{settings.attach}, which does not run now: {operation.query} is moved by that start"
    return f"no runner of {operation.query} is alive: {to_start(settings)}"


def unproven(snapshot: Snapshot, run: str, report: FenceReport) -> str:
    """The sentence for a fence that found no proof, with the advice that fits.

    Where the very process that hosts the run says so, the run is at work still. It ends on its own or with its process,
    and a consent would let two runs write. An application without the jar outlives the runner that tends it: its
    ``status`` alone proves its end.
    """
    in_doubt = snapshot.hosted_by
    seen = f"nothing proves that {run} has stopped: {report.detail}; checking again"
    operation = snapshot.operation
    verb = f"failover {operation.query} --to {operation.target}"
    if operation.kind is OperationKind.REWIND:
        verb = f"rewind {operation.query} --to-time {operation.parameters.get('to_time')}"
    consent = f"tideover {verb} --consent unfenced"
    if in_doubt is None:
        return f"{seen}. If you know that it has ended: {consent}"
    hosts = any(fact.instance == in_doubt.instance for fact in snapshot.alive)
    if hosts and snapshot.settings.application is not None:
        return (
            f"{seen} until its status exits with 3. If status cannot do that, and you know that it has ended: {consent}"
        )
    if hosts:
        return f"{seen} until it ends. If it does not end, end process {in_doubt.pid} on {in_doubt.host}"
    if is_for_another_run(snapshot.operation.consents, in_doubt):
        return f"{seen}. The consent unfenced was given for another run. If you know that this one has ended: {consent}"
    return f"{seen}. If you know that it has ended: {consent}"


def order(snapshot: Snapshot, kind: IntentKind, request: Mapping[str, object]) -> Order | None:
    """The order to a runner that is alive, under the next free name; None when none is alive.

    The order to another one is taken back. A fence is not, of a runner that is alive: it may plant its entries
    yet, and taking them away has to wait for that.
    """
    runner = snapshot.chosen_runner
    if runner is None:
        return None
    earlier = [intent for intent in snapshot.intents if intent.kind is kind]
    pending = tuple(
        intent.id
        for intent in earlier
        if intent.state is IntentState.PENDING and not (kind is IntentKind.FENCE and snapshot.is_alive(intent.runner))
    )
    return Order(
        name=Intent.name_of(kind, len(earlier)), kind=kind, runner=runner.runner, request=request, withdraw=pending
    )


def pursue(
    snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object], now: datetime
) -> Decision | Order | None:
    """What to do about an intent that is not done: a decision, another order, or None when it failed for good."""
    if intent.state is IntentState.FAILED and _is_for_good(snapshot, intent):
        return None
    return insist(snapshot, intent, doing, request, now)


def insist(
    snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object], now: datetime
) -> Decision | Order:
    """What to do about an intent that is not done and must be, however often it failed."""
    if intent.state is IntentState.PENDING and snapshot.is_alive(intent.runner):
        if intent.id not in snapshot.overdue:
            return stay(snapshot, _waiting(snapshot, intent, doing))
        other = snapshot.chosen_runner
        if other is None or other.runner in snapshot.hanging:
            return _hangs(snapshot, intent, doing)
    if intent.state is IntentState.FAILED and abs(now - intent.created_at) < _pause(snapshot, intent):
        return stay(snapshot, f"runner {intent.runner} failed {doing}, trying again: {failure(intent).text}")
    another = order(snapshot, intent.kind, request)
    if another is not None:
        return another
    if snapshot.operation.phase in _WAITS_FOR_RUNNERS:
        return stay(snapshot, no_runner(snapshot))
    return moved(snapshot, Trigger.NO_RUNNER, no_runner(snapshot))


def _waiting(snapshot: Snapshot, intent: Intent, doing: str) -> str:
    text = f"waiting for runner {intent.runner} {doing}"
    if intent.id not in snapshot.late:
        until = intent.created_at + _LIMITS[intent.kind]
        return f"{text}: ordered at {intent.created_at:%H:%M:%S}, at most until {until:%H:%M:%S} UTC"
    query, source = snapshot.operation.query, snapshot.operation.source
    return (
        f"{text} for more than {ANSWER_WITHIN.total_seconds():g} s: copying a large state takes time, or "
        "a file system hangs; "
        f"to cancel the move: tideover failover {query} --to {source}"
    )


def _hangs(snapshot: Snapshot, intent: Intent, doing: str) -> Decision:
    """A runner beats and does not answer, and there is no other to get the order."""
    limit = _LIMITS[intent.kind].total_seconds()
    text = f"runner {intent.runner} was ordered {doing} and has not answered for {limit:g} s"
    if snapshot.operation.phase in _WAITS_FOR_RUNNERS:
        return stay(snapshot, f"{text}; {way_out(snapshot, intent.runner)}")
    return given_up(snapshot, "failed", f"{text}: its file system may hang")


def way_out(snapshot: Snapshot, runner: str) -> str:
    """What a person can do about a runner that is alive and does not answer."""
    process = next((f"process {each.pid} on {each.host}" for each in snapshot.alive if each.runner == runner), "it")
    return (
        f"it continues when runner {runner} answers: repair its file system, or end {process} and start it again "
        f"with tideover run --name {runner}"
    )


def late(snapshot: Snapshot, now: datetime) -> frozenset[str]:
    """Intents whose answer need not be waited for any longer, on the store's clock, on which they were ordered."""
    return _pending_for(snapshot, now, dict.fromkeys(IntentKind, ANSWER_WITHIN))


def overdue(snapshot: Snapshot, now: datetime) -> frozenset[str]:
    """Those whose answer is not waited for any longer."""
    return _pending_for(snapshot, now, _LIMITS)


def _pending_for(snapshot: Snapshot, now: datetime, limits: Mapping[IntentKind, timedelta]) -> frozenset[str]:
    pending = (each for each in snapshot.intents if each.state is IntentState.PENDING)
    return frozenset(each.id for each in pending if abs(now - each.created_at) >= limits[each.kind])


def _is_for_good(snapshot: Snapshot, intent: Intent) -> bool:
    kind, kinds = failure(intent).kind, _failures(snapshot, intent)
    if kind in PASSING:
        return not snapshot.patient and len(kinds) >= TRIES
    return kind in LASTING or len([each for each in kinds if each not in PASSING]) >= TRIES


def _pause(snapshot: Snapshot, intent: Intent) -> timedelta:
    """Counted from when the intent was ordered, on the store's clock, as all pauses of a fence are."""
    if failure(intent).kind in _TAKEN_BACK:
        return timedelta(0)
    doublings = min(len(_failures(snapshot, intent)) - 1, 10)
    return min(AGAIN * (1 << doublings), AGAIN_AT_MOST if snapshot.patient else AGAIN_WITHOUT_PATIENCE)


def count_failures(snapshot: Snapshot, intent: Intent, kind: str) -> int:
    """How often the order failed in this way."""
    return _failures(snapshot, intent).count(kind)


def _failures(snapshot: Snapshot, intent: Intent) -> list[str]:
    """The kinds of all failures so far of the order, but for orders that were taken back."""
    failed = [failure(each).kind for each in snapshot.of(intent.kind) if each.state is IntentState.FAILED]
    return [kind for kind in failed if kind not in _TAKEN_BACK]


def failure(intent: Intent) -> Failure:
    """Why an intent failed."""
    return Failure.of(intent.result or {"kind": "internal", "text": "the runner gave no reason"})


def fence_request(snapshot: Snapshot) -> Mapping[str, object]:
    """Fence the checkpoint that is assigned now; a planned move lets the batch under way finish first."""
    planned = is_planned(snapshot.operation.kind, snapshot.operation.consents)
    return FenceRequest(
        checkpoint=snapshot.assignment.checkpoint,
        epoch=snapshot.operation.epoch,
        operation=snapshot.operation.id,
        hosting=snapshot.hosted_by,
        finish_seconds=FINISH_SECONDS if planned else 0.0,
        cluster=snapshot.operation.target,
        to_time_ms=to_time_of(snapshot),
    ).as_json()


def to_time_of(snapshot: Snapshot) -> int | None:
    """The time to which a rewind goes back, in milliseconds; None of other kinds."""
    operation = snapshot.operation
    return to_time_ms_of(operation.parameters) if operation.kind is OperationKind.REWIND else None


def is_mapped(request: PrepareRequest) -> bool:
    """Whether the query keeps its checkpoint, and a mapping beside it says where it continues."""
    return request.resume == Resume.SWITCH


def release_request(
    snapshot: Snapshot, *, made: PrepareRequest | None, committed: bool = False
) -> Mapping[str, object]:
    """Undo what this operation planted into the checkpoint that is assigned now; of a ``committed`` one the entries."""
    fences = [i for i in snapshot.of(IntentKind.FENCE) if i.state is IntentState.DONE]
    planted = {batch for intent in fences for batch in FenceReport.of(intent.result).planted}
    return ReleaseRequest(
        checkpoint=snapshot.assignment.checkpoint,
        planted=tuple(sorted(planted)),
        prepared=made.target if made is not None and not is_mapped(made) else None,
        mapped=made is not None and is_mapped(made),
        operation=snapshot.operation.id,
        epoch=snapshot.operation.epoch,
        committed=committed,
        fresh=made is not None and made.resume == "fresh",
    ).as_json()
