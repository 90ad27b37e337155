"""After a move its forecast is laid beside what came of it, partition by partition, and kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decide.move.outcome import outcome_rows
from orchestrator.facts import measure as later
from orchestrator.facts.measure import keep_counts, with_outcome
from orchestrator.shapes import operation_shapes
from state.model.entities import Operation
from streaming.kafka.link import Links
from streaming.probe.identities import Identities
from tests.simulation.conftest import CONFIG
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_later import read_to_end
from tests.simulation.world import START_MS, World, settings

BACK = 10
"""Records of one second each, by which a query that goes by time is set back."""


def by_time() -> World:
    return World(settings(methods=["timestamp"], buffer=f"{BACK}s"))


def moved(world: World) -> Operation:
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done", operation.sentence
    return operation


def measured(world: World, operation: Operation) -> list[tuple[object, ...]]:
    """Replay and exposure, each as forecast and as measured."""
    looked_at = with_outcome(operation, world.store, world.clusters.__getitem__)
    return [tuple(row.as_json().values())[2:] for row in outcome_rows(looked_at)]


def total(world: World, operation: Operation) -> tuple[object, object]:
    """Replay and exposure as measured, of all partitions together."""
    known = with_outcome(operation, world.store, world.clusters.__getitem__).measured
    return known.replay_records, known.exposure_records


def test_replay_and_exposure_come_true_as_they_were_forecast() -> None:
    for world, replay in ((World(), 0), (by_time(), BACK + 1)):
        operation = moved(world)
        world.clusters["east"].reachable = False
        assert measured(world, operation) == [(replay, None, 10, None)] * 2, "nothing was read, and nobody asked"
        assert (operation.measured.replay_records, operation.measured.exposure_records) == (None, None)
        assert total(world, operation) == (None, None), "a forecast is no measure"
        world.clusters["east"].reachable = True
        read_to_end(world)
        assert measured(world, operation) == [(replay, replay, 10, 10)] * 2
        assert total(world, operation) == (2 * replay, 20)


def test_a_forecast_that_does_not_come_true_shows() -> None:
    world = World()
    operation = moved(world)
    west, east = world.clusters["west"], world.clusters["east"]
    for record in east.between("orders", 0, 95, 100):  # the replicator sends again what was read already
        west.append("orders", 0, record.timestamp_ms, record.digest)
    for index in range(3):  # written after the last sample of the ends, before the cluster died
        east.write("orders", 1, f"unsampled-{index}", START_MS)
    read_to_end(world)
    assert measured(world, operation) == [(0, 5, 10, 10), (0, 0, 10, 13)]
    assert total(world, operation) == (5, 23)


def test_records_dated_after_the_move_make_the_exposure_unknown() -> None:
    """A clock that is ahead dates a record of the tail like that, too: no number is proven."""
    world = World()
    operation = moved(world)
    for index in range(9):
        world.clusters["east"].write("orders", 0, f"after-{index}", START_MS + 60_000)
    looked_at = with_outcome(operation, world.store, world.clusters.__getitem__)
    row = outcome_rows(looked_at)[0]
    assert (row.exposure_records, row.exposure_at_least, row.exposure_at_most) == (None, 10, 19)
    assert looked_at.measured.exposure_records is None
    assert outcome_rows(looked_at)[1].exposure_records == 10


def test_records_that_the_standby_holds_by_then_are_no_exposure() -> None:
    world = World()
    operation = moved(world)
    for index in range(9):
        for cluster in world.clusters.values():
            cluster.write("orders", 0, f"after-{index}", START_MS + 60_000)
    assert measured(world, operation)[0][3] == 10


def test_an_unknown_exposure_is_looked_at_again_and_a_known_one_is_not() -> None:
    world = World()
    operation = moved(world)
    east, west = world.clusters["east"], world.clusters["west"]
    east.write("orders", 0, "after", START_MS + 60_000)
    logs = world.clusters.__getitem__
    first = with_outcome(operation, world.store, logs)
    assert [row.exposure_records for row in outcome_rows(first)] == [None, 10]
    west.write("orders", 0, "after", START_MS + 60_000)
    east.write("orders", 0, "much later", START_MS + 90_000)
    east.write("orders", 1, "much later", START_MS + 90_000)
    second = with_outcome(first, world.store, logs)
    assert [row.exposure_records for row in outcome_rows(second)] == [10, 10], "the first answer bounds the log"
    requests = east.requested
    with_outcome(second, world.store, logs)
    assert east.requested == requests


def test_the_exposure_is_measured_where_every_partition_was_planned_again() -> None:
    """West's partitioner puts each record elsewhere, so all partitions resume at one time."""
    world = World(settings(buffer=f"{BACK}s"))
    there = world.clusters["west"].topics["orders"].partitions
    there[0], there[1] = there[1], there[0]
    operation = world.carry_out(world.request(consents=("repeats", "loss", "gap")))
    assert operation is not None
    assert operation.outcome == "done", operation.sentence
    assert operation.plan is not None
    rows = operation.plan.partitions
    assert [row.exposure_records for row in rows] == [None, None], "no partition shows its copies"
    assert "is possible" in rows[0].note
    read_to_end(world)
    assert total(world, operation) == (None, 20), "what was read again is unknown, what was lacking is not"


