"""What housekeeping keeps and clears. Frozen, and pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadinessFact:
    """What the last check of a query's standby found; one row a query."""

    query: str
    target: str
    """Where the query would go."""
    ready: bool | None
    """None: nothing refuses, but something could not be measured."""
    gates: tuple[Mapping[str, object], ...]
    """Each ``{"name", "ok", "measured", "limit", "text"}``."""
    since: datetime
    """When this answer was first given; kept while it stays the same."""
    sampled_at: datetime


class Pruned(NamedTuple):
    """How many rows one round of pruning took; an operation counts with all that belongs to it."""

    operations: int = 0
    requests: int = 0
    sightings: int = 0
    readiness: int = 0
    events: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(self)
