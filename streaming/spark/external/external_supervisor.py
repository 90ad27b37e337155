"""Tends one query of an application without anything of Tideover's in it.

All else is the supervisor's of a hosted query: permission, fence, watch, report. Before the application starts behind a
move, offsets are rewritten in place, as ``tideover release`` does it, so that plain Spark reads them. State, query id
and batch ids stay.
"""

import time
from typing import Any

from state.model.entities import Assignment
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.read import read_query_id
from streaming.spark.errors import CheckpointError, CommandCutOff, CommandFailed, Contradicted, RunError, RunFenced
from streaming.spark.external.application_commands import COMMAND_SECONDS, ApplicationCommands
from streaming.spark.external.checked_follower import CheckedFollower, LogCheck
from streaming.spark.external.external_run import ExternalRun
from streaming.spark.external.start_notes import EFFECT_SECONDS, StartNotes
from streaming.spark.handback import require_place, require_rewritten, rewrite_in_place
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.plan_columns import UNREAD
from streaming.spark.query.query_run import Run
from streaming.spark.query.sink_memory import UNKNOWN_SINK
from streaming.spark.runner.supervisor import QuerySupervisor

_LOOK_SECONDS = 0.2


def supervisor_of(hosting: Hosting, row: Assignment, *more: Any) -> QuerySupervisor:
    """The supervisor that fits a query."""
    kind = QuerySupervisor if hosting.query(row.query).application is None else ExternalSupervisor
    return kind(hosting, row, *more)


def end_application(hosting: Hosting, row: Assignment, seconds: float) -> None:
    """Have the application of a query stopped by whichever process started it, and wait until it has ended.

    The end of a runner proves nothing of it: only ``status`` does. Raises ``RunError`` where it does not end.
    """
    run = ExternalRun(ApplicationCommands.of(hosting.settings, row, hosting.base), _notes(hosting, row))
    if run.look().runs is not False:
        run.begin_stop()
    deadline = time.monotonic() + seconds
    while (unrest := run.unrest()) is not None:
        if time.monotonic() >= deadline:
            run.leave()
            raise RunError(f"the application of {row.query} has not ended: {unrest}")
        time.sleep(_LOOK_SECONDS)


def unrest_of_application(hosting: Hosting, row: Assignment) -> str | None:
    """What an application could still write by a look of now, in one sentence; None where ``status`` says it ended."""
    return ExternalRun(ApplicationCommands.of(hosting.settings, row, hosting.base), _notes(hosting, row)).unrest()


def _notes(hosting: Hosting, row: Assignment) -> StartNotes:
    return StartNotes(hosting.files, row.checkpoint, hosting.now)


