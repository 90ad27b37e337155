"""What a query's logic makes of columns that belong to a cluster: passed where a move changes nothing, else refused."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.decide.gates.checks import judge_move
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.meaning import AHEAD_MS
from orchestrator.decide.move_facts import EventTimes, MoveFacts
from state.model.column_uses import Column, ColumnUse
from state.model.entities import TopicPartition
from state.settings.keys import Route
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import (
    FACT,
    GOOD,
    REPORT,
    RUNNER,
    STAMPED,
    query,
    resolution,
    using,
)

OFFSET = using(("offset", "dropDuplicates"), ("partition", "dropDuplicates"))
KEEPS = Route.model_validate({"from": "east", "to": "west", "keeps_offsets": True})
KNOWN = EventTimes(stamps={"t": "CreateTime"})
LATE = using(("timestamp", "withWatermark"), delay_ms=60_000, times=KNOWN)
REACHES = replace(GOOD, fact=replace(FACT, columns=(ColumnUse("s", Column.OFFSET, "foreachBatch", is_logic=False),)))


def gate(name: str, facts: MoveFacts) -> Gate:
    return next(each for each in judge_move(facts) if each.name == name)


def at(offset: int, target_offset: int | None, partition: int = 0) -> Any:
    return place(partition=partition, target_partition=partition, offset=offset, target_offset=target_offset)


@pytest.mark.parametrize("name", ["offset-in-logic", "topic-in-logic", "event-time"])
def test_a_query_that_uses_no_such_column_passes(name: str) -> None:
    assert (gate(name, GOOD).ok, gate(name, GOOD).measured) == (True, "not used")


@pytest.mark.parametrize("name", ["offset-in-logic", "topic-in-logic", "event-time"])
def test_a_plan_that_was_never_read_is_unknown_and_left_to_a_person(name: str) -> None:
    unread = replace(GOOD, fact=replace(FACT, columns=None))
    assert (gate(name, unread).ok, gate(name, unread).measured) == (True, "unknown")
    assert not gate(name, replace(unread, attended=False)).ok


@pytest.mark.parametrize("name", ["offset-in-logic", "topic-in-logic", "event-time"])
def test_without_a_report_of_the_query_nothing_is_said(name: str) -> None:
    assert name not in {each.name for each in judge_move(replace(GOOD, fact=None))}


@pytest.mark.parametrize(
    ("places", "count"),
    [
        ((at(100, 40), at(50, 60, 1)), 60),
        ((at(100, 40), at(50, 10, 1)), 100),
        ((at(100, 100),), 0),
    ],
)
def test_records_that_look_like_duplicates_are_counted_by_partition(places: tuple[Any, ...], count: int) -> None:
    found = gate("offset-in-logic", replace(OFFSET, resolution=resolution(*places)))
    assert not found.ok
    assert f"so up to {count} records that were not seen before could be dropped as duplicates" in found.text


def test_without_the_partition_in_the_key_the_highest_offset_counts() -> None:
    found = gate(
        "offset-in-logic", using(("offset", "dropDuplicates"), resolution=resolution(at(100, 40), at(9, 40, 1)))
    )
    assert "up to 120 records" in found.text


def test_an_unknown_place_gives_no_number() -> None:
    found = gate("offset-in-logic", replace(OFFSET, resolution=resolution(at(100, None))))
    assert "records could be dropped as duplicates, or repeats kept" in found.text
    assert "up to" not in found.text


def test_a_refusal_names_consent_and_setting() -> None:
    text = gate("offset-in-logic", OFFSET).text
    assert text.endswith("; --consent columns accepts it, safe_columns: [offset] says that it does no harm")


def test_offsets_that_are_proven_the_same_do_no_harm() -> None:
    kept = replace(OFFSET, route=KEEPS, resolution=resolution(at(20, 20), at(30, 30, 1)))
    assert gate("offset-in-logic", kept).ok
    assert not gate("offset-in-logic", replace(kept, resolution=resolution(at(20, 20), at(30, 31, 1)))).ok
    guessed = resolution(replace(at(20, 20), exact=False))
    assert not gate("offset-in-logic", replace(kept, resolution=guessed)).ok
    assert not gate("offset-in-logic", replace(kept, route=GOOD.route)).ok
    early = replace(kept, resolution=None)
    assert "offset-in-logic" not in {each.name for each in judge_move(early)}


def test_a_partition_alone_matters_only_where_their_number_differs() -> None:
    alone = using(("partition", "groupBy"))
    assert gate("offset-in-logic", alone).ok
    other = replace(alone, resolution=resolution(at(20, 20), fewer_partitions={"t": (1, 2)}))
    assert not gate("offset-in-logic", other).ok


def test_safe_columns_lets_the_named_columns_pass_and_no_other() -> None:
    both = using(("offset", "filter"), ("topic", "groupBy"), topics={"t": "east.t"})
    safe = replace(both, settings=query(safe_columns=["offset"]))
    assert (gate("offset-in-logic", safe).ok, gate("offset-in-logic", safe).measured) == (True, "safe_columns")
    assert not gate("topic-in-logic", safe).ok


def test_a_column_that_leaves_the_plan_is_unknown() -> None:
    found = gate("offset-in-logic", REACHES)
    assert (found.ok, found.measured) == (True, "unknown")
    assert found.text.startswith("offset reaches foreachBatch: what foreachBatch does with it is unknown; --consent")
    assert not gate("offset-in-logic", replace(REACHES, attended=False)).ok
    assert gate("offset-in-logic", replace(REACHES, attended=False, consents=frozenset({"columns"}))).ok


def test_logic_counts_before_what_is_unknown() -> None:
    uses = (*(REACHES.fact.columns or ()), ColumnUse("s", Column.OFFSET, "filter", is_logic=True))  # type: ignore[union-attr]
    found = gate("offset-in-logic", replace(REACHES, fact=replace(FACT, columns=uses)))
    assert (found.ok, found.measured) == (False, "filter: offset")
    assert found.text.startswith("filter uses offset: offsets of west differ, so other records would pass")


def test_a_topic_of_the_same_name_does_no_harm() -> None:
    assert gate("topic-in-logic", using(("topic", "groupBy"))).ok


@pytest.mark.parametrize(("stamps", "ok"), [({"t": "CreateTime"}, True), ({"t": "LogAppendTime"}, False)])
def test_time_is_the_same_where_both_clusters_keep_the_producers(stamps: dict[str, str], ok: bool) -> None:
    assert gate("event-time", replace(LATE, times=EventTimes(stamps=stamps))).ok is ok


def test_an_unknown_kind_of_time_is_unknown() -> None:
    unknown = replace(LATE, times=EventTimes())
    assert (gate("event-time", unknown).ok, gate("event-time", unknown).measured) == (True, "unknown")
    assert "it is unknown whether t on east uses CreateTime or LogAppendTime" in gate("event-time", unknown).text
    assert not gate("event-time", replace(unknown, attended=False)).ok


@pytest.mark.parametrize(
    ("latencies", "text"),
    [
        ({}, "it is unknown how many records would be late"),
        ({"t": (-90_000, 5)}, "30 s of records would be late (stamped 90 s earlier than here)"),
        ({"t": (-60_000,)}, "records would be stamped 60 s earlier than here"),
        ({"t": (2_500,)}, "records would be stamped 2.5 s later than here, and fall into later windows"),
    ],
)
def test_copies_with_a_time_of_their_own_are_named_with_the_seconds(
    latencies: dict[str, tuple[int, ...]], text: str
) -> None:
    found = gate("event-time", replace(LATE, standby=STAMPED, times=replace(KNOWN, latencies=latencies)))
    assert not found.ok
    assert text in found.text


def test_a_record_from_the_future_is_named_before_the_move() -> None:
    ahead = {TopicPartition("t", 3): 3_600_000, TopicPartition("t", 1): 5_000}
    found = gate("event-time", replace(LATE, times=replace(KNOWN, ahead=ahead)))
    assert not found.ok
    assert "3540 s of records would be late: t-3 on east has a record 3600 s ahead of the clock" in found.text
    near = {TopicPartition("t", 3): 60_000 + AHEAD_MS - 1}
    assert gate("event-time", replace(LATE, times=replace(KNOWN, ahead=near))).ok
    no_watermark = using(("timestamp", "filter"), times=replace(KNOWN, ahead=ahead))
    assert gate("event-time", no_watermark).ok


@pytest.mark.parametrize(
    ("column", "changes", "recognised"),
    [
        ("offset", {}, False),
        ("topic", {}, True),
        ("topic", {"topics": {"t": "east.t"}}, False),
        ("timestamp", {"times": KNOWN}, True),
        ("timestamp", {}, False),
        ("timestamp", {"times": KNOWN, "standby": STAMPED}, False),
    ],
)
def test_duplicates_are_removed_only_by_keys_that_a_copy_has_too(
    column: str, changes: dict[str, Any], recognised: bool
) -> None:
    again = resolution(place(exact=False, replay_records=9))
    removes = REPORT.model_copy(update={"deduplicates_ahead": True})
    facts = using((column, "dropDuplicates"), stateful=True, report=removes, resolution=again, **changes)
    assert gate("repeats-into-state", facts).ok is recognised
    unread = replace(facts, fact=replace(FACT, columns=None))
    assert not gate("repeats-into-state", unread).ok


def switching(facts: MoveFacts, **changes: Any) -> MoveFacts:
    """The query reads through the companion's source."""
    return replace(facts, settings=query(resume="switch", **changes), runners=(replace(RUNNER, companion=True),))


