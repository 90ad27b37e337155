"""The way from phase to phase as it is decided: each pair of the table has its cause, and no cause lies beside it."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.asking import TRIES
from orchestrator.decide.gate import Gate
from orchestrator.decide.phases import BEFORE_COMMIT, FINAL, TABLE, Happening, move, watched
from orchestrator.decide.snapshot import Findings, Snapshot
from orchestrator.decide.step import MOVES_ON, step
from state.model import Desired, Intent, IntentKind, IntentState, Phase, RunState
from state.protocol import CheckpointReport, Evidence, Failure, FenceReport, PrepareReport, PrepareRequest
from state.sighting import Verdict
from tests.contract import samples
from tests.simulation.world import settings

NOW = samples.AT + timedelta(minutes=5)
OFFSETS = {"orders": {"orders": {"0": 12}}}
REPORT = CheckpointReport(checkpoint="/checkpoints/revenue", batch=3, offsets=OFFSETS)
PREPARE = PrepareRequest(
    checkpoint="/checkpoints/revenue", target="/cp/revenue/epoch-2-op-1", operation="op-1", epoch=2, resume="carry",
    batch=3, offsets=OFFSETS, target_offsets=OFFSETS,
)  # fmt: skip
PREPARED = PrepareReport(checkpoint=PREPARE.target, data_batch=4, files=9, bytes=900, seconds=0.1)
MOVED_ON = Failure(kind="moved-on", text="batch 4 is committed")
NO_SPACE = Failure(kind="no-space", text="the disk is full")
A, B = samples.runner(), samples.runner(runner="b", instance="b-1")
HELD = samples.assignment(epoch=2, desired=Desired.HELD, operation="op-1")
PLACED = samples.assignment(epoch=2, placed_epoch=2, cluster="west", checkpoint=PREPARE.target, operation="op-1")
RUNS = samples.fact(
    epoch=2, cluster="west", checkpoint=PREPARE.target, batch=3, first_commit_at=None, progressed_at=None
)
COMMITS = replace(RUNS, batch=4, first_commit_at=NOW)


def fence(evidence: Evidence | None = None) -> FenceReport:
    return FenceReport(checkpoint=REPORT, planted=(4, 5), evidence=evidence, detail="stop returned")


def asked(kind: IntentKind, result: Any = None, *, epoch: int = 2, number: int = 1, **changes: Any) -> Intent:
    """An intent of the operation: pending, failed, or done with this report."""
    name = kind.value if number == 1 else f"{kind.value}#{number}"
    state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE if result else IntentState.PENDING
    return samples.intent(
        id=f"op-1/{name}", name=name, kind=kind, epoch=epoch, state=state,
        request=PREPARE.as_json() if kind is IntentKind.PREPARE else {"checkpoint": REPORT.checkpoint, "epoch": epoch,
        "operation": "op-1", "hosting": None}, result=result.as_json() if result else None, **changes,
    )  # fmt: skip


FENCE, PREPARING, RELEASE = IntentKind.FENCE, IntentKind.PREPARE, IntentKind.RELEASE
FENCED = asked(FENCE, fence(Evidence.RUNNER))
UNPROVEN = asked(FENCE, fence())


def at(phase: Phase, *intents: Intent, **changes: Any) -> Snapshot:
    """The operation in this phase, its query held or placed as the phase has it; runner ``a`` is alive."""
    values: dict[str, Any] = {
        "operation": samples.operation(phase=phase, consents=()),
        "settings": settings().queries["revenue"],
        "assignment": HELD if phase in BEFORE_COMMIT | {Phase.ABORTED} else PLACED,
        "intents": intents,
        "alive": (A,),
        "fact": None,
        "hosting": None,
    }
    return Snapshot(**(values | changes))


def found(*, refuses: bool = False, unreachable: str = "") -> Findings:
    gate = Gate(name="exposure", ok=not refuses, measured="10 s", limit="1 s", text="too much is missing")
    prepare = None if refuses or unreachable else PREPARE
    return Findings(report=REPORT, gates=(gate,), plan={}, prepare=prepare, unreachable=unreachable)


def consenting(snapshot: Snapshot, *consents: str) -> Snapshot:
    return replace(snapshot, operation=replace(snapshot.operation, consents=consents))


def taking_over(*intents: Intent, **changes: Any) -> Snapshot:
    """Runner ``a`` is silent behind the commit; the query is held anew, and ``b`` is alive."""
    held = replace(PLACED, epoch=3, desired=Desired.HELD)
    snapshot = at(Phase.STARTING, *intents, assignment=held, alive=(B,), **changes)
    return replace(snapshot, operation=replace(snapshot.operation, epoch=3))


@dataclass(frozen=True)
class Way:
    """What leads out of a phase, and where to."""

    why: str
    snapshot: Snapshot
    happening: Happening
    after: Phase

    @property
    def pair(self) -> tuple[Phase, Happening]:
        return self.snapshot.operation.phase, self.happening


F, BL, RE, PR = Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING
ST, VE, AB, SE = Phase.STARTING, Phase.VERIFYING, Phase.ABORTED, Phase.SETTLED
LOST = asked(FENCE, fence(Evidence.PROCESS), epoch=3, number=2, runner="b")
FAILED = replace(RUNS, state=RunState.FAILED, error="no such table\n  at line 1")
MOVES = [asked(PREPARING, MOVED_ON, number=number) for number in range(1, MOVES_ON + 2)]
WAYS = [
    Way("the runner stopped it", at(F, FENCED), Happening.FENCED, RE),
    Way("somebody consents", consenting(at(F, UNPROVEN), "unfenced"), Happening.FENCED, RE),
    Way("no evidence", at(F, UNPROVEN), Happening.UNPROVEN, BL),
    Way("nobody to be asked", at(F, alive=()), Happening.NO_RUNNER, BL),
    Way("whoever was asked died", at(F, asked(FENCE), alive=()), Happening.NO_RUNNER, BL),
    Way("it cannot be planted", at(F, asked(FENCE, NO_SPACE)), Happening.GIVEN_UP, AB),
    Way("called off", at(F, called_off_by="ann"), Happening.GIVEN_UP, AB),
    Way("a runner is back", at(BL), Happening.UNBLOCKED, F),
    Way("it is time to look again", at(BL, UNPROVEN), Happening.UNBLOCKED, F),
    Way("somebody consents", consenting(at(BL, UNPROVEN), "unfenced"), Happening.FENCED, RE),
    Way("fenced before the runner went", at(BL, FENCED), Happening.FENCED, RE),
    Way("called off", at(BL, UNPROVEN, called_off_by="ann"), Happening.GIVEN_UP, AB),
    Way("every gate holds", at(RE, FENCED, findings=found()), Happening.RESOLVED, PR),
    Way("nobody to prepare", at(RE, FENCED, findings=found(), alive=()), Happening.NO_RUNNER, BL),
    Way("a gate refuses", at(RE, FENCED, findings=found(refuses=True)), Happening.GIVEN_UP, AB),
    Way("silent too long", at(RE, FENCED, findings=found(unreachable="no"), patient=False), Happening.GIVEN_UP, AB),
    Way("unreadable", at(RE, FENCED, asked(IntentKind.INSPECT, NO_SPACE)), Happening.GIVEN_UP, AB),
    Way("called off", at(RE, FENCED, called_off_by="ann"), Happening.GIVEN_UP, AB),
    Way("another batch", at(PR, FENCED, asked(PREPARING, MOVED_ON)), Happening.MOVED_ON, RE),
    Way("it is made", at(PR, FENCED, asked(PREPARING, PREPARED)), Happening.COMMITTED, ST),
    Way("its maker died", at(PR, FENCED, asked(PREPARING), alive=()), Happening.NO_RUNNER, BL),
    Way("nobody to read again", at(PR, asked(PREPARING, MOVED_ON), alive=()), Happening.NO_RUNNER, BL),
    Way("no room for it", at(PR, FENCED, asked(PREPARING, NO_SPACE)), Happening.GIVEN_UP, AB),
    Way("it moves on and on", at(PR, FENCED, *MOVES), Happening.GIVEN_UP, AB),
    Way("called off", at(PR, asked(PREPARING, NO_SPACE), called_off_by="ann"), Happening.GIVEN_UP, AB),
    Way("its runner has it", at(ST, fact=RUNS), Happening.STARTED, VE),
    Way("its runner is silent", at(ST, alive=(B,)), Happening.RUNNER_LOST, ST),
    Way("fence is away", taking_over(LOST, asked(RELEASE, REPORT, epoch=3)), Happening.TAKEN_OVER, ST),
    Way("the standby is gone", at(ST, unreachable="no", patient=False), Happening.UNVERIFIED, SE),
    Way("gone, and another move waits", at(ST, unreachable="no", awaited=True), Happening.UNVERIFIED, SE),
    Way(
        "the lost run cannot be fenced",
        taking_over(asked(FENCE, NO_SPACE, epoch=3, number=2), asked(RELEASE, REPORT, epoch=3)),
        Happening.UNVERIFIED,
        SE,
    ),
    Way("a batch", at(VE, fact=COMMITS), Happening.PROVEN, SE),
    Way("nothing to read", at(VE, fact=replace(RUNS, progressed_at=NOW)), Happening.PROVEN, SE),
    Way("its runner is silent", at(VE, fact=RUNS, alive=(B,)), Happening.RUNNER_LOST, ST),
    Way("it fails", at(VE, fact=FAILED, patient=False), Happening.UNVERIFIED, SE),
    Way("nothing to undo", at(AB, ending="refused"), Happening.RELEASED, AB),
    Way("the fence is away", at(AB, FENCED, asked(RELEASE, REPORT), ending="failed"), Happening.RELEASED, AB),
]
SEEN = [
    (Phase.WATCHING, Verdict.UP, Happening.SEEN_WELL, Phase.WATCHING),
    (Phase.WATCHING, Verdict.SUSPECT, Happening.IN_DOUBT, Phase.SUSPECT),
    (Phase.WATCHING, Verdict.DOWN, Happening.DOWN, Phase.CONFIRMED),
    (Phase.SUSPECT, Verdict.DEGRADED, Happening.SEEN_WELL, Phase.WATCHING),
    (Phase.SUSPECT, Verdict.UNREACHABLE_FROM_HERE, Happening.IN_DOUBT, Phase.SUSPECT),
    (Phase.SUSPECT, Verdict.DOWN, Happening.DOWN, Phase.CONFIRMED),
    (Phase.CONFIRMED, Verdict.UP, Happening.SEEN_WELL, Phase.WATCHING),
    (Phase.CONFIRMED, Verdict.UNKNOWN, Happening.IN_DOUBT, Phase.SUSPECT),
    (Phase.CONFIRMED, Verdict.DOWN, Happening.DOWN, Phase.CONFIRMED),
]
HOLDS = {(phase, Happening.HELD) for phase in (Phase.WATCHING, Phase.SUSPECT, Phase.CONFIRMED)}
"""What a taker records when it opens an operation: ``tests/simulation/test_requests.py``."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.pair[0]}: {way.pair[1].value}: {way.why}")
def test_what_is_decided_goes_the_way_of_the_table(way: Way) -> None:
    decision = step(way.snapshot, NOW)
    assert (decision.happening, decision.phase) == (way.happening, way.after)
    assert TABLE[way.pair] is way.after
    assert decision.sentence


