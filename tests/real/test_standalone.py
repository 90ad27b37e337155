"""A runner on a Spark standalone cluster, between two clusters that request credentials and allow what is documented.

East wants a client's certificate, west a password (SCRAM); each user has exactly the ACLs of ``docs/security.md``.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.world import CLUSTERS
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.certificates import make_certificates
from tests.guarded import Guarded, behind_scram, behind_tls, documented
from tests.real.pipelines import kept_sums, sums_of
from tests.scene import Said, Scene
from tests.secrecy import files_below, files_with, process_arguments
from tests.spark_cluster import standalone
from tests.streams import Cluster
from tests.waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.real, pytest.mark.shared]

TOPIC, COPIES = "orders", "copies"
SECRET, KEY_SECRET, FILES_SECRET = "correct-horse-7f3a", "battery-staple-9c1d", "purple-monkey-40de"
ANN, CLIENT = "ann", "CN=client"
BEFORE, AFTER, SINK, LATER = 400, 700, 800, 900


@dataclass(frozen=True)
class PlayedScene:
    """What happened, and who can change what is allowed."""

    scene: Scene
    said: Said
    sums: Mapping[str, tuple[int, int]]
    west: Guarded
    certificate: Path
    """Our own, for east."""
    arguments: str = field(repr=False)
    """Of every process of this machine while the query ran on west."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedScene]:
    """The queries have read on east, were moved to west, and have read there."""
    folder = tmp_path_factory.mktemp("standalone")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name, word in (("password", SECRET), ("key-password", KEY_SECRET), ("files-key", FILES_SECRET)):
        (elsewhere / name).write_text(f"{word}\n", encoding="utf-8")
    files = make_certificates(elsewhere / "tls", KEY_SECRET)
    events = folder / "events"
    events.mkdir()
    east, west = CLUSTERS
    with ExitStack() as running:
        parts = (
            behind_tls(tmp_path_factory.mktemp("east"), files),
            behind_scram(tmp_path_factory.mktemp("west"), files, {ANN: SECRET}),
            standalone(folder / "spark"),
        )
        with ThreadPoolExecutor() as pool:
            tls, scram, spark = (pool.submit(running.enter_context, each) for each in parts)
        brokers: dict[str, Any] = {east: tls.result(), west: scram.result()}
        master = spark.result()
        clusters = {name: Cluster(each.address, security=dict(each.security)) for name, each in brokers.items()}
        url = f"sqlite:///{folder / 'tideover.db'}"
        store = running.enter_context(_closing(url))
        settings = {
            "store": url,
            "clusters": {
                east: {
                    "bootstrap": [brokers[east].address],
                    "security": {
                        "protocol": "SSL",
                        "ca": str(files / "ca.pem"),
                        "cert": str(files / "client.pem"),
                        "key": str(files / "client.key"),
                        "key_password": f"file:{elsewhere / 'key-password'}",
                    },
                },
                west: {
                    "bootstrap": [brokers[west].address],
                    "security": {
                        "protocol": "SASL_SSL",
                        "ca": str(files / "ca.pem"),
                        "sasl": {
                            "mechanism": "SCRAM-SHA-512",
                            "username": ANN,
                            "password": f"file:{elsewhere / 'password'}",
                        },
                    },
                },
            },
            "routes": [{"from": east, "to": west}, {"from": west, "to": east}],
            "policy": {"automatic": True},
            "detection": {"timeout": "5s"},  # a busy machine is no dead cluster
            "runners": {"a": {}},
            "spark": {
                "master": master,
                "conf": {
                    "spark.sql.shuffle.partitions": 1,
                    "spark.executor.memory": "700m",
                    "spark.hadoop.fs.x.secret.key": f"file:{elsewhere / 'files-key'}",
                    "spark.eventLog.enabled": True,
                    "spark.eventLog.compress": False,
                    "spark.eventLog.dir": events.as_uri(),
                },
            },
            "queries": {
                "sums": {
                    "pipeline": "tests.real.pipelines:sums_by_batch",
                    "settings": {"sink": str(folder / "sums")},
                    "sources": {"orders": {"topics": [TOPIC]}},
                    "clusters": list(CLUSTERS),
                    "runners": ["a"],
                    "checkpoint": str(folder / "checkpoint"),
                    "trigger": "200ms",
                    "sink": "batch-id",
                },
                "copies": {
                    "pipeline": "tests.real.pipelines:copies",
                    "sources": {"orders": {"topics": [TOPIC]}},
                    "clusters": list(CLUSTERS),
                    "runners": ["a"],
                    "checkpoint": str(folder / "copies"),
                    "trigger": "200ms",
                    "output": {"cluster": west, "topic": COPIES},
                },
            },
        }
        scene = Scene(folder, store, settings, clusters)
        running.callback(scene.close)
        scene.make(TOPIC)
        clusters[west].make(COPIES, foreign=False)
        for name, user in ((east, CLIENT), (west, ANN)):
            brokers[name].allow(user, TOPIC, *documented("runner", "topics"))
        brokers[west].allow(ANN, COPIES, *documented("runner", "topic of"))
        scene.extend(TOPIC, BEFORE)
        scene.run()
        scene.until("the queries read on east", lambda: count(scene) == BEFORE and copied(clusters[west]) == BEFORE)
        said = scene.failover("--all", west).end()
        scene.extend(TOPIC, AFTER)
        scene.until(
            "the queries read on west",
            lambda: said.code or (count(scene) >= AFTER and copied(clusters[west]) >= AFTER),
        )
        sums = kept_sums(folder / "sums")
        yield PlayedScene(scene, said, sums, brokers[west], files / "client.pem", process_arguments())


