"""The commands of an application: what replaces a word, and what an exit code means."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from state.model.entities import Assignment
from state.settings.keys import Tideover
from streaming import process
from streaming.spark.errors import CommandFailed
from streaming.spark.external import application_commands
from streaming.spark.external.application_commands import ApplicationCommands


def commands(base: Path, cluster: str = "west", **more: Any) -> ApplicationCommands:
    application = {"start": ["echo", "{bootstrap}"], "stop": ["true"], "status": ["true"]} | more
    settings = Tideover.model_validate({
        "store": "env:SHOP_STORE",
        "clusters": {"east": {"bootstrap": ["e:1", "e:2"]}, "west": {"bootstrap": ["w:1"]}},
        "routes": [{"from": "east", "to": "west", "topics": {"prefix": "east."}}],
        "runners": {"tender": {}},
        "queries": {"q": {
            "application": application, "sources": {"s": {"topics": ["b", "a"]}}, "clusters": ["east", "west"],
            "runners": ["tender"], "checkpoint": "/cp/q",
        }},
    })  # fmt: skip
    row = Assignment.first(
        "q", cluster=cluster, runner="tender", checkpoint="/cp/q", now=datetime(2026, 1, 1, tzinfo=UTC)
    )
    return ApplicationCommands.of(settings, row, base)


@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [("east", "e:1,e:2 east a,b /cp/q 1 q {other}"), ("west", "w:1 west east.a,east.b /cp/q 1 q {other}")],
)
def test_words_in_braces_are_replaced_and_others_stay(tmp_path: Path, cluster: str, wanted: str) -> None:
    words = ["{bootstrap}", "{cluster}", "{topics}", "{checkpoint}", "{epoch}", "{query}", "{other}"]
    line = ["bash", "-c", 'echo "$@" > said', "bash", *words]
    commands(tmp_path, cluster, start=line).start()
    assert (tmp_path / "said").read_text() == wanted + "\n"


@pytest.mark.parametrize(
    ("code", "runs", "text"),
    [
        (0, True, ""),
        (3, False, ""),
        (1, None, "status ended with code 1, which is neither 0 (it runs) nor 3 (it has ended): no such unit"),
        (4, None, "status ended with code 4, which is neither 0 (it runs) nor 3 (it has ended): no such unit"),
    ],
)
def test_a_code_other_than_0_and_3_is_no_answer(tmp_path: Path, code: int, runs: bool | None, text: str) -> None:
    found = commands(tmp_path, status=["bash", "-c", f"echo no such unit; exit {code}"]).status()
    assert (found.runs, found.text) == (runs, text)


def test_a_status_that_cannot_be_read_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = commands(tmp_path, status=["/nowhere/status"]).status()
    assert missing.runs is None
    assert missing.text == "status cannot be read: /nowhere/status cannot be started: No such file or directory"
    monkeypatch.setattr(application_commands, "STATUS_SECONDS", 0.05)
    slow = commands(tmp_path, status=["sleep", "60"]).status()
    assert (slow.runs, slow.text) == (None, "status cannot be read: sleep did not end within 0 s")


def test_a_command_that_fails_says_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"^stop ended with code 5: it is gone$"):
        commands(tmp_path, stop=["bash", "-c", "echo first; echo it is gone >&2; exit 5"]).stop()
    with pytest.raises(CommandFailed, match=r"^start ended with code 1$"):
        commands(tmp_path, start=["bash", "-c", "exit 1 # {cluster}"]).start()


def test_a_start_returns_though_what_it_began_keeps_the_output(tmp_path: Path) -> None:
    commands(tmp_path, start=["bash", "-c", "echo {cluster}; sleep 2 & exit 0"]).start()


def test_a_command_gets_no_secret_and_no_variable_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BEFORE", {})
    monkeypatch.setenv("SHOP_STORE", "postgresql://shop:secret@db")
    monkeypatch.setenv("TIDEOVER_STATE", "/ours")
    monkeypatch.setenv("SHOP_OWN", "theirs")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    process.set_own("PYTHONPATH", "/ours:/theirs")
    process.set_own("PYTHONPATH", "/ours:/ours:/theirs")
    process.set_own("PYSPARK_PYTHON", "/ours/python")
    commands(tmp_path, start=["bash", "-c", "env > seen # {cluster}"]).start()
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    names = ("SHOP_STORE", "TIDEOVER_STATE", "PYSPARK_PYTHON", "PYTHONPATH", "SHOP_OWN")
    assert [seen.get(name) for name in names] == [None, None, None, "/theirs", "theirs"]
    monkeypatch.delenv("PYSPARK_PYTHON")


@pytest.mark.parametrize(
    ("printed", "identity"),
    [("up 3 s", None), ("identity=17-4", "17-4"), ("a\nidentity= 17 4 \nb", "17 4"), ("identity=", None)],
)
def test_a_status_may_name_what_runs(tmp_path: Path, printed: str, identity: str | None) -> None:
    said = ["bash", "-c", f"printf '{printed}' # {{cluster}}"]
    made = commands(tmp_path, status=said, start=said)
    assert (made.status().identity, made.start()) == (identity, identity)
    assert commands(tmp_path, status=["bash", "-c", "echo identity=1; exit 3"]).status().identity is None
