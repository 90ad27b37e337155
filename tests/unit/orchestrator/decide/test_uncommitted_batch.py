"""What becomes of a planned batch: the table under *Batch N+1* in ``docs/concepts.md``."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orchestrator.decide.uncommitted_batch import choose_fresh, choose_treatment
from state.messages import CheckpointReport, Planned, SinkMemory, SinkState, StateOperator, UncommittedBatch
from state.settings.keys import Sink
from streaming.resume.model import Resolution
from tests.contract.samples import place

START, END = 10, 14


def at(offset: int, target_offset: int | None, **changes: Any) -> Resolution:
    target = place(**{"offset": offset, "target_offset": target_offset, "timestamp_ms": 1, "end": 99, **changes})
    return Resolution(targets=(target,), looked_up_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=0.1)


FORMATS = {
    SinkMemory.QUERY_AND_BATCH: "delta", SinkMemory.CHECKPOINT_AND_BATCH: "paimon", SinkMemory.BATCH: "hudi",
    SinkMemory.NOTHING: "kafka", SinkMemory.UNKNOWN: "com.example.sink",
}  # fmt: skip


def report(
    sink: SinkState | None = SinkState.UNKNOWN,
    *,
    stateful: bool = False,
    memory: SinkMemory = SinkMemory.OWN_CODE,
    others_read: bool = False,
    held: bool = False,
) -> CheckpointReport:
    more: dict[str, Any] = {"others_read": others_read, "held": held}
    more |= {"run_id": "r"} if held else {}
    planned = Planned(batch=8, offsets={"s": {"t": {"0": END}}}, sink=sink, **more) if sink else None
    operators = (StateOperator(id=0, name="stateStoreSave", partitions=2),) if stateful else ()
    return CheckpointReport(
        checkpoint="/c", batch=7, offsets={"s": {"t": {"0": START}}}, planned=planned, operators=operators,
        sink_memory=memory, sink_format=FORMATS.get(memory),
    )  # fmt: skip


def test_under_the_same_query_id_a_sink_recognises_its_batch() -> None:
    """Spark's Delta and Iceberg sinks: a checkpoint that is kept keeps the query id, a carried one has another."""
    known = report(SinkState.HAS, memory=SinkMemory.QUERY_AND_BATCH, stateful=True)
    carried = choose_treatment(known, EXACT, at(END, 47), Sink.BATCH_ID)
    kept = choose_treatment(known, EXACT, at(END, 47), Sink.BATCH_ID, keeps_query_id=True)
    assert (carried.treatment, carried.repeats) == (UncommittedBatch.REPLAN, 4)
    assert (kept.treatment, kept.repeats) == (UncommittedBatch.REPLAN, 0)
    assert "query id" in carried.text
    assert "query id" not in kept.text


@pytest.mark.parametrize("sink", [Sink.BATCH_ID, Sink.APPEND])
@pytest.mark.parametrize(
    ("state", "repeats", "says"),
    [
        (SinkState.HAS, 0, ""),
        (SinkState.HAS_NOT, 0, ""),
        (SinkState.FORGOT, 4, "no longer remembers"),
        (SinkState.UNKNOWN, 4, "the delta table could not be read"),
    ],
)
def test_a_table_is_read_before_it_counts_as_one_that_recognises_a_batch(
    sink: Sink, state: SinkState, repeats: int, says: str
) -> None:
    """Transaction ids expire in Delta, snapshots in Iceberg (delta#1167): then the batch is written a second time."""
    table = report(state, memory=SinkMemory.QUERY_AND_BATCH, stateful=True)
    choice = choose_treatment(table, EXACT, at(END, 47), sink, keeps_query_id=True)
    assert (choice.treatment, choice.repeats) == (UncommittedBatch.REPLAN, repeats)
    assert says in choice.text


