"""Reversing replication and replaying a tail: where a partition begins, what is written, and what is refused."""

import base64
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication_tool import cli, common
from replication_tool.__main__ import run
from replication_tool.common import begins
from replication_tool.errors import Refused
from replication_tool.producer import Record, _security
from replication_tool.reverse import Side, may_be_copied, reverse, topics
from replication_tool.tail import records_of
from state.settings.security import Security
from tests.memory_log import MemoryCluster

TOPIC = "orders"
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Written:
    """Takes the place of a cluster that is written to: which topics it has, and what was done in order."""

    has_topics: set[str] = field(default_factory=set)
    done: list[Any] = field(default_factory=list)

    def has(self, topic: str) -> bool:
        return topic in self.has_topics

    def create_compacted(self, topic: str, partitions: int) -> None:
        self.done.append(("create", topic, partitions))

    def delete(self, topic: str) -> None:
        self.done.append(("delete", topic))

    def write(self, records: Any) -> int:
        written = list(records)
        self.done += written
        return len(written)


def cluster(name: str, *partitions: list[tuple[bytes, int]], topic: str = TOPIC) -> MemoryCluster:
    """A cluster with one topic; a record is its content and its time."""
    made = MemoryCluster(name)
    made.create(topic, len(partitions))
    for number, records in enumerate(partitions):
        for content, at in records:
            made.append(topic, number, at, content)
    return made


def side(log: MemoryCluster, *, has: set[str] | None = None, alias: str = "") -> Side:
    return Side(name=log.name, alias=alias or log.name, log=log, writer=Written(has or set()))  # type: ignore[arg-type]


def records(*numbers: int) -> list[tuple[bytes, int]]:
    return [(b"%d" % number, 1000 + number) for number in numbers]


def offset_of(source: list[tuple[bytes, int]], target: list[tuple[bytes, int]]) -> int | None:
    return begins(cluster("west", source), cluster("east", target), TOPIC)[0].offset


# -- where a partition begins ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "target", "offset"),
    [
        (records(1, 2, 3, 20, 21), records(1, 2, 3), 3),
        (records(1, 2, 3, 20, 21), records(1, 2, 3, 10, 11), 3),  # a tail that only the target has
        (records(1, 2, 3), records(0, 1, 2, 3), 3),
        (records(1, 2, 3, 2, 20), records(1, 2, 3), 4),  # sent twice by a replicator
        ([(b"a", 5), (b"b", 3), (b"c", 9)], [(b"b", 3), (b"a", 5)], 2),  # times go back
        ([(b"a", -1), (b"b", 7)], [(b"a", -1)], 1),  # no time
        (records(20, 21), [], 0),
        ([], records(1, 2), 0),
        (records(20, 21), records(1, 2), None),
        ([(b"a", 7)], [(b"a", 8)], None),
    ],
)
def test_a_partition_begins_behind_the_last_record_that_both_have(
    source: list[tuple[bytes, int]], target: list[tuple[bytes, int]], offset: int | None
) -> None:
    assert offset_of(source, target) == offset


LOGS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 6)), max_size=14)


@given(LOGS, LOGS, st.integers(1, 5))
def test_no_window_and_no_order_of_times_hides_a_common_record(
    source: list[tuple[bytes, int]], target: list[tuple[bytes, int]], window: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(common, "WINDOW", window)
        found = offset_of(source, target)
    shared = [at + 1 for at, each in enumerate(source) if each in target]
    assert found == (max(shared) if shared else None if source and target else 0)


def test_only_the_end_of_a_long_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "WINDOW", 10)
    west, east = cluster("west", records(*range(500))), cluster("east", records(*range(495)))
    read: dict[str, int] = {}
    for log in (west, east):
        original = log.fetch

        def fetch(*given: Any, name: str = log.name, original: Any = original, **more: Any) -> Any:
            answers = original(*given, **more)
            read[name] = read.get(name, 0) + sum(len(each.records) for each in answers.values())
            return answers

        monkeypatch.setattr(log, "fetch", fetch)
    assert begins(west, east, TOPIC)[0].offset == 495
    assert read == {"west": 10, "east": 5}


def test_each_partition_has_its_begin_and_a_missing_one_begins_at_0() -> None:
    west = cluster("west", records(1, 2), records(3, 4, 5), records(6))
    found = begins(west, cluster("east", records(1), records(3, 4)), TOPIC)
    assert {partition: each.offset for partition, each in found.items()} == {0: 1, 1: 2, 2: 0}


def test_a_log_that_was_cut_or_has_holes_is_searched_in_what_is_left() -> None:
    west, east = cluster("west", records(*range(10))), cluster("east", records(*range(6)))
    west.retain(TOPIC, 0, 3)
    west.compact(TOPIC, 0, [5])
    west.skip(TOPIC, 0, 3)
    assert begins(west, east, TOPIC)[0].offset == 5


