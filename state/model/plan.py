"""The plan of one operation, as a value: what ``plan`` shows, what is carried out, and what the outcome is measured by.

A plan is JSON in the store, on the API and in the evidence; ``docs/programs.md`` lists its keys. It is parsed here once
and written here once. No other module reads one of its keys. A key that is missing was not known to the program that
wrote the plan, so its field is unknown. A key that is unknown here is kept and written again: a newer program wrote it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from state.json_object import SELDOM, WORDS, JsonObject, called, part, rows


class StandbyPartition(NamedTuple):
    """A partition of the standby as one source reads it."""

    source: str
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate(JsonObject):
    """One check's answer; ``text`` is a sentence for people."""

    name: str
    ok: bool
    measured: str = ""
    """What was measured."""
    limit: str = ""
    text: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpperBound(JsonObject):
    """What unknown numbers are at most; None: not even that is known."""

    exposure_records: int | None = None
    exposure_seconds: float | None = None
    replay_later_records: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedPartition(JsonObject):
    """One partition: where it was read to, where the query resumes on the standby, and what that costs."""

    source: str = ""
    topic: str = ""
    partition: int = 0
    offset: int | None = None
    """Read to, on the cluster that is left."""
    timestamp_ms: int | None = None
    buffer_ms: int | None = None
    target_topic: str = ""
    target_partition: int = 0
    target_offset: int | None = None
    """None: no resume offset was found."""
    method: str | None = None
    begin: int | None = None
    """First offset of the standby's log at the look-up."""
    end: int | None = None
    """End of the standby's log at the look-up."""
    replay_records: int | None = None
    replay_later_records: int | None = None
    exposure_records: int | None = None
    exposure_seconds: float | None = None
    at_most: UpperBound | None = field(default=None, metadata=part(UpperBound) | SELDOM)
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> StandbyPartition:
        """Its partition on the standby."""
        return StandbyPartition(self.source, self.target_topic, self.target_partition)

    @property
    def left(self) -> StandbyPartition:
        """Its partition on the cluster that is left."""
        return StandbyPartition(self.source, self.topic, self.partition)


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals(JsonObject):
    """Of all partitions together; None: unknown."""

    replay_records: int | None = None
    possible_replay_records: int | None = None
    replay_later_records: int | None = None
    exposure_records: int | None = None
    exposure_seconds: float | None = None
    at_most: UpperBound | None = field(default=None, metadata=part(UpperBound) | SELDOM)
    first_batch_records: int | None = None
    """Offsets that wait behind the resume offsets for the first batch: an upper bound of its records."""
    usual_batch_records: int | None = None
    exposure_sampled_at: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


class Witness(NamedTuple):
    """A record that was read last on the old cluster, by which a repeat is recognized."""

    timestamp_ms: int
    digest: bytes
    following: int
    """How many records were read after it."""

    @classmethod
    def of(cls, text: str) -> "Witness":
        """From ``timestamp_ms:digest:following``. Raises ``ValueError``."""
        at, digest, following = text.split(":")
        return cls(int(at), bytes.fromhex(digest), int(following))

    def as_json(self) -> str:
        return f"{self.timestamp_ms}:{self.digest.hex()}:{self.following}"


_EXPOSED = ("exposed_from", "exposed_to", "exposed_at_least", "exposed_at_most")


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowedPartition(JsonObject):
    """What one partition of the standby is measured by after the move, and what was measured so far."""

    source: str
    topic: str
    partition: int
    offset: int = 0
    """Up to here its log was looked at."""
    until: int = 0
    """Up to here it will be."""
    rewound: bool = field(default=False, metadata=SELDOM)
    """The query went back in time on its own cluster: all that it reads up to ``until`` is read again."""
    seen: int = 0
    new: int | None = field(default=None, metadata=SELDOM)
    new_after_ms: int | None = None
    """A record with a later time is new; None where times prove nothing."""
    repeated: int = 0
    exposed: int | None = None
    """Records of the old cluster that the standby lacked; None: unknown."""
    exposed_from: int | None = None
    exposed_to: int | None = None
    exposed_at_least: int | None = None
    exposed_at_most: int | None = None
    sampled_end: int | None = None
    """End of the old log as last sampled before the look-up."""
    records: tuple[Witness, ...] = field(default=(), metadata=rows(Witness))
    committed: bool = False
    """Whether the query reads only what is committed."""
    scattered: bool = field(default=False, metadata=SELDOM)
    """Its records may be in any partition of the topic."""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> StandbyPartition:
        return StandbyPartition(self.source, self.topic, self.partition)

    def as_json(self) -> dict[str, Any]:
        row = JsonObject.as_json(self)
        for key in _EXPOSED if self.exposed_from is None and self.exposed_to is None else ():
            del row[key]
        for key in ("new_after_ms", "sampled_end") if self.rewound else ():
            del row[key]
        return row


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed(JsonObject):
    """What an operation is measured by."""

    asked_at_ms: int | None = None
    """When the resume offsets were looked up."""
    compared: bool = False
    """Whether the exposure of every partition is known."""
    partitions: tuple[FollowedPartition, ...] = field(default=(), metadata=rows(FollowedPartition))
    more: Mapping[str, Any] = field(default_factory=dict)


