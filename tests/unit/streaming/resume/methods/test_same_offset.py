"""Method ``identity``: the same offset after proof, and a reason each time there is none."""

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.model.entities import EndSample, TopicPartition
from state.settings.keys import MethodName
from streaming.resume.model import Want
from tests.thorough import tries
from tests.unit.streaming.replication import draw
from tests.unit.streaming.standby import (
    NOW,
    T0,
    Records,
    Slot,
    copied,
    found,
    one,
    rules,
    sample,
    standby,
    stream,
    want,
)

KEEPS = rules(MethodName.IDENTITY, MethodName.EXACT, MethodName.TIMESTAMP, keeps_offsets=True)
SAME = [(i, T0, "same") for i in range(100)]


def test_the_same_offset_is_the_place_once_the_records_there_are_the_same() -> None:
    old = [record for record in stream(0, 100) if record[0] % 7]
    target = one(standby(Slot(old)), want(old[:50]), KEEPS)
    assert (target.method, target.target_offset) == ("identity", target.offset)
    assert (target.exact, target.replay_records, target.note) == (True, 0, "")


def test_equal_records_leave_content_in_doubt_but_not_the_offset() -> None:
    by_content = one(standby(Slot(SAME)), want(SAME[:40], remembered=20))
    assert not by_content.exact
    ends = sample(len(SAME), SAME[-1][1])
    target = one(standby(Slot(SAME)), want(SAME[:40], remembered=20), KEEPS, ends)
    assert (target.method, target.target_offset, target.exact) == ("identity", 40, True)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_records_that_repeat_themselves_prove_no_offset(length: int) -> None:
    """A standby that is five records ahead of its offsets looks no different: the same offset would skip five."""
    old = [(i, T0, f"r{i % length}") for i in range(100)]
    target = one(standby(Slot(copied(old[5:]))), want(old[:40], remembered=20), KEEPS)
    assert target.method != "identity"
    assert target.target_offset is not None
    assert target.target_offset <= 35


def test_a_foreign_record_in_a_hole_of_the_standby_proves_no_offset() -> None:
    """The old log lacks 32 within a run of equal records: the standby without holes is one ahead from there."""
    old = [record for record in [*stream(0, 30), *[(i, T0 + 300, "same") for i in range(30, 60)]] if record[0] != 32]
    target = one(standby(Slot(copied(old))), want(old[:39]), KEEPS)
    assert target.method != "identity"
    assert target.target_offset is not None
    assert target.target_offset <= 38


def test_nothing_is_searched_for_where_the_offsets_are_the_same() -> None:
    log = standby(Slot(stream(0, 5000)), per_fetch=1000)
    one(log, want(stream(0, 3000)), KEEPS)
    assert log.fetched == 1 + 2, "the records compared, and those behind the place"


def test_a_lagging_copy_resumes_at_its_end_and_counts_what_comes_later() -> None:
    old = stream(0, 100)
    target = one(standby(Slot(old[:90])), want(old), KEEPS)
    assert (target.method, target.target_offset, target.replay_later_records) == ("identity", 90, 10)
    assert (target.exact, target.note) == (False, "the standby lags: it ends 10 offsets before the position")


def test_a_route_without_keeps_offsets_is_not_compared() -> None:
    target = one(standby(Slot(stream(0, 100))), want(stream(0, 50)), replace(KEEPS, keeps_offsets=False))
    assert (target.method, target.note) == ("exact", "")


OLD = stream(0, 100)
SPOILT = [*OLD[:45], (45, OLD[45][1], "other"), *OLD[46:]]
RETIMED = [*OLD[:45], (45, T0, "r45"), *OLD[46:]]
LATER = sample(100, T0 + 10**6)


@pytest.mark.parametrize(
    ("here", "position", "old_end", "reason"),
    [
        (copied(OLD, 1), want(OLD[:50]), None, "does not hold the same record at offset 0"),
        (SPOILT, want(OLD[:50]), None, "does not hold the same record at offset 45"),
        (RETIMED, want(OLD[:50]), None, "does not hold the same record at offset 45"),
        ([r for r in OLD if r[0] != 45], want(OLD[:50]), None, "does not hold the same record at offset 45"),
        (OLD, want(OLD[:50], remembered=7), None, "7 remembered records are within the standby's log, 8 are needed"),
        (OLD, want([], offset=50), None, "0 remembered records"),
        (OLD, want(OLD[:50], untracked=5), None, "end 5 before the position"),
        (OLD, want(OLD[:50]), LATER, "both sides end at 100, but with different newest timestamps"),
        (OLD, want(OLD[:50]), sample(200, T0), "with a newer time"),
    ],
)
def test_an_offset_that_is_not_proven_is_not_answered(
    here: Records, position: Want, old_end: dict[TopicPartition, EndSample] | None, reason: str
) -> None:
    target = one(standby(Slot(here)), position, KEEPS, old_end)
    assert target.method != "identity"
    assert f"the same offset is not proven: {reason}" in target.note or reason in target.note


