"""What became of all moves of one group, for people who did not type them: one row a query, and sums.

A sum counts the moves that are done. It is unknown as soon as one of them is, and never smaller than it should be.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from orchestrator.decide.times import iso
from orchestrator.shapes.json_shapes import evidence_json, measured_json
from state.model.entities import Operation, Request
from state.model.evidence import Evidence

SUMMED = {
    "exposure_records": "records of the old cluster that the new one lacked",
    "replay_records": "records read twice",
    "dropped_late_rows": "rows that the watermark dropped",
}
"""The numbers of a move that are added up, in the order in which they are shown."""
DONE, REFUSED, WAITING, OPEN = "done", "refused", "waiting", "open"
Row = dict[str, object]


def group_report(
    group: str,
    requests: Sequence[Request],
    operations: Iterable[Operation],
    kept: Mapping[str, Evidence],
    now: datetime,
) -> dict[str, object]:
    """The report of a group: its requests in their order, and each operation that answers one, or has its name.

    ``kept``: by operation its evidence. Raises ``ValueError`` for a group without requests and operations.
    """
    by_id = {each.id: each for each in operations}
    rows = [_requested(each, by_id.pop(each.operation or "", None), kept, now) for each in requests]
    rows += [_moved(each, kept) for each in sorted(by_id.values(), key=lambda each: (each.started_at, each.query))]
    if not rows:
        raise ValueError(f"no request and no operation has the group {group!r}")
    first: Request | Operation = requests[0] if requests else next(iter(by_id.values()))
    done = [row for row in rows if row["outcome"] == DONE]
    outcomes = [str(row["outcome"]) for row in rows]
    return {
        "group": group,
        "kind": first.kind.value,
        "actor": first.actor,
        "reason": first.reason,
        "started_at": min((str(row["started_at"]) for row in rows if row["started_at"]), default=None),
        "ended_at": None
        if is_open(rows)
        else max((str(row["ended_at"]) for row in rows if row["ended_at"]), default=None),
        "outcomes": {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)},
        "longest_pause_seconds": _known(max, [row["pause_seconds"] for row in done]),
        **{name: _known(sum, [row[name] for row in done]) for name in SUMMED},
        "queries": rows,
    }


def is_open(rows: Iterable[Row]) -> bool:
    """Whether something of it is under way, or may begin."""
    return any(row["outcome"] in {WAITING, OPEN} for row in rows)


def _known(gathered: object, numbers: Sequence[object]) -> object:
    """The sum, or the largest; None where there is no number, or one is unknown."""
    if not numbers or any(not isinstance(each, (int, float)) for each in numbers):
        return None
    return gathered(numbers)  # type: ignore[operator] # sum or max


def _requested(request: Request, operation: Operation | None, kept: Mapping[str, Evidence], now: datetime) -> Row:
    if operation is not None:
        return _moved(operation, kept)
    if request.refused is not None:
        outcome, sentence = REFUSED, request.refused
    elif now >= request.expires_at:
        outcome, sentence = REFUSED, "it did not begin before its request expired"
    else:
        outcome, sentence = WAITING, "it has not begun yet"
    unknown = dict.fromkeys(("from", "operation", "started_at", "ended_at", "pause_seconds", *SUMMED, "evidence"))
    return {"query": request.query, "to": request.target, "outcome": outcome, "sentence": sentence, **unknown}


def _moved(operation: Operation, kept: Mapping[str, Evidence]) -> Row:
    measured = measured_json(operation)
    return {
        "query": operation.query,
        "to": operation.target,
        "outcome": OPEN if operation.outcome is None else operation.outcome,
        "sentence": operation.sentence,
        "from": operation.source,
        "operation": operation.id,
        "started_at": iso(operation.started_at),
        "ended_at": iso(operation.ended_at),
        "pause_seconds": operation.measured.switch_seconds,
        **{name: measured[name] for name in SUMMED},
        "evidence": evidence_json(kept.get(operation.id)),
    }
