"""What controller and runner write into an intent's ``request`` and ``result``: typed, versionless JSON.

The runner alone touches checkpoints; the controller alone decides. So a checkpoint travels to the controller as a
``CheckpointReport`` of values, and the decision travels back as a ``PrepareRequest`` of values. Offsets are nested as
in Spark's own JSON, below the name of the source: ``{source: {topic: {partition: offset}}}``; they are next-to-read.
"""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict

from state.model.entities import QUIET, QueryFact, RunnerFact

HELD = "held"
"""Kind of a ``Failure``: the checkpoint is held by an operation that the store does not know."""
ALREADY_RUN = "already-run"
"""Kind of a ``Failure``: the checkpoint that an operation makes was made, and run, by this very operation before."""

CONTRADICTED = "contradicted"
"""Kind of a ``Failure``: files of the checkpoint are missing, or older than what the store knows of them."""

CLEANED_AWAY = "cleaned-away"
"""Kind of a ``Failure``: the query left the checkpoint long ago, and its state was deleted since."""

NO_COMPANION = "companion"
"""Kind of a ``Failure``: the query is to keep its checkpoint, and the runner's Spark has no companion to continue with.
"""

WITHDRAWN = "withdrawn"
"""Kind of a ``Failure``: a leader took back its order to a silent runner; another one got the order instead."""
NO_ANSWER = "no-answer"
"""Kind of a ``Failure``: likewise of a runner that beats, and has not answered for long: its file system may hang."""

MOVED_ON = "moved-on"
"""Kind of a ``Failure``: the checkpoint is at another batch, or at other offsets, than those that were resolved."""

Offsets = dict[str, dict[str, dict[str, int]]]
"""Per source, topic and partition (as text, like Spark's JSON): the next offset to read."""


class Message(BaseModel):
    """A frozen piece of JSON; unknown keys are ignored, so that a newer peer may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def as_json(self) -> dict[str, object]:
        """The value as plain JSON types."""
        return self.model_dump(mode="json")

    @classmethod
    def of(cls, value: object) -> Self:
        """Parse what the other side wrote."""
        return cls.model_validate(value)


class SinkState(StrEnum):
    """Whether the sink holds a planned batch that Spark did not commit."""

    HAS = "has"
    HAS_NOT = "has-not"
    FORGOT = "forgot"
    """It may have the batch, and would write it again: it keeps no memory that reaches back to it."""
    UNKNOWN = "unknown"


class SinkMemory(StrEnum):
    """By what a sink recognises a batch that it has."""

    NOTHING = "nothing"
    """It writes whatever it gets: Kafka."""
    BATCH = "batch"
    """The batch id alone: Spark's file sink, Hudi. A new checkpoint whose batch ids begin at 0 loses whole batches."""
    QUERY_AND_BATCH = "query-and-batch"
    """Query id and batch id: Delta, Iceberg. A carried checkpoint has a new query id."""
    CHECKPOINT_AND_BATCH = "checkpoint-and-batch"
    """The path of the checkpoint and the batch id: Paimon."""
    OWN_CODE = "own-code"
    """Code of the pipeline (``foreachBatch``): what the configuration says of it counts."""
    UNKNOWN = "unknown"
    """A connector that Tideover does not know, or a pipeline that could not be built."""


class Planned(Message):
    """Batch N+1: in the offset log, not in the commit log."""

    batch: int
    offsets: Offsets
    sink: SinkState
    others_read: bool = False
    """It reads from a source other than Kafka too: how many rows is unknown."""
    planned_at_ms: int | None = None
    """When Spark planned it."""
    held: bool = False
    """Its run is held in the middle of it, and can continue there if every record lies as far from its begin elsewhere.
    """
    run_id: str | None = None
    """That run, by Spark's id; None where it is not held, or another part of it may not leave the cluster."""


class StateOperator(Message):
    """One stateful operator as the checkpoint's state metadata names it."""

    id: int
    name: str
    partitions: int


class RetainedBatch(Message):
    """A committed batch to which a query can go back, with its state."""

    batch: int
    planned_at_ms: int
    """When Spark planned it: what it read was in the cluster by then."""
    offsets: Offsets
    """Its end offsets."""
    watermark_ms: int
    """The watermark that it ran under; 0 without one."""


class Retained(Message):
    """How far back a checkpoint reaches."""

    oldest_ms: int | None = None
    """When the oldest batch was planned whose state is whole; None: there is none."""
    batch: RetainedBatch | None = None
    """The newest one that was planned at or before the requested time."""


class CheckpointReport(Message):
    """What a checkpoint holds; the answer to INSPECT, and part of the answer to FENCE."""

    checkpoint: str
    batch: int | None
    """N, the newest id in ``commits/``; None when no batch was ever committed."""
    offsets: Offsets
    """End offsets of batch N; empty when there is none."""
    planned: Planned | None = None
    operators: tuple[StateOperator, ...] = ()
    deduplicates_ahead: bool = False
    state_provider: str | None = None
    """``hdfs`` or ``rocksdb``."""
    log_version: int = 1
    sink_format: str | None = None
    """The sink's short name; None where it is not known."""
    sink_memory: SinkMemory = SinkMemory.UNKNOWN
    other_sources: int = 0
    """Sources that are not Kafka's, which stay where they are when the query is moved."""
    retained: Retained | None = None
    """Where a time was requested and the query keeps state."""

    @property
    def stateful(self) -> bool:
        return bool(self.operators)


