"""Positions whose log was cut: which of them count, what proves them on the standby, and where the others go."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.truncation import (
    PlacedPosition,
    cut_off,
    is_set_back,
    marked,
    resets_of,
    sampled_standings,
    set_back,
    tracked_at,
)
from state.model.entities import TopicPartition
from streaming.resume.model import Want
from streaming.resume.truncation import TABLE, Finding, Goto, Situation, Standing
from tests.contract.samples import place
from tests.unit.orchestrator.decide.test_lookup_wants import NOW, row, sample

KEY = TopicPartition("t", 0)
OFFSETS = {"s": {"t": {"0": 10}}}


def standing_of(divergence: int | None, finding: Finding = Finding.TRUNCATED) -> Standing:
    return Standing(source="s", partition=KEY, offset=10, finding=finding, divergence=divergence)


def want(offset: int = 10, ring_offset: int | None = 10) -> Want:
    return Want(
        source="s", topic="t", partition=0, target_topic="t", offset=offset, ring=(), ring_offset=ring_offset,
        dense=None, begin_known=None, timestamp_ms=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("standing", "counts"),
    [
        (standing_of(8), True),
        (standing_of(None), True),
        (standing_of(0, Finding.RECREATED), True),
        (standing_of(10), False),
        (standing_of(None, Finding.EXPIRED), False),
        (standing_of(None, Finding.UNPROVEN), False),
        (replace(standing_of(8), partition=TopicPartition("t", 1)), False),
    ],
)
def test_only_what_was_cut_before_the_checkpoints_own_position_counts(standing: Standing, counts: bool) -> None:
    assert bool(cut_off([standing], [want()])) is counts


def test_the_judged_position_is_the_newest_not_past_the_checkpoint() -> None:
    rows = [row(6, 8), row(7, 10), row(8, 14)]
    assert [found.batch for found in tracked_at(rows, OFFSETS)] == [7]
    assert tracked_at(rows, {}) == []


@pytest.mark.parametrize(
    ("target", "ring_offset", "proven"),
    [
        (place(), 10, True),
        (place(), 9, False),
        (place(exact=False), 10, False),
        (place(), None, False),
    ],
)
def test_a_place_counts_as_proven_only_where_the_very_last_record_was_found(
    target: object, ring_offset: int | None, proven: bool
) -> None:
    proof = PlacedPosition(want=want(ring_offset=ring_offset), target=target)  # type: ignore[arg-type] # a table of targets
    (reset,) = resets_of(cut_off([standing_of(8)], [want()]), [proof], on_no_match="fail", consents=())
    assert (reset.goto is None) is proven


@given(st.sampled_from(["latest", "earliest", "closest", "fail"]), st.none() | st.integers(0, 9), st.booleans())
def test_the_reset_table_is_followed_to_the_letter(policy: str, divergence: int | None, consented: bool) -> None:
    cut = cut_off([standing_of(divergence)], [want()])
    (reset,) = resets_of(cut, [], on_no_match=policy, consents=("gap",) if consented else ())
    row_of = "closest" if policy == "fail" and consented else policy
    assert reset.goto is TABLE[row_of, Situation.UNKNOWN if divergence is None else Situation.KNOWN]
    assert is_set_back([reset]) is (reset.goto is not Goto.NOWHERE)
    back = set_back(OFFSETS, [reset])
    assert back == ({"s": {"t": {"0": divergence}}} if reset.goto is Goto.DIVERGENCE else OFFSETS)
    assert OFFSETS == {"s": {"t": {"0": 10}}}
    (found,) = marked([want(back["s"]["t"]["0"])], OFFSETS, [reset])
    assert (found.read_to, found.lost) == {
        Goto.DIVERGENCE: (10, None),
        Goto.NOWHERE: (None, None),
    }.get(reset.goto, (10, row_of))


def test_samples_show_a_recreated_or_cut_log_and_nothing_on_a_whole_one() -> None:
    position = row(7, 10)
    later = replace(sample(8), leader_epoch=1, sampled_at=NOW + timedelta(seconds=1))
    assert sampled_standings([position], {KEY: sample(12)}) is None
    assert sampled_standings([position], {}) is None
    for seen, finding, divergence in (
        (replace(sample(12), topic_id="j"), Finding.RECREATED, 0),
        (later, Finding.TRUNCATED, None),
    ):
        (standing,) = sampled_standings([position], {KEY: seen}) or ()
        assert (standing.finding, standing.divergence, standing.offset) == (finding, divergence, 10)
    assert sampled_standings([position], {KEY: replace(later, end=12)}) is None, "it has grown past the position"
