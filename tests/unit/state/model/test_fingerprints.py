"""Rings: packed, and yet what a tuple of fingerprints would be."""

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from state.model.entities import Fingerprint
from state.model.fingerprints import LIMIT, Counted, Fingerprints, back

offsets = some.integers(0, 2**62)
records = some.lists(
    some.tuples(offsets, some.integers(-1, 2**62), some.binary(min_size=16, max_size=16)),
    max_size=40,
    unique_by=lambda record: record[0],
).map(lambda found: tuple(Fingerprint(*record) for record in sorted(found)))
chunks = some.sets(some.integers(0, 2_000), max_size=40).map(sorted)


def ring(of: Iterable[int]) -> Fingerprints:
    return Fingerprints.of(Fingerprint(offset, 1_000 + offset, offset.to_bytes(16)) for offset in of)


@given(records)
def test_any_ring_is_unpacked_as_it_was_packed(records: tuple[Fingerprint, ...]) -> None:
    packed = Fingerprints.of(records)
    assert packed == records
    assert tuple(packed) == records
    assert [packed[index] for index in range(len(packed))] == list(records)
    assert Fingerprints(packed.packed) == packed
    assert hash(packed) == hash(records)


@pytest.mark.parametrize(
    "records", [[(5, 0, bytes(16)), (4, 0, bytes(16))], [(5, 0, bytes(16)), (5, 1, bytes(16))], [(5, 0, bytes(15))]]
)
def test_a_ring_that_is_none_is_refused(records: list[tuple[int, int, bytes]]) -> None:
    with pytest.raises(ValueError, match="ascending offsets and digests of 16 bytes"):
        Fingerprints.of(records)


def test_a_part_of_a_fingerprint_is_refused() -> None:
    with pytest.raises(ValueError, match="33 bytes"):
        Fingerprints(bytes(33))


@given(some.lists(chunks, max_size=12), some.integers(0, 2_000), some.integers(0, 2_000))
def test_a_ring_keeps_the_newest_offsets_in_order_whatever_the_chunks_were(
    chunks: list[list[int]], begin: int, end: int
) -> None:
    whole = Fingerprints()
    for chunk in chunks:
        whole = whole.merged(ring(chunk))
    kept = sorted({offset for chunk in chunks for offset in chunk})[-LIMIT:]
    assert whole == ring(kept)
    assert whole.before(end, limit=20) == ring([offset for offset in kept if offset < end][-20:])
    assert whole.covers(begin, end) == (begin <= end and set(range(begin, end)) <= set(kept))
    assert whole.newest_timestamp == max((1_000 + offset for offset in kept), default=None)


def test_the_newest_time_is_the_largest_wherever_it_is() -> None:
    for times, newest in (((5, 9, 7), 9), ((9, 5, 7), 9), ((5, 7, 9), 9), ((), None)):
        assert (
            Fingerprints.of(Fingerprint(i, time, bytes(16)) for i, time in enumerate(times)).newest_timestamp == newest
        )


def test_a_record_read_again_replaces_its_fingerprint() -> None:
    other = Fingerprints.of([Fingerprint(2, 7, bytes(16)), Fingerprint(4, 7, bytes(16))])
    assert [each.timestamp_ms for each in ring([1, 2, 3, 5]).merged(other)] == [1_001, 7, 1_003, 7, 1_005]


def test_a_ring_covers_only_ranges_without_a_hole() -> None:
    holed = ring([1, 2, 3, 5])
    assert holed.covers(1, 4)
    assert not holed.covers(1, 6)
    assert holed.covers(4, 4)
    assert not holed.covers(3, 1)


@pytest.mark.parametrize(
    ("times", "most"),
    [
        ((), 0),
        ((5, 6, 6, 9), 0),
        ((5, 9, 6, 8, 4), 5),
        ((9, 1, 20, 19), 8),
        ((9, -1, 8), 1),  # a record without a time
        ((5_000, 90), 910),  # a time ahead of the clock, 1000, counts as the clock
    ],
)
def test_times_went_back_from_the_largest_so_far(times: tuple[int, ...], most: int) -> None:
    assert back(times, 1_000) == most


def test_a_ring_keeps_which_of_its_records_were_not_committed() -> None:
    known = Fingerprints.of(ring([1, 2, 3, 5]), [2, 5])
    assert Fingerprints.from_bytes(known.to_bytes()) == known
    assert Fingerprints.from_bytes(known.to_bytes()).uncommitted == {2, 5}
    assert known.before(5).uncommitted == {2}
    assert known.after(3).uncommitted == {5}
    assert known != ring([1, 2, 3, 5])


@pytest.mark.parametrize("offsets", [[], [7], [7, 8, 9, 10, 11]])
def test_a_ring_with_nothing_uncommitted_is_kept_as_before(offsets: list[int]) -> None:
    assert ring(offsets).to_bytes() == ring(offsets).packed
    assert Fingerprints.from_bytes(ring(offsets).packed) == ring(offsets)


def test_a_record_that_is_read_again_as_committed_is_no_longer_uncommitted() -> None:
    known = Fingerprints.of(ring([1, 2, 3]), [2, 3]).merged(Fingerprints.of(ring([3, 4]), [4]))
    assert known.uncommitted == {2, 4}
    assert known.merged(ring(range(5, 5 + LIMIT - 1))).uncommitted == {4}


@pytest.mark.parametrize("stored", [b"\x01", bytes(32) + b"\x02\x00\x01", bytes(35)])
def test_bytes_that_are_no_ring_are_refused(stored: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        Fingerprints.from_bytes(stored)


@given(records, some.integers(0, 40))
def test_a_packed_ring_answers_as_its_records_would(records: tuple[Fingerprint, ...], first: int) -> None:
    packed = Fingerprints.of(records)
    assert list(packed.digests) == [each.digest for each in records]
    assert list(packed.timestamps) == [each.timestamp_ms for each in records]
    for digest in {each.digest for each in records} | {bytes(16)}:
        assert packed.alike(digest) == [each.digest for each in records].count(digest)
        assert packed.alike(digest, first=first) == [each.digest for each in records[:first]].count(digest)


def test_a_content_is_found_where_digests_stand_and_nowhere_else() -> None:
    """Its bytes also lie across two records, and where offset and time are."""
    times = struct.pack("<qq", 1, 1)
    packed = Fingerprints.of([Fingerprint(1, 1, bytes(8) + times[:8]), Fingerprint(2, 1, bytes(16))])
    assert (packed.packed.count(times), packed.alike(times)) == (1, 0)
    assert packed.alike(bytes(16)) == 1
    twice = Fingerprints.of([Fingerprint(1, 1, bytes(16)), Fingerprint(2, 1, times)])
    assert (twice.packed.find(times), twice.alike(times)) == (0, 1)


@given(chunks)
def test_the_last_records_are_unbroken_as_far_as_offsets_follow_each_other(chunk: list[int]) -> None:
    last = chunk[-1] if chunk else 0
    assert ring(chunk).unbroken == next((n for n in range(len(chunk)) if chunk[-1 - n] != last - n), len(chunk))


def test_a_counted_ring_has_a_length_and_nothing_to_look_into() -> None:
    assert (len(Counted(7)), bool(Counted(7)), bool(Counted(0))) == (7, True, False)
    for look in (lambda ring: ring[0], lambda ring: ring[-1:], tuple, Fingerprints.of):
        with pytest.raises(LookupError, match="these 7 fingerprints were counted, and not read"):
            look(Counted(7))
