"""What housekeeping keeps and clears. Frozen, and pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

LATENCIES = 1_440
"""Samples kept of each topic whose standby stamps its records itself: a day of minutes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadinessFact:
    """What the last check of a query's standby found; one row a query."""

    query: str
    target: str
    """Where the query would go."""
    ready: bool | None
    """None: nothing refuses, but something could not be measured."""
    gates: tuple[Mapping[str, object], ...]
    """Each ``{"name", "ok", "measured", "limit", "text"}``."""
    proven: int | None = None
    """Of how many partitions the resume offset was exact; None where that was not looked for. Alike ``partitions``."""
    partitions: int | None = None
    """How many there are."""
    since: datetime
    """When this answer was first given; kept while it stays the same."""
    sampled_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class StandbySample:
    """What one check measured of a query and its standby, in numbers: a point of its plots. None: it is unknown."""

    query: str
    sampled_at: datetime
    source: str
    target: str
    ready: bool | None
    exposure_records: int | None
    """Records of the source that the standby lacks."""
    exposure_seconds: float | None
    """By how many seconds of records the standby is behind, of the partition where it is most: the gate's number."""
    copy_age_seconds: float | None
    """Of the oldest copy whose age is known."""
    run_id: str | None = None
    """Spark's id of the run that ``read_records`` counts for."""
    read_records: int | None = None
    """Records that this run had read since it started, as Spark counts them."""
    read_at: datetime | None = None
    """When its runner reported that number."""
    lag_records: int | None = None
    """Records that the query had not read when the ends of its cluster were sampled last."""


class PartitionCopy(NamedTuple):
    """One partition of the source and what the standby has of it."""

    topic: str
    partition: int
    target_topic: str | None
    """The topic's name on the standby; None where the route does not name it."""
    newest_ms: int | None
    """Largest timestamp on the source; None when it holds no record, or that is not known."""
    target_newest_ms: int | None
    """Largest timestamp on the standby, alike."""
    age_ms: int | None
    """By how much the second is older than the first, at least 0; None where it is unknown."""
    records: int | None
    """Offsets of the source that the standby lacks; None where it is unknown."""
    seen_ms: int | None
    """When the source was looked at: as a rule when the standby was, earlier where it was silent then."""
    note: str
    """Why the age is not known, or what else there is to say of it."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_missing(self) -> bool:
        """Whether the standby holds nothing of what the source has."""
        return self.age_ms is None and self.target_newest_ms is None and (self.records or 0) > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationSample:
    """How old all copies of a query's topics were when they were last sampled.

    Both sides are known by the largest timestamp of their logs (KIP-734). It need not be that of the record produced
    last: producers set it, and a replicator keeps it. So an age is a good sign of what is copied, and no proof.
    """

    source: str
    target: str
    sampled_at: datetime
    """When the standby was read."""
    copies: tuple[PartitionCopy, ...]
    latencies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By topic of the source whose standby stamps its records itself. It says by how many milliseconds the newest copy
    was stamped after the record's own time, in each of the last samples in which nothing was missing, oldest first."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """By topic of the source, its ``message.timestamp.type``, as the source said it last."""


class TopicDisorder(NamedTuple):
    """By how much the times of one topic's records went back, all its partitions together."""

    topic: str
    disorder_ms: int
    """The largest distance from the largest time read so far, but no later than the clock then, back to the time of a
    record read later. Rounding never makes it too small."""
    steps: int
    """Steps of the timeline at which new records had been read."""
    since_ms: int
    """Of the first of them."""
    until_ms: int
    """Of the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disorder:
    """What a query's timeline shows of the order of times, where the query is placed; one row a query."""

    query: str
    placed_epoch: int
    """Of the assignment when it was measured: what was read at an earlier place does not count."""
    cluster: str
    topics: tuple[TopicDisorder, ...]
    measured_at: datetime


class CleanedFiles(NamedTuple):
    """What went of a checkpoint."""

    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FormerCheckpoint:
    """A checkpoint that a query has left, by a move or because it was found elsewhere; one row each."""

    query: str
    checkpoint: str
    """Absolute path or URI, without a slash at its end."""
    placed_epoch: int
    """Under which the query came here."""
    left_epoch: int
    """Under which it continued elsewhere."""
    left_at: datetime
    operation: str | None
    """That moved it; None where it was reconciled."""
    runner: str | None = None
    """Which runner got the order to clean it."""
    asked_at: datetime | None = None
    cleaned_at: datetime | None = None
    files: int | None = None
    """How many went, and how large they were; None before."""
    bytes: int | None = None
    refused: str | None = None
    """Why the runner that got the last order did not."""

    @property
    def is_requested(self) -> bool:
        """Whether a runner is to clean it, and has not answered."""
        return self.asked_at is not None and self.cleaned_at is None and self.refused is None


class RememberedRows(NamedTuple):
    """How many rows the store keeps of one query, its history apart; an operation counts with what belongs to it."""

    assignments: int = 0
    operations: int = 0
    requests: int = 0
    reports: int = 0
    positions: int = 0
    stretches: int = 0
    readiness: int = 0
    samples: int = 0
    """Of its standby."""
    disorders: int = 0
    pauses: int = 0
    checkpoints: int = 0
    """That it has left."""
    places: int = 0
    """Where a runner found it that could not run it."""
    mappings: int = 0
    """Copies of the files by which it moved."""


class PrunedRows(NamedTuple):
    """How many rows one round of pruning took; an operation counts with all that belongs to it."""

    operations: int = 0
    requests: int = 0
    probe_reports: int = 0
    readiness: int = 0
    disorders: int = 0
    events: int = 0
    runners: int = 0
    reports: int = 0
    positions: int = 0
    ends: int = 0
    cluster_statuses: int = 0
    checkpoints: int = 0
    """Rows of those that were cleaned."""
    schedules: int = 0
    """Of those that are over."""

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(self)
