"""``take-over``: a name whose process cannot be looked at any more is free again, by a word that history keeps."""

import json
import sqlite3
from pathlib import Path

import pytest

from orchestrator.cli.app import main
from state.store.sql.migrate import open_store
from streaming.process import own_identity
from tests.contract import samples
from tests.served import ATTACHED
from tests.simulation.test_cli_programs import keys, said


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tideover.yaml"
    path.write_text(ATTACHED.replace("t.db", str(tmp_path / "t.db")), encoding="utf-8")
    return path


def register(config: Path, *, silent: bool, **change: object) -> None:
    store = open_store(f"sqlite:///{config.parent}/t.db")
    store.register(samples.runner(**change))
    store.close()
    if silent:
        with sqlite3.connect(config.parent / "t.db") as connection:
            connection.execute("UPDATE runners SET seen_at = '2026-01-01T00:00:00.000000+00:00'")


def take_over(config: Path, *more: str) -> int:
    return main(["-c", str(config), "take-over", "a", "--yes", *more])


def names(config: Path) -> list[str]:
    store = open_store(f"sqlite:///{config.parent}/t.db")
    found = [fact.runner for fact in store.runners()]
    store.close()
    return found


def test_the_name_of_a_lost_host_is_free_again_and_history_says_why(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(config, silent=True, host="elsewhere", pid=4711)
    assert take_over(config, "--reason", "its node burned", "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert keys(shown) == said("`take-over NAME`")
    assert (shown["host"], shown["pid"], names(config)) == ("elsewhere", 4711, [])
    main(["-c", str(config), "history", "-o", "json"])
    (event,) = json.loads(capsys.readouterr().out)
    assert event["text"].endswith("named a, pid 4711 on elsewhere, has ended: its node burned")
    assert take_over(config, "--reason", "again") == 0
    assert "nothing done" in capsys.readouterr().err


def test_a_process_that_reports_keeps_its_name(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register(config, silent=False, host="elsewhere")
    assert take_over(config, "--reason", "I think so") == 1
    assert "already running" in capsys.readouterr().err
    assert names(config) == ["a"]


def test_a_process_that_runs_on_this_host_keeps_its_name(config: Path) -> None:
    here = own_identity()
    own = {"host": here.host, "boot_id": here.boot_id, "pid": here.pid, "pid_started": here.pid_started}
    register(config, silent=True, **own)
    assert take_over(config, "--reason", "I think so") == 1
    assert names(config) == ["a"]


def test_a_reason_and_a_declared_name_are_needed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register(config, silent=True, host="elsewhere")
    assert take_over(config) == 2
    assert main(["-c", str(config), "take-over", "aa", "--yes", "--reason", "x"]) == 2
    shown = capsys.readouterr().err
    assert "needs --reason" in shown
    assert "did you mean 'a'?" in shown
    assert names(config) == ["a"]
