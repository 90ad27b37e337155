"""A move's forecast beside what came of it, partition by partition. Pure.

``followed`` stands in the plan of an operation: of each partition a few of the records that were read last on the old
cluster, by which they are known when the query reads them again on the standby. Only records whose content nothing else
that is remembered shares are kept, for a twin would be taken for a repeat. How far was looked is kept with them, so
that looking can be taken up where it was left. A partition whose records are not known to lie in the one of its number
is not followed: nobody can tell there.

Exposure is measured on the old cluster, once that can be asked: what it held when the place was looked up, behind the
last record that the standby had by then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.decide.reread import MOST_REMEMBERED, Key, Plan, Reached, keyed, read_until
from state.model import Fingerprint, Operation
from streaming.log import LogRecord
from streaming.resume.model import Target

MOST_EACH = 16
MARGIN = 256
"""So many offsets behind the forecast are looked at: a forecast that is too small must show."""
MARGINS = 65_536
"""The same of all partitions together."""


class Left(NamedTuple):
    """A partition of the standby and the one that it stands for on the cluster that was left."""

    key: Key
    topic: str
    partition: int
    end: int
    """Of the standby's partition, when the place was looked up."""


def followed_json(targets: Iterable[Target], asked_at: datetime) -> dict[str, object]:
    """What is kept to measure by; ``asked_at``: when the places were looked up."""
    known = [target for target in targets if target.last and target.target_offset is not None]
    each = min(MOST_EACH, MOST_REMEMBERED // max(1, len(known)))
    margin = min(MARGIN, MARGINS // max(1, len(known)))
    return {
        "asked_at_ms": round(asked_at.timestamp() * 1000),
        "compared": False,
        "partitions": [_row(target, each, margin) for target in known],
    }


def _row(target: Target, most: int, margin: int) -> dict[str, object]:
    later = set(target.later)
    return {
        "source": target.source,
        "topic": target.target_topic,
        "partition": target.target_partition,
        "offset": target.target_offset,
        "until": (target.target_offset or 0) + (target.replay_records or 0) + margin,
        "seen": 0,
        "repeated": 0,
        "exposed": None,
        "records": _witnesses([each for each in target.last if each not in later], most, target.after_last),
    }


def _witnesses(records: Sequence[Fingerprint], most: int, after: int) -> list[str]:
    """``timestamp_ms:digest:following``: the newest without a twin, and how many were read after each of them."""
    times = Counter(record.digest for record in records)
    alone = [(i, record) for i, record in enumerate(records) if times[record.digest] == 1][-most:] if most else []
    return [f"{record.timestamp_ms}:{record.digest.hex()}:{len(records) - 1 - i + after}" for i, record in alone]


def to_read(plan: Plan, reached: Reached, *, most: int) -> dict[Key, tuple[int, int]]:
    """Which offsets the query has read since somebody looked last; at most so many, shared among the partitions."""
    rows = _rows(plan)
    share = max(1, most // max(1, len(rows)))
    found = {}
    for key, row in rows:
        last = min(read_until(reached, key, row), row["until"], row["offset"] + share)
        if last > row["offset"]:
            found[key] = (row["offset"], last)
    return found


def with_read(plan: Plan, records: Mapping[Key, tuple[int, Sequence[LogRecord]]]) -> dict[str, Any]:
    """The plan once these records were looked at; each with the offset up to which they go."""
    rows = [_looked_at(row, *records[key]) if key in records else row for key, row in _rows(plan)]
    return {**plan, "followed": {**plan["followed"], "partitions": rows}}


def _looked_at(row: Mapping[str, Any], last: int, records: Sequence[LogRecord]) -> dict[str, Any]:
    witnesses = {}
    for text in row["records"]:
        at, digest, following = text.split(":")
        witnesses[bytes.fromhex(digest)] = (int(at), int(following))
    seen, repeated = row["seen"], row["repeated"]
    for record in records:
        seen += 1
        at, following = witnesses.get(record.digest, (None, 0))
        if at is not None and (record.append_time or at == record.timestamp_ms):
            repeated = max(repeated, seen + following)
    return {**row, "offset": last, "seen": seen, "repeated": repeated}


def to_compare(plan: Plan) -> tuple[int, list[Left]]:
    """When the places were looked up, in milliseconds, and what to look for on the cluster that was left."""
    followed = plan.get("followed")
    if not followed or followed["compared"]:
        return 0, []
    planned = _planned(plan)
    left = [
        Left(key, planned[key]["topic"], planned[key]["partition"], planned[key]["end"])
        for key, _ in _rows(plan)
        if key in planned and planned[key]["end"] is not None
    ]
    return followed["asked_at_ms"], left


def with_compared(plan: Plan, exposed: Mapping[Key, int | None]) -> dict[str, Any]:
    """The plan once the cluster that was left has been looked at; that is done until it tells something."""
    rows = [{**row, "exposed": exposed.get(key)} for key, row in _rows(plan)]
    compared = any(number is not None for number in exposed.values())
    return {**plan, "followed": {**plan["followed"], "compared": compared, "partitions": rows}}


def outcome_rows(operation: Operation) -> list[dict[str, object]]:
    """Forecast and measure of each partition; ``None`` where nobody can tell, or not yet."""
    plan = operation.plan or {}
    if operation.outcome != "done" or "followed" not in plan:
        return []
    measured = dict(_rows(plan))
    return [
        {
            "topic": row["target_topic"],
            "partition": row["target_partition"],
            "forecast_replay_records": row["replay_records"],
            "replay_records": _replayed(row, measured.get(key)),
            "forecast_exposure_records": row["exposure_records"],
            "exposure_records": measured[key]["exposed"] if key in measured else None,
        }
        for key, row in _planned(plan).items()
    ]


def _replayed(planned: Mapping[str, Any], row: Mapping[str, Any] | None) -> int | None:
    """So far; where no record was known again, that is 0 by count only if it was so by forecast."""
    if row is None or row["seen"] == 0 or not row["records"]:
        return None
    repeated: int = min(row["repeated"], row["seen"])
    return repeated if repeated or planned["replay_records"] == 0 else None


def _planned(plan: Plan) -> dict[Key, Mapping[str, Any]]:
    return {Key(row["source"], row["target_topic"], row["target_partition"]): row for row in plan.get("partitions", ())}


def _rows(plan: Plan) -> list[tuple[Key, Mapping[str, Any]]]:
    return keyed(plan.get("followed", {}).get("partitions", ()))