def test_a_query_with_home_offsets_moves_by_switch_or_not_at_all() -> None:
    with_it = replace(GOOD, settings=query(home_offsets=True), runners=(replace(RUNNER, companion=True),))
    assert gate("home-offsets", with_it).ok
    one_without = replace(
        with_it, runners=(replace(RUNNER, companion=True), replace(RUNNER, runner="b", companion=False))
    )
    refused = gate("home-offsets", one_without)
    assert (refused.ok, refused.measured) == (False, "carry")
    assert "runner b has no companion" in refused.text
    assert not gate("home-offsets", replace(with_it, settings=query(home_offsets=True, resume="fresh"))).ok
    assert "home-offsets" not in {each.name for each in judge_move(GOOD)}


def test_offsets_of_home_do_no_harm_where_the_companion_continues_them() -> None:
    assert gate("offset-in-logic", switching(OFFSET, home_offsets=True)).ok
    assert not gate("offset-in-logic", switching(OFFSET)).ok
    assert "home_offsets: true keeps the offsets of home" in gate("offset-in-logic", switching(OFFSET)).text
    assert not gate("offset-in-logic", replace(OFFSET, settings=query(home_offsets=True))).ok, "a copied checkpoint"
    other = resolution(at(20, 20), fewer_partitions={"t": (1, 2)})
    assert not gate("offset-in-logic", replace(switching(OFFSET, home_offsets=True), resolution=other)).ok


def test_offsets_of_home_recognise_no_copy() -> None:
    again = resolution(place(exact=False, replay_records=9))
    removes = REPORT.model_copy(update={"deduplicates_ahead": True})
    facts = replace(switching(OFFSET, home_offsets=True), stateful=True, report=removes, resolution=again)
    assert not gate("repeats-into-state", facts).ok


def test_topics_of_home_do_no_harm_where_the_companion_names_them() -> None:
    renamed = using(("topic", "groupBy"), topics={"t": "east.t"})
    assert not gate("topic-in-logic", renamed).ok
    assert gate("topic-in-logic", switching(renamed)).ok
    pattern = {"sources": {"s": {"pattern": "t.*"}}}
    assert gate("topic-in-logic", switching(renamed, **pattern)).ok
    assert not gate("topic-in-logic", replace(switching(renamed, **pattern), source="west", target="east")).ok


def test_headers_pass_where_mirrormaker_copies_them() -> None:
    uses = using(("headers", "filter"), attended=False)
    mirrored = Route.model_validate({"from": "east", "to": "west", "heartbeats": "east.heartbeats"})
    assert not gate("headers-in-logic", uses).ok
    assert gate("headers-in-logic", replace(uses, route=mirrored)).ok