@pytest.mark.parametrize(
    ("memory", "sink", "kept", "repeats"),
    [
        (SinkMemory.NOTHING, Sink.BATCH_ID, True, 4),
        (SinkMemory.NOTHING, Sink.KEYED, True, 0),
        (SinkMemory.BATCH, Sink.APPEND, False, 0),
        (SinkMemory.CHECKPOINT_AND_BATCH, Sink.BATCH_ID, False, 4),
        (SinkMemory.CHECKPOINT_AND_BATCH, Sink.BATCH_ID, True, 0),
        (SinkMemory.CHECKPOINT_AND_BATCH, Sink.APPEND, True, 4),
        (SinkMemory.UNKNOWN, Sink.BATCH_ID, False, 4),
        (SinkMemory.UNKNOWN, Sink.BATCH_ID, True, 0),
        (SinkMemory.UNKNOWN, Sink.APPEND, True, 4),
        (SinkMemory.OWN_CODE, Sink.BATCH_ID, False, 0),
    ],
)
def test_the_memory_of_a_format_decides_over_what_is_declared(
    memory: SinkMemory, sink: Sink, kept: bool, repeats: int
) -> None:
    choice = choose_treatment(report(memory=memory), EXACT, at(END, 47), sink, keeps_query_id=kept)
    assert choice.repeats == repeats


EXACT = at(START, 43)
LOOSE = at(START, 43, exact=False)

CASES = [
    ("nothing was planned", report(None), EXACT, None, UncommittedBatch.NONE, 0),
    ("both ends exact", report(), EXACT, at(END, 47), UncommittedBatch.REPLAN, 0),
    ("both ends exact, and the sink has it", report(SinkState.HAS), EXACT, at(END, 47), UncommittedBatch.REPLAN, 0),
    ("both ends exact, with state", report(stateful=True), EXACT, at(END, 47), UncommittedBatch.REPLAN, 0),
    ("fewer offsets: markers between", report(), EXACT, at(END, 46), UncommittedBatch.REPLAN, 0),
    ("copies behind both ends", report(), at(START, 43, exact=False, sent_again=True),
     at(END, 47, exact=False, sent_again=True), UncommittedBatch.REPLAN, 0),
    ("more offsets: copies sent again", report(), EXACT, at(END, 48), UncommittedBatch.BRIDGE, 4),
    ("the end is not on the standby", report(), EXACT, at(END, 47, exact=False), UncommittedBatch.BRIDGE, 4),
    ("the start is not exact", report(), LOOSE, at(END, 47), UncommittedBatch.BRIDGE, 4),
    ("no records between, though there were some", report(), EXACT, at(END, 43), UncommittedBatch.BRIDGE, 4),
    ("the sink has it", report(SinkState.HAS), LOOSE, at(END, 47), UncommittedBatch.PROMOTE, 0),
    ("the sink has it, its end has no place", report(SinkState.HAS), EXACT, at(END, None), UncommittedBatch.BRIDGE, 4),
    ("the sink has it, but state of it is missing", report(SinkState.HAS, stateful=True), LOOSE, at(END, 47),
     UncommittedBatch.BRIDGE, 4),
    ("the sink has it not", report(SinkState.HAS_NOT), LOOSE, at(END, 47), UncommittedBatch.BRIDGE, 0),
    ("its end was not looked up", report(), EXACT, None, UncommittedBatch.BRIDGE, 4),
]  # fmt: skip


@pytest.mark.parametrize(("why", "checkpoint", "first", "second", "treatment", "repeats"), CASES)
def test_the_first_treatment_that_holds_is_chosen(
    why: str,
    checkpoint: CheckpointReport,
    first: Resolution,
    second: Resolution | None,
    treatment: UncommittedBatch,
    repeats: int,
) -> None:
    for sink in (Sink.KEYED, Sink.BATCH_ID):
        choice = choose_treatment(checkpoint, first, second, sink)
        overwritten = sink is Sink.KEYED and repeats is not None
        assert (choice.treatment, choice.repeats) == (treatment, 0 if overwritten else repeats), why


