"""Reconciling a query whose store was put back: both sides looked at, and the place of the query written down."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchestrator.decide.reconcile import (
    accepted,
    held_by,
    is_put_back,
    older_than,
    place_text,
    reconciled,
    release_of,
    repeats_text,
    stranger,
    taken_as_found,
    undone,
    undone_lost,
    vouched,
)
from orchestrator.errors import Refused
from orchestrator.facts.current import latest_fact, open_operation
from state.messages import ALREADY_RUN, CONTRADICTED, HELD, Failure
from state.model.entities import (
    Assignment,
    Event,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    QueryFact,
    are_accepted,
)
from state.model.found_places import FoundPlace
from state.settings.canonical import are_one_folder
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """What the store says of a query, and what a runner reports that runs it."""

    stored: Assignment | None
    runs: QueryFact


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A query that moved on by an operation which the store lost, or whose commit it lost; no runner runs it."""

    stored: Assignment
    found: str
    """What shows it: a sentence about its checkpoint."""
    place: FoundPlace | None = None
    """Where a runner found the query in its files; None while none has looked."""
    reported_epoch: int = 0
    """The highest epoch that a runner reported of it."""
    repeats: str | None = None
    """What a start from there runs again; None for nothing that was reported, or where that is not known."""

    @property
    def text(self) -> str:
        """What it means, and what to do."""
        text = place_text(self.stored, self.found, self.place)
        return text if self.repeats is None else f"{text}\n{self.repeats}"


def sides_of(store: ControllerStore, query: str) -> Sides | None:
    """Both sides, where a runner's report shows that the store is older; None where it does not.

    A runner that was restarted since knows no more than the store: what it found in the files says more then than the
    last report of the process before it.
    """
    fact = latest_fact(store, query)
    stored = store.assignment(query)  # after the fact: else a move in between would look like an older store
    if fact is None or not is_put_back(stored, fact):
        return None
    found = _place_of(store, stored)
    is_gone = all(runner.instance != fact.instance for runner in store.runners())
    return None if is_gone and found is not None and found.cluster is not None else Sides(stored=stored, runs=fact)


def lost_of(store: ControllerStore, query: str) -> Lost | None:
    """What a runner that does not run the query found at its checkpoint, where it shows that the store is older."""
    fact = latest_fact(store, query)
    stored = store.assignment(query)
    if stored is None:
        return None
    found, epoch = _place_of(store, stored), fact.epoch if fact is not None else 0
    if found is not None:
        why = older_than(stored, found, lambda operation: store.operation(operation) is not None)
        if why is not None:
            repeats = _repeats_of(store, stored, fact, found)
            return Lost(stored=stored, found=why, place=found, reported_epoch=epoch, repeats=repeats)
    why = _refused_by_checkpoint(store, stored, fact)
    if why is None or (found is not None and found.checkpoint is not None):
        return None  # the files agree with the row
    return Lost(stored=stored, found=why, place=found, reported_epoch=epoch)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradicted:
    """A query whose files are not what a run wrote: some are missing, or they are from a backup."""

    stored: Assignment
    fact: QueryFact
    why: str
    """What contradicts what, in one sentence."""
    repeats: str | None = None
    """As of ``Lost``."""

    @property
    def text(self) -> str:
        """The sentence, and what a start from these files runs again."""
        return self.why if self.repeats is None else f"{self.why}; {self.repeats}"

    @property
    def was_accepted(self) -> bool:
        """Whether a person has accepted these files before, and its runner still cannot start the query from them."""
        return are_accepted(self.stored, self.fact.seen)


def contradicted_of(store: ControllerStore, query: str) -> Contradicted | None:
    """Why a query is not started, or not moved, from the files that lie there; None where nothing speaks against them.

    Its runner reports it. Where that is lost, the runner said it that was to fence the checkpoint for a move.
    """
    fact, stored = latest_fact(store, query), store.assignment(query)
    if fact is None or stored is None:
        return None
    is_of_row = fact.epoch == stored.epoch and are_one_folder(fact.checkpoint, stored.checkpoint)
    why = fact.contradicted if is_of_row else None
    if why is None and stored.operation is not None:
        made = [Failure.of(each.result) for each in store.intents(stored.operation) if each.state is IntentState.FAILED]
        why = next((each.text for each in reversed(made) if each.kind == CONTRADICTED), None)
    if why is None:
        return None
    repeats = _repeats_of(store, stored, fact, _place_of(store, stored))
    return Contradicted(stored=stored, fact=fact, why=why, repeats=repeats)