def test_a_checkpoint_that_moves_on_is_resolved_again_until_that_has_no_end() -> None:
    assert step(at(PR, FENCED, *MOVES[:-1]), NOW).happening is Happening.MOVED_ON
    assert step(at(PR, FENCED, *MOVES), NOW).sentence == (
        "batch 4 is committed, for the 11th time: something still writes to the checkpoint"
    )


@pytest.mark.parametrize("set_back", [timedelta(0), timedelta(hours=1)], ids=["later", "set back"])
def test_an_inspection_is_newer_than_the_fence_whatever_the_stores_clock_says(set_back: timedelta) -> None:
    fence = replace(FENCED, created_at=NOW + set_back)
    read = [
        replace(asked(IntentKind.INSPECT, REPORT.model_copy(update={"batch": 3 + number}), number=number),
            created_at=NOW - set_back + timedelta(seconds=number))
        for number in (1, 2)
    ]  # fmt: skip
    in_time = sorted([fence, *read], key=lambda intent: intent.created_at)
    newest = at(RE, *in_time).report
    assert newest is not None
    assert newest.batch == 5


@pytest.mark.parametrize(("before", "verdict", "happening", "after"), SEEN)
def test_before_an_operation_the_verdict_goes_the_way_of_the_table(
    before: Phase, verdict: Verdict, happening: Happening, after: Phase
) -> None:
    assert watched(before, verdict) is move(before, happening) is after


