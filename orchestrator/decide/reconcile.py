"""A restored store decides nothing: what runs is the truth, once a person has looked. Pure.

A runner starts no epoch that was not stored first, and none that is held. So a report of a higher epoch than the row's,
or of the row's own epoch while the row holds it or names another checkpoint, can mean only one thing. The store lost
its newest rows, by a restored backup or a copy. Whatever it says of the query then is of the past. A move decided on it
would start from a checkpoint and a position that the query left long ago.

A runner that was restarted knows no more than the store. But each move leaves files in the checkpoint, or beside it,
that name its operation and where it led. A runner reads them and reports the place (``FoundPlace``); a place that is
not the row's was reached after the backup.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from state.checkpoint_folders import is_copy, read_folder, read_mapping_name
from state.messages import ReleaseRequest
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Position,
    QueryFact,
    SeenCheckpoint,
)
from state.model.found_places import FoundPlace
from state.model.measured import NOTHING
from state.plain_text import amount
from state.settings.canonical import are_one_folder


def is_put_back(assignment: Assignment | None, fact: QueryFact | None) -> bool:
    """Whether the store knows less than a runner. ``fact`` must have been read before ``assignment``."""
    if fact is None or assignment is None:
        return fact is not None
    contradicts = assignment.desired is Desired.HELD or not _is_at(assignment, fact)
    unknown = placed_under(fact) > assignment.placed_epoch
    return fact.epoch > assignment.epoch or unknown or (fact.epoch == assignment.epoch and contradicts)


def placed_under(fact: QueryFact) -> int:
    """The epoch of the move by which a running query came to its place, by the names of what was made for it."""
    made, mapped = read_folder(fact.checkpoint), read_mapping_name(fact.mapping or "")
    return max(made.epoch if made is not None else 0, mapped[0] if mapped is not None else 0)


def _is_at(assignment: Assignment, place: QueryFact | FoundPlace) -> bool:
    """Whether a row names the place; a cluster that no file names contradicts none."""
    same = place.checkpoint is not None and are_one_folder(place.checkpoint, assignment.checkpoint)
    return same and place.mapping == assignment.mapping and place.cluster in {None, assignment.cluster}


def _is_copy(assignment: Assignment, place: FoundPlace) -> bool:
    """Whether a place is that of the row but for the folder, which is a copy of the row's."""
    if place.checkpoint is None or not is_copy(place.checkpoint, assignment.checkpoint):
        return False
    return place.mapping == assignment.mapping and place.cluster in {None, assignment.cluster}


def older_than(assignment: Assignment, found: FoundPlace, is_known: Callable[[str], bool]) -> str | None:
    """What shows that the store is older than the files of a query; None where they agree, or nothing can be read.

    A move that is under way, or was committed and has not begun to read, leaves its entries in the log. So does one
    that the store lost before its commit, and a fence that came late.
    """
    if not found.is_beside(assignment) or found.checkpoint is None:
        return None
    if not _is_at(assignment, found):
        return f"{found.text}. In the store {found.query} is on {assignment.cluster} with {_row_place(assignment)}"
    holder = found.held_by
    if holder is None or (holder == assignment.operation and assignment.desired is Desired.HELD):
        return None
    if holder == found.moved_by == assignment.operation:
        return None  # its start takes the entries away
    if not is_known(holder):
        return stranger(found.checkpoint, holder)
    return f"{found.checkpoint} is held by operation {holder}, which is over"


def _row_place(assignment: Assignment) -> str:
    return assignment.checkpoint if assignment.mapping is None else f"mapping {assignment.mapping}"


def put_back_text(assignment: Assignment | None, fact: QueryFact) -> str:
    """The same as a sentence."""
    if assignment is None:
        known = "the store has no assignment of it"
    elif fact.epoch > assignment.epoch:
        known = f"the store knows only epoch {assignment.epoch}"
    elif assignment.desired is Desired.HELD:
        known = "in the store it is held"
    else:
        known = f"in the store it is on {assignment.cluster} with {_row_place(assignment)}"
    return (
        f"runner {fact.runner} runs {fact.query} under epoch {fact.epoch}, but {known}: "
        f"the store was restored from an older backup; tideover reconcile {fact.query}"
    )


