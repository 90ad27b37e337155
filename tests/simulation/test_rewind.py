"""A rewind: back in time on the cluster where the query runs, with a way back at every moment before its commit."""

from datetime import timedelta
from typing import Any, cast

import pytest

from orchestrator.decide.times import instant
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.measure import with_outcome
from orchestrator.facts.preflight import plan_query
from state.messages import Failure, RetainedBatch, StateOperator
from state.model.cluster_status import Verdict
from state.model.entities import Desired, IntentKind, Operation, OperationKind, Phase, Request
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import plan_of
from tests.simulation.control import controller, pass_time
from tests.simulation.live import LiveWorld
from tests.simulation.world import QUERY, START_MS, Crash, CrashingStore, World, settings

BACK_MS = START_MS - 60_000
"""At which record 60 of each partition was written; the query has read 100."""
AGGREGATE = (StateOperator(id=0, name="stateStoreSave", partitions=2),)
REWIND = OperationKind.REWIND


def at(time_ms: int) -> dict[str, object]:
    return {"to_time": instant(time_ms)}


def requested(world: World, time_ms: int = BACK_MS, **options: Any) -> Request:
    return world.request(kind=REWIND, target="east", parameters=at(time_ms), **options)


def rewound(world: World, time_ms: int = BACK_MS, *, seconds: float = 300.0, **options: Any) -> Operation | None:
    return world.carry_out(requested(world, time_ms, **options), seconds=seconds)


def planned(world: World, time_ms: int = BACK_MS, consents: frozenset[str] = frozenset()) -> Any:
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    return plan_query(gatherer, REWIND, QUERY, "east", consents=consents, parameters=at(time_ms)).as_json()


def stateful(world: World, *, first: int = 3) -> World:
    """Its checkpoint holds batches from ``first`` to 7, one a ten seconds, each of ten records a partition."""
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]
    checkpoint.operators = AGGREGATE
    checkpoint.history = [
        RetainedBatch(
            batch=batch, planned_at_ms=START_MS - (7 - batch) * 10_000, watermark_ms=0,
            offsets={"orders": {"orders": {"0": 30 + batch * 10, "1": 30 + batch * 10}}},
        )
        for batch in range(first, 8)
    ]  # fmt: skip
    world.clock.wait(2.0)
    return world


def refusal(world: World, time_ms: int = BACK_MS, **options: Any) -> str:
    request = requested(world, time_ms, **options)
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert world.store.operations() == []
    return answered.refused or ""


def assert_where_it_was(world: World) -> None:
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.checkpoint, row.desired) == ("east", f"/cp/{QUERY}", Desired.RUNNING)
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()


# -- without state ---------------------------------------------------------------------------------------------------
def test_each_partition_begins_at_the_first_record_of_the_time() -> None:
    world = World()
    operation = rewound(world)
    assert operation is not None
    assert (operation.phase, operation.outcome, operation.parameters) == (Phase.SETTLED, "done", at(BACK_MS))
    plan: Any = plan_of(operation)
    assert plan["starting_offsets"] == {"orders": {"0": 60, "1": 60}}
    assert {row["method"] for row in plan["partitions"]} == {"time"}
    assert plan["totals"] == {
        "replay_records": 80, "possible_replay_records": 0, "replay_later_records": 0, "exposure_records": 0,
        "exposure_seconds": 0.0, "exposure_sampled_at": None, "first_batch_records": 120, "usual_batch_records": None,
    }  # fmt: skip
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.epoch, row.placed_epoch) == ("east", 2, 2)
    made = world.checkpoints[row.checkpoint]
    assert (made.batch, made.offsets) == (7, {"orders": {"orders": {"0": 60, "1": 60}}})
    assert world.checkpoints[f"/cp/{QUERY}"].planted, "the old checkpoint stays, and cannot be started by mistake"


