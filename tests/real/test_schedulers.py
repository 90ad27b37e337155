"""The scheduler of an application stays in charge: a stopped run ends with 75, and only a finished job with 0.

The same scenario under a loop of the shell, as cron and systemd restart what failed, and under Airflow where it is
installed (its own machinery for tries, ``airflow dags test``). No scheduler knows anything of Tideover.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from lab import faults
from lab.world import CLUSTERS, TOPIC
from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths
from tests.applications import SECONDS, Application
from tests.real.test_attached import Sites
from tests.scene import Typed
from tests.streams import Cluster
from tests.waiting import until
from tests.world import ROOT, running_clusters

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.timeout(1800)]
AIRFLOW = shutil.which("airflow")
JOB = Path(__file__).parent / "slow_job.py"
CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with running_clusters(tmp_path_factory.mktemp("sites")) as world:
        made = Sites(world, {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS})
        for name, cluster in made.clusters.items():
            cluster.make(TOPIC, foreign=name != CLUSTERS[0])
        made.more()
        yield made


class Scheduled:
    """A job and what starts it, as one process with one log."""

    def __init__(self, application: Application, command: list[str], more: Mapping[str, str]) -> None:
        python, home = Path(sys.executable), Path(pyspark.__file__).parent
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "PATH": f"{python.parent}:{home / 'bin'}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(python),
            "SPARK_HOME": str(home),
        }
        self._file = application.folder / "scheduler.log"
        with self._file.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env={**environment, **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=application.folder,
            )
        application.jobs = [self.process]  # killed with its process group

    def log(self) -> str:
        return self._file.read_text(encoding="utf-8", errors="replace")

    def await_log(self, words: str) -> None:
        self.until(lambda: words in self.log(), f"the log has: {words}")

    def until(self, holds: Callable[[], object], what: str) -> None:
        try:
            until(lambda: holds() or self.process.poll() is not None, what, seconds=SECONDS)
            assert holds(), f"ended with {self.process.returncode} before {what}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-6000:]}") from None


def jars() -> str:
    return ",".join(map(str, (*jar_paths(f"spark-{pyspark.__version__}"), companion_jar())))


def by_a_loop(application: Application) -> Scheduled:
    """As systemd's ``Restart=on-failure`` and the next run of cron: again, until it ends with 0."""
    loop = 'until "$@"; do echo "ended with $?"; sleep 1; done; echo "ended with 0"'
    submit = [sys.executable, "-m", "orchestrator", "-c", str(application.config), "submit", "--", "spark-submit"]
    options = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    job = [str(JOB), application.bootstrap, str(application.out)]
    command = ["bash", "-c", loop, "loop", *submit, "--master", "local[2]", "--jars", jars(), *options, *job]
    return Scheduled(application, command, {"PYTHONPATH": str(ROOT)})


def by_airflow(application: Application) -> Scheduled:
    """``conf/airflow/shop.py``, unchanged, in a database of its own."""
    assert AIRFLOW is not None
    shop = {
        "JOB": str(JOB), "SERVERS": application.bootstrap, "FOLDER": str(application.out), "JARS": jars(),
        "CONFIG": str(application.config), "CONF": json.dumps(CONF), "RETRY_SECONDS": "1",
    }  # fmt: skip
    more = {f"SHOP_{name}": value for name, value in shop.items()} | {
        "AIRFLOW_HOME": str(application.folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "conf" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    command = ["bash", "-c", '"$1" db migrate && exec "$1" dags test shop', "airflow", AIRFLOW]
    return Scheduled(application, command, more)


NOT_HERE = pytest.mark.skipif(AIRFLOW is None, reason="no airflow on the path: it is no part of Tideover")


@pytest.mark.parametrize(
    ("start", "codes"),
    [
        pytest.param(by_a_loop, ("ended with 75", "ended with 0"), id="loop"),
        pytest.param(by_airflow, ("Error code is: 75.", ", state=success,"), id="airflow", marks=NOT_HERE),
    ],
)
def test_a_run_stopped_for_a_move_is_started_again_and_reads_the_standby(
    sites: Sites, tmp_path: Path, start: Callable[[Application], Scheduled], codes: tuple[str, str]
) -> None:
    """Its batch does not end in time, so it cannot change its cluster in the run."""
    slow = sites.application(tmp_path, "slow", script=JOB, queries={"slow": {"sink": "keyed"}})
    job = start(slow)
    wait = slow.out / "wait"
    try:
        job.until(lambda: written(slow) == list(range(sites.end)), "all is read")
        job.until(lambda: slow.type("check").code == 0, "the query could be moved")
        wait.touch()
        sites.more()
        job.until((slow.out / "waits").exists, "a batch waits")
        faults.kill(sites.world, "east", print)
        moving = Typed(slow.config, ("failover", "slow", "--to", "west", "--yes", "--reason", "test"))
        job.await_log("slow was stopped on east because it is moved from there. This run ends with exit code 75")
        wait.unlink()
        job.await_log(codes[0])
        sites.more("west")
        moved = moving.end(SECONDS)
        assert moved.code == 0, moved.out + moved.err
        job.until(lambda: written(slow) == list(range(sites.end)), "every order once, by the second start")
        assert "slow reads source orders on west" in job.log()
        (slow.out / "end").touch()
        assert job.process.wait(SECONDS) == 0
        assert job.log().count("This run ends with exit code 75") == job.log().count(codes[1]) == 1
        assert "ended with 1" not in job.log()
    finally:
        wait.unlink(missing_ok=True)
        slow.kill()
        faults.start(sites.world, "east", print)
        sites.clusters["east"].extend(TOPIC, sites.end)


def written(application: Application) -> list[int]:
    """The ids in all batches, repeats included."""
    files = (application.out / "batches").glob("*")
    return sorted(int(line) for file in files for line in file.read_text(encoding="ascii").splitlines())
