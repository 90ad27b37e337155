"""The way from phase to phase as it is decided: each pair of the table has its cause, and no cause lies beside it."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.gates.gate import Gate, unfenced_consent
from orchestrator.decide.operation.intents import TRIES
from orchestrator.decide.operation.post_commit import joins
from orchestrator.decide.operation.snapshot import Findings, Order, Settle, Snapshot
from orchestrator.decide.operation.step import MOVES_ON, step
from orchestrator.decide.phases import BEFORE_COMMIT, FINAL, TABLE, Trigger, move, watched
from state.messages import (
    CONTRADICTED,
    CheckpointReport,
    Failure,
    FenceReport,
    PrepareReport,
    PrepareRequest,
    Process,
    Proof,
)
from state.model.cluster_status import GONE, WELL, Verdict
from state.model.entities import Desired, Intent, IntentKind, IntentState, Phase, RunnerFact, RunState
from state.model.plan import Plan, PlannedRun, Totals
from state.settings.keys import ExternalApplication
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


def fence(proof: Proof | None = None) -> FenceReport:
    return FenceReport(checkpoint=REPORT, planted=(4, 5), proof=proof, detail="stop returned")


def intent_of(kind: IntentKind, result: Any = None, *, epoch: int = 2, number: int = 1, **changes: Any) -> Intent:
    """An intent of the operation: pending, failed, or done with this report."""
    name = kind.value if number == 1 else f"{kind.value}#{number}"
    state = IntentState.FAILED if isinstance(result, Failure) else IntentState.DONE if result else IntentState.PENDING
    return samples.intent(
        id=f"op-1/{name}", name=name, kind=kind, epoch=epoch, state=state,
        request=PREPARE.as_json() if kind is IntentKind.PREPARE else {"checkpoint": REPORT.checkpoint, "epoch": epoch,
        "operation": "op-1", "hosting": None}, result=result.as_json() if result else None, **changes,
    )  # fmt: skip


FENCE, PREPARING, RELEASE = IntentKind.FENCE, IntentKind.PREPARE, IntentKind.RELEASE
FENCED = intent_of(FENCE, fence(Proof.RUNNER))
UNPROVEN = intent_of(FENCE, fence())


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
    return Findings(report=REPORT, gates=(gate,), plan=Plan(), prepare=prepare, unreachable=unreachable)


def consenting(snapshot: Snapshot, *consents: str) -> Snapshot:
    return replace(snapshot, operation=replace(snapshot.operation, consents=consents))


@pytest.mark.parametrize("consent", ["loss", "gap", "repeats", "fresh"])
@pytest.mark.parametrize("phase", [Phase.FENCING, Phase.BLOCKED])
def test_only_the_consent_unfenced_replaces_evidence(phase: Phase, consent: str) -> None:
    assert step(consenting(at(phase, UNPROVEN), consent), NOW).trigger is not Trigger.FENCED
    assert step(consenting(at(phase, UNPROVEN), "unfenced"), NOW).trigger is Trigger.FENCED


@pytest.mark.parametrize(("resume", "waits"), [("switch", True), ("carry", False)])
def test_an_abort_waits_for_a_mapping_that_may_still_be_written(resume: str, waits: bool) -> None:
    """A mapping that comes after the release would be left there; a checkpoint in a folder of its own does no harm."""
    request = PREPARE.model_copy(update={"resume": resume}).as_json()
    writing = replace(intent_of(PREPARING), request=request)
    decided = step(at(Phase.ABORTED, FENCED, writing, ending="failed"), NOW)
    assert ("runner a may still write the mapping that has to be removed" in decided.sentence) is waits
    assert isinstance(decided.act, Order) is not waits
    silent = step(at(Phase.ABORTED, FENCED, writing, ending="failed", alive=(B,)), NOW)
    assert isinstance(silent.act, Order), "it is waited for while it lives"
    assert silent.act.request["mapped"] is waits
    assert silent.act.request["prepared"] == (None if waits else PREPARE.target)


def test_a_checkpoint_without_some_files_is_refused_with_the_way_out() -> None:
    lacking = Failure(kind=CONTRADICTED, text="/c: commits/7 is missing", hint="restore the files")
    decided = step(at(Phase.FENCING, intent_of(FENCE, lacking)), NOW)
    assert (decided.phase, decided.ending) == (Phase.ABORTED, "refused")
    assert decided.sentence.startswith("checkpoint-whole: /c: commits/7 is missing: restore the files")


def taking_over(*intents: Intent, **changes: Any) -> Snapshot:
    """Runner ``a`` is silent behind the commit; the query is held again, and ``b`` is alive."""
    held = replace(PLACED, epoch=3, desired=Desired.HELD)
    snapshot = at(Phase.STARTING, *intents, assignment=held, alive=(B,), **changes)
    return replace(snapshot, operation=replace(snapshot.operation, epoch=3))


@dataclass(frozen=True)
class Way:
    """What leads out of a phase, and where to."""

    why: str
    snapshot: Snapshot
    trigger: Trigger
    after: Phase

    @property
    def pair(self) -> tuple[Phase, Trigger]:
        return self.snapshot.operation.phase, self.trigger


F, BL, RE, PR = Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING
ST, VE, AB, SE = Phase.STARTING, Phase.VERIFYING, Phase.ABORTED, Phase.SETTLED
LOST = intent_of(FENCE, fence(Proof.PROCESS), epoch=3, number=2, runner="b")
FAILED = replace(RUNS, state=RunState.FAILED, error="no such table\n  at line 1")
MOVES = [intent_of(PREPARING, MOVED_ON, number=number) for number in range(1, MOVES_ON + 2)]
WAYS = [
    Way("the runner stopped it", at(F, FENCED), Trigger.FENCED, RE),
    Way("somebody consents", consenting(at(F, UNPROVEN), "unfenced"), Trigger.FENCED, RE),
    Way("no proof", at(F, UNPROVEN), Trigger.UNPROVEN, BL),
    Way("nobody to be asked", at(F, alive=()), Trigger.NO_RUNNER, BL),
    Way("whoever was asked died", at(F, intent_of(FENCE), alive=()), Trigger.NO_RUNNER, BL),
    Way("it cannot be planted", at(F, intent_of(FENCE, NO_SPACE)), Trigger.GIVEN_UP, AB),
    Way("called off", at(F, called_off_by="ann"), Trigger.GIVEN_UP, AB),
    Way("a runner is back", at(BL), Trigger.UNBLOCKED, F),
    Way("it is time to look again", at(BL, UNPROVEN), Trigger.UNBLOCKED, F),
    Way("somebody consents", consenting(at(BL, UNPROVEN), "unfenced"), Trigger.FENCED, RE),
    Way("fenced before the runner went", at(BL, FENCED), Trigger.FENCED, RE),
    Way("called off", at(BL, UNPROVEN, called_off_by="ann"), Trigger.GIVEN_UP, AB),
    Way("every gate holds", at(RE, FENCED, findings=found()), Trigger.RESOLVED, PR),
    Way("nobody to prepare", at(RE, FENCED, findings=found(), alive=()), Trigger.NO_RUNNER, BL),
    Way("a gate refuses", at(RE, FENCED, findings=found(refuses=True)), Trigger.GIVEN_UP, AB),
    Way("silent too long", at(RE, FENCED, findings=found(unreachable="no"), patient=False), Trigger.GIVEN_UP, AB),
    Way("unreadable", at(RE, FENCED, intent_of(IntentKind.INSPECT, NO_SPACE)), Trigger.GIVEN_UP, AB),
    Way("called off", at(RE, FENCED, called_off_by="ann"), Trigger.GIVEN_UP, AB),
    Way("another batch", at(PR, FENCED, intent_of(PREPARING, MOVED_ON)), Trigger.MOVED_ON, RE),
    Way("it is made", at(PR, FENCED, intent_of(PREPARING, PREPARED)), Trigger.COMMITTED, ST),
    Way("its maker died", at(PR, FENCED, intent_of(PREPARING), alive=()), Trigger.NO_RUNNER, BL),
    Way("nobody to read again", at(PR, intent_of(PREPARING, MOVED_ON), alive=()), Trigger.NO_RUNNER, BL),
    Way("no room for it", at(PR, FENCED, intent_of(PREPARING, NO_SPACE)), Trigger.GIVEN_UP, AB),
    Way("it moves on and on", at(PR, FENCED, *MOVES), Trigger.GIVEN_UP, AB),
    Way("called off", at(PR, intent_of(PREPARING, NO_SPACE), called_off_by="ann"), Trigger.GIVEN_UP, AB),
    Way("its runner has it", at(ST, fact=RUNS), Trigger.STARTED, VE),
    Way("its runner is silent", at(ST, alive=(B,)), Trigger.RUNNER_LOST, ST),
    Way("fence is away", taking_over(LOST, intent_of(RELEASE, REPORT, epoch=3)), Trigger.TAKEN_OVER, ST),
    Way("the standby is gone", at(ST, unreachable="no", patient=False), Trigger.UNVERIFIED, SE),
    Way("gone, and another move waits", at(ST, unreachable="no", awaited=True), Trigger.UNVERIFIED, SE),
    Way(
        "the lost run cannot be fenced",
        taking_over(intent_of(FENCE, NO_SPACE, epoch=3, number=2), intent_of(RELEASE, REPORT, epoch=3)),
        Trigger.UNVERIFIED,
        SE,
    ),
    Way("a batch", at(VE, fact=COMMITS), Trigger.PROVEN, SE),
    Way("nothing to read", at(VE, fact=replace(RUNS, progressed_at=NOW)), Trigger.PROVEN, SE),
    Way("its runner is silent", at(VE, fact=RUNS, alive=(B,)), Trigger.RUNNER_LOST, ST),
    Way("it fails", at(VE, fact=FAILED, patient=False), Trigger.UNVERIFIED, SE),
    Way("nothing to undo", at(AB, ending="refused"), Trigger.RELEASED, AB),
    Way("the fence is away", at(AB, FENCED, intent_of(RELEASE, REPORT), ending="failed"), Trigger.RELEASED, AB),
]
SEEN = [
    (Phase.WATCHING, Verdict.UP, Trigger.SEEN_WELL, Phase.WATCHING),
    (Phase.WATCHING, Verdict.SUSPECT, Trigger.IN_DOUBT, Phase.SUSPECT),
    (Phase.WATCHING, Verdict.DOWN, Trigger.DOWN, Phase.CONFIRMED),
    (Phase.SUSPECT, Verdict.DEGRADED, Trigger.SEEN_WELL, Phase.WATCHING),
    (Phase.SUSPECT, Verdict.UNREACHABLE_FROM_HERE, Trigger.IN_DOUBT, Phase.SUSPECT),
    (Phase.SUSPECT, Verdict.DOWN, Trigger.DOWN, Phase.CONFIRMED),
    (Phase.CONFIRMED, Verdict.UP, Trigger.SEEN_WELL, Phase.WATCHING),
    (Phase.CONFIRMED, Verdict.UNKNOWN, Trigger.IN_DOUBT, Phase.SUSPECT),
    (Phase.CONFIRMED, Verdict.DOWN, Trigger.DOWN, Phase.CONFIRMED),
]
HOLDS = {(phase, Trigger.HELD) for phase in (Phase.WATCHING, Phase.SUSPECT, Phase.CONFIRMED)}
"""What a taker records when it opens an operation: ``tests/simulation/test_requests.py``."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.pair[0]}: {way.pair[1].value}: {way.why}")
def test_every_decision_follows_the_table(way: Way) -> None:
    decision = step(way.snapshot, NOW)
    assert (decision.trigger, decision.phase) == (way.trigger, way.after)
    assert TABLE[way.pair] is way.after
    assert decision.sentence


