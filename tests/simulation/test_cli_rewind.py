"""``rewind`` and its plan on the command line: output, exit codes, and questions."""

import sys

import pytest

from orchestrator.decide.times import instant
from tests.simulation.test_cli import LONG_ENOUGH_TO_BEGIN, Terminal, run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import QUERY, START_MS, World

THEN = str(instant(START_MS - 60_000))


def test_a_rewind_reads_again_and_shows_what_it_did(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = run_json(capsys, "plan", "rewind", QUERY, "--to-time", THEN)
    assert (code, plan["refused"], plan["totals"]["replay_records"]) == (0, False, 80)
    assert keys(plan["rewind"]) == {"to_time", "batch", "batch_planned_at", "retained_from"}
    assert keys(plan) <= said("`plan failover QUERY`") | said("`plan rewind QUERY --to-time TIME`")
    code, shown = run_json(capsys, "rewind", QUERY, "--to-time", THEN, "--yes")
    assert (code, shown["kind"], shown["outcome"]) == (0, "rewind", "done")
    assert (shown["from"], shown["to"], shown["parameters"]) == ("east", "east", {"to_time": THEN})
    code, out, _ = run(capsys, "show-op", shown["id"])
    assert (code, out.splitlines()[0]) == (0, f"rewind of {QUERY} on east to {THEN}")
    code, out, _ = run(capsys, "history")
    assert f"rewind of {QUERY} on east to {THEN}" in out


def test_without_a_terminal_it_wants_a_yes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "rewind", QUERY, "--to-time", THEN)
    assert (code, "without a terminal, rewind needs --yes" in err) == (2, True)
    assert world.store.open_requests() == []


@pytest.mark.parametrize(("typed", "moves"), [("y\n", True), ("n\n", False)])
def test_a_rewind_names_the_number_of_repeats_and_waits_for_a_yes(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str, moves: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    code, _, err = run(capsys, "rewind", QUERY, "--to-time", THEN)
    assert f"Stop {QUERY} and read 80 records again?" in err
    assert "its sink keeps records that come again: delete from it what came after" in err
    assert (code, bool(world.store.operations())) == ((0, True) if moves else (1, False))


@pytest.mark.parametrize(
    ("time", "code", "says"),
    [
        ("yesterday", 2, "'yesterday' is not a time"),
        ("2026-01-31T12:00:00", 2, "has no zone"),
        ("2099-01-01T00:00:00Z", 1, "time-past: 2099-01-01T00:00:00.000Z is in the future"),
    ],
)
def test_a_time_that_cannot_be_gone_back_to_is_refused(
    world: World, capsys: pytest.CaptureFixture[str], time: str, code: int, says: str
) -> None:
    found, _, err = run(capsys, "rewind", QUERY, "--to-time", time, "--yes")
    assert (found, says in err) == (code, True), err


def test_a_rewind_is_taken_back_by_its_id(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.proof = None
    assert run(capsys, "rewind", QUERY, "--to-time", THEN, "--yes", "--timeout", LONG_ENOUGH_TO_BEGIN)[0] == 3
    (blocked,) = world.store.operations()
    code, shown = run_json(capsys, "cancel", blocked.id)
    assert (code, shown["id"], shown["outcome"]) == (0, blocked.id, "refused")
    code, plan = run_json(capsys, "plan", "rewind", QUERY, "--to-time", "-1h")
    assert (code, plan["refused"]) == (1, True)
    assert next(gate["name"] for gate in plan["gates"] if not gate["ok"]) == "goes-back"