def test_records_that_all_look_the_same_prove_nothing() -> None:
    world = World()
    for cluster in world.clusters.values():
        for log in cluster.topics["orders"].partitions.values():
            log.records = [each._replace(digest=b"same" * 4, timestamp_ms=START_MS) for each in log.records]
        cluster._rings.clear()
    world.track("revenue", 8, 100)
    operation = moved(world)
    read_to_end(world)
    assert [row[1] for row in measured(world, operation)] == [None, None]


def test_a_controller_keeps_what_was_measured_and_reads_the_old_log_once() -> None:
    world = by_time()
    operation = moved(world)
    read_to_end(world)
    lead = world.lead()
    assert lead.take()

    def keep() -> tuple[int, list[tuple[object, ...]]]:
        requested = world.clusters["east"].requested
        keep_counts(
            world.settings.queries, world.store, world.clusters.__getitem__, term=lambda: lead.term,
            at=world.clock.now(), actor="ann",
        )  # fmt: skip
        kept: Any = world.store.operation(operation.id)
        return world.clusters["east"].requested - requested, [
            tuple(row.as_json().values())[2:] for row in outcome_rows(kept)
        ]

    requested, rows = keep()
    assert requested > 0
    assert rows == [(BACK + 1, BACK + 1, 10, 10)] * 2
    assert keep() == (0, rows)


def test_a_dead_old_cluster_gets_one_request_for_all_queries() -> None:
    world = World(settings(queries=["revenue", "other"]))
    operations = [moved(world), world.carry_out(world.request("other"))]
    world.clusters["east"].reachable = False
    silent: set[str] = set()
    before = world.clusters["east"].requested
    for operation in operations:
        assert operation is not None
        with_outcome(operation, world.store, world.clusters.__getitem__, silent)
    assert (world.clusters["east"].requested - before, silent) == (1, {"east"})


def test_a_query_that_has_moved_on_keeps_what_was_measured() -> None:
    world = World()
    operation = moved(world)
    read_to_end(world)
    fact = next(iter(world.store.query_facts()))
    world.store.report_query(replace(fact, epoch=fact.epoch + 1))
    assert [row[1] for row in measured(world, operation)] == [None, None]


def test_show_op_prints_both_numbers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "failover", "revenue", "--to", "west", "--yes")
    read_to_end(world)
    (operation,) = world.store.operations()
    code, shown = run_json(capsys, "show-op", operation.id)
    assert code == 0
    assert isinstance(shown, dict)
    assert shown["measured"]["partitions"][0] == {
        "topic": "orders", "partition": 0, "forecast_replay_records": 0, "replay_records": 0,
        "forecast_exposure_records": 10, "exposure_records": 10,
    }  # fmt: skip
    assert "followed" not in shown["plan"]
    assert "forecast replay records" in run(capsys, "show-op", operation.id)[1]


def test_a_plan_alone_and_a_move_that_was_refused_measure_nothing() -> None:
    world = World()
    world.clusters["west"].topics.clear()
    operation = world.carry_out(world.request())
    assert operation is None or outcome_rows(operation) == []
    assert operation is None or operation_shapes.operation_json(operation, [], None)["measured"]["partitions"] == []  # type: ignore[index]


def undeclared(world: World, *names: str) -> dict[str, Any]:
    """The logs of a process whose configuration has these clusters no more."""
    left = {name: cluster for name, cluster in world.settings.clusters.items() if name not in names}
    settings = world.settings.model_copy(update={"clusters": left})
    links = Links(settings, Identities(settings))
    links._made.update({name: world.clusters[name] for name in left})  # type: ignore[misc] # a twin of a link
    return {"logs": links}


@pytest.mark.parametrize("names", [("east",), ("west",), ("east", "west")])
def test_a_cluster_that_is_declared_no_more_leaves_its_numbers_unknown(names: tuple[str, ...]) -> None:
    world = by_time()
    operation = moved(world)
    read_to_end(world)
    looked_at = with_outcome(operation, world.store, **undeclared(world, *names))
    ((_, replay, _, exposed), _) = (tuple(row.as_json().values())[2:] for row in outcome_rows(looked_at))
    assert (replay is None, exposed is None) == ("west" in names, True)


def test_an_error_of_one_query_does_not_stop_measuring_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings(queries=("first", "second"), methods=["timestamp"], buffer=f"{BACK}s"))
    for query in world.settings.queries:
        done = world.carry_out(world.request(query))
        assert done is not None
        assert done.outcome == "done"
    lead = world.lead()
    assert lead.take()
    measure = later.with_outcome

    def broken(operation: Operation, *rest: Any) -> Operation:
        if operation.query == "first":
            raise KeyError("followed")
        return measure(operation, *rest)

    monkeypatch.setattr(later, "with_outcome", broken)
    with pytest.raises(KeyError, match="followed"):
        keep_counts(
            world.settings.queries, world.store, world.clusters.__getitem__, term=lambda: lead.term,
            at=world.store.now(), actor="a",
        )  # fmt: skip
    exposed = {each.query: outcome_rows(each)[0].exposure_records for each in world.store.operations()}
    assert exposed == {"first": None, "second": 10}


def test_show_op_prints_an_operation_whose_old_cluster_is_declared_no_more(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = moved(world)
    read_to_end(world)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    text = CONFIG.replace("  east: {bootstrap: [localhost:1]}\n", "").replace("east", "south")
    (folder / "tideover.yaml").write_text(text.replace("localhost:2", "localhost:9"), encoding="utf-8")
    code, out, err = run(capsys, "show-op", operation.id)
    assert (code, err) == (0, "")
    assert "failover of revenue from east to west" in out
