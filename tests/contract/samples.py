"""Values for the store's contract: the smallest legal ones, with every field open to change."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from state.model.automation import Schedule
from state.model.cluster_status import ClusterStatus, Layer, ProbeReport, Verdict
from state.model.entities import (
    Assignment,
    BucketRules,
    Desired,
    EndSample,
    Event,
    Fingerprint,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Position,
    QueryFact,
    Request,
    RulesFound,
    RunnerFact,
    RunState,
    SeenCheckpoint,
    Step,
)
from state.model.maintenance import (
    Disorder,
    PartitionCopy,
    ReadinessFact,
    ReplicationSample,
    StandbySample,
    TopicDisorder,
)
from state.model.measured import NOTHING, BatchRows, RowCounts
from state.model.pins import Pin
from state.model.plan import Plan, PlannedPartition
from state.store.controller_store import ControllerStore
from state.store.write_checks import CONTROLLER
from streaming.resume.model import Target

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TTL = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
EAST_ID, OTHER_ID = "MkU3OEVBNTcwNTJENDM2Qg", "4L6g3nShT-eMCtK--X86sw"


def term_of(store: ControllerStore, holder: str = "one") -> int:
    """Take the controllers' lease from any holder: a lease without time to live lapses at once."""
    lease = store.lead(CONTROLLER, holder, timedelta(0))
    assert lease is not None
    return lease.term


def assignment(**change: Any) -> Assignment:
    values: dict[str, Any] = {
        "query": "revenue",
        "epoch": 1,
        "placed_epoch": 1,
        "desired": Desired.RUNNING,
        "cluster": "east",
        "runner": "a",
        "checkpoint": "/checkpoints/revenue",
        "starting_offsets": {"orders": {"orders": {"0": 17}}},
        "operation": None,
        "changed_at": AT,
        "mapping": "1-op-0.1",
    }
    return Assignment(**(values | change))


def operation(**change: Any) -> Operation:
    values: dict[str, Any] = {
        "id": "op-1",
        "group": "group-1",
        "kind": OperationKind.FAILOVER,
        "query": "revenue",
        "source": "east",
        "target": "west",
        "epoch": 2,
        "phase": Phase.FENCING,
        "outcome": None,
        "actor": "operator",
        "reason": "east is gone",
        "consents": ("loss", "repeats"),
        "plan": Plan(kind="failover", partitions=(PlannedPartition(topic="orders", offset=1),)),
        "measured": NOTHING,
        "sentence": "fencing",
        "started_at": AT,
        "ended_at": None,
        "parameters": {"to_time": "2026-11-23T12:00:00+00:00", "batch": None},
    }
    return Operation(**(values | change))


def step(**change: Any) -> Step:
    values: dict[str, Any] = {"operation": "op-1", "sequence": 1, "name": "hold", "started_at": AT}
    return Step(**(values | change))


def event(**change: Any) -> Event:
    values: dict[str, Any] = {
        "sequence": None,
        "at": AT,
        "kind": "held",
        "query": "revenue",
        "operation": "op-1",
        "epoch": 2,
        "actor": "operator",
        "text": "revenue is held",
        "detail": {"from": "east"},
    }
    return Event(**(values | change))


def intent(**change: Any) -> Intent:
    values: dict[str, Any] = {
        "id": "intent-1",
        "operation": "op-1",
        "name": "fence",
        "kind": IntentKind.FENCE,
        "query": "revenue",
        "runner": "a",
        "epoch": 2,
        "request": {"checkpoint": "/checkpoints/revenue"},
        "state": IntentState.PENDING,
        "result": None,
        "created_at": AT,
        "ended_at": None,
    }
    return Intent(**(values | change))


def request(**change: Any) -> Request:
    values: dict[str, Any] = {
        "id": "request-1",
        "group": "group-1",
        "kind": OperationKind.FAILOVER,
        "query": "revenue",
        "target": "west",
        "expect_active": None,
        "actor": "operator",
        "reason": "east is gone",
        "consents": ("loss",),
        "created_at": AT,
        "parameters": {"to_time": "2026-11-23T12:00:00+00:00", "batch": None},
    }
    values["expires_at"] = change.get("created_at", AT) + 60 * SECOND
    return Request(**(values | change))


