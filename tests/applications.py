"""An application of a user: an ordinary job of Spark, started by plain ``spark-submit`` with Tideover's jar."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyspark
import yaml

from lab.own_job import ATTENDANT
from lab.processes import children
from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths
from tests.scene import Said, Typed
from tests.streams import has_rested
from tests.waiting import PROCESS_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
QUERIES = ("archive", "totals")
SECONDS = 300.0
MOVED = 75
"""The exit code of an application whose query was moved and cannot continue in the same run."""
_PAUSE_SECONDS = 3.0
"""Between two runs of an application that a scheduler repeats."""
EXACT = {"lost": 0, "repeated": 0, "counts off by": 0, "sums off by": 0}
COMMANDS = """#!/bin/bash
# What a service manager would do: start BOOTSTRAP, stop, status.
cd "$(dirname "$0")"
case $1 in
start)
  echo "$2" >> started
  setsid {submit} {job} "$2" "$PWD" {checkpoints} >> job.log 2>&1 &
  echo $! > pid;;
stop) kill -TERM -- "-$(cat pid)";;
restart) kill -KILL -- "-$(cat pid)"; exec "$0" start "$2";;
status)
  [ -f pid ] || exit 3
  grep -qs '^State:.[^ZX]' "/proc/$(cat pid)/status" || exit 3
  echo "identity=$(cat pid)-$(cut -d ' ' -f 22 "/proc/$(cat pid)/stat")";;
