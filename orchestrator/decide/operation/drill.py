"""A drill: what a failover would do, tried on the live standby while the query runs on. Pure.

It takes no hold, raises no epoch and places nothing, so it has a table of phases of its own, and is in the way of no
move. As soon as its query is to move, or is to stay, it ends. Its gates are those of a failover.

What it measured is judged here too: where each partition began, against the forecast, and how many rows came of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.gates.checks import refusal
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.lookup_wants import report_of_fact
from orchestrator.decide.phases import IllegalMove, Trigger
from orchestrator.decide.times import iso
from state.drill_messages import DrillReport, DrillRequest
from state.messages import CheckpointReport, Failure, Offsets, PrepareRequest
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    Phase,
    Position,
    QueryFact,
    Request,
    Step,
)
from state.model.measured import DrillResult, Measured
from state.model.plan import Plan
from state.plain_text import amount

TABLE: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.RESOLVING, Trigger.RESOLVED): Phase.STARTING,
    (Phase.RESOLVING, Trigger.GIVEN_UP): Phase.ABORTED,
    (Phase.STARTING, Trigger.PROVEN): Phase.SETTLED,
    (Phase.STARTING, Trigger.GIVEN_UP): Phase.ABORTED,
}
RECORDS = 10_000
"""The most records that the one batch reads from each source: enough to see the query work, and a second of load."""
BATCH_SECONDS = 60.0
WITHIN = timedelta(minutes=10)
"""A drill that is open for longer ends as failed: its driver may have died, and no one waits for it any more."""
PATIENCE = timedelta(seconds=5)
"""How long a gate may refuse before the drill is refused: what runners reported may be a batch behind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillFindings:
    """What resolving found out."""

    gates: tuple[Gate, ...]
    plan: Plan
    prepare: PrepareRequest | None
    """None while a gate refuses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillSnapshot:
    """One drill as it is in the store, with what bears on it."""

    operation: Operation
    steps: Sequence[Step]
    assignment: Assignment | None
    in_the_way: str | None
    """Of a move of the query that is open, or requested: the sentence that says so."""
    cancelled_by: str | None
    chosen: str | None
    """The runner that would get the order; None when none is alive."""
    alive: frozenset[str]
    """Runners with a fresh heartbeat."""
    intent: Intent | None
    findings: DrillFindings | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillDecision:
    """The next move of one drill."""

    phase: Phase
    sentence: str
    steps: Sequence[Step] = ()
    order: Intent | None = None
    outcome: str | None = None
    """With one, the drill closes."""
    plan: Plan | None = None
    measured: Measured | None = None


def step(snapshot: DrillSnapshot, now: datetime) -> DrillDecision:
    """Decide the next move."""
    stopped = _stopped(snapshot, now)
    if stopped is not None:
        outcome, text = stopped
        return _given_up(snapshot, outcome, text, now)
    if snapshot.operation.phase is Phase.RESOLVING:
        return _resolving(snapshot, now)
    return _starting(snapshot, now)


def _stopped(snapshot: DrillSnapshot, now: datetime) -> tuple[str, str] | None:
    """Outcome and reason of a drill that goes no further, whatever it is at; None while nothing speaks against it."""
    operation, row = snapshot.operation, snapshot.assignment
    if snapshot.in_the_way is not None:
        return "refused", f"stopped: {snapshot.in_the_way}"
    if snapshot.cancelled_by is not None:
        return "refused", f"cancelled by {snapshot.cancelled_by}"
    if row is None or row.desired is not Desired.RUNNING or (row.epoch, row.cluster) != _began_at(operation):
        return "refused", f"stopped: {operation.query} is not where it was when the drill began"
    if abs(now - operation.started_at) >= WITHIN:
        return "failed", f"not finished within {WITHIN.total_seconds() / 60:g} min"
    return None


def _began_at(operation: Operation) -> tuple[int, str]:
    return operation.epoch, operation.source


def _resolving(snapshot: DrillSnapshot, now: datetime) -> DrillDecision:
    operation, found = snapshot.operation, snapshot.findings
    if found is None:
        return DrillDecision(phase=operation.phase, sentence=operation.sentence)
    refused = refusal(found.gates)
    if refused is not None and abs(now - operation.started_at) < PATIENCE and _can_pass(refused):
        return DrillDecision(phase=operation.phase, sentence=f"{refused.name}: {refused.text}; looking again")
    if refused is not None:
        return _given_up(snapshot, "refused", f"{refused.name}: {refused.text}", now, plan=found.plan)
    if found.prepare is None or snapshot.chosen is None:
        return _given_up(snapshot, "failed", "no resume offsets were found", now, plan=found.plan)
    request = DrillRequest(
        prepare=found.prepare, cluster=operation.target, records=RECORDS, within_seconds=BATCH_SECONDS
    )
    intent = Intent(
        id=f"{operation.id}/{IntentKind.DRILL.value}",
        operation=operation.id,
        name=IntentKind.DRILL.value,
        kind=IntentKind.DRILL,
        query=operation.query,
        runner=snapshot.chosen,
        epoch=operation.epoch,
        request=request.as_json(),
        state=IntentState.PENDING,
        result=None,
        created_at=now,
        ended_at=None,
    )
    text = f"every partition has a resume offset; runner {snapshot.chosen} copies the checkpoint and runs one batch"
    begun = Step(operation=operation.id, sequence=len(snapshot.steps) + 1, name="copy", started_at=now)
    return DrillDecision(
        phase=_moved(operation.phase, Trigger.RESOLVED),
        sentence=text,
        steps=(*_ended(snapshot, "done", now), begun),
        order=intent,
        plan=found.plan,
    )


def _can_pass(refused: Gate) -> bool:
    """Whether a gate may hold a moment later, with the next batch that the runner reports."""
    return refused.name not in {"standby-reachable", "runner-alive", "expect-active", "route-declared"}


def _starting(snapshot: DrillSnapshot, now: datetime) -> DrillDecision:
    operation, intent = snapshot.operation, snapshot.intent
    if intent is None:
        return _given_up(snapshot, "failed", "no runner got an order", now)
    if intent.state is IntentState.PENDING:
        if intent.runner not in snapshot.alive:
            return _given_up(snapshot, "failed", f"runner {intent.runner} died or fell silent during the drill", now)
        return DrillDecision(phase=operation.phase, sentence=operation.sentence)
    if intent.state is not IntentState.DONE:
        failure = Failure.of(intent.result or {"kind": "internal", "text": "the runner gave no reason"})
        return _given_up(snapshot, "failed", f"runner {intent.runner}: {failure.text}", now)
    report, request = DrillReport.of(intent.result), DrillRequest.of(intent.request)
    measured, against = measured_drill(report, request, snapshot.steps, operation)
    steps = tuple(_runner_steps(snapshot, intent, report, now))
    if against is not None:
        phase = _moved(operation.phase, Trigger.GIVEN_UP)
        return DrillDecision(phase=phase, sentence=against, steps=steps, outcome="failed", measured=measured)
    text = (
        f"batch {report.batch} is committed on {operation.target} from a copy, {amount(_rows(report), 'row')}, "
        f"{sum(each.seconds for each in report.steps):.1f} s; {operation.query} kept running"
    )
    phase = _moved(operation.phase, Trigger.PROVEN)
    return DrillDecision(phase=phase, sentence=text, steps=steps, outcome="done", measured=measured)


def _moved(phase: Phase, trigger: Trigger) -> Phase:
    """The next phase. Raises ``IllegalMove`` for a pair that the table does not list."""
    try:
        return TABLE[phase, trigger]
    except KeyError:
        raise IllegalMove(f"a drill in {phase} does not know {trigger.value!r}") from None


def _given_up(
    snapshot: DrillSnapshot, outcome: str, text: str, now: datetime, plan: Plan | None = None
) -> DrillDecision:
    """Close; a closed operation's intent is withdrawn, and the runner stops what it does for it."""
    steps = tuple(_ended(snapshot, "refused" if outcome == "refused" else "failed", now, {"text": text}))
    phase = _moved(snapshot.operation.phase, Trigger.GIVEN_UP)
    return DrillDecision(phase=phase, sentence=text, steps=steps, outcome=outcome, plan=plan)


