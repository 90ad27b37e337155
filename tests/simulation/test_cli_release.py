"""``release``: a query that may run is not touched, and one that was never moved has nothing to be rewritten."""

import pytest

from tests.simulation.test_cli import run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import QUERY, World


def test_a_query_whose_runner_may_live_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "release", QUERY, "--yes")
    assert (code, "a may still run as pid 1 on h" in err) == (1, True)


def test_a_run_that_nothing_proves_ended_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with world.runner._turn:
        world.runner.alive = False
        for each in world.store.runners():
            world.store.unregister(each.runner, each.instance)
    code, _, err = run(capsys, "release", QUERY, "--yes")
    assert (code, "nothing proves that the run of revenue by pid 1 on h has ended" in err) == (1, True)


def test_a_query_that_was_never_moved_is_spark_s_own_already(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.stop()
    code, shown = run_json(capsys, "release", QUERY, "--yes")
    assert code == 0
    assert keys(shown) == said("`release QUERY`")
    assert shown == {
        "query": QUERY, "cluster": "east", "checkpoint": "/cp/revenue", "rewritten": [], "released": True,
    }  # fmt: skip


def test_an_open_operation_is_in_the_way(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.proof = None
    world.carry_out(world.request(), seconds=1)
    code, _, err = run(capsys, "release", QUERY, "--yes")
    assert (code, "of revenue is open" in err) == (1, True)
