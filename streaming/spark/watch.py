"""Looks at one run: what its checkpoint says, what Spark counted, and hands both on."""

import time

import structlog

from state.errors import TideoverError
from state.protocol import Offsets
from streaming.spark.checkpoint import read_checkpoint
from streaming.spark.facts import Ledger
from streaming.spark.follow import Follower
from streaming.spark.hosting import Hosting, Subject
from streaming.spark.progress import Totals, rows_by_source
from streaming.spark.run import Run

_REPORT_SECONDS = 1.0
_KEPT_BATCHES = 12


class Watch:
    """One run as it goes; ``look`` is called again and again."""

    def __init__(
        self,
        hosting: Hosting,
        subject: Subject,
        run: Run,
        follower: Follower,
        ledger: Ledger,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._hosting = hosting
        self._subject = subject
        self._run = run
        self._follower = follower
        self._ledger = ledger
        self._log = log
        self._began_at = follower.committed
        self._offsets: dict[int, Offsets] = {}
        self._totals = Totals()
        self._reported = 0.0
        self._inspected = False

    @property
    def committed_any(self) -> bool:
        """Whether this run committed a batch."""
        return self._follower.committed != self._began_at

    def look(self) -> None:
        """One look. Raises ``CheckpointError`` and py4j's errors; looking again is always right."""
        news = False
        for batch in self._follower.look():
            self._offsets[batch.id] = batch.offsets
            self._hosting.watch.see(self._subject, batch)
            if batch.committed:
                self._ledger.committed(batch.id, batch.offsets, fresh=batch.id >= self._follower.data_batch)
                news = True
        if news:
            self._ledger.report()
            self._forget_old()
        due = time.monotonic() - self._reported >= _REPORT_SECONDS
        if due or self._uncounted:
            self._count()
        if news or (self._ledger.has_progressed and not due):
            return
        is_waiting = self._run.is_waiting
        if is_waiting:
            self._ledger.waiting()
        if due or is_waiting:
            self._inspect()
            self._ledger.report()
            self._reported = time.monotonic()

    @property
    def _uncounted(self) -> bool:
        """Spark reports a batch a moment after it committed it."""
        return self.committed_any and self._totals.batch != self._follower.committed

    def _count(self) -> None:
        newest = self._run.last_progress()
        if newest is None or newest["batchId"] == self._totals.batch:
            return
        known = -1 if self._totals.batch is None else self._totals.batch
        reports = [newest] if newest["batchId"] <= known + 1 else self._run.progress()
        before, self._totals = self._totals, self._totals.after(reports)
        self._ledger.counted(self._totals)
        for report in reports:
            batch = report["batchId"]
            if (
                batch in self._offsets
                and batch > known
                and self._totals.batch is not None
                and batch <= self._totals.batch
            ):
                self._hosting.watch.count(self._subject, batch, rows_by_source(report, self._offsets[batch]))
        if before.batch is None and self._totals.batch is not None:
            self._inspect()

    def _inspect(self) -> None:
        """Learn once whether the query keeps state; its operators are in the checkpoint after the first batch."""
        if self._inspected or self._follower.committed is None:
            return
        declared = self._hosting.declared(self._subject.query, self._subject.cluster)
        try:
            self._ledger.inspected(read_checkpoint(self._hosting.files, self._subject.checkpoint, declared))
        except TideoverError as error:
            self._log.warning("checkpoint cannot be inspected", error=str(error))
        self._inspected = True

    def _forget_old(self) -> None:
        for batch in sorted(self._offsets)[:-_KEPT_BATCHES]:
            del self._offsets[batch]
