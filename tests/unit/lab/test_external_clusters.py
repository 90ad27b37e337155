"""Clusters that others run: known by a configuration, with traffic and verdicts of the lab's own."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import cli, lifecycle, topics, turn
from lab.errors import LabError
from lab.external_clusters import ExternalClusters
from replication_tool.reverse import Side

CONFIGURATION = """
clusters:
  east: {bootstrap: ["a:1", "b:2"]}
  west: {bootstrap: ["127.0.0.1:%d"]}
queries: {}
"""


@pytest.fixture
def external(tmp_path: Path) -> ExternalClusters:
    path = tmp_path / "tideover.yaml"
    path.write_text(CONFIGURATION % 9)
    return ExternalClusters(tmp_path, path)


def test_its_clusters_are_those_of_the_configuration(external: ExternalClusters) -> None:
    assert external.bootstrap("east") == ["a:1", "b:2"]
    with pytest.raises(LabError, match="names no bootstrap servers of north"):
        external.bootstrap("north")


def test_a_cluster_may_answer_when_one_of_its_addresses_takes_a_connection(external: ExternalClusters) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        external.configuration.write_text(CONFIGURATION % server.getsockname()[1])
        assert external.may_answer("west")
    assert not external.may_answer("west")


def test_topics_get_three_replicas_on_three_brokers_and_one_on_one(
    external: ExternalClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = {"a:1": {1, 2, 3, 4}, "127.0.0.1:9": {1}}
    made = []
    monkeypatch.setattr(topics, "broker_ids", lambda bootstrap: ("id", brokers[bootstrap[0]]))
    monkeypatch.setattr(topics, "create", lambda *told: made.append(told) or True)
    monkeypatch.setattr(topics, "put_foreign", lambda bootstrap, *_, **__: made.append((bootstrap, "foreign")))
    lifecycle.make_topic(external, "orders", 4)
    west, east = ["127.0.0.1:9"], ["a:1", "b:2"]
    assert made == [(west, "orders", 4, 1), (west, "foreign"), (east, "orders", 4, 3)]


def test_a_missing_topic_is_named_with_the_command_that_makes_it(
    external: ExternalClusters, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topics, "partition_count", lambda *_, **__: 0)
    words = ("traffic", "--dir", str(external.directory), "--config", str(external.configuration))
    assert cli.main(words) == 2
    assert "there is no topic orders on east\nmake it: python -m lab topics" in capsys.readouterr().err


def test_a_directory_without_a_world_needs_a_configuration(
    external: ExternalClusters, capsys: pytest.CaptureFixture[str]
) -> None:
    verify = ("verify", "--dir", str(external.directory), "-o", "json")
    assert cli.main(verify) == 2
    assert "there is no world" in capsys.readouterr().err
    assert cli.main((*verify, "--config", str(external.configuration))) == 2
    assert "names no queries, so there is nothing to judge" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["east", "west"])
def test_replication_of_others_is_reversed_by_the_tool_of_users(
    external: ExternalClusters, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    made: list[tuple[str, str, str]] = []

    def reverse(begin: Side, end: Side, _: Callable[[str], None], *, where_none: str) -> None:
        made.append((begin.name, end.name, where_none))

    monkeypatch.setattr(turn, "reverse", reverse)
    monkeypatch.setattr(turn, "Writer", lambda name, cluster: (name, cluster.bootstrap))
    words = ("turn", "--dir", str(external.directory), "--config", str(external.configuration), "--from", source)
    assert cli.main(words) == 0
    assert made == [(source, "west" if source == "east" else "east", "skip")]