APPENDING = [
    ("nobody knows whether it has it", report(), UncommittedBatch.REPLAN, 4),
    ("it has it", report(SinkState.HAS), UncommittedBatch.PROMOTE, 0),
    ("it has it, and state of it is missing", report(SinkState.HAS, stateful=True), UncommittedBatch.REPLAN, 4),
    ("it has it not", report(SinkState.HAS_NOT), UncommittedBatch.REPLAN, 0),
    ("it is Spark's file sink, and drops what it has", report(memory=SinkMemory.BATCH), UncommittedBatch.REPLAN, 0),
    ("it gets the batch once, from the run that is held in it", report(held=True), UncommittedBatch.REPLAN, 0),
]


@pytest.mark.parametrize(
    ("first", "second", "treatment"),
    [
        (EXACT, at(END, 46), UncommittedBatch.REPLAN),
        (EXACT, at(END, 48), UncommittedBatch.BRIDGE),
        (LOOSE, at(END, 47), UncommittedBatch.BRIDGE),
        (EXACT, None, UncommittedBatch.BRIDGE),
    ],
)
def test_a_held_batch_continues_only_where_its_records_lie_one_for_one(
    first: Resolution, second: Resolution | None, treatment: UncommittedBatch
) -> None:
    there = choose_treatment(report(held=True), EXACT, at(END, 47), Sink.APPEND)
    assert there.text == "batch 8 continues in its run, from the next record of each task"
    choice = choose_treatment(report(held=True), first, second, Sink.APPEND)
    assert (choice.treatment, choice.repeats) == (treatment, 4)


def test_a_batch_is_repeated_where_its_run_does_not_continue() -> None:
    there = choose_treatment(report(held=True), EXACT, at(END, 47), Sink.APPEND)
    assert (there.repeats, there.in_run, there.otherwise) == (0, "r", 4)
    keyed = choose_treatment(report(held=True), EXACT, at(END, 47), Sink.KEYED)
    assert (keyed.repeats, keyed.in_run, keyed.otherwise) == (0, "r", 0)
    again = choose_treatment(report(), EXACT, at(END, 47), Sink.APPEND)
    assert (again.repeats, again.in_run, again.otherwise) == (4, None, None)


def both(offset: int, there: int) -> Resolution:
    """Two topics that have another name on the standby."""
    one = at(offset, there, topic="orders", target_topic="east.orders")
    other = at(offset, there, topic="payments", target_topic="east.payments")
    return replace(one, targets=(*one.targets, *other.targets))


def test_a_batch_of_two_renamed_topics_continues_in_its_run() -> None:
    ends = {"s": {"orders": {"0": END}, "payments": {"0": END}}}
    known = report(held=True)
    assert known.planned is not None
    known = known.model_copy(
        update={
            "offsets": {"s": {"orders": {"0": START}, "payments": {"0": START}}},
            "planned": known.planned.model_copy(update={"offsets": ends}),
        }
    )
    assert choose_treatment(known, both(START, 43), both(END, 47), Sink.APPEND).in_run == "r"
    merged = replace(both(END, 47), targets=tuple(replace(t, target_topic="t") for t in both(END, 47).targets))
    begun = replace(both(START, 43), targets=tuple(replace(t, target_topic="t") for t in both(START, 43).targets))
    assert choose_treatment(known, begun, merged, Sink.APPEND).in_run is None, "nobody knows which is which"


def test_a_source_without_records_in_the_batch_stops_no_run() -> None:
    """No one could say which topic of it is which there, and no task of it is under way."""
    idle = {"a": {"0": 5}, "b": {"0": 5}}
    known = report(held=True)
    assert known.planned is not None
    known = known.model_copy(
        update={
            "offsets": {**known.offsets, "idle": idle},
            "planned": known.planned.model_copy(update={"offsets": {**known.planned.offsets, "idle": idle}}),
        }
    )
    still = [at(5, 9, source="idle", topic=topic, target_topic="x").targets[0] for topic in ("a", "b")]
    first, second = (replace(each, targets=(*each.targets, *still)) for each in (EXACT, at(END, 47)))
    assert choose_treatment(known, first, second, Sink.APPEND).in_run == "r"


