"""A number that is not known never opens a gate that a number closed, and automatic mode accepts none.

One property over all gates: whatever the facts are, each measured number is replaced by None, one at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.gates.checks import judge_move, refusal
from orchestrator.decide.gates.gate import UNKNOWN, Gate
from orchestrator.decide.gates.readiness import judge_readiness
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.uncommitted_batch import BatchChoice
from state.messages import Planned, SinkState, UncommittedBatch
from state.model.entities import TopicPartition
from streaming.resume.model import AtMost, Resolution, Target
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, PLANNED, REPORT, STATEFUL, judged, resolution
from tests.unit.orchestrator.decide.gates.test_readiness import at

NUMBERS = ("replay_records", "replay_later_records", "exposure_records", "exposure_seconds")
COSTS = ("replay_records", "replay_later_records")
AUTOMATIC = replace(GOOD, attended=False)
SMALL = st.integers(0, 3)
COUNTS = st.one_of(st.none(), SMALL, st.integers(10**6, 10**7))
TARGETS = st.builds(
    place,
    exact=st.booleans(),
    sent_again=st.booleans(),
    method=st.sampled_from(["exact", "timestamp", "segment", "earliest"]),
    partition=st.integers(0, 2),
    target_offset=st.sampled_from([None, 0, 20]),
    begin=st.sampled_from([0, 20]),
    timestamp_ms=st.sampled_from([None, 5_000]),
    replay_records=COUNTS,
    replay_later_records=COUNTS,
    exposure_records=COUNTS,
    exposure_seconds=st.sampled_from([None, 0.0, 0.4, 61.0]),
).map(lambda each: replace(each, exposure_seconds=0.0) if each.exposure_records == 0 else each)
EARLIEST = st.dictionaries(st.builds(TopicPartition, st.just("t"), st.just(0)), st.sampled_from([4_000, 6_000]))
CHOICES = st.builds(BatchChoice, treatment=st.just(UncommittedBatch.BRIDGE), repeats=COUNTS, text=st.just(""))


@st.composite
def facts_of(draw: st.DrawFn, *, attended: bool = False) -> MoveFacts:
    targets = draw(st.lists(TARGETS, min_size=1, max_size=3, unique_by=lambda each: each.partition))
    base = draw(st.sampled_from([GOOD, STATEFUL]))
    types = draw(st.sampled_from([None, {"t": "CreateTime"}, {"t": "LogAppendTime"}]))
    found = resolution(*targets, earliest_timestamps=draw(EARLIEST), timestamp_types=types)
    return replace(base, resolution=found, choice=draw(CHOICES), attended=attended)


def blanked(facts: MoveFacts) -> Iterator[tuple[str, MoveFacts]]:
    """The same facts, each time without one number that is known."""
    found = facts.resolution
    assert found is not None
    for index, target in enumerate(found.targets):
        for name in (*NUMBERS, "timestamp_ms", "target_offset"):
            if getattr(target, name) is not None:
                yield name, replace(facts, resolution=with_target(found, index, {name: None}))
    if facts.choice is not None and facts.choice.repeats is not None:
        yield "possible repeats", replace(facts, choice=replace(facts.choice, repeats=None))
    if found.earliest_timestamps:
        yield "earliest", replace(facts, resolution=replace(found, earliest_timestamps=None))
    if found.timestamp_types:
        yield "timestamp type", replace(facts, resolution=replace(found, timestamp_types=None))


def with_target(found: Resolution, index: int, changes: Mapping[str, Any]) -> Resolution:
    targets = list(found.targets)
    targets[index] = replace(targets[index], **dict(changes))
    return replace(found, targets=tuple(targets))


def refusing(facts: MoveFacts) -> set[str]:
    return {gate.name for gate in judge_move(facts) if not gate.ok}


@given(facts_of())
def test_in_automatic_mode_no_unknown_number_turns_a_refusal_into_a_pass(facts: MoveFacts) -> None:
    refused = refusing(facts)
    for name, less in blanked(facts):
        assert not refused or refusing(less), name


@given(facts_of())
def test_in_automatic_mode_an_unknown_cost_is_refused_whatever_else_is_known(facts: MoveFacts) -> None:
    for name, less in blanked(facts):
        if name in {*COSTS, "possible repeats", "target_offset"}:
            assert refusing(less), name


@given(facts_of(attended=True))
def test_a_gate_that_passes_with_an_unknown_number_says_so(facts: MoveFacts) -> None:
    """A person decides by what the gates show: where a number is unknown, one of them says it."""
    for name, less in blanked(facts):
        if name in NUMBERS and not refusing(less):
            said = [gate for gate in judge_move(less) if UNKNOWN in gate.text or gate.measured == UNKNOWN]
            zero = name == "exposure_records" or (name == "exposure_seconds" and not records_unknown(less))
            later = name == "replay_later_records" and not less.stateful
            assert said or zero or later, name


def records_unknown(facts: MoveFacts) -> bool:
    return any(target.exposure_records != 0 for target in facts.resolution.targets) if facts.resolution else False


@pytest.mark.parametrize("name", NUMBERS)
def test_automatic_mode_refuses_each_number_that_is_unknown(name: str) -> None:
    lacking = place(exposure_records=4, exposure_seconds=0.5)
    known = replace(AUTOMATIC, resolution=resolution(lacking))
    assert refusal(judge_move(known)) is None
    for base in (AUTOMATIC, replace(AUTOMATIC, stateful=True)):
        gate = refusal(
            judge_move(replace(base, resolution=resolution(replace(lacking, **dict[str, Any]({name: None})))))
        )
        assert gate is not None, name
        assert gate.measured == UNKNOWN


def gate_of(name: str, facts: MoveFacts, **target: Any) -> Gate:
    found = judged(name, replace(facts, resolution=resolution(place(**target))))
    assert found is not None
    return found


def test_records_that_come_later_count_in_automatic_mode() -> None:
    few = {"replay_later_records": 7, "exact": False}
    assert gate_of("replay", GOOD, **few).measured == "0 records"
    assert gate_of("replay", AUTOMATIC, **few).measured == "7 records"
    strict = replace(AUTOMATIC, policy=GOOD.policy.model_copy(update={"max_replay": 6}))
    gate = gate_of("replay", strict, **few)
    assert not gate.ok
    assert gate.text.startswith("0 records, and 7 once the replicator appends them, would be read twice")


def test_an_unknown_number_of_later_repeats_is_not_called_none() -> None:
    gate = gate_of("repeats-into-state", STATEFUL, replay_later_records=None)
    assert gate.ok
    assert "an unknown number of records would be if the replicator runs again" in gate.text
    behind = gate_of("caught-up", PLANNED, exact=False, replay_later_records=None)
    assert "how many is unknown" in behind.text
    assert " 0 records" not in behind.text


def test_an_unknown_partition_is_not_hidden_by_a_known_one() -> None:
    mixed = resolution(
        place(exposure_records=4, exposure_seconds=0.4),
        place(partition=1, exposure_records=None, exposure_seconds=None),
    )
    gate = judged("exposure", replace(GOOD, resolution=mixed))
    assert gate is not None
    assert (gate.ok, gate.measured) == (True, UNKNOWN)
    assert gate.text == "it is unknown what the standby lacks of t-1; of the others it lacks 0.4 s at most"


def test_possible_repeats_of_a_batch_without_a_choice_are_unknown() -> None:
    planned = REPORT.model_copy(
        update={"planned": Planned(batch=8, offsets={"s": {"t": {"0": 30}}}, sink=SinkState.UNKNOWN)}
    )
    gate = judged("replay", replace(AUTOMATIC, report=planned, choice=None))
    assert gate is not None
    assert (gate.ok, gate.measured) == (False, UNKNOWN)


def test_where_an_upstream_query_began_to_write_is_unknown_until_it_was_seen() -> None:
    reported: list[tuple[int | None, bool, bool, str]] = [
        (None, True, True, UNKNOWN), (None, False, False, UNKNOWN), (10, True, False, "1 partition"),
        (30, False, True, "0 partitions"),
    ]  # fmt: skip
    for end, attended, ok, measured in reported:
        gate = judged("upstream-output", replace(GOOD, attended=attended, begun={TopicPartition("t", 0): ("up", end)}))
        assert gate is not None
        assert (gate.ok, gate.measured) == (ok, measured)


def test_a_log_that_begins_behind_the_position_is_a_gap_even_at_0() -> None:
    """The standby's topic was recreated while the query lagged: nothing was deleted, and records are missing."""
    earlier, later = ({"earliest_timestamps": {TopicPartition("t", 0): at_ms}} for at_ms in (4_000, 6_000))
    lagged = place(exact=False, method="timestamp", begin=0, target_offset=0, sampled_end=50)
    for found, ok in ((resolution(lagged, **earlier), True), (resolution(lagged, **later), False),
                      (resolution(replace(lagged, sampled_end=10), **later), True),
                      (resolution(replace(lagged, offset=0), **later), True)):  # fmt: skip
        gate = judged("retention", replace(GOOD, resolution=found))
        assert gate is not None
        assert gate.ok is ok
        assert ok or "begins after what was read last" in gate.text


