"""What ``inventory`` prints and writes, and with which exit code it ends."""

import json
from pathlib import Path

import pytest
import yaml

from orchestrator.cli.app import main
from tests.checkpoints import CheckpointFolder
from tests.simulation.test_cli_programs import keys, said


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["inventory", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_checkpoint_of_a_named_application_is_ready_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CheckpointFolder(tmp_path / "cp" / "archive").commit(3)
    file = tmp_path / "queries.yaml"
    code, out, err = typed(capsys, tmp_path / "cp", "--application", "shop", "--write", file, "-o", "json")
    assert (code, json.loads(out)[0]["ready"]) == (0, True)
    assert keys(json.loads(out)) == said("`inventory PATH...`")
    assert "1 of 1 queries" in err
    made = yaml.safe_load(file.read_text())
    assert made["queries"]["archive"]["checkpoint"] == str(tmp_path / "cp" / "archive")
    code, _, err = typed(capsys, tmp_path / "cp", "--application", "shop", "--write", file)
    assert (code, f"{file} is there already" in err) == (2, True)
    assert yaml.safe_load(file.read_text()) == made


def test_an_unknown_application_is_exit_three_and_a_bad_checkpoint_exit_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CheckpointFolder(tmp_path / "one").commit(3)
    code, out, _ = typed(capsys, tmp_path)
    assert (code, "one: not known: its application is not known" in out) == (3, True)
    CheckpointFolder(tmp_path / "two").commit(3)
    (tmp_path / "two" / "offsets" / "3").write_text("v9\n{}")
    code, out, _ = typed(capsys, tmp_path)
    assert (code, "two: against it:" in out) == (1, True)


def test_a_folder_without_any_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, tmp_path)
    assert (code, out) == (2, "")
    assert "no checkpoint and no event log there" in err
