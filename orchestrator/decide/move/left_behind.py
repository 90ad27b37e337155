"""What a move left behind: the records that the standby lacked when the query left the old cluster. Pure.

Exposure is measured on the old cluster, once that answers: what its log holds behind the last record that the
standby had when the resume offset was looked up. No record's own time bounds that, for a producer's clock may be ahead:
the end of the log does, as it was at the first answer. What a time or an open transaction leaves in doubt makes the
number unknown, and two bounds are kept instead.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from state.model.entities import Operation
from state.model.plan import FollowedPartition, Plan, PlannedPartition, StandbyPartition, UnreadPartition
from state.plain_text import amount
from streaming.resume.model import Target


class LeftPartition(NamedTuple):
    """A partition of the standby and the one that it replaces on the cluster that was left."""

    key: StandbyPartition
    topic: str
    partition: int
    end: int
    """Of the standby's partition, when the resume offset was looked up."""
    committed: bool = True
    """Whether the query reads only what is committed: then a record of an aborted transaction was never its to read."""
    sampled_end: int | None = None
    """Of the partition that was left, as last sampled before the look-up: what the forecast knew of it."""
    until: int | None = None
    """Of the partition that was left, the end at its first answer since; None before that."""
    begin: int = 0
    """Of the standby's partition, when the resume offset was looked up."""
    scattered_from: int | None = None
    """How far it was read, where its records may be in any partition of the topic; None where they are in one."""


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
    """How many of them are before the end as it was last sampled; only those could be forecast."""

    @property
    def is_settled(self) -> bool:
        """Whether another look could find no more."""
        return self.records is not None


def exposed_of(row: FollowedPartition | None) -> Exposed:
    """What is known by now of the exposure of one partition."""
    if row is None:
        return Exposed()
    first, records, last = row.exposed_from, row.exposed, row.exposed_to
    if last is None and first is not None and records is not None:
        last = first + records
    return Exposed(records, first, last, row.exposed_at_least, row.exposed_at_most)


def followed_by(plan: Plan) -> dict[StandbyPartition, FollowedPartition]:
    """What an operation is measured by, by partition of the standby."""
    return {row.key: row for row in plan.followed.partitions} if plan.followed is not None else {}


def planned_by(plan: Plan) -> dict[StandbyPartition, PlannedPartition]:
    """The partitions of a plan, by partition of the standby."""
    return {row.key: row for row in plan.partitions}


def to_compare(plan: Plan | None) -> tuple[int, list[LeftPartition]]:
    """When the resume offsets were looked up, in milliseconds, and what to look for on the cluster that was left."""
    if plan is None or plan.followed is None or plan.followed.compared:
        return 0, []
    measured = followed_by(plan)
    missing = [each for each in _left(plan) if not exposed_of(measured[each.key]).is_settled]
    return plan.followed.asked_at_ms or 0, missing


def left_ranges(operation: Operation) -> list[tuple[LeftPartition, Exposed]]:
    """Where in the log that was left is what the standby lacked; nothing where a move keeps no such account."""
    if operation.plan is None:
        return []
    measured = followed_by(operation.plan)
    return [(each, exposed_of(measured[each.key])) for each in _left(operation.plan)]


def _left(plan: Plan) -> list[LeftPartition]:
    planned, found = planned_by(plan), []
    for key, row in followed_by(plan).items():
        if key in planned and (left := left_partition(planned[key], row)) is not None:
            found.append(left)
    return found


def left_partition(planned: PlannedPartition, row: FollowedPartition) -> LeftPartition | None:
    """One partition of what a move left, by its row of the plan and by what it is measured by.

    None where the end of the standby's log is unknown.
    """
    if planned.end is None:
        return None
    return LeftPartition(
        key=planned.key,
        topic=planned.topic,
        partition=planned.partition,
        end=planned.end,
        committed=row.committed,
        sampled_end=row.sampled_end,
        until=row.exposed_to,
        begin=planned.begin or 0,
        scattered_from=planned.offset if row.scattered else None,
    )


