"""The one page to look at first. It is drawn once a second at most, however many look at it.

Copies of a hundred queries are many rows, and change once a minute: only what is shown of them is kept, and read again
when a query's readiness was sampled again.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from markupsafe import Markup
from pydantic import ValidationError

from orchestrator.decide.desk.attention import concerns_of
from orchestrator.decide.desk.lines import (
    CopyAge,
    cluster_lines,
    copy_age,
    phases_of,
    query_lines,
    route_lines,
)
from orchestrator.decide.desk.status import Status, known_labels
from orchestrator.decide.gates.automatic import cooldown_text, paused_text
from orchestrator.decide.move.plan import headline
from orchestrator.errors import UsageError
from orchestrator.http.pages.markup import Drawn, render
from orchestrator.http.reads import LabelAsked, Reads
from state.model.automation import EVERY

EVENTS = 20
"""How many lines of the history are shown."""


@dataclass
class Overview:
    """Several threads may read it."""

    reads: Reads
    _ages: dict[str, tuple[datetime, CopyAge | None]] = field(default_factory=dict)
    _drawn: Drawn = field(default_factory=Drawn)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def markup(self, *, may_act: bool, label: str | None = None) -> Markup:
        """All below the head of the page, the same for all who may do as much; of queries with a label, or of all.

        Raises ``StoreError`` and ``UsageError``.
        """
        asked = label_asked(label)
        with self._lock:
            status = self.reads.status_now()
            return self._drawn.of((may_act, label), status, lambda: self._draw(status, asked, may_act=may_act))

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

    def _draw(self, whole: Status, asked: LabelAsked, *, may_act: bool) -> Markup:
        settings, ages, status = self.reads.settings, self.copy_ages(whole), self.reads.labelled(whole, asked)
        held_back = [paused_text(pause) for pause in status.pauses]
        held_back += [cooldown_text(each, query) for query, each in sorted(status.cooldowns.items())]
        return render(
            "overview.html",
            status=status,
            may_act=may_act,
            label=asked.label,
            labels=known_labels(settings),
            count=len(whole.queries),
            is_paused=any(pause.scope == EVERY for pause in status.pauses),
            concerns=concerns_of(status, settings),
            clusters=cluster_lines(status),
            routes=route_lines(settings, ages),
            queries=query_lines(status, ages),
            operations=[
                (each, headline(each.kind, each.query, each.source, each.target, each.parameters),
                 phases_of(each.kind, each.phase))
                for each in status.operations
            ],
            automatic=automatic_counts(status),
            held_back=[*held_back, *status.waiting],
            events=status.events[-EVENTS:][::-1],
        )  # fmt: skip


def label_asked(label: str | None) -> LabelAsked:
    """What follows the question mark of the page. Raises ``UsageError``."""
    try:
        return LabelAsked(label=label)
    except ValidationError:
        raise UsageError("a label is KEY=VALUE, such as team=billing", hint="follow the links of the page") from None


def automatic_counts(status: Status) -> list[tuple[str, int]]:
    """How many queries automatic mode may move now, and how many it leaves alone and why."""
    states = [query.automatic for query in status.queries if query.automatic is not None]
    return [(state, states.count(state)) for state in ("on", "paused", "cooling-down", "off") if state in states]
