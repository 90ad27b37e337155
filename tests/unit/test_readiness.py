"""Whether a standby is ready, before anything is down."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.gate import Gate
from orchestrator.decide.readiness import READINESS_GATES, Condition, judge
from state.model import EndSample, TopicPartition
from streaming.resume.truncation import Finding, Standing
from tests.unit.test_gates import GOOD, NOW, STANDBY, place, query, reset, resolution, topic

KEY = TopicPartition("t", 0)


def sample(**changes: Any) -> EndSample:
    values: dict[str, Any] = {
        "cluster": "east", "topic": "t", "partition": 0, "begin": 0, "end": 12, "newest_timestamp_ms": 5_000,
        "leader_epoch": 0, "topic_id": "i", "sampled_at": NOW - timedelta(seconds=2),
    }  # fmt: skip
    return EndSample(**{**values, **changes})


BEFORE = replace(GOOD, fence="pending", operation=None)
READY = Condition(facts=BEFORE, now=NOW, ends={KEY: sample()}, topics={"t": topic()})
APPENDED = replace(topic(), timestamp_type="LogAppendTime")


def stands(finding: Finding, divergence: int | None = None) -> Standing:
    return Standing(source="orders", partition=KEY, offset=100, finding=finding, divergence=divergence)


def standing(*found: Standing) -> Condition:
    return replace(READY, facts=replace(BEFORE, standings=found))


def at(*targets: object, **changes: Any) -> Condition:
    return replace(READY, facts=replace(BEFORE, resolution=resolution(*targets, **changes)))  # type: ignore[arg-type]


def judged(name: str, condition: Condition) -> Gate:
    return next(gate for gate in judge(condition).gates if gate.name == name)


def test_a_good_standby_is_ready() -> None:
    readiness = judge(READY)
    assert readiness.ready is True
    assert readiness.as_json() == {"query": "q", "ready": True, "gates": [gate.as_json() for gate in readiness.gates]}
    assert judged("replication-lag", READY).text == "west was 0 records behind east when its ends were sampled, 2 s ago"


REFUSALS: list[tuple[str, Condition, str, str]] = [
    ("retention-reach", at(earliest_timestamps={KEY: 6_000}), "-1 s", "oldest record of t-0 on west is younger"),
    ("replication-lag", at(place(exposure_seconds=60.5, exposure_records=9)), "60.5 s", "most of all t-0: look at"),
    ("replication-lag", at(place(begin=30, exposure_seconds=None)), "no record", "west holds no record of t-0"),
    ("replication-lag", at(place(exposure_seconds=61.0), place(partition=1, exposure_seconds=None)), "61.0 s",
     "behind"),
    ("time-comparable", replace(READY, topics={"t": APPENDED}), "LogAppendTime", "t on east has LogAppendTime"),
    ("time-comparable", replace(READY, facts=replace(BEFORE, standby=replace(STANDBY, topics={"t": APPENDED}))),
     "LogAppendTime", "t on west has LogAppendTime"),
    ("log-truncation", standing(stands(Finding.TRUNCATED, 80), stands(Finding.INTACT)),
     "1 partitions", "log truncation on east: t-0 (read to 100, parts at 80): records that were read are gone"),
    ("log-truncation", standing(stands(Finding.RECREATED)), "1 partitions", "at an unknown offset"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "condition", "measured", "text"), REFUSALS)
def test_a_refusal_names_the_gate_the_number_and_what_to_look_at(
    name: str, condition: Condition, measured: str, text: str
) -> None:
    gate = judged(name, condition)
    assert not gate.ok
    assert gate.measured == measured
    assert text in gate.text
    assert judge(condition).ready is False


def test_every_gate_of_readiness_can_refuse() -> None:
    assert {name for name, *_ in REFUSALS} == {check.__name__.replace("_", "-") for check in READINESS_GATES}


UNTOLD = at(place(exposure_seconds=None, exposure_records=None))


@pytest.mark.parametrize("condition", [UNTOLD, replace(UNTOLD, ends={})])
def test_what_cannot_be_measured_is_neither_ready_nor_refused(condition: Condition) -> None:
    gate = judged("replication-lag", condition)
    assert (gate.ok, gate.measured) == (False, "unknown")
    assert judge(condition).ready is None
    worse = replace(condition, facts=replace(condition.facts, runners=()))
    assert judge(worse).ready is False


def test_a_replay_that_nobody_can_tell_is_not_ready_as_automatic_mode_would_not_take_it() -> None:
    condition = at(place(exact=False, replay_records=None))
    gate = judged("replay", condition)
    assert (gate.ok, gate.measured) == (False, "unknown")
    assert judge(condition).ready is None


@pytest.mark.parametrize(
    ("name", "condition", "measured"),
    [
        ("replication-lag", replace(UNTOLD, ends={KEY: sample(end=0)}), "0.0 s"),
        ("replication-lag", at(place(exposure_seconds=None, exposure_records=0)), "0.0 s"),
        ("retention-reach", at(place(timestamp_ms=None), earliest_timestamps={KEY: 6_000}), "nothing deleted"),
        ("retention-reach", at(earliest_timestamps={KEY: 3_000}), "2 s"),
        ("time-comparable", replace(READY, facts=replace(BEFORE, settings=query(methods=["exact"])),
                                    topics={"t": APPENDED}), "not used"),
        ("time-comparable", replace(READY, topics={}), "CreateTime"),
    ],
)  # fmt: skip
def test_what_does_no_harm_passes(name: str, condition: Condition, measured: str) -> None:
    gate = judged(name, condition)
    assert (gate.ok, gate.measured) == (True, measured)


def test_without_a_place_only_what_is_known_is_judged() -> None:
    unplaced = replace(READY, facts=replace(BEFORE, resolution=None, choice=None))
    assert {gate.name for gate in judge(unplaced).gates} & {"replication-lag", "retention-reach"} == set()


@pytest.mark.parametrize("finding", [Finding.INTACT, Finding.UNPROVEN, Finding.EXPIRED])
def test_only_records_that_were_read_and_are_gone_count_as_truncation(finding: Finding) -> None:
    gate = judged("log-truncation", standing(stands(finding)))
    assert gate.ok
    assert ("cannot be proven" in gate.text) == (finding is Finding.UNPROVEN)


def test_a_truncation_that_a_failover_would_get_over_is_told_all_the_same() -> None:
    found = standing(stands(Finding.TRUNCATED, 80))
    proven = replace(found, facts=replace(found.facts, resets=(reset(None),)))
    assert [gate.ok for gate in judge(proven).gates if gate.name == "log-truncation"] == [False]
    assert judged("log-truncation", proven).text.endswith("; west holds them still")
