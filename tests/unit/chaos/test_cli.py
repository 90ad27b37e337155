"""What the command line says of the scenarios, and of what they are played on."""

from collections.abc import Generator
from pathlib import Path

import pytest

from chaos import cli
from chaos.scenario_outcome import Outcome
from chaos.scenarios import Scenario
from chaos.stage import Stage
from reports.origin import Origin

ON = Origin(revision="a" * 40, changed=False, made="2026-11-23 06:00 UTC", machine="2 cores")


@pytest.fixture(autouse=True)
def clean_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this checkout may differ from its commit while it is tested."""
    monkeypatch.setattr(cli, "origin", lambda *_, draft: ON)
    monkeypatch.setattr(cli, "unchanged", lambda *_: None)


def fake_docker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, said: str, label: str, own: str = "10001 sizes"
) -> Path:
    """A program in the place of Docker and Compose that knows one image; returns the list of its commands."""
    (folder / "said").write_text(said, encoding="utf-8")
    (folder / "label").write_text(label, encoding="utf-8")
    (folder / "own").write_text(own, encoding="utf-8")
    answers = f"run*{cli.OWN}*) cat {folder}/own;;\nrun*) cat {folder}/said;;\nimage*) cat {folder}/label;;\n"
    for name in ("docker", "docker-compose"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\ncase "$*" in\n{answers}esac\n', encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "asked"


def play_nothing(*_: object) -> Generator[tuple[Scenario, Outcome]]:
    yield from ()


BARE = "10001\ntideover 1\n"


@pytest.mark.parametrize(
    ("said", "label", "problem"),
    [
        (BARE, ON.revision, ""),
        ("0\ntideover 1\n", ON.revision, "runs as user 0"),
        (f"{BARE}/usr/bin/pip\n/src\n", ON.revision, "holds of its build: /usr/bin/pip, /src"),
        (BARE, "b" * 40, f"was made from {'b' * 40}, and the report would say {ON.revision}"),
        (BARE, "", "was made from a commit it does not name"),
    ],
)
@pytest.mark.parametrize("build", [[], ["--no-build"]])
def test_an_image_that_is_not_bare_or_of_another_commit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, label: str,
    problem: str, build: list[str],
) -> None:  # fmt: skip
    fake_docker(tmp_path, monkeypatch, said=said, label=label)
    monkeypatch.setattr(Stage, "play", play_nothing)
    assert cli.main(["run", "--dir", str(tmp_path), "kill-cluster", *build]) == (2 if problem else 0)
    assert problem in capsys.readouterr().err


def test_the_recipe_for_an_image_with_ones_own_pipelines_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = fake_docker(tmp_path, monkeypatch, said="10001\ntideover 1\n", label=ON.revision, own="0 sizes")
    monkeypatch.setattr(Stage, "play", play_nothing)
    assert cli.main(["run", "--dir", str(tmp_path), "kill-cluster"]) == 2
    assert "does not load its pipeline as user 10001: '0 sizes'" in capsys.readouterr().err
    (built,) = [line for line in requested.read_text(encoding="utf-8").splitlines() if line.endswith("conf/own-image")]
    assert "--build-arg TIDEOVER_IMAGE=tideover:0.1.0" in built