def accept_files(store: ControllerStore, found: Contradicted, *, actor: str, reason: str) -> Assignment:
    """Let a query start from its files as they are: batches that are missing there run again.

    Raises ``Refused`` while an operation holds the query, or where it changed in between.
    """
    opened = open_operation(store, found.stored.query)
    if opened is not None:
        raise Refused(f"operation {opened.id} of {found.stored.query} is open", hint=f"tideover cancel {opened.id}")
    wanted = accepted(found.stored, found.fact, store.now())
    said = f"as {actor} accepts its files ({found.text})"
    row = _written(store, found.stored, wanted, said, actor=actor, reason=reason, reported=None)
    store.forget_seen(row.query)
    return row


def _repeats_of(
    store: ControllerStore, stored: Assignment, fact: QueryFact | None, place: FoundPlace | None
) -> str | None:
    if fact is None or place is None:
        return None
    return repeats_text(stored, fact.seen, place, store.positions(stored.query, rings=False))


def _place_of(store: ControllerStore, stored: Assignment | None) -> FoundPlace | None:
    """Where a runner found the query beside this very row."""
    found = None if stored is None else store.found_place(stored.query)
    return found if found is not None and stored is not None and found.is_beside(stored) else None


def _refused_by_checkpoint(store: ControllerStore, stored: Assignment, fact: QueryFact | None) -> str | None:
    """What a start, or a step of an operation, said of a move that the store does not know."""
    holder = held_by(stored, fact)
    if holder is not None and store.operation(holder) is None:
        return stranger(stored.checkpoint, holder)
    held = store.operation(stored.operation) if stored.operation is not None else None
    if held is None or not held.is_open:
        return None
    made = [Failure.of(each.result) for each in store.intents(held.id) if each.state is IntentState.FAILED]
    return next((each.text for each in made if each.kind in {ALREADY_RUN, HELD}), None)


def reconcile(store: ControllerStore, settings: Tideover, sides: Sides, *, actor: str, reason: str) -> Assignment:
    """Write down what runs. Raises ``Refused`` where the configuration does not allow it, or it changed in between.

    An operation that came back open is closed. But one of the very checkpoint that runs may have fenced it again, and
    is undone first.
    """
    fact, stored = sides.runs, sides.stored
    _require_allowed(settings, fact.query, fact.cluster, fact.runner)
    wanted = reconciled(stored, fact, store.now())
    reported = {"epoch": fact.epoch, "cluster": fact.cluster, "checkpoint": fact.checkpoint, "mapping": fact.mapping}
    undo = None
    came_back = open_operation(store, fact.query)
    if came_back is not None and stored is not None and are_one_folder(stored.checkpoint, fact.checkpoint):
        wanted, undo = _undo(store, undone(wanted, came_back, actor=actor), planted_by=came_back.id)
    said = f"as runner {fact.runner} runs it"
    return _written(store, stored, wanted, said, actor=actor, reason=reason, reported=reported, undo=undo)


