"""``adopt`` compares a checkpoint with what is declared, and changes nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.app import main
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.handback import hand_back, plan_handback
from tests.checkpoints import CheckpointFolder
from tests.served import ATTACHED, CONFIG
from tests.simulation.test_cli_programs import keys, said
from tests.unit.streaming.spark.test_handback import moved


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


def released(path: Path) -> None:
    """It was moved to west, and handed back to plain Spark there."""
    hand_back(LocalFiles(), plan_handback(LocalFiles(), moved(path)))


def test_a_checkpoint_that_was_released_elsewhere_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    released(tmp_path / "cp")
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"]) == (1, False)
    assert "name west first among the clusters of revenue" in str(shown["finding"])


def test_a_checkpoint_that_another_store_has_moved_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved(tmp_path / "cp")
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"]) == (1, False)


def test_a_query_that_was_released_is_not_ready_under_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = replace(moved(tmp_path / "cp"), query="revenue", epoch=1, placed_epoch=1, operation=None)
    open_store(f"sqlite:///{tmp_path / 't.db'}").adopt(row)
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"]) == (0, True)
    hand_back(LocalFiles(), plan_handback(LocalFiles(), row))
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["ready"]) == (1, False)
    assert "was handed back to plain Spark" in str(shown["finding"])


def test_a_query_that_never_ran_has_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = adopted(tmp_path, capsys)
    assert (code, shown["batch"]) == (0, None)


def test_a_query_of_a_runner_is_not_adopted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    code = main(["-c", str(tmp_path / "tideover.yaml"), "adopt", "revenue"])
    assert (code, "hosted by a runner" in capsys.readouterr().err) == (2, True)