def held_by(assignment: Assignment | None, fact: QueryFact | None) -> str | None:
    """The operation that keeps the checkpoint in use from being started, as its runner found; None for none."""
    if assignment is None or fact is None or not are_one_folder(fact.checkpoint, assignment.checkpoint):
        return None
    return fact.held_by


def stranger(checkpoint: str, operation: str) -> str:
    """What shows that the store lost the operation which holds a checkpoint."""
    return f"{checkpoint} is held by operation {operation}, which this store does not know"


def lost_text(query: str, found: str) -> str:
    """What it means that a checkpoint shows a move which the store does not know of, and what to do."""
    return f"{found}. The store was restored from a backup older than that move; tideover reconcile {query}"


def repeats_text(
    stored: Assignment, seen: SeenCheckpoint | None, place: FoundPlace | None, positions: Collection[Position]
) -> str | None:
    """What a start from the files runs again of what was reported: batches, and at most how many records.

    ``positions`` are those of the query. A record is counted by its offset, so markers of transactions count, too.
    None where the place was not looked at beside this row, or holds all that was reported.
    """
    if place is None or not place.is_beside(stored) or seen is None or seen.committed is None:
        return None
    if place.checkpoint is None or place.batch is None or place.batch >= seen.committed:
        return None
    if not (are_one_folder(place.checkpoint, seen.checkpoint) or is_copy(place.checkpoint, seen.checkpoint)):
        return None
    first, last = place.batch + 1, seen.committed
    batches = f"batch {last}" if first == last else f"batches {first} to {last}"
    most = _offsets_between(stored, positions, place.batch, last)
    many = "how many records is unknown" if most is None else f"at most {amount(most, 'record')}"
    return f"of what was reported, {batches} would run again: {many}"


def _offsets_between(stored: Assignment, positions: Collection[Position], first: int, last: int) -> int | None:
    """Between the ends of two batches, all partitions together; None where one is not known of each."""
    ends: dict[int, dict[tuple[str, str, int], int]] = {first: {}, last: {}}
    for each in sorted(positions, key=lambda each: each.epoch):
        if each.batch in ends and each.cluster == stored.cluster and each.epoch >= stored.placed_epoch:
            ends[each.batch][each.source, each.topic, each.partition] = each.offset
    if not ends[last] or ends[first].keys() != ends[last].keys():
        return None
    steps = [end - ends[first][key] for key, end in ends[last].items()]
    return sum(steps) if min(steps) >= 0 else None


def place_text(stored: Assignment, found: str, place: FoundPlace | None) -> str:
    """What the place that was found means, and what to do: a move that the store lost, or a copy of the folder."""
    if place is None or not _is_copy(stored, place):
        return lost_text(stored.query, found)
    return (
        f"{found}. The configuration names the other folder. Where that is the copy to continue from: "
        f"tideover reconcile {stored.query}"
    )


def reconciled(assignment: Assignment | None, fact: QueryFact, at: datetime) -> Assignment:
    """The assignment that says what runs, under an epoch above all that was reported.

    The runner starts it again from its own checkpoint, so nothing moves and nothing is read twice. Starting offsets are
    kept only for the very checkpoint they were made for: elsewhere Spark keeps its own in the checkpoint. What was
    tracked under the reported epoch counts on, where the place is another than the stored one.
    """
    stays = assignment if assignment is not None and _is_at(assignment, fact) else None
    highest = max(fact.epoch, assignment.epoch if assignment is not None else 0)
    return Assignment(
        query=fact.query,
        epoch=highest + 1,
        placed_epoch=stays.placed_epoch if stays is not None else highest,
        desired=Desired.RUNNING,
        cluster=fact.cluster,
        runner=fact.runner,
        checkpoint=fact.checkpoint,
        starting_offsets=stays.starting_offsets if stays is not None else None,
        operation=None,
        changed_at=at,
        mapping=fact.mapping,
    )


