"""Method ``synced``: the topic of the syncs, byte by byte, and what the resolver makes of it."""

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from state.model.entities import TopicPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import Entry, PartitionError
from streaming.resolve.offset_syncs import parse_sync, read_syncs
from streaming.resume.offset_syncs import Sync, Syncs
from tests.memory_log import MemoryCluster
from tests.unit.streaming.standby import (
    T0,
    Records,
    Slot,
    Standby,
    copied,
    found,
    one,
    rules,
    sample,
    shows,
    standby,
    stream,
    want,
)

TOPIC = "mm2-offset-syncs.east.internal"
SYNCS = TopicPartition(TOPIC, 0)
SYNCED = rules(MethodName.EXACT, MethodName.SYNCED, MethodName.TIMESTAMP, offset_syncs=TOPIC)
ONLY_SYNCED = replace(SYNCED, methods=(MethodName.SYNCED,))


def entry(offset: int, topic: str, partition: int, upstream: int, downstream: int) -> Entry:
    """``OffsetSync``'s schemas, written out: topic STRING, partition INT32; upstreamOffset INT64, offset INT64."""
    name = topic.encode()
    key = struct.pack(">h", len(name)) + name + struct.pack(">i", partition)
    return Entry(offset, key, struct.pack(">qq", upstream, downstream))


def mirrored(*slots: Slot, syncs: Iterable[tuple[int, int, int]] = (), **more: Any) -> Standby:
    log = standby(*slots, **more)
    log.written = tuple(entry(i, "orders", *sync) for i, sync in enumerate(syncs))
    log.slots[SYNCS] = Slot([], end=len(log.written))
    return log


# -- the binary form


def test_a_sync_is_read_from_its_bytes() -> None:
    """``OffsetSyncTest.testSerde``: topic-1, partition 2, old offset 3, the standby's 4."""
    key = bytes.fromhex("0007") + b"topic-1" + bytes.fromhex("00000002")
    value = bytes.fromhex("00000000000000030000000000000004")
    assert parse_sync(Entry(7, key, value)) == (TopicPartition("topic-1", 2), Sync(3, 4))


def test_names_are_utf8_and_offsets_have_eight_bytes() -> None:
    assert parse_sync(entry(0, "größen", 300, 2**40, 2**41)) == (TopicPartition("größen", 300), Sync(2**40, 2**41))


GOOD = entry(0, "t", 0, 1, 2)
assert GOOD.key is not None
assert GOOD.value is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, GOOD.value),
        (GOOD.key, None),
        (b"", GOOD.value),
        (GOOD.key[:-1], GOOD.value),
        (GOOD.key + b"\0", GOOD.value),
        (GOOD.key, GOOD.value[:-1]),
        (b"\xff\xff" + GOOD.key[2:], GOOD.value),
        (b"\0\1\xff\0\0\0\0", GOOD.value),
        (GOOD.key, struct.pack(">qq", -1, 2)),
        (b'{"topic":"t"}', b'{"offset":3}'),
    ],
)
def test_a_record_that_is_no_sync_is_ignored(key: bytes | None, value: bytes | None) -> None:
    assert parse_sync(Entry(0, key, value)) is None


# -- reading the topic


def cluster(*syncs: tuple[str, int, int, int]) -> MemoryCluster:
    log = MemoryCluster()
    log.create(TOPIC)
    for number, sync in enumerate(syncs):
        made = entry(number, *sync)
        log.append_entry(TOPIC, 0, made.key, made.value)
    return log


def test_the_topic_is_read_to_its_end_and_sorted_by_partition() -> None:
    log = cluster(("a", 0, 5, 7), ("b", 1, 1, 1), ("a", 0, 9, 11), ("a", 3, 0, 0))
    assert read_syncs(log, TOPIC, Deadline.after(5)) == {
        TopicPartition("a", 0): Syncs(front=(Sync(5, 7), Sync(9, 11))),
        TopicPartition("b", 1): Syncs(front=(Sync(1, 1),)),
        TopicPartition("a", 3): Syncs(front=(Sync(0, 0),)),
    }