@pytest.mark.parametrize("verdict", Verdict)
def test_only_a_cluster_that_is_down_is_confirmed_and_only_one_that_answers_is_merely_watched(verdict: Verdict) -> None:
    expected = {Verdict.UP: Phase.WATCHING, Verdict.DEGRADED: Phase.WATCHING, Verdict.DOWN: Phase.CONFIRMED}
    for before in (Phase.WATCHING, Phase.SUSPECT, Phase.CONFIRMED):
        assert watched(before, verdict) is expected.get(verdict, Phase.SUSPECT)


def test_every_pair_of_the_table_has_a_cause() -> None:
    caused = {way.pair for way in WAYS} | {(before, happening) for before, _, happening, _ in SEEN} | HOLDS
    assert caused == set(TABLE)


_RESULTS: dict[IntentKind, tuple[Any, ...]] = {
    IntentKind.FENCE: (None, fence(), fence(Evidence.RUNNER), NO_SPACE, Failure(kind="internal", text="?")),
    IntentKind.INSPECT: (None, REPORT, NO_SPACE),
    IntentKind.PREPARE: (None, PREPARED, MOVED_ON, NO_SPACE),
    IntentKind.RELEASE: (None, REPORT, Failure(kind="file-system", text="it hangs")),
}


@st.composite
def _intents(draw: st.DrawFn, epoch: int) -> list[Intent]:
    made = []
    for kind, results in _RESULTS.items():
        for number in range(1, draw(st.integers(0, TRIES)) + 1):
            runner = draw(st.sampled_from(["a", "b"]))
            made.append(asked(kind, draw(st.sampled_from(results)), epoch=epoch, number=number, runner=runner))
    return made