def test_a_checkpoint_that_moves_on_is_resolved_again_until_that_has_no_end() -> None:
    assert step(at(PR, FENCED, *MOVES[:-1]), NOW).trigger is Trigger.MOVED_ON
    assert step(at(PR, FENCED, *MOVES), NOW).sentence == (
        "batch 4 is committed, for the 11th time: something still writes to the checkpoint"
    )


def test_an_empty_batch_does_not_prove_a_move_that_waits_for_data() -> None:
    """Batch 4 is a bridge: its commit says nothing of the standby's records, which come with batch 5."""
    waits = at(VE, fact=replace(COMMITS, batch=4))
    bridged = replace(waits, operation=replace(waits.operation, plan=Plan(data_batch=5)))
    assert step(bridged, NOW).trigger is None
    assert step(replace(bridged, fact=replace(COMMITS, batch=5)), NOW).trigger is Trigger.PROVEN


def test_a_move_that_is_not_proven_knows_no_rows_of_its_sink() -> None:
    before = replace(COMMITS, cluster="east", epoch=1, dropped_late_rows=3)
    cases = (
        (Phase.STARTING, before),
        (Phase.VERIFYING, before),
        (Phase.VERIFYING, replace(FAILED, dropped_late_rows=0)),
    )
    for phase, row in cases:
        fact = replace(row, sink_took=True)
        act = step(at(phase, fact=fact, patient=False, unreachable="no"), NOW).act
        assert isinstance(act, Settle)
        assert (act.outcome, act.measured.dropped_late_rows, act.measured.sink_took) == ("failed", None, None)
    proven = step(at(Phase.VERIFYING, fact=replace(COMMITS, dropped_late_rows=3, sink_took=True)), NOW).act
    assert isinstance(proven, Settle)
    assert (proven.measured.dropped_late_rows, proven.measured.sink_took) == (3, True)