@pytest.mark.parametrize(("why", "checkpoint", "treatment", "repeats"), APPENDING)
def test_a_sink_that_appends_may_get_the_same_batch_twice(
    why: str, checkpoint: CheckpointReport, treatment: UncommittedBatch, repeats: int
) -> None:
    choice = choose_treatment(checkpoint, EXACT, at(END, 47), Sink.APPEND)
    assert (choice.treatment, choice.repeats) == (treatment, repeats), why


@pytest.mark.parametrize(("why", "checkpoint", "first", "second", "treatment", "repeats"), CASES)
def test_where_a_batch_is_not_planned_again_all_sinks_are_treated_alike(
    why: str,
    checkpoint: CheckpointReport,
    first: Resolution,
    second: Resolution | None,
    treatment: UncommittedBatch,
    repeats: int,
) -> None:
    if treatment is not UncommittedBatch.REPLAN:
        choice = choose_treatment(checkpoint, first, second, Sink.APPEND)
        assert (choice.treatment, choice.repeats) == (treatment, repeats), why


def test_repeats_of_a_batch_with_a_new_partition_are_unknown() -> None:
    planned = Planned(batch=8, offsets={"s": {"t": {"0": END, "1": 5}}}, sink=SinkState.UNKNOWN)
    choice = choose_treatment(report().model_copy(update={"planned": planned}), LOOSE, None, Sink.KEYED)
    assert choice.repeats is None


def test_a_batch_that_is_skipped_repeats_nothing_in_a_sink_that_overwrites() -> None:
    for sink, repeats in ((Sink.KEYED, 0), (Sink.APPEND, 4), (Sink.BATCH_ID, 4)):
        choice = choose_treatment(report(), LOOSE, None, sink)
        assert (choice.treatment, choice.repeats) == (UncommittedBatch.BRIDGE, repeats)


@pytest.mark.parametrize(
    ("sink", "repeats"), [(None, 0), (SinkState.HAS_NOT, 0), (SinkState.HAS, 4), (SinkState.UNKNOWN, 4)]
)
def test_a_fresh_start_may_repeat_a_batch_that_the_sink_may_have(sink: SinkState | None, repeats: int) -> None:
    assert choose_fresh(report(sink)).repeats == repeats


def test_a_sink_that_goes_by_the_query_id_may_take_the_batch_twice() -> None:
    """Spark's Delta and Iceberg sinks: a carried checkpoint has a new query id."""
    delta = report(memory=SinkMemory.QUERY_AND_BATCH)
    choice = choose_treatment(delta, EXACT, at(END, 47), Sink.BATCH_ID)
    assert (choice.treatment, choice.repeats) == (UncommittedBatch.REPLAN, 4)
    assert "may write that batch twice" in choice.text
    assert choose_treatment(report(), EXACT, at(END, 47), Sink.BATCH_ID).repeats == 0
    assert choose_treatment(delta, EXACT, at(END, 47), Sink.KEYED).repeats == 0
    nothing = report(None, memory=SinkMemory.QUERY_AND_BATCH)
    assert choose_treatment(nothing, EXACT, None, Sink.BATCH_ID).repeats == 0


def test_rows_of_other_sources_in_the_planned_batch_cannot_be_counted() -> None:
    mixed = report(others_read=True)
    assert choose_treatment(mixed, EXACT, None, Sink.APPEND).repeats is None
    assert choose_treatment(mixed, EXACT, at(END, 47), Sink.APPEND).repeats is None
    assert choose_treatment(mixed, EXACT, at(END, 47), Sink.BATCH_ID).repeats == 0
    assert choose_treatment(report(SinkState.HAS_NOT, others_read=True), EXACT, None, Sink.APPEND).repeats == 0
