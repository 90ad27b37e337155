"""Tends one query of an application without anything of Tideover's in it; all queries of it start together.

All else is the supervisor's of a hosted query: permission, fence, watch, report. Before the application starts behind a
move, offsets are rewritten in place, as ``tideover release`` does it, so that plain Spark reads them. State, query id
and batch ids stay.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from state.model.entities import Assignment, Desired
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.read import read_query_id
from streaming.spark.errors import CommandCutOff, CommandFailed, Contradicted, RunError, RunFenced
from streaming.spark.external.application_commands import COMMAND_SECONDS, ApplicationCommands
from streaming.spark.external.application_state import LOOK_SECONDS, ApplicationState
from streaming.spark.external.checked_follower import CheckedFollower, LogCheck
from streaming.spark.external.external_run import ExternalRun
from streaming.spark.external.shared_start import NotReady, SharedStart, of_member
from streaming.spark.external.start_notes import EFFECT_SECONDS, StartNotes, notes_checkpoint
from streaming.spark.handback import require_place, require_rewritten, rewrite_in_place
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.plan_columns import UNREAD
from streaming.spark.query.query_run import Run
from streaming.spark.query.sink_memory import UNKNOWN_SINK
from streaming.spark.runner.supervisor import QuerySupervisor


def supervisor_of(hosting: Hosting, row: Assignment, *more: Any) -> QuerySupervisor:
    """The supervisor that fits a query."""
    kind = QuerySupervisor if hosting.query(row.query).application is None else ExternalSupervisor
    return kind(hosting, row, *more)


def end_application(hosting: Hosting, row: Assignment, seconds: float) -> None:
    """Have the application of a query stopped by whichever process started it, and wait until it has ended.

    The end of a runner proves nothing of it: only ``status`` does. Raises ``RunError`` where it does not end.
    """
    run = ExternalRun(_state(hosting, row))
    if run.look().runs is not False:
        run.begin_stop()
    deadline = time.monotonic() + seconds
    while (unrest := run.unrest()) is not None:
        if time.monotonic() >= deadline:
            run.leave()
            raise RunError(f"the application of {row.query} has not ended: {unrest}")
        time.sleep(LOOK_SECONDS)


def unrest_of_application(hosting: Hosting, row: Assignment) -> str | None:
    """What an application could still write by a look of now, in one sentence; None where ``status`` says it ended."""
    return _state(hosting, row).unrest()


def _state(hosting: Hosting, row: Assignment) -> ApplicationState:
    commands = ApplicationCommands.of(hosting.settings, row, hosting.base)
    return ApplicationState(commands, _notes(hosting, row), _together(hosting, row.query).stops)


def _notes(hosting: Hosting, row: Assignment) -> StartNotes:
    checkpoint = notes_checkpoint(hosting.settings, row, hosting.store, hosting.base)
    return StartNotes(hosting.files, checkpoint, hosting.now)


def _together(hosting: Hosting, query: str) -> "SharedStart[ExternalSupervisor]":
    """The queries of an application, in the order of the configuration."""
    own = {query, *hosting.settings.companions(query)}
    names = [name for name in hosting.settings.queries if name in own]
    return hosting.shared.of(f"application of {names[0]}", SharedStart, lambda: SharedStart(names))


class ExternalSupervisor(QuerySupervisor):
    """Of one query under one epoch. Whatever it has begun, only ``status`` says that its application is quiet."""

    def __init__(self, hosting: Hosting, assignment: Assignment, *more: Any) -> None:
        """``more``: what the supervisor of a hosted query takes."""
        super().__init__(hosting, assignment, *more)
        self._commands = ApplicationCommands.of(hosting.settings, assignment, hosting.base)
        self._notes = _notes(hosting, assignment)
        self._application = _together(hosting, assignment.query)
        self._run = ExternalRun(self._new_state())

    @property
    def query(self) -> str:
        return self._assignment.query

    @property
    def is_closing(self) -> bool:
        """Whether it was ordered to stop."""
        return self._closing.is_set()

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
        what = self._application.take_part(self, self._start_all, self._is_held_elsewhere)
        self._run.query_id = self._query_id()
        with self._lock:
            self._runs, self._gate, self.sink = [self._run], CallbackGate(), UNKNOWN_SINK
        self._begun(self._run, what)
        self._unread = (lambda: UNREAD), time.monotonic()
        declared = self._hosting.declared(row.query, row.cluster)
        return self._run, CheckedFollower(self._hosting.files, row, declared, self._check(row))

    def _is_held_elsewhere(self, query: str) -> bool:
        """Whether an operation holds another query of the application. Raises ``StoreError``."""
        row = self._hosting.store.assignment(query)
        return row is not None and row.desired is Desired.HELD

    def _start_all(self, members: Sequence["ExternalSupervisor"]) -> str:
        """Start the application for all of its queries, or join it. Raises ``NotReady``, and what forbids the start."""
        self._require_one_cluster(members)
        self._withdraw(members)
        with _all_beginning(members):
            self._take(members)
        status = self._run.look()
        if status.runs is None:
            raise RunError(f"it is unknown whether the application of {self.query} runs: {status.text}")
        if status.runs:
            for each in members:
                of_member(each.query, partial(each.require_started_here, status.identity))
            return "query joined"
        for each in members:
            of_member(each.query, each.make_ready)
        self._run_start(members)
        self._await_effect(members)
        return "query started"

    def _require_one_cluster(self, members: Sequence["ExternalSupervisor"]) -> None:
        """It is started on one cluster. A move of one query that failed behind its commit leaves two."""
        places = {each.query: each.row.cluster for each in members}
        if len(set(places.values())) > 1:
            where = " and ".join(f"{query} is on {cluster}" for query, cluster in places.items())
            raise RunError(
                f"the application of {self.query} is not started, because its queries have offsets of several "
                f"clusters: {where}",
                hint="move those that stayed behind by tideover failover QUERY --to CLUSTER",
            )

    def _check(self, row: Assignment) -> LogCheck | None:
        """Before the first move it reads the cluster that its own code or scheduler names."""
        log_of = self._hosting.log_of
        return None if row.mapping is None or log_of is None else LogCheck(row, log_of, self._run.begin_stop)

    def _new_state(self, identity: str | None = None) -> ApplicationState:
        return ApplicationState(
            self._commands, self._notes, self._application.stops, compares_identities=True, identity=identity
        )

    def _take(self, members: Sequence["ExternalSupervisor"], identity: str | None = None) -> None:
        """Look after a new run; what was seen of the one before counts for nothing. It is stopped if one is to stop."""
        state = self._new_state(identity)
        for each in members:
            each.take_run(ExternalRun(state))

    def beginning(self) -> contextlib.AbstractContextManager[None]:
        """Its application is about to write, and nothing proves yet that it does not. Raises ``RunFenced``."""
        return self._beginning()

    def take_run(self, run: ExternalRun) -> None:
        """Look after this run from here on."""
        with self._lock:
            former, self._run = self._run, run
            is_over = self._closing.is_set()
        former.leave()
        if is_over:
            run.begin_stop()

    def _withdraw(self, members: Sequence["ExternalSupervisor"]) -> None:
        """A start of which the effect was not seen is stopped, and seen to have ended, before there is another one.

        Raises ``RunFenced`` and ``CheckpointError``.
        """
        if not self._notes.is_unsettled:
            return
        with _all_beginning(members):
            self._take(members)
            try:
                self._commands.stop()
            except CommandFailed as error:
                self._log.warning("not stopped yet", error=str(error))
        self._log.warning("a start is taken back, because its effect was not seen")
        self._run.begin_stop()
        while self._run.unrest() is not None:
            _pause_unless_closing(members, "before it started")
        self._notes.settle()

    def make_ready(self) -> None:
        """Let its application start from the checkpoint. Raises ``CheckpointError``, and what forbids the start."""
        files, row = self._hosting.files, self._assignment
        self._permission.open_checkpoint()
        changed = rewrite_in_place(files, row, self._permission.require_row)
        self._log.info("checkpoint is ready for plain Spark", entries=changed, checkpoint=row.checkpoint)

    def require_still(self) -> None:
        """Its row and its cluster are still those of this run. Raises what forbids the start."""
        self._permission.require_cluster()
        self._permission.require_row()

    def _run_start(self, members: Sequence["ExternalSupervisor"]) -> None:
        """Run ``start``, noted before and behind it. Raises ``CommandFailed``, and what forbids the start."""
        with _all_beginning(members):
            self._notes.forget()
            self._notes.begin(COMMAND_SECONDS + EFFECT_SECONDS)
            try:
                for each in members:
                    of_member(each.query, each.require_still)
            except BaseException:
                self._notes.settle()
                raise
            seconds, identity = EFFECT_SECONDS, None
            self._application.stops.forget()
            try:
                identity = self._commands.start()
                if identity is not None:
                    self._notes.identify(identity)
                for each in members:
                    if each.row.mapping is not None:
                        self._notes.keep(each.row.mapping)
            except CommandCutOff:
                raise
            except CommandFailed:
                seconds = 0.0  # it said so itself: a stop is owed all the same
                raise
            finally:
                self._take(members, identity)
                self._notes.begin(seconds)

    def _await_effect(self, members: Sequence["ExternalSupervisor"]) -> None:
        """Until ``status`` says that it runs, on the offsets that were written for it.

        Raises ``RunFenced``, ``RunError`` where it does not run in time, and ``NotReady``.
        """
        try:
            for each in members:
                of_member(each.query, partial(require_rewritten, self._hosting.files, each.row))
        except NotReady:
            self._run.begin_stop()
            raise
        deadline = time.monotonic() + EFFECT_SECONDS
        while (status := self._run.look()).runs is not True:
            _pause_unless_closing(members, "while it started")
            if status.runs is False or time.monotonic() >= deadline:
                raise RunError(
                    f"start of the application of {self.query} returned, and status did not say that it runs"
                    f"{f': {status.text}' if status.text else ''}"
                )
        if status.identity is not None and self._notes.identity() is None:
            self._notes.identify(status.identity)
        self._notes.settle()

    def require_started_here(self, identity: str | None) -> None:
        """What runs behind a move must have been started behind it. Raises ``Contradicted``.

        Before the first move it reads the cluster that its own code or scheduler names. ``identity``: of what runs.
        """
        row, noted = self._assignment, self._notes.identity()
        is_another = identity is not None and noted not in {None, identity}
        if row.mapping is not None and (is_another or not self._notes.has(row.mapping)):
            raise Contradicted(
                f"the application of {row.query} runs, and Tideover did not start it on {row.cluster}: end it, and "
                "let nothing else start it"
            )

    def _query_id(self) -> str:
        """The id in its checkpoint, which a first start has yet to write. Raises ``RunFenced`` and ``RunError``."""
        query, deadline = self._assignment.query, time.monotonic() + EFFECT_SECONDS
        while (known := read_query_id(self._hosting.files, self._assignment.checkpoint)) is None:
            if self._closing.wait(LOOK_SECONDS):
                raise RunFenced(f"{query} was ordered to stop while it started")
            if not self._run.is_active or time.monotonic() >= deadline:
                raise RunError(f"the application of {query} was started, and its query did not begin")
        return known


@contextlib.contextmanager
def _all_beginning(members: Sequence[ExternalSupervisor]) -> Iterator[None]:
    """All of these are about to write. Raises ``NotReady`` for one that was ordered to stop."""
    with contextlib.ExitStack() as beginning:
        for each in members:
            of_member(each.query, partial(beginning.enter_context, each.beginning()))
        yield


def _pause_unless_closing(members: Sequence[ExternalSupervisor], when: str) -> None:
    """Raises ``NotReady`` for one that was ordered to stop."""
    for each in members:
        if each.is_closing:
            raise NotReady(each.query, RunFenced(f"{each.query} was ordered to stop {when}"))
    time.sleep(LOOK_SECONDS)
