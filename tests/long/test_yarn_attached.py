"""An ordinary job in YARN's cluster mode, attached: it is moved, its container dies, and YARN starts the next attempt.

Each container has a host name of its own here. So the second attempt cannot look at the processes of the first one, as
on two nodes, and YARN has to prove its end.
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lab.world import CLUSTERS, TOPIC
from streaming.jars import jar_paths
from tests.applications import EXACT, QUERIES, ROOT, Application
from tests.streams import Cluster
from tests.waiting import PROCESS_SECONDS
from tests.world import running_clusters
from tests.yarn_cluster import Yarn, attempt_of, container_of, kill_container, yarn_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
TIDEOVER = """#!{python}
import os, socket, sys
socket.gethostname = lambda: os.environ["CONTAINER_ID"]
sys.path.insert(0, "{root}")
from orchestrator.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    with yarn_cluster(tmp_path / "yarn") as made:
        yield made


def submit(application: Application, yarn: Yarn, program: Path) -> str:
    """By ``tideover submit``, in cluster mode; the application's id."""
    home, python = Path(pyspark.__file__).parent, str(ROOT / ".venv" / "bin" / "python")
    settings: dict[str, Any] = {
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": f"file://{application.folder}/staging",
        "spark.yarn.maxAppAttempts": 2,
        "spark.yarn.submit.waitAppCompletion": False,
        "spark.tideover.command": program,
        "spark.executor.instances": 1,
        "spark.executor.cores": 4,
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.port": 0,
        "spark.sql.shuffle.partitions": 1,
        "spark.scheduler.minRegisteredResourcesRatio": 0,
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{application.folder}/events",
    }
    for name, value in {"PYSPARK_PYTHON": python, "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}.items():
        settings |= {f"spark.yarn.appMasterEnv.{name}": value, f"spark.executorEnv.{name}": value}
    jars = ",".join(map(str, jar_paths(f"spark-{pyspark.__version__}")))
    options = [
        word
        for key, value in settings.items()
        for word in ("--conf", f"{key}={str(value).replace('True', 'true').replace('False', 'false')}")
    ]
    submitted = subprocess.run(
        [sys.executable, "-m", "orchestrator", "-c", application.config, "submit", "--application", "shop", "--",
         home / "bin" / "spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--jars", jars, *options,
         application.script, application.bootstrap, application.out],
        cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
        env=os.environ | {"SPARK_HOME": str(home), "HADOOP_CONF_DIR": str(yarn.conf)},
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stderr[-5000:]
    (row,) = yarn.request("apps")["apps"]["app"]
    return str(row["id"])


def batches(application: Application) -> list[tuple[set[str], set[str]]]:
    """Of each query the batches that are planned, and those that are committed."""
    folders = (application.out / "checkpoints" / name for name in QUERIES)
    names = lambda folder: {each.name for each in folder.glob("[0-9]*")}  # noqa: E731
    return [(names(folder / "offsets"), names(folder / "commits")) for folder in folders]


def test_the_next_attempt_reads_where_the_query_was_moved(yarn: Yarn, tmp_path: Path) -> None:
    program = tmp_path / "tideover"
    program.write_text(TIDEOVER.format(python=sys.executable, root=ROOT), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "events").mkdir()
    with running_clusters(tmp_path / "sites") as world:
        sites = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        for name, cluster in sites.items():
            cluster.make(TOPIC, foreign=name != CLUSTERS[0])
            cluster.extend(TOPIC, 100)
        shop = Application(tmp_path, world.bootstrap("east")[0])
        shop.configure({
            "store": f"sqlite:///{tmp_path / 'tideover.db'}",
            "clusters": {name: {"bootstrap": list(world.bootstrap(name))} for name in CLUSTERS},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "spark": {"master_ui": yarn.url},
        })  # fmt: skip
        application = submit(shop, yarn, program)
        first, second = (attempt_of(application, number) for number in (1, 2))
        shop.log = lambda: yarn.log(first) + yarn.log(second)  # type: ignore[method-assign] # for until
        shop.until(lambda: shop.judge(set(range(100))) == EXACT, "both queries have read all on east")
        shop.until(lambda: shop.type("check").code == 0, "both queries could be moved")
        found = json.loads(shop.type("inventory", "--from", f"yarn:{yarn.url}", str(shop.out), "-o", "json").out)
        assert {
            each["query"]: (each["application_id"], each["application_state"], each["ready"]) for each in found
        } == (dict.fromkeys(QUERIES, (application, "RUNNING", True)))
        known = ("--consent", "replication", "--yes", "--reason", "both clusters are written to")
        moved = shop.type("switchover", "--all", "--to", "west", *known)
        assert moved.code == 0, moved.err + moved.out
        sites["west"].extend(TOPIC, 200)
        shop.until(lambda: shop.judge(set(range(200))) == EXACT, "the run reads west")
        shop.until(lambda: all(planned == done for planned, done in batches(shop)), "no batch is under way")
        kill_container(container_of(first))
        sites["west"].extend(TOPIC, 300)
        shop.until(lambda: shop.judge(set(range(300))) == EXACT, "the second attempt reads west")
        assert f"YARN says that {first} ended with exit code 137" in yarn.log(second)
        assert "archive reads source orders on west" in yarn.log(second)
        yarn.kill_application(application)
