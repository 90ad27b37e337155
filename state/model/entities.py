"""The nouns: what is known about queries, positions and clusters, and what was decided. Frozen, and pure.

Units are in the names (``timestamp_ms``, ``buffer_ms``); every ``datetime`` is aware and in UTC; an unknown number is
``None``, never 0. Offsets are Kafka's: a *position* is the next offset to read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from state.checkpoint_folders import is_copy
from state.model.column_uses import ColumnUses
from state.model.measured import Measured, RowCounts
from state.model.plan import Plan


class TopicPartition(NamedTuple):
    """A partition, ordered by topic and number as Kafka prints it."""

    topic: str
    partition: int


class Fingerprint(NamedTuple):
    """What is remembered of one consumed record: enough to find it again on another cluster."""

    offset: int
    timestamp_ms: int
    digest: bytes
    """blake2b-16 over key and value; a null is not an empty byte string."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """What a query had read of one partition at the end of one batch."""

    query: str
    epoch: int
    """The assignment's epoch under which it was tracked."""
    cluster: str
    """Whose offsets these are."""
    source: str
    topic: str
    partition: int
    batch: int
    offset: int
    """Next offset to read: the batch's end offset as in the checkpoint."""
    timestamp_ms: int | None
    """Largest timestamp among the remembered records; where the position equalled the partition's sampled end, the
    time of that sample if it is later. An idle partition counts as read up to it."""
    leader_epoch: int | None
    """Epoch of the leader that appended the last record before ``offset`` (KIP-320), by which a log that was cut since
    is known; None where that record was not seen."""
    topic_id: str | None
    ring: Sequence[Fingerprint]
    """Records right before ``offset``, oldest first, at most 256; empty when none could be read. Trackers and stores
    keep it packed, as ``state.model.fingerprints.Fingerprints``."""
    dense: bool | None
    """Whether every offset between the previous position and this one held a record that was read; None unknown."""
    tracked_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class EndSample:
    """What was last seen of the end of a partition on a cluster, so that exposure can be computed after its death."""

    cluster: str
    topic: str
    partition: int
    begin: int
    end: int
    newest_timestamp_ms: int | None
    leader_epoch: int | None
    topic_id: str | None
    sampled_at: datetime


class Desired(StrEnum):
    """What an assignment requires."""

    RUNNING = "running"
    HELD = "held"


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """The one row that says where a query runs."""

    query: str
    epoch: int
    placed_epoch: int
    """The epoch under which it came to this cluster and checkpoint: 1, or that of the last commit. A hold and an abort
    leave it as it is; what was tracked under an earlier epoch speaks of another place."""
    desired: Desired
    cluster: str
    runner: str
    checkpoint: str
    """Absolute path or URI of the checkpoint in use."""
    starting_offsets: Mapping[str, Mapping[str, Mapping[str, int]]] | None
    """``fresh`` only: per source name, Spark's ``startingOffsets`` JSON."""
    operation: str | None
    """The operation that holds it or placed it here."""
    changed_at: datetime
    mapping: str | None = None
    """The mapping by which it came to its cluster on this checkpoint, by the name of its file; None where it reads the
    cluster on which the checkpoint began."""

    @classmethod
    def first(cls, query: str, *, cluster: str, runner: str, checkpoint: str, now: datetime) -> "Assignment":
        """Of a query that begins: under epoch 1, on the first of its clusters."""
        return cls(
            query=query, epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster=cluster, runner=runner,
            checkpoint=checkpoint, starting_offsets=None, operation=None, changed_at=now,
        )  # fmt: skip


class RunState(StrEnum):
    """What a runner reports of a query that it hosts."""

    STARTING = "starting"
    """Reported before anything is started: a reader of another state knows that nothing was begun since."""
    RUNNING = "running"
    FAILED = "failed"
    """The run ended with an error; the runner tries again with growing pauses."""
    STOPPED = "stopped"
    """It was ordered to stop and is quiet: nothing of it can write any more."""
    FINISHED = "finished"
    """Its application's run has ended without an error and is quiet; the application still runs."""
    AWAITED = "awaited"
    """Likewise, and its application has ended: the next start of it is awaited."""


COMPLETE = frozenset({RunState.FINISHED, RunState.AWAITED})
"""States of a query that has read all that its application wanted of it."""
QUIET = frozenset({RunState.STOPPED}) | COMPLETE
"""States in which nothing of a query runs: one that begins is reported as ``STARTING`` first."""


