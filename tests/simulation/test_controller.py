"""The whole controller in a world of lists: it sees, believes, queries, and carries out; hours pass in seconds."""

from datetime import timedelta
from typing import Any, cast

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from orchestrator.operation.drive import HEARTS_SECONDS
from orchestrator.operation.pauses import acknowledge, pause, resume
from state.errors import StoreError
from state.model.automation import AUTOMATIC, EVERY
from state.model.cluster_status import Layer, ProbeReport, Verdict
from state.model.entities import Operation
from state.store.controller_store import ControllerStore
from state.store.sql.schema import VERSION_TABLE
from state.store.sql.store import HEAD
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.simulation.control import CREDENTIAL, NO_NETWORK, REFUSED, AwayStore, Site, controller, pass_time
from tests.simulation.world import QUERY, Crash, CrashingStore, World, settings

ON: dict[str, Any] = {"policy": {"automatic": True}}


def automatic(**changes: Any) -> World:
    return World(settings(**{**ON, **changes}))


def verdict(world: World, cluster: str = "east") -> Verdict:
    return next(status.verdict for status in world.store.cluster_statuses() if status.cluster == cluster)


def active(world: World, query: str = QUERY) -> str:
    assignment = world.store.assignment(query)
    assert assignment is not None
    return assignment.cluster


def only_operation(world: World) -> Operation:
    (operation,) = world.store.operations()
    return operation


def calm(world: World, *sites: Site, seconds: float = 5.0) -> None:
    pass_time(world, seconds, *sites)


def test_a_query_leaves_a_dead_cluster_automatically() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    assert verdict(world) is Verdict.UP
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    operation = only_operation(world)
    assert (operation.actor, operation.outcome, active(world)) == (AUTOMATIC, "done", "west")
    assert "east is gone" in operation.reason
    assert [start.cluster for start in world.starts] == ["west"]
    kinds = [event.kind for event in world.store.history() if event.kind in {"verdict", "hold", "settled"}]
    assert kinds.index("hold") > kinds.index("verdict")


def test_detection_is_in_the_operations_figures() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    seconds = cast(float, only_operation(world).measured.detect_seconds)
    assert 1.0 <= seconds <= 2.0