def test_a_position_before_the_copys_begin_is_retentions_work() -> None:
    target = one(standby(Slot(OLD, begin=60)), want(OLD[:50]), KEEPS)
    assert target.method == "timestamp"
    assert "begins at 60, after the position" in target.note


def test_the_whole_short_history_is_proof_enough() -> None:
    target = one(standby(Slot(OLD)), want(OLD[:3]), KEEPS)
    assert (target.method, target.target_offset, target.exact) == ("identity", 3, True)


def test_agreeing_ends_prove_what_is_not_remembered_too() -> None:
    target = one(standby(Slot(OLD)), want(OLD[:50], untracked=5), KEEPS, sample(100, OLD[-1][1]))
    assert (target.method, target.target_offset) == ("identity", 50)


def test_the_same_topic_id_proves_nothing_of_the_records() -> None:
    ((key, seen),) = sample(100, OLD[-1][1], at=NOW).items()
    known = {key: replace(seen, topic_id="T1")}
    longer = {key: replace(known[key], end=90)}
    assert one(standby(Slot(OLD), topic_id="T1"), want([], offset=50), KEEPS, longer).method is None
    assert one(standby(Slot(OLD), topic_id="T1"), want(OLD[:50]), KEEPS, known).method == "identity"
    assert one(standby(Slot(SPOILT), topic_id="T1"), want(OLD[:50]), KEEPS, known).method == "timestamp"


CUT = [*OLD[:45], *[(i, T0 + 10_000 + i * 10, f"n{i}") for i in range(45, 65)]]
"""The tail from 45 on was not copied, and other records took its offsets."""


@pytest.mark.parametrize("topic_id", ["T1", None])
@pytest.mark.parametrize("buffer_ms", [0, 900_000])
def test_the_offset_at_which_the_standby_parts_is_the_place(topic_id: str | None, buffer_ms: int) -> None:
    ends = {key: replace(seen, topic_id=topic_id) for key, seen in sample(50, OLD[49][1]).items()}
    log, using = standby(Slot(CUT), topic_id=topic_id), replace(KEEPS, buffer_ms=buffer_ms)
    target = one(log, want(OLD[:50]), using, ends)
    assert (target.method, target.target_offset, target.exact) == ("identity", 45, True)
    assert (target.replay_records, target.exposure_records) == (0, 5)
    assert "parts from the old one at 45: 5 offsets that were read are not there" in target.note
    for position in (want(OLD[:45], offset=50), want(OLD[37:45], offset=50), want([], offset=50)):
        place = one(log, position, using, ends)
        assert place.target_offset is None or (place.target_offset <= 45 and not place.exact)


def test_a_log_that_holds_what_was_read_at_later_offsets_has_not_parted() -> None:
    here = [*OLD[:45], (45, OLD[44][1], "foreign"), *[(i + 1, time, value) for i, time, value in OLD[45:]]]
    target = one(standby(Slot(here)), want(OLD[:50]), KEEPS)
    assert target.method != "identity"


def test_one_partition_that_is_no_copy_leaves_the_others_alone() -> None:
    slots = Slot(OLD), Slot(copied(OLD, 3))
    targets = found(standby(*slots), [want(OLD[:50]), want(OLD[:50], partition=1)], KEEPS).targets
    assert [(target.method, target.target_offset) for target in targets] == [("identity", 50), ("exact", 53)]


@given(st.integers(min_value=0))
@example(7_533_344_808_593_034)
@settings(max_examples=tries(200), deadline=None)
def test_a_replicator_without_the_same_offsets_never_loses_a_record(seed: int) -> None:
    world = draw(seed)
    if world is None:
        return
    using = replace(KEEPS, context=world.rules.context, buffer_ms=world.rules.buffer_ms)
    (target,) = found(world.log, world.want, using).targets
    assert world.skipped(target) == set()


@given(st.integers(min_value=0))
@settings(max_examples=tries(200), deadline=None)
def test_a_true_copy_is_answered_with_the_very_offset_or_its_end(seed: int) -> None:
    rnd = random.Random(seed)
    log, offset = [], rnd.randint(0, 40)
    for _ in range(rnd.randint(20, 150)):
        log.append((offset, T0 + rnd.randint(0, 30), rnd.choice("ab")))
        offset += rnd.choice([1, 1, 1, 2, 5])
    read, copy = rnd.randint(15, len(log)), rnd.randint(15, len(log))
    target = one(standby(Slot(log[:copy])), want(log[:read]), KEEPS)
    assert target.method == "identity"
    assert target.target_offset == min(log[read - 1][0] + 1, log[copy - 1][0] + 1)
