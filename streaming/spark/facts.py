"""Keeps what a runner reports of one query, and reports it without ever being in the way of the query."""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from state.errors import StoreError
from state.model import Assignment, QueryFact, RunState
from state.protocol import CheckpointReport, Offsets
from streaming.spark.hosting import Hosting, known_offsets
from streaming.spark.progress import Totals

log = structlog.get_logger()


class Ledger:
    """The latest fact of one hosted query; a store that is away costs the report, not the query."""

    def __init__(self, hosting: Hosting, assignment: Assignment) -> None:
        self._hosting = hosting
        self._unreported = False
        self._fact = QueryFact(
            query=assignment.query,
            runner=hosting.runner,
            instance=hosting.instance,
            epoch=assignment.epoch,
            cluster=assignment.cluster,
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
            reported_at=hosting.now(),
        )

    @property
    def first_commit_seen(self) -> bool:
        return self._fact.first_commit_at is not None

    def starting(self) -> None:
        """A new run begins; its error, if the last one had any, stays until a batch commits."""
        self._fact = replace(
            self._fact, state=RunState.STARTING, run_id=None, started_at=None, first_commit_at=None, progressed_at=None
        )
        self._fact = replace(self._fact, input_rows=None, dropped_late_rows=None)
        self.report()

    def started(self, run_id: str) -> None:
        self._fact = replace(self._fact, state=RunState.RUNNING, run_id=run_id, started_at=self._hosting.now())
        self.report()

    def committed(self, batch: int, offsets: Offsets, *, fresh: bool) -> None:
        """A batch was committed; ``fresh``: this run committed it, and new data was possible in it."""
        now = self._hosting.now()
        first = self._fact.first_commit_at or (now if fresh else None)
        self._fact = replace(self._fact, batch=batch, offsets=known_offsets(offsets), first_commit_at=first)
        if fresh:
            self._fact = replace(self._fact, progressed_at=now, error=None)

    def waiting(self) -> None:
        """The run asked its sources and found nothing new: progress, too, for an idle topic is not a dead one."""
        self._fact = replace(self._fact, progressed_at=self._hosting.now(), error=None)

    def counted(self, totals: Totals) -> None:
        self._fact = replace(self._fact, input_rows=totals.input_rows, dropped_late_rows=totals.dropped_late_rows)

    def inspected(self, report: CheckpointReport) -> None:
        self._fact = replace(self._fact, stateful=report.stateful, deduplicates_ahead=report.deduplicates_ahead)

    def failed(self, error: str) -> None:
        self._fact = replace(self._fact, state=RunState.FAILED, error=error)
        self.report()

    def stopped(self) -> None:
        self._fact = replace(self._fact, state=RunState.STOPPED)
        self.report()

    def report(self) -> None:
        """Write the fact; what could not be written is written with the next one."""
        self._fact = replace(self._fact, reported_at=self._hosting.now())
        try:
            self._hosting.store.report_query(self._fact)
        except StoreError:
            self._unreported = True  # the runner's loop says once that the store is away
        else:
            self._unreported = False

    @property
    def is_behind(self) -> bool:
        """Whether the last report was lost."""
        return self._unreported


def bound(fields: Mapping[str, object]) -> structlog.stdlib.BoundLogger:
    """A logger that says whom a line is about."""
    return log.bind(**fields)  # type: ignore[no-any-return] # structlog types its loggers at run time
