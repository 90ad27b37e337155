"""What people tell automatic mode: pauses and acknowledgements. Frozen, and pure.

A pause that is over is kept: what was believed before its end may not act afterwards, so its end must be known.
"""

from dataclasses import dataclass
from datetime import datetime

EVERY = "*"
"""The scope of a pause that holds for every query."""

AUTOMATIC = "auto"
"""The actor of what nobody asked for: a person's name carries a host (``ann@desk``), so the two cannot be confused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """Automatic mode shall leave a query, or all of them, alone for a while. The newest one of each scope is kept."""

    scope: str
    """A query's name, or ``EVERY``."""
    since: datetime
    until: datetime | None
    """When it ends by itself; None: only when somebody resumes."""
    reason: str
    actor: str
    resumed_at: datetime | None = None
    """When somebody ended it before its time."""

    @property
    def over_at(self) -> datetime | None:
        """When it ended or will end; None while no end is known."""
        return self.until if self.resumed_at is None else self.resumed_at

    def covers(self, query: str) -> bool:
        """Whether it speaks of this query."""
        return self.scope in {query, EVERY}

    def is_in_force(self, now: datetime) -> bool:
        """Whether it holds at this time."""
        return self.resumed_at is None and (self.until is None or now < self.until)


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledgement:
    """A person has seen what automatic mode did to a query: its cool-down is over. One for each operation."""

    operation: str
    query: str
    actor: str
    reason: str
    at: datetime
