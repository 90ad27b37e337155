"""The tail of a cluster that was left: the records that only it had at a failover, read in full."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orchestrator.decide.move.left_behind import Exposed, LeftPartition, left_ranges, planned_by
from orchestrator.facts.exposed import (
    MOST_READ,
    Stretch,
    copies_since,
    held_at_look_up,
    leave_out,
    on_source,
    stretches_of,
)
from state.messages import Planned, SinkState
from state.model.entities import Operation
from streaming.clocks import Deadline
from streaming.cluster_log import Entry, Logs, Spec
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.ranges import read_entries
from streaming.resolve.standby_copies import Copies

READ_SECONDS = 30.0
NEVER = sys.maxsize
"""Later than any time: nothing is dated behind it."""
GONE = "retention has deleted them, or the topic was recreated"
UNMEASURED = "not measured: {source} has not answered since, or the move did not find the end of {target} in its log"
IN_DOUBT = (
    "between {least} and {most} records: what is dated after the look-up, or belongs to a transaction without an end, "
    "may have been written later or never be committed"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TailRecord:
    """One record that the standby lacked when the query left."""

    topic: str
    partition: int
    record: Entry
    on_standby: bool
    """Whether the standby has got it since."""
    read_before: bool | None
    """Whether the query had read it when it left. None where that is unknown: the plan has no position, or the record
    is of a batch that was under way, and whether the sink has that is not known."""
    committed: bool | None = True
    """Whether it was committed, if its transaction was; None: the transaction has no end yet."""
    dated_later: bool = False
    """It is dated after the look-up, and so is all behind it: it may have been written after the query had left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TailPartition:
    """What is known of one partition's tail."""

    topic: str
    partition: int
    first: int | None
    last: int | None
    """Offsets ``[first, last)``; None where they were not measured."""
    counted: int | None
    """How many records were counted when it was measured."""
    records: tuple[TailRecord, ...] = ()
    why: str = ""
    """Why the records are not all here, or more than are known to belong here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """What an operation left behind."""

    operation: Operation
    partitions: tuple[TailPartition, ...]

    @property
    def records(self) -> list[TailRecord]:
        return [record for partition in self.partitions for record in partition.records]

    @property
    def is_whole(self) -> bool:
        """Whether every record that was counted is here, and none is in doubt."""
        return not any(partition.why for partition in self.partitions)


def tail_of(operation: Operation, logs: Logs, planned: Planned | None = None) -> Tail:
    """Read the tail of an operation that was measured. Raises ``KafkaError`` when a cluster does not answer.

    ``planned``: the batch that was under way when the query left.
    """
    deadline, old = Deadline.after(READ_SECONDS), logs(operation.source)
    ranges = left_ranges(operation)
    known = {each: exposed for each, exposed in ranges if exposed.last is not None and exposed.records != 0}
    begins = request_offsets(old, [(on_source(each), Spec.EARLIEST) for each in known], deadline)
    firsts = {
        each: max(exposed.first or 0, begins[on_source(each), Spec.EARLIEST].offset or 0)
        for each, exposed in known.items()
    }
    looked = stretches_of(old, firsts, deadline)
    leave_out(looked, known, held_at_look_up(logs(operation.target), known, deadline))
    came = copies_since(logs(operation.target), list(known), deadline)
    followed = operation.plan.followed if operation.plan is not None else None
    positions = planned_by(operation.plan) if operation.plan is not None else {}
    asked_at_ms = NEVER if followed is None or followed.asked_at_ms is None else followed.asked_at_ms
    found = []
    for each, exposed in ranges:
        part = _measured(each, exposed)
        if each in known and each.key not in looked:
            part = replace(part, why=f"{operation.source} does not answer for it")
        elif each in known:
            stretch = looked[each.key]
            entries = read_entries(old, on_source(each), stretch.first, stretch.last, deadline)
            certain = stretch.certain(asked_at_ms, each.sampled_end)
            read = _Read(positions[each.key].offset, *_end_of(planned, each))
            part = _filled(part, exposed, stretch, entries, came[each.key], certain, read)
        elif part.counted is None:
            part = replace(part, why=UNMEASURED.format(source=operation.source, target=operation.target))
        found.append(part)
    return Tail(operation=operation, partitions=tuple(found))


class _Read(NamedTuple):
    """How far a query had read one partition when it left."""

    position: int | None
    under_way: int | None
    """End of the batch that was under way; None where there was none."""
    delivered: bool | None
    """Whether the sink has that batch; None where it is unknown."""

    def before(self, offset: int) -> bool | None:
        if self.position is None or offset < self.position:
            return None if self.position is None else True
        return self.delivered if self.under_way is not None and offset < self.under_way else False


def _end_of(planned: Planned | None, each: LeftPartition) -> tuple[int | None, bool | None]:
    """Of the batch that was under way: its end in one partition, and whether the sink has it."""
    if planned is None:
        return None, None
    ends = planned.offsets.get(each.key.source, {}).get(each.topic, {})
    known = {SinkState.HAS: True, SinkState.HAS_NOT: False}
    return ends.get(str(each.partition)), known.get(planned.sink)


def _measured(each: LeftPartition, exposed: Exposed) -> TailPartition:
    records, first, last = exposed[:3]
    return TailPartition(topic=each.topic, partition=each.partition, first=first, last=last, counted=records)


def _filled(
    part: TailPartition,
    exposed: Exposed,
    stretch: Stretch,
    entries: Sequence[Entry] | str,
    came: Copies,
    certain: int,
    read: _Read,
) -> TailPartition:
    """The partition with its records in full; those in doubt are marked, and left out where the standby has them."""
    if isinstance(entries, str) or stretch.records is None:
        return replace(part, why=entries if isinstance(entries, str) else "they could not be read in time")
    in_full = {entry.offset: entry for entry in entries}
    records = []
    for number, each in enumerate((*stretch.records, *(stretch.unsettled or ()))):
        on_standby, later = came.takes(each), number >= certain
        if each.offset not in in_full or (later and on_standby):
            continue
        open_yet = number >= len(stretch.records)
        records.append(
            TailRecord(
                topic=part.topic,
                partition=part.partition,
                record=in_full[each.offset],
                on_standby=on_standby,
                read_before=read.before(each.offset),
                committed=None if open_yet else not each.uncommitted,
                dated_later=later and not open_yet,
            )
        )
    counted = len(records) if part.counted is None else part.counted
    missing = counted - sum(not each.dated_later and each.committed is not None for each in records)
    why = ""
    if part.counted is None:
        why = IN_DOUBT.format(least=exposed.at_least or 0, most=exposed.at_most)
    elif missing > 0:
        why = f"{missing} of {part.counted} are not listed: {GONE}, or they are more than {MOST_READ:,}"
    return replace(part, records=tuple(records), why=why)
