"""Forgetting a query that was taken out of service: what stands in the way, what goes, and what stays.

What goes is the store's memory of it: assignment, operations, positions, timeline. Its history goes by age, as ever.
Its checkpoints and what it wrote stay where they are: they are the owner's.
"""

from dataclasses import dataclass
from datetime import timedelta

from orchestrator.errors import Refused, UnknownName
from orchestrator.facts.current import latest_fact, open_operation
from state.model.entities import Event, QueryFact, RunState
from state.model.maintenance import RememberedRows
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore

ALIVE = timedelta(minutes=1)
"""A runner whose heart beat, or who reported the query, this recently runs it still."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A query that may be forgotten."""

    query: str
    rows: RememberedRows
    checkpoint: str | None
    """The one it ran from last; its folder holds the others, too."""
    fact: QueryFact | None
    """What a runner reported last."""

    @property
    def is_silent(self) -> bool:
        """Whether no runner said that it stopped the query: it may run still, on a host that nobody hears."""
        return self.fact is not None and self.fact.state is not RunState.STOPPED


def leftover_of(store: ControllerStore, settings: Tideover, query: str) -> Leftover:
    """What is remembered of a query. Raises ``Refused`` while it is in use, and ``UnknownName`` when nothing is."""
    if query in settings.queries:
        raise Refused(
            f"{query} is still declared",
            hint="remove it from the configuration, restart its runners and the controllers, then run the "
            "command again",
        )
    opened = open_operation(store, query)
    if opened is not None:
        raise Refused(
            f"operation {opened.id} of {query} is open ({opened.phase.value})",
            hint="declare the query again until it is closed: a controller finishes it, or a failover cancels it",
        )
    waiting = next((request for request in store.open_requests() if request.query == query), None)
    if waiting is not None:
        raise Refused(f"request {waiting.id} of {query} has not begun yet", hint="wait until it has ended or expired")
    fact = latest_fact(store, query)
    runner = _running(store, fact)
    if runner is not None:
        raise Refused(
            f"runner {runner} runs {query}, or did a minute ago",
            hint=f"restart runner {runner} with the configuration that does not declare {query}",
        )
    rows, assignment = store.remembered(query), store.assignment(query)
    if not sum(rows):
        raise UnknownName(f"the store knows nothing of query {query!r}", hint="tideover list shows what it knows")
    return Leftover(query=query, rows=rows, checkpoint=assignment.checkpoint if assignment else None, fact=fact)


def forget(store: ControllerStore, leftover: Leftover, *, actor: str, reason: str) -> RememberedRows:
    """Delete it; what went. Raises ``Conflict`` when somebody used the query meanwhile."""
    query, fact = leftover.query, leftover.fact
    event = Event(
        sequence=None,
        at=store.now(),
        kind="forget",
        query=query,
        operation=None,
        epoch=fact.epoch if fact else None,
        actor=actor,
        text=f"{query} is forgotten" + (f": {reason}" if reason else ""),
        detail={"reason": reason, "checkpoint": leftover.checkpoint, "rows": leftover.rows._asdict()},
    )
    return store.forget(query, reported_at=fact.reported_at if fact else None, event=event)


def _running(store: RunnerStore, fact: QueryFact | None) -> str | None:
    """The runner that may host the query right now."""
    if fact is None or fact.state is RunState.STOPPED:
        return None
    now = store.now()
    beats = any(each.instance == fact.instance and abs(now - each.seen_at) < ALIVE for each in store.runners())
    return fact.runner if beats or abs(now - fact.reported_at) < ALIVE else None