def reconcile_as_found(
    store: ControllerStore, settings: Tideover, lost: Lost, *, runner: str | None, actor: str, reason: str
) -> Assignment:
    """Write down the place that the files of a query show. Raises ``Refused`` as ``reconcile`` does."""
    place, stored = lost.place, lost.stored
    if place is None:
        raise Refused(
            f"{lost.found}, and no runner has read yet where {stored.query} is",
            hint=f"start its runner with tideover run --name {stored.runner}, and repeat the command after 10 seconds",
        )
    if place.checkpoint is None or place.cluster is None:
        raise Refused(
            f"runner {place.runner} cannot read where {stored.query} is: {place.text}",
            hint=f"name the place: tideover reconcile {stored.query} --cluster CLUSTER --checkpoint FOLDER",
        )
    return _taken(store, settings, lost, place, runner or stored.runner, actor=actor, reason=reason)


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

    Nothing that the files contradict is written.
    """
    stored, place = lost.stored, lost.place
    runner = runner or stored.runner
    _require_allowed(settings, stored.query, cluster, runner)
    if place is None:
        return reconcile_as_found(store, settings, lost, runner=runner, actor=actor, reason=reason)
    if place.checkpoint is None:
        wanted = vouched(
            stored, cluster=cluster, checkpoint=checkpoint, runner=runner, at=store.now(),
            reported_epoch=lost.reported_epoch,
        )  # fmt: skip
        return _written(store, stored, wanted, f"as {actor} says", actor=actor, reason=reason, reported=None)
    if not are_one_folder(place.checkpoint, checkpoint):
        raise _contradicted(stored.query, f"from {checkpoint}", place)
    if place.cluster not in {None, cluster}:
        raise _contradicted(stored.query, f"on {cluster}", place)
    return _taken(store, settings, lost, replace(place, cluster=cluster), runner, actor=actor, reason=reason)


def _contradicted(query: str, said: str, place: FoundPlace) -> Refused:
    return Refused(
        f"{query} is not {said}: {place.text}",
        hint=f"without --cluster and --checkpoint the files decide: tideover reconcile {query}",
    )


def _require_allowed(settings: Tideover, name: str, cluster: str, runner: str) -> None:
    query = settings.queries[name]
    if cluster not in query.clusters or runner not in query.runners:
        raise Refused(
            f"{name} is on {cluster} with runner {runner}, which its configuration does not allow",
            hint=f"its clusters are {', '.join(query.clusters)}, its runners {', '.join(query.runners)}",
        )


def _taken(
    store: ControllerStore,
    settings: Tideover,
    lost: Lost,
    place: FoundPlace,
    runner: str,
    *,
    actor: str,
    reason: str,
) -> Assignment:
    stored, cluster = lost.stored, place.cluster or lost.stored.cluster
    query = settings.queries[stored.query]
    _require_allowed(settings, stored.query, cluster, runner)
    wanted = taken_as_found(
        stored, place, cluster=cluster, runner=runner, reported_epoch=lost.reported_epoch, at=store.now()
    )
    undo = None
    if place.held_by is not None:
        holder, came_back = store.operation(place.held_by), open_operation(store, stored.query)
        if came_back is not None and came_back.id == place.held_by:
            back = undone(wanted, came_back, actor=actor)
        else:
            name = place.held_by if holder is None else f"{place.held_by}-undo-{wanted.epoch}"
            target = next((each for each in query.clusters if each != cluster), cluster)
            back = undone_lost(wanted, name, target=target, actor=actor, reason=reason)
        wanted, undo = _undo(store, back, planted_by=place.held_by, below=query.checkpoint)
    found = {"epoch": place.epoch, "cluster": cluster, "checkpoint": place.checkpoint, "mapping": place.mapping}
    said = f"as its files show ({place.text})"
    return _written(store, stored, wanted, said, actor=actor, reason=reason, reported=found, undo=undo)


def _undo(
    store: ControllerStore, back: tuple[Assignment, Operation], *, planted_by: str, below: str | None = None
) -> tuple[Assignment, tuple[Operation, Intent]]:
    """The row that is held, and what its operation requests."""
    held, operation = back
    releases = sum(1 for each in store.intents(operation.id) if each.kind is IntentKind.RELEASE)
    return held, (operation, release_of(operation, held, planted_by=planted_by, requested=releases, below=below))


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
    operation, intents = (undo[0], [undo[1]]) if undo is not None else (None, [])
    from_epoch = stored.epoch if stored else None
    if not store.reconcile(wanted, from_epoch=from_epoch, event=event, operation=operation, intents=intents):
        raise Refused(f"{wanted.query} changed while you looked: nothing was written", hint="run the command again")
    return wanted