def test_the_plan_says_beforehand_what_is_done() -> None:
    world = World()
    value = planned(world)
    assert (value["refused"], value["totals"]["replay_records"]) == (False, 80)
    assert value["rewind"]["to_time"] == instant(BACK_MS)
    assert world.store.operations() == []
    operation = rewound(world)
    assert operation is not None
    done: Any = plan_of(operation)
    assert done["starting_offsets"] == value["starting_offsets"]


def test_repeats_are_measured_beside_the_forecast() -> None:
    world = LiveWorld()
    pass_time(world, 5.0)
    operation = rewound(world, seconds=60.0)
    assert operation is not None
    pass_time(world, 5.0)
    measured = with_outcome(operation, world.store, world.clusters.__getitem__)
    forecast: Any = plan_of(operation)
    assert measured.measured.replay_records == forecast["totals"]["replay_records"] > 80
    assert world.account().repeated == measured.measured.replay_records
    assert world.account().lost == 0
    assert world.broken == []


def test_a_batch_in_flight_is_not_run_under_its_id_with_other_records() -> None:
    world = LiveWorld()
    pass_time(world, 5.0)
    world.drivers["a"].kill()
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]
    world.start("a")
    pass_time(world, 0.4, until=lambda: checkpoint.planned is not None)
    operation = rewound(world, seconds=60.0)
    assert operation is not None
    assert operation.outcome == "done"
    pass_time(world, 10.0)
    assert (world.broken, world.account().lost) == ([], 0)


def test_a_partition_that_lags_does_not_jump_ahead() -> None:
    world = World()
    world.checkpoints[f"/cp/{QUERY}"].offsets = {"orders": {"orders": {"0": 100, "1": 60}}}
    operation = rewound(world, START_MS - 40_000)
    assert operation is not None
    plan: Any = plan_of(operation)
    assert plan["starting_offsets"] == {"orders": {"0": 80, "1": 60}}
    assert plan["totals"]["replay_records"] == 20


def test_a_query_that_has_read_nothing_since_is_not_stopped() -> None:
    world = World()
    assert refusal(world, START_MS - 5_000).startswith("goes-back: revenue has read nothing since")


def test_a_time_to_come_is_refused() -> None:
    world = World()
    assert refusal(world, START_MS + 60_000).startswith("time-past: 2026-01-31T12:01:00.000Z is in the future")


def test_a_time_before_the_log_begins_names_where_it_begins() -> None:
    world = World()
    for partition in world.partitions:
        world.clusters["east"].retain("orders", partition, 70)
    value = planned(world)
    (gate,) = (gate for gate in value["gates"] if not gate["ok"])
    assert (gate["name"], gate["measured"]) == ("retention", "2 partitions")
    assert f"orders-0 begins at {instant(START_MS - 50_000)}" in gate["text"]
    operation = rewound(world, consents=("gap",))
    assert operation is not None
    plan: Any = plan_of(operation)
    assert plan["starting_offsets"] == {"orders": {"0": 70, "1": 70}}


def test_more_repeats_than_the_policy_allows_need_a_consent() -> None:
    world = World(settings(policy={"max_replay": 79}))
    assert refusal(world) == "replay: 80 records would be read twice; --consent repeats accepts it"
    again = rewound(world, consents=("repeats",))
    assert again is not None
    assert again.outcome == "done"


def test_a_log_that_was_cut_below_the_position_is_refused() -> None:
    world = World()
    world.clusters["east"].cut("orders", 90)
    value = planned(world)
    (gate,) = (gate for gate in value["gates"] if not gate["ok"])
    assert gate["name"] == "place-found"
    assert "the log ends at 90" in gate["text"]


