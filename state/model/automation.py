"""What the controller may do automatically: pauses, acknowledgements, schedules, and the notices it sends. Frozen,
pure.

A pause that is over is kept: what was believed before its end may not act afterwards, so its end must be known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from state.model.entities import OperationKind

EVERY = "*"
"""The scope of a pause that holds for every query."""

AUTOMATIC = "auto"
"""The actor of what no person requested: a person's name carries a host (``ann@desk``), so they cannot be confused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """Automatic mode shall leave a query, or all of them, alone for a while. The newest one of each scope is kept."""

    scope: str
    """A query's name, or ``EVERY``."""
    since: datetime
    until: datetime | None
    """When it ends without an operator; None: only when an operator resumes."""
    reason: str
    actor: str
    resumed_at: datetime | None = None
    """When an operator ended it before its time."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """One entry of the schedule; a leader writes its requests when it is due."""

    id: str
    kind: OperationKind
    queries: tuple[str, ...]
    """Empty: every query that is declared when it is due."""
    target: str | None
    """None leaves it to the controller that takes the request."""
    cron: str | None
    """Five fields, for what comes again; None for what comes once."""
    zone: str
    """IANA name of the time zone in which ``cron`` is read."""
    consents: tuple[str, ...]
    actor: str
    reason: str
    created_at: datetime
    next_at: datetime | None
    """When it is due next; None once it is over."""
    last_at: datetime | None = None
    """When it was last due."""
    last_outcome: str | None = None
    """What came of that, in one sentence."""
    cancelled_by: str | None = None

    @property
    def is_over(self) -> bool:
        return self.next_at is None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeCursor:
    """How much of the history one receiver has got; one row each, so that the next leader continues from there."""

    target: str
    sequence: int
    """The last line of the history that was sent, or did not have to be."""
    incidents: Mapping[str, str]
    """Incidents that were sent to it and are not over, each with the title under which it was sent last."""
    told_at: datetime | None = None
    """When it took a notice last."""
    failures: int = 0
    """Tries that failed, since the row began."""
    failing_since: datetime | None = None
    """Since when every try has failed; None while they do not."""
    error: str = ""
    """Of the last try; empty when that went well."""
