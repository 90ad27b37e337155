"""Faults that need a whole world: each ends in the stated verdict, and whatever was moved lost and repeated nothing."""

import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from lab.configuration import declaration
from lab.stage import Stage
from orchestrator.decide.phases import UNFENCED
from state.model.entities import Phase
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.long.unattended import Unattended, cut_off, stopped, unattended
from tests.postgres import running_postgres

pytestmark = [pytest.mark.long, pytest.mark.timeout(14400)]

LEASE_SECONDS = 10.0
SLOW_COOLDOWN = {"automatic": True, "cooldown": "1h"}


def test_a_cut_of_one_controller_moves_nothing_and_a_dead_primary_still_does(
    tmp_path: Path,
) -> None:
    with unattended(tmp_path, controllers=()) as world:
        with cut_off(world) as cables:
            cables.cut("east")
            world.until("it is cut off", lambda: "UNREACHABLE_FROM_HERE" in world.verdicts("east"))
            time.sleep(30.0)
            assert "DOWN" not in world.verdicts("east"), "the runner sees it live"
            world.assert_left_alone()
            cables.mend("east")
            world.until("it is seen again", lambda: world.verdicts("east")[-1] == "UP")
            cables.cut("east")
            world.until("it is cut off again", lambda: world.verdicts("east")[-1] == "UNREACHABLE_FROM_HERE")
            world.lab("kill", "east")
            world.until("every query has left", world.has_moved)
        world.assert_moved_once()
        world.assert_nothing_lost()


def test_a_frozen_leader_is_succeeded_and_writes_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    with running_postgres() as server:
        changes = {"store": server.new_store()}
        with unattended(tmp_path, controllers=("one", "two"), changes=changes) as world:
            leader = world.leader()
            follower = next(name for name in world.controllers if name != leader)
            with stopped(world.controllers[leader]):
                world.lab("kill", "east")
                world.until("every query has left", world.has_moved)
                time.sleep(LEASE_SECONDS)
            world.until("it steps down", lambda: not world.leads(leader), 30.0)
            time.sleep(LEASE_SECONDS)
            world.assert_moved_once()
            actors = {str(event["actor"]) for event in world.events()}
            assert {each for each in actors if each.startswith("controller:")} == {f"controller:{follower}"}
            world.assert_nothing_lost()


def test_a_leader_frozen_among_its_moves_spoils_nothing_when_it_wakes_up(
    tmp_path: Path,
) -> None:
    with running_postgres() as server:
        url = server.new_store()
        changes = {"store": url}
        with (
            unattended(tmp_path, controllers=("one", "two"), changes=changes) as world,
            closing(open_store(url)) as store,
        ):
            leader = world.leader()
            world.lab("kill", "east")
            await_open(store)
            time.sleep(random.uniform(0.0, 1.0))  # anywhere in it
            with stopped(world.controllers[leader]):
                assert store.operations(only_open=True, limit=1), "it was frozen too late to be missed"
                world.until("every query has left", world.has_moved)
                time.sleep(LEASE_SECONDS)
            world.until("it steps down", lambda: not world.leads(leader), 30.0)
            time.sleep(LEASE_SECONDS)
            assert world.is_on("west")
            world.assert_moved_once()
            world.assert_nothing_lost()


def test_a_store_that_stops_during_operations_only_delays_them(tmp_path: Path) -> None:
    with running_postgres() as server:
        url = server.new_store()
        with unattended(tmp_path, changes={"store": url}) as world, closing(open_store(url)) as store:
            world.lab("kill", "east")
            await_open(store)
            time.sleep(random.uniform(0.0, 0.5))  # anywhere in it
            assert store.operations(only_open=True, limit=1), "too late: nothing is under way"
            server.stop()
            time.sleep(20.0)
            server.start()
            world.until("every query has left", world.has_moved)
            assert "the store does not answer" in world.log("one")
            world.assert_moved_once()
            world.assert_nothing_lost()


@pytest.mark.parametrize(
    "phases",
    [{Phase.RESOLVING, Phase.PREPARING}, {Phase.STARTING, Phase.VERIFYING}],
    ids=["before the commit", "after the commit"],
)
def test_a_primary_that_returns_in_the_middle_of_a_move_does_not_stop_it(tmp_path: Path, phases: set[Phase]) -> None:
    """Behind the fences: what is not fenced yet would stay."""
    with unattended(tmp_path) as world, closing(open_store(store_of(world.on))) as store:
        frozen = world.broker("east-1")
        world.lab("freeze", "east")
        deadline = time.monotonic() + 60.0
        seen: set[Phase] = set()
        while not seen & phases or seen & UNFENCED:
            assert time.monotonic() < deadline, "no operation came so far"
            time.sleep(0.005)
            seen = {each.phase for each in store.operations(only_open=True, limit=10)}
        os.kill(frozen, signal.SIGCONT)  # at once: the lab's own verb takes a second
        world.lab("thaw", "east")
        world.until("every query has left", world.has_moved)
        world.until("east is believed UP", lambda: world.verdicts("east")[-1] == "UP")
        time.sleep(20.0)
        world.assert_moved_once()
        world.assert_nothing_lost(announced=True)


