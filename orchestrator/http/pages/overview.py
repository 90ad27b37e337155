"""The one page to look at first. It is drawn once a second at most, however many look at it.

Copies of a hundred queries are many rows, and change once a minute. Only what is shown of them is kept, and read again
when a query's readiness was sampled again.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import Field, ValidationError

from orchestrator.config.errors import worded
from orchestrator.decide.desk.attention import away_of, concerns_of
from orchestrator.decide.desk.lines import (
    CopyAge,
    cluster_lines,
    copy_age,
    phases_of,
    query_lines,
    route_lines,
)
from orchestrator.decide.desk.query_table import COMPACT_FROM, Chosen, Only, Sort, chosen_of, counts_of
from orchestrator.decide.desk.route_picture import picture_of
from orchestrator.decide.desk.status import Status, known_labels
from orchestrator.decide.desk.trend import NO_TREND, TREND_SPAN, Trend, trend_of
from orchestrator.decide.gates.automatic import cooldown_text, paused_text
from orchestrator.decide.move.plan import headline
from orchestrator.errors import UsageError
from orchestrator.http.pages.markup import Drawn, render, seconds
from orchestrator.http.reads import LabelParameters, Reads
from state.model.automation import EVERY
from state.model.maintenance import StandbySample
from state.settings.values import Name

EVENTS = 20
"""How many lines of the history are shown."""


class OverviewParameters(LabelParameters):
    """What may stand behind the question mark of the overview: which queries, in which order, and how."""

    find: str = Field(default="", max_length=64)
    only: Only | None = None
    cluster: Name | None = None
    source: Name | None = Field(default=None, alias="from")
    target: Name | None = Field(default=None, alias="to")
    sort: Sort = "attention"
    view: Literal["cards", "table"] | None = None

    @property
    def chosen(self) -> Chosen:
        return Chosen(
            find=self.find.strip(), only=self.only, cluster=self.cluster, source=self.source, target=self.target,
            sort=self.sort,
        )  # fmt: skip

    @property
    def is_narrow(self) -> bool:
        """Whether some queries may be left out."""
        return bool(self.find.strip() or self.only or self.cluster or self.source)

    def link(self, **changes: str | None) -> str:
        """The path of the overview with these choices changed; None takes one out."""
        kept = self.model_dump(by_alias=True, exclude_defaults=True) | changes
        pairs = {name: value for name, value in kept.items() if value}
        return "/" + (f"?{urlencode(pairs)}" if pairs else "")


@dataclass
class Overview:
    """Several threads may read it."""

    reads: Reads
    _ages: dict[str, tuple[datetime, CopyAge | None]] = field(default_factory=dict)
    _samples: dict[str, tuple[datetime, Sequence[StandbySample]]] = field(default_factory=dict)
    _drawn: Drawn = field(default_factory=Drawn)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def markup(self, *, may_act: bool, requested: OverviewParameters | None = None) -> Markup:
        """All below the head of the page, the same for all who may do as much and chose the same queries.

        Raises ``StoreError`` and ``UsageError``.
        """
        requested = requested or OverviewParameters()
        with self._lock:
            status = self.reads.status_now()
            return self._drawn.of((may_act, requested), status, lambda: self._draw(status, requested, may_act=may_act))

    def state(self, requested: OverviewParameters) -> tuple[str, str]:
        """What the title of the page begins with, and the colour of its icon: ``good``, ``warn`` or ``bad``."""
        status = self.reads.labelled(self.reads.status_now(), requested)
        concerns = concerns_of(status, self.reads.settings)
        if not concerns:
            return "", "good"
        more = f" and {len(concerns) - 1} more" if len(concerns) > 1 else ""
        return f"{concerns[0].what}{more}", "bad" if concerns[0].urgent else "warn"

    def copy_ages(self, status: Status) -> Mapping[str, CopyAge]:
        """By query, the age of its copies where that was sampled."""
        found: dict[str, tuple[datetime, CopyAge | None]] = {}
        for query in status.queries:
            if query.readiness is None:
                continue
            kept, sampled_at = self._ages.get(query.query), query.readiness.sampled_at
            if kept is None or kept[0] != sampled_at:
                sample = self.reads.store.replication(query.query)
                kept = (sampled_at, None if sample is None else copy_age(query.query, sample))
            found[query.query] = kept
        self._ages = found
        return {query: age for query, (_, age) in found.items() if age is not None}

    def trends(self, status: Status) -> Mapping[str, Trend]:
        """By query, what it read and how far it lagged in the last hour."""
        found: dict[str, tuple[datetime, Sequence[StandbySample]]] = {}
        for query in status.queries:
            if query.readiness is None:
                continue
            kept, sampled_at = self._samples.get(query.query), query.readiness.sampled_at
            if kept is None or kept[0] != sampled_at:
                kept = (sampled_at, self.reads.store.standby_samples(query.query, since=status.at - TREND_SPAN))
            found[query.query] = kept
        self._samples = found
        return {query: trend_of(samples, status.at) for query, (_, samples) in found.items()}

    def _draw(self, whole: Status, requested: OverviewParameters, *, may_act: bool) -> Markup:
        settings, ages, status = self.reads.settings, self.copy_ages(whole), self.reads.labelled(whole, requested)
        held_back = [paused_text(pause) for pause in status.pauses]
        held_back += [cooldown_text(each, query) for query, each in sorted(status.cooldowns.items())]
        lines, clusters, routes = query_lines(status, ages), cluster_lines(status), route_lines(settings, ages)
        chosen, limits = requested.chosen, {each: self.reads.limit_of(each) for each in settings.queries}
        return render(
            "overview.html",
            status=status,
            may_act=may_act,
            shown=requested,
            labels=known_labels(settings),
            whole=len(whole.queries),
            count=len(lines),
            is_paused=any(pause.scope == EVERY for pause in status.pauses),
            concerns=concerns_of(status, settings),
            checked=any(query.ready is not None for query in status.queries),
            away=away_of(status),
            picture=picture_of(clusters, routes, limits, seconds),
            clusters=clusters,
            routes=routes,
            queries=chosen_of(lines, chosen),
            trends=self.trends(whole),
            no_trend=NO_TREND,
            counts=counts_of(lines),
            is_compact=requested.view == "cards" or (requested.view is None and len(lines) >= COMPACT_FROM),
            operations=[
                (each, headline(each.kind, each.query, each.source, each.target, each.parameters),
                 phases_of(each.kind, each.phase))
                for each in status.operations
            ],
            automatic=automatic_counts(status),
            held_back=[*held_back, *status.waiting],
            events=status.events[-EVENTS:][::-1],
        )  # fmt: skip


def overview_parameters(given: Mapping[str, str]) -> OverviewParameters:
    """What follows the question mark of the page. Raises ``UsageError``."""
    try:
        return OverviewParameters.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as mistakes:
        raise UsageError("; ".join(worded(mistakes)), hint="follow the links of the page") from None


def automatic_counts(status: Status) -> list[tuple[str, int]]:
    """How many queries automatic mode may move now, and how many it leaves alone and why."""
    states = [query.automatic for query in status.queries if query.automatic is not None]
    return [(state, states.count(state)) for state in ("on", "paused", "cooling-down", "off") if state in states]
