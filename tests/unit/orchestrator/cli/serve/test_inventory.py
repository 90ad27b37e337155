"""What ``inventory`` prints and writes, and with which exit code it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.cli.app import main
from tests.checkpoints import CheckpointFolder
from tests.json_server import JsonServer, json_server
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


@pytest.fixture
def master() -> Iterator[JsonServer]:
    with json_server() as made:
        rows = {"activeapps": [{"id": "app-1", "name": "shop", "state": "RUNNING"}]}
        made.answers["/json/"] = rows | {"completedapps": [{"id": "app-0", "name": "old", "state": "FINISHED"}]}
        yield made


def test_applications_of_a_cluster_manager_are_listed(master: JsonServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, "--from", f"standalone:{master.url}", "-o", "json")
    (found,) = json.loads(out)
    assert keys(json.loads(out)) == said("`inventory PATH...`")
    assert (code, found["application_id"], found["application_state"]) == (3, "app-1", "RUNNING")
    assert "as they have ended and no event log of them was read: 1" in err
    code, out, _ = typed(capsys, "--from", f"standalone:{master.url}")
    assert (code, "shop: not known: its queries are not known" in out, "RUNNING" in out) == (3, True, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "nothing to look at"),
        (("--from", "nowhere"), "nowhere names no source: it has one of the forms yarn:http://rm:8088"),
        (("--from", "yarn:http://127.0.0.1:1"), "http://127.0.0.1:1 does not answer as a ResourceManager"),
        (("--from", "history:http://127.0.0.1:1"), "does not answer as Spark's history server"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_sentence(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = typed(capsys, *words)
    assert (code, out, sentence in err) == (2, "", True), err
    assert err.count("tideover: ") == 1


def test_a_manager_without_applications_is_one_sentence(master: JsonServer, capsys: pytest.CaptureFixture[str]) -> None:
    master.answers["/json/"] = {"activeapps": [], "completedapps": []}
    code, _, err = typed(capsys, "--from", f"standalone:{master.url}")
    assert (code, "no streaming query is known there" in err) == (2, True)
