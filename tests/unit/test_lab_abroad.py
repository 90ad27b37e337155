"""Clusters that others run: known by a configuration, with traffic and verdicts of the lab's own."""

import socket
from pathlib import Path

import pytest

from lab import cli, life, topics
from lab.abroad import Abroad
from lab.errors import LabError

CONFIGURATION = """
clusters:
  east: {bootstrap: ["a:1", "b:2"]}
  west: {bootstrap: ["127.0.0.1:%d"]}
queries: {}
"""


@pytest.fixture
def abroad(tmp_path: Path) -> Abroad:
    path = tmp_path / "tideover.yaml"
    path.write_text(CONFIGURATION % 9)
    return Abroad(tmp_path, path)


def test_its_clusters_are_those_of_the_configuration(abroad: Abroad) -> None:
    assert abroad.bootstrap("east") == ["a:1", "b:2"]
    with pytest.raises(LabError, match="names no bootstrap servers of north"):
        abroad.bootstrap("north")


def test_a_cluster_may_answer_when_one_of_its_addresses_takes_a_connection(abroad: Abroad) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        abroad.configuration.write_text(CONFIGURATION % server.getsockname()[1])
        assert abroad.may_answer("west")
    assert not abroad.may_answer("west")


def test_topics_get_three_replicas_where_there_are_three_brokers_and_one_where_there_is_one(
    abroad: Abroad, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = {"a:1": {1, 2, 3, 4}, "127.0.0.1:9": {1}}
    made = []
    monkeypatch.setattr(topics, "broker_ids", lambda bootstrap: ("id", brokers[bootstrap[0]]))
    monkeypatch.setattr(topics, "create", lambda *told: made.append(told) or True)
    monkeypatch.setattr(topics, "put_foreign", lambda bootstrap, *_, **__: made.append((bootstrap, "foreign")))
    life.make_topic(abroad, "orders", 4)
    west, east = ["127.0.0.1:9"], ["a:1", "b:2"]
    assert made == [(west, "orders", 4, 1), (west, "foreign"), (east, "orders", 4, 3)]


def test_a_topic_that_is_not_there_is_told_with_the_way_to_make_it(
    abroad: Abroad, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topics, "partition_count", lambda *_, **__: 0)
    words = ("traffic", "--dir", str(abroad.directory), "--config", str(abroad.configuration))
    assert cli.main(words) == 2
    assert "there is no topic orders on east\nmake it: python -m lab topics" in capsys.readouterr().err


def test_a_directory_without_a_world_needs_a_configuration(abroad: Abroad, capsys: pytest.CaptureFixture[str]) -> None:
    verify = ("verify", "--dir", str(abroad.directory), "-o", "json")
    assert cli.main(verify) == 2
    assert "there is no world" in capsys.readouterr().err
    assert cli.main((*verify, "--config", str(abroad.configuration))) == 0
    assert capsys.readouterr().out == "{}\n"
