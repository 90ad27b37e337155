"""What a runner does with the assignment rows, and why it leaves one alone."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError

from state.checkpoint_folders import is_copy
from state.errors import StoreError, TideoverError
from state.messages import FINISH_SECONDS
from state.model.entities import Assignment, Desired, Operation, OperationKind
from state.model.found_places import FoundPlace
from state.settings.canonical import canonical_path
from streaming.spark.authority import restore_mappings
from streaming.spark.checkpoint.log_fence import kept_by
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.errors import AssignmentMoved, CheckpointError
from streaming.spark.hosting import Hosting, about, absolute, logger_about
from streaming.spark.place import copied_row, find_place
from streaming.spark.query.query_report import QueryReport


@dataclass(frozen=True, slots=True)
class Start:
    """Begin hosting the query as this row says."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Stop:
    """End the hosted run of an epoch."""

    query: str
    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Start nothing: this row is older than one that was seen before. No other process may be there to say so."""

    assignment: Assignment
    seen: int
    """The newest epoch that was seen of the query."""

    def why(self, is_held: bool) -> str:
        """The reason, and what to do: an operation that holds the checkpoint has to be given up or followed."""
        row = self.assignment
        done = f"tideover reconcile {row.query}" if is_held else f"restart runner {row.runner} to continue from there"
        return (
            f"the store says epoch {row.epoch} of {row.query}, but said {self.seen} before: the store was restored "
            f"from an older backup; {done}"
        )


Action = Start | Stop | Skip


def decide_runs(
    runner: str,
    assignments: Iterable[Assignment],
    hosted: Mapping[str, Assignment],
    newest: Mapping[str, int],
    is_left_to_fence: Callable[[Assignment], bool] = lambda row: False,
    priority: Callable[[str], int] = lambda query: 0,
) -> list[Action]:
    """Compare the rows with those under which queries are ``hosted``, and with the newest epoch seen of each query.

    What is held under a row that ``is_left_to_fence`` continues: its fence stops it, or keeps it between two batches.

    Stops come first, then starts, those of a higher ``priority`` first. A query whose row is gone is left alone: a row
    is never deleted on purpose, and no news is no order. A row of an older store (``is_older``) stops nothing:
    what runs continues, and its reports show the controllers that the store is the older one. Where nothing runs, such
    a row starts nothing, and that is reported.
    """
    rows = {row.query: row for row in assignments}
    stops: list[Action] = []
    staying: set[str] = set()
    for query, under in hosted.items():
        row = rows.get(query)
        left = row is not None and row.desired is Desired.HELD and is_left_to_fence(row)
        why = None if row is None or left else _reason_to_stop(runner, row, under)
        if why is None:
            staying.add(query)
        else:
            stops.append(Stop(query, under.epoch, why))
    starts: list[Action] = [
        Start(row) if row.epoch >= newest.get(query, 0) else Skip(row, newest[query])
        for query, row in sorted(rows.items(), key=lambda each: (-priority(each[0]), each[0]))
        if query not in staying and _is_ours(runner, row)
    ]
    return stops + starts


def may_run(runner: str, row: Assignment | None, epoch: int, reported: int | None) -> bool:
    """Whether a start under this epoch is still what the row wants, and no runner reports a newer one."""
    return row is not None and row.epoch == epoch >= (reported or 0) and _is_ours(runner, row)


def _is_ours(runner: str, row: Assignment) -> bool:
    return row.runner == runner and row.desired is Desired.RUNNING


def is_older(row: Assignment, under: Assignment) -> bool:
    """Whether a row was stored before the one ``under`` which its query runs: the store was restored from a backup.

    A hold takes an epoch of its own, so a held row of the run's own epoch is the one from before its commit. Epochs
    alone do not show it for long, because a restored store counts on from its older one. But each commit places the
    query by a later epoch than the commit before. So a row of another place that was not placed later does not know of
    the run's commit. A row that ``reconcile`` wrote is newer all the same: a copy of the folder takes its place, and
    the positions still count.
    """
    held_before = row.epoch == under.epoch and row.desired is Desired.HELD
    place, runs = ((each.cluster, canonical_path(each.checkpoint), each.mapping) for each in (row, under))
    elsewhere = place != runs and row.placed_epoch <= under.placed_epoch
    return row.epoch < under.epoch or held_before or (elsewhere and not _names_copy(row, under))


def _names_copy(row: Assignment, under: Assignment) -> bool:
    """Whether ``reconcile`` wrote the row, for a copy of the folder elsewhere; moves and aborts are operations."""
    by_person = row.operation is None and row.desired is Desired.RUNNING and row.epoch > under.epoch
    stays = (row.cluster, row.mapping) == (under.cluster, under.mapping)
    return by_person and stays and is_copy(row.checkpoint, under.checkpoint)


def _reason_to_stop(runner: str, row: Assignment, under: Assignment) -> str | None:
    if is_older(row, under):
        return None
    if row.epoch > under.epoch:
        return f"epoch {under.epoch} is over, the assignment is at {row.epoch}"
    return f"runner {row.runner} has it now" if row.runner != runner else None


_HOLD_WITHIN_SECONDS = 3.0
"""As long as a fence waits for a proof: by then it wants the run again, or gives the order to another runner."""


class FenceWait:
    """Which held queries continue. A planned move stops its query between two batches, by a fence that it orders, and a
    query that changes clusters in its run is not stopped at all.

    Not for ever: it may order that from another runner, because this one was silent.
    """

    def __init__(
        self,
        operation_of: Callable[[str], Operation | None],
        monotonic: Callable[[], float] = time.monotonic,
        may_be_held: Callable[[Operation], bool] = lambda operation: False,
        is_held: Callable[[str], bool] = lambda query: False,
    ) -> None:
        """``may_be_held``: whether a move can be made in its query's run; ``is_held``: whether a query's waits so."""
        self._operation_of = operation_of
        self._is_held = is_held
        self._may_be_held = may_be_held
        self._monotonic = monotonic
        self._until: dict[str, float] = {}
        """By operation that holds a query, until when its fence is waited for, on the monotonic clock."""

    def goes_on(self, row: Assignment) -> bool:
        """Whether what is held under this row is left to its fence."""
        operation = row.operation or ""
        if self._is_held(row.query):
            return True
        if operation not in self._until:
            self._until[operation] = self._monotonic() + self._seconds(self._operation_of(operation))
        return self._monotonic() < self._until[operation]

    def _seconds(self, operation: Operation | None) -> float:
        if operation is None:
            return 0.0
        if operation.kind is not OperationKind.FAILOVER:
            return FINISH_SECONDS
        return _HOLD_WITHIN_SECONDS if self._may_be_held(operation) else 0.0


_AGAIN_SECONDS = 5.0


class SkippedAssignments:
    """Reports each such query at once and every few seconds, off the runner's loop: a checkpoint may answer slowly.

    It says what holds the checkpoint. No other process may be left to say so: the store does not know the newer row,
    and what ran has stopped because of it.
    """

    def __init__(self, hosting: Hosting, is_quiet: Callable[[str], bool]) -> None:
        self._hosting = hosting
        self._is_quiet = is_quiet
        self._begun: dict[str, float] = {}
        self._said: dict[str, str] = {}

    def report(self, refrain: Skip) -> None:
        """Log and report it, unless that was done a moment ago or something of the query is still to stop here."""
        query, now = refrain.assignment.query, time.monotonic()
        if now - self._begun.get(query, -_AGAIN_SECONDS) < _AGAIN_SECONDS or not self._is_quiet(query):
            return
        self._begun[query] = now
        threading.Thread(target=self._report_state, args=(refrain,), name=f"refrain {query}", daemon=True).start()

    def _report_state(self, refrain: Skip) -> None:
        row = refrain.assignment
        try:
            held = kept_by(self._hosting.files, row.checkpoint, Placed.of(row).epoch)
        except (CheckpointError, Py4JError):
            return  # said when it can be read
        why = refrain.why(held is not None)
        if self._said.get(row.query) != why:
            self._said[row.query] = why
            logger_about(about(row)).warning("query not started", why=why)
        ledger = QueryReport(self._hosting, row)
        try:
            ledger.announce()
        except (AssignmentMoved, StoreError):
            return  # a runner reports a newer epoch, or the store is away
        ledger.failed(why, held)


LOOK_SECONDS = 5.0
"""How often one query is looked for, and how long it must have been held before the first look: a move takes less."""


class PlaceReports:
    """Reports where a query is that this runner is to run and does not, as its checkpoint shows it.

    A store that was restored from an older backup does not know where its queries went. Where a runner that ran one is
    still there, its own report shows it. One that was restarted knows no more than the store; but it can read the
    files. Each look has a thread of its own: a file system may answer slowly, or not at all.
    """

    def __init__(
        self, hosting: Hosting, hosts: Callable[[str], bool], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """``hosts``: whether a run of a query is here."""
        self._hosting = hosting
        self._hosts = hosts
        self._monotonic = monotonic
        self._held: dict[tuple[str, int], float] = {}
        """By query and epoch of its row, since when it was seen to be held."""
        self._begun: dict[tuple[str, int], float] = {}
        self._busy: set[str] = set()

    def see(self, rows: Iterable[Assignment]) -> None:
        """Look for the queries of this runner that are held and not hosted here."""
        now, runner = self._monotonic(), self._hosting.runner
        held = [row for row in rows if row.runner == runner and row.desired is Desired.HELD]
        since = {(row.query, row.epoch): self._held.get((row.query, row.epoch), now) for row in held}
        self._held = since
        for row in held:
            if now - since[row.query, row.epoch] >= LOOK_SECONDS and not self._hosts(row.query):
                self.look(row)

    def look(self, row: Assignment) -> None:
        """Look for a query now, unless that was done a moment ago beside the same row."""
        now, key = self._monotonic(), (row.query, row.epoch)
        declared = row.query in self._hosting.settings.queries
        if not declared or row.query in self._busy or now - self._begun.get(key, -LOOK_SECONDS) < LOOK_SECONDS:
            return
        self._begun[key] = now
        self._busy.add(row.query)
        threading.Thread(target=self._report, args=(row,), name=f"place of {row.query}", daemon=True).start()

    def _report(self, row: Assignment) -> None:
        try:
            self._hosting.store.report_place(found_place(self._hosting, row))
        except (StoreError, TideoverError, Py4JError) as error:
            logger_about(about(row)).info("place not reported", error=str(error))
        finally:
            self._busy.discard(row.query)


def found_place(hosting: Hosting, row: Assignment) -> FoundPlace:
    """Read where a query is, beside what its row says.

    A copy of its folder may lack what lay beside the checkpoint: the mappings that the store has are written there.
    """
    base = absolute(hosting.query(row.query).checkpoint, hosting.base)
    with contextlib.suppress(CheckpointError):  # then the place says what is missing
        copied = copied_row(hosting.files, base, row)
        if copied is not None:
            restore_mappings(hosting.files, copied.row, hosting.store)
    place = find_place(hosting.files, base, row)
    return FoundPlace(
        query=row.query,
        runner=hosting.runner,
        instance=hosting.instance,
        row_epoch=row.epoch,
        row_held=row.desired is Desired.HELD,
        checkpoint=place.checkpoint,
        cluster=place.cluster,
        mapping=place.mapping,
        batch=place.batch,
        epoch=place.epoch,
        moved_by=place.moved_by,
        held_by=place.held_by.operation if place.held_by is not None else None,
        held_epoch=place.held_by.epoch if place.held_by is not None else None,
        text=place.text,
        found_at=hosting.now(),
    )
