"""What became of all moves of one group, for people who did not type them: one row a query, and sums.

A sum of records counts each move that placed its query on the new cluster, done or not. The longest pause counts each
operation, because every one of them stops its query first. Both are unknown as soon as one number of these is.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from orchestrator.decide.phases import BEHIND_COMMIT
from orchestrator.decide.times import iso
from orchestrator.shapes.operation_shapes import evidence_json, measured_json
from state.model.entities import MOVES, Operation, Request
from state.model.evidence import Evidence

SUMMED = {
    "exposure_records": "records of the old cluster that the new one lacked",
    "replay_records": "records read twice",
    "replay_later_records": "records that came late and were read twice",
    "dropped_late_rows": "rows that the watermark dropped",
}
"""The numbers of a move that are added up, in the order in which they are shown."""
REFUSED, WAITING, OPEN, UNKNOWN = "refused", "waiting", "open", "unknown"
Row = dict[str, object]


def group_report(
    group: str,
    requests: Sequence[Request],
    operations: Iterable[Operation],
    kept: Mapping[str, Evidence],
    now: datetime,
) -> dict[str, object]:
    """The report of a group: its requests in their order, and each operation that answers one, or has its name.

    Requests that one operation answers have one row. ``kept``: by operation its evidence. Raises ``ValueError`` for a
    group without requests and operations.
    """
    by_id = {each.id: each for each in operations}
    shown: dict[str, Request] = {}
    for request in requests:
        shown.setdefault(request.operation or request.id, request)
    rows = [_requested(each, by_id.get(each.operation or ""), kept, now) for each in shown.values()]
    others = [each for each in by_id.values() if each.id not in shown]
    rows += [_moved(each, kept) for each in sorted(others, key=lambda each: (each.started_at, each.query))]
    if not rows:
        raise ValueError(f"no request and no operation has the group {group!r}")
    first: Request | Operation = requests[0] if requests else next(iter(by_id.values()))
    moves = [each for each in by_id.values() if each.kind in MOVES]
    placed = [each for each in moves if each.phase in BEHIND_COMMIT]
    outcomes = [str(row["outcome"]) for row in rows]
    lost = [None] * outcomes.count(UNKNOWN)
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
        "longest_pause_seconds": _known(max, [*lost, *(each.measured.switch_seconds for each in moves)]),
        **{name: _known(sum, [*lost, *(measured_json(each)[name] for each in placed)]) for name in SUMMED},
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
    if request.operation is not None:
        outcome, sentence = UNKNOWN, f"the store holds operation {request.operation} no longer"
    elif request.refused is not None:
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