def with_compared(plan: Plan, exposed: Mapping[StandbyPartition, Exposed]) -> Plan:
    """The plan once the cluster that was left was looked at: what is known stays, the rest is looked at again.

    A partition that no look can measure is looked at as long as a move is followed.
    """
    if plan.followed is None:
        return plan
    rows = tuple(_compared(row, exposed.get(row.key)) for row in plan.followed.partitions)
    left = {each.key for each in _left(plan)}
    compared = all(exposed_of(row).is_settled for row in rows if row.key in left)
    return replace(plan, followed=replace(plan.followed, compared=compared, partitions=rows))


def _compared(row: FollowedPartition, found: Exposed | None) -> FollowedPartition:
    if found is None or exposed_of(row).is_settled:
        return row
    return replace(
        row,
        exposed=found.records,
        exposed_from=found.first,
        exposed_to=found.last,
        exposed_at_least=found.at_least,
        exposed_at_most=found.at_most,
    )


class LeftBehind(NamedTuple):
    """One partition of the cluster that the query returns to."""

    key: StandbyPartition
    records: int | None
    """At most this many; None where it was not measured."""
    operation: str
    """The move away, whose exposure they were."""
    lacking: str
    """The cluster that lacked them."""
    at_least: int | None = None
    """At least this many, where the number is in doubt; None where it is exact, or nothing is known of it."""

    @property
    def note(self) -> str:
        """For the partition's row."""
        what = "records" if self.records is None else f"up to {amount(self.records, 'record')}"
        if self.records is not None and self.at_least is not None:
            what = f"{self.at_least} to {self.records} records"
        known = f"and no batch committed before {self.operation} had"
        if self.records is None:
            known = f"and how many they are, and whether a batch before {self.operation} had, was not measured"
        return (
            f"{what} that {self.lacking} lacked at {self.operation} are before this offset: "
            f"this move does not read them, {known}"
        )

    @property
    def row(self) -> UnreadPartition:
        """Its row of a plan."""
        source, topic, partition = self.key
        return UnreadPartition(
            source=source, topic=topic, partition=partition, records=self.records, at_least=self.at_least,
            operation=self.operation,
        )  # fmt: skip


def left_behind(departure: Operation | None, targets: Iterable[Target]) -> tuple[LeftBehind, ...]:
    """What is before these resume offsets of what was exposed at the ``departure``; partitions without are left out.

    Records that no committed batch had read when the query left that cluster; a batch in flight may have. The other
    cluster lacked them: the exposure of that move.
    The query continues behind what it has read on the other cluster since, and that is behind those records, for a
    replicator appends. How many they are, and from which offset on, was measured when the cluster answered again;
    before that it is not known.
    """
    if departure is None:
        return ()
    plan = departure.plan or Plan()
    planned = {row.left: row for row in plan.partitions}
    measured, found = followed_by(plan), []
    for target in targets:
        key = StandbyPartition(target.source, *target.there)
        row = planned.get(key)
        exposed = exposed_of(None if row is None else measured.get(row.key))
        is_exact = exposed.records is not None
        records = _before(target.target_offset, row, exposed, exposed.records if is_exact else exposed.at_most)
        if records != 0:
            least = None if is_exact else _before(target.target_offset, row, exposed, exposed.at_least)
            found.append(LeftBehind(key, records, departure.id, departure.target, least))
    return tuple(found)


def _before(place: int | None, planned: PlannedPartition | None, exposed: Exposed, most: int | None) -> int | None:
    """How many of ``most`` exposed records are before a resume offset and behind what the query had read.

    None: unknown.
    """
    if place is None or planned is None or most == 0:
        return 0
    if planned.offset is None:
        return None
    if place <= planned.offset:
        return 0
    if most is None or exposed.first is None:
        return None
    read = max(0, planned.offset - exposed.first)
    return min(max(0, most - read), max(0, place - exposed.first - read))