def runner(**change: Any) -> RunnerFact:
    values: dict[str, Any] = {
        "runner": "a",
        "instance": "a-1",
        "site": "one",
        "host": "host",
        "boot_id": "boot",
        "pid": 4711,
        "pid_started": 815,
        "spark_master": "local[*]",
        "application_id": None,
        "pod": "shop/driver/5e9a",
        "companion": True,
        "warm": True,
        "plans": {"revenue": "", "sums": "source orders is not read"},
        "started_at": AT,
        "seen_at": AT,
    }
    return RunnerFact(**(values | change))


def fact(**change: Any) -> QueryFact:
    values: dict[str, Any] = {
        "query": "revenue",
        "runner": "a",
        "instance": "a-1",
        "host": "host",
        "boot_id": "boot",
        "pid": 4711,
        "pid_started": 815,
        "spark_master": "local[*]",
        "application_id": None,
        "pod": "shop/driver/5e9a",
        "epoch": 1,
        "cluster": "east",
        "checkpoint": "/checkpoints/revenue",
        "state": RunState.RUNNING,
        "run_id": "run",
        "batch": 3,
        "offsets": {"orders": {"orders": {"0": 12}}},
        "started_at": AT,
        "first_commit_at": None,
        "progressed_at": AT,
        "input_rows": 0,
        "dropped_late_rows": None,
        "stateful": True,
        "deduplicates_ahead": None,
        "error": None,
        "held_by": None,
        "held_epoch": None,
        "reported_at": AT,
        "retained_from": AT - 60 * SECOND,
        "silent_since": None,
        "sink_took": False,
        "mapping": "1-op-0.1",
        "rows": RowCounts(2, 7, None, 1, BatchRows(2, 3, None, 0), (BatchRows(2, 3, None, 0), BatchRows(3, 4, 4, 1))),
        "columns": (),
        "seen": SeenCheckpoint("/checkpoints/revenue", 1, 4, 3, "8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2", True),
        "sink": "ForeachBatchSink",
        "contradicted": None,
        "bucket": BucketRules(RulesFound.RULES, "rule tidy of bucket b takes objects below c/"),
    }
    return QueryFact(**(values | change))