@given(TARGETS, EARLIEST)
def test_readiness_is_never_better_with_a_number_that_is_unknown(target: Target, earliest: Mapping[Any, int]) -> None:
    condition = at(target, earliest_timestamps=earliest)
    if judge_readiness(condition).ready is True:
        return
    for name, less in blanked(condition.facts):
        if name == "earliest" and not target.begin:
            continue  # of a log that begins at 0 no time is requested: nothing was deleted
        assert judge_readiness(replace(condition, facts=less)).ready is not True, name


# -- upper bounds ----------------------------------------------------------------------------------------------------
BOUND = AtMost(exposure_records=900, exposure_seconds=45.0, replay_later_records=700, by="by its records")
LAGS = {
    "exact": False, "exposure_records": None, "exposure_seconds": 4.0, "replay_later_records": None, "at_most": BOUND,
}  # fmt: skip


def test_automatic_mode_goes_by_an_upper_bound_within_the_limits() -> None:
    facts = replace(AUTOMATIC, policy=GOOD.policy.model_copy(update={"max_replay": 700}))
    assert refusal(judge_move(replace(facts, resolution=resolution(place(**LAGS))))) is None
    exposed, repeated = (gate_of(name, facts, **LAGS) for name in ("exposure", "replay"))
    assert (exposed.measured, repeated.measured) == ("at most 45.0 s", "at most 700 records")
    assert "; at most 900 records" in exposed.text
    calm = gate_of("repeats-into-state", replace(facts, stateful=True), **LAGS)
    assert calm.ok
    assert calm.text.startswith("no record would be counted twice in the state now; at most 700 records would be")


