"""A world: what was written on the old cluster, what of it lies on the standby, and what the query remembers.

All values are plain, so that a world can be compared, made smaller and pasted into a test. What the resolver is given
(rings, times, samples, claims) is derived from them in ``question``: a smaller world makes no false claim.
Times are milliseconds since ``EPOCH_MS``; offsets are Kafka's; payloads are short texts in place of key and value.
"""

from dataclasses import dataclass

EPOCH_MS = 1_700_000_000_000
TOPIC = "orders"
SOURCE = "in"
SYNCS = "syncs"

COMMITTED = ""
ABORTED = "aborted"
OPEN = "open"
"""Its transaction had not ended."""
MARKER = "marker"
"""A control record: it has an offset and a time, and no reader is given it."""
GONE = "gone"
"""Compaction has removed it."""


@dataclass(frozen=True, slots=True)
class Written:
    """One data record of the old partition; markers and compacted records are offsets without one."""

    offset: int
    time: int
    payload: str
    state: str = COMMITTED


@dataclass(frozen=True, slots=True)
class Kept:
    """One record that was ever appended to the standby's partition."""

    offset: int
    time: int
    payload: str
    of: int | None = None
    """Offset of the old record that it is a copy of; None: another writer's, or a marker."""
    state: str = COMMITTED
    by: int | None = None
    """The old partition that ``of`` is an offset of; None: that of the same number."""


@dataclass(frozen=True, slots=True)
class Sample:
    """When the old partition was last sampled, and what its bounds were; the newest time follows from them."""

    end: int
    at: int
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition on both sides, and one query's position in it."""

    written: tuple[Written, ...]
    written_end: int
    kept: tuple[Kept, ...]
    kept_end: int
    position: int
    """Next offset to read on the old cluster."""
    next_copy: int
    """The old offset from which on the replicator continues."""
    kept_begin: int = 0
    """Retention has deleted everything before it."""
    stable: int | None = None
    """The standby's last stable offset; None: its end."""
    remembered: tuple[tuple[int, int], ...] = ()
    """Ranges of old offsets whose consumed records the ring holds."""
    ring_at: int | None = None
    """Where tracking stopped; None: it never began."""
    seen: tuple[tuple[int, int], ...] = ()
    """Ranges that were remembered once: of them the newest time is known."""
    proves: bool = True
    """Whether tracking could prove how dense the gap behind the ring is."""
    filtered: tuple[int, ...] = ()
    """Old offsets that the replicator will leave out when it comes to them."""
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class Lie:
    """One kind of question to the standby that is answered wrongly for one partition."""

    kind: str
    """``time-late``, ``time-early``, ``time-none``, ``stale-begin``, ``stale-end``, ``stale-newest``, ``no-newest``;
    ``end-ahead``: the log was cut since, and that no other answer is from before it."""
    amount: int = 1
    """By how many records or offsets."""
    partition: int = 0
    only: int | None = None
    """Only the question of this number, counted from 0; None: each of them."""


@dataclass(frozen=True, slots=True)
class World:
    """The partitions of one topic, and how the query and the clusters are set."""

    partitions: tuple[Partition, ...]
    now: int
    committed: bool = False
    """The query reads committed records only."""
    copies_committed: bool = False
    """The replicator copies committed records only."""
    append_time: bool = False
    """The standby stamps records itself."""
    compacted: bool = False
    buffer_ms: int = 900_000
    methods: tuple[str, ...] = ("exact", "timestamp")
    on_no_match: str = "fail"
    knows_type: bool = True
    """Whether the topic's configuration may be read."""
    per_fetch: int = 1_000
    """Records that one fetch returns at most."""
    keeps_offsets: bool = False
    """The route is said to keep offsets."""
    same_id: bool = False
    """Both sides carry one topic id."""
    sync_lag: int | None = None
    """The replicator writes an offset sync at least every so many records; None: the route names no topic of them."""
    syncs_lost: int = 0
    """So many of each partition's first offset syncs are gone, by compaction for instance."""
    segment_rows: int | None = None
    """The broker knows segment-level search, and a segment has so many offsets; None: it does not."""
    lie: Lie | None = None
    spread: bool = False
    """Another partitioner has put the copies of each partition into several (``spread``)."""
