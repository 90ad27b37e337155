"""Processes that are killed while no command is typed: brokers of both clusters, the leader, a runner."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from state.model.entities import Phase
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.long.test_watch_faults import below, signalled, store_of
from tests.long.unattended import unattended

pytestmark = [pytest.mark.long, pytest.mark.timeout(14400)]

BEFORE = {Phase.FENCING, Phase.RESOLVING}
BEHIND = {Phase.PREPARING, Phase.STARTING, Phase.VERIFYING}


@pytest.mark.parametrize("phases", [BEFORE, BEHIND], ids=["before the places", "behind the places"])
def test_a_leader_killed_among_its_moves_is_succeeded_by_one_that_ends_them(tmp_path: Path, phases: set[Phase]) -> None:
    with (
        unattended(tmp_path, controllers=("one", "two")) as world,
        closing(open_store(store_of(world.on))) as store,
    ):
        leader = world.leader()
        (follower,) = world.controllers.keys() - {leader}
        world.lab("kill", "east")
        await_phase(store, phases)
        time.sleep(random.uniform(0.0, 0.3))  # anywhere in it
        world.controllers[leader].kill()
        world.controllers[leader].wait(120)
        left = [each.id for each in store.operations(only_open=True, limit=10)]
        assert left, "it was killed too late to be missed"
        chosen = {each: prepared(store, each) for each in left}
        world.until("every query has left", world.has_moved)
        assert world.leads(follower)
        for each, requests in chosen.items():
            assert not requests or prepared(store, each) == requests, "what was chosen was chosen again"
        world.assert_moved_once()
        world.assert_nothing_lost()


def test_a_runner_killed_with_its_cluster_is_proven_gone_by_its_successor(tmp_path: Path) -> None:
    with (
        unattended(tmp_path, rate=200, helped=True) as world,  # two runners alone are a load
        closing(open_store(store_of(world.on))) as store,
    ):
        assert {row.runner for row in store.assignments()} == {"a"}
        signalled([world.broker("east-1"), *below(world.runner.pid)], signal.SIGKILL)
        world.runner.wait(120)
        world.until("every query has left", world.has_moved)
        assert "DOWN" in world.verdicts("east")
        assert {each["plan"]["fence"] for each in world.attempts()} == {"process"}
        assert {row.runner for row in store.assignments()} == {"b"}
        world.assert_moved_once()
        world.assert_nothing_lost()


def test_with_both_clusters_killed_the_move_waits_for_the_standby(tmp_path: Path) -> None:
    with unattended(tmp_path) as world:
        brokers = [world.broker("west-1"), world.broker("east-1")]
        for each in brokers:
            os.kill(each, signal.SIGKILL)
        for name in ("east", "west"):
            world.until(f"{name} is DOWN", lambda name=name: world.verdicts(name)[-1:] == ["DOWN"])  # type: ignore[misc] # a lambda's own name in a loop
        time.sleep(20.0)
        assert world.held() == []
        reported = {event["query"] for event in world.events("not-moved") if "standby-up" in event["text"]}
        assert reported == world.places().keys()
        world.lab("start", "west")
        world.until("every query has left", world.has_moved)
        world.assert_moved_once()
        world.assert_nothing_lost()


def test_a_standby_killed_among_the_moves_makes_no_query_go_to_and_fro(tmp_path: Path) -> None:
    one_by_one = {"operations": {"at_once": 1}}
    with (
        unattended(tmp_path, changes=one_by_one) as world,
        closing(open_store(store_of(world.on))) as store,
    ):
        standby = world.broker("west-1")
        world.lab("kill", "east")
        deadline = time.monotonic() + 60.0
        while not (moved := on_west(store)):
            assert time.monotonic() < deadline, "no query was moved"
            time.sleep(0.005)
        os.kill(standby, signal.SIGKILL)
        assert len(moved) < len(store.assignments()), "it was killed too late to be missed"
        world.until("nothing is under way", lambda: not store.operations(only_open=True, limit=1), 600.0)
        assert on_west(store) == moved, "who is there stays, who is not is where it was"
        world.lab("start", "west")
        world.until("every query has left", world.has_moved, 300.0)
        assert {each["to"] for each in world.attempts()} == {"west"}
        held = Counter(world.held())
        assert {held[query] for query in moved} == {1}
        world.assert_nothing_lost()


def test_a_primary_that_returns_after_the_move_changes_nothing(tmp_path: Path) -> None:
    with unattended(tmp_path) as world:
        world.lab("kill", "east")
        world.until("every query has left", world.has_moved)
        world.lab("start", "east")
        world.until("east is believed UP", lambda: world.verdicts("east")[-1] == "UP")
        time.sleep(30.0)
        assert world.is_on("west")
        world.assert_moved_once()
        world.assert_nothing_lost(announced=True)


def await_phase(store: ControllerStore, phases: set[Phase]) -> None:
    """Wait until an operation came so far."""
    deadline = time.monotonic() + 60.0
    while not {each.phase for each in store.operations(only_open=True, limit=10)} & phases:
        assert time.monotonic() < deadline, "no operation came so far"
        time.sleep(0.005)


def prepared(store: ControllerStore, operation: str) -> list[object]:
    """What runners had to prepare for an operation: the offsets that were chosen."""
    return [intent.request for intent in store.intents(operation) if intent.name.startswith("prepare")]


def on_west(store: ControllerStore) -> set[str]:
    """The queries that are placed on the standby."""
    return {row.query for row in store.assignments() if row.cluster == "west"}