@pytest.mark.parametrize(
    ("name", "bound", "text"),
    [
        ("exposure", {"exposure_seconds": 61.0}, "the standby lacks 61.0 s of records; at most 900 records"),
        ("exposure", {"exposure_seconds": None}, "it is unknown what the standby lacks of t-0"),
        ("replay", {"replay_later_records": 701}, "0 records, and at most 701 once the replicator appends them,"),
    ],
)
def test_automatic_mode_refuses_an_upper_bound_beyond_a_limit(name: str, bound: dict[str, Any], text: str) -> None:
    facts = replace(AUTOMATIC, policy=GOOD.policy.model_copy(update={"max_replay": 700}))
    gate = gate_of(name, facts, **{**LAGS, "at_most": replace(BOUND, **bound)})
    assert not gate.ok
    assert gate.text.startswith(text)


def test_a_person_is_shown_the_bound_beside_what_is_known() -> None:
    gate = gate_of("exposure", GOOD, **LAGS)
    assert (gate.ok, gate.measured) == (True, "at most 4.0 s")
    assert "at most 900 records" in gate.text
    assert gate_of("replay", GOOD, **LAGS).measured == "0 records", "what comes later is in the operator's hands"


def test_a_bound_of_one_partition_hides_no_other_that_has_none() -> None:
    bare = place(partition=1, **{**LAGS, "at_most": None})
    gate = judged("exposure", replace(AUTOMATIC, resolution=resolution(place(**LAGS), bare)))
    assert gate is not None
    assert not gate.ok
    assert gate.text.startswith("it is unknown what the standby lacks of t-1")


def test_a_bound_adds_nothing_to_a_number_that_is_known() -> None:
    known = {**LAGS, "exposure_records": 5, "exposure_seconds": 2.0}
    assert gate_of("exposure", AUTOMATIC, **known).measured == "2.0 s"