esac
"""
"""Of an application without our jar: ``job`` gets the servers, its folder and the ``checkpoints``."""


@dataclass
class Application:
    """A job under one configuration: its processes, what it wrote, and the verbs of an operator."""

    folder: Path
    bootstrap: str
    """Of its first cluster, which its code names."""
    name: str = "shop"
    jobs: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    script: Path = ROOT / "examples" / "plain_job.py"
    """Or a jar."""
    job_class: str | None = None
    """The main class of a jar."""
    declared: Path | None = None
    """A configuration that others have written; None: the one of ``configure``."""
    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {name: {} for name in QUERIES})
    """What is declared of each beside its checkpoint, its clusters and its source ``orders``."""
    operator: Path | None = None
    """The configuration with which verbs are typed; None: the application's own."""
    java: Path | None = None
    """The home of its Java; None: the one that ``spark-submit`` finds."""
    ui_port: int | None = None
    """Of Spark's own UI; None: it has none."""

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def config(self) -> Path:
        return self.declared or self.folder / "tideover.yaml"

    @property
    def job(self) -> "subprocess.Popen[bytes]":
        """The newest start: the driver's JVM, as ``spark-submit`` becomes it."""
        return self.jobs[-1]

    def configure(self, known: Mapping[str, Any]) -> None:
        """Write the configuration: what is given of store, clusters and routes, and this application's queries."""
        queries = {
            name: {
                "attach": self.name,
                "sources": {"orders": {"topics": ["orders"]}},
                "clusters": ["east", "west"],
                "checkpoint": str(self.out / "checkpoints" / name),
                **more,
            }
            for name, more in self.queries.items()
        }
        whole = {**known, "runners": {self.name: {"site": "one"}}, "queries": queries, "http": "off"}
        self.config.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")

    def submit(
        self, *more: str, conf: Sequence[str] = (), plain_on: str | None = None, jar: Path | None = None
    ) -> None:
        """What a scheduler runs, each time with the same arguments.

        ``plain_on``: without anything of Tideover's, and with these servers in its code. ``jar``: instead of ours.
        """
        home, jars = Path(pyspark.__file__).parent, list(jar_paths(f"spark-{pyspark.__version__}"))
        ours: list[str] = []
        if plain_on is None:
            jars.append(jar or companion_jar())
            ours = ["spark.plugins=tideover.AttachPlugin", f"spark.tideover.config={self.config}"]
        ui = f"spark.ui.enabled={str(self.ui_port is not None).lower()}"
        small = [
            ui,
            f"spark.ui.port={self.ui_port or 0}",
            "spark.sql.shuffle.partitions=1",
            "spark.driver.host=127.0.0.1",
        ]
        every = [*ours, *small, "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", *conf]
        options = [word for each in every for word in ("--conf", each)]
        python = Path(os.environ.get("PYSPARK_PYTHON", ROOT / ".venv" / "bin" / "python"))
        theirs = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        theirs |= {"JAVA_HOME": str(self.java)} if self.java else {}
        with (self.folder / f"job-{len(self.jobs) + 1}.log").open("wb") as log:
            self.jobs.append(subprocess.Popen(
                [home / "bin" / "spark-submit", "--master", "local[4]", "--jars", ",".join(map(str, jars)), *options,
                 "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                 *(["--class", self.job_class] if self.job_class else []), self.script,
                 plain_on or self.bootstrap, self.out, *more],
                env=theirs | {"PATH": f"{python.parent}:{theirs['PATH']}", "SPARK_HOME": str(home)},
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            ))  # fmt: skip

    def log(self) -> str:
        """Of the newest start."""
        return (self.folder / f"job-{len(self.jobs)}.log").read_text(encoding="utf-8", errors="replace")

    def page(self, path: str) -> str:
        """A page of Spark's own UI on ``ui_port``; of a path that it does not know the first one."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/{path}/", timeout=PROCESS_SECONDS) as answer:
            return str(answer.read().decode("utf-8"))

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds; shows the log of the newest start where it never does."""
        try:
            until(holds, what, seconds=SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-5000:]}") from None

    def end(self) -> int:
        """Wait until the newest start ends; its exit code."""
        return self.job.wait(SECONDS)

    def kill(self) -> None:
        """SIGKILL of every start that lives, Python and attendant included: as if its host had lost its power."""
        for job in self.jobs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait(PROCESS_SECONDS)

    def attendants(self) -> list[int]:
        """Pids of the attendants of the newest start."""
        return children(self.job.pid, argument=ATTENDANT)

    def type(self, *words: str) -> Said:
        """A verb of ``tideover``, waited for."""
        return Typed(self.operator or self.config, words).end(SECONDS)

    def ids(self) -> list[int]:
        """What ``archive`` has, repeats included."""
        path = self.out / "archive.txt"
        return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def has_rested(self) -> bool:
        """Whether each query has committed all that it has planned."""
        return all(has_rested(self.out / "checkpoints" / name) for name in self.queries)

    def judge(self, written: set[int]) -> dict[str, int]:
        """Lost and repeated by ``archive``, and by how much the counts and sums of ``totals`` are off."""
        ids, path = self.ids(), self.out / "totals.json"
        totals = json.loads(path.read_text(encoding="ascii")).values() if path.exists() else []
        return {
            "lost": len(written - set(ids)),
            "repeated": len(ids) - len(set(ids)),
            "counts off by": sum(count for count, _ in totals) - len(written),
            "sums off by": sum(ids for _, ids in totals) - sum(written),
        }


@dataclass
class Scheduler:
    """What systemd does with ``Restart=on-failure``: an application that ends with an error is started again.

    ``repeats``: what ended without one is, too, after a pause, as under a timer.
    """

    application: Application
    arguments: Sequence[str] = ()
    repeats: bool = False
    codes: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over, self._lock = threading.Event(), threading.Lock()
        self._submit()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            code = self.application.job.poll()
            if code is None:
                continue
            self.codes.append(code)
            if code == 0 and not self.repeats:
                return
            if code == 0 and self._over.wait(_PAUSE_SECONDS):
                return
            with self._lock:
                if not self._over.is_set():
                    self._submit()

    def _submit(self) -> None:
        self.application.submit(*self.arguments, conf=[f"spark.tideover.application={self.application.name}"])

    def kill(self) -> None:
        """SIGKILL of what runs; it is started again."""
        with self._lock:
            self.application.kill()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.application.kill()
