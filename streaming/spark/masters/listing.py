"""An application as a cluster manager or a history server lists it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LIST_SECONDS = 20.0
"""How long a list is waited for: a history server may read many logs first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedApplication:
    """One application; what its source does not give is None."""

    source: str
    """As ``--from`` names it."""
    id: str
    name: str | None
    state: str
    """In the words of its source."""
    is_running: bool
    tracking_url: str | None = None
    """Where its driver's UI is reached, or its page in a history server."""
    spark: str | None = None
    attempt: str | None = None


def rows_of(found: Any) -> Sequence[dict[str, Any]]:
    """The objects of a list in an answer; empty where it is no list."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
