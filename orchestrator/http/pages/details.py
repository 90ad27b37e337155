"""The pages of one query and of one operation, and what of them is shown on demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import Field, ValidationError

from orchestrator.config.errors import worded
from orchestrator.decide.desk.history_lines import folded, unfolded
from orchestrator.decide.desk.lines import copy_age, phases_of, query_line
from orchestrator.decide.desk.operation_lines import forecast_lines, gates_of, placed_lines, step_lines
from orchestrator.decide.desk.query_lines import partition_lines, plots_of, plotted_from
from orchestrator.decide.desk.readiness_sampling import proven_text, sentence
from orchestrator.decide.desk.status import QueryStatus, Status
from orchestrator.decide.desk.trend import trend_of
from orchestrator.decide.gates.automatic import cooldown_text, paused_text
from orchestrator.decide.move.plan import headline
from orchestrator.decide.operation.drill import drill_text
from orchestrator.decide.phases import BEFORE_COMMIT
from orchestrator.errors import UnknownName, UsageError
from orchestrator.http.pages.markup import Drawn, render
from orchestrator.http.reads import Parameters, Reads, TimelineParameters
from state.model.entities import EVERY_KIND, Event, Operation
from state.model.evidence import Evidence

WORST = 20
"""How many partitions are shown at first."""
PER_PAGE = 500
OPERATIONS = 10
EVENTS = 30
LINES = 300
"""How many lines of the history its page shows at first."""
MOST_LINES = 10_000
TIMELINE_SINCE = timedelta(hours=6)
PLOTTED = timedelta(hours=6)


class HistoryShown(Parameters):
    """Which lines of the history its page shows."""

    query: str | None = Field(default=None, max_length=100)
    operation: str | None = Field(default=None, max_length=100)
    kind: str | None = Field(default=None, max_length=100)
    since: str | None = Field(default=None, max_length=100)
    limit: int = Field(default=LINES, ge=1, le=MOST_LINES)


def history_shown(given: Mapping[str, str]) -> HistoryShown:
    """What follows the question mark of the page. Raises ``UsageError``."""
    try:
        return HistoryShown.model_validate({name: value.strip() for name, value in given.items() if value.strip()})
    except ValidationError as mistakes:
        raise UsageError("; ".join(worded(mistakes)), hint="follow the links of the page") from None


@dataclass(frozen=True)
class Details:
    """Each method is one page below its head; threads may share it. They raise ``StoreError``, ``UnknownName``."""

    reads: Reads
    version: str
    """Part of the address of what a browser may keep."""
    _drawn: Drawn = field(default_factory=Drawn)

    def query(self, name: str, *, may_act: bool) -> Markup:
        """One query."""
        status, shown = self._known(name)
        return self._drawn.of((name, may_act), status, lambda: self._query(status, shown, may_act=may_act))

    def _query(self, status: Status, shown: QueryStatus, *, may_act: bool) -> Markup:
        name, store = shown.query, self.reads.store
        sample = store.replication(name)
        ends = store.ends(shown.cluster) if shown.cluster is not None else {}
        partitions = partition_lines(shown, ends, sample)
        declared = self.reads.settings.queries.get(name)
        points = store.standby_samples(name, since=status.at - PLOTTED)
        began = plotted_from(points, status.at, PLOTTED)
        return render(
            "query.html",
            may_act=may_act,
            plots=plots_of(points, began, status.at, self.reads.limit_of(name)),
            is_plotted=bool(points),
            trend=trend_of(points, status.at),
            version=self.version,
            plotted=(began, status.at),
            status=status,
            query=shown,
            line=query_line(shown, status, None if sample is None else copy_age(name, sample)),
            verdict=None if shown.readiness is None else sentence(shown.readiness),
            proven=None if shown.readiness is None else proven_text(shown.readiness),
            gates=[] if shown.readiness is None else sorted(shown.readiness.gates, key=lambda gate: bool(gate["ok"])),
            partitions=partitions[:WORST],
            count=len(partitions),
            runners=[fact for fact in store.runners() if declared is None or fact.runner in declared.runners],
            clusters=() if declared is None else declared.clusters,
            paused=None if shown.pause is None else paused_text(shown.pause),
            cooling=None if shown.cooldown is None else cooldown_text(shown.cooldown, name),
            drill=None if shown.drill is None else drill_text(shown.drill),
            operations=store.operations(query=name, limit=OPERATIONS, kinds=EVERY_KIND),
            events=store.history(query=name, limit=EVENTS)[::-1],
        )

    def partitions(self, name: str, first: int) -> Markup:
        """All partitions of a query, page by page, the worst first."""
        status, shown = self._known(name)
        ends = self.reads.store.ends(shown.cluster) if shown.cluster is not None else {}
        rows = partition_lines(shown, ends, self.reads.store.replication(name))
        piece = rows[first : first + PER_PAGE]
        return render(
            "partitions.html", status=status, query=name, rows=piece, count=len(rows), first=first, step=PER_PAGE
        )

    def timeline(self, name: str, at: str, topic: str) -> Markup:
        """What a query had read at a time. A time that is none is said on the page."""
        self._known(name)
        rows: Sequence[object] = ()
        wrong = ""
        if at:
            try:
                requested = TimelineParameters(at=at, topic=topic or None)
                rows = self.reads.timeline(name, requested)
            except UsageError as error:
                wrong = str(error)
        stretches = [] if at else self.reads.store.timeline(name, since=self._since())
        return render(
            "timeline.html", query=name, at=at, topic=topic, wrong=wrong, rows=rows[:PER_PAGE], count=len(rows),
            stretches=stretches[::-1],
        )  # fmt: skip

    def operation(self, operation_id: str, *, may_act: bool) -> Markup:
        """One operation."""
        found = self._operation(operation_id)
        store, now = self.reads.store, self.reads.store.now()
        placed = placed_lines(found)
        return render(
            "operation.html",
            operation=found,
            name=_headline(found),
            may_cancel=may_act and not found.outcome and found.phase in BEFORE_COMMIT,
            now=now,
            way=phases_of(found.kind, found.phase),
            steps=step_lines(found, store.steps(found.id), now),
            gates=gates_of(found.plan),
            forecasts=forecast_lines(found),
            partitions=placed[:WORST],
            count=len(placed),
            kept=store.evidence(found.id),
            events=store.history(operation=found.id, limit=EVENTS)[::-1],
        )

    def placed(self, operation_id: str, first: int) -> Markup:
        """All partitions of an operation, page by page."""
        found = self._operation(operation_id)
        rows = placed_lines(found)
        piece = rows[first : first + PER_PAGE]
        return render(
            "placed.html", operation=found, name=_headline(found), rows=piece, count=len(rows), first=first,
            step=PER_PAGE,
        )  # fmt: skip

    def history(self, requested: HistoryShown) -> Markup:
        """The newest lines that were chosen; an operation's lines are one row, unless only its lines were chosen.

        A time that cannot be read has its sentence instead of lines: a browser fetches the page with each letter typed.
        """
        found: Sequence[Event] = ()
        wrong = ""
        try:
            since = None if requested.since is None else self.reads.instant(requested.since)
        except UsageError as why:
            wrong = str(why)
        else:
            found = self.reads.store.history(
                query=requested.query, operation=requested.operation, kind=requested.kind, since=since,
                limit=requested.limit + 1,
            )  # fmt: skip
        events = found[-requested.limit :]
        chosen = requested.model_dump(exclude_defaults=True)
        return render(
            "history.html",
            shown=requested,
            wrong=wrong,
            is_narrow=bool(chosen.keys() - {"limit"}),
            rows=unfolded(events) if requested.operation else folded(events),
            count=len(events),
            more=len(found) > requested.limit and requested.limit < MOST_LINES,
            further=f"/history?{urlencode(chosen | {'limit': min(MOST_LINES, 3 * requested.limit)})}",
        )

    def evidence(self, operation_id: str) -> Evidence:
        """What was kept of a closed operation, with its document. Raises ``UnknownName`` where there is none."""
        kept = self.reads.store.evidence(operation_id)
        if kept is None or kept.document is None:
            raise UnknownName(
                "there is no evidence of such an operation",
                hint="it is written within a minute of its end, and deleted with its operation by retention",
            )
        return kept

    def _operation(self, operation_id: str) -> Operation:
        found = self.reads.store.operation(operation_id)
        if found is None:
            raise UnknownName("the store knows no such operation", hint="the history names them")
        return found

    def _known(self, name: str) -> tuple[Status, QueryStatus]:
        status = self.reads.status_now()
        shown = next((each for each in status.queries if each.query == name), None)
        if shown is None:
            raise UnknownName("no query has that name", hint="the overview has them all")
        return status, shown

    def _since(self) -> datetime:
        return self.reads.store.now() - TIMELINE_SINCE


def _headline(found: Operation) -> str:
    return headline(found.kind, found.query, found.source, found.target, found.parameters)
