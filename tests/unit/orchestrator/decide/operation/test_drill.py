"""What a drill decides, and what it makes of the runner's report: whether it did as was forecast."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.operation.drill import (
    TABLE,
    WITHIN,
    DrillFindings,
    DrillSnapshot,
    drill_text,
    measured_drill,
    not_proven,
    report_of_batch,
    step,
)
from orchestrator.decide.phases import FINAL, IllegalMove, Trigger
from state.drill_messages import DrillReport, DrillRequest, DrillSource, DrillStep
from state.messages import PrepareRequest
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Step,
)
from state.model.measured import NOTHING
from state.model.plan import Plan
from tests.contract import samples

ELSEWHERE = "source orders began elsewhere than forecast"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
START = {"orders": {"0": 100, "1": 200}}
END = {"orders": {"0": 105, "1": 207}}
DRILL = Operation(
    id="d", group="d", kind=OperationKind.DRILL, query="revenue", source="east", target="west", epoch=3,
    phase=Phase.RESOLVING, outcome=None, actor="ann", reason="", consents=(), plan=None, measured=NOTHING,
    sentence="drill", started_at=NOW, ended_at=None,
)  # fmt: skip
ROW = Assignment(
    query="revenue", epoch=3, placed_epoch=3, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="/cp",
    starting_offsets=None, operation=None, changed_at=NOW,
)  # fmt: skip
PREPARE = PrepareRequest(
    checkpoint="/cp", target="/cp/drill-d", operation="d", epoch=3, resume="carry", batch=7, offsets={},
    target_offsets={"orders": START},
)  # fmt: skip
REQUEST = DrillRequest(prepare=PREPARE, cluster="west", records=1000, within_seconds=60.0)
GOOD = Gate(name="standby-reachable", ok=True, measured="", limit="", text="")
BAD = Gate(name="repeats-into-state", ok=False, measured="3", limit="0", text="3 records would be read twice")
AT_WORK = Step(operation="d", sequence=1, name="resolve", started_at=NOW)
SNAPSHOT = DrillSnapshot(
    operation=DRILL, steps=(AT_WORK,), assignment=ROW, in_the_way=None, cancelled_by=None, chosen="a",
    alive=frozenset({"a"}), intent=None,
    findings=DrillFindings(gates=(GOOD,), plan=Plan(kind="drill"), prepare=PREPARE),
)  # fmt: skip


def report(rows: int = 12, start: Any = START, end: Any = END) -> DrillReport:
    source = DrillSource(source="orders", start=start, end=end, rows=rows)
    names = ("copy", "batch")
    steps = tuple(DrillStep(name=name, seconds=1.5, text=f"{name} done") for name in names)
    return DrillReport(steps=steps, batch=8, sources=(source,), files=3, bytes=30)


def intent_of(state: IntentState = IntentState.PENDING, result: Any = None) -> Intent:
    return Intent(
        id="d/drill", operation="d", name="drill", kind=IntentKind.DRILL, query="revenue", runner="a", epoch=3,
        request=REQUEST.as_json(), state=state, result=result, created_at=NOW, ended_at=None,
    )  # fmt: skip


def at_work(intent: Intent | None) -> DrillSnapshot:
    copying = replace(AT_WORK, sequence=2, name="copy")
    steps = (replace(AT_WORK, ended_at=NOW + timedelta(seconds=1), outcome="done"), copying)
    return replace(SNAPSHOT, operation=replace(DRILL, phase=Phase.STARTING), steps=steps, intent=intent, findings=None)


def test_gates_that_hold_send_one_runner_off() -> None:
    decision = step(SNAPSHOT, NOW)
    assert (decision.phase, decision.outcome, decision.plan) == (Phase.STARTING, None, Plan(kind="drill"))
    assert decision.order is not None
    assert (decision.order.kind, decision.order.runner, decision.order.epoch) == (IntentKind.DRILL, "a", 3)
    request = DrillRequest.of(decision.order.request)
    assert (request.prepare, request.cluster) == (PREPARE, "west")
    assert [(each.name, each.outcome) for each in decision.steps] == [("resolve", "done"), ("copy", None)]


def test_a_gate_may_hold_a_moment_later_and_then_refuses() -> None:
    snapshot = replace(SNAPSHOT, findings=DrillFindings(gates=(BAD,), plan=Plan(), prepare=None))
    waits = step(snapshot, NOW + timedelta(seconds=1))
    assert (waits.phase, waits.outcome) == (Phase.RESOLVING, None)
    refused = step(snapshot, NOW + timedelta(seconds=6))
    assert (refused.phase, refused.outcome) == (Phase.ABORTED, "refused")
    assert refused.sentence == "repeats-into-state: 3 records would be read twice"


@pytest.mark.parametrize(
    ("change", "outcome", "sentence"),
    [
        ({"in_the_way": "operation 9 is open"}, "refused", "stopped: operation 9 is open"),
        ({"cancelled_by": "bob"}, "refused", "cancelled by bob"),
        ({"assignment": None}, "refused", "stopped: revenue is not where it was when the drill began"),
        ({"assignment": replace(ROW, desired=Desired.HELD)}, "refused", "stopped: revenue is not where it was"),
        ({"assignment": replace(ROW, epoch=4)}, "refused", "stopped: revenue is not where it was"),
        ({"assignment": replace(ROW, cluster="west")}, "refused", "stopped: revenue is not where it was"),
    ],
)
@pytest.mark.parametrize("phase", [Phase.RESOLVING, Phase.STARTING])
def test_whatever_the_query_does_ends_its_drill(
    change: dict[str, Any], outcome: str, sentence: str, phase: Phase
) -> None:
    snapshot = replace(SNAPSHOT if phase is Phase.RESOLVING else at_work(intent_of()), **change)
    decision = step(snapshot, NOW)
    assert (decision.phase, decision.outcome, decision.order) == (Phase.ABORTED, outcome, None)
    assert decision.sentence.startswith(sentence)


def test_a_drill_does_not_stay_open_for_ever() -> None:
    decision = step(at_work(intent_of()), NOW + WITHIN)
    assert (decision.outcome, decision.sentence) == ("failed", "not finished within 10 min")


def test_a_silent_runner_fails_it_and_a_living_one_is_waited_for() -> None:
    assert step(at_work(intent_of()), NOW).outcome is None
    decision = step(replace(at_work(intent_of()), alive=frozenset({"b"})), NOW)
    assert (decision.outcome, "runner a died" in decision.sentence) == ("failed", True)


def test_a_report_as_forecast_proves_the_drill() -> None:
    decision = step(at_work(intent_of(IntentState.DONE, report().as_json())), NOW + timedelta(seconds=9))
    assert (decision.phase, decision.outcome) == (Phase.SETTLED, "done")
    assert decision.sentence.startswith("batch 8 is committed on west from a copy, 12 rows, 3.0 s")
    assert [(each.sequence, each.name, each.outcome) for each in decision.steps] == [
        (2, "copy", "done"), (3, "batch", "done"),
    ]  # fmt: skip
    assert decision.measured is not None
    assert decision.measured.drill is not None
    assert decision.measured.drill.seconds == {"resolve": 1.0, "copy": 1.5, "batch": 1.5}


@pytest.mark.parametrize(
    ("reported", "sentence"),
    [
        (report(start={"orders": {"0": 101, "1": 200}}), f"{ELSEWHERE}: orders-0 at 101, not at 100"),
        (report(start={"orders": {"0": 100}}), f"{ELSEWHERE}: orders-1 at None, not at 200"),
        (report(rows=13), "source orders gave 13 rows for 12 offsets"),
    ],
)  # fmt: skip
def test_a_report_other_than_forecast_fails_the_drill(reported: DrillReport, sentence: str) -> None:
    decision = step(at_work(intent_of(IntentState.DONE, reported.as_json())), NOW)
    assert (decision.phase, decision.outcome, decision.sentence) == (Phase.ABORTED, "failed", sentence)


def test_offsets_without_rows_are_reported_and_are_no_proof() -> None:
    measured, against = measured_drill(report(rows=9), REQUEST, (), DRILL)
    found = measured.drill
    assert found is not None
    assert (against, found.rows, found.rows_expected) == (None, 9, 12)
    assert found.not_proven[-1].startswith("Every record: 3 offsets gave no row")
    assert len(found.not_proven) == len(not_proven(DRILL)) + 1


def test_a_fresh_checkpoint_begins_at_the_given_offsets() -> None:
    measured, against = measured_drill(report(start=None), REQUEST, (), DRILL)
    assert measured.drill is not None
    assert (against, measured.drill.rows_expected) == (None, 12)


def test_a_drill_knows_no_phase_but_its_own() -> None:
    assert set(TABLE.values()) - {before for before, _ in TABLE} == FINAL
    assert Trigger.HELD not in {trigger for _, trigger in TABLE}
    with pytest.raises(IllegalMove):
        step(replace(SNAPSHOT, operation=replace(DRILL, phase=Phase.FENCING), cancelled_by="bob"), NOW)


def positions(*batches: int, parts: int = 1) -> list[Any]:
    return [
        samples.position(batch=batch, partition=part, offset=100 * batch, epoch=1, source="orders", topic="orders")
        for batch in batches
        for part in range(parts)
    ]


def test_the_newest_tracked_batch_is_rehearsed() -> None:
    row = samples.assignment(checkpoint="/cp")
    fact = samples.fact(batch=7, offsets={"orders": {"orders": {"0": 700}}}, cluster="east")
    found = report_of_batch(fact, positions(5, 6, 8), row)
    assert (found.batch, found.offsets) == (6, {"orders": {"orders": {"0": 600}}})
    assert report_of_batch(fact, positions(6, 7), row).batch == 7
    assert report_of_batch(fact, positions(8), row).batch == 7, "what is only planned is no batch to begin with"
    assert report_of_batch(fact, positions(6, parts=2), row).batch == 7, "a partition that the batch did not have"
    assert report_of_batch(None, positions(6), row).batch is None
    assert report_of_batch(replace(fact, cluster="west"), positions(6), row).batch is None


def test_the_end_of_a_drill_is_named_in_a_few_words() -> None:
    assert drill_text(DRILL) == "on west, in progress since 2026-03-01T12:00:00.000Z"
    ended = replace(DRILL, outcome="done", ended_at=NOW)
    assert drill_text(ended) == "done on west (2026-03-01T12:00:00.000Z)"
