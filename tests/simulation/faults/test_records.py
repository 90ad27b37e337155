"""Faults of what the clusters hold: a replicator that stopped, topics that differ, times that cannot be trusted."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.facts.preflight import check_queries
from state.model.cluster_status import Verdict
from state.model.entities import Operation, Position
from tests.contract.samples import plan_of
from tests.simulation.clusters import digest_of
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    events_of,
    only_operation,
    operations,
    runs_on,
    scene,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld, live_settings


def red_gates(world: LiveWorld, site: Site) -> set[str]:
    """What ``tideover check`` refuses now."""
    (found,) = check_queries(
        ["revenue"], store=world.store, settings=world.settings, logs=site.looks.log, clock=world.clock
    )
    return {gate.name for gate in found.gates if not gate.ok}


def partitions(operation: Operation) -> Sequence[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = plan_of(operation)["partitions"]
    return rows


def totals(operation: Operation) -> Mapping[str, float]:
    found: Mapping[str, float] = plan_of(operation)["totals"]
    return found


@fault(
    10,
    "the replicator stopped two minutes before the primary died",
    verdict=Verdict.DOWN,
    then="`check` was red; refused by `exposure`, tried again with growing pauses; a consent moves it",
)
def test_a_standby_that_lags_too_far_is_used_only_with_consent() -> LiveWorld:
    world, site = scene()
    world.replicator.alive = False
    pass_time(world, 120, site)
    assert red_gates(world, site) == {"replication-lag", "exposure"}
    world.clusters["east"].reachable = False
    pass_time(world, 150, site)
    assert [operation.outcome for operation in operations(world)] == ["refused", "refused"]
    assert operations(world)[0].sentence.startswith("exposure: the standby lacks 1")
    world.request(consents=("loss",))
    pass_time(world, 30, site)
    moved = operations(world)[0]
    assert (moved.outcome, runs_on(world)) == ("done", "west")
    assert 110 <= totals(moved)["exposure_seconds"] <= 130
    assert totals(moved)["exposure_records"] >= 220
    return world


@fault(
    11,
    "a topic is missing on the standby, or has fewer partitions there",
    verdict=Verdict.DOWN,
    then="`check` is red beforehand; refused by `topics-present` before anything is stopped",
)
def test_a_standby_without_the_topic_is_refused_before_anything_is_stopped() -> LiveWorld:
    world, site = scene()
    west, world.replicator.alive = world.clusters["west"], False
    whole = dict(west.topics["orders"].partitions)
    del west.topics["orders"].partitions[1]
    assert "partitions-present" in red_gates(world, site)
    kept = west.topics.pop("orders")
    pass_time(world, 5, site)
    assert "topics-present" in red_gates(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert (active(world), list(operations(world))) == ("east", [])
    assert [event.detail["name"] for event in events_of(world, "not-moved")] == ["topics-present"]
    kept.partitions.update(whole)
    west.topics["orders"] = kept
    pass_time(world, 30, site)
    assert_moved(world)
    return world


@fault(
    12,
    "the standby has no record at the wanted time: an idle partition, or a standby that lags",
    verdict=Verdict.DOWN,
    then="the end of the log, with a note of its own for each cause; what lags is counted as exposure",
)
def test_without_a_late_enough_record_a_query_resumes_at_the_end() -> LiveWorld:
    idle, site = scene(LiveWorld(live_settings(methods=["timestamp"], buffer="1s"), rate=0))
    pass_time(idle, 60, site)
    idle.clusters["east"].reachable = False
    pass_time(idle, 30, site)
    notes = {str(each["note"]) for each in partitions(assert_moved(idle))}
    assert all("idle partition" in note for note in notes), notes
    lagging, site = scene(methods=["timestamp"], buffer="1s")
    lagging.replicator.alive = False
    pass_time(lagging, 30, site)
    lagging.clusters["east"].reachable = False
    pass_time(lagging, 30, site)
    operation = assert_moved(lagging)
    assert all("the standby lags" in str(each["note"]) for each in partitions(operation))
    assert totals(operation)["exposure_records"] >= 50
    return lagging


@fault(
    13,
    "producers write times that go back, are equal, or lie in the future; only times may decide",
    verdict=Verdict.DOWN,
    then="nothing is ever skipped; what is read twice is within the forecast",
    repeats=True,
)
def test_times_in_disorder_never_make_the_query_skip() -> LiveWorld:
    world, site = scene(LiveWorld(live_settings(methods=["timestamp"], buffer="30s"), rate=0))
    chance, now = random.Random(7), world.clock.store_now().timestamp() * 1000
    for index in range(400):
        key, skew = f"odd-{index}", chance.choice([0, 0, -20_000, -5_000, 3_600_000])
        world.origin[digest_of(key)] = "east"
        world.clusters["east"].write("orders", index % 2, key, round(now + index // 50 * 1000 + skew))
    pass_time(world, 10, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    operation = assert_moved(world)
    assert 0 < world.account().repeated <= totals(operation)["replay_records"]
    return world


@fault(
    14,
    "the standby stamps records with its own time (LogAppendTime)",
    verdict=Verdict.DOWN,
    then="`check` is red where times may decide; moved all the same where content does, refused where only time could",
)
def test_a_standby_with_times_of_its_own_is_used_only_where_content_decides() -> LiveWorld:
    for methods, outcome in ((["exact", "timestamp"], "done"), (["timestamp"], "refused")):
        world = LiveWorld(live_settings(methods=methods))
        world.clusters["west"].topics["orders"].append_time = True
        site = controller(world)
        pass_time(world, 20, site)
        assert "time-comparable" in red_gates(world, site)
        world.clusters["east"].reachable = False
        pass_time(world, 30, site)
        assert only_operation(world).outcome == outcome
    assert only_operation(world).sentence.startswith("timestamp-type: orders uses LogAppendTime on west")
    return world


@fault(
    15,
    "retention on the standby has deleted the resume offset already",
    verdict=Verdict.DOWN,
    then="refused by `retention`; with the consent `gap` it resumes at the first record that is there",
)
def test_a_place_that_retention_has_deleted_is_a_gap_that_needs_consent() -> LiveWorld:
    world, site = scene()
    world.drivers["a"].frozen = True  # it reads nothing for a while, and the standby keeps little
    pass_time(world, 60, site)
    for number, log in world.clusters["west"].topics["orders"].partitions.items():
        world.clusters["west"].retain("orders", number, log.end - 10)
    world.drivers["a"].frozen, world.clusters["east"].reachable = False, False
    pass_time(world, 30, site)
    assert only_operation(world).sentence.startswith("retention: the standby has deleted records from where orders-0")
    assert "retention-reach" in red_gates(world, site)
    world.request(consents=("gap",))
    pass_time(world, 30, site)
    assert (operations(world)[0].outcome, runs_on(world)) == ("done", "west")
    assert len(world.origin) - len(world.sink.delivered("revenue")) > 50
    return world


@fault(
    32,
    "fifty queries read a topic of a hundred partitions: 5,000 resume offsets",
    verdict=Verdict.DOWN,
    then="all are moved; each sends the standby a fixed number of requests, however many partitions it has, and "
    "writes its positions once a batch at most",
)
def test_fifty_queries_of_a_hundred_partitions_need_few_requests() -> LiveWorld:
    queries = [f"query-{number}" for number in range(50)]
    world = LiveWorld(live_settings(queries=queries), rate=0, partitions=100)
    save, writes, begun = world.store.save_positions, [0], len(world.sink.batches)

    def counted(positions: Iterable[Position]) -> None:
        writes[0] += 1
        save(positions)

    world.store.save_positions = counted  # type: ignore[method-assign] # on the way to it
    site = controller(world)
    pass_time(world, 5, site)
    before = world.clusters["west"].requested
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert {operation.outcome for operation in operations(world)} == {"done"}
    assert len(operations(world)) == 50
    assert world.clusters["west"].requested - before <= 50 * 12
    assert 0 < writes[0] <= len(world.sink.batches) - begun
    return world


@fault(
    35,
    "a topic gains a partition on both clusters while the primary dies",
    verdict=Verdict.DOWN,
    then="what the standby lacks of the new one is unknown: refused by `exposure`. With consent the others resume "
    "at their offsets and the new one at its begin; nothing is skipped, nothing repeated",
)
def test_a_topic_that_gains_a_partition_during_the_move_is_read_whole() -> LiveWorld:
    world, site = scene(buffer="30s")
    pass_time(world, 30, site)
    world.drivers["a"].frozen = True
    for cluster in world.clusters.values():
        cluster.add_partition("orders")
    pass_time(world, 5, site)
    world.drivers["a"].frozen, world.clusters["east"].reachable = False, False
    pass_time(world, 30, site)
    assert only_operation(world).sentence.startswith("exposure: it is unknown what the standby lacks of orders-2")
    world.request(consents=("loss",))
    pass_time(world, 30, site)
    operation = operations(world)[0]
    assert (operation.outcome, runs_on(world)) == ("done", "west")
    assert [each["target_partition"] for each in partitions(operation)] == [0, 1, 2]
    *others, grown = partitions(operation)
    assert {each["method"] for each in others} == {"exact"}
    assert (grown["target_offset"], grown["begin"], grown["end"]) == (0, 0, 5)
    assert str(grown["note"]).endswith("nothing was read yet: resumed at the start of the standby's log")
    assert world.lag() == 0
    return world


@fault(
    36,
    "the replicator comes back after the move and appends what the query had read already",
    verdict=Verdict.DOWN,
    then="these repeats were announced, record by record, as `replay later records`; nothing is lost",
    repeats=True,
)
def test_records_that_come_after_the_move_were_announced() -> LiveWorld:
    world, site = scene()
    world.replicator.alive = False
    pass_time(world, 30, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    operation = assert_moved(world)
    assert (world.account().repeated, totals(operation)["replay_records"]) == (0, 0)
    world.clusters["east"].reachable = world.replicator.alive = True
    world.produces_to = "west"
    pass_time(world, 30, site)
    assert 0 < world.account().repeated == totals(operation)["replay_later_records"]
    return world


@fault(
    48,
    "nothing is produced for ten minutes",
    verdict=Verdict.UP,
    then="nothing: an idle topic is not a dead one, and `check` stays green",
)
def test_an_idle_topic_is_no_dead_one() -> LiveWorld:
    world, site = scene(LiveWorld(rate=0))
    pass_time(world, 600, site)
    assert red_gates(world, site) == set()
    assert_left_alone(world)
    return world
