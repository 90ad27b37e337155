"""Log entries are read as Spark writes them, and what is not meant to change is kept byte for byte."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.spark.checkpoint.log_text import (
    Fence,
    fence_sentence,
    format_commit_entry,
    format_kafka_offsets,
    format_offset_entry,
    format_query_id,
    parse_commit_entry,
    parse_fence,
    parse_kafka_offsets,
    parse_offset_entry,
    parse_query_id,
)
from streaming.spark.errors import MalformedEntry
from tests.checkpoints import commit_text, offset_text, orders

OFFSETS = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="._-"), min_size=1),
    st.dictionaries(st.integers(0, 5000).map(str), st.integers(0, 2**62), min_size=1, max_size=5),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize("sources", [(orders(0),), (orders(0), None), (None, orders(3), orders(4, topic="other"))])
def test_an_offset_entry_is_written_back_byte_for_byte(
    version: int, ending: str, sources: tuple[dict[str, Any], ...]
) -> None:
    text = (offset_text(*sources, version=version, watermark_ms=17) + ending).encode()
    entry = parse_offset_entry(text, "offsets/1")
    assert format_offset_entry(entry) == text
    assert {key: parse_kafka_offsets(value) if value else None for key, value in entry.sources.items()} == {
        str(index): source for index, source in enumerate(sources)
    }
    assert entry.watermark_ms == 17


def test_settings_that_a_newer_spark_adds_are_kept_as_they_stand() -> None:
    text = b'v1\n{"batchWatermarkMs": 5, "new": {"a":[1, 2.50]},  "conf":{}}\n{"t":{"0":1}}'
    moved = parse_offset_entry(text, "offsets/1").moved_to({"0": {"t": {"0": 901}}})
    assert format_offset_entry(moved) == text.replace(b'{"0":1}', b'{"0":901}')


def test_another_watermark_changes_nothing_but_the_watermark() -> None:
    entry = parse_offset_entry(offset_text(orders(0), watermark_ms=5).encode(), "offsets/0")
    assert format_offset_entry(entry.at_watermark(9)).decode() == offset_text(orders(0), watermark_ms=9)
    assert entry.at_watermark(5) is entry


@pytest.mark.parametrize(("class_name", "provider"), [("HDFSBacked", "hdfs"), ("RocksDB", "rocksdb")])
def test_the_state_provider_is_read_from_the_pinned_settings(class_name: str, provider: str) -> None:
    entry = parse_offset_entry(offset_text(orders(0), provider=class_name).encode(), "offsets/0")
    assert entry.state_provider == provider


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        "v1\n",
        "v1\n[]\n-",
        "v1\n{}",
        "v3\n{}\n-",
        "v2\n{}\n-",
        "v2\n{}\n0:-\n0:-",
        "1\n{}\n-",
        "v1\n{not json\n-",
        '{"id":"x"}',
    ],
)
def test_an_offset_entry_that_spark_would_not_write_is_malformed(text: str) -> None:
    with pytest.raises(MalformedEntry, match="offsets/7"):
        parse_offset_entry(text.encode(), "offsets/7")


def test_bytes_that_are_no_text_are_malformed() -> None:
    with pytest.raises(MalformedEntry):
        parse_offset_entry(b"v1\n\xff\xfe", "offsets/7")


def test_a_commit_entry_is_written_back_byte_for_byte() -> None:
    for text in (commit_text(17), commit_text(3, {"0": [["a"], ["b"]]}), 'v3\n{"nextBatchWatermarkMs":1,"new":{}}'):
        assert format_commit_entry(parse_commit_entry(text.encode(), "commits/1")) == text.encode()


def test_a_commit_entry_gives_its_watermark_and_its_state() -> None:
    entry = parse_commit_entry(commit_text(17, {"0": [["a"], ["b"]]}).encode(), "commits/1")
    assert entry.next_watermark_ms == 17
    assert entry.state_ids == {"0": [["a"], ["b"]]}
    assert entry.with_state_ids({"0": [["c"], ["d"]]}).state_ids == {"0": [["c"], ["d"]]}


@pytest.mark.parametrize("text", ["v4\n{}", "v1\n{}\nmore", "v1", 'v1\n"x"'])
def test_a_commit_entry_that_spark_would_not_write_is_malformed(text: str) -> None:
    with pytest.raises(MalformedEntry, match="commits/7"):
        parse_commit_entry(text.encode(), "commits/7")


def test_a_query_id_comes_back() -> None:
    assert parse_query_id(format_query_id("some-id"), "metadata") == "some-id"
    with pytest.raises(MalformedEntry):
        parse_query_id(b'{"name":"x"}', "metadata")


@given(OFFSETS)
def test_kafka_offsets_come_back(offsets: dict[str, dict[str, int]]) -> None:
    assert parse_kafka_offsets(format_kafka_offsets(offsets)) == offsets


def test_partitions_are_written_in_the_order_of_their_numbers() -> None:
    assert format_kafka_offsets({"b": {"10": 1, "9": 2}, "a": {"0": 3}}) == '{"a":{"0":3},"b":{"9":2,"10":1}}'


@pytest.mark.parametrize("text", ['{"logOffset":1}', "7", "{}", "-", '{"t":{}}', '{"t":{"x":1}}', '{"t":{"0":true}}'])
def test_an_offset_of_another_source_is_not_taken_for_kafkas(text: str) -> None:
    assert parse_kafka_offsets(text) is None


@given(st.integers(1, 10**9), st.from_regex(r"[A-Za-z0-9-]{1,40}", fullmatch=True))
def test_a_planted_entry_names_its_owner_and_is_never_taken_for_a_plan(epoch: int, operation: str) -> None:
    sentence = fence_sentence(Fence(epoch, operation))
    assert parse_fence(sentence) == Fence(epoch, operation)
    with pytest.raises(MalformedEntry):
        parse_offset_entry(sentence, "offsets/7")


def test_a_planned_entry_is_never_taken_for_a_planted_one() -> None:
    assert parse_fence(offset_text(orders(0)).encode()) is None