class AwaitedRecord(NamedTuple):
    """A record that the query had read and the standby lacked."""

    timestamp_ms: int
    digest: bytes

    @classmethod
    def of(cls, text: str) -> "AwaitedRecord":
        """From ``timestamp_ms:digest``. Raises ``ValueError``."""
        at, _, digest = text.partition(":")
        return cls(int(at), bytes.fromhex(digest))

    def as_json(self) -> str:
        return f"{self.timestamp_ms}:{self.digest.hex()}"


@dataclass(frozen=True, kw_only=True, slots=True)
class AwaitedPartition(JsonObject):
    """Records that one partition of the standby lacked at the move, and that are read again when they come."""

    source: str
    topic: str
    partition: int
    offset: int = 0
    """Up to here its log was looked at."""
    announced: int = 0
    came: int = 0
    """How many of the remembered records have come."""
    records: tuple[AwaitedRecord, ...] = field(default=(), metadata=rows(AwaitedRecord))
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> StandbyPartition:
        return StandbyPartition(self.source, self.topic, self.partition)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedBuffer(JsonObject):
    """The buffer of one topic, and why it is that long."""

    topic: str
    buffer_ms: int | None = None
    measured: bool = False
    text: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class TruncatedPartition(JsonObject):
    """A partition whose log was cut, as Kafka's ``LogTruncationException`` reports it."""

    source: str
    topic: str
    partition: int
    offset: int | None = None
    divergent_offset: int | None = None
    resumes_at: str = ""
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadPartition(JsonObject):
    """Records before a resume offset that an earlier move left behind, and that no committed batch had read by then."""

    source: str
    topic: str
    partition: int
    records: int | None = None
    """At most this many; None: unknown."""
    at_least: int | None = field(default=None, metadata=SELDOM)
    """Where the number is in doubt; None where it is exact, or nothing is known of it."""
    operation: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedOutput(JsonObject):
    """The topic that the query writes, and by partition its end on the target when the query came."""

    topic: str
    ends: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRewind(JsonObject):
    """To which time a query goes back, and to which batch; None: not known before it has stopped."""

    to_time: str | None = None
    batch: int | None = None
    batch_planned_at: str | None = None
    retained_from: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun(JsonObject):
    """The run in which the batch under way continues."""

    run_id: str
    otherwise_repeats: int | None = None
    """What the sink may get twice where another run reads the batch."""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsBefore(JsonObject):
    """Rows that went through the run which the move ended."""

    batches: int = 0
    read: int = 0
    written: int | None = None
    dropped: int = 0
    usual_batch: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(JsonObject):
    """One operation's plan."""

    operation: str | None = None
    """None while it is only a plan."""
    kind: str = ""
    query: str = ""
    source: str = field(default="", metadata=called("from"))
    target: str = field(default="", metadata=called("to"))
    epoch: int | None = None
    resume: str = ""
    resume_text: str = ""
    batch: int | None = None
    """The last committed batch."""
    uncommitted_batch: str = ""
    fence: str = ""
    gates: tuple[Gate, ...] = field(default=(), metadata=rows(Gate))
    partitions: tuple[PlannedPartition, ...] = field(default=(), metadata=rows(PlannedPartition))
    starting_offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Topic, partition: Spark's ``startingOffsets`` for the standby."""
    totals: Totals = field(default_factory=Totals, metadata=part(Totals))
    refused: bool = False
    buffers: tuple[PlannedBuffer, ...] = field(default=(), metadata=rows(PlannedBuffer) | SELDOM)
    log_truncation: tuple[TruncatedPartition, ...] = field(default=(), metadata=rows(TruncatedPartition) | SELDOM)
    unread_before: tuple[UnreadPartition, ...] = field(default=(), metadata=rows(UnreadPartition) | SELDOM)
    output: PlannedOutput | None = field(default=None, metadata=part(PlannedOutput) | SELDOM)
    rewind: PlannedRewind | None = field(default=None, metadata=part(PlannedRewind) | SELDOM)
    in_run: PlannedRun | None = field(default=None, metadata=part(PlannedRun) | SELDOM)
    rows_before: RowsBefore | None = field(default=None, metadata=part(RowsBefore) | SELDOM)
    followed: Followed | None = field(default=None, metadata=part(Followed) | SELDOM)
    awaited: tuple[AwaitedPartition, ...] = field(default=(), metadata=rows(AwaitedPartition) | SELDOM)
    data_batch: int | None = field(default=None, metadata=SELDOM)
    """The batch whose commit proves the move; known once it is committed."""
    after: tuple[str, ...] = field(default=(), metadata=WORDS | SELDOM)
    """Queries whose moves are committed before this one begins."""
    wave: int | None = field(default=None, metadata=SELDOM)
    more: Mapping[str, Any] = field(default_factory=dict)

    def without_partitions(self) -> dict[str, Any]:
        """The JSON object but for the partitions, which a document has beside it."""
        return {key: value for key, value in self.as_json().items() if key != "partitions"}

    @property
    def refusing(self) -> tuple[Gate, ...]:
        """The gates that refuse."""
        return tuple(gate for gate in self.gates if not gate.ok)