@pytest.mark.parametrize(("waiting", "proven"), [(0, True), (None, True), (7, False)])
def test_nothing_to_read_proves_a_move_only_where_nothing_waited(waiting: int | None, proven: bool) -> None:
    idle = at(VE, fact=replace(RUNS, progressed_at=NOW))
    plan = Plan(totals=Totals(first_batch_records=waiting))
    decided = step(replace(idle, operation=replace(idle.operation, plan=plan)), NOW)
    assert (decided.trigger is Trigger.PROVEN) is proven
    assert ("the plan saw 7 records there" in decided.sentence) is not proven


@pytest.mark.parametrize("set_back", [timedelta(0), timedelta(hours=1)], ids=["later", "set back"])
def test_an_inspection_is_newer_than_the_fence_despite_the_stores_clock(set_back: timedelta) -> None:
    fence = replace(FENCED, created_at=NOW + set_back)
    read = [
        replace(intent_of(IntentKind.INSPECT, REPORT.model_copy(update={"batch": 3 + number}), number=number),
            created_at=NOW - set_back + timedelta(seconds=number))
        for number in (1, 2)
    ]  # fmt: skip
    in_time = sorted([fence, *read], key=lambda intent: intent.created_at)
    newest = at(RE, *in_time).report
    assert newest is not None
    assert newest.batch == 5


