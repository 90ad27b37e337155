"""Reconciling a query whose store was put back: both sides looked at, and what runs written down."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.decide.reconcile import (
    held_by,
    hold_given_up,
    is_put_back,
    reconciled,
    release_of,
    stranger,
    undone,
    vouched,
)
from orchestrator.errors import Refused
from orchestrator.facts.current import latest_fact, open_operation
from state.messages import ALREADY_RUN, Failure
from state.model.entities import Assignment, Event, Intent, IntentKind, IntentState, Operation, QueryFact
from state.settings.keys import Resume, Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """What the store says of a query, and what a runner reports."""

    stored: Assignment | None
    runs: QueryFact


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A query that moved on by an operation which the store lost, or whose commit it lost; nobody tells what runs."""

    stored: Assignment
    found: str
    """What tells so: a sentence about its checkpoint."""
    holder: str | None = None
    """The operation that holds the checkpoint and that the store does not know; None where something else tells."""
    held_epoch: int = 0
    """The epoch of that operation."""


def sides_of(store: RunnerStore, query: str) -> Sides | None:
    """Both sides, where the store is the older one; None where there is nothing to reconcile."""
    fact = latest_fact(store, query)
    stored = store.assignment(query)  # after the fact: else a move in between would look like an older store
    return Sides(stored=stored, runs=fact) if fact is not None and is_put_back(stored, fact) else None


def lost_of(store: ControllerStore, query: str) -> Lost | None:
    """What a runner found at the stored checkpoint, where it tells that the store is the older one."""
    fact = latest_fact(store, query)
    stored = store.assignment(query)
    if stored is None:
        return None
    holder = held_by(stored, fact)
    if holder is not None and store.operation(holder) is None:
        found, epoch = stranger(stored.checkpoint, holder), fact.held_epoch if fact is not None else None
        return Lost(stored=stored, found=found, holder=holder, held_epoch=epoch or 0)
    held = store.operation(stored.operation) if stored.operation is not None else None
    if held is None or not held.is_open:
        return None
    made = [Failure.of(each.result) for each in store.intents(held.id) if each.state is IntentState.FAILED]
    run = next((each.text for each in made if each.kind == ALREADY_RUN), None)
    return Lost(stored=stored, found=run) if run is not None else None


def reconcile(store: ControllerStore, settings: Tideover, sides: Sides, *, actor: str, reason: str) -> Assignment:
    """Write down what runs. Raises ``Refused`` where the configuration does not allow it, or it changed meanwhile.

    An operation that came back open is closed. But one that stood by the very checkpoint that runs may have fenced it
    anew, and is undone first.
    """
    fact, stored = sides.runs, sides.stored
    query = settings.queries[fact.query]
    if fact.cluster not in query.clusters or fact.runner not in query.runners:
        raise Refused(
            f"{fact.query} runs on {fact.cluster} with runner {fact.runner}, which its configuration does not allow",
            hint="this may be another installation's runner on this store",
        )
    wanted = reconciled(stored, fact, store.now())
    said = f"as runner {fact.runner} runs it"
    reported = {"epoch": fact.epoch, "cluster": fact.cluster, "checkpoint": fact.checkpoint}
    undo = None
    came_back = open_operation(store, fact.query)
    if came_back is not None and stored is not None and stored.checkpoint == fact.checkpoint:
        wanted, back = undone(wanted, came_back, actor=actor)
        asked = [each for each in store.intents(back.id) if each.kind is IntentKind.RELEASE]
        undo = (back, release_of(back, wanted, asked=len(asked)))
    return _written(store, stored, wanted, said, actor=actor, reason=reason, reported=reported, undo=undo)


def reconcile_by_hand(
    store: ControllerStore,
    settings: Tideover,
    lost: Lost,
    *,
    cluster: str,
    checkpoint: str,
    runner: str | None,
    actor: str,
    reason: str,
) -> Assignment:
    """Write down the place to which a query went, as a person says. Raises ``Refused`` as ``reconcile`` does.

    Where that is the place that the store knows, the operation which holds it went nowhere, and is undone: its entries
    are taken away by the runner, unless that finds that the query went on from another checkpoint. A query that
    switches its cluster keeps its checkpoint: there another cluster with the same checkpoint is a place of its own,
    and the run is refused where the mapping beside it leads to another one.
    """
    stored = lost.stored
    query, runner = settings.queries[stored.query], runner or stored.runner
    if cluster not in query.clusters or runner not in query.runners:
        raise Refused(
            f"the configuration does not allow {stored.query} on {cluster} with runner {runner}",
            hint=f"its clusters are {', '.join(query.clusters)}, its runners {', '.join(query.runners)}",
        )
    at, said = store.now(), f"as {actor} says"
    companion = any(fact.companion for fact in store.runners() if fact.runner == runner)
    switched = query.resume_with(companion=companion) is Resume.SWITCH and cluster != stored.cluster
    if checkpoint.rstrip("/") == stored.checkpoint.rstrip("/") and not switched:
        if lost.holder is None or (cluster, runner) != (stored.cluster, stored.runner):
            raise Refused(
                f"{checkpoint} is the checkpoint that {stored.query} left; it continued from another one",
                hint="look for the newest epoch-... folder below the checkpoint in the configuration; if "
                "the move had not "
                f"begun, name the stored place: --cluster {stored.cluster}, without another --runner",
            )
        target = next((each for each in query.clusters if each != cluster), cluster)
        wanted, back = hold_given_up(
            stored, lost.holder, lost.held_epoch, target=target, actor=actor, reason=reason, at=at
        )  # fmt: skip
        undo = (back, release_of(back, wanted, below=query.checkpoint))
        return _written(store, stored, wanted, said, actor=actor, reason=reason, reported=None, undo=undo)
    wanted = vouched(stored, cluster=cluster, checkpoint=checkpoint, runner=runner, at=at, held_epoch=lost.held_epoch)
    return _written(store, stored, wanted, said, actor=actor, reason=reason, reported=None)


def _written(
    store: ControllerStore,
    stored: Assignment | None,
    wanted: Assignment,
    said: str,
    *,
    actor: str,
    reason: str,
    reported: Mapping[str, object] | None,
    undo: tuple[Operation, Intent] | None = None,
) -> Assignment:
    was = f"epoch {stored.epoch} on {stored.cluster}" if stored else "no assignment"
    now = f"epoch {wanted.epoch} on {wanted.cluster}"
    text = f"reconciled {wanted.query} {said}: {now}; the store had {was}"
    event = Event(
        sequence=None,
        at=wanted.changed_at,
        kind="reconcile",
        query=wanted.query,
        operation=None,
        epoch=wanted.epoch,
        actor=actor,
        text=text + (f": {reason}" if reason else ""),
        detail={
            "reason": reason,
            "stored": {"epoch": stored.epoch, "cluster": stored.cluster, "checkpoint": stored.checkpoint}
            if stored
            else None,
            "reported": reported,
        },
    )
    operation, asked = (undo[0], [undo[1]]) if undo is not None else (None, [])
    from_epoch = stored.epoch if stored else None
    if not store.reconcile(wanted, from_epoch=from_epoch, event=event, operation=operation, intents=asked):
        raise Refused(f"{wanted.query} changed while you looked: nothing was written", hint="run the command again")
    return wanted