@contextmanager
def controlled(scene: Scene) -> Iterator[None]:
    """A controller of the test's own: it knows of no connection that was good before."""
    controller = scene.control()
    try:
        yield
    finally:
        controller.stop()


def test_a_query_keeps_its_checkpoint_when_it_moves_on_a_standalone_cluster(played: PlayedScene) -> None:
    """From a cluster behind TLS to one behind passwords; its tasks and its state are on executors elsewhere."""
    scene, said = played.scene, played.said
    assert said.code == 0, said.err
    assert {operation["plan"]["resume"] for operation in said.operations.values()} == {"switch"}
    assert {Path(row.checkpoint).parent for row in scene.store.assignments()} == {scene.folder}
    runner = scene.store.runners()[0]
    assert runner.spark_master.startswith("spark://")
    assert runner.application_id, "the executors were the master's"
    assert {(fact.query, fact.cluster, fact.epoch) for fact in scene.store.query_facts()} == {
        ("sums", "west", 2),
        ("copies", "west", 2),
    }
    assert played.sums == sums_of(AFTER)


def test_a_secret_given_by_reference_is_written_nowhere(played: PlayedScene) -> None:
    """Neither by us (store, checkpoint, logs, arguments, what a verb says) nor by Spark's executors."""
    scene, said = played.scene, played.said
    shown = scene.type("config", "show").end()
    assert shown.code == 0, shown.err
    assert "spark://" in played.arguments, "the arguments of Spark's processes are among them"
    key = (Path(scene.settings["clusters"]["east"]["security"]["key"])).read_text(encoding="ascii").splitlines()[1]
    looked_at = files_below(scene.folder)
    assert any("stderr" in path.name for path in looked_at), "the executors' logs are among them"
    assert any("offsets" in path.parts for path in looked_at), "and the checkpoints"
    events = [path.read_bytes() for path in looked_at if "events" in path.parts]
    assert any(b"spark.hadoop.fs.x.secret.key" in each for each in events), "and Spark's own log of its settings"
    for secret in (SECRET, KEY_SECRET, FILES_SECRET, key):
        assert secret not in said.out + said.err + shown.out + shown.err + played.arguments
        assert files_with(secret, looked_at) == []


def test_an_expired_certificate_is_in_the_verdict_until_it_is_renewed(played: PlayedScene) -> None:
    scene, certificate = played.scene, played.certificate
    good = certificate.read_bytes()
    shutil.copy(certificate.with_name("expired.pem"), certificate)
    with controlled(scene):
        try:
            expired = (
                "the broker refuses our own certificate (security.cert), or misses it: name one that has not expired"
            )
            scene.until("the verdict says so", lambda: expired in verdict_on(scene, "east"))
            assert verdict_on(scene, "east").startswith("east is CONFIG_ERROR: ")
        finally:
            certificate.write_bytes(good)
        scene.until("east is well", lambda: verdict_on(scene, "east").startswith("east is UP"))


