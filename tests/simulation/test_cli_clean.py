"""``clean``: what retention would take and why the rest stays; what goes is shown, confirmed, and waited for."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from state.model.entities import RunState
from state.model.maintenance import CleanedFiles
from tests.simulation.conftest import CONFIG
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import World

NOW = ("--older-than", "0s")


@pytest.fixture
def moved(world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """A query that went to west and came back: it has left the folder that it began in, and one that a move made."""
    (folder / "tideover.yaml").write_text(f"{CONFIG}retention: {{keep_checkpoints: 1}}\n", encoding="utf-8")
    for cluster in ("west", "east"):
        code, _, err = run(capsys, "failover", "revenue", "--to", cluster, "--yes", "--consent", "repeats")
        assert code == 0, err
    return world


def fates(shown: object) -> list[tuple[str, str]]:
    assert isinstance(shown, dict)
    return [(Path(row["checkpoint"]).name[:7], row["fate"]) for row in shown["checkpoints"]]


def test_a_dry_run_shows_all_of_it_and_changes_nothing(moved: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = moved.store.formers()
    code, shown = run_json(capsys, "clean", "--dry-run", *NOW)
    assert code == 0
    assert fates(shown) == [("epoch-2", "stays"), ("revenue", "goes")]
    assert isinstance(shown, dict)
    assert keys(shown) == said("`clean`, with `--dry-run` too")
    assert keys(shown["checkpoints"]) == said("Each of `checkpoints`")
    assert shown["rows"]["operations"] == 0
    newest, first = shown["checkpoints"]
    assert (newest["why"], first["bytes"]) == ("it is one of the newest 1 (retention.keep_checkpoints)", None)
    assert 0 <= first["age_seconds"] < 60
    code, out, _ = run(capsys, "clean", "--dry-run")
    assert code == 0
    assert "retention.checkpoints is not set" in out
    assert "The controller has no rows to delete from the store." in out
    _, named = run_json(capsys, "clean", "revenue", "--dry-run")
    assert fates(named) == [("epoch-2", "stays"), ("revenue", "stays")]
    assert isinstance(named, dict)
    assert named["rows"] is None
    assert (moved.store.formers(), moved.runner.cleaned) == (before, [])


def test_a_checkpoint_is_cleaned_by_its_runner_and_the_history_has_it(
    moved: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run_json(capsys, "clean", "revenue", *NOW, "--yes", "--reason", "the disk is full")
    assert code == 0
    assert fates(shown) == [("revenue", "cleaned")]
    assert isinstance(shown, dict)
    assert (shown["checkpoints"][0]["files"], shown["checkpoints"][0]["bytes"]) == (12, 3_000)
    assert moved.runner.cleaned == ["/cp/revenue"]
    requested, cleaned = [event for event in moved.store.history() if event.kind in {"clean", "cleaned"}]
    assert requested.text.startswith("ordered runner a to clean /cp/revenue: left ")
    assert requested.text.endswith(": the disk is full")
    assert "@" in requested.actor
    assert cleaned.actor == "runner"
    code, out, err = run(capsys, "clean", "revenue", *NOW, "--yes")
    assert (code, err) == (0, "nothing to clean: nothing done\n")
    assert "12 files deleted; its last batch and its fence are kept" in out
    assert moved.runner.cleaned == ["/cp/revenue"]


def test_a_runner_that_could_not_says_why(moved: World, capsys: pytest.CaptureFixture[str]) -> None:
    moved.runner.cleans = "no fence holds /cp/revenue"
    code, out, _ = run(capsys, "clean", *NOW, "--yes")
    assert code == 1
    assert "runner a could not clean it: no fence holds /cp/revenue" in out
    moved.runner.cleans = CleanedFiles(0, 0)
    assert run(capsys, "clean", *NOW, "--yes")[0] == 0, "a person may ask again at once"


def test_a_runner_that_does_not_answer_in_time_continues_its_cleaning(
    moved: World, capsys: pytest.CaptureFixture[str]
) -> None:
    moved.runner.answers = False
    code, _, err = run(capsys, "clean", *NOW, "--yes", "--timeout", "1")
    assert code == 3
    assert "1 of 1 checkpoints are not cleaned after 1 s" in err
    _, shown = run_json(capsys, "clean", "--dry-run", *NOW)
    assert fates(shown) == [("epoch-2", "stays"), ("revenue", "ordered")]


def test_a_person_may_refuse_the_cleaning(
    moved: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(capsys, "clean", *NOW)
    assert code == 2
    assert "without a terminal, this command needs --yes" in err
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "clean", *NOW)
    assert code == 1
    assert "Clean 1 checkpoint?" in err
    assert "/cp/revenue " in err
    assert [former.asked_at for former in moved.store.formers()] == [None, None]


def test_no_checkpoint_of_an_undeclared_or_idle_query_is_cleaned(
    moved: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fact,) = moved.store.query_facts()
    moved.runner.alive = False
    moved.store.report_query(replace(fact, state=RunState.FAILED))
    assert "no runner reports that revenue runs" in run(capsys, "clean", *NOW, "--yes")[1]
    (folder / "tideover.yaml").write_text(CONFIG.replace("  revenue:", "  other:"), encoding="utf-8")
    assert "revenue is not declared" in run(capsys, "clean", *NOW, "--yes")[1]
    code, _, err = run(capsys, "clean", "nope")
    assert code == 2
    assert "query 'nope' is not declared, and the store knows no old checkpoint" in err
    assert run(capsys, "clean", "--older-than", "soon", "--dry-run")[0] == 2
