"""An application with nothing of Tideover's in it, moved by its own commands: plain ``spark-submit``, and no jar.

One of its queries has its checkpoint on a local disk, the other one on a store of the S3 protocol.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from lab import faults
from lab.world import CLUSTERS, TOPIC, World
from streaming.jars import jar_paths
from tests.applications import COMMANDS
from tests.object_store import ObjectStore, keys, running_store
from tests.scene import Driver, Said, Typed
from tests.streams import Cluster
from tests.waiting import until
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.timeout(1800), pytest.mark.jars("s3a")]
SECONDS = 300.0
MOVED = ("--yes", "--reason", "test", "--timeout", "300")
ROOT = Path(__file__).resolve().parents[2]
QUERIES = ("totals", "rests")
JOB_PYTHON = os.environ.get("TIDEOVER_JOB_PYTHON", sys.executable)
"""Of the application: another Spark than the runner's is tried by that of ``.venv-spark-3.5.7``."""


def spark_of(python: str) -> list[str]:
    """Version and folder of its pyspark."""
    line = "import pyspark, pathlib; print(pyspark.__version__, pathlib.Path(pyspark.__file__).parent)"
    return subprocess.run([python, "-c", line], check=True, capture_output=True, text=True).stdout.split()


@dataclass
class Service:
    """The application, its commands, and the runner that tends it."""

    world: World
    folder: Path
    clusters: dict[str, Cluster]
    objects: ObjectStore
    """Where the checkpoint of the second query is; that of the first one is on a local disk."""
    tenders: list[Driver] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "tideover.yaml"

    @property
    def checkpoints(self) -> dict[str, str]:
        return {"totals": str(self.folder / "checkpoint"), "rests": f"{self.objects.url}/rests"}

    def checkpoint(self, query: str) -> Path:
        """Where its files are on this host; the store keeps an object a file."""
        return {"totals": self.folder / "checkpoint", "rests": self.objects.folder / "rests"}[query]

    @property
    def written(self) -> int:
        """How many orders there are on any cluster."""
        return max(each.ends[TOPIC] for each in self.clusters.values())

    def configure(self) -> None:
        """Its queries, and its commands."""
        app = self.folder / "app"
        version, home = spark_of(JOB_PYTHON)
        sets = [f"{kind}-{version}" for kind in ("spark", "s3a")]
        jars = ",".join(str(jar) for name in sets for jar in jar_paths(name))
        settings = {
            "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.host": "127.0.0.1",
            "spark.jars": jars, **self.objects.spark_conf(),
        }  # fmt: skip
        (self.folder / "spark.conf").write_text("".join(f"{key} {text}\n" for key, text in settings.items()))
        submit = f"env PYSPARK_PYTHON={JOB_PYTHON} {home}/bin/spark-submit --master local[2]"
        job = ROOT / "tests" / "real" / "external_job.py"
        checkpoints = " ".join(self.checkpoints.values())
        app.write_text(
            COMMANDS.format(submit=f"{submit} --properties-file spark.conf", job=job, checkpoints=checkpoints),
            encoding="utf-8",
        )
        app.chmod(0o755)
        commands = {
            "start": ["./app", "start", "{bootstrap}"], "stop": ["./app", "stop"], "status": ["./app", "status"],
        }  # fmt: skip
        query = {
            "application": "shop", "sources": {"orders": {"topics": [TOPIC]}}, "clusters": list(CLUSTERS),
            "runners": ["tender"],
        }  # fmt: skip
        known = {
            "store": f"sqlite:///{self.folder / 'tideover.db'}",
            "clusters": {name: {"bootstrap": list(self.world.bootstrap(name))} for name in CLUSTERS},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "spark": {
                "master": "local[1]",
                "conf": {"spark.driver.host": "127.0.0.1", **keys(self.objects, self.folder)},
            },
            "runners": {"tender": {"site": "one"}},
            "applications": {"shop": commands},
            "queries": {name: {**query, "checkpoint": self.checkpoints[name]} for name in QUERIES},
        }
        self.config.write_text(yaml.safe_dump(known, sort_keys=False), encoding="utf-8")

    def more(self, *names: str) -> None:
        """Write the next orders to the clusters named, or to both."""
        end = self.written + 100
        for name in names or CLUSTERS:
            self.clusters[name].extend(TOPIC, end)

    def type(self, *words: str, read: str = "") -> Said:
        """A verb, waited for; ``read``: the cluster to which records come then: a move is over with its first batch."""
        typed = Typed(self.config, words)
        if read:
            self.more(read)
        return typed.end(2 * SECONDS)

    def tend(self) -> None:
        """Start the runner."""
        self.tenders.append(Driver(self.config, "tender"))

    def await_exact(self, what: str) -> None:
        """Wait until each query has counted each order once."""
        wanted = [[self.written, sum(range(self.written))]] * len(QUERIES)
        try:
            until(lambda: self.counted() == wanted, what, seconds=SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.counted()} of {wanted}\n{self.output()}") from None

    def output(self) -> str:
        """The ends of both logs, for a test that has failed."""
        log = self.folder / "job.log"
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return f"{self.tenders[-1].log()[-3000:]}\n{said[-4000:]}"

    def counted(self) -> list[list[int]]:
        """Of each query, orders and the sum of their ids."""
        return [self._counted(self.folder / f"{name}.json") for name in QUERIES]

    def _counted(self, path: Path) -> list[int]:
        totals = json.loads(path.read_text(encoding="ascii")).values() if path.exists() else []
        return [sum(count for count, _ in totals), sum(ids for _, ids in totals)]

    def could_move(self, target: str) -> bool:
        """Whether each partition of each query would continue at its exact record."""
        plans = self.type("plan", "failover", "totals", "--to", target, "-o", "json")
        if plans.code != 0:
            return False
        found = [plan["partitions"] for plan in json.loads(plans.out)]
        assert len(found) == len(QUERIES)
        return all(found) and all(each["method"] == "exact" for partitions in found for each in partitions)

    def starts(self) -> list[str]:
        """With which servers the application was started."""
        return (self.folder / "started").read_text(encoding="ascii").split()

    def query_ids(self) -> list[str]:
        texts = [(self.checkpoint(name) / "metadata").read_text(encoding="ascii") for name in QUERIES]
        return [str(json.loads(text)["id"]) for text in texts]

    def is_marked(self, name: str) -> bool:
        """Whether plain Spark would refuse an offset log."""
        return any("@west" in path.read_text() for path in (self.checkpoint(name) / "offsets").glob("[0-9]*"))

    def stop_application(self) -> None:
        """By its own command, waited for."""
        command = self.folder / "app"
        subprocess.run([command, "stop"], check=False)
        until(lambda: subprocess.run([command, "status"], check=False, stdout=subprocess.DEVNULL).returncode == 3)

    def kill(self) -> None:
        """All of it."""
        for tender in self.tenders:
            if tender.process.poll() is None:
                tender.die()
        os.system(f"{self.folder}/app stop 2>/dev/null")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "job").mkdir()
    with running_store(tmp_path / "objects") as objects, running_clusters(tmp_path / "world") as world:
        clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        made = Service(world, tmp_path / "job", clusters, objects)
        for name, cluster in made.clusters.items():
            cluster.make(TOPIC, foreign=name != CLUSTERS[0])
        made.more()
        made.configure()
        try:
            yield made
        finally:
            made.kill()