def test_a_topic_that_is_missing_is_refused() -> None:
    with pytest.raises(Refused, match="topic nothing: "):
        begins(cluster("west", []), cluster("east", []), "nothing")


# -- what is written -------------------------------------------------------------------------------------------------
def key(partition: int, alias: str = "west") -> bytes:
    return b'["MirrorSourceConnector",{"cluster":"%s","partition":%d,"topic":"orders"}]' % (alias.encode(), partition)


def test_offsets_are_written_before_the_old_directions_memory_is_deleted() -> None:
    west = side(cluster("west", records(1, 2, 9), records(7)), has={"mm2-configs.east.internal"})
    east = side(cluster("east", records(1, 2, 3), []))
    said: list[str] = []
    reverse(west, east, said.append)
    name = "mm2-offsets.west.internal"
    assert east.writer.done == [("create", name, 25), Record(name, key(0), b'{"offset":1}')]  # type: ignore[attr-defined]
    assert west.writer.done == [("delete", "mm2-configs.east.internal")]  # type: ignore[attr-defined]
    assert said[0] == "orders is copied from west behind the last record that both have: 0: 2, 1: 0"
    assert said[-1] == "start MirrorMaker now, with west->east enabled and the other direction off"


def test_an_offset_of_an_earlier_way_back_is_replaced_also_by_none() -> None:
    east = side(cluster("east", []), has={"mm2-offsets.W.internal"}, alias="E")
    reverse(side(cluster("west", records(7)), alias="W"), east, lambda _: None)
    assert east.writer.done == [Record("mm2-offsets.W.internal", key(0, "W"), None)]  # type: ignore[attr-defined]


def test_a_dry_run_writes_nothing() -> None:
    west, east = side(cluster("west", records(1)), has={"mm2-configs.east.internal"}), side(cluster("east", records(1)))
    said: list[str] = []
    reverse(west, east, said.append, dry_run=True)
    assert (west.writer.done, east.writer.done) == ([], [])  # type: ignore[attr-defined]
    assert said[-1] == "nothing was written: this was a dry run"


def test_nothing_in_common_is_refused_until_a_person_decides() -> None:
    def sides() -> tuple[Side, Side]:
        return side(cluster("west", records(7, 8))), side(cluster("east", records(1)))

    west, east = sides()
    with pytest.raises(Refused, match="orders/0: west has records up to 2 and east up to 1, and not one is on both"):
        reverse(west, east, lambda _: None)
    assert east.writer.done == []  # type: ignore[attr-defined]
    west, east = sides()
    reverse(west, east, lambda _: None, where_none="skip")
    assert east.writer.done[-1].value == b'{"offset":1}'  # type: ignore[attr-defined]
    west, east = sides()
    reverse(west, east, lambda _: None, where_none="copy")
    assert [each for each in east.writer.done if isinstance(each, Record)] == []  # type: ignore[attr-defined]


def test_topics_of_both_clusters_are_reversed_or_those_that_are_named() -> None:
    west, east = MemoryCluster("west"), MemoryCluster("east")
    for topic in ("orders", "payments", "east.heartbeats"):
        west.create(topic)
        east.create(topic)
    west.create("alone")
    assert topics(side(west), side(east), []) == ["orders", "payments"]
    assert topics(side(west), side(east), ["payments"]) == ["payments"]
    with pytest.raises(Refused, match="alone: not a topic of both west and east"):
        topics(side(west), side(east), ["alone"])
    with pytest.raises(Refused, match="no topic of one name"):
        topics(side(west), side(MemoryCluster("east")), [])


@pytest.mark.parametrize("topic", ["orders", "copies.internal", "east.orders", "internal", "mm2-like"])
def test_a_topic_of_users_is_copied_whatever_its_name_is(topic: str) -> None:
    assert may_be_copied(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "mm2-offsets.east.internal", "mm2-offset-syncs.west.internal", "east.checkpoints.internal", "heartbeats",
        "east.heartbeats", "orders.replica", "__consumer_offsets",
    ],
)  # fmt: skip
def test_topics_of_the_replicator_and_the_brokers_are_left_out(topic: str) -> None:
    assert not may_be_copied(topic)


# -- the tail --------------------------------------------------------------------------------------------------------
ENTRY = {"key": "k", "value": "v", "headers": [], "timestamp_ms": 5, "on_standby": False}


def test_a_tail_becomes_records_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "tail.json"
    reported = [
        {**ENTRY, "headers": [["trace", "x"], ["blank", None]]},
        {**ENTRY, "key": None, "value": {"base64": base64.b64encode(b"\xff").decode()}},
        {**ENTRY, "value": "came already", "on_standby": True},
        {**ENTRY, "value": "was aborted", "committed": False},
    ]
    file.write_text(json.dumps({"records": reported}), encoding="utf-8")
    assert records_of(file, "side") == [
        Record("side", b"k", b"v", (("trace", b"x"), ("blank", None)), 5),
        Record("side", None, b"\xff", (), 5),
    ]


