"""What the command line says of the scenarios, and of what they are played on."""

from pathlib import Path

import pytest

from chaos import cli, docker
from chaos.docker import images, versions
from chaos.scenarios import SCENARIOS
from chaos.soak import SMALLER

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
    assert "apache/kafka:4.3.1" in images(COMPOSE, "", {})
    assert len(images(COMPOSE, "", {})) == 5
    made = "# made here\nKAFKA_IMAGE=made/kafka:1\nPOSTGRES_IMAGE=made/postgres:2\nBUILD_NETWORK=host\n"
    named = images(COMPOSE, made, {"POSTGRES_IMAGE": "mine/postgres:3"})
    assert {"made/kafka:1", "mine/postgres:3"} < {*named}
    assert not {"apache/kafka:4.3.1", "made/postgres:2"} & {*named}


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
