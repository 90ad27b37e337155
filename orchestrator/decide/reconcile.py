"""A restored store decides nothing: what runs is the truth, once a person has looked. Pure.

A runner starts no epoch that was not stored first, and none that is held. So a report of a higher epoch than the row's,
or of the row's own epoch while the row holds it or names another checkpoint, can mean only one thing: the store lost
its newest rows, by a restored backup or a copy. Whatever it says of the query then is of the past, and a move decided
on it would start from a checkpoint and a position that the query left long ago.

Where no runner is left that could report it, the old checkpoint itself tells: each move leaves planted entries in it,
and they name their operation. One that the store does not know was done after the copy was made.
"""

from dataclasses import replace
from datetime import datetime

from state.messages import ReleaseRequest
from state.model.checkpoint_folders import read_folder
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    QueryFact,
)


def is_put_back(assignment: Assignment | None, fact: QueryFact | None) -> bool:
    """Whether the store knows less than a runner. ``fact`` must have been read before ``assignment``."""
    if fact is None or assignment is None:
        return fact is not None
    contradicts = assignment.desired is Desired.HELD or assignment.checkpoint != fact.checkpoint
    return fact.epoch > assignment.epoch or (fact.epoch == assignment.epoch and contradicts)


def put_back_text(assignment: Assignment | None, fact: QueryFact) -> str:
    """The same as a sentence."""
    if assignment is None:
        known = "the store has no assignment of it"
    elif fact.epoch > assignment.epoch:
        known = f"the store knows only epoch {assignment.epoch}"
    else:
        known = "in the store it is " + ("held" if assignment.desired is Desired.HELD else "elsewhere")
    return (
        f"runner {fact.runner} runs {fact.query} under epoch {fact.epoch}, but {known}: "
        f"the store was restored from an older backup; tideover reconcile {fact.query}"
    )


def held_by(assignment: Assignment | None, fact: QueryFact | None) -> str | None:
    """The operation that keeps the checkpoint in use from being started, as its runner found; None for none."""
    if assignment is None or fact is None or fact.checkpoint != assignment.checkpoint:
        return None
    return fact.held_by


def stranger(checkpoint: str, operation: str) -> str:
    """What tells that the store lost the operation which holds a checkpoint."""
    return f"{checkpoint} is held by operation {operation}, which this store does not know"


def lost_text(query: str, found: str) -> str:
    """What it means that a checkpoint tells of a move which the store does not know of, and what to do."""
    return (
        f"{found}: the store was restored from a backup older than that move. Tell Tideover where the query runs now: "
        f"tideover reconcile {query} --cluster CLUSTER --checkpoint FOLDER"
    )


def reconciled(assignment: Assignment | None, fact: QueryFact, at: datetime) -> Assignment:
    """The assignment that says what runs, under an epoch above all that was reported.

    The runner starts it again from its own checkpoint, so nothing moves and nothing is read twice. Starting offsets are
    kept only for the very checkpoint they were made for: elsewhere Spark keeps its own in the checkpoint. What was
    tracked under the reported epoch counts on, where the place is another than the stored one.
    """
    stays = assignment is not None and (assignment.cluster, assignment.checkpoint) == (fact.cluster, fact.checkpoint)
    return Assignment(
        query=fact.query,
        epoch=fact.epoch + 1,
        placed_epoch=assignment.placed_epoch if assignment is not None and stays else fact.epoch,
        desired=Desired.RUNNING,
        cluster=fact.cluster,
        runner=fact.runner,
        checkpoint=fact.checkpoint,
        starting_offsets=assignment.starting_offsets if assignment is not None and stays else None,
        operation=None,
        changed_at=at,
        mapping=fact.mapping,
    )


def hold_given_up(
    stored: Assignment, operation: str, held_epoch: int, *, target: str, actor: str, reason: str, at: datetime
) -> tuple[Assignment, Operation]:
    """The hold of an operation that the store lost, and that went nowhere as a person says: written again.

    It rolls back from the start. Its epoch lies above that of the lost hold: a runner that saw that one obeys
    this.
    """
    epoch = max(stored.epoch, held_epoch) + 1
    lost = Operation(
        id=operation,
        group=operation,
        kind=OperationKind.FAILOVER,
        query=stored.query,
        source=stored.cluster,
        target=target,
        epoch=epoch,
        phase=Phase.ABORTED,
        outcome=None,
        actor=actor,
        reason=reason,
        consents=(),
        plan=None,
        measured={},
        sentence=f"cancelled by {actor}: the store was restored from an older backup, and {stored.query} had not moved",
        started_at=at,
        ended_at=None,
    )
    return replace(stored, epoch=epoch, desired=Desired.HELD, operation=operation, changed_at=at), lost


def undone(found: Assignment, operation: Operation, *, actor: str) -> tuple[Assignment, Operation]:
    """What runs, held for an operation that came back open and may have fenced its very checkpoint."""
    text = f"cancelled by {actor}: the store was restored from an older backup, and {found.query} stays where it runs"
    back = replace(operation, epoch=found.epoch, phase=Phase.ABORTED, sentence=text)
    return replace(found, desired=Desired.HELD, operation=operation.id), back


def release_of(operation: Operation, held: Assignment, *, asked: int = 0, below: str | None = None) -> Intent:
    """The asking with which any operation ends that is given up: the runner takes away what it planted.

    ``asked`` is how often the operation asked for that before. ``below`` is where the runner looks for checkpoints
    that were run since the hold, where it was unknown what runs.
    """
    name = Intent.name_of(IntentKind.RELEASE, asked)
    request = ReleaseRequest(
        checkpoint=held.checkpoint, planted=(), prepared=None, operation=operation.id, mapped=True, below=below
    ).as_json()
    return Intent(
        id=f"{operation.id}/{name}",
        operation=operation.id,
        name=name,
        kind=IntentKind.RELEASE,
        query=held.query,
        runner=held.runner,
        epoch=held.epoch,
        request=request,
        state=IntentState.PENDING,
        result=None,
        created_at=held.changed_at,
        ended_at=None,
    )


def vouched(
    stored: Assignment, *, cluster: str, checkpoint: str, runner: str, at: datetime, held_epoch: int = 0
) -> Assignment:
    """The assignment that a person answers for, where no runner is left that could tell.

    Its epoch lies above the stored one and above the one in the name of the folder, so that a run which went on there
    unseen has to stop when its runner is back.
    """
    made = read_folder(checkpoint)
    epoch = max(stored.epoch, held_epoch, made.epoch if made is not None else 0)
    return Assignment(
        query=stored.query,
        epoch=epoch + 1,
        placed_epoch=epoch,
        desired=Desired.RUNNING,
        cluster=cluster,
        runner=runner,
        checkpoint=checkpoint,
        starting_offsets=None,
        operation=None,
        changed_at=at,
    )
