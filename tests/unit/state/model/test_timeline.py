"""Timelines: packing gives back what was packed, and no answer lies after the truth."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import Damaged
from state.model.timeline import NO_TIME, Moment, SourcePartition, Steps, Stretch, instant_of, pack, unpack

LANES = (
    SourcePartition("clicks", "clicks", 0),
    SourcePartition("orders", "orders", 0),
    SourcePartition("orders", "orders", 1),
    SourcePartition("x", "orders", 1),
)
AT_MS = 1_767_225_600_000
LATEST_MS = 253_402_300_799_999

times = st.integers(0, LATEST_MS)
offsets = st.integers(0, (1 << 62) - 1)
timestamps = st.one_of(st.just(NO_TIME), st.integers(0, (1 << 63) - 1), st.integers(AT_MS - 10**6, AT_MS + 10**6))
disorders = st.integers(0, 10**15)


@st.composite
def moments(draw: st.DrawFn, precision_ms: int, lanes: int = len(LANES)) -> list[Moment]:
    at = sorted({each // precision_ms * precision_ms for each in draw(st.sets(times, min_size=1, max_size=6))})

    def column(values: st.SearchStrategy[int]) -> Sequence[int]:
        return draw(st.lists(values, min_size=lanes, max_size=lanes))

    return [Moment(at_ms, column(offsets), column(timestamps), column(disorders)) for at_ms in at]


def rounded(moment: Moment, precision_ms: int) -> Moment:
    """Times down, disorders up; what has no time has no disorder."""
    stamps = [each if each < 0 else each // precision_ms * precision_ms for each in moment.timestamps]
    drops = [
        0 if stamp < 0 else -(-drop // precision_ms) * precision_ms
        for stamp, drop in zip(moment.timestamps, moment.disorders, strict=True)
    ]
    return Moment(moment.at_ms, tuple(moment.offsets), tuple(stamps), tuple(drops))


@given(st.data(), st.sampled_from([1, 10, 600, 36_000]))
def test_packed_steps_return_with_times_rounded_down_and_disorder_up(data: st.DataObject, precision_ms: int) -> None:
    given_moments = data.draw(moments(precision_ms))
    expected = Steps(LANES, tuple(rounded(each, precision_ms) for each in given_moments))
    assert unpack(pack(LANES, given_moments, precision_ms=precision_ms)) == expected


@given(
    st.lists(st.tuples(st.integers(1, 90_000), st.integers(0, 1_000_000)), min_size=1, max_size=40),
    st.lists(st.integers(0, 3_000_000), min_size=2, max_size=2),
    st.integers(1, 8),
)
def test_the_answer_never_lies_after_what_was_consumed_and_never_goes_back(
    batches: list[tuple[int, int]], requested: list[int], every: int
) -> None:
    """Of a reader's whole way, batch by batch, only every so-manieth end is kept."""
    at = [AT_MS + each for each in accumulate(pause for pause, _ in batches)]
    ends = list(accumulate(records for _, records in batches))
    way = list(zip(at, ends, strict=True))
    kept = [Moment(at_ms, [end], [NO_TIME], [0]) for at_ms, end in way[::every]]
    steps = unpack(pack(LANES[:1], kept, precision_ms=1))

    def answer(time_ms: int) -> int | None:
        moment = steps.at(time_ms)
        return None if moment is None else moment.offsets[0]

    found = [answer(AT_MS + each) for each in sorted(requested)]
    truth = [max((end for at_ms, end in way if at_ms <= AT_MS + each), default=None) for each in sorted(requested)]
    for reported, consumed in zip(found, truth, strict=True):
        assert reported is None or (consumed is not None and reported <= consumed)
        assert (reported is None) == (consumed is None), "the first step is kept, so something is known from then on"
    for earlier, later in pairwise(found):
        assert earlier is None or (later is not None and earlier <= later)
    for moment in kept:
        assert answer(moment.at_ms) == moment.offsets[0], "at the time of a step the answer is exact"


@pytest.mark.parametrize(
    ("requested", "entry"), [(9, None), (10, (10, 55)), (25, (20, 65)), (30, (30, 75)), (999, (50, 95))]
)
def test_a_time_is_looked_up_as_in_a_brokers_time_index(requested: int, entry: tuple[int, int] | None) -> None:
    """Known cases of Kafka's ``TimeIndexTest.testLookUp``: entries every 10 ms, offsets 45 after their times."""
    entries = [Moment(time_ms, [time_ms + 45], [NO_TIME], [0]) for time_ms in range(10, 60, 10)]
    found = unpack(pack(LANES[:1], entries, precision_ms=1)).at(requested)
    assert (None if found is None else (found.at_ms, found.offsets[0])) == entry


def test_a_partition_that_does_not_move_costs_next_to_nothing() -> None:
    lanes = [SourcePartition("orders", "orders", number) for number in range(100)]
    still = [Moment(AT_MS + 60_000 * k, [7] * 100, [AT_MS - 5] * 100, [0] * 100) for k in range(60)]
    assert len(pack(lanes, still, precision_ms=600)) < 60 * 100 // 10


def test_a_stretch_begins_and_ends_with_its_moments() -> None:
    two = [Moment(AT_MS, [1], [NO_TIME], [0]), Moment(AT_MS + 60_001, [2], [AT_MS], [3])]
    stretch = Stretch.of("revenue", 3, "east", LANES[:1], two, precision_ms=1)
    assert (stretch.begin, stretch.until) == (instant_of(AT_MS), instant_of(AT_MS + 60_001))
    assert stretch.steps() == Steps(LANES[:1], tuple(Moment(a, (b[0],), (c[0],), (d[0],)) for a, b, c, d in two))


ONE = Moment(AT_MS, [1], [NO_TIME], [0])


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [ONE, ONE],
        [ONE, Moment(AT_MS - 1, [1], [NO_TIME], [0])],
        [Moment(AT_MS + 1, [1], [NO_TIME], [0])],
        [Moment(AT_MS, [1, 2], [NO_TIME], [0])],
        [Moment(AT_MS, [-1], [NO_TIME], [0])],
        [Moment(AT_MS, [1 << 62], [NO_TIME], [0])],
        [Moment(AT_MS, [1], [NO_TIME], [-1])],
    ],
)
def test_moments_that_make_no_sense_are_not_packed(wrong: list[Moment]) -> None:
    with pytest.raises(ValueError, match=r"stretch has|ascend|as many|lies between"):
        pack(LANES[:1], wrong, precision_ms=100)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_noticed_or_changes_nothing(place: int, change: int) -> None:
    """Some bits of a deflated stream only fill up a byte, and mean nothing (RFC 1951, 3.2.4)."""
    whole = pack(LANES[:1], [ONE, Moment(AT_MS + 1, [2], [AT_MS], [3])], precision_ms=1)
    packed = bytearray(whole)
    packed[place % len(packed)] ^= change
    with suppress(Damaged):
        assert unpack(bytes(packed)) == unpack(whole)


@pytest.mark.parametrize("cut", [b"", b"\x01", pack(LANES[:1], [ONE], precision_ms=1)[:-3]])
def test_a_stretch_that_is_cut_off_is_damaged(cut: bytes) -> None:
    with pytest.raises(Damaged):
        unpack(cut)
