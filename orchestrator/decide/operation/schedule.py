"""What is done with a schedule whose time has come, and when nobody was there in time. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from state.model.automation import Schedule
from state.model.entities import OperationKind

GRACE = {OperationKind.SWITCHOVER: timedelta(minutes=10), OperationKind.DRILL: timedelta(hours=1)}
"""How late it may begin. What was meant for the quiet of the night is not done in the morning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """What is done with a schedule whose time has come."""

    asks: bool
    """Whether requests are written; else it came too late."""
    next_at: datetime | None
    text: str


def due(schedule: Schedule, now: datetime, following: datetime | None) -> Due | None:
    """What is done now; None while its time has not come. ``now`` is the store's time.

    ``following`` is when it comes next behind ``now``; None where it comes once.
    """
    if schedule.next_at is None or now < schedule.next_at:
        return None
    late, grace = now - schedule.next_at, GRACE[schedule.kind]
    if late <= grace:
        return Due(asks=True, next_at=following, text=f"{schedule.kind.value} requested as scheduled")
    return Due(
        asks=False,
        next_at=following,
        text=f"{schedule.kind.value} missed: no controller led for {late.total_seconds() / 60:.0f} minutes, "
        f"and it may begin at most {grace.total_seconds() / 60:.0f} minutes late",
    )
