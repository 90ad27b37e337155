"""The gates of a rewind: each with its measured number, its limit and its sentence."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from orchestrator.decide.gates.checks import REWIND_GATES, judge_move, refusal
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.move.plan import headline, prepare_request
from orchestrator.decide.move_facts import MoveFacts, Rewind, to_time_ms_of
from orchestrator.decide.uncommitted_batch import choose_rewound
from state.messages import Planned, RetainedBatch, SinkMemory, SinkState, UncommittedBatch
from state.model.entities import OperationKind, TopicPartition
from state.settings.keys import Resume
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, REPORT, SILENT, STANDBY, query, resolution

THEN_MS, NOW_MS = 1_800_000_000_000, 1_800_000_060_000
THEN = "2027-01-15T08:00:00.000Z"
BATCH = RetainedBatch(batch=4, planned_at_ms=THEN_MS - 1, offsets={"s": {"t": {"0": 6}}}, watermark_ms=0)
BACK = place(target_offset=6, target_topic="t", method="time", exact=False, replay_records=4)
REWIND = replace(
    GOOD, kind=OperationKind.REWIND, target="east", route=None, standby=STANDBY, resolution=resolution(BACK),
    rewind=Rewind(to_time_ms=THEN_MS, now_ms=NOW_MS, is_read=True),
)  # fmt: skip
HELD = Rewind(to_time_ms=THEN_MS, now_ms=NOW_MS, is_read=True, oldest_ms=THEN_MS - 9_000, batch=BATCH)
STATEFUL = replace(REWIND, stateful=True, rewind=HELD)


def changed(facts: MoveFacts, **rewind: Any) -> MoveFacts:
    assert facts.rewind is not None
    return replace(facts, rewind=replace(facts.rewind, **rewind))


def refused(facts: MoveFacts) -> Gate:
    found = refusal(judge_move(facts))
    assert found is not None
    return found


@pytest.mark.parametrize("facts", [REWIND, STATEFUL])
def test_a_rewind_that_can_be_made_passes_every_gate(facts: MoveFacts) -> None:
    assert refusal(judge_move(facts)) is None
    names = {gate.name for gate in judge_move(facts)}
    assert {"time-past", "retention", "goes-back", "replay", "sink-takes-batches"} <= names
    assert not names & {"route-declared", "not-already-there", "exposure", "caught-up", "repeats-into-state"}


def test_no_gate_speaks_of_what_is_not_known_yet() -> None:
    early = replace(
        REWIND, assignment=None, report=None, resolution=None, standby=None, rewind=None, fence=None, runners=None,
        names=None, choice=None,
    )  # fmt: skip
    assert {gate.name for check in REWIND_GATES if (gate := check(early)) is not None} == {
        "store-current", "assigned", "no-operation-open",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "name", "measured", "says"),
    [
        (changed(REWIND, to_time_ms=NOW_MS), "time-past", "2027-01-15T08:01:00.000Z", "is in the future"),
        (replace(REWIND, target="west"), "expect-active", "east", "has moved to east since"),
        (replace(REWIND, standby=SILENT), "active-reachable", "no answer", "tideover failover q"),
        (
            changed(STATEFUL, batch=None),
            "batch-retained", "back to 2027-01-15T07:59:51.000Z",
            "--to-time 2027-01-15T07:59:51.000Z or later; --consent fresh loses the state",
        ),
        (changed(STATEFUL, batch=None, oldest_ms=None), "batch-retained", "no batch", "no batch with whole state"),
        (
            changed(STATEFUL, batch=None, is_read=False, oldest_ms=THEN_MS + 1),
            "batch-retained", "back to 2027-01-15T08:00:00.001Z", "goes back to 2027-01-15T08:00:00.001Z at most",
        ),
        (
            changed(REWIND, earliest={TopicPartition("t", 0): THEN_MS + 5_000}),
            "retention", "1 partition", "t-0 begins at 2027-01-15T08:00:05.000Z; --consent gap begins there",
        ),
        (
            replace(REWIND, resolution=resolution(replace(BACK, target_offset=10, replay_records=0))),
            "goes-back", "0 records", f"has read nothing since {THEN}",
        ),
        (
            replace(STATEFUL, settings=query(sink="batch-id")),
            "sink-takes-batches", "ids 5 to 7 again", "up to 7, and would drop the batches after batch 4 in silence",
        ),
        (
            replace(STATEFUL, report=REPORT.model_copy(update={"sink_memory": SinkMemory.BATCH})),
            "sink-takes-batches", "ids 5 to 7 again", "--consent dropped",
        ),
        (
            replace(REWIND, resolution=resolution(replace(BACK, target_offset=None, note="the log ends at 3"))),
            "place-found", "0 of 1", "the log ends at 3",
        ),
    ],
)  # fmt: skip
def test_each_gate_refuses_with_its_number_and_what_to_do(
    facts: MoveFacts, name: str, measured: str, says: str
) -> None:
    gate = refused(facts)
    assert (gate.name, gate.measured) == (name, measured)
    assert says in gate.text


@pytest.mark.parametrize(
    ("facts", "consent"),
    [
        (changed(REWIND, earliest={TopicPartition("t", 0): None}), "gap"),
        (replace(STATEFUL, settings=query(sink="batch-id")), "dropped"),
        (changed(STATEFUL, batch=None), "fresh"),
    ],
)
def test_a_consent_accepts_what_its_gate_names(facts: MoveFacts, consent: str) -> None:
    refused(facts)
    assert refusal(judge_move(replace(facts, consents=frozenset({consent})))) is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sink": "keyed"}, "overwrites by key"),
        ({}, "delete from it what came after"),
        ({"sink": "batch-id"}, "delete from it"),
    ],
)
def test_the_plan_says_what_the_sink_does_with_repeats(settings: Mapping[str, Any], says: str) -> None:
    gates = judge_move(replace(REWIND, settings=query(**settings)))
    (gate,) = (gate for gate in gates if gate.name == "sink-takes-batches")
    assert gate.ok
    assert gate.measured == "ids from 8 on"
    assert says in gate.text


def test_a_sink_that_knows_the_querys_id_takes_batches_again() -> None:
    report = REPORT.model_copy(update={"sink_memory": SinkMemory.QUERY_AND_BATCH})
    assert refusal(judge_move(replace(STATEFUL, settings=query(sink="batch-id"), report=report))) is None


def test_state_that_is_given_up_begins_afresh_and_only_then() -> None:
    lost = changed(STATEFUL, batch=None)
    assert lost.resume is Resume.CARRY
    assert replace(lost, consents=frozenset({"fresh"})).resume is Resume.FRESH
    assert replace(STATEFUL, consents=frozenset({"fresh"})).resume is Resume.CARRY
    assert replace(changed(REWIND, batch=None), consents=frozenset({"fresh"})).resume is Resume.CARRY


@pytest.mark.parametrize(
    ("facts", "sink", "treatment", "repeats"),
    [
        (REWIND, SinkState.UNKNOWN, UncommittedBatch.BRIDGE, 5),
        (REWIND, SinkState.HAS_NOT, UncommittedBatch.BRIDGE, 0),
        (STATEFUL, SinkState.UNKNOWN, UncommittedBatch.NONE, 5),
        (replace(REWIND, settings=query(resume="fresh")), SinkState.UNKNOWN, UncommittedBatch.NONE, 5),
    ],
)
def test_the_batch_in_flight_keeps_its_id_to_itself(
    facts: MoveFacts, sink: SinkState, treatment: UncommittedBatch, repeats: int
) -> None:
    planned = Planned(batch=8, offsets={"s": {"t": {"0": 15}}}, sink=sink)
    choose = partial(choose_rewound, fresh=facts.fresh, stateful=facts.stateful)
    choice = choose(REPORT.model_copy(update={"planned": planned}))
    assert (choice.treatment, choice.repeats) == (treatment, repeats)
    assert choose(REPORT).repeats == 0


def test_the_checkpoint_is_made_at_the_retained_batch() -> None:
    request = prepare_request(STATEFUL, target_folder="/c/epoch-2-op")
    assert (request.back_to, request.resume, request.batch) == (4, "carry", 7)
    assert prepare_request(REWIND, target_folder="/c/epoch-2-op").back_to is None


def test_the_time_is_read_from_the_parameters_and_named() -> None:
    assert to_time_ms_of({"to_time": THEN}) == THEN_MS
    with pytest.raises(ValueError, match="None"):
        to_time_ms_of({})
    said = headline(OperationKind.REWIND, "q", "east", "east", {"to_time": THEN})
    assert said == f"rewind of q on east to {THEN}"