class SeenCheckpoint(NamedTuple):
    """The most that was there of a checkpoint while a run of one epoch used it: a start misses no file in silence."""

    checkpoint: str
    """Absolute path or URI."""
    epoch: int
    """Under which the run used it."""
    planned: int
    """The newest batch id that was in its offset log."""
    committed: int | None
    """The newest batch id that was in its commit log; None before the first."""
    query_id: str | None
    """Spark's id of the query, by the file ``metadata``."""
    stateful: bool | None
    """Whether it held operators with state; None where no process has looked yet."""
    ended_in_batch: int = 0
    """How many runs in a row ended in batch ``planned`` without a commit of it."""

    def with_batch(self, batch: int, *, committed: bool) -> "SeenCheckpoint":
        """With one more batch that was planned, or committed."""
        newest = max(batch, -1 if self.committed is None else self.committed) if committed else self.committed
        is_over = batch > self.planned or (committed and batch == self.planned)
        ended = 0 if is_over else self.ended_in_batch
        return self._replace(planned=max(batch, self.planned), committed=newest, ended_in_batch=ended)


def are_accepted(row: Assignment, seen: SeenCheckpoint | None) -> bool:
    """Whether a person looked at the files of a query, by ``reconcile``, and no run has reported more of them since.

    What was seen of a folder counts for its copy in another place, too, until a person accepts that one.
    """
    if row.operation is not None or row.epoch <= 1:
        return False
    return seen is None or (seen.epoch < row.epoch and not is_copy(seen.checkpoint, row.checkpoint))


class RulesFound(StrEnum):
    """Whether a bucket has rules that concern a checkpoint."""

    NONE = "none"
    RULES = "rules"
    UNKNOWN = "unknown"


class BucketRules(NamedTuple):
    """What the lifecycle of a bucket does with the objects of a checkpoint, and the sentence that says it."""

    found: RulesFound
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryFact:
    """A runner's latest report on one query; one row per query, a fact of a stale epoch never replaces a newer one.

    It names its process in full, because the proof that this process is gone is needed when its registration is gone,
    too.
    """

    query: str
    runner: str
    instance: str
    host: str
    boot_id: str
    pid: int
    pid_started: int
    spark_master: str
    application_id: str | None
    epoch: int
    cluster: str
    checkpoint: str
    """Absolute path or URI of the checkpoint that it runs from."""
    state: RunState
    run_id: str | None
    batch: int | None
    """Newest committed batch id."""
    offsets: Mapping[str, Mapping[str, Mapping[str, int]]] | None
    """Per source name, topic, partition: end offsets of ``batch``."""
    started_at: datetime | None
    first_commit_at: datetime | None
    """When the first batch *with new data possible* was committed by this run."""
    progressed_at: datetime | None
    """When this run last committed a batch, or looked at the cluster and found nothing new to read."""
    input_rows: int | None
    dropped_late_rows: int | None
    """Rows dropped by the watermark since this run started."""
    stateful: bool | None
    deduplicates_ahead: bool | None
    """State metadata shows de-duplication ahead of every aggregation or join."""
    error: str | None
    held_by: str | None
    """The operation whose planted entries kept the last start of this checkpoint from reading anything."""
    held_epoch: int | None
    """The epoch that these entries name: that operation took it, which a store that was restored may not know."""
    reported_at: datetime
    retained_from: datetime | None = None
    """When the oldest batch was planned to which its checkpoint can still go back; None while that is not known."""
    silent_since: datetime | None = None
    """Since when this run has waited for its cluster, which does not answer; None while it does. No progress."""
    sink_took: bool | None = None
    """Whether the sink holds the first batch that this run committed; None where that cannot be read."""
    mapping: str | None = None
    """The mapping by which it came to its cluster, as its row said when it was started."""
    pod: str | None = None
    """As that of ``RunnerFact``."""
    rows: RowCounts | None = None
    """What went through this run since it started; None while it has read nothing."""
    columns: ColumnUses | None = None
    """Where its plan uses columns that belong to a cluster. A report with None leaves what an earlier one said."""
    seen: SeenCheckpoint | None = None
    """How far its checkpoint was. A report with None leaves what an earlier one said."""
    sink: str | None = None
    """The format or class of the sink of an application's query. A report with None leaves what an earlier one said."""
    contradicted: str | None = None
    """Why the files of its checkpoint cannot be what the query wrote, in one sentence; None where they can."""
    bucket: BucketRules | None = None
    """What the lifecycle of its checkpoint's bucket does with it; None where it has no bucket, or was not read yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerFact:
    """A runner's registration and heartbeat. ``(host, boot_id, pid, pid_started)`` names one process for ever."""

    runner: str
    instance: str
    site: str
    host: str
    boot_id: str
    pid: int
    pid_started: int
    """Field 22 of ``/proc/<pid>/stat``: start time in clock ticks since boot."""
    spark_master: str
    application_id: str | None
    companion: bool = False
    """Whether its Spark has the companion, so that a query can keep its checkpoint."""
    companion_missing: str = ""
    """Why it has none, in one sentence; empty where it has one."""
    pod: str | None = None
    """The Kubernetes pod of its process, as namespace/name/uid; None where there is none, or it cannot be known."""
    warm: bool
    plans: Mapping[str, str] = field(default_factory=dict)
    """Of each query whose plan was built and run here for a warm-up: why it could not continue here from its
    checkpoint; empty where nothing speaks against it."""
    started_at: datetime
    seen_at: datetime


