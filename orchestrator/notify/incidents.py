"""From lines of the history to the notices that people get. Pure.

An incident is a cluster that is not well, an operation, or a query that could not fail over. It has one id from its
beginning to its end, so that a receiver can put its notices together. A line that is neither of these opens nothing.

What a receiver missed (it did not answer, or there was no leader) is sent as it is now. There is one notice for each
incident, and none of one that began and ended in between below the receiver's severity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from orchestrator.decide.desk.readiness_sampling import COULD
from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.decide.times import iso
from state.model.cluster_status import Verdict
from state.model.entities import DRILLS, Event, Operation, Phase
from state.model.evidence import KEPT
from state.settings.keys import NotifyTarget

DIGEST = 5
"""More notices than this at once become one."""
LINES = 40
"""How many incidents it names."""


class Severity(IntEnum):
    """How much it matters."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class State(StrEnum):
    """What a notice does to its incident."""

    OPENED = "opened"
    UPDATED = "updated"
    CLOSED = "closed"
    REPORTED = "told"
    """Several incidents at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What one line of the history says of an incident."""

    incident: str
    kind: str
    """A key of ``notify.targets[].kinds``."""
    severity: Severity
    is_over: bool
    title: str
    text: str
    sequence: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """What is to be sent to a receiver."""

    incident: str
    state: State
    severity: Severity
    title: str
    text: str
    sequence: int
    """Of its last line in the history."""
    incidents: Mapping[str, str]
    """Those that the receiver knows of and that are not over, once it got this."""

    @property
    def subject(self) -> str:
        """One line."""
        return f"[{self.severity.name} {self.state}] {self.title}"

    @property
    def body(self) -> str:
        """The rest, with what to recognise it by."""
        return f"{self.text}\n\nincident {self.incident}, line {self.sequence} of the history"


def report_of(event: Event, operations: Mapping[str, Operation]) -> Report | None:
    """What a line says of an incident, with the operations as they stand now; None: it is about none."""
    operation = operations.get(event.operation) if event.operation is not None else None
    if operation is not None:
        return _of_operation(event, operation) if _speaks(event, operation) else None
    if event.kind == "verdict":
        return _of_cluster(event)
    if event.kind == "readiness" and event.query is not None:
        return _of_readiness(event, event.query)
    if event.kind == "not-moved" and event.query is not None:
        title = f"automatic failover leaves {event.query} where it is"
        return _report(event, f"automatic:{event.query}", "automatic", Severity.CRITICAL, title, is_over=True)
    return None


def notices_for(
    target: NotifyTarget, reports: Iterable[Report], known: Mapping[str, str]
) -> tuple[Sequence[Notice], Mapping[str, str]]:
    """What a receiver gets of these reports, in order, and what it knows then; ``known``: what it knows now."""
    newest: dict[str, Report] = {}
    worst: dict[str, Severity] = {}
    for report in reports:
        newest.pop(report.incident, None)  # its place is that of its last line
        newest[report.incident] = report
        worst[report.incident] = max(report.severity, worst.get(report.incident, report.severity))
    notices: list[Notice] = []
    for report in newest.values():
        state = _state(target, report, worst[report.incident], known)
        if state is None:
            continue
        known = {name: title for name, title in known.items() if name != report.incident}
        known |= {} if report.is_over else {report.incident: report.title}
        notices.append(
            Notice(
                incident=report.incident, state=state, severity=report.severity, title=report.title, text=report.text,
                sequence=report.sequence, incidents=known,
            )
        )  # fmt: skip
    return (notices, known) if len(notices) <= DIGEST else ([_digest(notices)], known)


def _state(target: NotifyTarget, report: Report, worst: Severity, known: Mapping[str, str]) -> State | None:
    least = target.severity_of(report.kind)
    before = known.get(report.incident)
    if before is not None:
        if report.is_over:
            return State.CLOSED
        return None if before == report.title else State.UPDATED
    if least is None or worst < Severity[least.upper()]:
        return None
    return State.CLOSED if report.is_over else State.OPENED