def test_an_application_of_two_queries_is_moved_and_moved_back(service: Service) -> None:
    """The cluster dies, and both queries continue on the other one with their state; later they go back. One query is
    named, and both move: each time the application is started once."""
    east, west = (",".join(service.world.bootstrap(name)) for name in CLUSTERS)
    service.tend()
    service.await_exact("all is counted on east")
    first = service.query_ids()
    until(lambda: service.could_move("west"), "it could be moved", seconds=SECONDS)
    faults.kill(service.world, "east", print)
    moved = service.type("failover", "totals", "--to", "west", *MOVED, read="west")
    assert moved.code == 0, moved.err + service.output()
    service.await_exact("each order once on west")
    assert service.starts() == [east, west]
    assert (service.query_ids(), [service.is_marked(name) for name in QUERIES]) == (first, [False, False])
    pid = (service.folder / "pid").read_text()
    service.tenders[-1].die()
    running = service.type("release", "totals", "--yes")
    assert (running.code, "it runs, as its status says" in running.err) == (1, True), running.err
    faults.start(service.world, "east", print)
    service.more()
    service.await_exact("it reads on without its runner")
    service.tend()
    until(lambda: "query joined" in service.tenders[-1].log(), "the next runner joins it", seconds=SECONDS)
    until(lambda: service.could_move("east"), "it could be moved back", seconds=SECONDS)
    back = service.type("switchover", "rests", "--to", "east", "--consent", "replication", *MOVED, read="east")
    assert back.code == 0, back.err + service.output()
    service.await_exact("each order once on east again")
    assert service.starts() == [east, west, east]
    assert (service.query_ids(), (service.folder / "pid").read_text() != pid) == (first, True)
    subprocess.run([service.folder / "app", "restart", east], check=True)  # by its scheduler, at once
    until(
        lambda: "and Tideover did not start it on east" in service.tenders[-1].log(), "it is noticed", seconds=SECONDS
    )
    assert "was started again, and not by Tideover" in service.tenders[-1].log()
    release(service, east)


def release(service: Service, servers: str) -> None:
    """Plain Spark continues both queries; an object store is reached by a Spark that the command starts."""
    service.tenders[-1].stop()
    service.stop_application()
    first = service.query_ids()
    for name in QUERIES:
        shown = service.type("release", name, "--dry-run", "-o", "json")
        assert (shown.code, json.loads(shown.out)["released"]) == (0, False), shown.err
        done = service.type("release", name, "--yes", "-o", "json")
        assert done.code == 0, done.out + done.err
        assert json.loads(done.out)["cluster"] == "east"
        assert not (service.checkpoint(name) / "_tideover_mappings").exists()
    subprocess.run([service.folder / "app", "start", servers], check=True)
    service.more()
    service.await_exact("each order once without Tideover")
    assert (service.query_ids(), [service.is_marked(name) for name in QUERIES]) == (first, [False, False])