class Proof(StrEnum):
    """What proves that the old run can write nothing more: nothing is started elsewhere without it."""

    RUNNER = "runner"
    PROCESS = "process"
    APPLICATION = "application"
    CONSENT = "consent"


class InspectRequest(Message):
    checkpoint: str
    to_time_ms: int | None = None
    """Rewind only: the time to go back to."""


class Process(Message):
    """A runner's process, as it names itself."""

    runner: str
    instance: str
    host: str
    boot_id: str
    pid: int
    pid_started: int
    spark_master: str
    application_id: str | None = None
    pod: str | None = None
    """As that of ``RunnerFact``."""
    epoch: int | None = None
    """Of the run that it reported last; None where it reported none."""
    stopped: bool = False
    """It has reported itself that the query is quiet, and nothing that began since."""

    @classmethod
    def of_fact(cls, fact: RunnerFact) -> Self:
        """The process behind a runner's registration."""
        return cls.model_validate(fact, from_attributes=True)

    @classmethod
    def of_query(cls, fact: QueryFact) -> Self:
        """The process that hosted a query last."""
        named = cls.model_validate(fact, from_attributes=True)
        return named.model_copy(update={"stopped": fact.state in QUIET})


FINISH_SECONDS = 30.0
"""How long a planned move lets the batch under way finish. One that takes longer is cut off, as in a failover, and so
is one whose cluster has become silent.
"""


class FenceRequest(Message):
    checkpoint: str
    epoch: int
    operation: str
    attempt: int = 1
    """Which request of the operation this is."""
    hosting: Process | None
    """The process that hosted the query last; None if none ever did."""
    wait_seconds: float = 3.0
    """How long the runner may wait for a proof before it reports without."""
    finish_seconds: float = 0.0
    """How long the batch under way may take to finish before the run has to stop; 0: it stops at once."""
    cluster: str = ""
    """Where the query goes, so that its writer can be built while the move is under way."""
    to_time_ms: int | None = None
    """Rewind only: the time to go back to."""


class FenceReport(Message):
    checkpoint: CheckpointReport
    planted: tuple[int, ...]
    """Batch ids whose offset-log entry the fence holds, with those that an earlier attempt planted."""
    proof: Proof | None
    detail: str
    """What was seen, in one sentence; also when there is no proof."""


class UncommittedBatch(StrEnum):
    """What becomes of batch N+1, planned and not committed (``docs/concepts.md``, *Batch N+1*)."""

    NONE = "none"
    REPLAN = "replan"
    PROMOTE = "promote"
    BRIDGE = "bridge"


class PrepareRequest(Message):
    checkpoint: str
    target: str
    """Folder of the new checkpoint; it must not exist, or be an earlier attempt of this very operation. Switch: the
    checkpoint itself, beside which a mapping is written."""
    operation: str
    epoch: int
    resume: str
    """``switch``, ``carry`` or ``fresh``."""
    cluster: str = ""
    """The cluster to which the query goes."""
    attempt: int = 1
    """Switch only: which attempt of the operation this is."""
    batch: int | None
    """N as resolved; the runner refuses with kind ``moved-on`` if the checkpoint says otherwise now."""
    offsets: Offsets
    """The old cluster's end offsets of N as resolved: compared likewise."""
    target_offsets: Offsets
    """The standby's offsets that stand for the end of N (of N+1 when promoted); topics by their standby names."""
    treatment: UncommittedBatch = UncommittedBatch.NONE
    planned_target_offsets: Offsets | None = None
    """Replan only: the standby's end offsets of N+1."""
    in_run: str | None = None
    """The run that is held in batch N+1 and continues in it there; a runner that cannot do that answers ``moved-on``.
    """
    back_to: int | None = None
    """Rewind with state only: the retained batch that the new checkpoint ends with; ``target_offsets`` stand for its
    end."""


class PrepareReport(Message):
    checkpoint: str
    data_batch: int
    """The first batch id that can hold new data: its commit proves the move."""
    files: int
    bytes: int
    seconds: float


class ReleaseRequest(Message):
    checkpoint: str
    planted: tuple[int, ...]
    prepared: str | None
    operation: str
    epoch: int | None = None
    """Of the operation when it gave the order; what it planted under a later one stays."""
    committed: bool = False
    """The operation is committed, and fenced the run of a runner that was lost: its entries go, its epochs stay."""
    fresh: bool = False
    """Nothing was made at ``prepared``: what is there was written by a run."""
    mapped: bool = False
    """A mapping may have been written beside the checkpoint: it goes, too."""
    below: str | None = None
    """Of an operation that a store lost: the folder below which its new checkpoints lie, if it made any."""
    reconciled: bool = False
    """The store was restored, and the place of the query is known: only what led there stays."""
    keeps: str | None = None
    """Reconciled only: the mapping by which the query came to its place; it stays, and what leads to it."""


class Failure(Message):
    """The result of a FAILED intent."""

    kind: str
    """``moved-on``, ``held``, ``no-space``, ``unreadable``, ``contradicted``, ``not-a-checkpoint``, ``empty``,
    ``file-system``, ``access-denied``, ``target-taken``, ``already-run``, ``overtaken``, ``store-unavailable``,
    ``withdrawn``, ``no-answer``, ``cleaned-away``, ``companion``, ``drill``, ``internal``."""
    text: str
    hint: str = ""
