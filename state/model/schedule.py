"""What shall be asked for later: a move at a time, or a drill again and again."""

from dataclasses import dataclass
from datetime import datetime

from state.model.entities import OperationKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """One entry of the schedule; a leader writes its requests when it is due."""

    id: str
    kind: OperationKind
    queries: tuple[str, ...]
    """Empty: every query that is declared when it is due."""
    target: str | None
    """None leaves it to whoever takes the request."""
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
