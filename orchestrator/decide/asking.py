"""What the decisions of all phases are made of: staying, moving on, giving up, and asking a runner.

Whatever was asked of a runner stays asked; it is asked anew only of another runner, or, after a pause, when the first
try failed in a way that can pass. What a fence planted is taken away however often that fails: a query whose checkpoint
is still fenced runs nowhere. What counts is what was asked under the operation's present epoch: a takeover raises it,
and begins with a fence of its own.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from orchestrator.decide.phases import Happening, move
from orchestrator.decide.snapshot import Act, Ask, Decision, Snapshot, Wait
from state.model import Intent, IntentKind, IntentState, Phase
from state.protocol import ALREADY_RUN, HELD, Failure, FenceReport, FenceRequest, PrepareRequest, ReleaseRequest

TRIES = 3
"""How often an intent that failed in an unforeseen way is asked again."""
LASTING = frozenset({ALREADY_RUN, HELD, "no-space", "access-denied", "unreadable", "not-a-checkpoint", "empty"})
"""Kinds of failure that asking again does not heal."""
PASSING = frozenset({"file-system", "store-unavailable"})
"""Kinds of failure that pass as a rule (a name node fails over, a mount hangs): asked again for as long as there is
patience, however often."""
AGAIN = timedelta(seconds=0.5)
"""The pause behind a first failure; it doubles with each further one."""
AGAIN_AT_MOST = timedelta(seconds=5)
AGAIN_WITHOUT_PATIENCE = timedelta(minutes=1)
_WITHDRAWN = "withdrawn"
_WAITS_FOR_RUNNERS = frozenset({Phase.ABORTED, Phase.STARTING})
"""Phases that BLOCKED is no way out of: they wait where they are."""


def stay(snapshot: Snapshot, sentence: str, act: Act | None = None) -> Decision:
    """Remain in the phase."""
    return Decision(phase=snapshot.operation.phase, sentence=sentence, act=act or Wait())


def moved(
    snapshot: Snapshot,
    happening: Happening,
    sentence: str,
    act: Act | None = None,
    *,
    detail: Mapping[str, object] | None = None,
    plan: Mapping[str, object] | None = None,
) -> Decision:
    """Go where the table says. Raises ``IllegalMove``."""
    return Decision(
        phase=move(snapshot.operation.phase, happening),
        sentence=sentence,
        act=act or Wait(),
        happening=happening,
        detail=detail,
        plan=plan,
    )


def given_up(snapshot: Snapshot, outcome: str, sentence: str, plan: Mapping[str, object] | None = None) -> Decision:
    """Begin the way back, which ends with this outcome."""
    return Decision(
        phase=move(snapshot.operation.phase, Happening.GIVEN_UP),
        sentence=sentence,
        happening=Happening.GIVEN_UP,
        ending=outcome,
        plan=plan,
        detail={"outcome": outcome, "text": sentence},
    )


def no_runner(snapshot: Snapshot) -> str:
    """The sentence for when nobody can be asked."""
    names = snapshot.settings.runners
    return f"no runner of {snapshot.operation.query} is alive: start one with tideover run --name {names[0]}"


def ask(snapshot: Snapshot, kind: IntentKind, request: Mapping[str, object]) -> Ask | None:
    """The asking of a runner that is alive, under the next free name; None when none is alive."""
    runner = snapshot.chosen_runner
    if runner is None:
        return None
    earlier = [intent for intent in snapshot.intents if intent.kind is kind]
    pending = tuple(intent.id for intent in earlier if intent.state is IntentState.PENDING)
    return Ask(
        name=Intent.name_of(kind, len(earlier)), kind=kind, runner=runner.runner, request=request, withdraw=pending
    )


def pursue(
    snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object], now: datetime
) -> Decision | Ask | None:
    """What to do about an intent that is not done: a decision, another asking, or None when it failed for good."""
    if intent.state is IntentState.FAILED and _is_for_good(snapshot, intent):
        return None
    return insist(snapshot, intent, doing, request, now)


def insist(
    snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object], now: datetime
) -> Decision | Ask:
    """What to do about an intent that is not done and must be, however often it failed."""
    if intent.state is IntentState.PENDING and snapshot.is_alive(intent.runner):
        return stay(snapshot, f"waiting for runner {intent.runner} {doing}")
    if intent.state is IntentState.FAILED and abs(now - intent.created_at) < _pause(snapshot, intent):
        return stay(snapshot, f"runner {intent.runner} failed {doing}, asking again: {failure(intent).text}")
    another = ask(snapshot, intent.kind, request)
    if another is not None:
        return another
    if snapshot.operation.phase in _WAITS_FOR_RUNNERS:
        return stay(snapshot, no_runner(snapshot))
    return moved(snapshot, Happening.NO_RUNNER, no_runner(snapshot))


def _is_for_good(snapshot: Snapshot, intent: Intent) -> bool:
    kind, kinds = failure(intent).kind, _failures(snapshot, intent)
    if kind in PASSING:
        return not snapshot.patient and len(kinds) >= TRIES
    return kind in LASTING or len([each for each in kinds if each not in PASSING]) >= TRIES


def _pause(snapshot: Snapshot, intent: Intent) -> timedelta:
    """Counted from when the intent was asked for, on the store's clock, as all pauses of a fence are."""
    if failure(intent).kind == _WITHDRAWN:
        return timedelta(0)
    doublings = min(len(_failures(snapshot, intent)) - 1, 10)
    return min(AGAIN * (1 << doublings), AGAIN_AT_MOST if snapshot.patient else AGAIN_WITHOUT_PATIENCE)


def count_failures(snapshot: Snapshot, intent: Intent, kind: str) -> int:
    """How often what was asked failed in this way."""
    return _failures(snapshot, intent).count(kind)


def _failures(snapshot: Snapshot, intent: Intent) -> list[str]:
    """The kinds of all failures so far of what was asked, but for askings that were taken back."""
    failed = [failure(each).kind for each in snapshot.of(intent.kind) if each.state is IntentState.FAILED]
    return [kind for kind in failed if kind != _WITHDRAWN]


def failure(intent: Intent) -> Failure:
    """Why an intent failed."""
    return Failure.of(intent.result or {"kind": "internal", "text": "no reason was given"})


def fence_request(snapshot: Snapshot) -> Mapping[str, object]:
    """Fence the checkpoint that is assigned now."""
    return FenceRequest(
        checkpoint=snapshot.assignment.checkpoint,
        epoch=snapshot.operation.epoch,
        operation=snapshot.operation.id,
        hosting=snapshot.hosted_by,
    ).as_json()


def release_request(snapshot: Snapshot, *, made: PrepareRequest | None) -> Mapping[str, object]:
    """Undo what this operation planted into the checkpoint that is assigned now."""
    fences = [i for i in snapshot.of(IntentKind.FENCE) if i.state is IntentState.DONE]
    planted = {batch for intent in fences for batch in FenceReport.of(intent.result).planted}
    return ReleaseRequest(
        checkpoint=snapshot.assignment.checkpoint,
        planted=tuple(sorted(planted)),
        prepared=made.target if made is not None else None,
        operation=snapshot.operation.id,
        fresh=made is not None and made.resume == "fresh",
    ).as_json()
