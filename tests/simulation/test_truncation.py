"""A query leaves a cluster whose log was cut before its position: proven on the standby, refused, or set back."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from state.model.entities import IntentKind, Operation, OperationKind, Phase
from state.model.fingerprints import Fingerprints
from tests.contract.samples import plan_of
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import QUERY, START_MS, World, settings

PARTED = 80
"""Both partitions were read to 100; an unclean election took away what followed this."""
NEW = 10
"""So many records the new leader has written since; the standby has them, and none of those that are gone."""


def cut_world(on_no_match: str = "fail", *, copied: bool = False, grown: int = NEW) -> World:
    """East is cut; west holds what was read (``copied``), or was behind and holds what the new leader wrote instead.

    The new records are no younger than the last one read, so that time alone would take west for a lagging standby.
    """
    world = World(settings(groups={"policy": {"on_no_match": on_no_match}}))
    east, west = world.clusters["east"], world.clusters["west"]
    for number in world.partitions:
        east.truncate("orders", number, PARTED)
        if not copied:
            west.truncate("orders", number, 33 + PARTED)
        for index in range(grown):
            for cluster in (east, west):
                cluster.write("orders", number, f"new-{number}-{index}", START_MS - 45_000)
    return world


def planned(world: World, kind: OperationKind = OperationKind.FAILOVER, consents: tuple[str, ...] = ()) -> Any:
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    return plan_query(gatherer, kind, QUERY, "west", consents=frozenset(consents)).as_json()


def gate(plan: Any) -> Any:
    return next((each for each in plan["gates"] if each["name"] == "log-truncation"), None)


def targets(plan: Any) -> list[tuple[int, int, str, int]]:
    return [(row["offset"], row["target_offset"], row["method"], row["replay_records"]) for row in plan["partitions"]]


@pytest.mark.parametrize("kind", [OperationKind.FAILOVER, OperationKind.SWITCHOVER])
def test_a_plan_refuses_with_the_offsets_where_the_logs_diverge(kind: OperationKind) -> None:
    plan = planned(cut_world(), kind)
    assert keys(plan["log_truncation"]) == said("the plan also has `log_truncation`")
    assert plan["refused"] is True
    assert (gate(plan)["ok"], gate(plan)["measured"]) == (False, "2 partitions")
    named = "log truncation on east: orders-0 (read to 100, diverges at 80), orders-1 (read to 100, diverges at 80)"
    assert gate(plan)["text"].startswith(named)
    assert [{**row, "note": ""} for row in plan["log_truncation"]] == [
        {"source": "orders", "topic": "orders", "partition": number, "offset": 100, "divergent_offset": 80,
         "resumes_at": "nowhere: a person decides", "note": ""}
        for number in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "consents"), [("closest", ()), ("earliest", ()), ("latest", ()), ("fail", ("gap",))]
)
def test_a_known_divergence_is_the_resume_offset_and_skips_nothing_new(policy: str, consents: tuple[str, ...]) -> None:
    plan = planned(cut_world(policy), consents=consents)
    assert gate(plan)["ok"] is True
    assert targets(plan) == [(100, 33 + PARTED, "exact", NEW)] * 2
    assert "read to 100, resumed where the old log diverges from what was read, at 80" in plan["partitions"][0]["note"]
    assert {row["resumes_at"] for row in plan["log_truncation"]} == {"truncation offset"}


@pytest.mark.parametrize("policy", ["fail", "closest"])
def test_a_standby_with_all_that_was_read_resumes_despite_a_cut_old_log(policy: str) -> None:
    plan = planned(cut_world(policy, copied=True))
    assert plan["refused"] is False
    assert targets(plan) == [(100, 133, "exact", 0)] * 2
    assert gate(plan)["text"].endswith("west holds what was read, and the query resumes after it")
    assert {row["resumes_at"] for row in plan["log_truncation"]} == {"found by content"}


def test_forgotten_records_before_the_divergence_are_read_from_the_cut_log() -> None:
    world = cut_world("closest")
    rows = [replace(row, ring=row.ring[-10:]) for row in world.store.positions(QUERY)]
    world.store.save_positions(rows)
    assert targets(planned(world)) == [(100, 33 + PARTED, "exact", NEW)] * 2


def test_batches_before_and_behind_the_divergence_are_looked_into() -> None:
    """Of a position that is not set back the batch that ends there would do."""
    world = cut_world("closest")
    rows = list(world.store.positions(QUERY))
    for back in (10, 30):
        world.store.save_positions(
            replace(
                row,
                batch=row.batch - back // 10,
                offset=row.offset - back,
                ring=Fingerprints.of(row.ring).before(row.offset - back),
            )
            for row in rows
        )
    assert len(world.store.positions(QUERY)) == 3 * len(rows)
    assert targets(planned(world)) == [(100, 33 + PARTED, "exact", NEW)] * 2


UNKNOWN = [
    ("fail", (), "nowhere: a person decides", None),
    ("earliest", (), "log start offset", 0),
    ("latest", (), "log end offset", 33 + PARTED + 5),
    ("closest", (), "by timestamp, else log end offset", 0),
    ("fail", ("gap",), "by timestamp, else log end offset", 0),
]


@pytest.mark.parametrize(("policy", "consents", "resumes_at", "offset"), UNKNOWN)
def test_without_a_known_divergence_the_last_samples_decide(
    policy: str, consents: tuple[str, ...], resumes_at: str, offset: int | None
) -> None:
    world = cut_world(policy, grown=5)
    world.clock.wait(10)
    world.sample("east")
    world.store.save_ends([replace(each, leader_epoch=1) for each in world.store.ends("east").values()])
    world.clusters["east"].reachable = False
    plan = planned(world, consents=consents)
    assert {row["resumes_at"] for row in plan["log_truncation"]} == {resumes_at}
    assert {row["divergent_offset"] for row in plan["log_truncation"]} == {None}
    assert gate(plan)["ok"] is (offset is not None)
    if offset is not None:
        assert {row["target_offset"] for row in plan["partitions"]} == {offset}
        assert "at an unknown offset" in plan["partitions"][0]["note"]


def test_a_recreated_topic_is_read_from_the_begin_or_not_at_all() -> None:
    for policy, refused in (("fail", True), ("closest", False)):
        world = cut_world(policy)
        world.clusters["east"].create("orders", 2)
        plan = planned(world)
        assert plan["refused"] is refused
        assert {row["divergent_offset"] for row in plan["log_truncation"]} == {0}
    assert {row["target_offset"] for row in plan["partitions"]} == {0}
    assert plan["totals"]["replay_records"] == 2 * 100


def test_an_intact_log_and_a_cluster_that_is_gone_cost_no_refusal() -> None:
    world = World()
    assert gate(planned(world))["text"] == "east still holds what was read from it"
    assert "log_truncation" not in planned(world)
    world.clock.wait(10)
    before = world.clusters["east"].requested
    assert gate(planned(world)) is None
    assert world.clusters["east"].requested == before, "a failover waits for no cluster that fell silent"


def carried(world: World, *consents: str) -> Operation:
    operation = world.carry_out(world.request(consents=consents))
    assert operation is not None
    return operation


def test_an_operation_is_refused_after_the_fence_and_the_query_goes_back() -> None:
    operation = carried(cut_world())
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "refused")
    assert operation.sentence.startswith("log-truncation: log truncation on east: orders-0")


def test_an_operation_goes_where_its_plan_said_and_keeps_it() -> None:
    world = cut_world("closest")
    operation = carried(world)
    assert operation.outcome == "done"
    plan: Any = plan_of(operation)
    assert {row["divergent_offset"] for row in plan["log_truncation"]} == {PARTED}
    prepared = next(i for i in world.store.intents(operation.id) if i.kind is IntentKind.PREPARE)
    assert prepared.request["target_offsets"] == {"orders": {"orders": {"0": 113, "1": 113}}}
