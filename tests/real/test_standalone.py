"""A runner on a Spark standalone cluster, and a standby behind TLS and SASL: a query runs, and is carried there."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest

from lab.world import CLUSTERS
from state.sql.migrate import open_store
from streaming.jars import java_home_binary
from tests.broker import running_broker
from tests.certificates import make_certificates
from tests.ports import free_base_port
from tests.real.pipelines import kept_sums
from tests.scene import Said, Scene
from tests.streams import Cluster

pytestmark = pytest.mark.real

TOPIC = "orders"
SECRET = "correct-horse-7f3a"
BEFORE, AFTER = 400, 700


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Said]]:
    """The query has read on east, was moved to west, and has read there."""
    folder = tmp_path_factory.mktemp("standalone")
    secret = tmp_path_factory.mktemp("elsewhere") / "password"
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    files = make_certificates(tmp_path_factory.mktemp("tls"), SECRET)
    east, west = CLUSTERS
    with ExitStack() as running:
        plain = Cluster(running.enter_context(running_broker(tmp_path_factory.mktemp("east"))))
        address = running.enter_context(running_broker(tmp_path_factory.mktemp("west"), settings=secured(files)))
        security = {
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(files / "ca.pem"),
            "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": SECRET,
        }  # fmt: skip
        closed = Cluster(address, security=security)
        master = running.enter_context(standalone(folder / "spark"))
        url = f"sqlite:///{folder / 'tideover.db'}"
        store = running.enter_context(_closing(url))
        settings = {
            "store": url,
            "clusters": {
                east: {"bootstrap": [plain.bootstrap]},
                west: {
                    "bootstrap": [closed.bootstrap],
                    "security": {
                        "protocol": "SASL_SSL",
                        "ca": str(files / "ca.pem"),
                        "sasl": {"mechanism": "PLAIN", "username": "ann", "password": f"file:{secret}"},
                    },
                },
            },
            "routes": [{"from": east, "to": west}],
            "runners": {"a": {}},
            "spark": {"master": master, "conf": {"spark.sql.shuffle.partitions": 1, "spark.executor.memory": "700m"}},
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
                }
            },
        }
        scene = Scene(folder, store, settings, {east: plain, west: closed})
        running.callback(scene.close)
        scene.make(TOPIC)
        scene.extend(TOPIC, BEFORE)
        scene.run()
        scene.until("the query reads on east", lambda: count(scene) == BEFORE)
        said = scene.failover("sums", west).end()
        scene.extend(TOPIC, AFTER)
        scene.until("the query reads on west", lambda: count(scene) >= AFTER or said.code)
        yield scene, said


def test_a_query_is_carried_on_a_standalone_cluster(story: tuple[Scene, Said]) -> None:
    scene, said = story
    assert said.code == 0, said.err
    runner = scene.store.runners()[0]
    assert runner.spark_master.startswith("spark://")
    assert runner.application_id, "the executors were the master's"
    fact = scene.store.query_facts()[0]
    assert (fact.cluster, fact.epoch) == ("west", 2)
    ours = [range(key, AFTER, 3) for key in range(3)]
    assert kept_sums(scene.folder / "sums") == {f"k{key}": (len(ids), sum(ids)) for key, ids in enumerate(ours)}


def test_a_secret_given_by_reference_is_written_nowhere(story: tuple[Scene, Said]) -> None:
    """Neither by us (store, checkpoint, logs of the runner, what a verb says) nor by Spark's executors."""
    scene, said = story
    assert SECRET not in said.out + said.err
    shown = scene.type("config", "show").end()
    assert shown.code == 0, shown.err
    assert SECRET not in shown.out + shown.err
    looked_at = [path for path in scene.folder.rglob("*") if path.is_file()]
    assert any("stderr" in path.name for path in looked_at), "the executors' logs are among them"
    assert [str(path) for path in looked_at if SECRET.encode() in path.read_bytes()] == []


def secured(files: Path) -> dict[str, str]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{login} username="broker" password="b" user_broker="b" user_ann="{SECRET}";'
        ),
    }


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and one worker of many slots, from pyspark's own jars; yields the master's address."""
    folder.mkdir()
    base = free_base_port()
    port, page, worker_page = base, base + 1, base + 2
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with (
        spark_class(folder, "master", [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port),
                                       "--webui-port", str(page)]),
        spark_class(folder, "worker", [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "8", "--memory",
                                       "2g", "--work-dir", str(folder / "work"), "--webui-port", str(worker_page),
                                       address]),
    ):  # fmt: skip
        deadline = time.monotonic() + 60
        while not has_worker(f"http://127.0.0.1:{page}/json/"):
            assert time.monotonic() < deadline, (folder / "master.log").read_text()[-2000:]
            time.sleep(0.1)
        yield address


@contextmanager
def spark_class(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), *arguments]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java_home_binary().resolve().parent.parent),
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def has_worker(page: str) -> bool:
    try:
        with urlopen(page, timeout=2) as answer:
            return b'"aliveworkers" : 1' in answer.read()
    except (URLError, OSError):
        return False


def count(scene: Scene) -> int:
    """Records that the sink's sums stand for."""
    return sum(count for count, _ in kept_sums(scene.folder / "sums").values())


@contextmanager
def _closing(url: str) -> Iterator[object]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