def test_no_more_than_the_newest_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.resolve.offset_syncs.MOST_RECORDS", 10)
    log = cluster(*(("a", 0, i, i) for i in range(100)))
    known = read_syncs(log, TOPIC, Deadline.after(5))
    assert not isinstance(known, str)
    assert known[TopicPartition("a", 0)].front[0] == Sync(90, 90)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda log: log.topics.clear(), "no such topic"),
        (lambda log: log.append_entry(TOPIC, 0, b"key", b"value"), "offset 2 is not an offset sync of MirrorMaker 2"),
        (lambda log: log.partition(TOPIC, 0).entries.pop(0), ""),
    ],
)
def test_the_reason_why_syncs_cannot_be_read_is_noted(spoil: Callable[[MemoryCluster], object], sentence: str) -> None:
    log = cluster(("a", 0, 5, 7), ("a", 0, 9, 11))
    spoil(log)
    known = read_syncs(log, TOPIC, Deadline.after(5))
    assert isinstance(known, str) == bool(sentence)
    assert not isinstance(known, str) or (TOPIC in known and sentence in known)


def test_a_cluster_that_falls_silent_leaves_the_other_methods() -> None:
    log = cluster(("a", 0, 5, 7))
    log.unreachable = True
    assert "no broker answered" in str(read_syncs(log, TOPIC, Deadline.after(5)))


def test_a_topic_that_is_not_read_in_time_counts_as_nothing() -> None:
    assert "deadline" in str(read_syncs(cluster(("a", 0, 5, 7)), TOPIC, Deadline.after(0)))
    stuck = mirrored(Slot([]), syncs=[(0, 5, 7)])
    stuck.slots[SYNCS].end = 9
    assert "its end cannot be read" in str(read_syncs(stuck, TOPIC, Deadline.after(5)))


# -- the resolver


def test_a_position_of_which_nothing_is_remembered_goes_by_the_syncs() -> None:
    old = stream(0, 60)
    log = mirrored(Slot(copied(old, 100)), syncs=[(0, 0, 100), (0, 10, 110), (0, 20, 120), (0, 30, 130)])
    target = one(log, want([], offset=23, timestamp_ms=T0), SYNCED)
    assert (target.method, target.target_offset, target.replay_records, target.exact) == ("synced", 121, 2, False)
    assert "no records are remembered" in target.note
    assert "upper bound" in target.note
    at = one(log, want([], offset=30, timestamp_ms=T0), SYNCED)
    assert (at.target_offset, at.replay_records) == (130, 0)


def test_content_comes_first_and_leaves_the_syncs_unread() -> None:
    old = stream(0, 60)
    log = mirrored(Slot(copied(old, 100)), syncs=[(0, 20, 120)])
    target = one(log, want(old[:23]), SYNCED)
    assert (target.method, target.target_offset) == ("exact", 123)
    assert log.requested.count("LATEST") == 1


TWICE = [(n, offset, 100 + offset) for n in (0, 1) for offset in (10, 20)]


def test_a_replicator_that_changes_what_it_copies_is_followed_by_its_syncs() -> None:
    old, other = stream(0, 60), stream(0, 60, step_ms=7, name="other")
    changed = [[(offset, time, value.upper()) for offset, time, value in copied(log, 100)] for log in (old, other)]
    log = mirrored(*map(Slot, changed), syncs=TWICE)
    targets = found(log, [want(old[:23]), want(other[:31], partition=1)], SYNCED).targets
    assert [(each.method, each.target_offset, each.replay_records) for each in targets] == [
        ("synced", 121, 2),
        ("synced", 121, 10),
    ]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "here",
    [copied(stream(0, 60, step_ms=9, name="x"), 100), copied(stream(5, 60, name="x"), 100)],
)
def test_syncs_of_another_log_are_not_believed_against_its_content(here: Records, count: int) -> None:
    wants = [want(stream(0, 60, name=name)[:23], partition=n) for n, name in enumerate("ab"[:count])]
    targets = found(mirrored(*[Slot(here)] * count, syncs=TWICE), wants, SYNCED).targets
    for target in targets:
        assert target.method == "timestamp"
        assert count == 2 or "not trusted" in target.note


def test_the_same_partition_is_followed_for_two_positions() -> None:
    changed = [(offset, time, value.upper()) for offset, time, value in copied(stream(0, 300), 100)]
    log = mirrored(Slot(changed), syncs=[(0, offset, 100 + offset) for offset in range(0, 300, 10)])
    wants = [want(stream(0, 300)[:count], remembered=30) for count in (43, 295)]
    assert [each.target_offset for each in found(log, wants, SYNCED).targets] == [141, 391]


def test_syncs_that_agree_with_one_time_only_prove_nothing() -> None:
    alike = [(i, T0, f"r{i}") for i in range(60)]
    changed = [(100 + i, T0, "x") for i in range(60)]
    target = one(mirrored(Slot(changed), syncs=[(0, 10, 110), (0, 20, 120)]), want(alike[:23]), SYNCED)
    assert target.method == "timestamp"


