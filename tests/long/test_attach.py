"""An application that knows nothing of Tideover: admitted, moved, and on the right cluster after a kill.

It is moved in its run where the batch under way can be continued, and else by a restart by its scheduler.

``examples/plain_job.py`` is started by plain ``spark-submit`` with a jar and two settings. The judge compares what
producers were acknowledged with what both queries have.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyspark
import pytest
import yaml

from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths
from tests.scene import Controller, Said, Typed
from tests.waiting import until
from tests.world import ROOT, RunningWorld, running_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
QUERIES = ("archive", "totals")
SECONDS = 300.0


@dataclass
class Shop:
    """The application, its sinks and the clusters."""

    world: RunningWorld
    folder: Path
    starts: int = 0

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def config(self) -> Path:
        return self.folder / "tideover.yaml"

    def configure(self) -> None:
        known = yaml.safe_load(self.world.config.read_text(encoding="utf-8"))
        queries = {
            name: {
                "attach": "shop",
                "sources": {"orders": {"topics": ["orders"]}},
                "clusters": ["east", "west"],
                "checkpoint": str(self.out / "checkpoints" / name),
            }
            for name in QUERIES
        }
        known |= {"runners": {"shop": {"site": "one"}}, "queries": queries, "http": "off"}
        self.config.write_text(yaml.safe_dump(known, sort_keys=False), encoding="utf-8")

    def submit(self, *more: str) -> "subprocess.Popen[bytes]":
        """What a scheduler runs, each time with the same arguments."""
        home, self.starts = Path(pyspark.__file__).parent, self.starts + 1
        jars = ",".join(str(path) for path in [*jar_paths(f"spark-{pyspark.__version__}"), companion_jar()])
        ours = ["spark.plugins=tideover.AttachPlugin", f"spark.tideover.config={self.config}"]
        small = ["spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.driver.host=127.0.0.1"]
        options = [word for each in [*ours, *small, "spark.driver.bindAddress=127.0.0.1"] for word in ("--conf", each)]
        python = Path(os.environ.get("PYSPARK_PYTHON", ROOT / ".venv" / "bin" / "python"))
        theirs = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with (self.folder / f"job-{self.starts}.log").open("wb") as log:
            return subprocess.Popen(
                [home / "bin" / "spark-submit", "--master", "local[4]", "--jars", jars, *options,
                 "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                 ROOT / "examples" / "plain_job.py", self.world.bootstrap("east"), self.out, *more],
                env=theirs | {"PATH": f"{python.parent}:{theirs['PATH']}", "SPARK_HOME": str(home)},
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def log(self) -> str:
        """Of the newest start."""
        return (self.folder / f"job-{self.starts}.log").read_text(encoding="utf-8", errors="replace")

    def type(self, *words: str) -> Said:
        return Typed(self.config, words).end(SECONDS)

    def ids(self) -> list[int]:
        """What ``archive`` has, repeats included."""
        path = self.out / "archive.txt"
        return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def acknowledged(self) -> set[int]:
        lines = [line.split() for file in self.world.directory.glob("acked/*.ids") for line in file.open()]
        return {int(words[0]) for words in lines if words and words[2] != "-1"}

    def judge(self) -> dict[str, int]:
        """Lost and repeated by ``archive``, and by how much the counts and sums of ``totals`` are off."""
        acked, ids = self.acknowledged(), self.ids()
        totals = json.loads((self.out / "totals.json").read_text(encoding="ascii")).values()
        return {
            "lost": len(acked - set(ids)),
            "repeated": len(ids) - len(set(ids)),
            "counts off by": sum(count for count, _ in totals) - len(acked),
            "sums off by": sum(ids for _, ids in totals) - sum(acked),
        }


EXACT = {"lost": 0, "repeated": 0, "counts off by": 0, "sums off by": 0}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running_world(tmp_path) as world:
        known = Shop(world, tmp_path)
        known.configure()
        controller = Controller(known.config, "main")
        try:
            yield known
        finally:
            controller.kill()


COPIED_SECONDS = 5.0
"""The replicator copies within a second: what it has not copied is lost with the cluster, and not by the move."""
MOVED = 75
"""The exit code of an application whose query was moved and cannot continue in the same run."""


@dataclass
class Scheduler:
    """What systemd does with ``Restart=on-failure``: an application that ends with ``MOVED`` is started again."""

    shop: Shop
    codes: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._job = self.shop.submit()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            code = self._job.poll()
            if code is None:
                continue
            self.codes.append(code)
            if code != MOVED:
                return
            self._job = self.shop.submit()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._job.pid, signal.SIGKILL)
        self._job.wait()


def more_than(shop: Shop, count: int) -> Callable[[], bool]:
    return lambda: len(shop.ids()) > count and (shop.out / "totals.json").exists()


def test_an_unmodified_job_is_moved_and_is_on_the_right_cluster_after_a_kill(shop: Shop) -> None:
    traffic = shop.world.start_traffic(rate=100)
    with Scheduler(shop) as scheduler:
        until(more_than(shop, 100), "the job reads", seconds=SECONDS)
        until(lambda: shop.type("check").code == 0, "both queries could be moved", seconds=SECONDS)
        traffic.send_signal(signal.SIGTERM)
        traffic.wait()
        until(lambda: shop.judge() == EXACT, "all was read", seconds=SECONDS)
        time.sleep(COPIED_SECONDS)
        shop.world.lab("kill", "east")
        moved = shop.type("failover", "--all", "--to", "west", "--yes", "--reason", "test", "-o", "json")
        assert moved.code == 0, moved.err + moved.out
        shop.world.traffic(to="west", rate=100, seconds=3)
        until(lambda: shop.judge() == EXACT, "every record once", seconds=SECONDS)
        assert set(scheduler.codes) <= {MOVED}
        assert scheduler.codes or shop.log().count("query continues") == len(QUERIES)
    with Scheduler(shop) as scheduler:
        shop.world.traffic(to="west", rate=100, seconds=3)
        until(lambda: shop.judge() == EXACT, "every record once behind the restart", seconds=SECONDS)
        assert "archive reads source orders on west" in shop.log()
        assert scheduler.codes == []
