"""A move's forecast beside what came of it, partition by partition, and what it left behind. Pure.

``followed`` stands in the plan of an operation: of each partition a few of the records that were read last on the old
cluster, by which they are known when the query reads them again on the standby. Only records whose content nothing else
that is remembered shares are kept, for a twin would be taken for a repeat. How far was looked is kept with them, so
that looking can be taken up where it was left. A partition whose records are not known to lie in the one of its number
is not followed: it cannot be known there.

Exposure is measured on the old cluster, once that can be asked: what its log holds behind the last record that the
standby had when the place was looked up. No record's own time bounds that, for a producer's clock may be ahead: the end
of the log does, as it was at the first answer. What a time or an open transaction leaves in doubt makes the number
unknown, and two bounds are kept instead.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from state.model.entities import Fingerprint, Operation
from state.model.fingerprints import digests_of
from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord
from streaming.resume.model import Target
from streaming.resume.sent_again import read_until_ms

MOST_REMEMBERED = 4_096
"""Fingerprints that one list of a plan keeps with the operation, shared among its partitions."""

Plan = Mapping[str, Any]
Reached = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Source, topic, partition: how far the query has read."""


class StandbyPartition(NamedTuple):
    """A partition of the standby as one source reads it."""

    source: str
    topic: str
    partition: int


def keyed(rows: Iterable[Mapping[str, Any]]) -> list[tuple[StandbyPartition, Mapping[str, Any]]]:
    """Kept rows, each with its partition."""
    return [(StandbyPartition(row["source"], row["topic"], row["partition"]), row) for row in rows]


def consumed_until(reached: Reached, key: StandbyPartition, row: Mapping[str, Any]) -> int:
    """How far the query has read a partition; where it says nothing, as far as somebody has looked."""
    until: int = reached.get(key.source, {}).get(key.topic, {}).get(str(key.partition), row["offset"])
    return until


MOST_EACH = 16
MARGIN = 256
"""How many offsets behind the standby's end at the look-up are looked at: a forecast that is too small must show."""
MARGINS = 65_536
"""The same of all partitions together."""
MOST_FOLLOWED = 200_000
"""Of one partition no more offsets are looked at; where more lay behind its place, what was repeated is not known."""


class LeftPartition(NamedTuple):
    """A partition of the standby and the one that it stands for on the cluster that was left."""

    key: StandbyPartition
    topic: str
    partition: int
    end: int
    """Of the standby's partition, when the place was looked up."""
    committed: bool = True
    """Whether the query reads only what is committed: then a record of an aborted transaction was never its to read."""
    sampled_end: int | None = None
    """Of the partition that was left, as last sampled before the look-up: what the forecast knew of it."""
    until: int | None = None
    """Of the partition that was left, the end at its first answer since; None before that."""


