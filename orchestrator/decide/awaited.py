"""What a move announced to come later, as it is kept in the operation's plan, and how much of it has come.

``awaited`` stands in a plan only when the standby lagged. It holds the fingerprints of the records that the query had
read and the standby lacked; at most so many that a store's row stays small. Looking for them can be taken up where it
was left: a row says from which offset on the log has not been looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.decide.reread import MOST_REMEMBERED, Key, Plan, Reached, keyed, read_until
from state.model import Operation
from streaming.log import LogRecord
from streaming.resume.later import Awaited
from streaming.resume.model import Target


def awaited_json(targets: Iterable[Target]) -> list[dict[str, object]]:
    """What is kept of the records that are announced to come later; empty when there are none."""
    announcing = [target for target in targets if target.replay_later_records and target.target_offset is not None]
    share = MOST_REMEMBERED // max(1, len(announcing))
    return [
        {
            "source": target.source,
            "topic": target.target_topic,
            "partition": target.target_partition,
            "offset": target.target_offset,
            "announced": target.replay_later_records,
            "came": 0,
            "records": [f"{each.timestamp_ms}:{each.digest.hex()}" for each in target.later[-share:] if share],
        }
        for target in announcing
    ]


def announced(operation: Operation) -> int | None:
    """How many records a finished move announced to come later; None unknown."""
    totals = (operation.plan or {}).get("totals")
    known = totals.get("replay_later_records") if isinstance(totals, Mapping) else None
    return known if isinstance(known, int) and operation.outcome == "done" else None


def to_look_at(plan: Plan, reached: Reached) -> dict[Key, tuple[int, int]]:
    """Where awaited records may be that the query has read since somebody looked last."""
    return {key: (row["offset"], read_until(reached, key, row)) for key, row in _rows(plan)}


def looked_at(plan: Plan, records: Mapping[Key, tuple[int, Sequence[LogRecord]]]) -> dict[str, Any]:
    """The plan once these records were looked at; each with the offset up to which they go."""
    rows = [_advanced(row, *records[key]) if key in records else row for key, row in _rows(plan)]
    return {**plan, "awaited": rows}


def came_later(plan: Plan) -> int | None:
    """How many of the announced records have come, as far as was looked; None where one partition cannot tell."""
    total = 0
    for _, row in _rows(plan):
        came = _awaited(row).came
        if came is None:
            return None
        total += came
    return total


def _advanced(row: Mapping[str, Any], reached: int, records: Sequence[LogRecord]) -> dict[str, Any]:
    after = _awaited(row).after(records)
    left = [f"{at}:{digest.hex()}" for at, digest in after.missing]
    return {**row, "offset": reached, "came": after.matched, "records": left}


def _awaited(row: Mapping[str, Any]) -> Awaited:
    known = (text.partition(":") for text in row["records"])
    missing = tuple((int(at), bytes.fromhex(digest)) for at, _, digest in known)
    return Awaited(announced=row["announced"], missing=missing, matched=row["came"])


def _rows(plan: Plan) -> list[tuple[Key, Mapping[str, Any]]]:
    return keyed(plan.get("awaited", ()))
