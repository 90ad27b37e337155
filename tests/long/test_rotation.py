"""Certificates and passwords are changed under a running query, its runner and a controller; none is started again.

East wants a client's certificate and closes a connection that is idle for two seconds, so that the query, which reads
every five, connects again for each batch. West wants a password, and wants it again every three seconds.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.world import CLUSTERS
from state.model.entities import Assignment
from state.store.sql.migrate import open_store
from tests.certificates import make_certificates, make_short_lived
from tests.guarded import Guarded, behind_scram, behind_tls, documented
from tests.real.pipelines import kept_sums, sums_of
from tests.scene import Scene
from tests.streams import SHIFT, Cluster

pytestmark = pytest.mark.long

TOPIC, QUERY, ANN, CLIENT = "orders", "sums", "ann", "CN=client"
FIRST, SECOND, THIRD = "correct-horse-7f3a", "battery-staple-9c1d", "paper-clip-41e8"
LIFE_SECONDS = 120.0
"""Of the certificate with which everything starts: brokers, a runner and a query have to be up before it ends."""


@dataclass(frozen=True)
class Play:
    """A scene with what the operator changes in it."""

    scene: Scene
    west: Guarded
    certificate: Path
    renewed: Path
    password: Path
    expires_at: float

    @property
    def log(self) -> str:
        """What the runner has said."""
        return self.scene.drivers["a"].log()

    @property
    def starts(self) -> int:
        return self.log.count("query started")

    def row(self) -> Assignment:
        row = self.scene.store.assignment(QUERY)
        assert row is not None
        return row

    def count(self) -> int:
        return sum(count for count, _ in kept_sums(self.scene.folder / QUERY).values())

    def tracked(self) -> int:
        """Records of ours before the newest positions of the store that remember their records."""
        cluster = self.row().cluster
        newest = {each.partition: each.offset for each in self.scene.store.positions(QUERY) if each.ring}
        return sum(newest.values()) - (0 if cluster == CLUSTERS[0] else sum(SHIFT.values()))

    def reads(self, end: int) -> None:
        """New records arrive, are read, and are remembered with what was in them."""
        self.scene.extend(TOPIC, end)
        self.scene.until(f"{end} are read", lambda: self.count() >= end)
        self.scene.until(f"{end} are tracked", lambda: self.tracked() == end)

    def verdicts(self, cluster: str) -> list[str]:
        """All that the controller believed of a cluster once it had looked, in order."""
        texts = [event.text.partition(":")[0] for event in self.scene.store.history(limit=1000)]
        found = [text.split()[2] for text in texts if text.startswith(f"{cluster} is ")]
        return [verdict for verdict in found if verdict != "UNKNOWN"]

    def believes(self, cluster: str, verdict: str) -> None:
        self.scene.until(f"{cluster} is {verdict}", lambda: self.verdicts(cluster)[-1:] == [verdict])


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """A query reads on east, and a controller has seen both clusters."""
    folder, elsewhere = tmp_path / "scene", tmp_path / "elsewhere"
    elsewhere.mkdir()
    files = make_certificates(elsewhere / "tls", FIRST)
    password, key_password = elsewhere / "password", elsewhere / "key-password"
    for path in (password, key_password):
        path.write_text(f"{FIRST}\n", encoding="utf-8")
    east, west = CLUSTERS
    with ExitStack() as running:
        users = {ANN: FIRST}
        guarded = {
            east: running.enter_context(behind_tls(tmp_path / east, files, connections_max_idle_ms="2000")),
            west: running.enter_context(behind_scram(tmp_path / west, files, users, connections_max_reauth_ms="3000")),
        }
        clusters = {name: Cluster(each.address, security=dict(each.security)) for name, each in guarded.items()}
        url = f"sqlite:///{tmp_path / 'tideover.db'}"
        store = running.enter_context(closing(open_store(url)))
        certificate = elsewhere / "tideover.pem"
        expires_at = time.time() + LIFE_SECONDS
        make_short_lived(files, LIFE_SECONDS).replace(certificate)
        tls = {"protocol": "SSL", "ca": str(files / "ca.pem"), "cert": str(certificate),
               "key": str(files / "client.key"), "key_password": f"file:{key_password}"}  # fmt: skip
        sasl = {"mechanism": "SCRAM-SHA-512", "username": ANN, "password": f"file:{password}"}
        scram = {"protocol": "SASL_SSL", "ca": str(files / "ca.pem"), "sasl": sasl}
        settings = {
            "store": url,
            "clusters": {
                name: {"bootstrap": [guarded[name].address], "security": security}
                for name, security in ((east, tls), (west, scram))
            },
            "routes": [{"from": east, "to": west}],
            "runners": {"a": {}},
            "spark": {"master": "local[8]", "conf": {"spark.sql.shuffle.partitions": 1}},
            "queries": {
                QUERY: {
                    "pipeline": "tests.real.pipelines:sums_by_batch",
                    "settings": {"sink": str(folder / QUERY)},
                    "sources": {"orders": {"topics": [TOPIC]}},
                    "clusters": list(CLUSTERS),
                    "runners": ["a"],
                    "checkpoint": str(folder / "checkpoint"),
                    "trigger": "5s",
                    "sink": "batch-id",
                }
            },
        }
        scene = Scene(folder, store, settings, clusters)
        running.callback(scene.close)
        scene.make(TOPIC)
        for name, user in ((east, CLIENT), (west, ANN)):
            guarded[name].allow(user, TOPIC, *documented("runner", "topics"))
        scene.run()
        scene.control()
        played = Play(scene, guarded[west], certificate, files / "client.pem", password, expires_at)
        played.reads(100)
        for name in CLUSTERS:
            played.believes(name, "UP")
        yield played


def test_rotated_credentials_count_under_a_running_query_without_restart(play: Play) -> None:
    east, west = CLUSTERS
    runner = play.scene.drivers["a"].process.pid
    assert time.time() < play.expires_at, "the certificate has to outlive the start of everything"
    assert (play.starts, play.verdicts(east)) == (1, ["UP"])

    # -- a certificate is renewed in time, and the old one expires
    play.renewed.replace(play.certificate)
    play.reads(200)
    assert play.starts == 1, "a query that runs is not disturbed"
    time.sleep(max(0.0, play.expires_at + 1.0 - time.time()))
    play.reads(300)
    assert "the broker refuses our own certificate" in play.log
    assert play.starts == 2, "the query could not connect again with what it was started with"
    assert play.verdicts(east) == ["UP"], "looks have taken the new certificate"

    # -- the standby's password is changed, on the broker first
    play.west.set_password(ANN, SECOND)
    play.believes(west, "CONFIG_ERROR")
    _write(play.password, SECOND)
    play.believes(west, "UP")
    said = play.scene.failover(QUERY, west).end()
    assert said.code == 0, said.err
    play.reads(400)
    assert (play.row().cluster, play.row().epoch, play.starts) == (west, 2, 3)

    # -- and again, under the query that runs there
    play.west.set_password(ANN, THIRD)
    play.scene.until("the query is refused", lambda: "not those of the cluster" in _error(play))
    play.believes(west, "CONFIG_ERROR")
    _write(play.password, THIRD)
    play.reads(500)
    play.believes(west, "UP")

    assert set(play.verdicts(west)) - {"SUSPECT"} == {"UP", "CONFIG_ERROR"}, "on the way back it may be in doubt"
    assert play.verdicts(east) == ["UP"]
    assert (play.row().epoch, play.scene.drivers["a"].process.pid) == (2, runner)
    assert play.log.count("runner is up") == 1
    assert kept_sums(play.scene.folder / QUERY) == sums_of(500)


def _write(path: Path, secret: str) -> None:
    """As the documents say: beside it, and renamed."""
    new = path.with_suffix(".new")
    new.write_text(f"{secret}\n", encoding="utf-8")
    new.replace(path)


def _error(play: Play) -> str:
    return next((fact.error or "" for fact in play.scene.store.query_facts() if fact.query == QUERY), "")
