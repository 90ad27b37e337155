"""What the decisions of all phases are made of: staying, moving on, giving up, and asking a runner.

Whatever was asked of a runner stays asked; it is asked anew only of another runner, or when the first try failed in a
way that can pass. What counts is what was asked under the operation's present epoch: a takeover raises it, and begins
with a fence of its own.
"""

from collections.abc import Mapping

from orchestrator.decide.phases import Happening, move
from orchestrator.decide.snapshot import Act, Ask, Decision, Snapshot, Wait
from state.model import Intent, IntentKind, IntentState, Phase
from state.protocol import Failure, FenceReport, FenceRequest, ReleaseRequest

TRIES = 3
"""How often an intent that failed in an unforeseen way is asked again."""
LASTING = frozenset({"no-space", "unreadable", "not-a-checkpoint", "empty"})
"""Kinds of failure that asking again does not heal."""
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
    name = kind.value if not earlier else f"{kind.value}#{len(earlier) + 1}"
    pending = tuple(intent.id for intent in earlier if intent.state is IntentState.PENDING)
    return Ask(name=name, kind=kind, runner=runner.runner, request=request, withdraw=pending)


def pursue(snapshot: Snapshot, intent: Intent, doing: str, request: Mapping[str, object]) -> Decision | Ask | None:
    """What to do about an intent that is not done: a decision, another asking, or None when it failed for good."""
    if intent.state is IntentState.PENDING and snapshot.is_alive(intent.runner):
        return stay(snapshot, f"waiting for runner {intent.runner} {doing}")
    if intent.state is not IntentState.PENDING:
        failed = [i for i in snapshot.of(intent.kind) if i.state is IntentState.FAILED]
        unforeseen = [i for i in failed if failure(i).kind != "withdrawn"]
        if failure(intent).kind in LASTING or len(unforeseen) >= TRIES:
            return None
    another = ask(snapshot, intent.kind, request)
    if another is not None:
        return another
    if snapshot.operation.phase in _WAITS_FOR_RUNNERS:
        return stay(snapshot, no_runner(snapshot))
    return moved(snapshot, Happening.NO_RUNNER, no_runner(snapshot))


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


def release_request(snapshot: Snapshot, *, prepared: str | None) -> Mapping[str, object]:
    """Undo what this operation planted into the checkpoint that is assigned now."""
    fences = [i for i in snapshot.of(IntentKind.FENCE) if i.state is IntentState.DONE]
    planted = {batch for intent in fences for batch in FenceReport.of(intent.result).planted}
    return ReleaseRequest(
        checkpoint=snapshot.assignment.checkpoint,
        planted=tuple(sorted(planted)),
        prepared=prepared,
        operation=snapshot.operation.id,
    ).as_json()
