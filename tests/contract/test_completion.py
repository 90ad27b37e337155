"""What a shell offers after Tab: verbs, options, and names from the configuration; the documented lines bring it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.wheel import ROOT

CONFIG = """
store: file:a-secret-that-this-user-may-not-read
clusters: {east: {}, west: {}}
runners: {one: {}}
queries: {revenue: , returns: , orders: }
unknown: a mistake
"""
LINES = {
    shell: line.partition(" #")[0].strip()
    for line in (ROOT / "docs/deployment.md").read_text(encoding="utf-8").splitlines()
    for shell in re.findall(r"_TIDEOVER_COMPLETE=(\w+)_source", line)
}
"""By shell, what the docs say to write into its start-up file."""

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    (tmp_path / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEOVER_CONFIG", raising=False)

    def offered(*words: str) -> list[str]:
        """What is offered for the last of the words."""
        monkeypatch.setenv("_TIDEOVER_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("tideover", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        return [line.removeprefix("plain,") for line in capsys.readouterr().out.split()]

    return offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("fai",), ["failback", "failover"]),
        (("plan", ""), ["drill", "failback", "failover", "rewind", "switchover"]),
        (("failover", "re"), ["revenue", "returns"]),
        (("failover", "revenue", "--to", ""), ["east", "west"]),
        (("failover", "--expect-active", "w"), ["west"]),
        (("failover", "--al"), ["--all"]),
        (("show", "o"), ["orders"]),
        (("accept-cluster", "e"), ["east"]),
        (("run", "--name", ""), ["one"]),
        (("show", "nothing"), []),
    ],
)
def test_a_word_is_completed(complete: Complete, words: tuple[str, ...], offered: list[str]) -> None:
    assert complete(*words) == offered


def test_names_come_from_the_configuration_that_is_typed_or_named(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("queries: {clicks: }", encoding="utf-8")
    assert complete("-c", str(other), "show", "") == ["clicks"]
    monkeypatch.setenv("TIDEOVER_CONFIG", str(other))
    assert complete("show", "") == ["clicks"]


@pytest.mark.parametrize("text", ["queries: [", "queries: 7", "- revenue", ""])
def test_a_file_that_declares_no_names_offers_none(complete: Complete, tmp_path: Path, text: str) -> None:
    (tmp_path / "tideover.yaml").write_text(text, encoding="utf-8")
    assert complete("show", "") == []
    (tmp_path / "tideover.yaml").unlink()
    assert complete("show", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_line_makes_the_shell_call_tideover(shell: str, tmp_path: Path) -> None:
    requested = {  # the line, then whether a function or rule for tideover is there
        "bash": "complete -p tideover",
        "zsh": "print -r -- $_comps[tideover]",
        "fish": "complete -c tideover",
    }
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    begin = "autoload -Uz compinit; compinit -u -d $HOME/dump\n" if shell == "zsh" else ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", f"{begin}{LINES[shell]}\n{requested[shell]}"],
        capture_output=True, text=True, timeout=120, check=False, env={"PATH": path, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "_tideover_completion" in done.stdout, done.stderr


def test_every_supported_shell_has_its_line() -> None:
    assert set(LINES) == {"bash", "zsh", "fish"}
