"""What every store promises about intents, facts, positions and history; memory, SQLite and PostgreSQL alike."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from state.errors import Conflict, StaleTerm
from state.model.column_uses import Column, ColumnUse
from state.model.entities import IntentKind, IntentState, Phase, RunState, SeenCheckpoint, TopicPartition
from state.model.fingerprints import Counted, Fingerprints
from state.store.controller_store import ControllerStore
from state.store.write_checks import KEPT_BATCHES
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of


# -- intents ---------------------------------------------------------------------------------------------------------
def test_an_intent_is_recorded_once(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    again = samples.intent(id="intent-2", request={"other": True})
    newer = samples.intent(id="intent-3", name="fence#2", created_at=AT + SECOND, kind=IntentKind.INSPECT)
    store.record(samples.operation(), term=term, intents=[again, newer, samples.intent()])
    assert store.pending_intents("a") == [samples.intent(), newer]


def test_an_intent_is_answered_once(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    done = samples.intent(state=IntentState.DONE, result={"planted": [4]}, ended_at=AT + SECOND)
    assert store.report(done)
    assert not store.report(samples.intent(state=IntentState.FAILED, result={"kind": "internal"}, ended_at=AT))
    assert not store.report(replace(done, id="unknown"))
    assert store.report(replace(done, result={"planted": (4,)})), "the runner may not have heard that it is stored"
    assert not store.report(replace(done, ended_at=AT))
    assert store.intents("op-1") == [done]
    assert store.pending_intents("a") == []
    with pytest.raises(ValueError, match="done or failed"):
        store.report(samples.intent())


def test_only_the_leader_takes_its_intents_back(store: ControllerStore) -> None:
    stale = held(store)
    store.record(samples.operation(), term=stale, intents=[samples.intent()])
    term = term_of(store, "two")
    taken_back = samples.intent(state=IntentState.FAILED, result={"kind": "withdrawn"}, ended_at=AT + SECOND)
    with pytest.raises(StaleTerm):
        store.report(taken_back, term=stale)
    assert store.pending_intents("a") == [samples.intent()]
    assert store.report(taken_back, term=term)
    assert store.intents("op-1") == [taken_back]


def test_closing_an_operation_withdraws_the_intents_without_an_answer(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    closed = samples.operation(phase=Phase.ABORTED, outcome="aborted", ended_at=AT + SECOND)
    store.record(closed, term=term, intents=[samples.intent(id="intent-2", name="release", kind=IntentKind.RELEASE)])
    withdrawn, release = store.intents("op-1")
    assert withdrawn == samples.intent(state=IntentState.WITHDRAWN, ended_at=AT + SECOND)
    assert store.pending_intents("a") == [release]
    assert not store.report(samples.intent(state=IntentState.DONE, result={}, ended_at=AT))


def test_an_intent_of_an_unknown_operation_is_a_conflict(store: ControllerStore) -> None:
    with pytest.raises(Conflict):
        store.record(samples.operation(), term=term_of(store), intents=[samples.intent(operation="op-9")])
    assert store.operation("op-1") is None


# -- facts -----------------------------------------------------------------------------------------------------------
def test_a_second_instance_of_a_runner_learns_of_the_first(store: ControllerStore) -> None:
    before = store.now()
    assert store.register(samples.runner()) is None
    (stored,) = store.runners()
    assert before <= stored.seen_at <= store.now()
    assert replace(stored, seen_at=AT) == samples.runner()
    other = samples.runner(instance="a-2", pid=4712)
    assert store.register(other) == stored
    assert store.runners() == [stored]
    assert store.register(samples.runner(warm=False)) is None
    assert not store.runners()[0].warm
    store.unregister("a", "a-1")
    assert store.register(other) is None
    assert [fact.instance for fact in store.runners()] == ["a-2"]


def test_only_the_registered_instance_unregisters(store: ControllerStore) -> None:
    store.register(samples.runner())
    store.unregister("a", "a-2")
    assert len(store.runners()) == 1
    store.unregister("a", "a-1")
    assert store.runners() == []


def test_of_instances_that_register_at_once_one_is_registered(store: ControllerStore) -> None:
    with ThreadPoolExecutor(6) as pool:
        reported = list(pool.map(lambda i: store.register(samples.runner(instance=f"a-{i}")), range(6)))
    assert reported.count(None) == 1
    assert {fact.instance for fact in reported if fact} == {store.runners()[0].instance}


def test_a_fact_of_an_old_epoch_never_replaces_a_newer_one(store: ControllerStore) -> None:
    assert store.report_query(samples.fact(epoch=2))
    assert not store.report_query(samples.fact(epoch=1, state=RunState.FAILED, error="gone"))
    assert store.query_facts() == [samples.fact(epoch=2)]
    newer = samples.fact(epoch=2, batch=None, offsets=None, state=RunState.STOPPED, error="why", stateful=None)
    assert store.report_query(newer)
    assert store.report_query(samples.fact(query="late"))
    assert store.query_facts() == [samples.fact(query="late"), newer]


def test_a_failed_query_is_one_line_of_history_until_something_else_happens(store: ControllerStore) -> None:
    failed = samples.fact(state=RunState.FAILED, error="gone", epoch=2)
    store.register(samples.runner())
    for _ in range(2):
        assert store.report_query(failed)
        assert store.report_query(samples.fact(state=RunState.STARTING, epoch=2, error=None))
    (line,) = store.history(query="revenue")
    assert (line.kind, line.actor, line.text, line.epoch) == ("query-failed", "runner:a", "revenue failed: gone", 2)
    assert store.report_query(replace(failed, error="full disk"))
    assert [each.detail["error"] for each in store.history(query="revenue")] == ["gone", "full disk"]
    assert not store.report_query(replace(failed, epoch=1, error="late"))
    assert len(store.history(query="revenue")) == 2


def test_the_sink_of_an_application_stays_until_a_run_shows_another(store: ControllerStore) -> None:
    store.register(samples.runner())
    for sink, epoch, shown in (("kafka", 1, "kafka"), (None, 2, "kafka"), ("ConsoleTable", 2, "ConsoleTable")):
        assert store.report_query(samples.fact(sink=sink, epoch=epoch))
        assert store.query_facts()[0].sink == shown


def test_uses_of_columns_come_back_and_stay_until_a_plan_is_read_again(store: ControllerStore) -> None:
    use = ColumnUse("orders", Column.TIMESTAMP, "withWatermark", is_logic=True, delay_ms=60_000)
    store.register(samples.runner())
    assert store.report_query(samples.fact(columns=(use,)))
    assert store.query_facts()[0].columns == (use,)
    assert store.report_query(samples.fact(columns=None, epoch=2, state=RunState.STARTING))
    assert (store.query_facts()[0].epoch, store.query_facts()[0].columns) == (2, (use,))
    assert store.report_query(samples.fact(columns=(), epoch=2))
    assert store.query_facts()[0].columns == ()


def test_the_batches_seen_of_a_checkpoint_stay_until_more_is_seen(store: ControllerStore) -> None:
    store.register(samples.runner())
    seen = SeenCheckpoint("/c", 1, 4, 3, None, None)
    assert store.report_query(samples.fact(seen=seen, contradicted="/c: commits/3 is missing"))
    assert (store.query_facts()[0].seen, store.query_facts()[0].contradicted) == (seen, "/c: commits/3 is missing")
    assert store.report_query(samples.fact(seen=None, epoch=2, state=RunState.STARTING))
    assert (store.query_facts()[0].seen, store.query_facts()[0].contradicted) == (seen, None)
    assert store.report_query(samples.fact(seen=seen._replace(epoch=2), epoch=2))
    assert store.query_facts()[0].seen == seen._replace(epoch=2)
    assert store.report_query(samples.fact(query="another", seen=seen))
    store.forget_seen("revenue")
    assert [(each.query, each.seen) for each in store.query_facts()] == [("another", seen), ("revenue", None)]


def test_a_mapping_is_kept_as_it_was_first_written(store: ControllerStore) -> None:
    for content in ("one", "another"):
        store.keep_mapping("revenue", "2-op.1", content)
    store.keep_mapping("revenue", "1-op-0.1", "{}")
    store.keep_mapping("clicks", "2-op.1", "its own")
    assert store.mappings("revenue") == {"1-op-0.1": "{}", "2-op.1": "one"}
    assert store.mappings("unknown") == {}


def test_of_one_epoch_only_a_start_takes_a_query_over_from_another_instance(store: ControllerStore) -> None:
    assert store.report_query(samples.fact())
    other = {"instance": "a-2", "pid": 4712, "host": "elsewhere", "application_id": "app-1"}
    for state in (RunState.RUNNING, RunState.FAILED, RunState.STOPPED):
        assert not store.report_query(samples.fact(state=state, **other))
    assert store.query_facts() == [samples.fact()]
    begun = samples.fact(state=RunState.STARTING, **other)
    store.register(samples.runner())
    assert not store.report_query(begun), "another process has the name"
    store.unregister("a", "a-1")
    assert not store.report_query(begun), "nobody has it"
    store.register(samples.runner(instance="a-2"))
    assert store.report_query(begun)
    assert not store.report_query(samples.fact(state=RunState.STARTING)), "the first one has lost its name"
    assert not store.report_query(samples.fact(state=RunState.STOPPED)), "the first one is late"
    assert store.query_facts() == [begun]
    stopped = samples.fact(state=RunState.STOPPED, **other)
    assert store.report_query(stopped)
    assert store.report_query(samples.fact(epoch=2, state=RunState.FAILED))


def test_a_process_that_began_after_the_backup_reports_to_the_restored_store(store: ControllerStore) -> None:
    """The row is of the process before it, under the same epoch, and the start of this one is not in the backup."""
    assert store.report_query(samples.fact())
    after = {"instance": "a-2", "pid": 4712}
    running = samples.fact(state=RunState.RUNNING, batch=118, **after)
    assert not store.report_query(running), "a process without the name is late"
    store.register(samples.runner(instance="a-2"))
    assert not store.report_query(samples.fact(state=RunState.RUNNING, runner="b", **after)), "the name of another one"
    assert store.report_query(running)
    assert store.query_facts() == [running]
    assert not store.report_query(samples.fact(state=RunState.STOPPED)), "the one before it has lost the name"


# -- positions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [0, 1, 4, 32, 256])
def test_a_ring_comes_back_as_it_went_in(store: ControllerStore, length: int) -> None:
    saved = samples.position(ring=samples.ring(length, 2**40))
    store.save_positions([saved])
    assert store.positions("revenue") == [saved]


def test_which_records_of_a_ring_were_not_committed_comes_back(store: ControllerStore) -> None:
    saved = samples.position(ring=Fingerprints.of(samples.ring(32, 2**40), [2**40 - 3, 2**40 - 1]))
    store.save_positions([saved])
    (found,) = store.positions("revenue")
    assert Fingerprints.of(found.ring).uncommitted == {2**40 - 1, 2**40 - 3}
    assert found == saved


def test_recent_records_are_counted_without_reading_them(store: ControllerStore) -> None:
    lengths = {0: 0, 1: 1, 2: 256}
    store.save_positions(samples.position(partition=each, ring=samples.ring(n, 2**40)) for each, n in lengths.items())
    found = store.positions("revenue", rings=False)
    assert {row.partition: len(row.ring) for row in found} == lengths
    assert all(isinstance(row.ring, Counted) for row in found)
    assert [replace(row, ring=()) for row in found] == [replace(row, ring=()) for row in store.positions("revenue")]


def test_records_that_were_not_committed_are_not_counted_twice(store: ControllerStore) -> None:
    """What says so is behind the records: sixteen of them take as much room as four more records."""
    ring = Fingerprints.of(samples.ring(32, 2**40), [2**40 - 1 - each for each in range(16)])
    store.save_positions([samples.position(ring=ring)])
    (found,) = store.positions("revenue", rings=False)
    assert len(found.ring) == 32


def test_positions_are_upserted_and_come_back_in_order(store: ControllerStore) -> None:
    one = samples.position(partition=10, timestamp_ms=None, leader_epoch=None, dense=True, ring=())
    two = samples.position(partition=9, topic_id="id", dense=False)
    three = samples.position(batch=2)
    upper = samples.position(topic="Orders")
    store.save_positions([three, one, samples.position(partition=9, offset=5), upper, samples.position(query="late")])
    store.save_positions([two])
    assert store.positions("revenue") == [upper, two, one, three]
    assert store.positions("revenue", batch=2) == [three]
    assert store.positions("revenue", batch=9) == []
    assert store.positions("unknown") == []


def test_the_newest_batches_are_kept(store: ControllerStore) -> None:
    for batch in range(1, 20):
        store.save_positions(samples.position(batch=batch, partition=p, tracked_at=AT + batch * SECOND) for p in (0, 1))
    store.save_positions([samples.position(query="late", batch=1)])
    kept = [position.batch for position in store.positions("revenue")]
    assert kept == [batch for batch in range(20 - KEPT_BATCHES, 20) for _ in (0, 1)]
    assert len(store.positions("late")) == 1


def test_a_spool_flushed_late_drops_nothing_newer(store: ControllerStore) -> None:
    store.save_positions(samples.position(batch=batch, tracked_at=AT + batch * SECOND) for batch in (5, 6))
    store.save_positions([samples.position(batch=4, tracked_at=AT + 4 * SECOND)])
    assert [position.batch for position in store.positions("revenue")] == [4, 5, 6]


def test_a_new_checkpoint_under_its_epoch_drops_what_the_old_one_left(store: ControllerStore) -> None:
    store.save_positions(samples.position(batch=batch) for batch in range(100, 106))
    store.save_positions([samples.position(batch=0, tracked_at=AT + SECOND)])
    assert [position.batch for position in store.positions("revenue")] == [0]


def kept(store: ControllerStore) -> list[tuple[int, int]]:
    return [(position.epoch, position.batch) for position in store.positions("revenue")]


def test_the_newest_tracked_batch_is_one_of_the_cluster_in_use(store: ControllerStore) -> None:
    assert store.tracked_batch("revenue") is None
    term = held(store)
    store.save_positions([samples.position(epoch=1, batch=batch) for batch in (3, 9, 7)])
    store.save_positions([samples.position(epoch=1, batch=11, query="sums")])
    assert store.tracked_batch("revenue") == 9
    store.save_positions([samples.position(epoch=2, batch=4)])
    assert store.tracked_batch("revenue") == 4
    placed = samples.assignment(epoch=2, placed_epoch=2, cluster="west", checkpoint="/new")
    assert store.place(
        placed, operation=samples.operation(), from_epoch=2, term=term, steps=[], event=samples.event()
    )  # fmt: skip
    assert store.tracked_batch("revenue") == 4
    assert store.tracked_batch("unknown") is None


def test_positions_of_an_earlier_placement_do_not_count_as_tracked(store: ControllerStore) -> None:
    term = held(store)
    store.save_positions([samples.position(epoch=1, batch=9)])
    placed = samples.assignment(epoch=2, placed_epoch=2, cluster="west", checkpoint="/new")
    assert store.place(
        placed, operation=samples.operation(), from_epoch=2, term=term, steps=[], event=samples.event()
    )  # fmt: skip
    assert store.tracked_batch("revenue") is None


def test_positions_of_one_epoch_are_not_touched_by_another(store: ControllerStore) -> None:
    east = [samples.position(batch=batch, tracked_at=AT + batch * SECOND) for batch in (100, 101)]
    west = [samples.position(batch=batch, epoch=2, cluster="west", offset=7) for batch in (100, 101)]
    store.save_positions(east)
    store.save_positions(west)
    store.save_positions(east)
    assert store.positions("revenue") == east + west
    assert store.positions("revenue", batch=101) == [east[1], west[1]]


def test_a_higher_epoch_displaces_a_lower_one_whatever_its_batches(store: ControllerStore) -> None:
    store.save_positions(samples.position(batch=batch) for batch in range(100, 100 + KEPT_BATCHES))
    for batch in range(3):
        store.save_positions([samples.position(batch=batch, epoch=2, tracked_at=AT - batch * SECOND)])
    assert kept(store) == [(1, batch) for batch in range(103, 112)] + [(2, 0), (2, 1), (2, 2)]
    for batch in range(3, KEPT_BATCHES):
        store.save_positions([samples.position(batch=batch, epoch=2, tracked_at=AT + SECOND)])
    newest = [(2, batch) for batch in range(KEPT_BATCHES)]
    assert kept(store) == newest
    store.save_positions([samples.position(batch=500, tracked_at=AT + 99 * SECOND)])
    assert kept(store) == newest, "what an earlier epoch left behind comes too late"


def test_more_positions_than_one_chunk_are_saved(store: ControllerStore) -> None:
    saved = [samples.position(partition=number, ring=()) for number in range(12_001)]
    store.save_positions(saved)
    assert store.positions("revenue") == saved


def test_ends_are_kept_by_partition_and_only_move_forward_in_time(store: ControllerStore) -> None:
    newer = samples.end(sampled_at=AT + SECOND, end=101, newest_timestamp_ms=5, leader_epoch=None, topic_id=None)
    store.save_ends([samples.end(), samples.end(partition=10), samples.end(partition=9), samples.end(cluster="west")])
    store.save_ends([newer])
    store.save_ends([samples.end(end=99)])
    assert store.ends("east") == {
        TopicPartition("orders", 0): newer,
        TopicPartition("orders", 9): samples.end(partition=9),
        TopicPartition("orders", 10): samples.end(partition=10),
    }
    assert list(store.ends("east")) == sorted(store.ends("east"))
    assert store.ends("unknown") == {}


def test_an_end_from_a_time_to_come_gives_way(store: ControllerStore) -> None:
    """Its clock was set back since, and what is sampled now counts."""
    store.save_ends([samples.end(sampled_at=store.now() + timedelta(hours=1), end=100)])
    store.save_ends([samples.end(end=120)])
    store.save_ends([samples.end(sampled_at=AT - SECOND, end=99)])
    assert [each.end for each in store.ends("east").values()] == [120]


def test_an_end_of_a_host_whose_clock_is_a_little_ahead_is_the_newest(store: ControllerStore) -> None:
    store.save_ends([samples.end(sampled_at=store.now() + 20 * SECOND, end=120)])
    store.save_ends([samples.end(end=100)])
    assert [each.end for each in store.ends("east").values()] == [120]


# -- history ---------------------------------------------------------------------------------------------------------
def test_history_is_numbered_in_order_and_can_be_followed(store: ControllerStore) -> None:
    for number in range(6):
        store.note(samples.event(text=str(number), query="late" if number % 2 else "revenue", operation=f"op-{number}"))

    def texts(**narrow: Any) -> str:
        return "".join(event.text for event in store.history(**narrow))

    assert [event.sequence for event in store.history()] == [1, 2, 3, 4, 5, 6]
    assert texts() == "012345"
    assert texts(limit=2) == "45"
    assert texts(after=3) == "345"
    assert texts(after=3, limit=1) == "5"
    assert texts(query="late") == "135"
    assert texts(query="late", after=2) == "35"
    assert texts(operation="op-4") == "4"
    assert texts(after=6) == ""


def test_every_event_written_at_once_gets_its_own_number(store: ControllerStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: store.note(samples.event(text=str(i))), range(40)))
    events = store.history()
    assert [event.sequence for event in events] == list(range(1, 41))
    assert {event.text for event in events} == {str(i) for i in range(40)}


def test_text_and_detail_survive_any_alphabet(store: ControllerStore) -> None:
    event = samples.event(sequence=1, text="naïve – 東\n\"'%s", detail={"κλειδί": ["\u0000", 1.5, None, {"n": 2**53}]})
    store.note(event)
    assert store.history() == [event]