def followed_json(
    targets: Iterable[Target],
    asked_at: datetime,
    *,
    planned: bool = False,
    committed_only: Collection[str] = frozenset(),
) -> dict[str, object]:
    """What is kept to measure by; ``asked_at``: when the places were looked up.

    A planned move leaves nothing behind: what the target lacked then is on its way there, and will be read. Sources in
    ``committed_only`` read only what is committed, and are measured by what such a reader sees.
    """
    known = [target for target in targets if _is_followed(target)]
    each = min(MOST_EACH, MOST_REMEMBERED // max(1, len(known)))
    margin = min(MARGIN, MARGINS // max(1, len(known)))
    return {
        "asked_at_ms": round(asked_at.timestamp() * 1000),
        "compared": planned,
        "partitions": [
            {
                **_row(target, each, margin),
                "committed": target.source in committed_only,
                **({"exposed": 0} if planned else {}),
            }
            for target in known
        ],
    }


def rewound_json(
    targets: Iterable[Target], asked_at: datetime, *, committed_only: Collection[str] = frozenset()
) -> dict[str, object]:
    """What is kept to measure a rewind by: up to the old position all that is read comes again; nothing is exposed."""
    rows = [
        {
            "source": target.source,
            "topic": target.target_topic,
            "partition": target.target_partition,
            "offset": target.target_offset,
            "until": target.offset,
            "rewound": True,
            "committed": target.source in committed_only,
            "seen": 0,
            "repeated": 0,
            "exposed": 0,
            "records": [],
        }
        for target in targets
        if target.target_offset is not None
    ]
    return {"asked_at_ms": round(asked_at.timestamp() * 1000), "compared": True, "partitions": rows}


def _is_followed(target: Target) -> bool:
    """Whether it is known which records were read of the partition that this one stands for; or that none was."""
    return target.target_offset is not None and (bool(target.last) or _is_unread(target.offset, target.method))


def _is_unread(offset: object, method: object) -> bool:
    return offset == 0 and method == MethodName.EXACT


def _row(target: Target, most: int, margin: int) -> dict[str, object]:
    later, place = set(target.later), target.target_offset or 0
    end = place if target.end is None else target.end
    return {
        "source": target.source,
        "topic": target.target_topic,
        "partition": target.target_partition,
        "offset": place,
        "until": min(place + MOST_FOLLOWED, max(place + (target.replay_records or 0), end) + margin),
        "seen": 0,
        "new": 0,
        "new_after_ms": read_until_ms(target.last) if target.last else None,
        "repeated": 0,
        "exposed": None,
        "sampled_end": target.sampled_end,
        "records": _witnesses(
            [each for each in target.last if each not in later] if later else target.last, most, target.after_last
        ),
    }


def _witnesses(records: Sequence[Fingerprint], most: int, after: int) -> list[str]:
    """``timestamp_ms:digest:following``: the newest without a twin, and how many were read after each of them."""
    digests = digests_of(records)
    times = Counter(digests)
    alone = [i for i, digest in enumerate(digests) if times[digest] == 1][-most:] if most else []
    return [f"{records[i].timestamp_ms}:{digests[i].hex()}:{len(records) - 1 - i + after}" for i in alone]


def to_read(plan: Plan, reached: Reached, *, most: int) -> dict[StandbyPartition, tuple[int, int]]:
    """Which offsets the query has read since somebody looked last; at most this many, shared among the partitions."""
    rows = _rows(plan)
    share = max(1, most // max(1, len(rows)))
    found = {}
    for key, row in rows:
        last = min(consumed_until(reached, key, row), row["until"], row["offset"] + share)
        if last > row["offset"]:
            found[key] = (row["offset"], last)
    return found


def with_read(plan: Plan, records: Mapping[StandbyPartition, tuple[int, Sequence[LogRecord]]]) -> dict[str, Any]:
    """The plan once these records were looked at; each with the offset up to which they go."""
    rows = [_looked_at(row, *records[key]) if key in records else row for key, row in _rows(plan)]
    return {**plan, "followed": {**plan["followed"], "partitions": rows}}


def _looked_at(row: Mapping[str, Any], last: int, records: Sequence[LogRecord]) -> dict[str, Any]:
    witnesses = {}
    for text in row["records"]:
        at, digest, following = text.split(":")
        witnesses[bytes.fromhex(digest)] = (int(at), int(following))
    seen, new, repeated, new_after_ms = row["seen"], row.get("new", 0), row["repeated"], row.get("new_after_ms")
    for record in records:
        seen += 1
        new += new_after_ms is not None and not record.append_time and record.timestamp_ms > new_after_ms
        at, following = witnesses.get(record.digest, (None, 0))
        if at is not None and (record.append_time or at == record.timestamp_ms):
            repeated = max(repeated, seen - new + following)
    repeated = seen if row.get("rewound") else repeated
    return {**row, "offset": last, "seen": seen, "new": new, "repeated": repeated}


def read_committed_of(plan: Plan) -> frozenset[StandbyPartition]:
    """The partitions of which the query reads only what is committed."""
    return frozenset(key for key, row in _rows(plan) if row.get("committed"))


def to_compare(plan: Plan) -> tuple[int, list[LeftPartition]]:
    """When the places were looked up, in milliseconds, and what to look for on the cluster that was left."""
    followed = plan.get("followed")
    if not followed or followed["compared"]:
        return 0, []
    measured = dict(_rows(plan))
    return followed["asked_at_ms"], [each for each in _left(plan) if not _exposed(measured[each.key]).is_settled]


def _left(plan: Plan) -> list[LeftPartition]:
    planned = _planned(plan)
    return [
        left_partition(key, planned[key], row)
        for key, row in _rows(plan)
        if key in planned and planned[key]["end"] is not None
    ]


def left_partition(key: StandbyPartition, planned: Mapping[str, Any], row: Mapping[str, Any]) -> LeftPartition:
    """One partition of what a move left, by its row of the plan and by what is kept to measure it by."""
    return LeftPartition(
        key=key,
        topic=planned["topic"],
        partition=planned["partition"],
        end=planned["end"],
        committed=bool(row.get("committed")),
        sampled_end=row.get("sampled_end"),
        until=row.get("exposed_to"),
    )


class Exposed(NamedTuple):
    """What the standby lacked of a partition, as found in the log that was left: a range of offsets there."""

    records: int | None = None
    """How many it holds; None where that is unknown."""
    first: int | None = None
    last: int | None = None
    """Behind the last one: the log's end at its first answer."""
    at_least: int | None = None
    at_most: int | None = None
    """Where the number is unknown: between these two."""
    sampled: int | None = None
    """How many of them lie before the end as it was last sampled; only those could be forecast."""

    @property
    def is_settled(self) -> bool:
        """Whether another look could say no more."""
        return self.records is not None


def with_compared(plan: Plan, exposed: Mapping[StandbyPartition, Exposed]) -> dict[str, Any]:
    """The plan once the cluster that was left has been looked at: what is known stays, the rest is looked at again.

    A partition that no look can measure is looked at as long as a move is followed.
    """
    rows = [_compared(row, exposed.get(key)) for key, row in _rows(plan)]
    left = {each.key for each in _left(plan)}
    compared = all(_exposed(row).is_settled for key, row in keyed(rows) if key in left)
    return {**plan, "followed": {**plan["followed"], "compared": compared, "partitions": rows}}


def _compared(row: Mapping[str, Any], found: Exposed | None) -> Mapping[str, Any]:
    if found is None or _exposed(row).is_settled:
        return row
    return {
        **row,
        "exposed": found.records,
        "exposed_from": found.first,
        "exposed_to": found.last,
        "exposed_at_least": found.at_least,
        "exposed_at_most": found.at_most,
    }


class ExposedPartition(NamedTuple):
    """What the standby lacked of one partition of the cluster that was left."""

    read_to: int
    """How far the query had read there."""
    records: int | None
    """At most this many; None where that was not measured."""
    first: int | None
    """The first offset of these records there; None until they were measured, and where there are none."""


def exposed_of(operation: Operation) -> dict[StandbyPartition, ExposedPartition]:
    """What a move left behind, by the partitions of the cluster that it came from."""
    plan = operation.plan or {}
    measured = dict(_rows(plan))
    found = {}
    for there, row in _planned(plan).items():
        known = measured.get(there, {})
        key = StandbyPartition(row["source"], row["topic"], row["partition"])
        most = known.get("exposed")
        most = known.get("exposed_at_most") if most is None else most
        found[key] = ExposedPartition(row["offset"], most, known.get("exposed_from"))
    return found


def left_ranges(operation: Operation) -> list[tuple[LeftPartition, Exposed]]:
    """Where in the log that was left lies what the standby lacked; nothing where a move keeps no such account."""
    plan = operation.plan or {}
    measured = dict(_rows(plan))
    return [(each, _exposed(measured[each.key])) for each in _left(plan)]


def _exposed(row: Mapping[str, Any]) -> Exposed:
    first, records = row.get("exposed_from"), row.get("exposed")
    last = row.get("exposed_to", first + records if first is not None and records is not None else None)
    return Exposed(records, first, last, row.get("exposed_at_least"), row.get("exposed_at_most"))


def outcome_rows(operation: Operation) -> list[dict[str, object]]:
    """Forecast and measure of each partition; ``None`` where it is unknown, or not known yet."""
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
            **_bounds(_exposed(measured.get(key, {}))),
        }
        for key, row in _planned(plan).items()
    ]


def _bounds(found: Exposed) -> dict[str, object]:
    """Between which numbers an exposure is that cannot be told exactly; nothing while nothing is known of it."""
    if found.records is not None or found.at_most is None:
        return {}
    return {"exposure_at_least": found.at_least, "exposure_at_most": found.at_most}


def is_read_back(operation: Operation) -> bool:
    """Whether the query has read what the standby held at the look-up: its replay is counted as far as it can be.

    Of an operation that moved nothing there is nothing to count.
    """
    plan = operation.plan or {}
    if operation.outcome != "done" or "followed" not in plan:
        return True
    planned = _planned(plan)
    return all(
        row["offset"] >= min(row["until"], planned[key]["end"] or 0) for key, row in _rows(plan) if key in planned
    )


def totals_of(operation: Operation) -> dict[str, int | None]:
    """Of all partitions together; ``None`` as long as one of them is not known."""
    rows = outcome_rows(operation)
    return {name: _sum([row[name] for row in rows]) for name in ("replay_records", "exposure_records")}


def _sum(numbers: Sequence[Any]) -> int | None:
    return None if not numbers or None in numbers else sum(numbers)


def _replayed(planned: Mapping[str, Any], row: Mapping[str, Any] | None) -> int | None:
    """Once the query has read what the standby held at the look-up; what comes behind that can only add to it.

    Where no record was known again, that is 0 by count only if it was so by forecast.
    """
    if row is not None and row.get("rewound"):
        return int(row["repeated"]) if row["offset"] >= row["until"] else None
    if row is None or row["offset"] < planned["end"]:
        return None
    repeated: int = min(row["repeated"], row["seen"])
    if _is_unread(planned.get("offset"), planned.get("method")) or planned["end"] == planned.get("target_offset"):
        return repeated
    return repeated if row["records"] and (repeated or planned["replay_records"] == 0) else None


def replayed_again(
    planned: Mapping[str, Any], row: Mapping[str, Any], records: Sequence[LogRecord], last: int
) -> int | None:
    """Records that were read a second time, counted again in a log from the resume offset to ``last``; None unknown.

    ``planned`` and ``row`` are one partition of a plan, and of what it follows, however far that was looked at.
    """
    fresh = {**row, "offset": planned["target_offset"], "seen": 0, "new": 0, "repeated": 0}
    return _replayed(planned, _looked_at(fresh, last, records))


def _planned(plan: Plan) -> dict[StandbyPartition, Mapping[str, Any]]:
    return {
        StandbyPartition(row["source"], row["target_topic"], row["target_partition"]): row
        for row in plan.get("partitions", ())
    }


def _rows(plan: Plan) -> list[tuple[StandbyPartition, Mapping[str, Any]]]:
    return keyed(plan.get("followed", {}).get("partitions", ()))


class LeftBehind(NamedTuple):
    """One partition of the cluster that the query comes back to."""

    key: StandbyPartition
    records: int | None
    """At most this many; None where it was not measured."""
    operation: str
    """The move away, whose exposure they were."""
    lacking: str
    """The cluster that lacked them."""

    @property
    def note(self) -> str:
        """For the partition's row."""
        what = "records" if self.records is None else f"up to {self.records} records"
        known = ""
        if self.records is None:
            known = (
                f"; how many was not measured: tideover show-op {self.operation} counts them while both clusters answer"
            )
        return (
            f"{what} that {self.lacking} lacked at {self.operation} are before this offset and were never read{known}"
        )

    def as_json(self) -> dict[str, object]:
        """One row of a plan."""
        return {
            "source": self.key.source,
            "topic": self.key.topic,
            "partition": self.key.partition,
            "records": self.records,
            "operation": self.operation,
        }


def left_behind(departure: Operation | None, targets: Iterable[Target]) -> tuple[LeftBehind, ...]:
    """What lies before these places of what was exposed at the ``departure``; partitions without any are left out.

    Records that the query never read. When it left that cluster, the other one lacked them: the exposure of that move.
    The query goes on behind what it has read on the other cluster since, and that lies behind those records, for a
    replicator appends. How many they are, and from which offset on, was measured when the cluster answered again;
    before that it is not known.
    """
    if departure is None:
        return ()
    exposed, found = exposed_of(departure), []
    for target in targets:
        key = StandbyPartition(target.source, target.target_topic, target.target_partition)
        records = _before(target.target_offset, exposed.get(key))
        if records != 0:
            found.append(LeftBehind(key, records, departure.id, departure.target))
    return tuple(found)


def _before(place: int | None, exposed: ExposedPartition | None) -> int | None:
    if place is None or exposed is None or exposed.records == 0 or place <= exposed.read_to:
        return 0
    if exposed.records is None or exposed.first is None:
        return None
    read = max(0, exposed.read_to - exposed.first)
    return min(max(0, exposed.records - read), max(0, place - exposed.first - read))
