"""What the command line says of the scenarios, and of what they are played on."""

from collections.abc import Generator
from pathlib import Path

import pytest

from chaos import cli, docker
from chaos.docker import images, versions
from chaos.outcome import Outcome
from chaos.scenarios import SCENARIOS, Scenario
from chaos.soak import SMALLER
from chaos.stage import Stage

COMPOSE = (Path(__file__).resolve().parents[3] / "docker-compose.yml").read_text(encoding="utf-8")


def test_the_list_tells_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(("list",)) == 0
    told = capsys.readouterr().out.splitlines()
    firsts = [number for number, line in enumerate(told) if not line.startswith(" ")]
    assert [told[number].split()[0] for number in firsts] == [each.name for each in (*SCENARIOS, *SMALLER)]
    lasts = [told[number - 1].partition("expected: ")[2] for number in (*firsts[1:], len(told))]
    expected = dict(zip([each.name for each in (*SCENARIOS, *SMALLER)], lasts, strict=True))
    assert expected["kill-one-broker"] == (
        "nothing moves; runner a hosts the queries in the end; the primary is DEGRADED; neither cluster is ever DOWN"
    )
    assert expected["runner-and-cluster"] == (
        "every query moves once; runner b hosts the queries in the end; the primary is DOWN"
    )
    assert expected["flapping"].endswith("the primary is UP again and repeats are as announced")
    assert "one of the clusters is SUSPECT or UNREACHABLE_FROM_HERE" in expected["cut-link"]
    assert "refused without a consent" in expected["replicator-dead"]


def test_images_are_those_of_the_environment_then_of_the_env_file_then_of_the_compose_file() -> None:
    assert images(COMPOSE, "", {})["KAFKA_IMAGE"] == "apache/kafka:4.3.1"
    assert len(images(COMPOSE, "", {})) == 5
    assert {*cli.OURS} < {*images(COMPOSE, "", {})}
    made = "# made here\nKAFKA_IMAGE=made/kafka:1\nPOSTGRES_IMAGE=made/postgres:2\nBUILD_NETWORK=host\n"
    named = images(COMPOSE, made, {"POSTGRES_IMAGE": "mine/postgres:3"})
    assert {"made/kafka:1", "mine/postgres:3"} < {*named.values()}
    assert not {"apache/kafka:4.3.1", "made/postgres:2"} & {*named.values()}


def play_nothing(*_: object) -> Generator[tuple[Scenario, Outcome]]:
    yield from ()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("10001\ntideover 1\n", ""),
        ("0\ntideover 1\n", "runs as user 0"),
        ("10001\ntideover 1\n/usr/bin/pip\n/src\n", "holds of its build: /usr/bin/pip, /src"),
    ],
)
def test_an_image_that_is_not_bare_is_refused_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, problem: str
) -> None:
    (tmp_path / "said").write_text(said, encoding="utf-8")
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\n[ "$1" != run ] || cat {tmp_path}/said\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(Stage, "play", play_nothing)
    assert cli.main(("run", "--dir", str(tmp_path), "kill-cluster")) == (2 if problem else 0)
    assert problem in capsys.readouterr().err


def test_a_machine_without_docker_says_that_its_version_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "_compose", lambda: ["no-such-compose"])
    monkeypatch.setenv("PATH", "")
    assert versions() == "Docker unknown, Compose unknown"


@pytest.mark.parametrize("text", ["", "[]", '{"scenarios": [{"name": "kill-cluster", "expected": true}]}'])
def test_a_report_that_cannot_be_completed_is_refused_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    assert cli.main(("run", "--dir", str(tmp_path), "kill-cluster")) == 2
    assert "is no report, or one of an older version" in capsys.readouterr().err