@given(st.data())
def test_whatever_is_seen_leads_where_the_table_says_and_never_out_of_it(data: st.DataObject) -> None:
    phase = data.draw(st.sampled_from(sorted({way.pair[0] for way in WAYS})))
    intents = data.draw(_intents(2))
    if phase is Phase.PREPARING:
        intents.append(asked(PREPARING, data.draw(st.sampled_from(_RESULTS[PREPARING])), number=9))
    snapshot = at(
        phase,
        *intents,
        alive=data.draw(st.sampled_from([(), (A,), (B,), (A, B)])),
        fact=data.draw(st.sampled_from([None, RUNS, COMMITS, FAILED])),
        findings=data.draw(st.sampled_from([None, found(), found(refuses=True), found(unreachable="no")])),
        patient=data.draw(st.booleans()),
        unreachable=data.draw(st.sampled_from(["", "no answer"])),
        awaited=data.draw(st.booleans()),
        called_off_by=data.draw(st.sampled_from([None, "ann"])) if phase in BEFORE_COMMIT else None,
    )
    if phase is Phase.STARTING and data.draw(st.booleans()):
        snapshot = replace(snapshot, assignment=replace(PLACED, desired=Desired.HELD))
    snapshot = consenting(snapshot, *data.draw(st.sampled_from([(), ("unfenced",)])))
    decision = step(snapshot, NOW + data.draw(st.sampled_from([timedelta(0), timedelta(hours=1)])))
    assert decision.sentence
    if decision.happening is None:
        assert decision.phase is phase
    else:
        assert TABLE[phase, decision.happening] is decision.phase
    assert (decision.ending is not None) == (decision.happening is Happening.GIVEN_UP)
    assert phase not in FINAL or decision.phase is phase
