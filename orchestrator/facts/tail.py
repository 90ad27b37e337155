"""The tail of a cluster that was left: the records that only it had at a failover, found there and read in full.

What the standby lacked then was measured as a range of offsets (``orchestrator.facts.measure``). A replicator that went
on may have copied some of them since, so the standby's log is looked through, too, from where it ended at the move.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.decide.outcome import Exposed, LeftPartition, StandbyPartition, left_ranges
from state.model.entities import Operation, TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Entry, LogRecord, Logs, Spec
from streaming.resolve.batched_lookups import ask_offsets
from streaming.resolve.scan import read_entries, read_ranges

READ_SECONDS = 30.0
MOST_READ = 200_000
"""Records of a partition that are read at most, on either side."""
GONE = "retention has deleted them, or the topic was recreated"
UNMEASURED = "not measured: {source} has not answered since, or the move did not find the end of {target} in its log"


@dataclass(frozen=True, kw_only=True, slots=True)
class TailRecord:
    """One record that the standby lacked when the query left."""

    topic: str
    partition: int
    record: Entry
    on_standby: bool
    """Whether the standby has got it since."""


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
    """Why the records are not all here."""


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
        """Whether every record that was counted is here."""
        return not any(partition.why for partition in self.partitions)


def tail_of(operation: Operation, logs: Logs) -> Tail:
    """Read the tail of an operation that was measured. Raises ``KafkaError`` when a cluster does not answer."""
    deadline, old = Deadline.after(READ_SECONDS), logs(operation.source)
    ranges = left_ranges(operation)
    known = {each: exposed for each, exposed in ranges if exposed.records and exposed.last is not None}
    begins = ask_offsets(old, [(_there(each), Spec.EARLIEST) for each in known], deadline)
    wanted = {}
    for each, exposed in known.items():
        first = max(exposed.first or 0, begins[_there(each), Spec.EARLIEST].offset or 0)
        wanted[_there(each)] = (first, min(exposed.last or 0, first + MOST_READ))
    looked = read_ranges(old, wanted, limit=MOST_READ, timeout=deadline.remaining)
    came = _copies(logs(operation.target), list(known), deadline)
    found = []
    for each, exposed in ranges:
        told = _measured(each, exposed)
        if each in known:
            entries = read_entries(old, _there(each), *wanted[_there(each)], deadline)
            told = _filled(told, looked[_there(each)], entries, came[each.key])
        elif told.counted is None:
            told = replace(told, why=UNMEASURED.format(source=operation.source, target=operation.target))
        found.append(told)
    return Tail(operation=operation, partitions=tuple(found))


def _there(each: LeftPartition) -> TopicPartition:
    return TopicPartition(each.topic, each.partition)


def _measured(each: LeftPartition, exposed: Exposed) -> TailPartition:
    records, first, last = exposed
    return TailPartition(topic=each.topic, partition=each.partition, first=first, last=last, counted=records)


def _filled(
    told: TailPartition, looked: Sequence[LogRecord] | None, entries: Sequence[Entry] | str, came: "_Copies"
) -> TailPartition:
    if isinstance(entries, str) or looked is None:
        return replace(told, why=entries if isinstance(entries, str) else "they could not be read in time")
    in_full = {entry.offset: entry for entry in entries}
    records = tuple(
        TailRecord(
            topic=told.topic, partition=told.partition, record=in_full[each.offset], on_standby=came.takes(each)
        )
        for each in looked
        if each.offset in in_full
    )  # fmt: skip
    missing = (told.counted or 0) - len(records)
    why = f"{missing} of {told.counted} are not listed: {GONE}, or they are more than {MOST_READ:,}"
    return replace(told, records=records, why=why if missing > 0 else "")


class _Copies:
    """Records of the standby, each of which stands for one record of the old cluster."""

    def __init__(self, records: Sequence[LogRecord]) -> None:
        self._left = Counter((each.digest, None if each.append_time else each.timestamp_ms) for each in records)

    def takes(self, record: LogRecord) -> bool:
        """Whether the standby has a copy that no earlier record has taken."""
        for key in ((record.digest, record.timestamp_ms), (record.digest, None)):
            if self._left[key] > 0:
                self._left[key] -= 1
                return True
        return False


def _copies(standby: ClusterLog, known: Sequence[LeftPartition], deadline: Deadline) -> dict[StandbyPartition, _Copies]:
    """What the standby got since the move, of each partition the first ``MOST_READ`` records."""
    there = {each.key: TopicPartition(each.key.topic, each.key.partition) for each in known}
    ends = ask_offsets(standby, [(key, Spec.LATEST) for key in there.values()], deadline)
    most = MOST_READ // max(1, len(known))
    ranges = {
        there[each.key]: (each.end, max(each.end, min(end, each.end + most)))
        for each in known
        if (end := ends[there[each.key], Spec.LATEST].offset) is not None
    }
    records = read_ranges(standby, ranges, limit=MOST_READ, timeout=deadline.remaining)
    return {key: _Copies(records.get(at) or ()) for key, at in there.items()}