def test_automatic_mode_is_off_unless_the_configuration_says_otherwise() -> None:
    world = World()
    site = controller(world)
    calm(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert verdict(world) is Verdict.DOWN
    assert (active(world), list(world.store.operations())) == ("east", [])


def test_a_request_that_a_person_wrote_is_carried_out_by_the_controller() -> None:
    world = World()
    site = controller(world)
    calm(world, site)
    request = world.request()
    pass_time(world, 20, site)
    standing = world.store.request(request.id)
    assert standing is not None
    assert standing.operation == request.id
    assert (only_operation(world).outcome, active(world)) == ("done", "west")


def test_a_cluster_that_a_runner_still_sees_is_not_left() -> None:
    world = automatic()
    site = controller(world)

    def runner_sees_it() -> None:
        world.store.save_probe_reports([seen_by_runner(world)])

    world.clock.lives.append(runner_sees_it)
    calm(world, site)
    site.looks.blocked["east"] = REFUSED
    pass_time(world, 120, site)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    assert (active(world), list(world.store.operations())) == ("east", [])


def seen_by_runner(world: World) -> ProbeReport:
    now = world.clock.now()
    return ProbeReport(
        cluster="east", viewpoint="runner:a", instance="one", layer=Layer.READ, fault=None, kind=None, text="",
        retriable=None, latency_ms=1.0, successes_in_a_row=9, last_ok_at=now, seen_at=now,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [(CREDENTIAL, Verdict.CONFIG_ERROR), (NO_NETWORK, Verdict.UNREACHABLE_FROM_HERE)],
)
def test_trouble_of_our_own_moves_nothing(trouble: object, expected: Verdict) -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    site.looks.blocked["east"] = trouble  # type: ignore[assignment]
    pass_time(world, 120, site)
    assert (verdict(world), active(world)) == (expected, "east")


def test_a_pause_stops_automatic_mode_and_its_end_moves_nothing_of_before() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    pause(world.store, EVERY, until=None, actor="ann", reason="maintenance")
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert active(world) == "east"
    texts = [event.text for event in world.store.history() if event.kind == "not-moved"]
    assert len(texts) == 1
    assert "maintenance" in texts[0]
    resume(world.store, EVERY, actor="ann", reason="done")
    pass_time(world, 60, site)
    assert active(world) == "east", "resume never fails over by itself"
    world.clusters["east"].reachable = True
    pass_time(world, 60, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert active(world) == "west", "a verdict that was formed after the pause moves it"


def test_an_automatic_move_is_followed_by_none_until_acknowledged() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert active(world) == "west"
    world.clusters["east"].reachable = True
    pass_time(world, 60, site)
    assert active(world) == "west", "the old cluster's return changes nothing"
    world.track(QUERY, 10, 143, cluster="west", epoch=2)
    world.clusters["west"].reachable = False
    pass_time(world, 60, site)
    assert active(world) == "west", "it is cooling down"
    assert acknowledge(world.store, world.settings, QUERY, actor="ann", reason="seen") is not None
    pass_time(world, 60, site)
    assert only_new(world).source == "west"


def only_new(world: World) -> Operation:
    return world.store.operations()[0]


def test_a_second_controller_takes_over_when_the_first_dies_in_the_middle() -> None:
    world = automatic()
    first, second = controller(world, "one"), controller(world, "two")
    calm(world, first, second)
    world.clusters["east"].reachable = False
    pass_time(world, 30, first, second, until=lambda: bool(world.store.operations()))
    first.frozen = True
    pass_time(world, 60, first, second)
    assert (only_operation(world).outcome, active(world)) == ("done", "west")
    assert len(world.starts) == 1


def test_a_leader_without_its_lease_writes_nothing_and_steps_down() -> None:
    world = automatic()
    first, second = controller(world, "one"), controller(world, "two")
    calm(world, first, second)
    first.frozen = True
    pass_time(world, 30, second)
    leader = world.store.leader("controller")
    assert leader is not None
    before = world.store.history()
    first.frozen = False
    for _ in range(50):
        first.tick()
    assert world.store.leader("controller") == leader
    assert world.store.history() == before


def test_a_frozen_leader_does_not_take_its_own_absence_for_an_outage() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    site.frozen = True
    world.clusters["east"].reachable = False
    pass_time(world, 5, site)
    world.clusters["east"].reachable = True
    site.frozen = False
    pass_time(world, 60, site)
    assert (verdict(world), active(world)) == (Verdict.UP, "east")


def test_nothing_is_decided_without_the_store_and_all_is_caught_up_later() -> None:
    world = automatic()
    store = AwayStore(world.store)
    site = controller(world, store=cast(ControllerStore, store))
    calm(world, site)
    store.away = True
    world.clusters["east"].reachable = False
    pass_time(world, 120, site)
    assert active(world) == "east"
    store.away = False
    pass_time(world, 60, site)
    assert active(world) == "west"


@pytest.mark.parametrize(("away", "waits"), [(1, False), (60, True)])
def test_after_the_store_was_away_runners_get_time_to_report_first(away: float, waits: bool) -> None:
    world = automatic()
    store = AwayStore(world.store)
    site = controller(world, store=cast(ControllerStore, store))
    calm(world, site)
    store.away = True
    pass_time(world, away, site)
    store.away = False
    world.request(target="west")
    pass_time(world, HEARTS_SECONDS - 0.5, site)
    assert bool(list(world.store.operations())) is not waits
    pass_time(world, 30, site)
    assert active(world) == "west"


def test_a_flapping_cluster_is_left_alone() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    for _ in range(120):
        world.clusters["east"].reachable = False
        pass_time(world, 0.9, site)
        world.clusters["east"].reachable = True
        pass_time(world, 5, site)
    assert (active(world), list(world.store.operations())) == ("east", [])


def test_both_clusters_down_moves_nothing_until_the_standby_is_back() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    for cluster in world.clusters.values():
        cluster.reachable = False
    pass_time(world, 300, site)
    assert (active(world), list(world.store.operations())) == ("east", [])
    world.clusters["west"].reachable = True
    pass_time(world, 60, site)
    assert active(world) == "west"


def test_all_queries_leave_a_cluster_together_and_one_failure_stops_no_other() -> None:
    world = World(settings(queries=("first", "second", "third"), **ON))
    site = controller(world)
    world.checkpoints["/cp/second"].offsets = {"orders": {"orders": {"0": 100, "1": 100, "7": 3}}}
    calm(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 120, site)
    assert [active(world, query) for query in world.settings.queries] == ["west", "east", "west"]
    operations = sorted(world.store.operations(), key=lambda each: each.started_at)
    together, again = operations[:3], operations[3:]
    assert sorted(operation.query for operation in together) == ["first", "second", "third"]
    assert len({operation.group for operation in together}) == 1
    assert {operation.query for operation in again} == {"second"}, "tried again, alone"


def test_an_hour_of_silence_is_written_in_a_few_lines() -> None:
    world = automatic()
    site = controller(world)
    pass_time(world, 3600, site)
    assert len(world.store.history()) < 10


def test_a_started_controller_finds_the_operation_that_a_command_left() -> None:
    world = World()
    request = world.request()
    lead = world.lead()
    assert lead.take()
    crashing = CrashingStore(world.store, 4)
    with pytest.raises(Crash):
        world.carry_out(request, store=cast(ControllerStore, crashing))
    site = controller(world)
    pass_time(world, 60, site)
    assert (only_operation(world).outcome, active(world)) == ("done", "west")


def test_the_cool_down_ends_without_a_person() -> None:
    world = automatic(policy={"automatic": True, "cooldown": timedelta(minutes=10)})
    site = controller(world)
    calm(world, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    world.clusters["east"].reachable = True
    world.track(QUERY, 10, 143, cluster="west", epoch=2)
    pass_time(world, 30, site)
    world.clusters["west"].reachable = False
    pass_time(world, 120, site)
    assert len(world.store.operations()) == 1
    pass_time(world, 600, site)
    assert only_new(world).source == "west"


def test_an_operation_that_cannot_be_driven_on_is_said_once_with_its_epoch() -> None:
    world = World()
    site = controller(world)
    calm(world, site)
    lease = world.store.leader("controller")
    assert lease is not None
    world.store.record(samples.operation(query="undeclared", epoch=7), term=lease.term)
    with capture_logs() as lines:
        pass_time(world, 30, site)
    (line,) = [each for each in lines if each["event"] == "an operation cannot continue"]
    assert (line["operation"], line["query"], line["epoch"]) == ("op-1", "undeclared", 7)
    assert "not declared" in line["error"]


def test_a_leader_decides_nothing_after_a_newer_version_upgraded_the_store() -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)
    set_schema(world, "9999")
    world.clusters["east"].reachable = False
    with capture_logs() as lines:
        pass_time(world, 120, site)
    assert active(world) == "east"
    ((error, hint),) = {(line["error"], line["hint"]) for line in lines if line["log_level"] == "error"}
    assert "the store has schema 9999" in error
    assert "install the newer version" in hint
    set_schema(world, HEAD)
    pass_time(world, 40, site)
    assert active(world) == "west"


def set_schema(world: World, version: str) -> None:
    assert isinstance(world.store, MemoryStore)
    with world.store._writing() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))


@pytest.mark.parametrize("verb", ["record_status", "lead", "resign"])
def test_an_unforeseen_failure_of_the_store_does_not_end_the_controller(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = automatic()
    site = controller(world)
    calm(world, site)

    def fail(*_: object, **__: Any) -> None:
        raise StoreError("the store failed: out of shared memory")

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(world.store, verb, fail)
        calm(world, site, seconds=30)
        if verb == "resign":
            site.controller.close()
    reported = [line["error"] for line in logs if line["log_level"] in {"error", "warning"} and "error" in line]
    assert set(reported) == {"the store failed: out of shared memory"}
    assert len(reported) == 1 or verb == "lead", "said once; who cannot lead goes on looking, and says it with each try"
    if verb != "resign":
        world.clusters["east"].reachable = False
        pass_time(world, 40, site)
        assert active(world) == "west"
