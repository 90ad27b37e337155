"""Lines of the offset log find their declared sources by what they read, by order only among equals, or not at all."""

import pytest

from streaming.spark.checkpoint.log_text import (
    OffsetEntry,
    bind_sources,
    declared_name,
    parse_offset_entry,
    source_offsets,
)
from streaming.spark.errors import AmbiguousSources
from tests.checkpoints import offset_text


def entry(*topics: str | None, version: int = 1) -> OffsetEntry:
    """An entry whose sources read these topics, ``a+b`` for two, None for no offset yet."""
    sources = [None if names is None else {name: {"0": 7} for name in names.split("+")} for names in topics]
    return parse_offset_entry(offset_text(*sources, version=version).encode(), "offsets/1")


@pytest.mark.parametrize("version", [1, 2])
def test_topics_decide_where_the_plan_turned_the_order_round(version: int) -> None:
    bound = bind_sources([entry("b", "a", version=version)], {"left": ["a"], "right": ["b"]})
    assert bound == {"0": "right", "1": "left"}


def test_a_line_may_lack_topics_that_have_no_partition_yet() -> None:
    assert bind_sources([entry("c", "a")], {"left": ["a", "b"], "right": ["c", "d"]}) == {"0": "right", "1": "left"}


def test_a_source_by_pattern_gets_the_line_that_no_other_names() -> None:
    assert bind_sources([entry("x+y", "a")], {"named": ["a"], "any": []}) == {"0": "any", "1": "named"}


def test_a_line_without_an_offset_gets_the_source_that_is_left() -> None:
    assert bind_sources([entry(None, "a")], {"left": ["a"], "right": ["b"]}) == {"0": "right", "1": "left"}


def test_a_later_entry_shows_what_an_earlier_one_could_not() -> None:
    declared = {"one": ["a"], "two": ["b"], "three": ["c"]}
    bound = bind_sources([entry(None, None, "a"), entry("c", "b", "a")], declared)
    assert bound == {"0": "three", "1": "two", "2": "one"}


def test_the_order_decides_between_sources_of_the_same_topics() -> None:
    bound = bind_sources([entry("a", "b", "a")], {"one": ["a"], "two": ["a"], "three": ["b"]})
    assert bound == {"0": "one", "2": "two", "1": "three"}


def test_a_source_of_another_kind_is_passed_over() -> None:
    text = offset_text({"a": {"0": 7}}) + '\n{"logOffset":3}'
    assert bind_sources([parse_offset_entry(text.encode(), "offsets/1")], {"one": ["a"]}) == {"0": "one"}


def test_a_named_source_is_found_by_its_name() -> None:
    text = 'v2\n{}\nleft:{"t":{"0":1}}\nright:{"t":{"0":2}}'
    named = parse_offset_entry(text.encode(), "offsets/1")
    assert bind_sources([named], {"right": ["t"], "left": ["t"]}) == {"left": "left", "right": "right"}


def test_a_name_that_is_not_declared_gets_the_source_that_is_left() -> None:
    named = parse_offset_entry(b'v2\n{}\nleft:{"t":{"0":1}}\nother:-', "offsets/1")
    assert bind_sources([named], {"left": ["t"], "right": ["u"]}) == {"left": "left", "other": "right"}


def test_a_source_that_is_read_again_has_a_name_for_each_of_its_lines() -> None:
    declared = {"orders": ["a"], "items": ["b"]}
    bound = bind_sources([entry("a", "b", "a", "a")], declared)
    assert bound == {"0": "orders", "1": "items", "2": "orders#2", "3": "orders#3"}
    assert {declared_name(name) for name in bound.values()} == declared.keys()


def test_lines_of_one_source_keep_offsets_of_their_own() -> None:
    lines = parse_offset_entry(offset_text({"a": {"0": 7}}, {"a": {"0": 9}}).encode(), "offsets/1")
    offsets = source_offsets(lines, bind_sources([lines], {"orders": ["a"]}))
    assert offsets == {"orders": {"a": {"0": 7}}, "orders#2": {"a": {"0": 9}}}


def test_an_empty_line_is_kafkas_only_if_a_source_has_no_other() -> None:
    """Kafka's source has an offset from its first batch on; a folder without a file has none."""
    assert bind_sources([entry(None, "a")], {"orders": ["a"]}) == {"1": "orders"}
    assert bind_sources([entry("a", None, "b")], {"one": ["a"], "two": ["b"]}) == {"0": "one", "2": "two"}
    assert bind_sources([entry(None)], {"orders": ["a"]}) == {"0": "orders"}


@pytest.mark.parametrize("text", ["{}", "-"])
def test_a_pattern_that_matches_no_topic_yet_is_known_by_what_is_left(text: str) -> None:
    lines = parse_offset_entry(f'v1\n{{}}\n{text}\n{{"a":{{"0":7}}}}'.encode(), "offsets/1")
    bound = bind_sources([lines], {"named": ["a"], "any": []})
    assert bound == {"0": "any", "1": "named"}
    assert source_offsets(lines, bound) == {"named": {"a": {"0": 7}}}


def test_a_declared_source_that_no_line_reads_is_named() -> None:
    with pytest.raises(AmbiguousSources, match="no source of the checkpoint reads two, which the configuration"):
        bind_sources([entry("a", "a")], {"one": ["a"], "two": ["b"]})


@pytest.mark.parametrize(
    ("topics", "declared"),
    [
        (("a",), {"one": ["a"], "two": ["b"]}),
        (("a", "b"), {"one": ["a"]}),
        (("z",), {"one": ["a"]}),
        (("a", "a"), {"one": ["a"], "two": ["b"]}),
        (("a", "a"), {"one": ["a"], "two": ["a", "b"], "three": ["c"]}),
        (("a", "a", "a"), {"one": ["a"], "two": ["a"]}),
    ],
)
def test_a_guess_is_never_made(topics: tuple[str, ...], declared: dict[str, list[str]]) -> None:
    with pytest.raises(AmbiguousSources):
        bind_sources([entry(*topics)], declared)


def test_offsets_are_read_by_source_and_sources_without_are_left_out() -> None:
    one = entry(None, "a")
    assert source_offsets(one, {"0": "right", "1": "left"}) == {"left": {"a": {"0": 7}}}