@pytest.mark.parametrize(("before", "verdict", "trigger", "after"), SEEN)
def test_before_an_operation_the_verdict_goes_the_way_of_the_table(
    before: Phase, verdict: Verdict, trigger: Trigger, after: Phase
) -> None:
    assert watched(before, verdict) is move(before, trigger) is after


@pytest.mark.parametrize("verdict", Verdict)
def test_a_cluster_that_is_down_is_confirmed_and_one_that_answers_watched(verdict: Verdict) -> None:
    expected = dict.fromkeys(WELL, Phase.WATCHING) | dict.fromkeys(GONE, Phase.CONFIRMED)
    for before in (Phase.WATCHING, Phase.SUSPECT, Phase.CONFIRMED):
        assert watched(before, verdict) is expected.get(verdict, Phase.SUSPECT)


RUN = Process.of_query(samples.fact())


@pytest.mark.parametrize(
    ("consents", "goes_on"),
    [
        (("loss", "gap", "repeats", "fresh", "move"), False),
        (("unfenced",), False),
        ((unfenced_consent(RUN),), True),
        ((unfenced_consent(RUN.model_copy(update={"stopped": True, "pid": 1})),), True),
        *(
            ((unfenced_consent(RUN.model_copy(update={change: value})),), False)
            for change, value in {"runner": "b", "instance": "a-2", "epoch": 2, "host": "elsewhere"}.items()
        ),
    ],
)
@pytest.mark.parametrize("phase", [F, BL])
def test_only_a_consent_for_the_very_run_in_doubt_replaces_its_proof(
    phase: Phase, consents: tuple[str, ...], goes_on: bool
) -> None:
    requested_run = {**UNPROVEN.request, "hosting": RUN.as_json()}
    decided = step(consenting(at(phase, replace(UNPROVEN, request=requested_run), hosting=RUN), *consents), NOW)
    assert (decided.trigger is Trigger.FENCED) is goes_on


CONSENT = "tideover failover revenue --to west --consent unfenced"


