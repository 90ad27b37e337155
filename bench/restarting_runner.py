"""``tideover run`` whose queries can be restarted the plain way: ``stop()`` and ``start()`` of Spark, in the same JVM.

What a switchover is compared with is the very query, in the driver that it runs in, warmed up by the same batches.
A file ``restart`` in the folder that ``BENCH_DOOR`` names requests it. A writer is built for each running query where
it is now. All are stopped, one after the other, and each writer is started. ``restarted`` then says when that was. The
runner's own thread, which would see that its run has ended, sees it active during that time.

Arguments are those of ``tideover``.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.errors import BenchError
from orchestrator.cli import main
from streaming.spark.checkpoint.batch_news import RunName, follow
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import prepare_writer
from streaming.spark.query.query_run import Run
from streaming.spark.runner import runner, supervisor
from streaming.spark.runner.supervisor import QuerySupervisor

DOOR = "BENCH_DOOR"
ORDERED, DONE = "restart", "restarted"
_LOOK_SECONDS = 0.05


class RestartableRun(Run):
    """A run whose query may be stopped and started again under it."""

    _restarting = False
    build: Callable[[CallbackGate], tuple[SparkSession, DataStreamWriter]] | None = None
    """Makes another writer of this query where it is now; a run may have changed its cluster."""
    name: RunName | None = None

    @property
    def is_active(self) -> bool:
        # checked again: between two looks it may have been stopped, and started again
        return super().is_active or self._restarting or super().is_active

    def writer(self) -> DataStreamWriter:
        """Of this query, followed from its start on. Raises what ``prepare_writer`` does."""
        if self.build is None or self.name is None:
            raise BenchError(f"run {self.run_id} was not begun by a runner")
        before = self.news
        self._session, writer = self.build(self._gate)
        self.news = follow(self._session, self.name)
        if before is not None:
            before.close()
        return writer

    def stop_plainly(self) -> None:
        self._restarting = True
        self._query.stop()

    def start_plainly(self, writer: DataStreamWriter) -> None:
        self._query = writer.start()
        self.run_id = str(self._query.runId)
        self._restarting = False


class RestartableSupervisor(QuerySupervisor):
    """Gives its run what it needs to start again."""

    def _begun(self, run: Run, what: str) -> None:
        if isinstance(run, RestartableRun):
            run.build = partial(prepare_writer, self._hosting, self._assignment)
        super()._begun(run, what)


class Door:
    """Is found where the runner looks for ``Run``, and knows what it started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: list[RestartableRun] = []

    def start(
        self, session: SparkSession, writer: DataStreamWriter, gate: CallbackGate, name: RunName
    ) -> RestartableRun:
        run = RestartableRun.start(session, writer, gate, name)
        run.name = name
        self._runs.append(run)
        return run

    def serve(self) -> None:
        """Restart what runs at each request, for ever."""
        while True:
            time.sleep(_LOOK_SECONDS)
            if (self._folder / ORDERED).exists():
                (self._folder / ORDERED).unlink()
                partial = self._folder / f"{DONE}.partial"
                partial.write_text(json.dumps(self._restart()), encoding="ascii")
                partial.replace(self._folder / DONE)

    def _restart(self) -> dict[str, float]:
        """Stop and start all that run, as a plain program does; when the first stop began, and the first start."""
        self._runs = [run for run in self._runs if run.is_active]
        writers = [run.writer() for run in self._runs]
        stopped_at = time.time()
        for run in self._runs:
            run.stop_plainly()
        started_at = time.time()
        for run, writer in zip(self._runs, writers, strict=True):
            run.start_plainly(writer)
        return {"stop": stopped_at, "start": started_at}


def run(arguments: Sequence[str]) -> int:
    """``tideover`` with these arguments, and the door beside it."""
    door = Door(Path(os.environ[DOOR]))
    threading.Thread(target=door.serve, name="door", daemon=True).start()
    with patch.object(supervisor, "Run", door), patch.object(runner, "QuerySupervisor", RestartableSupervisor):
        return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
