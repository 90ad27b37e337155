"""Batches as brokers send them, read from an offset inside them."""

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.kafka.records import decode, whole

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
def test_a_batch_that_is_read_from_its_middle_gives_what_the_whole_gives_from_there(
    offsets: list[int], codec: int
) -> None:
    sent = batch(offsets, codec)
    everything = decode(sent, wanted=0, mark=whole)
    assert [record.offset for record in everything.records] == offsets
    assert [record.timestamp_ms for record in everything.records] == [1_000 + 40 * n for n in range(len(offsets))]
    for wanted in range(25):
        found = decode(sent, wanted=wanted, mark=whole)
        assert found.records == tuple(record for record in everything.records if record.offset >= wanted)
        assert found.next_offset == 25
        for until in range(wanted, 27):
            found = decode(sent, wanted=wanted, until=until, mark=whole)
            assert found.records == tuple(record for record in everything.records if wanted <= record.offset < until)
            assert found.next_offset == min(until, 25)