@cache
def ring(length: int, offset: int) -> tuple[Fingerprint, ...]:
    """Fingerprints of the records right before ``offset``, with a gap in the middle."""
    first = offset - length - (2**33 if length > 4 else 0)
    return tuple(
        Fingerprint(first + i if i < length // 2 else offset - length + i, 1_700_000_000_000 + i, bytes([i % 256] * 16))
        for i in range(length)
    )


def position(**change: Any) -> Position:
    values: dict[str, Any] = {
        "query": "revenue",
        "epoch": 1,
        "cluster": "east",
        "source": "orders",
        "topic": "orders",
        "partition": 0,
        "batch": 1,
        "offset": 2**40,
        "timestamp_ms": 1_700_000_000_000,
        "leader_epoch": 7,
        "topic_id": None,
        "ring": ring(32, 2**40),
        "dense": None,
        "tracked_at": AT,
    }
    return Position(**(values | change))


def end(**change: Any) -> EndSample:
    values: dict[str, Any] = {
        "cluster": "east",
        "topic": "orders",
        "partition": 0,
        "begin": 0,
        "end": 100,
        "newest_timestamp_ms": None,
        "leader_epoch": 1,
        "topic_id": "id",
        "sampled_at": AT,
    }
    return EndSample(**(values | change))


def probe_report(**change: Any) -> ProbeReport:
    values: dict[str, Any] = {
        "cluster": "east",
        "viewpoint": "controller:one",
        "instance": "one-1",
        "layer": Layer.READ,
        "fault": None,
        "kind": None,
        "text": "",
        "retriable": None,
        "latency_ms": 1.25,
        "seen_at": AT,
    }
    return ProbeReport(**(values | change))


def status(**change: Any) -> ClusterStatus:
    values: dict[str, Any] = {
        "cluster": "east",
        "verdict": Verdict.UP,
        "since": AT,
        "down_since": None,
        "reasons": ("it answers",),
        "first_failed_at": None,
        "leaderless": None,
        "unreadable": 0,
        "under_replicated": 0,
        "under_min_isr": None,
        "decided_at": AT,
        "term": 1,
    }
    return ClusterStatus(**(values | change))


def pin(**change: Any) -> Pin:
    values: dict[str, Any] = {"cluster": "east", "id": EAST_ID, "pinned_at": AT}
    return Pin(**(values | change))


def readiness(**change: Any) -> ReadinessFact:
    values: dict[str, Any] = {
        "query": "revenue",
        "target": "west",
        "ready": True,
        "gates": (
            {"name": "standby-reachable", "ok": True, "measured": "12 ms", "limit": "2 s", "text": "it answers"},
        ),
        "proven": 3,
        "partitions": 4,
        "since": AT,
        "sampled_at": AT,
    }
    return ReadinessFact(**(values | change))


def standby_sample(**change: Any) -> StandbySample:
    values: dict[str, Any] = {
        "query": "revenue", "sampled_at": AT, "source": "east", "target": "west", "ready": True,
        "exposure_records": 7, "exposure_seconds": 0.25, "copy_age_seconds": 1.0,
        "run_id": "run-1", "read_records": 600, "read_at": AT, "lag_records": 12,
    }  # fmt: skip
    return StandbySample(**(values | change))


def replication(**change: Any) -> ReplicationSample:
    values: dict[str, Any] = {
        "source": "east",
        "target": "west",
        "sampled_at": AT,
        "copies": (
            PartitionCopy("orders", 0, "east.orders", 5_000, 4_000, 1_000, 3, 6_000, ""),
            PartitionCopy("orders", 1, None, None, None, None, None, None, "the route to west has no such topic"),
        ),
        "stamps": {"orders": "LogAppendTime"},
    }
    return ReplicationSample(**(values | change))


def disorder(**change: Any) -> Disorder:
    values: dict[str, Any] = {
        "query": "revenue",
        "placed_epoch": 1,
        "cluster": "east",
        "topics": (TopicDisorder("orders", 31_000, 1_440, 1_700_000_000_000, 1_700_086_400_000),),
        "measured_at": AT,
    }
    return Disorder(**(values | change))


def held(store: ControllerStore) -> int:
    """One held query; returns the term."""
    store.adopt(assignment())
    term = term_of(store)
    assert store.hold(operation(), from_epoch=1, term=term, step=step(), event=event())
    return term


def schedule(**change: Any) -> Schedule:
    values: dict[str, Any] = {
        "id": "s-1",
        "kind": OperationKind.SWITCHOVER,
        "queries": ("revenue",),
        "target": "west",
        "cron": None,
        "zone": "UTC",
        "consents": (),
        "actor": "ann@desk",
        "reason": "maintenance",
        "created_at": AT,
        "next_at": AT + SECOND,
    }
    return Schedule(**(values | change))


def plan_of(operation: Operation) -> Any:
    """Its plan, as programs read it."""
    assert operation.plan is not None
    return operation.plan.as_json()


def place(**changes: Any) -> Target:
    """A resume offset that was proven, with nothing repeated or left behind."""
    base: dict[str, Any] = {
        "source": "s", "topic": "t", "partition": 0, "offset": 10, "timestamp_ms": 5_000, "buffer_ms": 0,
        "target_topic": "t", "target_partition": 0, "target_offset": 20, "method": "exact", "exact": True, "begin": 0,
        "end": 30, "replay_records": 0, "replay_later_records": 0, "exposure_records": 0, "exposure_seconds": 0.0,
        "note": "",
    }  # fmt: skip
    return Target(**{**base, **changes})