def test_a_runner_on_an_unreachable_host_is_waited_for(tmp_path: Path) -> None:
    """A process table of its own makes it another host: that its processes are silent proves nothing to the other."""
    with running_postgres() as server:
        url = server.new_store()
        with (
            unattended(tmp_path, inside=far_away(), changes={"store": url}, rate=200, helped=True) as world,
            closing(open_store(url)) as store,
        ):
            queries = {row.query for row in store.assignments() if row.runner == "a"}
            assert queries == world.places().keys()
            processes = below(world.runner.pid)
            assert len(processes) >= 3, "what makes the table, the runner, and its JVM"
            signalled(processes, signal.SIGSTOP)
            world.lab("kill", "east")
            world.until("the other runner finds no proof", lambda: doubted(world) == queries)
            time.sleep(30.0)
            assert {(row.cluster, row.runner) for row in store.assignments()} == {("east", "a")}
            assert {each["phase"] for each in world.attempts()} <= {"BLOCKED", "FENCING"}
            signalled(processes[::-1], signal.SIGCONT)
            world.until("every query has left", world.has_moved)
            assert {each["plan"]["fence"] for each in world.attempts()} == {"runner"}
            world.assert_moved_once()
            world.assert_nothing_lost()


def test_a_cluster_in_use_that_flaps_is_left_once_and_the_rest_is_refused(tmp_path: Path) -> None:
    with unattended(tmp_path, changes={"policy": SLOW_COOLDOWN}) as world:
        flap(world, "east")
        world.until("every query has left", world.has_moved)
        before = len(world.events("not-moved"))
        for _ in range(4):
            flap(world, "west")
        world.until("east is believed UP", lambda: world.verdicts("east")[-1] == "UP")
        world.until("every query runs again", world.has_moved)
        refused = {event["query"]: event["text"].split(": ")[1] for event in world.events("not-moved")[before:]}
        assert refused == dict.fromkeys(world.places(), "cooled-down")
        world.assert_moved_once()
        world.assert_nothing_lost(announced=True)


@pytest.mark.parametrize(("fault", "cure"), [("kill", "start"), ("freeze", "thaw")])
def test_one_broker_of_three_moves_nothing(tmp_path: Path, fault: str, cure: str) -> None:
    with unattended(tmp_path, brokers=3, rate=100) as world:  # six brokers alone are a load
        world.lab(fault, "east-2")
        world.until("it limps", lambda: "DEGRADED" in world.verdicts("east"))
        time.sleep(60.0)
        accused = {"DOWN", "UNREACHABLE_FROM_HERE"} & set(world.verdicts("east"))
        assert accused == set(), "a late look, of which six brokers have some, is neither"
        assert world.held() == []
        world.lab(cure, "east-2")
        world.until("it is whole again", lambda: world.verdicts("east")[-1] == "UP")
        world.assert_left_alone()


def test_a_dead_replicator_stops_automatic_mode_until_the_loss_is_accepted(
    tmp_path: Path,
) -> None:
    with unattended(tmp_path, changes={"policy": {"automatic": True, "max_exposure": "5s"}}) as world:
        world.lab("kill", "replicator")
        time.sleep(20.0)
        world.lab("kill", "east")
        world.until("every attempt is refused", lambda: [each for each in world.attempts() if each["outcome"]])
        time.sleep(20.0)
        refused = [each for each in world.attempts() if each["outcome"] is not None]
        assert {each["outcome"] for each in refused} == {"refused"}
        assert set(world.places().values()) == {"east"}
        red = {gate["name"] for each in refused for gate in each["plan"]["gates"] if not gate["ok"]}
        assert "exposure" in red, red
        code, _ = world.on.tideover(
            "failover", "--all", "--to", "west", "--yes", "--consent", "loss", "--reason", "we accept it", check=False
        )
        assert code == 0
        world.until("every query has left", world.has_moved)
        moved = [each for each in world.attempts() if each["outcome"] == "done"]
        assert sorted(each["query"] for each in moved) == sorted(world.places())
        totals = [each["plan"]["totals"] for each in moved]
        assert all(each["exposure_seconds"] > 5.0 for each in totals), "what was not copied is counted"
        assert all(each["exposure_records"] != 0 for each in totals), "records only where enough were remembered"
        world.assert_nothing_lost()


def flap(world: Unattended, cluster: str) -> None:
    """Down for 20 s, so that it is believed to be, and back for 20 s."""
    world.lab("freeze", cluster)
    time.sleep(20.0)
    assert world.verdicts(cluster)[-1] == "DOWN"
    world.lab("thaw", cluster)
    time.sleep(20.0)


def await_open(store: ControllerStore) -> None:
    """Wait until an operation is under way."""
    deadline = time.monotonic() + 60.0
    while not store.operations(only_open=True, limit=1):
        assert time.monotonic() < deadline, "no operation has begun"
        time.sleep(0.005)


def far_away() -> list[str]:
    """In front of a command, a host name and a process table of its own; needs root."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a process table of one's own needs root and unshare (util-linux)")
    return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def below(pid: int) -> list[int]:
    """A process and all that it started, the oldest first."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for each in lists for child in each.read_text(encoding="ascii").split()]
    return [pid, *(each for child in children for each in below(child))]


def signalled(processes: Sequence[int], number: signal.Signals) -> None:
    """Signal processes; one that has ended is left out."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def doubted(world: Unattended) -> set[str]:
    """The queries whose move waits, since the process that hosts them cannot be looked at."""
    return {str(event["query"]) for event in world.events("wait") if "is on another host" in event["text"]}


def store_of(on: Stage) -> str:
    return str(declaration(on.config)["store"])
