"""Positions beside the log that they were read from: truncation, divergence, recreated topics, and the reset table.

Known cases of Kafka's ``SubscriptionStateTest`` and ``OffsetFetcherTest`` (truncation with and without a reset policy,
known and unknown divergence) and ``LeaderEpochFileCacheTest`` (which epoch a log answers with, and where it ends).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from state.model.entities import Position, TopicPartition
from streaming.cluster_log import EpochEnd, PartitionError
from streaming.resolve.comparison import validate
from streaming.resume.truncation import TABLE, Finding, LogNow, Situation, Standing, judge_log, resolved, truncation_of
from tests.memory_log import MemoryCluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = TopicPartition("orders", 0)


def position(
    offset: int = 100, leader_epoch: int | None = 5, *, topic_id: str | None = "id", partition: int = 0
) -> Position:
    return Position(
        query="revenue", epoch=1, cluster="east", source="orders", topic="orders", partition=partition, batch=7,
        offset=offset, timestamp_ms=None, leader_epoch=leader_epoch, topic_id=topic_id, ring=(), dense=None,
        tracked_at=NOW,
    )  # fmt: skip


def log(end: int = 200, *answer: int | None, begin: int = 0, topic_id: str | None = "id") -> LogNow:
    reported = EpochEnd(leader_epoch=answer[0], end_offset=answer[1]) if answer else None
    return LogNow(topic_id=topic_id, begin=begin, end=end, epoch_end=reported)


UNSUPPORTED = EpochEnd(
    leader_epoch=None,
    end_offset=None,
    error=PartitionError(name="UNSUPPORTED_VERSION", text="too old", retriable=False),
)

CASES: list[tuple[str, Position, LogNow, Finding, int | None, Situation | None]] = [
    ("its epoch goes on", position(), log(200, 5, 200), Finding.INTACT, None, None),
    ("its epoch ends right at it", position(), log(200, 5, 100), Finding.INTACT, None, None),
    ("its epoch ends before it", position(), log(200, 5, 80), Finding.TRUNCATED, 80, Situation.KNOWN),
    ("cut, and grown past it again", position(), log(5000, 5, 99), Finding.TRUNCATED, 99, Situation.KNOWN),
    ("an older epoch ends before it", position(), log(200, 3, 60), Finding.TRUNCATED, 60, Situation.KNOWN),
    ("an older epoch reaches to it", position(), log(200, 3, 150), Finding.TRUNCATED, None, Situation.UNKNOWN),
    ("its epoch is newer than the log", position(), log(200, None, None), Finding.TRUNCATED, None, Situation.UNKNOWN),
    ("cut to nothing", position(), log(0, 5, 0), Finding.TRUNCATED, 0, Situation.KNOWN),
    ("no epoch is known, the end went back", position(100, None), log(90), Finding.TRUNCATED, None, Situation.UNKNOWN),
    ("no epoch is known, inside the log", position(100, None), log(100), Finding.UNPROVEN, None, None),
    ("nobody can tell epochs, the end went back", position(), replace(log(90), epoch_end=UNSUPPORTED),
     Finding.TRUNCATED, None, Situation.UNKNOWN),
    ("nobody can tell epochs, inside the log", position(), replace(log(), epoch_end=UNSUPPORTED),
     Finding.UNPROVEN, None, None),
    ("retention went past it", position(), log(500, 5, 500, begin=101), Finding.EXPIRED, None, Situation.TOO_LOW),
    ("retention came up to it", position(), log(500, 5, 500, begin=100), Finding.INTACT, None, None),
    ("made anew, and longer", position(), log(500, 5, 500, topic_id="other"), Finding.RECREATED, 0, Situation.KNOWN),
    ("made anew, and empty", position(), log(0, None, None, topic_id="other"), Finding.RECREATED, 0, Situation.KNOWN),
    ("the cluster has no topic ids", position(), log(200, 5, 200, topic_id=None), Finding.INTACT, None, None),
    ("the position has no topic id", position(topic_id=None), log(200, 5, 200), Finding.INTACT, None, None),
    ("nothing was read", position(0, None), log(0), Finding.UNPROVEN, None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "now", "finding", "divergence", "situation"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_position_is_compared_with_its_log(
    at: Position, now: LogNow, finding: Finding, divergence: int | None, situation: Situation | None
) -> None:
    standing = judge_log(at, now)
    assert (standing.finding, standing.divergence, standing.situation) == (finding, divergence, situation), standing
    assert bool(standing.note) == (finding is not Finding.INTACT)


def test_a_partition_that_gives_no_answer_proves_nothing() -> None:
    standing = judge_log(position(), PartitionError(name="LEADER_NOT_AVAILABLE", text="no leader", retriable=True))
    assert (standing.finding, standing.note) == (Finding.UNPROVEN, "LEADER_NOT_AVAILABLE: no leader")


def test_the_error_names_partitions_and_offsets_of_divergence() -> None:
    standings = [
        judge_log(position(100), log(200, 5, 80)),
        judge_log(position(120), log(200, None, None)),
        judge_log(position(90, partition=1), log(200, None, None)),
        judge_log(position(90, partition=2), log(200, 5, 200)),
    ]
    error = truncation_of("east", standings)
    assert error is not None
    assert error.divergent_offsets == {KEY: 80, TopicPartition("orders", 1): None}
    assert str(error) == (
        "log truncation on east: orders-0 (read to 120, diverges at 80), orders-1 (read to 90, diverges "
        "at an unknown offset)"
    )
    assert truncation_of("east", standings[3:]) is None
    twice = truncation_of("east", [judge_log(position(100), log(200, 5, end)) for end in (80, 60, 70)])
    assert twice is not None
    assert twice.divergent_offsets == {KEY: 60}, "the earliest of several counts"


# -- the reset table: log [10, 200], cut at 80, closest by time at 70

RESETS = {
    "latest": (200, 200, 80, 200),
    "earliest": (10, 10, 80, 10),
    "closest": (10, 10, 80, 70),
    "fail": (None, None, None, None),
}


@pytest.mark.parametrize(
    ("policy", "situation", "offset"),
    [
        (policy, situation, offset)
        for policy, row in RESETS.items()
        for situation, offset in zip(Situation, row, strict=True)
    ],
)
def test_the_reset_table_is_that_of_the_document(policy: str, situation: Situation, offset: int | None) -> None:
    assert resolved(TABLE[policy, situation], begin=10, end=200, divergence=80, by_time=70) == offset


def test_closest_without_timestamps_is_the_end_and_stays_in_the_log() -> None:
    assert resolved(TABLE["closest", Situation.UNKNOWN], begin=10, end=200) == 200
    assert resolved(TABLE["latest", Situation.KNOWN], begin=90, end=200, divergence=80) == 90
    assert resolved(TABLE["closest", Situation.UNKNOWN], begin=10, end=60, by_time=70) == 60


# -- sent to a cluster


def cluster(records: int = 100) -> MemoryCluster:
    made = MemoryCluster("east")
    made.create("orders", 2)
    for partition in (0, 1):
        for offset in range(records):
            made.append("orders", partition, offset, b"d")
    return made


def standing(made: MemoryCluster, at: Position) -> Standing:
    (found,) = validate(made, [at], timeout=1)
    return found


def test_an_unclean_election_is_found_in_a_log_grown_past_the_position() -> None:
    made = cluster()
    at = position(100, 0, topic_id=made.topics["orders"].topic_id)
    assert standing(made, at).finding is Finding.INTACT
    made.truncate("orders", 0, 60)
    assert (standing(made, at).finding, standing(made, at).divergence) == (Finding.TRUNCATED, 60)
    for offset in range(200):
        made.append("orders", 0, offset, b"e")
    assert (standing(made, at).finding, standing(made, at).divergence) == (Finding.TRUNCATED, 60)
    assert standing(made, replace(at, partition=1)).finding is Finding.INTACT
    assert standing(made, replace(at, offset=60)).finding is Finding.INTACT


def test_a_clean_election_cuts_nothing() -> None:
    made = cluster()
    at = position(100, 0, topic_id=made.topics["orders"].topic_id)
    made.elect("orders", 0)
    made.append("orders", 0, 0, b"e")
    assert standing(made, at).finding is Finding.INTACT


def test_a_recreated_topic_is_known_by_its_id_despite_equal_offsets() -> None:
    made = cluster()
    at = position(100, 0, topic_id=made.topics["orders"].topic_id)
    made.create("orders", 2)
    for offset in range(300):
        made.append("orders", 0, offset, b"e")
    assert standing(made, at).finding is Finding.RECREATED
    assert standing(made, replace(at, topic_id=None)).finding is Finding.INTACT, "by epoch alone nobody could tell"


def test_each_epoch_of_positions_of_one_partition_is_looked_up() -> None:
    made = cluster()
    made.truncate("orders", 0, 60)
    made.append("orders", 0, 0, b"e")
    topic_id = made.topics["orders"].topic_id
    old, new = position(100, 0, topic_id=topic_id), position(61, 1, topic_id=topic_id)
    gone = replace(old, topic="nowhere")
    found = [(each.finding, each.divergence) for each in validate(made, [old, new, old, gone], timeout=1)]
    cut = (Finding.TRUNCATED, 60)
    assert found == [cut, (Finding.INTACT, None), cut, (Finding.UNPROVEN, None)]


# -- which epoch a log answers with (LeaderEpochFileCacheTest)


@pytest.mark.parametrize(
    ("starts", "end", "requested", "answer"),
    [
        ({1: 11, 2: 13, 3: 15}, 17, 2, (2, 15)),
        ({0: 10, 2: 13, 4: 17}, 18, 1, (0, 13)),
        ({0: 10, 2: 13, 4: 17}, 18, 2, (2, 17)),
        ({0: 10, 2: 13, 4: 17}, 18, 3, (2, 17)),
        ({5: 11, 6: 12, 7: 13}, 14, 4, (4, 11)),
        ({2: 6}, 6, 2, (2, 6)),
        ({2: 6}, 7, 3, (None, None)),
        ({}, 7, 0, (None, None)),
    ],
)
def test_a_log_answers_with_the_epoch_at_or_below_the_requested_one(
    starts: dict[int, int], end: int, requested: int, answer: tuple[int | None, int | None]
) -> None:
    made = cluster(0)
    made.partition("orders", 0).epoch_starts = starts
    made.partition("orders", 0).end = end
    reported = made.epoch_ends({KEY: requested}, timeout=1)[KEY]
    assert (reported.leader_epoch, reported.end_offset) == answer