def test_records_that_the_query_had_read_are_left_out_if_wanted(tmp_path: Path) -> None:
    file = tmp_path / "tail.json"
    reported = [{**ENTRY, "value": str(known), "read_before": known} for known in (True, False, None)]
    file.write_text(json.dumps({"records": reported}), encoding="utf-8")
    assert [each.value for each in records_of(file, "side")] == [b"True", b"False", b"None"]
    with pytest.raises(Refused, match="whether the query has read 1 of these 3 records") as refused:
        records_of(file, "side", unread=True)
    assert refused.value.hint.endswith("nothing was written")
    assert [each.value for each in records_of(file, "side", unread=True, in_doubt="write")] == [b"False", b"None"]
    assert [each.value for each in records_of(file, "side", unread=True, in_doubt="skip")] == [b"False"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"records": [1]}', '{"records": [{"on_standby": false}]}'])
def test_a_file_that_is_no_tail_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tail.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match="is not the tail of an operation") as refused:
        records_of(file, "side")
    assert refused.value.hint == "make it: tideover show-op ID --tail -o json > tail.json"


# -- the command line ------------------------------------------------------------------------------------------------
@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "tideover.yaml"
    path.write_text(
        "store: sqlite:///t.db\nclusters:\n"
        "  east: {bootstrap: ['127.0.0.1:1']}\n  west: {bootstrap: ['127.0.0.1:2']}\n",
        encoding="utf-8",
    )
    return str(path)


def test_the_command_names_its_clusters_by_the_configuration(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = {"west": cluster("west", records(1, 2, 9)), "east": cluster("east", records(1, 2))}
    written = {name: Written() for name in logs}
    monkeypatch.setattr(cli, "_side", lambda _, name, alias, __: Side(
        name=name, alias=alias, log=logs[name], writer=written[name],  # type: ignore[arg-type]
    ))  # fmt: skip
    words = ["reverse", "-c", config, "--from", "west", "--to", "east", "--from-alias", "W", "--topic", "orders"]
    assert cli.main(words) == 0
    assert written["east"].done[0] == ("create", "mm2-offsets.W.internal", 25)
    assert written["east"].done[1].key == key(0, "W")
    assert "orders is copied from west" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "west", "--to", "north"], "the configuration has no cluster north\nits clusters: east, west"),
        (["--from", "west", "--to", "west"], "--from and --to are both west"),
    ],
)
def test_a_cluster_that_cannot_be_meant_is_refused(
    config: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reverse", "-c", config, *words]) == 1
    assert said in capsys.readouterr().err


def test_a_tail_is_written_only_into_a_topic_that_exists(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "tail.json"
    file.write_text(json.dumps({"records": [ENTRY]}), encoding="utf-8")
    writer = Written()
    monkeypatch.setattr(cli, "Writer", lambda *_: writer)
    words = ["replay-tail", "-c", config, "--to", "west", "--topic", "side", str(file)]
    assert cli.main(words) == 1
    assert "west has no topic side" in capsys.readouterr().err
    writer.has_topics.add("side")
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "1 of 1 records written to side\n"


def test_a_clusters_security_is_what_the_writing_client_gets(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n", encoding="utf-8")
    for name in ("ca", "cert", "key"):
        (tmp_path / name).touch()
    sasl = {"mechanism": "SCRAM-SHA-512", "username": "me", "password": f"file:{tmp_path}/password"}
    files = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    declared = Security.model_validate({"protocol": "SASL_SSL", "sasl": sasl, "check_hostname": False, **files})
    assert _security(declared) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": files["ca"],
        "ssl.certificate.location": files["cert"],
        "ssl.key.location": files["key"],
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "s3cret",
    }
    assert _security(Security()) == {"security.protocol": "PLAINTEXT"}


def test_without_its_client_the_command_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in ("replication_tool.cli", "replication_tool.producer"):
        monkeypatch.delitem(sys.modules, name)
    assert run() == 2
    assert "pip install 'tideover[replication]'" in capsys.readouterr().err


def test_the_commands_of_its_help_and_of_the_documents_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    pages = [capsys.readouterr().out, (ROOT / "docs" / "failback.md").read_text(encoding="utf-8")]
    commands = re.findall(r"\btideover-replication ((?:reverse|replay-tail) [^`#\n]+)", "\n".join(pages))
    assert len(commands) >= 6
    assert {cli._parser().parse_args(words.split()).verb for words in commands} == {"reverse", "replay-tail"}
