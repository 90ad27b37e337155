"""Keeps what a runner reports of one query, and reports it without ever being in the way of the query."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from state.errors import StoreError
from state.messages import CheckpointReport, Offsets
from state.model.column_uses import ColumnUses
from state.model.entities import COMPLETE, Assignment, BucketRules, QueryFact, RunState, SeenCheckpoint
from state.model.measured import NO_ROWS, BatchRows, RowCounts
from streaming.spark.checkpoint.log_text import Fence, without_mark
from streaming.spark.errors import AssignmentMoved
from streaming.spark.hosting import Hosting, known_offsets
from streaming.spark.query.sink_memory import SinkWatch

Report = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What a run's batches did so far.

    They are added up from Spark's progress reports. A report of a batch that ran has ``addBatch`` among its durations;
    idle triggers report too, with the id of the batch that comes next.
    """

    batch: int | None = None
    """The newest batch that is counted in."""
    input_rows: int | None = None
    dropped_late_rows: int | None = None
    rows: RowCounts = NO_ROWS
    seconds: float | None = None
    """Duration of the newest batch."""

    def after(self, reports: Iterable[Report]) -> "Totals":
        """The totals with every batch counted in that is newer than those before."""
        totals = self
        for report in reports:
            batch = report["batchId"]
            if "addBatch" in report["durationMs"] and (totals.batch is None or batch > totals.batch):
                totals = replace(
                    totals,
                    batch=batch,
                    input_rows=(totals.input_rows or 0) + int(report["numInputRows"]),
                    dropped_late_rows=(totals.dropped_late_rows or 0) + _dropped(report),
                    rows=totals.rows.after(_rows(report)),
                    seconds=report["durationMs"].get("triggerExecution", 0) / 1000,
                )
        return totals


def rows_by_source(report: Report, offsets: Offsets) -> dict[str, int]:
    """Rows that a batch read per declared source, which a report knows by the end of its offsets only."""
    found: dict[str, int] = {}
    for source in report["sources"]:
        end = source["endOffset"]
        end = json.loads(end) if isinstance(end, str) else end
        end = without_mark(end) if isinstance(end, dict) else end
        names = [name for name, own in offsets.items() if own == end]
        if len(names) == 1:
            found[names[0]] = int(source["numInputRows"])
    return found


def _rows(report: Report) -> BatchRows:
    written = int((report.get("sink") or {}).get("numOutputRows", -1))
    return BatchRows(
        batch=report["batchId"],
        read=int(report["numInputRows"]),
        written=written if written >= 0 else None,
        dropped=_dropped(report),
    )


def _dropped(report: Report) -> int:
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in report.get("stateOperators", ()))


log = structlog.get_logger()


