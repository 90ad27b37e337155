"""The partitions of one query, the worst first: what is read, what is not, and how old the copies are. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.decide.status import QueryStatus
from state.model.entities import EndSample, TopicPartition
from state.model.maintenance import PartitionCopy, ReplicationSample


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionLine:
    """One partition of the cluster that the query reads; None where something is not known."""

    topic: str
    partition: int
    offset: int | None
    """Next offset to read."""
    end: int | None
    """Of the log, as sampled last."""
    lag: int | None
    """Records between the two."""
    age_seconds: float | None
    """Of the copy on the standby."""
    missing: int | None
    """Records that the standby lacks."""
    note: str


def partition_lines(
    query: QueryStatus, ends: Mapping[TopicPartition, EndSample], sample: ReplicationSample | None
) -> list[PartitionLine]:
    """All that are read or copied. The worst lacks the most on the standby, then has the oldest copy, then lags most.

    ``ends`` are those of the cluster that the query is on, and count only for a report from there.
    """
    report = query.report
    is_here = report is not None and report.cluster == query.cluster
    offsets = {
        TopicPartition(topic, int(partition)): offset
        for by_topic in ((report.offsets or {}) if report is not None and is_here else {}).values()
        for topic, by_partition in by_topic.items()
        for partition, offset in by_partition.items()
    }
    is_same = sample is not None and sample.source == query.cluster
    copies = {
        TopicPartition(each.topic, each.partition): each for each in (sample.copies if sample and is_same else ())
    }
    lines = [_line(key, offsets.get(key), ends.get(key), copies.get(key)) for key in sorted({*offsets, *copies})]
    return sorted(lines, key=_severity, reverse=True)


def _line(key: TopicPartition, offset: int | None, end: EndSample | None, copy: PartitionCopy | None) -> PartitionLine:
    return PartitionLine(
        topic=key.topic,
        partition=key.partition,
        offset=offset,
        end=None if end is None else end.end,
        lag=None if end is None or offset is None else max(0, end.end - offset),
        age_seconds=None if copy is None or copy.age_ms is None else copy.age_ms / 1000,
        missing=None if copy is None else copy.records,
        note="" if copy is None else copy.note,
    )


def _severity(line: PartitionLine) -> tuple[bool, float, int, int]:
    """What lacks its copy altogether has no age, and says so in its note."""
    return bool(line.note and line.missing), line.age_seconds or 0.0, line.missing or 0, line.lag or 0