def _digest(notices: Sequence[Notice]) -> Notice:
    last = notices[-1]
    lines = [f"- {each.subject} ({each.incident})" for each in notices[:LINES]]
    more = [f"- and {len(notices) - LINES} more: tideover history"] if len(notices) > LINES else []
    return Notice(
        incident=f"digest:{last.sequence}", state=State.REPORTED, severity=max(each.severity for each in notices),
        title=f"{len(notices)} notices", text="\n".join([*lines, *more]), sequence=last.sequence,
        incidents=last.incidents,
    )  # fmt: skip


def _speaks(event: Event, operation: Operation) -> bool:
    """Whether a line is of an operation's course: once that is over, its last line is, and not what comes behind it.

    Its evidence, what was measured later and who acknowledged it come then; they would announce the same end again.
    """
    if operation.outcome is None or event.kind == "reconcile":
        return True
    return event.at == operation.ended_at and event.kind != KEPT


def _of_operation(event: Event, operation: Operation) -> Report:
    is_drill = operation.kind in DRILLS
    what = f"{operation.kind} of {operation.query} from {operation.source} to {operation.target}"
    if operation.outcome is not None:
        went_well = operation.outcome == "done"
        severity = Severity.INFO if went_well else Severity.WARNING if is_drill else Severity.CRITICAL
        title = f"{what}: {operation.outcome}"
    elif awaits_start(operation):
        severity, title = Severity.WARNING, f"{what} awaits the next start of its application"
    elif operation.phase is Phase.BLOCKED:
        severity, title = Severity.CRITICAL, f"{what} is BLOCKED"
    else:
        severity, title = (Severity.INFO if is_drill else Severity.WARNING), f"{what} has begun"
    return Report(
        incident=f"operation:{operation.id}", kind="drill" if is_drill else "operation", severity=severity,
        is_over=operation.outcome is not None, title=title,
        text=f"{operation.sentence}\nrequested by {operation.actor}, began at {iso(operation.started_at)}",
        sequence=event.sequence or 0, at=event.at,
    )  # fmt: skip


_GRAVITY = {
    Verdict.DOWN: Severity.CRITICAL,
    Verdict.CONFIG_ERROR: Severity.CRITICAL,
    Verdict.NOT_HERE: Severity.CRITICAL,
    Verdict.UNREACHABLE_FROM_HERE: Severity.WARNING,
    Verdict.DEGRADED: Severity.WARNING,
    Verdict.UP: Severity.INFO,
}
"""SUSPECT and UNKNOWN say nothing: what comes of them does. One of the clusters of an endpoint is always NOT_HERE,
which is an incident where queries read it."""


def _of_cluster(event: Event) -> Report | None:
    verdict, cluster = Verdict(str(event.detail["verdict"])), event.detail["cluster"]
    if verdict not in _GRAVITY or (verdict is Verdict.NOT_HERE and not event.detail.get("queries")):
        return None
    title, is_over = f"{cluster} is {verdict}", verdict is Verdict.UP
    return _report(event, f"cluster:{cluster}", "cluster", _GRAVITY[verdict], title, is_over=is_over)


def _of_readiness(event: Event, query: str) -> Report:
    ready = event.detail.get("ready")
    could = f"{COULD[True]} again" if ready is True else COULD[False if ready is False else None]
    severity = Severity.INFO if ready is True else Severity.WARNING
    return _report(event, f"readiness:{query}", "readiness", severity, f"{query} {could}", is_over=ready is True)


def _report(event: Event, incident: str, kind: str, severity: Severity, title: str, *, is_over: bool) -> Report:
    return Report(
        incident=incident, kind=kind, severity=severity, is_over=is_over, title=title, text=event.text,
        sequence=event.sequence or 0, at=event.at,
    )  # fmt: skip