class QueryReport:
    """The latest fact of one hosted query; a store that is away costs the report, not the query."""

    def __init__(self, hosting: Hosting, assignment: Assignment) -> None:
        self._hosting = hosting
        self._unreported = False
        self._announced = False
        self._query_id: str | None = None
        process = hosting.process
        self._fact = QueryFact(
            query=assignment.query,
            runner=process.runner,
            instance=process.instance,
            host=process.host,
            boot_id=process.boot_id,
            pid=process.pid,
            pid_started=process.pid_started,
            spark_master=process.spark_master,
            application_id=process.application_id,
            pod=process.pod,
            epoch=assignment.epoch,
            cluster=assignment.cluster,
            checkpoint=assignment.checkpoint,
            state=RunState.STARTING,
            run_id=None,
            batch=None,
            offsets=None,
            started_at=None,
            first_commit_at=None,
            progressed_at=None,
            input_rows=None,
            dropped_late_rows=None,
            stateful=None,
            deduplicates_ahead=None,
            error=None,
            held_by=None,
            held_epoch=None,
            reported_at=hosting.now(),
            mapping=assignment.mapping,
        )
        self.sink: SinkWatch | None = None
        """Set before a run begins, where its sink can be read."""

    @property
    def first_commit_seen(self) -> bool:
        return self._fact.first_commit_at is not None

    @property
    def has_progressed(self) -> bool:
        """Whether the present run has read something, or found nothing new to read."""
        return self._fact.progressed_at is not None

    def announce(self) -> None:
        """Say that a run will be started, before it is: from now on this process is the one to be proven quiet.

        The error of the last run, if it had any, stays until a batch commits. Raises ``StoreError``, and
        ``AssignmentMoved`` when the query is under a newer epoch already, or another process has our name.
        """
        self._fact = replace(
            self._fact, state=RunState.STARTING, run_id=None, started_at=None, first_commit_at=None, progressed_at=None
        )
        self._fact = replace(self._fact, input_rows=None, dropped_late_rows=None, rows=None, silent_since=None)
        self._fact = replace(self._fact, sink_took=None)
        self._fact = replace(self._fact, reported_at=self._hosting.now())
        self._announced = True  # also where the store has it and we do not hear of that
        if not self._hosting.store.report_query(self._fact):
            raise AssignmentMoved(
                f"{self._fact.query}: epoch {self._fact.epoch} has ended, or this process has lost the "
                f"name {self._fact.runner}"
            )

    def started(self, run_id: str, query_id: str | None = None) -> None:
        self._query_id = query_id
        self._fact = replace(self._fact, state=RunState.RUNNING, run_id=run_id, started_at=self._hosting.now())
        self._fact = replace(self._fact, contradicted=None)
        self.report()

    def has_batch(self, batch: int, *, committed: bool) -> None:
        """A batch is in the offset log of the checkpoint, or in both its logs: what the files must hold from now on."""
        fact = self._fact
        before = fact.seen or SeenCheckpoint(fact.checkpoint, fact.epoch, batch, None, None, None)
        seen = before.with_batch(batch, committed=committed)._replace(query_id=self._query_id, stateful=fact.stateful)
        self._fact = replace(fact, seen=seen)

    def begins_in(self, seen: SeenCheckpoint) -> None:
        """How many runs ended in the batch that the next run begins with, before that run may end. Raises what
        ``announce`` raises.
        """
        self._fact = replace(self._fact, seen=seen)
        self.announce()

    def committed(self, batch: int, offsets: Offsets, *, fresh: bool) -> None:
        """A batch was committed; ``fresh``: this run committed it, and new data was possible in it."""
        now = self._hosting.now()
        if fresh and self._fact.first_commit_at is None:
            took = None if self.sink is None else self.sink.took(batch)
            self._fact = replace(self._fact, first_commit_at=now, sink_took=took)
        self._fact = replace(self._fact, batch=batch, offsets=known_offsets(offsets))
        if fresh:
            self._progressed(now)

    def waiting(self) -> None:
        """The run looked at its sources and found nothing new: progress, too, for an idle topic is not a dead one."""
        self._progressed(self._hosting.now())

    def _progressed(self, at: datetime) -> None:
        self._fact = replace(self._fact, progressed_at=at, silent_since=None, error=None, held_by=None, held_epoch=None)

    def counted(self, totals: Totals) -> None:
        self._fact = replace(
            self._fact,
            input_rows=totals.input_rows,
            dropped_late_rows=totals.dropped_late_rows,
            rows=totals.rows if totals.input_rows is not None else None,
        )

    def understood(self, columns: ColumnUses | None) -> None:
        """Where the plan of the present run uses columns of its cluster; None leaves what was reported before."""
        self._fact = replace(self._fact, columns=columns)

    def writes_to(self, sink: str | None) -> None:
        """Through which sink the present run writes; None leaves what was reported before."""
        self._fact = replace(self._fact, sink=sink)

    def inspected(self, report: CheckpointReport) -> None:
        self._fact = replace(self._fact, stateful=report.stateful, deduplicates_ahead=report.deduplicates_ahead)
        if self._fact.seen is not None:
            self._fact = replace(self._fact, seen=self._fact.seen._replace(stateful=report.stateful))

    def waits(self, silence: timedelta | None) -> None:
        """For how long the run has waited for its cluster; None: it answers. To wait is no progress."""
        since = None if silence is None else self._hosting.now() - silence
        self._fact = replace(self._fact, silent_since=since)

    @property
    def seen(self) -> SeenCheckpoint | None:
        """How far the checkpoint was in the present process; None before its first batch."""
        return self._fact.seen

    def lacks(self, contradicted: str | None) -> None:
        """Why the query could not be started again from its files; None where all of them are there."""
        self._fact = replace(self._fact, contradicted=contradicted)

    def kept_by(self, bucket: BucketRules | None) -> None:
        """What the lifecycle of its bucket does with the checkpoint; None where it has none."""
        self._fact = replace(self._fact, bucket=bucket)

    def retains(self, since_ms: int | None) -> None:
        """How far back the checkpoint reaches: when its oldest batch was planned."""
        since = None if since_ms is None else datetime.fromtimestamp(since_ms / 1000, UTC)
        self._fact = replace(self._fact, retained_from=since)

    def failed(self, error: str, held: Fence | None, contradicted: str | None = None) -> None:
        """The run ended, or could not begin; ``held`` names whose planted entries it met, if it met any.

        ``contradicted``: why its checkpoint cannot be what the query wrote.
        """
        operation, epoch = (held.operation, held.epoch) if held is not None else (None, None)
        self._fact = replace(
            self._fact, state=RunState.FAILED, silent_since=None, error=error, held_by=operation, held_epoch=epoch
        )
        self._fact = replace(self._fact, contradicted=contradicted)
        if contradicted is not None:
            self._fact = replace(self._fact, seen=None)  # the store has it, until a person accepts the files
        self.report()

    def restless(self, unrest: str) -> None:
        """It was ordered to stop long ago, and something of it still runs."""
        self._fact = replace(self._fact, error=f"ordered to stop, but {unrest}")
        self.report()

    def stopped(self) -> None:
        """It is quiet for good: a fence believes this, so nothing else may call it."""
        self._fact = replace(self._fact, state=RunState.STOPPED, silent_since=None)
        self.report()

    def finished(self) -> None:
        """Its run has ended as its application wanted and is quiet; a fence believes this, too."""
        self._fact = replace(
            self._fact, state=RunState.FINISHED, silent_since=None, error=None, held_by=None, held_epoch=None
        )
        self.report()

    def awaited(self) -> None:
        """The application of a run that has finished ends, and its next start is awaited."""
        if self._fact.state is RunState.FINISHED:
            self._fact = replace(self._fact, state=RunState.AWAITED)
            self.report()

    def awaited_behind_restart(self) -> None:
        """The same of a run that finished before this process replaced one that died. Raises ``StoreError``."""
        stored = next(iter(self._hosting.store.query_facts(query=self._fact.query)), None)
        own = (self._fact.runner, self._fact.instance, self._fact.epoch)
        if stored is not None and (stored.runner, stored.instance, stored.epoch) == own:
            self._fact, self._announced = stored, True
            self.awaited()

    @property
    def has_begun(self) -> bool:
        """Whether a run was announced here."""
        return self._announced

    @property
    def is_finished(self) -> bool:
        """Whether the newest run here has ended as its application wanted."""
        return self._fact.state in COMPLETE

    def report(self) -> None:
        """Write the fact; what could not be written is written with the next one."""
        if not self._announced:
            return  # nothing was begun, so there is nothing to report
        self._fact = replace(self._fact, reported_at=self._hosting.now())
        try:
            self._hosting.store.report_query(self._fact)
        except StoreError:
            self._unreported = True  # the runner's loop says once that the store is away
        else:
            self._unreported = False

    @property
    def is_behind(self) -> bool:
        """Whether the last report was lost, and is worth another try."""
        return self._unreported
