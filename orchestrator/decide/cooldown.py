"""The cool-down of a query: how long automatic mode leaves it alone after what it did to it last. Pure.

After a move the policy's ``cooldown`` must pass, or a person acknowledge it; a move that a person made since counts as
acknowledgement, for that person has looked. A query is moved once the move is committed, verified or not: it is placed
elsewhere from then on. After an attempt that did not move the query (a gate refused it behind the fence, a checkpoint
could not be made) the next one comes after a minute, then two, then four, never more than the cool-down: the cluster is
still down, and what was in the way may be gone; but each attempt stops the query anew. So that minute passes however
short the cool-down is.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.phases import BEHIND_COMMIT
from state.automation import AUTOMATIC
from state.model import Operation

FIRST_RETRY = timedelta(minutes=1)
MOST_DOUBLINGS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Cooldown:
    """Until when, and because of which operation."""

    operation: str
    until: datetime
    moved: bool
    """Whether that operation moved the query; else it was an attempt."""


def cooldown_of(operations: Iterable[Operation], acknowledged: Collection[str], cooldown: timedelta) -> Cooldown | None:
    """What stands against another automatic move, over or not; ``operations`` are the query's, newest first."""
    attempts: list[tuple[str, datetime]] = []
    for operation in operations:
        if operation.id in acknowledged:
            break
        if operation.actor != AUTOMATIC:
            if operation.phase in BEHIND_COMMIT:
                break
        elif operation.ended_at is not None:
            if operation.phase in BEHIND_COMMIT:
                moved = Cooldown(operation=operation.id, until=operation.ended_at + cooldown, moved=True)
                return max(filter(None, (moved, _retry(attempts, cooldown))), key=lambda each: each.until)
            attempts.append((operation.id, operation.ended_at))
    return _retry(attempts, cooldown)


def _retry(attempts: list[tuple[str, datetime]], cooldown: timedelta) -> Cooldown | None:
    """Attempts of the last cool-down make the pause longer; older ones are forgotten."""
    if not attempts:
        return None
    newest, ended_at = attempts[0]
    longest = max(cooldown, FIRST_RETRY)
    counted = sum(1 for _, at in attempts if ended_at - at < longest)
    pause = min(longest, FIRST_RETRY * 2 ** min(counted - 1, MOST_DOUBLINGS))
    return Cooldown(operation=newest, until=ended_at + pause, moved=False)