def taken_as_found(
    stored: Assignment, found: FoundPlace, *, cluster: str, runner: str, reported_epoch: int, at: datetime
) -> Assignment:
    """The assignment that says what the files show, under an epoch above all that they, a runner or the store name."""
    stays = (_is_at(stored, found) or _is_copy(stored, found)) and cluster == stored.cluster
    highest = max(stored.epoch, found.epoch, found.held_epoch or 0, reported_epoch)
    return Assignment(
        query=stored.query,
        epoch=highest + 1,
        placed_epoch=stored.placed_epoch if stays else highest,
        desired=Desired.RUNNING,
        cluster=cluster,
        runner=runner,
        checkpoint=found.checkpoint or stored.checkpoint,
        starting_offsets=stored.starting_offsets if stays else None,
        operation=None,
        changed_at=at,
        mapping=found.mapping,
    )


def undone(found: Assignment, operation: Operation, *, actor: str) -> tuple[Assignment, Operation]:
    """What runs, held for an operation that came back open and may have fenced its very checkpoint."""
    text = f"cancelled by {actor}: the store was restored from an older backup, and {found.query} stays where it runs"
    back = replace(operation, epoch=found.epoch, phase=Phase.ABORTED, sentence=text)
    return replace(found, desired=Desired.HELD, operation=operation.id), back


def undone_lost(
    found: Assignment, operation: str, *, target: str, actor: str, reason: str
) -> tuple[Assignment, Operation]:
    """The same for an operation that the store lost: it is written again, and rolls back from the start."""
    lost = Operation(
        id=operation,
        group=operation,
        kind=OperationKind.FAILOVER,
        query=found.query,
        source=found.cluster,
        target=target,
        epoch=found.epoch,
        phase=Phase.ABORTED,
        outcome=None,
        actor=actor,
        reason=reason,
        consents=(),
        plan=None,
        measured=NOTHING,
        sentence="",
        started_at=found.changed_at,
        ended_at=None,
    )
    return undone(found, lost, actor=actor)


def release_of(
    operation: Operation, held: Assignment, *, planted_by: str, requested: int = 0, below: str | None = None
) -> Intent:
    """The request with which any operation ends that is given up: the runner takes away what it planted.

    ``planted_by`` is the operation whose files go: this one, or one that is over. What led the query to its place
    stays. ``requested`` is how often the operation requested that before. ``below`` is where the runner looks for
    checkpoints that were run since the hold, where it was unknown what runs.
    """
    name = Intent.name_of(IntentKind.RELEASE, requested)
    request = ReleaseRequest(
        checkpoint=held.checkpoint,
        planted=(),
        prepared=None,
        operation=planted_by,
        mapped=True,
        below=below,
        reconciled=True,
        keeps=held.mapping,
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


def accepted(stored: Assignment, fact: QueryFact, at: datetime) -> Assignment:
    """The same place under a higher epoch: what was seen of its files before it counts no more (``known_files``).

    Its runner starts the query from the files as they are. No operation placed it: a person did, who looked at them.
    """
    return replace(stored, epoch=max(stored.epoch, fact.epoch) + 1, operation=None, changed_at=at)


def vouched(
    stored: Assignment, *, cluster: str, checkpoint: str, runner: str, at: datetime, reported_epoch: int = 0
) -> Assignment:
    """The assignment that a person confirms, where no file can be read that would show the place.

    Its epoch lies above the stored one and above the one in the name of the folder. So a run that continued there
    unseen has to stop when its runner is back.
    """
    made = read_folder(checkpoint)
    epoch = max(stored.epoch, reported_epoch, made.epoch if made is not None else 0)
    copied = is_copy(checkpoint, stored.checkpoint)
    same = (copied or are_one_folder(checkpoint, stored.checkpoint)) and cluster == stored.cluster
    return Assignment(
        query=stored.query,
        epoch=epoch + 1,
        placed_epoch=stored.placed_epoch if copied and same else epoch,
        desired=Desired.RUNNING,
        cluster=cluster,
        runner=runner,
        checkpoint=checkpoint,
        starting_offsets=stored.starting_offsets if copied and same else None,
        operation=None,
        changed_at=at,
        mapping=stored.mapping if same else None,
    )
