"""Clusters that others run: known by a configuration, with traffic and verdicts of the lab's own."""

import socket
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.cimpl import NewTopic

from lab import cli, lifecycle, topics, turn
from lab.errors import ClusterSilent, LabError
from lab.external_clusters import ExternalClusters

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


def test_a_topic_that_is_not_there_is_told_with_the_way_to_make_it(
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


class Message:
    """One record, as the client hands it out."""

    def __init__(self, partition: int, offset: int, value: bytes) -> None:
        self._told = partition, offset, value

    def partition(self) -> int:
        return self._told[0]

    def offset(self) -> int:
        return self._told[1]

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._told[2]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000


class Cluster:
    """What is written to a cluster: in place of the client's producer and its administrator."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._name = settings["bootstrap.servers"].partition(":")[0]

    names: ClassVar[dict[str, set[str]]] = {}
    done: ClassVar[list[tuple[str, ...]]] = []

    def produce(self, topic: str, *, key: str, value: str) -> None:
        self.done.append((self._name, topic, key, value))

    def confirm(self, _: float) -> None:
        """All of it was taken."""

    def create_topics(self, made: list[NewTopic], **_: float) -> dict[str, Future[None]]:
        return {each.topic: self._did("make", each.topic, f"{each.replication_factor} replicas") for each in made}

    def delete_topics(self, gone: list[str], **_: float) -> dict[str, Future[None]]:
        return {each: self._did("delete", each) for each in gone}

    def _did(self, *what: str) -> Future[None]:
        self.done.append((self._name, *what))
        future: Future[None] = Future()
        future.set_result(None)
        return future


@pytest.fixture
def turned(external: ExternalClusters, monkeypatch: pytest.MonkeyPatch) -> ExternalClusters:
    """East has 0 a b c and lacks what came to west after b; west has foreign records before a, and d e behind b."""
    held = {
        "a": [Message(0, at, each) for at, each in enumerate((b"0", b"a", b"b", b"c"))],
        "127.0.0.1": [Message(0, at, each) for at, each in enumerate((b"x", b"y", b"a", b"b", b"d", b"e"))],
    }
    Cluster.names = {"a": {"orders", "mm2-configs.west.internal"}, "127.0.0.1": {"orders", "mm2-configs.east.internal"}}
    Cluster.done = []
    monkeypatch.setattr(turn, "read_on", lambda bootstrap, topic, _: iter(held[bootstrap[0].partition(":")[0]]))
    monkeypatch.setattr(topics, "names", lambda bootstrap: Cluster.names[bootstrap[0].partition(":")[0]])
    monkeypatch.setattr(topics, "broker_ids", lambda bootstrap: ("id", {1, 2, 3} if bootstrap[0] == "a:1" else {1}))
    monkeypatch.setattr(turn, "Delivery", Cluster)
    monkeypatch.setattr(turn, "AdminClient", Cluster)
    return external


def test_a_replicator_of_others_is_told_to_begin_behind_what_both_have(
    turned: ExternalClusters, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(("turn", "--dir", str(turned.directory), "--config", str(turned.configuration))) == 0
    assert Cluster.done == [
        ("a", "make", "mm2-offsets.west.internal", "3 replicas"),
        (
            "a", "mm2-offsets.west.internal",
            '["MirrorSourceConnector",{"cluster":"west","partition":0,"topic":"orders"}]', '{"offset":3}',
        ),
        ("127.0.0.1", "delete", "mm2-configs.east.internal"),
    ]  # fmt: skip
    assert "orders is copied from west behind the last record that both have: 0: 4" in capsys.readouterr().err


def test_a_replicator_of_others_is_turned_the_other_way_again(turned: ExternalClusters) -> None:
    words = ("turn", "--dir", str(turned.directory), "--config", str(turned.configuration), "--from", "east")
    assert cli.main(words) == 0
    assert [each[:3] for each in Cluster.done] == [
        ("127.0.0.1", "make", "mm2-offsets.east.internal"),
        ("127.0.0.1", "mm2-offsets.east.internal",
         '["MirrorSourceConnector",{"cluster":"east","partition":0,"topic":"orders"}]'),
        ("a", "delete", "mm2-configs.west.internal"),
    ]  # fmt: skip
    assert Cluster.done[1][3] == '{"offset":2}'


def test_while_a_cluster_is_silent_no_replicator_is_told_anything(
    turned: ExternalClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(bootstrap: list[str]) -> set[str]:
        if bootstrap[0] == "a:1":
            raise ClusterSilent("a:1 does not answer")
        return {"orders"}

    monkeypatch.setattr(topics, "names", names)
    assert cli.main(("turn", "--dir", str(turned.directory), "--config", str(turned.configuration))) == 2
    assert Cluster.done == []
