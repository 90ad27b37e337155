"""Batches as brokers send them, read from an offset inside them."""

import struct

import crc32c
import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.kafka.requests.records import decode

SIZES = (0, 50, 58, 59, 60, 130, 8_170, 8_200, 70_000, 3)
"""Of values: lengths of records in one, two, and three bytes, and those around the borders."""


def batch(offsets: list[int], codec: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for number, offset in enumerate(offsets):
        value = bytes([number % 251]) * SIZES[number % len(SIZES)]
        assert builder.append(offset, timestamp=1_000 + 40 * number, key=None, value=value, headers=[])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "offsets", [list(range(25)), [0, 1, 2, 7, 8, 9, 20, 21, 24]], ids=["every offset", "a compacted one"]
)
def test_a_batch_read_from_its_middle_gives_what_the_whole_gives_there(offsets: list[int], codec: int) -> None:
    sent = batch(offsets, codec)
    everything = decode(sent, wanted=0)
    assert [record.offset for record in everything.records] == offsets
    assert [record.timestamp_ms for record in everything.records] == [1_000 + 40 * n for n in range(len(offsets))]
    for wanted in range(25):
        found = decode(sent, wanted=wanted)
        assert found.records == tuple(record for record in everything.records if record.offset >= wanted)
        assert found.next_offset == 25
        for until in range(wanted, 27):
            found = decode(sent, wanted=wanted, until=until)
            assert found.records == tuple(record for record in everything.records if wanted <= record.offset < until)
            assert found.next_offset == min(until, 25)


def transactional(base: int, count: int, producer: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, 0, 1 << 20)
    for number in range(count):
        assert builder.append(number, timestamp=1_000 + base + number, key=None, value=b"v", headers=[])
    return at(base, bytearray(builder.build()))


def marker(base: int, producer: int, *, commits: bool) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, 0, 1 << 20)
    assert builder.append(0, timestamp=1_000 + base, key=struct.pack(">hh", 0, int(commits)), value=b"", headers=[])
    batch = bytearray(builder.build())
    batch[22] |= 0x20  # the control bit of the attributes
    return at(base, batch)


def at(base: int, batch: bytearray) -> bytes:
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def test_a_reader_of_everything_learns_which_records_are_not_committed() -> None:
    log = [
        transactional(0, 3, producer=1),
        transactional(3, 2, producer=2),
        marker(5, 1, commits=True),
        batch_at(6, 2),
        marker(8, 2, commits=False),
        transactional(9, 2, producer=1),
        transactional(11, 1, producer=2),
        marker(12, 2, commits=True),
    ]
    everything = decode(b"".join(log), wanted=0)
    assert [record.offset for record in everything.records] == [0, 1, 2, 3, 4, 6, 7, 9, 10, 11]
    assert [record.offset for record in everything.records if record.uncommitted] == [3, 4, 9, 10]
    assert everything.next_offset == 13
    before_the_marker = decode(b"".join(log), wanted=1, until=5)
    assert [record.offset for record in before_the_marker.records if record.uncommitted] == [1, 2, 3, 4]


def test_a_reader_of_what_is_committed_gets_nothing_uncommitted() -> None:
    log = [transactional(0, 3, producer=1), transactional(3, 2, producer=2), marker(5, 2, commits=False)]
    given = decode(b"".join([*log, marker(6, 1, commits=True)]), wanted=0, aborted=[(2, 3)])
    assert [(record.offset, record.uncommitted) for record in given.records] == [(0, False), (1, False), (2, False)]


def batch_at(base: int, count: int) -> bytes:
    return at(base, bytearray(batch(list(range(count)))))