def _ended(
    snapshot: DrillSnapshot, outcome: str, now: datetime, detail: Mapping[str, object] | None = None
) -> Iterable[Step]:
    """The step at work, completed."""
    last = snapshot.steps[-1] if snapshot.steps else None
    if last is None or last.ended_at is not None:
        return ()
    return (
        Step(
            operation=last.operation, sequence=last.sequence, name=last.name, started_at=last.started_at,
            ended_at=now, outcome=outcome, detail=detail or {},
        ),
    )  # fmt: skip


def _runner_steps(snapshot: DrillSnapshot, intent: Intent, report: DrillReport, now: datetime) -> Iterable[Step]:
    """What the runner did, one after the other from when it got the order, in place of the step that was its
    placeholder.
    """
    sequence = max(1, len(snapshot.steps))
    at = intent.created_at
    for each in report.steps:
        ended = min(at + timedelta(seconds=each.seconds), now)
        yield Step(
            operation=snapshot.operation.id, sequence=sequence, name=each.name, started_at=at, ended_at=ended,
            outcome="done", detail={"text": each.text, "seconds": each.seconds},
        )  # fmt: skip
        at, sequence = ended, sequence + 1


def measured_drill(
    report: DrillReport, request: DrillRequest, steps: Sequence[Step], operation: Operation
) -> tuple[Measured, str | None]:
    """What the drill measured, and why it failed for all that; None where it did as was forecast."""
    expected, gaps, against = 0, 0, None
    for read in report.sources:
        wanted = request.prepare.target_offsets.get(read.source, {})
        start = wanted if read.start is None else read.start
        other = next(_elsewhere(wanted, start), None)
        span = sum(
            max(0, end - start.get(topic, {}).get(partition, end))
            for topic, partitions in read.end.items()
            for partition, end in partitions.items()
        )
        expected, gaps = expected + span, gaps + max(0, span - read.rows)
        if other is not None:
            against = against or f"source {read.source} began elsewhere than forecast: {other}"
        elif read.rows > span:
            against = against or f"source {read.source} gave {read.rows} rows for {span} offsets"
    seconds: dict[str, float] = {
        each.name: round((each.ended_at - each.started_at).total_seconds(), 3)
        for each in steps
        if each.ended_at is not None
    }
    seconds |= {each.name: each.seconds for each in report.steps}
    result = DrillResult(
        seconds=seconds,
        batch=report.batch,
        rows=_rows(report),
        rows_expected=expected,
        first_offsets=request.prepare.target_offsets,
        files=report.files,
        bytes=report.bytes,
        not_proven=not_proven(operation, gaps=gaps, records=request.records),
    )
    return Measured(drill=result), against


