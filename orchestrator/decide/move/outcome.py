"""What a move came to, beside its forecast, partition by partition: what was read again, and what came late. Pure.

What the plan keeps for it (``forecast``) is looked for in the log of the standby, as far as the query has read that.
What was left behind is measured on the old cluster (``left_behind``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.decide.move.forecast import is_unread
from orchestrator.decide.move.left_behind import exposed_of, followed_by, planned_by
from orchestrator.decide.places import total_of
from state.model.entities import MOVES, Operation
from state.model.measured import Measured
from state.model.plan import (
    AwaitedPartition,
    AwaitedRecord,
    FollowedPartition,
    Plan,
    PlannedPartition,
    StandbyPartition,
)
from streaming.cluster_log import LogRecord
from streaming.resume.sent_again import Awaited

Reached = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Source, topic, partition: how far the query has read."""
Read = Mapping[StandbyPartition, tuple[int, Sequence[LogRecord]]]
"""Records that were read of a partition; each with the offset up to which they go."""


def _consumed_until(reached: Reached, row: FollowedPartition | AwaitedPartition) -> int:
    """How far the query has read a partition; where it reports nothing, how far it was looked at."""
    return reached.get(row.source, {}).get(row.topic, {}).get(str(row.partition), row.offset)


def to_read(plan: Plan | None, reached: Reached, *, most: int) -> dict[StandbyPartition, tuple[int, int]]:
    """Which offsets the query has read since the last look; at most this many, shared among the partitions."""
    rows = _followed(plan)
    share = max(1, most // max(1, len(rows)))
    found = {}
    for row in rows:
        last = min(_consumed_until(reached, row), row.until, row.offset + share)
        if last > row.offset:
            found[row.key] = (row.offset, last)
    return found


def with_read(plan: Plan, records: Read) -> Plan:
    """The plan once these records were looked at."""
    if plan.followed is None:
        return plan
    rows = tuple(_looked_at(row, *records[row.key]) if row.key in records else row for row in plan.followed.partitions)
    return replace(plan, followed=replace(plan.followed, partitions=rows))


def _looked_at(row: FollowedPartition, last: int, records: Sequence[LogRecord]) -> FollowedPartition:
    witnesses = {each.digest: each for each in row.records}
    seen, new, repeated = row.seen, row.new or 0, row.repeated
    for record in records:
        seen += 1
        new += row.new_after_ms is not None and not record.append_time and record.timestamp_ms > row.new_after_ms
        witness = witnesses.get(record.digest)
        if witness is not None and (record.append_time or witness.timestamp_ms == record.timestamp_ms):
            repeated = max(repeated, seen - new + witness.following)
    return replace(row, offset=last, seen=seen, new=new, repeated=seen if row.rewound else repeated)


def read_committed_of(plan: Plan | None) -> frozenset[StandbyPartition]:
    """The partitions of which the query reads only what is committed."""
    return frozenset(row.key for row in _followed(plan) if row.committed)


def _followed(plan: Plan | None) -> Sequence[FollowedPartition]:
    return plan.followed.partitions if plan is not None and plan.followed is not None else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionOutcome:
    """Forecast and outcome of one partition; None where a number is unknown, or not known yet."""

    topic: str
    partition: int
    forecast_replay_records: int | None
    replay_records: int | None
    forecast_exposure_records: int | None
    exposure_records: int | None
    exposure_at_least: int | None = None
    exposure_at_most: int | None = None
    """Bounds of an exposure whose number is unknown; None while nothing is known of it."""

    def as_json(self) -> dict[str, object]:
        """The row that ``show-op`` prints (``docs/programs.md``)."""
        row: dict[str, object] = {
            "topic": self.topic,
            "partition": self.partition,
            "forecast_replay_records": self.forecast_replay_records,
            "replay_records": self.replay_records,
            "forecast_exposure_records": self.forecast_exposure_records,
            "exposure_records": self.exposure_records,
        }
        if self.exposure_at_most is not None:
            row |= {"exposure_at_least": self.exposure_at_least, "exposure_at_most": self.exposure_at_most}
        return row


def outcome_rows(operation: Operation) -> list[PartitionOutcome]:
    """Forecast and outcome of each partition of a move that was made."""
    plan = operation.plan
    if operation.outcome != "done" or plan is None or plan.followed is None:
        return []
    measured = followed_by(plan)
    return [_outcome(row, measured.get(key)) for key, row in planned_by(plan).items()]


def _outcome(planned: PlannedPartition, row: FollowedPartition | None) -> PartitionOutcome:
    exposed = exposed_of(row)
    in_doubt = exposed.records is None and exposed.at_most is not None
    return PartitionOutcome(
        topic=planned.target_topic,
        partition=planned.target_partition,
        forecast_replay_records=planned.replay_records,
        replay_records=_replayed(planned, row),
        forecast_exposure_records=planned.exposure_records,
        exposure_records=exposed.records,
        exposure_at_least=exposed.at_least if in_doubt else None,
        exposure_at_most=exposed.at_most if in_doubt else None,
    )


def is_read_back(operation: Operation) -> bool:
    """Whether the query has read what the standby held at the look-up: its replay is counted as far as it can be.

    Of an operation that moved nothing there is nothing to count.
    """
    if operation.outcome != "done" or operation.plan is None:
        return True
    planned = planned_by(operation.plan)
    return all(
        row.offset >= min(row.until, planned[row.key].end or 0)
        for row in _followed(operation.plan)
        if row.key in planned
    )


def totals_of(operation: Operation) -> Measured:
    """What is known of the operation, with the sums of all partitions; None as long as one of them is not known."""
    rows = outcome_rows(operation)
    return replace(
        operation.measured,
        replay_records=total_of(row.replay_records for row in rows),
        exposure_records=total_of(row.exposure_records for row in rows),
    )


def _replayed(planned: PlannedPartition, row: FollowedPartition | None) -> int | None:
    """Once the query has read what the standby held at the look-up; what comes behind that can only add to it.

    Where no record was recognized, that is 0 by count only if it was so by forecast.
    """
    if row is not None and row.rewound:
        return row.repeated if row.offset >= row.until else None
    if row is None or planned.end is None or row.offset < planned.end:
        return None
    repeated = min(row.repeated, row.seen)
    if is_unread(planned.offset, planned.method) or planned.end == planned.target_offset:
        return repeated
    return repeated if row.records and (repeated or planned.replay_records == 0) else None


def replayed_again(
    planned: PlannedPartition, row: FollowedPartition, records: Sequence[LogRecord], last: int
) -> int | None:
    """Records that were read a second time, counted again in a log from the resume offset to ``last``; None unknown.

    However far that partition was looked at before.
    """
    fresh = replace(row, offset=planned.target_offset or 0, seen=0, new=0, repeated=0)
    return _replayed(planned, _looked_at(fresh, last, records))


def announced(operation: Operation) -> int | None:
    """How many records a finished move announced to come later; None unknown, and for a drill, which moved nothing."""
    moved = operation.outcome == "done" and operation.kind in MOVES
    return operation.plan.totals.replay_later_records if moved and operation.plan is not None else None


def to_look_at(plan: Plan | None, reached: Reached) -> dict[StandbyPartition, tuple[int, int]]:
    """Where awaited records may be that the query has read since the last look."""
    return {row.key: (row.offset, _consumed_until(reached, row)) for row in (plan.awaited if plan is not None else ())}


def looked_at(plan: Plan, records: Read) -> Plan:
    """The plan once these records were searched for the awaited ones."""
    rows = (_advanced(row, *records[row.key]) if row.key in records else row for row in plan.awaited)
    return replace(plan, awaited=tuple(rows))


def came_later(plan: Plan) -> int | None:
    """How many of the announced records have come, as far as was looked; None where one partition does not show it."""
    total = 0
    for row in plan.awaited:
        came = _awaited(row).came
        if came is None:
            return None
        total += came
    return total


def _advanced(row: AwaitedPartition, reached: int, records: Sequence[LogRecord]) -> AwaitedPartition:
    after = _awaited(row).after(records)
    left = tuple(AwaitedRecord(at, digest) for at, digest in after.missing)
    return replace(row, offset=reached, came=after.matched, records=left)


def _awaited(row: AwaitedPartition) -> Awaited:
    return Awaited(announced=row.announced, missing=row.records, matched=row.came)