def test_why_there_are_no_syncs_is_noted_where_content_contradicts() -> None:
    log = mirrored(Slot(copied(stream(0, 60, name="x"))), syncs=[(0, 10, 110)])
    log.slots[SYNCS].error = PartitionError(name="TOPIC_AUTHORIZATION_FAILED", text="not allowed", retriable=False)
    assert "TOPIC_AUTHORIZATION_FAILED" in one(log, want(stream(0, 60)[:23]), SYNCED).note


def test_a_single_sync_is_not_believed_against_content() -> None:
    changed = [(offset, time, value.upper()) for offset, time, value in copied(stream(0, 60), 100)]
    target = one(mirrored(Slot(changed), syncs=[(0, 20, 120)]), want(stream(0, 60)[:23]), SYNCED)
    assert target.method == "timestamp"
    assert "1 of 1 remembered times" in target.note


@pytest.mark.parametrize(
    ("syncs", "sentence"),
    [
        ([(0, 30, 130)], "the oldest offset sync is for 30, after 23"),
        ([(1, 20, 120)], "has no entry for this partition"),
        ([(0, 20, 900)], "points past the standby's end"),
    ],
)
def test_without_a_sync_that_holds_time_decides_and_the_note_says_why(
    syncs: list[tuple[int, int, int]], sentence: str
) -> None:
    log = mirrored(Slot(copied(stream(0, 60), 100)), syncs=syncs)
    target = one(log, want([], offset=23, timestamp_ms=T0 + 220), SYNCED)
    assert (target.method, target.target_offset) == ("timestamp", 122)
    assert sentence in target.note


def test_syncs_that_cannot_be_read_are_no_reason_to_stop() -> None:
    log = mirrored(Slot(copied(stream(0, 60), 100)), syncs=[(0, 20, 120)])
    log.slots[SYNCS].error = PartitionError(name="TOPIC_AUTHORIZATION_FAILED", text="not allowed", retriable=False)
    target = one(log, want([], offset=23, timestamp_ms=T0 + 220), SYNCED)
    assert target.method == "timestamp"
    assert "TOPIC_AUTHORIZATION_FAILED" in target.note


def test_a_sync_never_leads_past_a_place_that_content_has_proven() -> None:
    old = stream(0, 60)
    target = one(mirrored(Slot(copied(old, 100)), syncs=[(0, 20, 140)]), want(old[:23]), ONLY_SYNCED)
    assert (target.method, target.target_offset, target.replay_records) == ("synced", 123, 0)
    assert "went past" in target.note


def test_a_sync_whose_place_has_expired_resumes_at_the_begin_and_is_marked() -> None:
    log = mirrored(Slot(copied(stream(0, 60), 100), begin=140), syncs=[(0, 20, 120)])
    target = one(log, want([], offset=23, timestamp_ms=T0 + 220), SYNCED)
    assert (target.method, target.target_offset) == ("synced", 140)
    assert "retention" in target.note


def test_a_sync_never_leads_past_records_younger_than_the_position() -> None:
    """The oldest sync that is left may be of a re-send, and then points behind first copies that no one has read."""
    old = stream(0, 60)
    target = one(mirrored(Slot(copied(old, 100), begin=140), syncs=[(0, 20, 150)]), want(old[:23]), ONLY_SYNCED)
    assert (target.method, target.target_offset) == ("synced", 140)
    assert "the first record that the standby still holds is newer" in target.note


def test_an_open_transaction_pins_a_sync_too() -> None:
    log = mirrored(Slot(copied(stream(0, 60), 100), stable=115), syncs=[(0, 20, 120)])
    target = one(log, want([], offset=23), replace(SYNCED, committed_only=frozenset({"orders"})), sample(60, T0))
    assert (target.target_offset, target.replay_records) == (115, 45)


@pytest.mark.parametrize("downstream", [111, 130])
def test_an_open_transaction_pins_a_sync_whose_place_content_has_moved(downstream: int) -> None:
    """The pair points to the place or past it, content proves 111, and a committed reader ends at 106."""
    old, committed = stream(0, 60), replace(ONLY_SYNCED, committed_only=frozenset({"orders"}))
    log = mirrored(Slot(copied(old, 100), stable=106), syncs=[(0, 11, downstream)])
    shows(one(log, want(old[:11]), committed, sample(60, T0)), method="synced", target_offset=106, exact=False)
