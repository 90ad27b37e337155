"""Whether a standby is ready, before anything is down."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.readiness import READINESS_GATES, ReadinessFacts, judge_readiness
from state.model.entities import BucketRules, RulesFound, TopicPartition
from state.model.maintenance import PartitionCopy, ReplicationSample
from state.settings.connection_estimate import ConnectionNeed
from streaming.probe.answers import ClusterAnswers, Contradiction
from streaming.registry.wire import Agreement, SchemaAnswers, SchemaFinding
from streaming.resume.truncation import Finding, Standing
from tests.contract import samples
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import (
    GOOD,
    NOW,
    STANDBY,
    checked,
    query,
    reset,
    resolution,
    topic,
)

KEY = TopicPartition("t", 0)


def copy(partition: int = 0, age_ms: int | None = 0, records: int | None = 0, **changes: Any) -> PartitionCopy:
    made = PartitionCopy("t", partition, "t", 5_000, 5_000 - (age_ms or 0), age_ms, records, 5_000, "")
    return made._replace(**changes)


def copies(*found: PartitionCopy) -> ReadinessFacts:
    seen = ReplicationSample(source="east", target="west", sampled_at=NOW - timedelta(seconds=2), copies=found)
    return replace(READY, replication=seen)


BEFORE = replace(GOOD, fence="pending", operation=None)
READY = ReadinessFacts(facts=BEFORE, now=NOW, replication=None, topics={"t": topic()})
READY = copies(copy())
APPENDED = replace(topic(), timestamp_type="LogAppendTime")
UNKNOWN_TYPE = replace(topic(), timestamp_type=None)


def standing_of(finding: Finding, divergence: int | None = None) -> Standing:
    return Standing(source="orders", partition=KEY, offset=100, finding=finding, divergence=divergence)


def standing(*found: Standing) -> ReadinessFacts:
    return replace(READY, facts=replace(BEFORE, standings=found))


def at(*targets: object, **changes: Any) -> ReadinessFacts:
    return replace(READY, facts=replace(BEFORE, resolution=resolution(*targets, **changes)))  # type: ignore[arg-type]


def judged(name: str, condition: ReadinessFacts) -> Gate:
    return next(gate for gate in judge_readiness(condition).gates if gate.name == name)


def test_a_good_standby_is_ready() -> None:
    readiness = judge_readiness(READY)
    assert readiness.ready is True
    shown = readiness.as_json(NOW)
    assert (shown["query"], shown["ready"]) == ("q", True)
    assert shown["gates"] == [gate.as_json() for gate in readiness.gates]
    text = "west is 0.0 s behind east at most (t-0, 0 records); sampled 2 s ago"
    assert judged("replication-lag", READY).text.startswith(text)


LIED = ClusterAnswers(
    cluster="west", at=NOW, partitions=1,
    contradictions=(Contradiction(KEY, "w:1 (broker 1)", "its end went back from 10 to 4"),),
)  # fmt: skip
DIFFER = SchemaFinding(topic="t", part="value", agreement=Agreement.DIFFER, text="value of t: id 7 means two")


def kept(found: RulesFound) -> ReadinessFacts:
    fact = samples.fact(bucket=BucketRules(found, "rule tidy"))
    return replace(READY, facts=replace(BEFORE, fact=fact))


NEED = ConnectionNeed(cluster="west", per_second=20, queries=3, connections=20_000, largest=9000)
REFUSALS: list[tuple[str, ReadinessFacts, str, str]] = [
    ("retention-reach", at(place(exact=False), earliest_timestamps={KEY: 6_000}), "-1 s", "deleted records of t-0"),
    ("replication-lag", copies(copy(), copy(1, 60_500, 9)), "60.5 s", "60.5 s behind east at most (t-1, 9 records)"),
    ("replication-lag", copies(copy(age_ms=None, records=9, target_newest_ms=None)), "no record",
     "west holds no record of t-0, east holds 9"),
    ("replication-lag", copies(copy(0, 61_000), copy(1, None, None)), "61.0 s", "check the replicator"),
    ("time-comparable", replace(READY, topics={"t": APPENDED}), "LogAppendTime", "t on east uses LogAppendTime"),
    ("time-comparable", replace(READY, facts=replace(BEFORE, standby=replace(STANDBY, topics={"t": APPENDED}))),
     "LogAppendTime", "t on west uses LogAppendTime"),
    ("log-truncation", standing(standing_of(Finding.TRUNCATED, 80), standing_of(Finding.INTACT)),
     "1 partition", "log truncation on east: t-0 (read to 100, diverges at 80): records that were read are gone"),
    ("log-truncation", standing(standing_of(Finding.RECREATED)), "1 partition", "at an unknown offset"),
    ("schemas-agree", replace(READY, schemas=SchemaAnswers(at=NOW, findings=(DIFFER,))), "differ", "value of t: id 7"),
    ("checkpoint-kept", kept(RulesFound.RULES), "rules", "rule tidy: a start needs objects"),
    ("connections", replace(READY, connections=NEED), "1000.0 s", "3 queries opens about 20000 connections to west"),
    ("answers-consistent", replace(READY, answers=(LIED,)), "1 contradictions", "west: w:1 (broker 1) of t-0: its end"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "condition", "measured", "text"), REFUSALS)
def test_a_refusal_names_the_gate_the_number_and_what_to_look_at(
    name: str, condition: ReadinessFacts, measured: str, text: str
) -> None:
    gate = judged(name, condition)
    assert not gate.ok
    assert gate.measured == measured
    assert text in gate.text
    assert judge_readiness(condition).ready is False


def test_every_gate_of_readiness_can_refuse() -> None:
    assert {name for name, *_ in REFUSALS} == {check.__name__.replace("_", "-") for check in READINESS_GATES}


UNKNOWN_COPIES = copies(copy(), copy(1, None, None, note="east: UNSUPPORTED_VERSION: too old"))


def test_an_unmeasurable_gate_is_neither_ready_nor_refused() -> None:
    condition = UNKNOWN_COPIES
    gate = judged("replication-lag", condition)
    assert (gate.ok, gate.measured) == (False, "unknown")
    assert "the lag of 1 partition on west is unknown (t-1: east: UNSUPPORTED_VERSION: too old)" in gate.text
    assert judge_readiness(condition).ready is None
    worse = replace(condition, facts=replace(condition.facts, runners=()))
    assert judge_readiness(worse).ready is False


def test_an_unknown_replay_is_not_ready_because_automatic_mode_refuses_it() -> None:
    condition = at(place(exact=False, replay_records=None))
    gate = judged("replay", condition)
    assert (gate.ok, gate.measured) == (False, "unknown")
    assert judge_readiness(condition).ready is None


@pytest.mark.parametrize(
    ("name", "condition", "measured"),
    [
        ("replication-lag", copies(copy(note="east holds no record of this partition", newest_ms=None)), "0.0 s"),
        ("replication-lag", copies(copy(age_ms=None, records=0, note="LogAppendTime")), "0.0 s"),
        ("retention-reach", at(place(timestamp_ms=None), earliest_timestamps={KEY: 6_000}), "nothing deleted"),
        ("retention-reach", at(earliest_timestamps={KEY: 3_000}), "2 s"),
        ("retention-reach", at(place(exact=False, sent_again=True), earliest_timestamps={KEY: 6_000}),
         "nothing deleted"),
        ("time-comparable", replace(READY, facts=replace(BEFORE, settings=query(methods=["exact"])),
                                    topics={"t": APPENDED}), "not used"),
        ("time-comparable", replace(READY, topics={}), "CreateTime"),
        ("connections", replace(READY, connections=replace(NEED, connections=200)), "10.0 s"),
        ("checkpoint-kept", kept(RulesFound.NONE), "none"),
        ("time-comparable", replace(READY, topics={"t": UNKNOWN_TYPE}), "unknown"),
    ],
)  # fmt: skip
def test_a_harmless_condition_passes_its_gate(name: str, condition: ReadinessFacts, measured: str) -> None:
    gate = judged(name, condition)
    assert (gate.ok, gate.measured) == (True, measured)


def test_a_topic_that_does_not_say_whose_times_it_keeps_is_named() -> None:
    gate = judged("time-comparable", replace(READY, topics={"t": UNKNOWN_TYPE}))
    assert gate.text.startswith("cannot determine whether t on east uses CreateTime or LogAppendTime: ")


def test_without_a_place_only_what_is_known_is_judged() -> None:
    unplaced = replace(READY, facts=replace(BEFORE, resolution=None, choice=None))
    assert {gate.name for gate in judge_readiness(unplaced).gates} & {"replication-lag", "retention-reach"} == {
        "replication-lag"
    }
    unseen = replace(unplaced, replication=None)
    assert {gate.name for gate in judge_readiness(unseen).gates} & {"replication-lag", "retention-reach"} == set()


@pytest.mark.parametrize("finding", [Finding.INTACT, Finding.UNPROVEN, Finding.EXPIRED])
def test_only_records_that_were_read_and_are_gone_count_as_truncation(finding: Finding) -> None:
    gate = judged("log-truncation", standing(standing_of(finding)))
    assert gate.ok
    assert ("cannot be verified" in gate.text) == (finding is Finding.UNPROVEN)


def test_a_truncation_that_a_failover_survives_is_reported_all_the_same() -> None:
    found = standing(standing_of(Finding.TRUNCATED, 80))
    proven = replace(found, facts=replace(found.facts, resets=(reset(None),)))
    assert [gate.ok for gate in judge_readiness(proven).gates if gate.name == "log-truncation"] == [False]
    assert judged("log-truncation", proven).text.endswith("; west still holds them")


def test_a_cluster_that_is_away_leaves_what_the_check_before_found() -> None:
    before = checked("schemas-agree", "differ", "agree")
    away = replace(READY, facts=replace(BEFORE, checked=before))
    assert judged("schemas-agree", away).measured == "differ"
    requested = replace(away, schemas=SchemaAnswers(at=NOW, findings=()))
    assert "schemas-agree" not in {gate.name for gate in judge_readiness(requested).gates}, (
        "no record has an id any more"
    )
    lied = replace(READY, facts=replace(BEFORE, checked=checked("answers-consistent", "2 contradictions", "0")))
    assert not judged("answers-consistent", lied).ok
    mended = replace(lied, answers=(replace(LIED, contradictions=()),))
    assert judged("answers-consistent", mended).ok


def test_connections_of_unknown_partitions_are_unknown() -> None:
    gate = judged("connections", replace(READY, connections=replace(NEED, connections=None, unknown=("q", "r"))))
    assert (gate.ok, gate.measured, gate.text) == (False, "unknown", "the partitions of q, r are not known")
    assert "connections" not in {each.name for each in judge_readiness(READY).gates}


def test_rules_that_may_not_be_read_are_unknown_and_a_disk_has_none() -> None:
    gate = judged("checkpoint-kept", kept(RulesFound.UNKNOWN))
    assert (gate.ok, gate.measured, gate.text) == (False, "unknown", "rule tidy")
    assert "checkpoint-kept" not in {each.name for each in judge_readiness(READY).gates}