class ExternalSupervisor(QuerySupervisor):
    """Of one query under one epoch. Whatever it has begun, only ``status`` says that its application is quiet."""

    def __init__(self, hosting: Hosting, assignment: Assignment, *more: Any) -> None:
        """``more``: what the supervisor of a hosted query takes."""
        super().__init__(hosting, assignment, *more)
        self._commands = ApplicationCommands.of(hosting.settings, assignment, hosting.base)
        self._notes = _notes(hosting, assignment)
        self._run = ExternalRun(self._commands, self._notes)

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
        require_place(self._hosting.files, row)
        self._withdraw()
        with self._beginning():
            self._take()
        status = self._run.look()
        if status.runs is None:
            raise RunError(f"it is unknown whether the application of {row.query} runs: {status.text}")
        if status.runs:
            self._require_started_here(row)
            what = "query joined"
        else:
            self._make_ready(row)
            self._run_start(row)
            self._await_effect(row)
            what = "query started"
        self._run.query_id = self._query_id()
        with self._lock:
            self._runs, self._gate, self.sink = [self._run], CallbackGate(), UNKNOWN_SINK
        self._begun(self._run, what)
        self._unread = (lambda: UNREAD), time.monotonic()
        declared = self._hosting.declared(row.query, row.cluster)
        return self._run, CheckedFollower(self._hosting.files, row, declared, self._check(row))

    def _check(self, row: Assignment) -> LogCheck | None:
        """Before the first move it reads the cluster that its own code or scheduler names."""
        log_of = self._hosting.log_of
        return None if row.mapping is None or log_of is None else LogCheck(row, log_of, self._run.begin_stop)

    def _take(self) -> None:
        """Look after a new run; what was seen of the one before counts for nothing. It is stopped if all is to stop."""
        run = ExternalRun(self._commands, self._notes)
        with self._lock:
            former, self._run = self._run, run
            is_over = self._closing.is_set()
        former.leave()
        if is_over:
            run.begin_stop()

    def _withdraw(self) -> None:
        """A start of which the effect was not seen is stopped, and seen to have ended, before there is another one.

        Raises ``RunFenced`` and ``CheckpointError``.
        """
        if not self._notes.is_unsettled:
            return
        with self._beginning():
            self._take()
            try:
                self._commands.stop()
            except CommandFailed as error:
                self._log.warning("not stopped yet", error=str(error))
        self._log.warning("a start is taken back, because its effect was not seen")
        self._run.begin_stop()
        while self._run.unrest() is not None:
            if self._closing.wait(_LOOK_SECONDS):
                raise RunFenced(f"{self._assignment.query} was ordered to stop before it started")
        self._notes.settle()

    def _make_ready(self, row: Assignment) -> None:
        """Let its application start from the checkpoint. Raises ``CheckpointError``, and what forbids the start."""
        files = self._hosting.files
        self._permission.open_checkpoint()
        changed = rewrite_in_place(files, row, self._permission.require_row)
        self._log.info("checkpoint is ready for plain Spark", entries=changed, checkpoint=row.checkpoint)

    def _run_start(self, row: Assignment) -> None:
        """Run ``start``, noted before and behind it. Raises ``CommandFailed``, and what forbids the start."""
        with self._beginning():
            self._notes.forget()
            self._notes.begin(COMMAND_SECONDS + EFFECT_SECONDS)
            try:
                self._permission.require_cluster()
                self._permission.require_row()
            except BaseException:
                self._notes.settle()
                raise
            seconds = EFFECT_SECONDS
            try:
                self._commands.start()
                if row.mapping is not None:
                    self._notes.keep(row.mapping)
            except CommandCutOff:
                raise
            except CommandFailed:
                seconds = 0.0  # it said so itself: a stop is owed all the same
                raise
            finally:
                self._take()
                self._notes.begin(seconds)

    def _await_effect(self, row: Assignment) -> None:
        """Until ``status`` says that it runs, on the offsets that were written for it.

        Raises ``RunFenced``, ``RunError`` where it does not run in time, and ``CheckpointError``.
        """
        try:
            require_rewritten(self._hosting.files, row)
        except CheckpointError:
            self._run.begin_stop()
            raise
        deadline = time.monotonic() + EFFECT_SECONDS
        while (status := self._run.look()).runs is not True:
            if self._closing.wait(_LOOK_SECONDS):
                raise RunFenced(f"{row.query} was ordered to stop while it started")
            if status.runs is False or time.monotonic() >= deadline:
                raise RunError(
                    f"start of the application of {row.query} returned, and status did not say that it runs"
                    f"{f': {status.text}' if status.text else ''}"
                )
        self._notes.settle()

    def _require_started_here(self, row: Assignment) -> None:
        """What runs behind a move must have been started behind it. Raises ``Contradicted``.

        Before the first move it reads the cluster that its own code or scheduler names.
        """
        if row.mapping is not None and not self._notes.has(row.mapping):
            raise Contradicted(
                f"the application of {row.query} runs, and Tideover did not start it on {row.cluster}: end it, and "
                "let nothing else start it"
            )

    def _query_id(self) -> str:
        """The id in its checkpoint, which a first start has yet to write. Raises ``RunFenced`` and ``RunError``."""
        query, deadline = self._assignment.query, time.monotonic() + EFFECT_SECONDS
        while (known := read_query_id(self._hosting.files, self._assignment.checkpoint)) is None:
            if self._closing.wait(_LOOK_SECONDS):
                raise RunFenced(f"{query} was ordered to stop while it started")
            if not self._run.is_active or time.monotonic() >= deadline:
                raise RunError(f"the application of {query} was started, and its query did not begin")
        return known
