"""``drill`` on the command line: what it says, what it prints, its exit codes, and that no move waits for it."""

import threading

import pytest

from orchestrator.cli import main
from orchestrator.lease import Leadership
from orchestrator.operation.wait import RequestWait
from state.model.entities import DRILLS, IntentKind, OperationKind
from tests.simulation.test_cli import run, run_json
from tests.simulation.world import QUERY, ROWS, ManualClock, World
from tests.waiting import until

WAIT = 60.0


def test_a_drill_is_shown_with_its_steps_and_what_it_did_not_prove(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = world.store.assignments()
    code, out, err = run(capsys, "drill", QUERY, "--reason", "before the weekend")
    assert code == 0
    assert f"drill of {QUERY} on west: one batch of at most 10000 records a source" in err
    assert f"{QUERY} drill: done: batch 8 is committed on west from a copy" in err
    assert f"{2 * ROWS} rows of {2 * ROWS} expected; copied 9 files" in out
    assert "not proven by this drill:\n  The fence: nothing was stopped" in out
    assert world.store.assignments() == before
    (drill,) = world.store.operations(kinds=DRILLS)
    code, out, _ = run(capsys, "show-op", drill.id)
    assert (code, "not proven by this drill:" in out, "because before the weekend" in out) == (0, True, True)


def test_a_drill_as_json_has_what_it_measured(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = run_json(capsys, "drill", QUERY, "--to", "west")
    assert (code, shown["kind"], shown["outcome"], shown["epoch"]) == (0, "drill", "done", 1)
    measured = shown["measured"]["drill"]
    assert set(measured) == {
        "seconds", "batch", "rows", "rows_expected", "first_offsets", "files", "bytes", "not_proven",
    }  # fmt: skip
    assert measured["first_offsets"] == {"orders": {"orders": {"0": 133, "1": 133}}}
    assert run_json(capsys, "show-op", shown["id"]) == (0, shown)
    code, rows = run_json(capsys, "drill", "--all")
    assert (code, [row["outcome"] for row in rows]) == (0, ["done"])


def test_show_and_check_print_the_last_drill(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "show", QUERY)[1]["drill"] is None
    _, shown = run_json(capsys, "drill", QUERY)
    found = run_json(capsys, "show", QUERY)[1]
    assert (found["drill"]["id"], found["drill"]["outcome"]) == (shown["id"], "done")
    assert [each["kind"] for each in found["operations"]] == ["drill"]
    assert "last drill  done on west (" in run(capsys, "show", QUERY)[1]
    (checked,) = run_json(capsys, "check")[1]
    assert checked["drill"]["id"] == shown["id"]
    assert "; last drill: done on west (" in run(capsys, "check")[1]


def test_a_refused_drill_exits_1_and_a_failed_one_2(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["west"].reachable = False
    code, _, err = run(capsys, "drill", QUERY)
    assert (code, "standby-reachable: " in err, f"tideover plan drill {QUERY}" in err) == (1, True, True)
    assert run(capsys, "plan", "drill", QUERY)[0] == 1
    world.clusters["west"].reachable = True
    assert run(capsys, "plan", "drill", QUERY)[0] == 0
    world.runner.hangs = {IntentKind.DRILL}
    drill = threading.Thread(target=main, args=(["drill", QUERY],))
    drill.start()
    until(lambda: world.runner.stuck, "the runner is at it")
    world.runner.answers = False
    world.runner.alive = False
    drill.join(WAIT)
    (failed,) = world.store.operations(kinds=DRILLS)
    assert (failed.outcome, "fell silent during the drill" in failed.sentence) == ("failed", True)
    world.runner.alive = world.runner.answers = True
    code, _, err = run(capsys, "drill", QUERY, "--no-wait")
    assert (code, "no controller is running" in err) == (2, True)


def test_a_drill_is_cancelled_by_its_id(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.hangs = {IntentKind.DRILL}
    codes: list[int] = []
    drill = threading.Thread(target=lambda: codes.append(main(["drill", QUERY])))
    drill.start()
    until(lambda: world.runner.stuck, "the runner is at it")
    (opened,) = world.store.operations(kinds=DRILLS)
    assert run(capsys, "cancel", opened.id)[0] == 0
    drill.join(WAIT)
    assert codes == [1]
    (ended,) = world.store.operations(kinds=DRILLS)
    assert (ended.outcome, ended.sentence.startswith("cancelled by ")) == ("refused", True)


def test_a_failover_takes_the_lead_from_a_drill_and_ends_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.hangs = {IntentKind.DRILL}
    drill = threading.Thread(target=main, args=(["drill", QUERY, "--timeout", "40"],))
    drill.start()
    until(lambda: world.runner.stuck, "the runner is at it")
    assert run(capsys, "failover", QUERY, "--to", "west", "--yes")[0] == 0
    drill.join(WAIT)
    (stopped,), (moved,) = world.store.operations(kinds=DRILLS), world.store.operations()
    assert (stopped.outcome, moved.outcome) == ("refused", "done")
    assert stopped.sentence.startswith("stopped: ")


def test_who_leads_for_a_drill_alone_lets_a_move_lead_at_once(world: World) -> None:
    for kind, leads in ((OperationKind.DRILL, False), (OperationKind.SWITCHOVER, True)):
        clock = ManualClock()
        lead = Leadership(world.store, clock, f"nowhere/1:boot:{kind}:x")
        wait = RequestWait(
            store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=clock, lead=lead,
            actor="ann",
        )  # fmt: skip
        own = world.request(kind=kind)
        wait._own, wait._rehearses = frozenset({own.id}), kind in DRILLS
        assert wait._leads()
        world.request()
        assert wait._leads() is leads
        lead.give_up()