class IntentKind(StrEnum):
    """What a controller may order from a runner."""

    INSPECT = "inspect"
    """Read the checkpoint: newest committed batch, its offsets, a planned batch, state metadata. Changes nothing."""
    FENCE = "fence"
    """Stop the run without waiting for a stuck thread, plant the next offset-log entries, look for the proof."""
    PREPARE = "prepare"
    """Make the new checkpoint and read it back; the old one stays as it is."""
    RELEASE = "release"
    """Undo of a fence before the commit: remove the planted entries and a prepared checkpoint."""
    DRILL = "drill"
    """Rehearse: run one batch on the standby from a copy of the checkpoint, without the sink, and clean up."""


class IntentState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """One thing that one runner shall do for one operation; ``(operation, name)`` is unique, so it is ordered once."""

    id: str
    operation: str
    name: str
    """Name of the step, with an attempt number where the step may be ordered again: ``fence``, ``prepare#2``."""
    kind: IntentKind
    query: str
    runner: str
    epoch: int
    request: Mapping[str, object]
    state: IntentState
    result: Mapping[str, object] | None
    """The reported facts (DONE) or ``{"kind", "text", "hint"}`` (FAILED)."""
    created_at: datetime
    ended_at: datetime | None

    @staticmethod
    def name_of(kind: IntentKind, earlier: int) -> str:
        """What the next order of a kind is called, after this many of them."""
        return f"{kind.value}#{earlier + 1}" if earlier else kind.value

    @property
    def attempt(self) -> int:
        """Which attempt of its step it is, from 1 on; it grows also when the store's clock is set back."""
        return int(self.name.partition("#")[2] or 1)


class OperationKind(StrEnum):
    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    FAILBACK = "failback"
    REWIND = "rewind"
    DRILL = "drill"


EVERY_KIND = frozenset(OperationKind)
DRILLS = frozenset({OperationKind.DRILL})
MOVES = EVERY_KIND - DRILLS
"""Kinds that hold a query and place it; a drill does neither, and may be open beside one of these."""


class Phase(StrEnum):
    """Where an operation is; the table of moves is ``orchestrator.decide.phases``."""

    WATCHING = "WATCHING"
    SUSPECT = "SUSPECT"
    CONFIRMED = "CONFIRMED"
    FENCING = "FENCING"
    RESOLVING = "RESOLVING"
    PREPARING = "PREPARING"
    STARTING = "STARTING"
    VERIFYING = "VERIFYING"
    SETTLED = "SETTLED"
    ABORTED = "ABORTED"
    BLOCKED = "BLOCKED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One failover, switchover, failback, rewind or drill of one query."""

    id: str
    group: str
    """Shared by the operations of one request."""
    kind: OperationKind
    query: str
    source: str
    target: str
    epoch: int
    """The epoch that the hold took; the commit keeps it. Of a drill the epoch that it found."""
    phase: Phase
    outcome: str | None
    """None while open; ``done``, ``refused`` or ``failed``."""
    actor: str
    reason: str
    consents: tuple[str, ...]
    """Typed consents of the operator: ``unfenced``, ``repeats``, ``loss``, ``gap``, ``fresh``; and ``move``."""
    plan: Plan | None
    measured: Measured
    sentence: str
    """What the operation is doing or why it ended, in one sentence."""
    started_at: datetime
    ended_at: datetime | None
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What this kind needs beside its target, in JSON's own types and as it was requested; empty for a move."""

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do or to wait for."""
        return self.outcome is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """The last move that took a query away from one cluster."""

    query: str
    source: str
    target: str
    operation: str
    epoch: int
    at: datetime
    """When that operation began."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One recorded step of an operation: written before it is done (``ended_at`` None), completed afterwards."""

    operation: str
    sequence: int
    name: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    """``done``, ``failed``, ``refused``."""
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A verb that an operator or a program requested; the leading controller takes it."""

    id: str
    group: str
    kind: OperationKind
    query: str
    target: str | None
    expect_active: str | None
    actor: str
    reason: str
    consents: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    """A controller that takes it later refuses it; like ``created_at`` on the store's clock."""
    operation: str | None = None
    """The operation that answers it, once taken."""
    refused: str | None = None
    """The sentence of a refusal, if it was turned down before an operation existed."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What its kind needs beside the target, in JSON's own types; the operation carries them on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Who leads. ``term`` grows with every change of holder, by chance, and guards every controller write."""

    name: str
    holder: str
    term: int
    expires_at: datetime
    """On the store's clock; ``RESIGNED`` once its holder has given it up."""


RESIGNED = datetime(1970, 1, 1, tzinfo=UTC)
"""When a lease that was given up has expired: before anything that a clock which is set back can show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One line of the append-only history."""

    sequence: int | None
    at: datetime
    kind: str
    query: str | None
    operation: str | None
    epoch: int | None
    actor: str
    text: str
    detail: Mapping[str, object] = field(default_factory=dict)
