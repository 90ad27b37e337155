"""What the store checks before it writes, and what it keeps, beside the rules of its tables.

``check_*`` raise ``ValueError`` for an argument that makes no sense whatever the store holds; ``refuse_*`` raise a
``StoreError`` for one that contradicts what the store holds.
"""

import secrets
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from state.errors import Conflict, StaleTerm
from state.model.automation import Acknowledgement, Pause
from state.model.cluster_status import ClusterStatus
from state.model.entities import Assignment, Event, Intent, IntentState, Operation, Phase, Position, Request
from state.model.maintenance import FormerCheckpoint
from state.settings.canonical import are_one_folder

CONTROLLER = "controller"
"""Name of the lease whose term guards every controller write."""

LEASE_TTLS_AHEAD = 2
"""A lease that ends later than this many of its lengths from now was taken before the clock was set back, perhaps by a
controller that is gone. It may be taken. The controller that does hold it is known by its term.
"""

CLOCKS_APART = timedelta(minutes=1)
"""A time that lies further ahead of the store's clock is of before some clock was set back; less than that, two hosts
may be apart."""

KEPT_BATCHES = 12
"""Batches of positions kept for each query, newest epoch first: enough for a planned batch, the two that Spark may
still replay, and a spool that is flushed late."""

KEPT_STRETCHES = 10_000
"""Stretches of a timeline kept for each query, the newest: a week, if every minute began one. Their age is the rule;
this is the bound."""

PLACED = frozenset({Phase.STARTING, Phase.VERIFYING, Phase.SETTLED})
"""Phases of an operation that has placed its query: they may be all that says on which cluster it is now."""

StepKey = tuple[str, int]

_LONGEST_STEP = 1_000_000


def term_step() -> int:
    """How far a new term lies above the last one: by chance, so that no number is given twice.

    A store that was restored to an older copy counts on from an older term. Counting by one, the next leader would get
    the very number that the leader of before the accident still writes with until it renews its lease.
    """
    return 1 + secrets.randbelow(_LONGEST_STEP)


def check_answer(operation: str | None, refused: str | None) -> None:
    """A request is answered by an operation or by a refusal."""
    if (operation is None) == (refused is None):
        raise ValueError("answer a request with either an operation or a refusal")


def check_request(request: Request) -> None:
    """A request can be taken for a while."""
    if request.expires_at <= request.created_at:
        raise ValueError(f"a request of {request.created_at} cannot end at {request.expires_at}")


def refuse_other_request(wanted: Request, stored: Request) -> None:
    """Raise ``Conflict`` unless the row under the request's id is this very request, answered since or not."""
    if replace(stored, operation=None, refused=None) != replace(wanted, operation=None, refused=None):
        raise Conflict(
            f"request {wanted.id} exists already, and requests something else", hint="try again with a new id"
        )


def check_adopted(assignment: Assignment) -> None:
    """The first assignment of a query has epoch 1, and is placed by it."""
    if (assignment.epoch, assignment.placed_epoch) != (1, 1):
        raise ValueError(f"a first assignment has epoch 1, not {assignment.epoch} (placed {assignment.placed_epoch})")


def check_held(operation: Operation, from_epoch: int) -> None:
    """A hold takes the next epoch, for an operation that is open."""
    if operation.epoch != from_epoch + 1:
        raise ValueError(f"a hold from epoch {from_epoch} takes epoch {from_epoch + 1}, not {operation.epoch}")
    if not operation.is_open:
        raise ValueError(f"a hold opens an operation; {operation.id} has the outcome {operation.outcome}")


def check_closed(operation: Operation) -> None:
    """Evidence is of an operation that has ended."""
    if operation.is_open:
        raise ValueError(f"operation {operation.id} is open: its evidence is written when it has closed")


def check_placed(assignment: Assignment, from_epoch: int) -> None:
    """A commit keeps the epoch of the hold; an abort or another hold takes the next, which places nothing."""
    if assignment.epoch not in {from_epoch, from_epoch + 1}:
        raise ValueError(f"epoch {assignment.epoch} is neither {from_epoch} (commit) nor {from_epoch + 1} (abort)")
    if assignment.placed_epoch > from_epoch:
        raise ValueError(f"epoch {assignment.placed_epoch} is no commit, and places nothing")


def check_reconciled(assignment: Assignment, from_epoch: int | None) -> None:
    """Reconciling lifts the epoch."""
    if from_epoch is not None and assignment.epoch <= from_epoch:
        raise ValueError(f"epoch {assignment.epoch} does not lie above {from_epoch}")


def placed_at(assignment: Assignment, from_epoch: int | None) -> int:
    """The epoch on the way to a reconciled one at which the row takes its place: that under which it was placed."""
    return max(assignment.placed_epoch, from_epoch or 0)


