"""Counts the runs of a query that ended in one planned batch, and cuts the batch where it is too large for its driver.

Counted before each start, in the store, so that a driver that was killed counts too. A run that could not reach its
cluster counts as well: cutting changes no record that the query reads, only how many come at once. Without
``policy.catch_up_batch`` nothing is cut: the count is in ``show``.
"""

from collections.abc import Callable

from state.messages import CheckpointReport, SinkMemory, SinkState
from state.model.entities import Assignment, Event, SeenCheckpoint, are_accepted
from state.settings.canonical import are_one_folder
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.hosting import Hosting, about, logger_about
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.query_report import QueryReport
from streaming.spark.query.sink_memory import Tables, WrittenTo
from streaming.spark.recut import UnfinishedBatch, cut_to, objection, read_unfinished, write_cut

BATCH_CUT, BATCH_NOT_CUT = "batch-cut", "batch-not-cut"


def ended_in(seen: SeenCheckpoint | None, checkpoint: str, batch: int) -> int:
    """How many runs ended in a batch that is planned and not committed, the one that planned it included."""
    same = seen is not None and are_one_folder(seen.checkpoint, checkpoint) and seen.planned == batch
    return 1 + (seen.ended_in_batch if same and seen is not None else 0)


class UnfinishedBatches:
    """Of one query under one row."""

    def __init__(self, hosting: Hosting, row: Assignment, report: QueryReport, tables: Tables) -> None:
        self._hosting = hosting
        self._row = row
        self._report = report
        self._tables = tables
        self._log = logger_about(about(row))

    def before_start(
        self, committed: int | None, sink: WrittenTo, callbacks: CallbackGate | None, still: Callable[[], None]
    ) -> None:
        """Count, and cut where that is due. ``callbacks``: of the run before, if this process had one.

        ``still`` raises where nothing may be started any more. Raises ``CheckpointError``, ``StoreError`` and what
        ``still`` raises; the entry is whole then.
        """
        row, files = self._row, self._hosting.files
        unfinished = read_unfinished(files, row.checkpoint, Placed.of(row), committed)
        if unfinished is None:
            return
        stored = next((fact.seen for fact in self._hosting.store.query_facts(query=row.query)), None)
        seen = self._report.seen or stored
        if are_accepted(row, seen):
            return  # what a person accepted stays accepted until a run has begun
        ended = ended_in(seen, row.checkpoint, unfinished.batch)
        self._report.begins_in(self._counted(seen, unfinished, ended))
        if ended >= self._hosting.settings.policy_of(row.query).recut_after:
            self._cut(unfinished, ended, sink, callbacks, still)

    def _counted(self, seen: SeenCheckpoint | None, unfinished: UnfinishedBatch, ended: int) -> SeenCheckpoint:
        row, batch = self._row, unfinished.batch
        if seen is None or not are_one_folder(seen.checkpoint, row.checkpoint):
            seen = SeenCheckpoint(row.checkpoint, row.epoch, batch, batch - 1 if batch else None, None, None)
        return seen._replace(epoch=row.epoch, planned=batch, ended_in_batch=ended)

    def _cut(
        self,
        unfinished: UnfinishedBatch,
        ended: int,
        sink: WrittenTo,
        callbacks: CallbackGate | None,
        still: Callable[[], None],
    ) -> None:
        row, policy = self._row, self._hosting.settings.policy_of(self._row.query)
        limit = policy.catch_up_batch
        begun = f"{ended} runs of {row.query} ended in batch {unfinished.batch}"
        cut = None if limit is None else cut_to(unfinished, limit)
        if limit is None:
            why: str | None = "policy.catch_up_batch is not set"
        elif cut is None:
            within = f"no Kafka source has more records in it than policy.catch_up_batch, which is {limit}"
            why = within if unfinished.is_counted else "it is unknown where each of its partitions begins"
        else:
            why = self._objection(unfinished.batch, sink, callbacks)
        if cut is None or why is not None:
            self._log.warning("planned batch not cut", batch=unfinished.batch, ended=ended, reason=why)
            if limit is not None and ended == policy.recut_after:
                self._note(BATCH_NOT_CUT, f"{begun}; it is not cut: {why}", {"batch": unfinished.batch})
            return
        still()
        detail = {"batch": cut.batch, "records": cut.records, "kept": cut.kept, "former": cut.former.decode()}
        self._note(BATCH_CUT, f"{begun}; it is cut from {cut.records} to {cut.kept} records", detail)
        self._log.warning("planned batch cut", batch=cut.batch, ended=ended, records=cut.records, kept=cut.kept)
        write_cut(self._hosting.files, row.checkpoint, cut, row.epoch, still)

    def _objection(self, batch: int, sink: WrittenTo, callbacks: CallbackGate | None) -> str | None:
        report = self._read(sink)
        planned = report.planned
        if planned is not None and sink.memory is SinkMemory.OWN_CODE and callbacks is not None:
            state = callbacks.sink_state(batch)
            planned = planned if state is SinkState.UNKNOWN else planned.model_copy(update={"sink": state})
            report = report.model_copy(update={"planned": planned})
        return objection(report, self._hosting.query(self._row.query).sink)

    def _read(self, sink: WrittenTo) -> CheckpointReport:
        row = self._row
        declared = self._hosting.declared(row.query, row.cluster)
        report = read_checkpoint(
            self._hosting.files, row.checkpoint, declared, file_sink=sink.folder, placed=Placed.of(row)
        )
        return self._tables.with_sink(report, sink)

    def _note(self, kind: str, text: str, detail: dict[str, object]) -> None:
        row = self._row
        self._hosting.store.note(
            Event(
                sequence=None,
                at=self._hosting.now(),
                kind=kind,
                query=row.query,
                operation=None,
                epoch=row.epoch,
                actor=f"runner {self._hosting.runner}",
                text=text,
                detail=detail,
            )
        )
