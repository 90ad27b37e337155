"""``adopt`` compares a checkpoint with what is declared, and changes nothing."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.app import main
from tests.checkpoints import CheckpointFolder
from tests.served import ATTACHED, CONFIG
from tests.simulation.test_cli_programs import keys, said


def adopted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    text = ATTACHED.replace("/cp/revenue", str(tmp_path / "cp")).replace("t.db", str(tmp_path / "t.db"))
    config = tmp_path / "tideover.yaml"
    config.write_text(text, encoding="utf-8")
    code = main(["-c", str(config), "adopt", "revenue", "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_checkpoint_that_fits_is_ready_and_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CheckpointFolder(tmp_path / "cp").commit(4)
    before = {path: path.read_bytes() for path in (tmp_path / "cp").rglob("*") if path.is_file()}
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"], shown["batch"], shown["application"]) == (0, True, 4, "a")
    assert keys(shown) == said("`adopt QUERY`")
    assert shown["changes"][0] == {"when": "now", "what": "nothing"}  # type: ignore[index]
    assert {path: path.read_bytes() for path in (tmp_path / "cp").rglob("*") if path.is_file()} == before


def test_a_checkpoint_of_another_topic_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CheckpointFolder(tmp_path / "cp").commit(4, {"parcels": {"0": 1}})
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"]) == (1, False)
    assert "reads parcels, but no declared source does" in str(shown["finding"])


def test_a_query_that_never_ran_has_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["batch"]) == (0, None)


def test_a_query_of_a_runner_is_not_adopted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    code = main(["-c", str(tmp_path / "tideover.yaml"), "adopt", "revenue"])
    assert (code, "hosted by a runner" in capsys.readouterr().err) == (2, True)
