"""Every gate with its measured number, its limit and its sentence: what lets through, what refuses, what is silent."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.decide.gates import loss
from orchestrator.decide.gates.checks import GATES, judge_move, refusal
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.preconditions import choose_runner, named_cluster
from orchestrator.decide.move_facts import (
    EventTimes,
    MirrorAnswer,
    MoveFacts,
    NamedCluster,
    Replicating,
    Reset,
    StandbyAnswer,
)
from orchestrator.decide.uncommitted_batch import BatchChoice
from state.messages import CheckpointReport, Planned, SinkMemory, SinkState, StateOperator, UncommittedBatch
from state.model.column_uses import Column, ColumnUse
from state.model.entities import Assignment, Desired, OperationKind, QueryFact, RunnerFact, TopicPartition
from state.model.maintenance import ReadinessFact
from state.model.pins import Placement
from state.plain_text import amount
from state.settings.keys import Detection, Output, Policy, Query, Route
from streaming.cluster_log import PartitionError, PartitionFacts, TopicFacts
from streaming.resume.model import Resolution, Target
from streaming.resume.truncation import Finding, Goto, Standing
from tests.contract import samples
from tests.contract.samples import EAST_ID, OTHER_ID, place

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ONE = PartitionFacts(leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))


def query(**changes: Any) -> Query:
    base: dict[str, Any] = {
        "pipeline": "a:b", "sources": {"s": {"topics": ["t"]}}, "clusters": ["east", "west"], "runners": ["a"],
        "checkpoint": "/c",
    }  # fmt: skip
    return Query.model_validate({**base, **changes})


def resolution(*targets: Target, **changes: Any) -> Resolution:
    return Resolution(targets=targets or (place(),), looked_up_at=NOW, seconds=0.1, **changes)


def topic(partitions: int = 1, error: PartitionError | None = None) -> TopicFacts:
    return TopicFacts(
        name="t", topic_id="i", partitions=dict.fromkeys(range(partitions), ONE), timestamp_type="CreateTime",
        cleanup_policy="delete", error=error,
    )  # fmt: skip


RUNNER = RunnerFact(
    runner="a", instance="i", site="one", host="h", boot_id="b", pid=1, pid_started=1, spark_master="local",
    application_id=None, warm=True, started_at=NOW, seen_at=NOW,
)  # fmt: skip
ASSIGNMENT = Assignment(
    query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="/c",
    starting_offsets=None, operation=None, changed_at=NOW,
)  # fmt: skip
REPORT = CheckpointReport(checkpoint="/c", batch=7, offsets={"s": {"t": {"0": 10}}})
FACT = samples.fact(query="q", epoch=1, checkpoint="/c", mapping=None, bucket=None)
STANDBY = StandbyAnswer(reachable=True, seconds=0.012, limit_seconds=1.0, topics={"t": topic()})
GOOD = MoveFacts(
    kind=OperationKind.FAILOVER, query="q", settings=query(), policy=Policy(), source="east", target="west",
    route=Route.model_validate({"from": "east", "to": "west"}), assignment=ASSIGNMENT, fact=FACT, runners=(RUNNER,),
    expect_active="east", standby=STANDBY, topics={"t": "t"}, report=REPORT, stateful=False, resolution=resolution(),
    choice=BatchChoice(treatment=UncommittedBatch.NONE, repeats=0, text=""), fence="runner", epoch=2, operation="op",
)  # fmt: skip


OF_PLANNED_MOVES = {"active-reachable", "replication-alive", "one-direction", "caught-up"}
OF_REPLICATION = {"replication-alive", "mirror-stopped"}
OF_MIRROR = MirrorAnswer(stopped=("t",), ends={TopicPartition("t", 0): 19})
MEANING = {"schemas-agree", "home-offsets", "offset-in-logic", "topic-in-logic", "headers-in-logic", "event-time"}
RUNNING = Replicating(proven=True, measured="1 s", text="the newest heartbeat copied from east is 1 s old")
STOPPED = Replicating(proven=False, measured="none", text="west.heartbeats on east holds no heartbeat of west")
AGAINST = Replicating(proven=True, measured="2 s", text="the newest heartbeat copied from west is 2 s old")
PLANNED = replace(GOOD, kind=OperationKind.SWITCHOVER, active=STANDBY, replicating=RUNNING, against=STOPPED)
SILENT = StandbyAnswer(reachable=False, seconds=2.0, limit_seconds=2.0, error="no bootstrap server answered")
STALE = Replicating(proven=False, measured="90 s", text="the newest heartbeat copied from east is 90 s old")
BEHIND = resolution(place(exact=False, replay_later_records=7, note="7 records are not there yet"))


def seen(
    cluster: str, pinned: str | None, by: Mapping[str, str] | None = None, configured: str | None = None
) -> NamedCluster:
    pin = samples.pin(cluster=cluster, id=pinned) if pinned else None
    return NamedCluster(cluster=cluster, configured=configured, pin=pin, seen=by or {})


EAST = seen("east", EAST_ID)
STATEFUL = replace(GOOD, stateful=True)
OLD = {"earliest_timestamps": {TopicPartition("t", 0): 6_000}}
GONE = resolution(place(exact=False, method="timestamp", begin=20), **OLD)
BY_TIME = resolution(place(exact=False, method="timestamp", replay_records=9))
FRESH = replace(GOOD, settings=query(resume="fresh"))
BRIDGE = BatchChoice(treatment=UncommittedBatch.BRIDGE, repeats=8, text="")


def standing_of(finding: Finding, divergence: int | None = None) -> Standing:
    return Standing(source="s", partition=TopicPartition("t", 0), offset=10, finding=finding, divergence=divergence)


def reset(goto: Goto | None) -> Reset:
    return Reset(source="s", partition=TopicPartition("t", 0), offset=10, divergence=8, goto=goto, policy="fail")


ATTACHED = query(pipeline=None, attach="shop", runners=["shop"])
TO_KAFKA = REPORT.model_copy(update={"sink_format": "kafka", "sink_memory": SinkMemory.NOTHING})
STAMPED = replace(STANDBY, topics={"t": replace(topic(), timestamp_type="LogAppendTime")})


def using(*uses: tuple[str, str], delay_ms: int | None = None, **changes: Any) -> MoveFacts:
    """Facts of a query whose logic uses these columns in these operators."""
    columns = tuple(ColumnUse("s", Column(name), operator, True, delay_ms) for name, operator in uses)
    return replace(GOOD, fact=replace(FACT, columns=columns), **changes)


def checked(name: str, measured: str, limit: str, *, ok: bool = False) -> ReadinessFact:
    """The last check, of which one gate said this."""
    gate = {"name": name, "ok": ok, "measured": measured, "limit": limit, "text": "as checked"}
    return samples.readiness(query="q", target="west", gates=(gate,))


def judged(name: str, facts: MoveFacts) -> Gate | None:
    return next((gate for gate in judge_move(facts) if gate.name == name), None)


def test_good_facts_pass_every_gate_that_speaks() -> None:
    found = judge_move(GOOD)
    assert [gate for gate in found if not gate.ok] == []
    assert refusal(found) is None
    assert {gate.name for gate in found} == {check.__name__.replace("_", "-") for check in GATES} - {
        "checkpoint-whole",
        "pipeline-fits",
        "cluster-identity",
        "log-truncation",
        "repeats-into-state",
        "fresh-allowed",
        "sink-declared",
        "sink-follows",
        "output-copied",
        "mirror-stopped",
        "not-beyond-mirrored",
        "upstream-output",
        "answers-consistent",
        "schemas-agree",
        "home-offsets",
        "headers-in-logic",
        "moves-together",
        *OF_PLANNED_MOVES,
    }


def test_a_partition_that_two_sources_read_is_named_once() -> None:
    behind = [place(source=source, exact=False, replay_later_records=7) for source in ("s", "again")]
    gate = judged("caught-up", replace(PLANNED, resolution=resolution(*behind), fence="runner"))
    assert gate is not None
    assert gate.text.count("t-0") == 1


@pytest.mark.parametrize(("measured", "ok", "attended", "passes"), [
    ("agree", True, False, True),
    ("not checked", True, False, True),
    ("unknown", False, True, True),
    ("unknown", False, False, False),
    ("differ", False, True, False),
])  # fmt: skip
def test_a_gate_of_the_last_check_lets_the_unknown_pass_for_a_person_only(
    measured: str, ok: bool, attended: bool, passes: bool
) -> None:
    facts = replace(GOOD, attended=attended, checked=checked("schemas-agree", measured, "agree", ok=ok))
    gate = judged("schemas-agree", facts)
    assert gate is not None
    assert gate.ok is passes
    again = judged("schemas-agree", replace(facts, checked=samples.readiness(gates=(gate.as_json(),))))
    assert again == gate, "what a check without the other cluster keeps does not grow"


def test_a_planned_move_has_gates_of_its_own_instead_of_exposure() -> None:
    found = judge_move(PLANNED)
    assert [gate for gate in found if not gate.ok] == []
    assert {gate.name for gate in found} - {gate.name for gate in judge_move(GOOD)} == OF_PLANNED_MOVES
    assert {gate.name for gate in judge_move(GOOD)} - {gate.name for gate in found} == {"exposure"}


def test_a_planned_move_that_is_cut_short_is_judged_as_a_failover() -> None:
    behind = replace(PLANNED, resolution=BEHIND, active=SILENT, consents=frozenset({"failover"}))
    assert {gate.name for gate in judge_move(behind)} == {gate.name for gate in judge_move(GOOD)}


@pytest.mark.parametrize(
    "target",
    [
        {"exact": False, "sent_again": True},
        {"exact": False, "method": "timestamp", "replay_records": 0, "replay_later_records": None},
        {"replay_later_records": 1},
        {"replay_later_records": None},
        {"replay_records": None},
    ],
)
def test_a_place_that_may_repeat_or_lose_is_not_caught_up(target: dict[str, Any]) -> None:
    gate = judged("caught-up", replace(PLANNED, resolution=resolution(place(**target), place(partition=1))))
    assert gate is not None
    assert not gate.ok
    assert gate.measured == "1 of 2 partitions"


def test_a_runner_that_could_start_the_query_comes_first() -> None:
    hosting, warm = replace(RUNNER, plans={"q": "old news"}), replace(RUNNER, runner="b", plans={"q": "it raises"})
    cold = replace(RUNNER, runner="c", warm=False)
    fit, settings = replace(warm, runner="d", plans={"q": ""}), query(runners=["b", "c"])
    assert choose_runner((warm, cold), settings, ASSIGNMENT) == cold
    assert choose_runner((warm, cold, fit), settings, ASSIGNMENT) == fit
    assert choose_runner((warm, cold, hosting), settings, ASSIGNMENT) == hosting
    assert judged("pipeline-fits", replace(GOOD, runners=(warm, cold, hosting))) is None
    fits = judged("pipeline-fits", replace(GOOD, runners=(replace(warm, plans={"q": ""}),)))
    assert fits is not None
    assert fits.ok


def test_a_runner_that_must_restart_a_held_run_has_to_be_able_to() -> None:
    planned = Planned(batch=8, offsets={"s": {"t": {"0": 30}}}, sink=SinkState.UNKNOWN, held=True, run_id="r")
    hosting = replace(GOOD, runners=(replace(RUNNER, plans={"q": "it raises"}),))
    held = replace(hosting, report=REPORT.model_copy(update={"planned": planned}))
    gate = judged("pipeline-fits", replace(held, choice=BRIDGE))
    assert gate is not None
    assert (gate.ok, gate.measured) == (False, "does not fit")
    assert judged("pipeline-fits", replace(held, choice=replace(BRIDGE, in_run="r"))) is None
    assert judged("pipeline-fits", hosting) is None


def test_an_unknown_position_is_not_a_checkpoint_without_batches() -> None:
    empty = REPORT.model_copy(update={"batch": None, "offsets": {}})
    unnamed = REPORT.model_copy(update={"offsets": {}})
    for facts, text in (
        (replace(GOOD, operation=None, report=empty), "no runner has reported a committed batch of q since it started"),
        (replace(GOOD, report=empty), "the checkpoint /c holds no committed batch"),
        (replace(GOOD, report=unnamed), "batch 7 of /c is committed, but its offsets name no partition"),
    ):
        gate = judged("position-known", facts)
        assert gate is not None
        assert not gate.ok
        assert gate.text.startswith(text)


def test_facts_that_are_not_known_keep_their_gates_silent() -> None:
    bare = MoveFacts(
        kind=OperationKind.FAILOVER, query="q", settings=query(), policy=Policy(), source="east", target="west"
    )
    assert [gate.name for gate in judge_move(bare)] == ["assigned", "no-operation-open", "route-declared"]


REFUSALS: list[tuple[str, MoveFacts, str, str, str]] = [
    ("store-current", replace(GOOD, fact=replace(FACT, epoch=4)), "epoch 4 runs", "epoch 1 running",
     "the store knows only epoch 1: the store was restored from an older backup; tideover reconcile q"),
    ("store-current", replace(GOOD, assignment=replace(ASSIGNMENT, desired=Desired.HELD)), "epoch 1 runs",
     "epoch 1 held", "under epoch 1, but in the store it is held: the store was restored"),
    ("store-current", replace(GOOD, fact=replace(FACT, checkpoint="/c/epoch-1")), "epoch 1 runs", "epoch 1 running",
     "but in the store it is on east with /c"),
    ("store-current", replace(GOOD, assignment=None), "epoch 1 runs", "no assignment",
     "the store has no assignment of it"),
    ("checkpoint-whole", replace(GOOD, fact=replace(FACT, contradicted="/c: metadata is missing")),
     "files are missing", "every file that was there",
     "/c: metadata is missing: restore the files, or accept what lies there: tideover reconcile q --consent repeats"),
    ("assigned", replace(GOOD, assignment=None), "none", "an assignment", "q has never run"),
    ("expect-active", replace(GOOD, expect_active="west"), "east", "west", "q is on east, not on west"),
    ("not-already-there", replace(GOOD, target="east"), "east", "not east", "q is already on east"),
    ("no-operation-open", replace(GOOD, open_operation="x1"), "x1", "none", "operation x1 of this query is open"),
    ("route-declared", replace(GOOD, route=None), "none", "east to west", "no route is declared"),
    ("active-reachable", replace(PLANNED, active=SILENT), "no answer", "2 s",
     "east cannot be reached: no bootstrap server answered; use tideover failover q"),
    ("replication-alive", replace(PLANNED, replicating=STALE), "90 s", "proof that the replicator runs",
     "90 s old; start the replicator; --consent replication accepts it"),
    ("replication-alive", replace(PLANNED, kind=OperationKind.FAILBACK, replicating=STALE), "90 s",
     "proof that the replicator runs",
     "start the replicator from east to west, after replication was reversed (failback.md); --consent replication"),
    ("one-direction", replace(PLANNED, against=AGAINST), "2 s from west to east", "a replicator in one direction",
     "runs, too, and both keep the names of topics, so records go round in circles; stop it"),
    ("mirror-stopped", replace(GOOD, mirrors=MirrorAnswer(stopped=("u",), running={"t": "ACTIVE"})), "1 of 2 topics",
     "2 topics", "still mirrors on west: t (ACTIVE). No producer can write there, and the end of the log may be cut."),
    ("mirror-stopped", replace(GOOD, mirrors=MirrorAnswer(running={"t": None})), "0 of 1 topics", "1 topic",
     "the replicator knows no mirror t on west: correct routes.replicator; --consent replication accepts it"),
    ("mirror-stopped", replace(GOOD, mirrors=MirrorAnswer()), "no answer", "an answer of the replicator",
     "the replicator says nothing of a topic of q; --consent replication accepts it"),
    ("mirror-stopped", replace(GOOD, mirrors=MirrorAnswer(error="https://w answers 401")), "no answer",
     "an answer of the replicator", "https://w answers 401; --consent replication accepts it"),
    ("not-beyond-mirrored", replace(GOOD, mirrors=OF_MIRROR), "1 partition", "0 partitions",
     "t-0 would resume at 20, and was mirrored up to 19 only: what producers have written on west between the two"),
    ("caught-up", replace(PLANNED, resolution=BEHIND), "0 of 1 partitions", "1 partition",
     "west lacks 7 records that q has read (t-0: 7 records are not there yet)"),
    ("output-copied", replace(PLANNED, handed_on="o", written=(place(), place(topic="o", exact=False, note="late"))),
     "1 of 2 partitions", "2 partitions", "records of o, which q writes and another query reads (o-0: late)"),
    ("upstream-output", replace(GOOD, resolution=resolution(place(), place(target_partition=1)),
     begun={TopicPartition("t", 0): ("w", 18), TopicPartition("t", 1): ("w", 20)}), "1 partition", "0 partitions",
     "after records that w may have written since it moved to west, up to 2, and never read them (t-0). Records were"),
    ("route-declared", replace(GOOD, topics={"t": None}), "none", "east to west", "the route has no topic t"),
    ("route-declared", replace(GOOD, topics={"t": "x", "u": "x", "v": "v"}), "none", "east to west",
     "the copies of t, u have one name, and one offset cannot be the resume offset of both"),
    (
        "pipeline-fits", replace(GOOD, runners=(replace(RUNNER, runner="b", plans={"q": "it keeps no state"}),)),
        "does not fit", "starts from the checkpoint in use", "runner b cannot take over q: it keeps no state",
    ),
    ("moves-together", replace(GOOD, companions={"b": None, "c": "north"}), "c to north", "all queries of ", "wait"),
    ("runner-alive", replace(GOOD, runners=()), "none", "one of a", "tideover run --name a"),
    ("cluster-identity", replace(GOOD, names=(seen("east", EAST_ID, {"runner:a": OTHER_ID}), seen("west", OTHER_ID))),
     f"east {OTHER_ID}; west not seen", f"east {EAST_ID}; west {OTHER_ID}",
     f"east leads to cluster {OTHER_ID}, but was cluster {EAST_ID} until now: correct bootstrap; if it was"),
    ("cluster-identity", replace(GOOD, names=(seen("east", EAST_ID, {"runner:a": OTHER_ID}), seen("west", OTHER_ID))),
     f"east {OTHER_ID}; west not seen", f"east {EAST_ID}; west {OTHER_ID}",
     "on purpose: tideover accept-cluster east (seen by runner:a)"),
    ("cluster-identity", replace(GOOD, names=(EAST, seen("west", None, {"controller:one": EAST_ID}, OTHER_ID))),
     f"east not seen; west {EAST_ID}", f"east {EAST_ID}; west {OTHER_ID}", "clusters.west.id says"),
    ("cluster-identity", replace(GOOD, names=(EAST, seen("west", OTHER_ID)), standby=replace(STANDBY, reachable=False,
     stranger=EAST_ID)), f"east not seen; west {EAST_ID}", f"east {EAST_ID}; west {OTHER_ID}", "seen by this process"),
    ("standby-reachable", replace(GOOD, standby=replace(STANDBY, reachable=False, error="refused")),
     "no answer", "1 s", "west cannot be reached: refused"),
    ("topics-present", replace(GOOD, standby=replace(STANDBY, topics={})), "0 of 1", "1 topics", "no topic t"),
    ("topics-present", replace(GOOD, standby=replace(STANDBY, topics={"t": topic(0)})), "0 of 1", "1 topics", "t"),
    ("partitions-present", replace(GOOD, report=REPORT.model_copy(update={"offsets": {"s": {"t": {"0": 1, "1": 1}}}})),
     "t has 1 of 2", "every partition of the checkpoint", "cannot be carried to fewer"),
    ("position-known", replace(GOOD, report=REPORT.model_copy(update={"batch": None, "offsets": {}})),
     "no committed batch", "a committed batch", "no position to carry"),
    ("fence", replace(GOOD, fence="none"), "none", "runner, process, application or consent", "consent unfenced"),
    ("log-truncation", replace(GOOD, standings=(standing_of(Finding.TRUNCATED, 8), standing_of(Finding.INTACT))),
     "1 partition", "0 partitions", "log truncation on east: t-0 (read to 10, diverges at 8): records that were read"),
    ("log-truncation", replace(GOOD, standings=(standing_of(Finding.RECREATED),), resets=(reset(Goto.NOWHERE),)),
     "1 partition", "0 partitions", "diverges at an unknown offset"),
    ("place-found", replace(GOOD, resolution=resolution(place(target_offset=None, note="standby lags"))),
     "0 of 1", "1 partition", "no resume offset for t-0: standby lags"),
    ("place-found", replace(GOOD, resolution=replace(resolution(), targets=())), "0 of 0", "0 partitions",
     "no partition was looked up"),
    ("retention", replace(GOOD, resolution=GONE), "1 partition", "0 partitions", "consent gap"),
    ("timestamp-type", replace(GOOD, resolution=resolution(place(method="timestamp", exact=False),
     timestamp_types={"t": "LogAppendTime"})), "LogAppendTime", "CreateTime where time decides", "consent repeats"),
    ("partitions-match", replace(GOOD, resolution=resolution(place(exact=False, method="timestamp", replay_records=9),
     fewer_partitions={"t": (4, 8)})), "t: 4 on east, 8 on west", "the same partitions", "resume at one common time"),
    ("exposure", replace(GOOD, resolution=resolution(place(exposure_seconds=60.5))), "60.5 s", "60 s", "consent loss"),
    ("exposure", replace(GOOD, attended=False, resolution=resolution(place(), place(partition=1, exposure_seconds=None,
     exposure_records=None))), "unknown", "60 s", "it is unknown what the standby lacks of t-1; --consent loss"),
    ("replay", replace(GOOD, resolution=resolution(place(replay_records=1_000_001))),
     "1000001 records", "1000000 records", "consent repeats"),
    ("replay", replace(GOOD, policy=Policy(max_replay=7), choice=BRIDGE), "8 records", "7 records", "read twice"),
    ("replay", replace(GOOD, attended=False, resolution=resolution(place(exact=False, replay_records=None))),
     "unknown", "1000000 records", "an unknown number of records would be read twice; --consent repeats"),
    ("repeats-into-state", replace(STATEFUL, resolution=BY_TIME), "9 records", "0 records", "replay_safe"),
    ("repeats-into-state", replace(STATEFUL, resolution=resolution(place(exact=False, replay_records=None))),
     "unknown", "0 records", "t-0"),
    ("fresh-allowed", replace(FRESH, stateful=True), "the query keeps state", "stateless", "consent fresh"),
    ("fresh-allowed", replace(GOOD, settings=query(resume="fresh", sink="batch-id")),
     "its sink drops batches whose id it knows", "stateless", "would lose whole batches without an error"),
    ("fresh-allowed", replace(FRESH, report=REPORT.model_copy(update={"other_sources": 1})),
     "it reads other sources than Kafka", "stateless", "would read those again from their beginning"),
    ("fresh-allowed", replace(FRESH, report=REPORT.model_copy(update={"sink_memory": SinkMemory.BATCH})),
     "its sink drops batches whose id it knows", "stateless", "would lose whole batches without an error"),
    ("offset-in-logic", using(("offset", "dropDuplicates"), ("partition", "dropDuplicates"),
                              resolution=resolution(place(offset=80, target_offset=20))),
     "dropDuplicates: offset", "not used",
     "dropDuplicates uses offset, partition: offsets of west differ, so up to 60 records that were not seen before"),
    ("answers-consistent", replace(GOOD, checked=checked("answers-consistent", "1 contradictions", "0 contradictions")),
     "1 contradictions", "0 contradictions", "as checked; --consent gap accepts the records that may be skipped"),
    ("schemas-agree", replace(GOOD, checked=checked("schemas-agree", "differ", "agree")),
     "differ", "agree", "as checked; --consent columns accepts the other schemas"),
    ("home-offsets", replace(GOOD, settings=query(home_offsets=True), runners=(replace(RUNNER, companion=False),)),
     "carry", "switch", "a has no companion, so q would resume by carry, which does not continue the offsets of east"),
    ("topic-in-logic", using(("topic", "groupBy"), topics={"t": "east.t"}), "groupBy: topic", "not used",
     "groupBy uses topic: t is east.t on west, so records would be counted in other groups"),
    ("headers-in-logic", using(("headers", "filter"), attended=False), "unknown", "not used",
     "it is unknown which headers the replicator of west adds or leaves out"),
    ("event-time", using(("timestamp", "withWatermark"), delay_ms=10_000, standby=STAMPED,
                         times=EventTimes(stamps={"t": "CreateTime"}, latencies={"t": (-70_000, -500)})),
     "withWatermark: timestamp", "not used", "60 s of records would be late (stamped 70 s earlier than here)"),
    ("fresh-allowed", replace(FRESH, report=REPORT.model_copy(update={"sink_format": "com.example.sink"})),
     "it is unknown whether its sink com.example.sink drops batches whose id it knows", "stateless",
     "may lose whole batches without an error"),
    ("sink-declared", replace(GOOD, settings=query(sink="batch-id"), report=TO_KAFKA), "kafka, sink: batch-id",
     "a sink that does what", "keeps every batch"),
    ("sink-follows", replace(GOOD, settings=ATTACHED, report=TO_KAFKA, attended=False), "unknown", "an output that",
     "the Kafka sink of q writes to the cluster that the code of shop names, also while the query reads west"),
]  # fmt: skip


def test_partitions_that_were_only_added_need_no_consent() -> None:
    grown = resolution(place(), place(partition=1, target_partition=1, offset=0), fewer_partitions={"t": (1, 2)})
    gate = judged("partitions-match", replace(GOOD, resolution=grown))
    assert gate is not None
    assert gate.ok
    assert gate.measured == "t: 1 on east, 2 on west"


def test_topics_of_unknown_timestamp_type_are_not_comparable_nor_refused() -> None:
    by_time = place(method="timestamp", exact=False, replay_records=0)
    for types, measured, text in (({"t": "CreateTime"}, "CreateTime", "times are comparable"),
                                  ({}, "unknown", "cannot determine whether t on west uses CreateTime")):  # fmt: skip
        gate = judged("timestamp-type", replace(GOOD, resolution=resolution(by_time, timestamp_types=types)))
        assert gate is not None
        assert (gate.ok, gate.measured) == (True, measured)
        assert gate.text.startswith(text)


def test_records_that_may_come_later_are_announced_and_refuse_nothing() -> None:
    gate = judged("repeats-into-state", replace(STATEFUL, resolution=resolution(place(replay_later_records=4))))
    assert gate is not None
    assert gate.ok
    assert "4 records would be if the replicator runs again" in gate.text


@pytest.mark.parametrize(("name", "facts", "measured", "limit", "text"), REFUSALS)
def test_a_refusal_names_the_gate_the_number_and_the_limit(
    name: str, facts: MoveFacts, measured: str, limit: str, text: str
) -> None:
    gate = judged(name, facts)
    assert gate is not None
    assert not gate.ok
    assert gate.measured == measured
    assert gate.limit.startswith(limit)
    assert text in gate.text
    assert refusal(judge_move(facts)) is not None


@pytest.mark.parametrize("finding", [Finding.INTACT, Finding.UNPROVEN, Finding.EXPIRED])
def test_only_records_that_were_read_and_are_gone_count_as_truncation(finding: Finding) -> None:
    gate = judged("log-truncation", replace(GOOD, standings=(standing_of(finding),)))
    assert gate is not None
    assert gate.ok
    assert ("cannot be verified" in gate.text) == (finding is Finding.UNPROVEN)


@pytest.mark.parametrize(
    ("resets", "text"),
    [
        ((reset(None),), "west holds what was read, and the query resumes after it"),
        ((reset(Goto.DIVERGENCE),), "the query resumes at truncation offset"),
        ((), "east still holds what was read from it"),
    ],
)
def test_a_truncation_that_standby_or_policy_answers_refuses_nothing(resets: tuple[Reset, ...], text: str) -> None:
    gate = judged("log-truncation", replace(GOOD, standings=(standing_of(Finding.TRUNCATED, 8),), resets=resets))
    assert gate is not None
    assert gate.ok
    assert gate.text.endswith(text)


@pytest.mark.parametrize(
    ("settings", "report"),
    [(ATTACHED, REPORT), (query(), TO_KAFKA), (ATTACHED.model_copy(update={"output": Output(topic="out")}), TO_KAFKA)],
)
def test_only_a_kafka_sink_that_no_output_declares_may_stay_behind(settings: Query, report: CheckpointReport) -> None:
    assert judged("sink-follows", replace(GOOD, settings=settings, report=report, attended=False)) is None


@pytest.mark.parametrize("fact", [replace(FACT, sink="kafka"), replace(FACT, sink=None), None])
def test_between_two_runs_the_sink_is_that_of_the_last_run(fact: QueryFact | None) -> None:
    gate = judged("sink-follows", replace(GOOD, settings=ATTACHED, fact=fact, attended=False))
    assert gate is not None
    assert (gate.ok, gate.measured) == (False, "unknown")
    assert ("no run of shop has shown yet" in gate.text) == (fact is None or fact.sink is None)


def test_a_person_may_move_a_query_whose_sink_stays_behind_and_reads_it() -> None:
    gate = judged("sink-follows", replace(GOOD, settings=ATTACHED, report=TO_KAFKA))
    assert gate is not None
    assert (gate.ok, gate.measured) == (True, "unknown")
    assert "Declare output" in gate.text


def test_every_gate_can_refuse() -> None:
    assert {name for name, *_ in REFUSALS} == {check.__name__.replace("_", "-") for check in GATES}


@pytest.mark.parametrize(
    ("name", "consent"),
    [
        ("retention", "gap"),
        ("sink-declared", "repeats"),
        ("upstream-output", "gap"),
        ("not-beyond-mirrored", "gap"),
        ("timestamp-type", "repeats"),
        ("exposure", "loss"),
        ("partitions-match", "repeats"),
        ("replay", "repeats"),
        ("repeats-into-state", "repeats"),
        ("fresh-allowed", "fresh"),
        ("replication-alive", "replication"),
        ("mirror-stopped", "replication"),
        ("one-direction", "repeats"),
        ("answers-consistent", "gap"),
        ("schemas-agree", "columns"),
        ("home-offsets", "columns"),
        ("offset-in-logic", "columns"),
        ("topic-in-logic", "columns"),
        ("headers-in-logic", "columns"),
        ("event-time", "columns"),
    ],
)
def test_one_consent_opens_its_own_gate_and_no_other(name: str, consent: str) -> None:
    for gate_name, facts, *_ in REFUSALS:
        gate = judged(gate_name, replace(facts, consents=frozenset({consent})))
        assert gate is not None
        if gate_name == name:
            assert gate.ok
        elif (gate_name, consent) not in {(n, c) for n in ("replay", "repeats-into-state", "timestamp-type",
                                                         "partitions-match", "one-direction",
                                                         "sink-declared")
                                          for c in ("repeats",)} | {("retention", "gap"), ("upstream-output", "gap"),
                                                                    ("not-beyond-mirrored", "gap"),
                                                                    ("answers-consistent", "gap")
                                                                    } | {(n, "columns") for n in MEANING} | {
                                                                        (n, "replication") for n in OF_REPLICATION
                                                                    }:  # fmt: skip
            assert not gate.ok


@pytest.mark.parametrize(
    "facts",
    [
        replace(STATEFUL, resolution=BY_TIME, report=REPORT.model_copy(update={"deduplicates_ahead": True})),
        replace(STATEFUL, resolution=BY_TIME, settings=query(replay_safe=True)),
        replace(STATEFUL, resolution=resolution(place(exact=False, replay_records=0))),
        STATEFUL,
    ],
)
def test_repeats_that_cannot_reach_state_pass(facts: MoveFacts) -> None:
    gate = judged("repeats-into-state", facts)
    assert gate is not None
    assert gate.ok


@pytest.mark.parametrize(
    ("facts", "refuses"),
    [
        (STATEFUL, True),
        (replace(STATEFUL, attended=False), True),
        (replace(GOOD, attended=False), True),
        (GOOD, False),
        (replace(STATEFUL, settings=query(replay_safe=True)), False),
        (replace(STATEFUL, settings=query(replay_safe=True), attended=False), True),
        (replace(STATEFUL, consents=frozenset({"repeats"}), attended=False), False),
        (replace(STATEFUL, settings=query(resume="fresh")), False),
    ],
)
def test_a_number_is_waited_for_where_an_unknown_one_refuses(facts: MoveFacts, refuses: bool) -> None:
    assert loss.refuses_unknown_repeats(replace(facts, operation="op")) is refuses
    assert not loss.refuses_unknown_repeats(replace(facts, operation=None)), "who only looks does not wait"
    unknown = replace(facts, resolution=resolution(place(exact=False, replay_records=None)))
    gates = (judged("replay", unknown), judged("repeats-into-state", unknown))
    assert any(gate is not None and not gate.ok for gate in gates) is refuses


def test_a_place_whose_records_expired_is_a_gap_whatever_the_times_say() -> None:
    gate = judged("retention", replace(GOOD, resolution=resolution(place(exact=False, expired=True))))
    assert gate is not None
    assert (gate.ok, gate.measured, gate.limit) == (False, "1 partition", "0 partitions")


def test_a_place_at_the_begin_is_no_gap_where_nothing_was_deleted() -> None:
    facts = replace(GOOD, resolution=resolution(place(exact=False, begin=0, target_offset=0), **OLD))
    gate = judged("retention", facts)
    assert gate is not None
    assert gate.ok


def test_an_exact_place_at_the_begin_is_no_gap() -> None:
    gate = judged("retention", replace(GOOD, resolution=resolution(place(begin=20), **OLD)))
    assert gate is not None
    assert gate.ok


def test_an_unknown_exposure_or_replay_is_shown_and_left_to_the_operator() -> None:
    facts = replace(
        GOOD,
        resolution=resolution(place(exposure_records=None, exposure_seconds=None, replay_records=None, exact=False)),
    )
    for name in ("exposure", "replay"):
        gate = judged(name, facts)
        assert gate is not None
        assert (gate.ok, gate.measured) == (True, "unknown")


def test_a_fresh_start_bears_fewer_partitions() -> None:
    report = REPORT.model_copy(update={"offsets": {"s": {"t": {"0": 1, "1": 1}}}})
    gate = judged("partitions-present", replace(FRESH, report=report))
    assert gate is not None
    assert gate.ok


def test_a_promoted_batch_is_judged_at_its_own_end() -> None:
    facts = replace(
        GOOD,
        choice=BatchChoice(treatment=UncommittedBatch.PROMOTE, repeats=0, text=""),
        planned_resolution=resolution(place(target_offset=None, note="nowhere")),
    )
    gate = judged("place-found", facts)
    assert gate is not None
    assert not gate.ok


def test_state_is_known_from_the_operators_of_a_report() -> None:
    assert REPORT.model_copy(update={"operators": (StateOperator(id=0, name="x", partitions=1),)}).stateful
    assert loss.repeats(replace(GOOD, choice=BRIDGE)) == 8


def test_a_query_already_there_is_named_before_a_wrong_expectation() -> None:
    """Of two who type the same, the later one finds nothing left to do."""
    gate = refusal(judge_move(replace(GOOD, target="east", expect_active="west")))
    assert gate is not None
    assert gate.name == "not-already-there"


def test_the_planned_batchs_repeats_are_added_to_those_of_the_place() -> None:
    facts = replace(GOOD, choice=BRIDGE, resolution=resolution(place(replay_records=5)))
    assert loss.repeats(facts) == 13
    gate = judged("replay", replace(facts, policy=Policy(max_replay=12)))
    assert gate is not None
    assert (gate.ok, gate.measured) == (False, "13 records")


def test_a_buffer_makes_no_gap_smaller() -> None:
    """The place was at 5 s, the standby begins at 6 s: a buffer of a minute has been taken off already."""
    gone = resolution(place(exact=False, method="timestamp", begin=20, buffer_ms=60_000), **OLD)
    gate = judged("retention", replace(GOOD, resolution=gone))
    assert gate is not None
    assert not gate.ok


@pytest.mark.parametrize(("more", "passes"), [(0.0, True), (0.001, False)])
def test_an_exposure_may_be_as_long_as_the_limit_and_no_longer(more: float, passes: bool) -> None:
    seconds = GOOD.policy.max_exposure.total_seconds() + more
    gate = judged("exposure", replace(GOOD, resolution=resolution(place(exposure_seconds=seconds))))
    assert gate is not None
    assert gate.ok is passes


@pytest.mark.parametrize(("repeats", "ok"), [(0, True), (1, False), (None, False)])
def test_copies_behind_a_place_by_content_refuse_a_query_with_state(repeats: int | None, ok: bool) -> None:
    found = resolution(place(exact=repeats == 0, replay_records=repeats, note="the replicator sent them again"))
    gate = judged("repeats-into-state", replace(STATEFUL, resolution=found))
    assert gate is not None
    assert (gate.ok, gate.measured) == (ok, "unknown" if repeats is None else amount(repeats, "record"))


def test_automatic_mode_refuses_an_unknown_replay() -> None:
    found = resolution(place(exact=False, replay_records=None))
    for attended in (True, False):
        gate = judged("replay", replace(GOOD, resolution=found, attended=attended))
        assert gate is not None
        assert gate.ok is attended


def test_copies_behind_a_place_make_it_neither_gone_nor_anybody_elses() -> None:
    found = place(exact=False, sent_again=True, replay_records=4, begin=20)
    for name, changes in (("retention", OLD), ("partitions-match", {"fewer_partitions": {"t": (1, 2)}})):
        gate = judged(name, replace(GOOD, resolution=resolution(found, **changes)))
        assert gate is not None
        assert gate.ok, name


def test_an_unchanged_or_unseen_cluster_passes_and_its_ids_are_shown() -> None:
    names = (EAST, seen("west", OTHER_ID, {"controller:one": OTHER_ID, "runner:a": OTHER_ID}))
    gate = judged("cluster-identity", replace(GOOD, names=names))
    assert gate is not None
    assert gate.ok
    assert (gate.measured, gate.limit) == (f"east not seen; west {OTHER_ID}", f"east {EAST_ID}; west {OTHER_ID}")


def test_an_old_probe_report_says_nothing_of_who_has_a_name() -> None:
    look = samples.probe_report(cluster="west", cluster_id=EAST_ID, seen_at=NOW)
    for age, count in ((timedelta(0), 1), (timedelta(seconds=3), 1), (timedelta(seconds=3.1), 0)):
        known = named_cluster("west", None, [samples.pin(cluster="west", id=OTHER_ID)], [look], NOW + age, Detection())
        assert len(known.seen) == count
        gate = judged("cluster-identity", replace(GOOD, names=(EAST, known)))
        assert gate is not None
        assert gate.ok is not bool(count)


def behind_one_endpoint(leads_to: str, *, alive_for: frozenset[str]) -> tuple[NamedCluster, ...]:
    """East and west, and where their endpoint leads for the runner of the query."""
    ids = {"east": EAST_ID, "west": OTHER_ID}
    return tuple(
        replace(
            seen(cluster, None, {"runner:a": leads_to}, known),
            endpoint="dr",
            others={each: name for name, each in ids.items() if name != cluster},
            alive_for=alive_for if leads_to == known else frozenset(),
        )
        for cluster, known in ids.items()
    )


@pytest.mark.parametrize(("leads_to", "ok"), [(OTHER_ID, True), (EAST_ID, False)])
def test_a_query_may_leave_for_where_its_endpoint_leads_and_nowhere_else(leads_to: str, ok: bool) -> None:
    names = behind_one_endpoint(leads_to, alive_for=frozenset({"runner:a"}))
    gate = judged("cluster-identity", replace(GOOD, names=names, attended=False, operation=None))
    assert gate is not None
    assert gate.ok is ok
    if not ok:
        assert gate.text == f"endpoint dr leads to east now, cluster {EAST_ID}, and not to west (seen by runner:a)"


@pytest.mark.parametrize(
    ("changes", "ok", "measured"),
    [
        ({"attended": False, "operation": None}, False, "unknown"),
        ({"attended": True, "operation": None}, True, "unknown"),
        ({"attended": False, "operation": "op"}, True, "unknown"),
        ({"attended": False, "operation": None, "runners": ()}, True, f"east {OTHER_ID}; west {OTHER_ID}"),
    ],
    ids=["automatic", "typed", "begun already", "no runner yet"],
)
def test_behind_an_endpoint_its_runner_must_see_the_other_cluster(
    changes: dict[str, Any], ok: bool, measured: str
) -> None:
    names = behind_one_endpoint(OTHER_ID, alive_for=frozenset({"controller:one", "runner:b"}))
    gate = judged("cluster-identity", replace(GOOD, names=names, **changes))
    assert gate is not None
    assert (gate.ok, gate.measured) == (ok, measured)
    if measured == "unknown":
        assert gate.text == (
            "endpoint dr leads to west here, but runner a has not seen it there: q would wait until it does; "
            "tideover failover q moves it all the same"
        )


def test_a_query_may_leave_a_cluster_whose_name_another_took() -> None:
    taken = samples.pin(id=OTHER_ID, former=(Placement("q", 1, EAST_ID),))
    names = (
        NamedCluster(cluster="east", configured=None, pin=taken, seen={"runner:a": OTHER_ID}),
        seen("west", EAST_ID),
    )
    facts = replace(GOOD, names=names)
    gate = judged("cluster-identity", facts)
    assert gate is not None
    assert gate.ok
    assert gate.text == f"q last ran on the former east, cluster {EAST_ID}, which was replaced"
    assert replace(facts, assignment=replace(ASSIGNMENT, epoch=2, placed_epoch=2)).left is None
