"""What a record is known by, and records read with everything that is in them."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from streaming.kafka.requests.records import digest, in_full
from tests.unit.streaming.kafka.requests.test_records import marker

FIELD = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"-", b"+", b"3:abc", b"+3:", b"1:-"])
RECORD = st.tuples(FIELD, FIELD)
HEADER = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9))


@given(RECORD, RECORD)
def test_only_equal_keys_and_values_have_the_same_digest(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@given(st.lists(st.tuples(FIELD, FIELD, st.lists(HEADER, max_size=3)), min_size=1, max_size=9), st.sampled_from([0, 1]))
def test_a_record_is_read_with_key_value_time_and_headers(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], codec: int
) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for number, (key, value, headers) in enumerate(records):
        assert builder.append(number, timestamp=1_000 + number, key=key, value=value, headers=headers)
    read = in_full(bytes(builder.build()) + marker(len(records), 7, commits=True), range(len(records) + 1))
    assert [(each.key, each.value, list(each.headers)) for each in read] == records
    assert [(each.offset, each.timestamp_ms) for each in read] == [(n, 1_000 + n) for n in range(len(records))]


def test_only_the_requested_records_are_read_in_full() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for number in range(9):
        assert builder.append(number, timestamp=1_000, key=None, value=b"v", headers=[])
    assert [each.offset for each in in_full(bytes(builder.build()), {2, 7})] == [2, 7]
