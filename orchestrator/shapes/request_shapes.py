"""The JSON of requests: what was requested, and is not answered yet.

Each verb may print one where its outcome is unknown, so nothing is imported here that decides.
"""

from orchestrator.decide.times import iso
from state.model.entities import Request


def request_row(request: Request) -> dict[str, object]:
    """What was requested and not answered yet."""
    return {
        "id": request.id,
        "kind": request.kind.value,
        "to": request.target,
        "parameters": dict(request.parameters),
        "actor": request.actor,
        "reason": request.reason,
        "created_at": iso(request.created_at),
        "expires_at": iso(request.expires_at),
    }


def request_identity(request: Request) -> dict[str, object]:
    """Which request it is, where its outcome is reported."""
    return {"request": request.id, "query": request.query, "group": request.group}