@pytest.mark.parametrize(
    ("alive", "consents", "advice"),
    [
        ((B,), (), f"checking again. If you know that it has ended: {CONSENT}"),
        ((A,), (), "checking again until it ends. If it does not end, end process 4711 on host"),
        ((A,), (unfenced_consent(None),), "checking again until it ends. If it does not end, end process 4711 on host"),
        (
            (B,),
            (unfenced_consent(None),),
            f"The consent unfenced was given for another run. If you know that this one has ended: {CONSENT}",
        ),
    ],
)
def test_who_waits_for_proof_is_advised_by_what_the_run_is_at(
    alive: tuple[RunnerFact, ...], consents: tuple[str, ...], advice: str
) -> None:
    """A consent while the run's own process is there would let two runs write."""
    waits = at(F, replace(UNPROVEN, request={**UNPROVEN.request, "hosting": RUN.as_json()}), hosting=RUN, alive=alive)
    assert step(consenting(waits, *consents), NOW).sentence.endswith(advice)


def test_an_application_without_the_jar_does_not_end_with_its_runner() -> None:
    commands = ExternalApplication(start=("start", "{cluster}"), stop=("stop",), status=("status",))
    waits = at(F, replace(UNPROVEN, request={**UNPROVEN.request, "hosting": RUN.as_json()}), hosting=RUN)
    tended = replace(waits, settings=waits.settings.model_copy(update={"application": commands}))
    sentence = step(tended, NOW).sentence
    assert "until its status exits with 3" in sentence
    assert sentence.endswith(CONSENT)
    assert "end process" not in sentence


def test_every_pair_of_the_table_has_a_cause() -> None:
    caused = {way.pair for way in WAYS} | {(before, trigger) for before, _, trigger, _ in SEEN} | HOLDS
    assert caused == set(TABLE)


_RESULTS: dict[IntentKind, tuple[Any, ...]] = {
    IntentKind.FENCE: (None, fence(), fence(Proof.RUNNER), NO_SPACE, Failure(kind="internal", text="?")),
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
            made.append(intent_of(kind, draw(st.sampled_from(results)), epoch=epoch, number=number, runner=runner))
    return made


@given(st.data())
def test_whatever_is_seen_leads_where_the_table_says_and_never_out_of_it(data: st.DataObject) -> None:
    phase = data.draw(st.sampled_from(sorted({way.pair[0] for way in WAYS})))
    intents = data.draw(_intents(2))
    if phase is Phase.PREPARING:
        intents.append(intent_of(PREPARING, data.draw(st.sampled_from(_RESULTS[PREPARING])), number=9))
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
    if decision.trigger is None:
        assert decision.phase is phase
    else:
        assert TABLE[phase, decision.trigger] is decision.phase
    assert (decision.ending is not None) == (decision.trigger is Trigger.GIVEN_UP)
    assert phase not in FINAL or decision.phase is phase


@pytest.mark.parametrize("parameters", [{}, {"to_time": "2026-11-23T12:00:01+00:00", "batch": None}])
def test_a_request_with_other_parameters_does_not_join(parameters: dict[str, object]) -> None:
    standing = samples.operation()
    assert joins(samples.request(), standing)
    assert not joins(samples.request(parameters=parameters), standing)


@pytest.mark.parametrize(
    ("run_id", "repeats", "went_on"),
    [("held", 0, True), ("another", 40, False), (None, 40, False)],
)
def test_a_batch_is_not_repeated_only_if_its_held_run_continues(
    run_id: str | None, repeats: int, went_on: bool
) -> None:
    verifies = at(Phase.VERIFYING, FENCED, fact=replace(COMMITS, run_id=run_id))
    plan = Plan(data_batch=4, in_run=PlannedRun(run_id="held", otherwise_repeats=40))
    decided = step(replace(verifies, operation=replace(verifies.operation, plan=plan)), NOW)
    assert decided.trigger is Trigger.PROVEN
    assert isinstance(decided.act, Settle)
    assert decided.act.measured.possible_replay_records == repeats
    assert decided.act.measured.batch_went_on is went_on
    plain = step(replace(verifies, operation=replace(verifies.operation, plan=Plan(data_batch=4))), NOW)
    assert isinstance(plain.act, Settle)
    assert "possible_replay_records" not in plain.act.measured.shown()