# -- with state ------------------------------------------------------------------------------------------------------
def test_state_goes_back_to_a_batch_that_is_still_held() -> None:
    world = stateful(World())
    operation = rewound(world, START_MS - 25_000)
    assert operation is not None
    plan: Any = plan_of(operation)
    assert operation.outcome == "done", operation.sentence
    assert (plan["rewind"]["batch"], plan["resume"]) == (4, "carry")
    assert plan["starting_offsets"] == {"orders": {"0": 70, "1": 70}}
    assert plan["totals"]["replay_records"] == 60
    row = world.store.assignment(QUERY)
    assert row is not None
    assert world.checkpoints[row.checkpoint].batch == 4
    assert plan["data_batch"] == 5


def test_a_time_before_every_held_batch_is_refused_before_anything_stops() -> None:
    world = stateful(World())
    why = refusal(world)
    assert why.startswith("batch-retained: the state of revenue goes back to")
    assert f"--to-time {instant(START_MS - 40_000)} or later" in why


def test_a_batch_that_is_purged_during_the_fence_is_refused_after_it() -> None:
    world = stateful(World())
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]
    request = requested(world, START_MS - 35_000)
    held = world.carry_out(request, seconds=0.0)
    assert held is not None
    checkpoint.history = checkpoint.history[2:]
    operation = world.carry_out(request)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "refused")
    assert operation.sentence.startswith("batch-retained: ")
    assert_where_it_was(world)


def test_who_gives_the_state_up_begins_afresh_at_the_time_itself() -> None:
    world = stateful(World())
    operation = rewound(world, consents=("fresh",))
    assert operation is not None
    plan: Any = plan_of(operation)
    assert (operation.outcome, plan["resume"], plan["rewind"]["batch"]) == ("done", "fresh", None)
    row = world.store.assignment(QUERY)
    assert row is not None
    assert row.starting_offsets == {"orders": {"orders": {"0": 60, "1": 60}}}


def test_a_sink_that_knows_batch_ids_would_drop_batches() -> None:
    world = stateful(World(settings(sink="batch-id")))
    value = planned(world, START_MS - 25_000)
    (gate,) = (gate for gate in value["gates"] if not gate["ok"])
    assert gate["name"] == "sink-takes-batches"
    assert "delete from the sink" in gate["text"]
    operation = rewound(world, START_MS - 25_000, consents=("dropped",))
    assert operation is not None
    assert operation.outcome == "done"


def test_without_state_batch_ids_continue_and_no_sink_drops_a_batch() -> None:
    assert not planned(World(settings(sink="batch-id")))["refused"]


# -- other operations, and what breaks -------------------------------------------------------------------------------
def test_a_second_rewind_joins_only_for_the_same_time() -> None:
    world = World()
    world.runner.proof = None
    first = rewound(world, seconds=5.0)
    assert first is not None
    assert first.phase is Phase.BLOCKED
    other = requested(world, BACK_MS + 1_000)
    assert world.carry_out(other) is None
    answered = world.store.request(other.id)
    assert answered is not None
    assert f"operation {first.id}, a rewind to {instant(BACK_MS)}, is open" in (answered.refused or "")
    same = rewound(world, consents=("unfenced (runner a on h, no epoch yet, instance one)",), seconds=5.0)
    assert same is not None
    assert same.id == first.id


@pytest.mark.parametrize("taken", [True, False])
def test_a_rewind_is_cancelled_by_a_move_to_where_the_query_is(taken: bool) -> None:
    world = World()
    world.runner.proof = None
    request = requested(world)
    if taken:
        world.carry_out(request, seconds=5.0)
    world.clock.wait(0.1)
    stay = world.request(target="east")
    world.carry_out(stay)
    assert_where_it_was(world)
    answered = world.store.request(request.id)
    assert answered is not None
    operation = world.store.operation(request.id)
    why = operation.sentence if operation is not None else answered.refused
    assert (why or "").startswith("cancelled by ann")


def test_a_failover_elsewhere_waits_for_the_end_of_a_rewind() -> None:
    world = World()
    world.runner.proof = None
    open_one = rewound(world, seconds=5.0)
    assert open_one is not None
    moving = world.request(target="west")
    assert world.carry_out(moving) is None
    answered = world.store.request(moving.id)
    assert answered is not None
    assert "tideover show-op" in (answered.refused or "")