def put_back(operation: Operation, event: Event) -> Operation:
    """An operation that came back open with an older store, closed."""
    return replace(operation, outcome="failed", sentence=event.text, ended_at=event.at)


def check_reported(intent: Intent) -> None:
    """A runner reports what it did or why it could not."""
    if intent.state not in {IntentState.DONE, IntentState.FAILED}:
        raise ValueError(f"a runner reports done or failed, not {intent.state}")


def check_pause(pause: Pause) -> None:
    """A pause has a scope, and ends after it begins."""
    if not pause.scope:
        raise ValueError("a pause is of one query or of all")
    if pause.until is not None and pause.until <= pause.since:
        raise ValueError(f"a pause from {pause.since} cannot end at {pause.until}")


def check_believed(status: ClusterStatus, term: int) -> None:
    """A verdict carries the term under which it was given."""
    if status.term != term:
        raise ValueError(f"a verdict of term {status.term} cannot be written with term {term}")


def check_pruned(before: datetime, now: datetime, *, keep: int, limit: int) -> None:
    """What is pruned lies in the past, and something of each query is left."""
    if before >= now:
        raise ValueError(f"{before} is not over: only what ended before a time in the past is pruned")
    if keep < 1 or limit < 1:
        raise ValueError(f"keep ({keep}) and limit ({limit}) are at least 1")


def check_kept(keep: timedelta) -> None:
    """A timeline reaches back by some time."""
    if keep <= timedelta(0):
        raise ValueError(f"a timeline that is kept for {keep} holds nothing")


def is_newer(position: Position, other: Position) -> bool:
    """Whether a position was tracked later than, or together with, another: by epoch first, for clocks differ."""
    return (position.epoch, position.tracked_at) >= (other.epoch, other.tracked_at)


def refuse_stale(term: int, stored: int | None) -> None:
    """Raise ``StaleTerm`` unless ``term`` is the stored one."""
    if stored is None:
        raise StaleTerm(f"no controller leads yet, so a write with term {term} is refused", hint="take the lease first")
    if term != stored:
        raise StaleTerm(
            f"term {stored} leads; the write with term {term} is refused",
            hint="another controller leads now; this one has to take the lease again",
        )


def left_by(stored: Assignment, wanted: Assignment, at: datetime) -> FormerCheckpoint | None:
    """The checkpoint that a query leaves when its row changes so; None where it stays on it."""
    left = stored.checkpoint.rstrip("/")
    if are_one_folder(left, wanted.checkpoint):
        return None
    return FormerCheckpoint(
        query=stored.query,
        checkpoint=left,
        placed_epoch=stored.placed_epoch,
        left_epoch=wanted.epoch,
        left_at=at,
        operation=wanted.operation,
    )


def joined_consents(stored: tuple[str, ...], added: Iterable[str]) -> tuple[str, ...]:
    """All consents, each once, in the order in which they were given."""
    return tuple(dict.fromkeys((*stored, *added)))


def refuse_other_answer(request_id: str, stored: Request | None, operation: str | None, refused: str | None) -> None:
    """Raise ``Conflict`` unless the request is already answered in just this way (a repeat is harmless)."""
    if stored is None:
        raise Conflict(f"there is no request {request_id}")
    if (stored.operation, stored.refused) != (operation, refused):
        raise Conflict(f"request {request_id} is answered already: {stored.operation or stored.refused}")


def refuse_forgetting(
    query: str, open_operation: str | None, seen: datetime | None, reported_at: datetime | None
) -> None:
    """Raise ``Conflict`` while a query is moved, or when a runner reported it after the caller looked."""
    if open_operation is not None:
        raise Conflict(f"{query} is not forgotten: operation {open_operation} of it is open")
    if reported_at != seen:
        raise Conflict(f"{query} is not forgotten: a runner has just reported it", hint="see tideover list")


def refuse_moving(cluster: str, operations: Iterable[Operation]) -> None:
    """Raise ``Conflict`` while a query moves to or from a cluster whose name another one is to have."""
    moving = next((each for each in operations if each.is_open and cluster in {each.source, each.target}), None)
    if moving is not None:
        raise Conflict(
            f"operation {moving.id} moves {moving.query} from {moving.source} to {moving.target}",
            hint="wait for its end: tideover list",
        )


def refuse_stranger(given: Acknowledgement, owner: str | None) -> None:
    """Raise ``Conflict`` unless the operation that is acknowledged is one of that query (``owner``)."""
    if owner != given.query:
        raise Conflict(f"there is no operation {given.operation} of {given.query} to acknowledge")
