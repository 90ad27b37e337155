"""Where a query is, as its checkpoint shows it to a runner that does not run it."""

from dataclasses import dataclass
from datetime import datetime

from state.model.entities import Assignment, Desired


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPlace:
    """What a runner read in a query's checkpoint while it could not obey the row, or while the row held the query."""

    query: str
    runner: str
    instance: str
    row_epoch: int
    """Of the row that the runner had. What was found says nothing about another one."""
    row_held: bool = False
    """Whether that row held the query: a commit keeps the epoch of its hold."""
    checkpoint: str | None
    """In use by the newest batch; None where that cannot be read: ``text`` says why."""
    cluster: str | None
    """That is read there; None where no file names it."""
    mapping: str | None
    """By which the query came to that cluster on that checkpoint; None where it began there."""
    batch: int | None = None
    """The newest id in the commit log there; None where none is, or it cannot be read."""
    epoch: int
    """The highest epoch that any file of the query names; 0 where none does."""
    moved_by: str | None
    """The operation that brought the query to this place; None where it began there."""
    held_by: str | None
    """The operation whose entries keep the checkpoint from being started; None for none."""
    held_epoch: int | None
    text: str
    """What shows the place, or why it cannot be read: one sentence without a full stop."""
    found_at: datetime

    def is_beside(self, row: Assignment) -> bool:
        """Whether it was found beside this very row."""
        return (self.row_epoch, self.row_held) == (row.epoch, row.desired is Desired.HELD)