def test_a_cluster_that_dies_before_the_commit_ends_the_rewind_at_once() -> None:
    world = World()

    def die() -> None:
        if world.store.operations():
            world.clusters["east"].reachable = False

    world.clock.lives.append(die)
    operation = rewound(world)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "failed")
    assert ((operation.ended_at or operation.started_at) - operation.started_at) < timedelta(seconds=10)
    assert_where_it_was(world)


def test_a_rewind_that_waits_ends_when_its_cluster_is_believed_down() -> None:
    world = World()
    world.runner.proof = None
    open_one = rewound(world, seconds=5.0)
    assert open_one is not None
    lead = world.lead()
    assert lead.take()
    now = world.store.now()
    status = samples.status(cluster="east", verdict=Verdict.DOWN, since=now, decided_at=now, term=lead.term)
    world.store.record_status(status, term=lead.term, event=samples.event())
    lead.give_up()
    operation = world.carry_out(requested(world), seconds=60.0)
    assert operation is not None
    assert (operation.id, operation.outcome) == (open_one.id, "failed")
    assert operation.sentence.startswith("east is down (")


def test_automatic_failover_takes_over_when_the_cluster_dies_under_it() -> None:
    world = LiveWorld()
    site = controller(world, "one")
    pass_time(world, 15.0, site)
    requested(world)
    world.clusters["east"].reachable = False
    pass_time(world, 120.0, site, until=lambda: on_west(world))
    assert on_west(world)
    pass_time(world, 20.0, site)
    assert (world.broken, world.account().lost) == ([], 0)


def on_west(world: LiveWorld) -> bool:
    run, row = world.run_of(QUERY), world.store.assignment(QUERY)
    return run is not None and row is not None and (run.row.epoch, row.cluster) == (row.epoch, "west")


def test_a_failover_after_a_rewind_resumes_where_the_query_reads_again() -> None:
    world = LiveWorld()
    site = controller(world, "one")
    pass_time(world, 15.0, site)
    requested(world)
    pass_time(world, 20.0, site)
    world.clusters["east"].reachable = False
    pass_time(world, 120.0, site, until=lambda: on_west(world))
    pass_time(world, 20.0, site)
    newest, before = world.store.operations(query=QUERY)
    assert (newest.kind, before.kind, newest.outcome) == (OperationKind.FAILOVER, REWIND, "done"), newest.sentence
    plan: Any = plan_of(before)
    assert world.account() == (0, plan["totals"]["replay_records"])
    assert world.broken == []


def test_a_full_disk_leaves_the_query_where_it_was() -> None:
    world = World()
    world.runner.failures = {IntentKind.PREPARE: [Failure(kind="no-space", text="no space left on device")]}
    operation = rewound(world)
    assert operation is not None
    assert operation.outcome == "failed"
    assert_where_it_was(world)


@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_crash_after_every_write_ends_in_one_start_at_one_place(keeps_state: bool) -> None:
    time_ms = START_MS - 25_000 if keeps_state else BACK_MS
    place = 70 if keeps_state else 60
    for count in range(1, 40):
        world = stateful(World()) if keeps_state else World()
        request = requested(world, time_ms)
        crashed = False
        try:
            world.carry_out(request, store=cast(ControllerStore, CrashingStore(world.store, count)))
        except Crash:
            crashed = True
        operation = world.carry_out(request, seconds=300.0)
        assert operation is not None
        assert operation.outcome == "done", (count, operation.sentence)
        row = world.store.assignment(QUERY)
        assert row is not None
        assert world.checkpoints[row.checkpoint].offsets == {"orders": {"orders": {"0": place, "1": place}}}
        assert [start.epoch for start in world.starts if start.query == QUERY] == [2]
        if not crashed:
            return
    raise AssertionError("it never ended without a crash")
