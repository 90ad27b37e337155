"""How old copies are: which partitions have one, what is reported of each, and which one the sentence names."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.replication_age import (
    continued,
    counterparts,
    partitions_of,
    replication_json,
    replication_of,
    replication_text,
    worst_of,
)
from state.errors import Damaged
from state.model.entities import EndSample, TopicPartition
from state.model.maintenance import LATENCIES, PartitionCopy, ReplicationSample
from state.store.sql.columns import pack, unpack
from streaming.cluster_log import PartitionError
from streaming.resume.age import ReplicationAge
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, NOW, STANDBY, resolution, topic

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = int(NOW.timestamp() * 1000)
SEEN = NOW - timedelta(seconds=30)
TOO_OLD = PartitionError(name="UNSUPPORTED_VERSION", text="the broker does not know it", retriable=False)
APPENDED = replace(GOOD, standby=replace(STANDBY, topics={"t": replace(topic(), timestamp_type="LogAppendTime")}))
UNPLACED = replace(GOOD, resolution=None, choice=None)


def sample(**changes: Any) -> EndSample:
    values: dict[str, Any] = {
        "cluster": "east", "topic": "t", "partition": 0, "begin": 0, "end": 12, "newest_timestamp_ms": 5_000,
        "leader_epoch": 0, "topic_id": "i", "sampled_at": SEEN,
    }  # fmt: skip
    return EndSample(**{**values, **changes})


def age(here: int | None, there: int | None, seconds: float | None, records: int | None, **more: Any) -> ReplicationAge:
    return ReplicationAge(here, there, seconds=seconds, records=records, **more)


def row(facts: MoveFacts, of: ReplicationAge | None, *, live: bool = True) -> PartitionCopy:
    ages = {} if of is None else {KEY: of}
    (found,) = replication_of(facts, {KEY: KEY}, ages, {KEY: sample()}, NOW, live=live).copies
    return found


def replication(*copies: PartitionCopy) -> ReplicationSample:
    return ReplicationSample(source="east", target="west", sampled_at=NOW, copies=copies)


def copy(partition: int = 0, age_ms: int | None = 0, records: int | None = 0, **changes: Any) -> PartitionCopy:
    made = PartitionCopy("t", partition, "t", 5_000, 5_000 - (age_ms or 0), age_ms, records, NOW_MS, "")
    return made._replace(**changes)


# -- which partitions ------------------------------------------------------------------------------------------------
def test_partitions_are_those_described_or_else_those_sampled() -> None:
    ends = {KEY: sample(), TopicPartition("t", 7): sample(partition=7), TopicPartition("x", 0): sample(topic="x")}
    assert partitions_of(GOOD, {"t": topic(2), "x": topic(1)}, ends) == (KEY, OTHER)
    assert partitions_of(GOOD, {}, ends) == (KEY, TopicPartition("t", 7))
    assert partitions_of(replace(GOOD, route=None), {"t": topic(2)}, ends) == ()


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (GOOD, "partition counts differ (2 on east, 1 on west): lag cannot be compared"),
        (replace(GOOD, standby=replace(STANDBY, topics={"t": topic(2)})), OTHER),
        (replace(GOOD, standby=replace(STANDBY, topics={"t": topic(3)})), OTHER),
        (replace(GOOD, topics={"t": None}), "the route to west has no such topic"),
        (replace(GOOD, topics={"t": "east.t"}), "west has no topic east.t"),
        (replace(GOOD, standby=replace(STANDBY, reachable=False, error="no answer")),
         "west does not answer: no answer"),
        (replace(GOOD, standby=None), "west does not answer"),
    ],
)  # fmt: skip
def test_a_partition_has_its_copy_or_the_reason_why_not(facts: MoveFacts, found: object) -> None:
    assert counterparts(facts, [KEY, OTHER])[OTHER] == found


# -- what is reported of each ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("facts", "of", "age_ms", "records", "note"),
    [
        (GOOD, age(5_000, 4_000, 1.0, 3), 1_000, 3, ""),
        (UNPLACED, age(5_000, 4_000, 1.0, None), 1_000, None, ""),
        (replace(GOOD, resolution=resolution(place(exposure_records=8))), age(5_000, 4_000, 1.0, None), 1_000, 8, ""),
        (GOOD, age(None, None, 0.0, 0), 0, 0, "east holds no record of this partition"),
        (GOOD, age(5_000, None, None, 12), None, 12, "west holds no record of this partition"),
        (APPENDED, age(5_000, None, None, 12), None, 12, "west holds no record of this partition"),
        (APPENDED, age(5_000, 6_000, 0.0, 0), None, 0,
         "west uses LogAppendTime: timestamps cannot be compared"),
        (replace(APPENDED, resolution=None), age(5_000, 4_000, 1.0, 3), None, None,
         "west uses LogAppendTime: timestamps cannot be compared"),
        (UNPLACED, age(None, 4_000, None, None), None, None, "east did not return its largest timestamp"),
        (UNPLACED, age(5_000, 4_000, None, None, error=TOO_OLD), None, None,
         "east: UNSUPPORTED_VERSION: the broker does not know it"),
        (UNPLACED, age(5_000, None, None, None, error=TOO_OLD, by_standby=True), None, None,
         "west: UNSUPPORTED_VERSION: the broker does not know it"),
        (UNPLACED, None, None, None, "east does not answer and was never sampled"),
    ],
)  # fmt: skip
def test_an_age_is_known_or_it_says_why_not(
    facts: MoveFacts, of: ReplicationAge | None, age_ms: int | None, records: int | None, note: str
) -> None:
    found = row(facts, of)
    assert (found.age_ms, found.records, found.note) == (age_ms, records, note)


def test_a_silent_source_counts_as_it_was_sampled() -> None:
    assert row(GOOD, age(5_000, 4_000, 1.0, None), live=True).seen_ms == NOW_MS
    assert row(GOOD, age(5_000, 4_000, 1.0, None), live=False).seen_ms == NOW_MS - 30_000
    found = replication_of(GOOD, {KEY: "west does not answer"}, {}, {KEY: sample()}, NOW, live=False).copies[0]
    assert (found.newest_ms, found.target_newest_ms, found.age_ms) == (5_000, None, None)
    silent = replication_of(GOOD, {KEY: KEY}, "both are away", {}, NOW, live=True).copies[0]
    assert (silent.newest_ms, silent.seen_ms, silent.note) == (None, None, "both are away")


# -- how late copies are stamped -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("facts", "of", "latencies"),
    [
        (APPENDED, age(5_000, 5_800, 0.0, 0), {"t": (800,)}),
        (APPENDED, age(5_000, 4_100, 0.9, 0), {"t": (-900,)}),
        (APPENDED, age(5_000, None, None, 12), {}),
        (replace(APPENDED, resolution=resolution(place(exposure_records=1))), age(5_000, 4_100, 0.9, 1), {}),
        (GOOD, age(5_000, 4_100, 0.9, 0), {}),
    ],
)
def test_how_late_a_standby_stamps_is_known_where_its_copy_is_whole(
    facts: MoveFacts, of: ReplicationAge, latencies: dict[str, tuple[int, ...]]
) -> None:
    assert replication_of(facts, {KEY: KEY}, {KEY: of}, {KEY: sample()}, NOW, live=True).latencies == latencies


def test_samples_of_the_same_route_are_continued_and_bounded() -> None:
    first = replace(replication(), latencies={"t": (5,), "gone": (1,)})
    second = replace(replication(), latencies={"t": (7,)})
    assert continued(second, first).latencies == {"t": (5, 7), "gone": (1,)}
    assert continued(second, replace(first, target="south")).latencies == {"t": (7,)}
    assert continued(second, None) == second
    stamped = replace(first, stamps={"t": "LogAppendTime", "gone": "CreateTime"})
    assert continued(second, stamped).stamps == stamped.stamps
    assert continued(replace(second, stamps={"t": "CreateTime"}), stamped).stamps["t"] == "CreateTime"
    assert continued(second, replace(stamped, target="south")).stamps == {}
    full = replace(first, latencies={"t": tuple(range(LATENCIES))})
    assert continued(second, full).latencies["t"] == (*range(1, LATENCIES), 7)


# -- the sentence ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("copies", "worst", "text"),
    [
        ((copy(), copy(1, 4_200, 17)), "t-1", "west is 4.2 s behind east at most (t-1, 17 records); sampled 12 s ago"),
        ((copy(), copy(1, 0, 3)), "t-1", "west is 0.0 s behind east at most (t-1, 3 records); sampled 12 s ago"),
        ((copy(0, 90_000, None), copy(1, None, 12, target_newest_ms=None)), "t-1",
         "west holds no record of t-1, east holds 12; sampled 12 s ago"),
        ((copy(0, 500, None), copy(1, None, None, note="why")), "t-0",
         ("west is 0.5 s behind east at most (t-0); the lag of 1 partition on west is unknown (t-1: why); "
         "sampled 12 s ago")),
        ((copy(0, 500, seen_ms=NOW_MS - 30_000),), "t-0",
         "west is 0.5 s behind east at most (t-0, 0 records); sampled 12 s ago, east last seen 42 s ago"),
        ((), None, "no partition of east is known; sampled 12 s ago"),
    ],
)  # fmt: skip
def test_the_sentence_names_the_worst_copy_and_the_age_of_the_sample(
    copies: tuple[PartitionCopy, ...], worst: str | None, text: str
) -> None:
    seen, later = replication(*copies), NOW + timedelta(seconds=12)
    found = worst_of(seen)
    assert (found.name if found else None) == worst
    assert replication_text(seen, later) == text
    shown = replication_json(seen, later)
    assert shown is not None
    assert (shown["text"], shown["sample_age_seconds"]) == (text, 12.0)
    assert replication_json(None, later) is None


# -- as it is kept ---------------------------------------------------------------------------------------------------
def test_3500_copies_are_one_small_value() -> None:
    many = replication(*(copy(n, n % 900, n, newest_ms=NOW_MS - n * 7 % 5_000) for n in range(3_500)))
    packed = pack(many)
    assert unpack(packed) == many
    assert len(packed) < 60_000


@pytest.mark.parametrize("packed", [b"", b"nothing", pack(replication())[:-3]])
def test_an_unreadable_sample_is_damaged(packed: bytes) -> None:
    with pytest.raises(Damaged):
        unpack(packed)
