"""A run as it goes: what its checkpoint and Spark show of it is passed to the tracker, and reported to the store."""

import contextlib
import threading
import time
from datetime import timedelta

import structlog
from py4j.protocol import Py4JError

from state.errors import TideoverError
from state.messages import Offsets
from state.model.entities import BucketRules
from streaming.spark.checkpoint.batch_news import PublishedEntry
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.checkpoint.retained import retained_since
from streaming.spark.hosting import Hosting, Subject
from streaming.spark.known_files import missing_since
from streaming.spark.query.query_report import QueryReport, Totals, rows_by_source
from streaming.spark.query.query_run import Run

_SILENT = timedelta(seconds=3)
"""A cluster that takes longer for an answer is reported; on a busy machine one takes a second."""
_REPORT_SECONDS = 1.0
_RETAINED_SECONDS = 10.0
"""How often a query with state reports how far back its checkpoint reaches: two listings and one small file."""
_FILES_SECONDS = 30.0
"""How often it is looked whether every file is there that a start needs: three listings and a few small files."""
_RULES_SECONDS = 3600.0
"""How often the rules of a bucket are read: they act once a day."""
_KEPT_BATCHES = 12


class RunMonitor:
    """Looks at one run; ``poll`` is called again and again."""

    def __init__(
        self,
        hosting: Hosting,
        subject: Subject,
        run: Run,
        follower: Follower,
        ledger: QueryReport,
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
        self._totals = Totals(batch=follower.committed)  # a run that was sent on reports its batches of before as well
        self._reported = 0.0
        self._inspected = False
        self._keeps_state = False
        self._reported_retained = -_RETAINED_SECONDS
        self._looked_at_files = time.monotonic()
        self._rules: BucketRules | None = None
        self._rules_read: float | None = None
        self._published: list[PublishedEntry] = []

    @property
    def committed_any(self) -> bool:
        """Whether this run committed a batch."""
        return self._follower.committed != self._began_at

    def wait(self, over: threading.Event, seconds: float) -> None:
        """Wait for the run's next entry, where it reports that, or for ``over``; at most so long. Py4j's errors."""
        if self._run.news is None:
            over.wait(seconds)
        else:
            self._published += self._run.news.take(seconds)

    def close(self) -> None:
        """Follow the run no longer."""
        if self._run.news is not None:
            with contextlib.suppress(Py4JError):
                self._run.news.close()

    def poll(self) -> None:
        """One look. Raises ``CheckpointError`` and py4j's errors; looking again is always right."""
        news = False
        published, self._published = self._published, []
        if self._run.news is not None:
            published += self._run.news.take(0)
        for batch in self._follower.poll(None if self._run.news is None else published):
            self._offsets[batch.id] = batch.offsets
            self._hosting.listener.see(self._subject, batch)
            self._ledger.has_batch(batch.id, committed=batch.committed)
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
            silence = self._run.silence()
            self._ledger.waits(silence if silence is not None and silence >= _SILENT else None)
            self._inspect()
            self._report_retained()
            self._look_at_files()
            self._read_rules()
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
                self._hosting.listener.count(self._subject, batch, rows_by_source(report, self._offsets[batch]))
        if before.input_rows is None and self._totals.input_rows is not None:
            self._inspect()

    def _inspect(self) -> None:
        """Learn once whether the query keeps state; its operators are in the checkpoint after the first batch."""
        if self._inspected or self._follower.committed is None:
            return
        declared = self._hosting.declared(self._subject.query, self._subject.cluster)
        try:
            report = read_checkpoint(
                self._hosting.files, self._subject.checkpoint, declared, placed=self._subject.placed
            )
            self._ledger.inspected(report)
            self._keeps_state = report.stateful
        except TideoverError as error:
            self._log.warning("checkpoint cannot be inspected", error=str(error))
        self._inspected = True

    def _report_retained(self) -> None:
        """Before anything is stopped a rewind has to know how far back it can go."""
        if not self._keeps_state or time.monotonic() - self._reported_retained < _RETAINED_SECONDS:
            return
        try:
            subject = self._subject
            self._ledger.retains(retained_since(self._hosting.files, subject.checkpoint, subject.placed))
        except TideoverError as error:
            self._log.warning("checkpoint cannot be listed", error=str(error))
        self._reported_retained = time.monotonic()

    def _look_at_files(self) -> None:
        """A run needs few of its files; what was deleted in between is named before a start needs it."""
        if time.monotonic() - self._looked_at_files < _FILES_SECONDS:
            return
        subject = self._subject
        try:
            said = missing_since(self._hosting.files, subject.checkpoint, subject.placed, self._ledger.seen)
            self._ledger.lacks(said)
        except TideoverError as error:
            self._log.warning("checkpoint cannot be looked through", error=str(error))
        self._looked_at_files = time.monotonic()

    def _read_rules(self) -> None:
        """On a thread of its own: a store that is away answers after minutes, and commits have to be watched."""
        if self._rules_read is None or time.monotonic() - self._rules_read >= _RULES_SECONDS:
            self._rules_read = time.monotonic()
            threading.Thread(target=self._take_rules, name="bucket rules", daemon=True).start()
        self._ledger.kept_by(self._rules)

    def _take_rules(self) -> None:
        self._rules = self._hosting.bucket_rules(self._subject.checkpoint)

    def _forget_old(self) -> None:
        for batch in sorted(self._offsets)[:-_KEPT_BATCHES]:
            del self._offsets[batch]