def _elsewhere(wanted: Mapping[str, Mapping[str, int]], start: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for topic, partitions in sorted(wanted.items()):
        for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0])):
            began = start.get(topic, {}).get(partition)
            if began != offset:
                yield f"{topic}-{partition} at {began}, not at {offset}"


def _rows(report: DrillReport) -> int:
    return sum(each.rows for each in report.sources)


def not_proven(operation: Operation, *, gaps: int = 0, records: int = RECORDS) -> tuple[str, ...]:
    """What a drill cannot show, in sentences: a reader of the result must not take it for more."""
    source, target = operation.source, operation.target
    findings = [
        f"The fence: nothing was stopped, so nothing shows that the old run on {source} can be proven stopped.",
        "The sink: rows went to noop, so nothing shows that the sink can be reached and takes them.",
        f"The death of {source}: it was alive, so detection was not tried, nor what the last seconds before it cost.",
        "A batch in flight: the copy ends at a committed batch, and a failover may meet one that is only planned.",
        f"The load of all queries at once: one query read at most {records} records from each source on {target}.",
    ]
    if gaps:
        findings.append(
            f"Every record: {gaps} offsets gave no row; markers of transactions and compaction leave such gaps, and "
            "nothing shows that it was these."
        )
    return tuple(findings)


def drill_text(drill: Operation) -> str:
    """How a drill ended, in a few words."""
    if drill.outcome is None:
        return f"on {drill.target}, in progress since {iso(drill.started_at)}"
    return f"{drill.outcome} on {drill.target} ({iso(drill.ended_at)})"


def cancels(request: Request, operation: Operation) -> bool:
    """Whether a request of a drill takes an open one back: it names the cluster on which the query is anyway."""
    return request.query == operation.query and request.target == operation.source


def report_of_batch(fact: QueryFact | None, positions: Iterable[Position], assignment: Assignment) -> CheckpointReport:
    """The newest committed batch that is tracked, as a reading of the checkpoint would show it.

    A running query has committed more by the time it is looked at. Of a batch that is tracked the records are
    remembered, so it is found as exactly as after a fence. Without one the newest reported batch must do.
    """
    if fact is None or fact.batch is None or fact.offsets is None or fact.cluster != assignment.cluster:
        return CheckpointReport(checkpoint=assignment.checkpoint, batch=None, offsets={})
    reported = report_of_fact(fact, assignment.checkpoint)
    rows = [row for row in positions if row.batch <= fact.batch]
    newest = max((row.batch for row in rows), default=fact.batch)
    offsets: Offsets = {}
    for row in rows:
        if row.batch == newest:
            offsets.setdefault(row.source, {}).setdefault(row.topic, {})[str(row.partition)] = row.offset
    if newest == fact.batch or _partitions(offsets) != _partitions(reported.offsets):
        return reported
    return reported.model_copy(update={"batch": newest, "offsets": offsets})


def _partitions(offsets: Offsets) -> set[tuple[str, str, str]]:
    return {(source, topic, part) for source, topics in offsets.items() for topic in topics for part in topics[topic]}
