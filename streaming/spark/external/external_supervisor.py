"""Tends one query of an application without anything of Tideover's in it.

All else is the supervisor's of a hosted query: permission, fence, watch, report. Before the application starts behind a
move, offsets are rewritten in place, as ``tideover release`` does it, so that plain Spark reads them. State, query id
and batch ids stay.
"""

import time
from typing import Any

from state.model.entities import Assignment
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import read_query_id
from streaming.spark.errors import Contradicted, RunError, RunFenced
from streaming.spark.external.application_commands import ApplicationCommands
from streaming.spark.external.external_run import ExternalRun
from streaming.spark.handback import rewrite_in_place
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.plan_columns import UNREAD
from streaming.spark.query.query_run import Run
from streaming.spark.query.sink_memory import UNKNOWN_SINK
from streaming.spark.runner.supervisor import QuerySupervisor

STARTED = "_tideover_started"
"""The folder that says for which place the application was started from here; Spark passes over it."""
_START_SECONDS = 300.0
"""How long an application may take until its query is in its checkpoint."""
_LOOK_SECONDS = 0.2


def supervisor_of(hosting: Hosting, row: Assignment, *more: Any) -> QuerySupervisor:
    """The supervisor that fits a query."""
    kind = QuerySupervisor if hosting.query(row.query).application is None else ExternalSupervisor
    return kind(hosting, row, *more)


def end_application(hosting: Hosting, row: Assignment, seconds: float) -> None:
    """Have the application of a query stopped by whichever process started it, and wait until it has ended.

    The end of a runner proves nothing of it: only ``status`` does. Raises ``RunError`` where it does not end.
    """
    run = ExternalRun(ApplicationCommands.of(hosting.settings, row, hosting.base))
    if run.look().runs is not False:
        run.begin_stop()
    deadline = time.monotonic() + seconds
    while (unrest := run.unrest()) is not None:
        if time.monotonic() >= deadline:
            raise RunError(f"the application of {row.query} has not ended: {unrest}")
        time.sleep(_LOOK_SECONDS)


class ExternalSupervisor(QuerySupervisor):
    """Of one query under one epoch. Whatever it has begun, only ``status`` says that its application is quiet."""

    def __init__(self, hosting: Hosting, assignment: Assignment, *more: Any) -> None:
        """``more``: what the supervisor of a hosted query takes."""
        super().__init__(hosting, assignment, *more)
        self._commands = ApplicationCommands.of(hosting.settings, assignment, hosting.base)
        self._run = ExternalRun(self._commands)

    def close(self) -> None:
        super().close()
        self._run.begin_stop()

    def unrest(self) -> str | None:
        said = super().unrest()
        return self._run.unrest() if said is None else said

    def _sources(self, row: Assignment) -> dict[str, dict[str, str]]:
        """Its application reads where its own code says."""
        return {}

    def _start(self) -> tuple[Run, Follower]:
        self._await_former()
        row = self._assignment
        self._permission.require_cluster()
        self._permission.require_row()
        with self._beginning():
            self._run = ExternalRun(self._commands)
        status = self._run.look()
        if status.runs is None:
            raise RunError(f"it is unknown whether the application of {row.query} runs: {status.text}")
        if status.runs:
            self._require_started_here(row)
            what = "query joined"
        else:
            self._make_ready(row)
            with self._beginning():
                self._run = ExternalRun(self._commands)
                self._commands.start()
            what = "query started"
        self._run.query_id = self._query_id()
        with self._lock:
            self._runs, self._gate, self.sink = [self._run], CallbackGate(), UNKNOWN_SINK
        self._begun(self._run, what)
        self._unread = (lambda: UNREAD), time.monotonic()
        declared = self._hosting.declared(row.query, row.cluster)
        return self._run, Follower(self._hosting.files, row.checkpoint, declared, Placed.of(row))

    def _make_ready(self, row: Assignment) -> None:
        """Let its application start from the checkpoint. Raises ``CheckpointError``, and what forbids the start."""
        files = self._hosting.files
        self._permission.open_checkpoint()
        changed = rewrite_in_place(files, row, self._permission.require_row)
        if row.mapping is not None:
            files.create_atomically(join(row.checkpoint, STARTED, row.mapping), row.query.encode())
        self._log.info("checkpoint is ready for plain Spark", entries=changed, checkpoint=row.checkpoint)

    def _require_started_here(self, row: Assignment) -> None:
        """What runs behind a move must have been started behind it. Raises ``Contradicted``.

        Before the first move it reads the cluster that its own code or scheduler names.
        """
        notes = self._hosting.files.list_names(join(row.checkpoint, STARTED))
        if row.mapping is not None and row.mapping not in notes:
            raise Contradicted(
                f"the application of {row.query} runs, and Tideover did not start it on {row.cluster}: end it, and "
                "let nothing else start it"
            )

    def _query_id(self) -> str:
        """The id in its checkpoint, which a first start has yet to write. Raises ``RunFenced`` and ``RunError``."""
        query, deadline = self._assignment.query, time.monotonic() + _START_SECONDS
        while (known := read_query_id(self._hosting.files, self._assignment.checkpoint)) is None:
            if self._closing.wait(_LOOK_SECONDS):
                raise RunFenced(f"{query} was ordered to stop while it started")
            if not self._run.is_active or time.monotonic() >= deadline:
                raise RunError(f"the application of {query} was started, and its query did not begin")
        return known