def test_a_revoked_acl_is_named_everywhere_until_it_is_given_back(played: PlayedScene) -> None:
    scene, west = played.scene, played.west
    with controlled(scene):
        scene.until("west is looked at", lambda: verdict_on(scene, "west").startswith("west is UP"))
        assert {row["automatic"] for row in requested(scene, "list")} == {"on"}, "or nothing would be moved anyway"
        before = scene.operations("sums")[0].id
        west.revoke(ANN, COPIES, "Write")
        scene.extend(TOPIC, SINK)
        try:
            words = (f"topic {COPIES}: ", "a sink Write")
            scene.until("the sink's query says it", lambda: all(map(failure_of(scene, "copies").__contains__, words)))
        finally:
            west.allow(ANN, COPIES, "Write")
        scene.until("the sink has them", lambda: copied(scene.clusters["west"]) >= SINK)
        west.revoke(ANN, TOPIC, "DescribeConfigs")
        try:
            reported = times_of(scene, "sums")
            assert reported["measured"] == "unknown"
            begin = f"cannot determine whether {TOPIC} on west uses CreateTime or LogAppendTime: "
            assert reported["text"].startswith(begin)
        finally:
            west.allow(ANN, TOPIC, "DescribeConfigs")
        assert times_of(scene, "sums")["text"] == "times are comparable"
        west.revoke(ANN, TOPIC, "Read")
        scene.extend(TOPIC, LATER)
        try:
            scene.until("the query says what is missing", lambda: "a source needs Read" in failure_of(scene, "sums"))
            missing = f"our user has no ACL that allows Describe on topic {TOPIC}"
            scene.until("the verdict says so, too", lambda: missing in verdict_on(scene, "west"))
            assert verdict_on(scene, "west").startswith("west is CONFIG_ERROR: ")
            looked = scene.type("offsets", "--cluster", "west", "--topic", TOPIC, "--latest").end()
            assert looked.code == 2
            assert missing in looked.out + looked.err
        finally:
            west.allow(ANN, TOPIC, "Read")
        scene.until("the query goes on", lambda: count(scene) >= LATER)
        scene.until("west is well", lambda: verdict_on(scene, "west").startswith("west is UP"))
        assert scene.operations("sums")[0].id == before, "nothing was moved because of it"
        assert kept_sums(scene.folder / "sums") == sums_of(LATER)


def copied(cluster: Cluster) -> int:
    """Records in the topic that the other query writes."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "x", "log_level": 0, **cluster.security})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(COPIES, each), PROCESS_SECONDS)[1] for each in range(2)
        )
    finally:
        consumer.close()


def failure_of(scene: Scene, query: str) -> str:
    return next((fact.error or "" for fact in scene.store.query_facts() if fact.query == query), "")


def requested(scene: Scene, *verb: str) -> list[dict[str, Any]]:
    """What a verb says to a program."""
    said = scene.type(*verb, "-o", "json").end()
    rows: list[dict[str, Any]] = json.loads(said.out)
    return rows


def times_of(scene: Scene, query: str) -> dict[str, Any]:
    """What ``check`` says of the times by which a query might be placed."""
    (row,) = requested(scene, "check", query)
    gate: dict[str, Any] = next(each for each in row["gates"] if each["name"] == "time-comparable")
    return gate


def verdict_on(scene: Scene, cluster: str) -> str:
    """The last verdict on a cluster that the history has."""
    texts = [event.text for event in scene.store.history(limit=1000) if event.kind == "verdict"]
    return next((text for text in reversed(texts) if text.startswith(f"{cluster} is ")), "")


def count(scene: Scene) -> int:
    """Records that the sink's sums stand for."""
    return sum(count for count, _ in kept_sums(scene.folder / "sums").values())


@contextmanager
def _closing(url: str) -> Iterator[ControllerStore]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
