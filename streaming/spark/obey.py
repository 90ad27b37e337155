"""What a runner does with the assignment rows: a pure function of the rows and of what it hosts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from state.model import Assignment, Desired


@dataclass(frozen=True, slots=True)
class Start:
    """Begin hosting the query as this row says."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Stop:
    """End the hosted run of an epoch."""

    query: str
    epoch: int
    why: str


Action = Start | Stop


def decide_runs(
    runner: str, assignments: Iterable[Assignment], hosted: Mapping[str, int], newest: Mapping[str, int]
) -> list[Action]:
    """Compare the rows with the epochs of what is hosted, and with the newest epoch ever seen of each query.

    Stops come first. A query whose row is gone is left alone: a row is never deleted on purpose, and no news is no
    order. A row with an older epoch than one seen before is never obeyed, for some store was put back: what runs goes
    on, and what its facts report tells the controllers.
    """
    rows = {row.query: row for row in assignments}
    stops: list[Action] = []
    staying: set[str] = set()
    for query, epoch in hosted.items():
        row = rows.get(query)
        why = None if row is None else _reason_to_stop(runner, row, epoch)
        if why is None:
            staying.add(query)
        else:
            stops.append(Stop(query, epoch, why))
    starts: list[Action] = [
        Start(row)
        for query, row in sorted(rows.items())
        if query not in staying and _is_ours(runner, row) and row.epoch >= newest.get(query, 0)
    ]
    return stops + starts


def may_run(runner: str, row: Assignment | None, epoch: int, reported: int | None) -> bool:
    """Whether a start under this epoch is still what the row asks for, and no runner reports a newer one."""
    return row is not None and row.epoch == epoch >= (reported or 0) and _is_ours(runner, row)


def _is_ours(runner: str, row: Assignment) -> bool:
    return row.runner == runner and row.desired is Desired.RUNNING


def _reason_to_stop(runner: str, row: Assignment, epoch: int) -> str | None:
    if row.epoch < epoch:
        return None
    if row.epoch > epoch:
        return f"epoch {epoch} is over, the assignment is at {row.epoch}"
    if row.desired is not Desired.RUNNING:
        return "the query is held"
    return f"runner {row.runner} has it now" if row.runner != runner else None
