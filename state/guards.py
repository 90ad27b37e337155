"""What every store checks alike before it writes: pure, so that memory and SQL cannot drift apart.

``check_*`` raise ``ValueError`` for an argument that makes no sense whatever the store holds; ``refuse_*`` raise a
``StoreError`` for one that contradicts what the store holds.
"""

from state.errors import Conflict, StaleTerm
from state.model import Assignment, Intent, IntentState, Operation, Request

CONTROLLER = "controller"
"""Name of the lease whose term guards every controller write."""

KEPT_BATCHES = 12
"""Batches of positions kept for each query: enough for a planned batch, the two that Spark may still replay, and a
spool that is flushed late."""

StepKey = tuple[str, int]


def check_answer(operation: str | None, refused: str | None) -> None:
    """A request is answered by an operation or by a refusal."""
    if (operation is None) == (refused is None):
        raise ValueError("answer a request with either an operation or a refusal")


def check_adopted(assignment: Assignment) -> None:
    """The first assignment of a query has epoch 1."""
    if assignment.epoch != 1:
        raise ValueError(f"a first assignment has epoch 1, not {assignment.epoch}")


def check_held(operation: Operation, from_epoch: int) -> None:
    """A hold takes the next epoch, for an operation that is open."""
    if operation.epoch != from_epoch + 1:
        raise ValueError(f"a hold from epoch {from_epoch} takes epoch {from_epoch + 1}, not {operation.epoch}")
    if not operation.is_open:
        raise ValueError(f"a hold opens an operation; {operation.id} has the outcome {operation.outcome}")


def check_placed(assignment: Assignment, from_epoch: int) -> None:
    """A commit keeps the epoch of the hold, an abort takes the next."""
    if assignment.epoch not in {from_epoch, from_epoch + 1}:
        raise ValueError(f"epoch {assignment.epoch} is neither {from_epoch} (commit) nor {from_epoch + 1} (abort)")


def check_reported(intent: Intent) -> None:
    """A runner reports what it did or why it could not."""
    if intent.state not in {IntentState.DONE, IntentState.FAILED}:
        raise ValueError(f"a runner reports done or failed, not {intent.state}")


def refuse_stale(term: int, stands: int | None) -> None:
    """Raise ``StaleTerm`` unless ``term`` is the one that stands."""
    if stands is None:
        raise StaleTerm(f"nobody leads yet, so a write with term {term} is refused", hint="take the lease first")
    if term != stands:
        raise StaleTerm(f"term {stands} leads; the write with term {term} is refused", hint="stop, and lead again")


def refuse_other_outcome(stands: Operation | None, wanted: Operation) -> None:
    """Raise ``Conflict`` when a closed operation would be opened again or end differently."""
    if stands is not None and stands.outcome is not None and wanted.outcome != stands.outcome:
        raise Conflict(f"operation {stands.id} is closed: {stands.outcome}", hint="open a new operation")


def refuse_other_answer(request_id: str, stands: Request | None, operation: str | None, refused: str | None) -> None:
    """Raise ``Conflict`` unless the request stands answered in just this way (saying it twice is harmless)."""
    if stands is None:
        raise Conflict(f"there is no request {request_id}")
    if (stands.operation, stands.refused) != (operation, refused):
        raise Conflict(f"request {request_id} is answered already: {stands.operation or stands.refused}")
