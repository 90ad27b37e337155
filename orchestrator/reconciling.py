"""Reconciling a query whose store was put back: both sides looked at, and what runs written down."""

from dataclasses import dataclass

from orchestrator.decide.reconcile import is_put_back, reconciled
from orchestrator.errors import Refused
from state.model import Assignment, Event, QueryFact
from state.ports import Store
from state.settings import Tideover


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """What the store says of a query, and what a runner reports."""

    stored: Assignment | None
    runs: QueryFact


def sides_of(store: Store, query: str) -> Sides | None:
    """Both sides, where the store is the older one; None where there is nothing to reconcile."""
    fact = next((fact for fact in store.query_facts() if fact.query == query), None)
    stored = store.assignment(query)  # after the fact: else a move in between would look like an older store
    return Sides(stored=stored, runs=fact) if fact is not None and is_put_back(stored, fact) else None


def reconcile(store: Store, settings: Tideover, sides: Sides, *, actor: str, reason: str) -> Assignment:
    """Write down what runs. Raises ``Refused`` where the configuration does not allow it, or it changed meanwhile."""
    fact, stored = sides.runs, sides.stored
    query = settings.queries[fact.query]
    if fact.cluster not in query.clusters or fact.runner not in query.runners:
        raise Refused(
            f"{fact.query} runs on {fact.cluster} by runner {fact.runner}, which its configuration does not allow",
            hint="this may be another installation's runner on this store",
        )
    wanted = reconciled(stored, fact, store.now())
    was = f"epoch {stored.epoch} on {stored.cluster}" if stored else "no assignment"
    now = f"epoch {wanted.epoch} on {fact.cluster}"
    text = f"{fact.query} is taken as runner {fact.runner} runs it: {now}; stored was {was}"
    event = Event(
        sequence=None,
        at=wanted.changed_at,
        kind="reconcile",
        query=fact.query,
        operation=None,
        epoch=wanted.epoch,
        actor=actor,
        text=text + (f": {reason}" if reason else ""),
        detail={
            "reason": reason,
            "stored": {"epoch": stored.epoch, "cluster": stored.cluster, "checkpoint": stored.checkpoint}
            if stored
            else None,
            "reported": {"epoch": fact.epoch, "cluster": fact.cluster, "checkpoint": fact.checkpoint},
        },
    )
    if not store.reconcile(wanted, from_epoch=stored.epoch if stored else None, event=event):
        raise Refused(f"{fact.query} changed while you looked: nothing was written", hint="look again")
    return wanted
