"""Taking back what is not committed: which request wants a query to stay where it is, for the command line and HTTP."""

from dataclasses import dataclass

from orchestrator.decide.phases import BEHIND_COMMIT
from orchestrator.errors import Refused
from state.model.entities import MOVES, Operation, OperationKind, Request
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancellation:
    """What is taken back, and the request that does it: of this kind, to the cluster on which the query stays."""

    operation: Operation | None
    requested: Request | None
    query: str
    kind: OperationKind
    source: str


def cancellation_of(store: ControllerStore, settings: Tideover, name: str) -> Cancellation | None:
    """Of an operation or a request by its id; None where there is neither. ``Refused`` where it is too late."""
    request = store.request(name)
    operation = store.operation((request.operation or name) if request is not None else name)
    if operation is not None:
        _check_open(operation)
        query, kind, source = operation.query, operation.kind, operation.source
    elif request is not None:
        if request.refused is not None:
            raise Refused(f"request {request.id} was refused already: {request.refused}")
        query, kind, row = request.query, request.kind, store.assignment(request.query)
        source = row.cluster if row is not None else settings.queries[query].clusters[0]
    else:
        return None
    stays = OperationKind.FAILOVER if kind is OperationKind.REWIND else kind  # a rewind would want more
    return Cancellation(operation=operation, requested=request, query=query, kind=stays, source=source)


def _check_open(operation: Operation) -> None:
    """A drill commits nothing, so it can be taken back as long as it is open."""
    if not operation.is_open:
        raise Refused(f"operation {operation.id} is over ({operation.outcome}): {operation.sentence}")
    if operation.phase in BEHIND_COMMIT and operation.kind is OperationKind.REWIND:
        raise Refused(f"operation {operation.id} is committed: {operation.query} has gone back in time")
    if operation.phase in BEHIND_COMMIT and operation.kind in MOVES:
        raise Refused(
            f"operation {operation.id} is committed: {operation.query} is placed on {operation.target}",
            hint=f"once it has ended: tideover plan switchover {operation.query} --to {operation.source}",
        )
