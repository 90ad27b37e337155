"""``cancel`` takes back what is not committed, and nothing else; ``switchover`` on the command line."""

import pytest

from state.model.entities import Desired, OperationKind, Phase
from tests.simulation.test_cli import run, run_json, two
from tests.simulation.world import QUERY, World

__all__ = ["two"]


def test_an_operation_before_its_commit_is_taken_back(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.proof = None
    blocked = world.carry_out(world.request(), seconds=5)
    assert blocked is not None
    assert blocked.is_open
    code, shown = run_json(capsys, "cancel", blocked.id, "--reason", "east is back")
    assert code == 0
    assert (shown["id"], shown["phase"], shown["outcome"]) == (blocked.id, "ABORTED", "refused")
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.desired, world.checkpoints[row.checkpoint].planted) == ("east", Desired.RUNNING, set())


def test_a_request_that_has_not_begun_is_taken_back(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = world.request(kind=OperationKind.SWITCHOVER)
    code, _, err = run(capsys, "cancel", waiting.id)
    assert (code, f"request {waiting.id} is taken back: {QUERY} was not touched" in err) == (0, True)
    assert world.store.operations() == []


def test_a_committed_operation_is_not_taken_back(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.commits = False
    landing = world.carry_out(world.request(), seconds=5)
    assert landing is not None
    assert landing.phase is Phase.VERIFYING
    code, _, err = run(capsys, "cancel", landing.id)
    assert (code, f"operation {landing.id} is committed: {QUERY} is placed on west" in err) == (1, True)
    assert world.store.open_requests() == []


def test_an_operation_that_is_over_or_unknown_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    done = world.carry_out(world.request())
    assert done is not None
    code, _, err = run(capsys, "cancel", done.id)
    assert (code, f"operation {done.id} is over (done)" in err) == (1, True)
    code, _, err = run(capsys, "cancel", "nothing")
    assert (code, "'nothing' is neither an operation nor a request nor a schedule" in err) == (2, True)
    assert len(world.starts) == 1


def test_a_switchover_without_heartbeats_names_the_consent(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "switchover", QUERY, "--to", "west", "--yes")
    assert code == 1
    assert "replication-alive: the route from east to west declares no heartbeats" in err
    assert "tideover plan switchover" in err
    code, shown = run_json(capsys, "switchover", QUERY, "--to", "west", "--yes", "--consent", "replication")
    assert (code, shown["kind"], shown["outcome"]) == (0, "switchover", "done")


def test_the_plan_of_a_switchover_says_what_it_would_wait_for(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["west"].cut("orders", 33 + 93)
    code, plan = run_json(capsys, "plan", "switchover", QUERY, "--consent", "replication")
    gates = {gate["name"]: gate for gate in plan["gates"]}
    assert (code, plan["kind"], plan["refused"], gates["caught-up"]["ok"]) == (0, "switchover", False, True)
    assert gates["caught-up"]["text"] == (
        "west lacks 14 records that revenue has read; the move waits for them, for at most 60 s (policy.catch_up)"
    )
