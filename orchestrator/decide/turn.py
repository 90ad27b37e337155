"""Whose turn it is, in sentences. Pure.

An operation begins by stopping its query, so no more begin than are made side by side (``operations.at_once``): who
asked for the others waits, and is told so.
"""

from collections.abc import Sequence

from orchestrator.decide.times import iso
from state.model import Operation, Request


def waits(request: Request, under_way: Sequence[Operation], at_once: int) -> str | None:
    """Why a request that is not answered yet has to wait, as far as open operations tell; None where they do not."""
    if len(under_way) < at_once or any(operation.query == request.query for operation in under_way):
        return None
    return (
        f"{request.query} runs on and waits for its turn: {len(under_way)} under way, no more than {at_once} at once "
        "(operations.at_once)"
    )


def too_late(request: Request, *, waited: bool) -> str:
    """What is said of a request whose time is up."""
    if waited:
        return (
            f"its turn did not come before {iso(request.expires_at)}: more moves are asked for than are made at once "
            "(operations.at_once); ask anew, with a longer --timeout"
        )
    return f"nobody took it before {iso(request.expires_at)}, and now it is too late: ask anew"
