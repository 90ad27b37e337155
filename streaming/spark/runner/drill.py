"""Rehearses a query on its standby: one batch from a copy of its checkpoint, with no sink, and nothing left behind.

It runs beside the query that it rehearses, on the thread of its own intent, so no fence waits for it. It holds nothing
and reports no batch, position or fact of the query: a reader of those must not take a rehearsal for the query. What
it may read is limited, and one run is started after the other until one batch had records in it. The operator may
cancel it, and a move of the query ends it: that is looked for between all steps and all the time in between.

What a process did not live to clean up is thrown away by the next one that may run the query.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from state.checkpoint_folders import is_of_drill, read_drill_folder
from state.drill_messages import DrillReport, DrillRequest, DrillSource, DrillStep
from state.errors import StoreError, TideoverError
from state.messages import PrepareReport
from state.model.entities import Event, Intent
from state.plain_text import amount
from streaming.spark.checkpoint.batch_news import RunName
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.log_text import bind_sources, parse_offset_entry
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.errors import CheckpointError, DrillFailed
from streaming.spark.hosting import Hosting, absolute, logger_about
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import drill_writer
from streaming.spark.query.query_run import Run

_LOOK_SECONDS = 0.05
_IDLE_SECONDS = 1.0
_SILENT = "TimeoutException: "
"""How long a topic without new records is left alone before it is looked at again."""
_STOP_SECONDS = 30.0
_SWEEP_SECONDS = 10.0
_ONE_BATCH = "365000 days"
"""A trigger that comes at once and then in a thousand years: ``once`` and ``availableNow`` know no limit for a batch,
or run as many as there are records for."""

Check = Callable[[], None]
"""Raises ``DrillFailed`` once the drill is not wanted any more."""
Progress = Mapping[str, Any]


class _Steps:
    """What was done so far, each step reported as it is done."""

    def __init__(self, hosting: Hosting, intent: Intent) -> None:
        self._hosting = hosting
        self._intent = intent
        self._since = time.monotonic()
        self.done: list[DrillStep] = []

    def say(self, name: str, text: str) -> None:
        """The step that began when the one before it ended is done."""
        now = time.monotonic()
        step = DrillStep(name=name, seconds=round(now - self._since, 3), text=text)
        self._since = now
        self.done.append(step)
        event = Event(
            sequence=None,
            at=self._hosting.now(),
            kind="drill",
            query=self._intent.query,
            operation=self._intent.operation,
            epoch=self._intent.epoch,
            actor=f"runner {self._hosting.runner}",
            text=f"{name}: {text} ({step.seconds:.2f} s)",
        )
        with contextlib.suppress(StoreError):  # a line of the history is not worth a drill
            self._hosting.store.note(event)


def rehearse(hosting: Hosting, intent: Intent, check: Check) -> DrillReport:
    """Copy, build, start, commit one batch, stop, clean up; what was measured.

    Raises ``DrillFailed``, ``CheckpointError``, ``PipelineError`` and what Spark raises; the copy is gone then, too.
    """
    request = DrillRequest.of(intent.request)
    target = request.prepare.target
    base = absolute(hosting.query(intent.query).checkpoint, hosting.base)
    if not is_of_drill(target, base, intent.operation):
        raise DrillFailed(f"{target} is no folder for drill {intent.operation} of {intent.query} below {base}")
    sweep(hosting, [intent.query])
    steps = _Steps(hosting, intent)
    try:
        hosting.files.delete(target, recursive=True)  # a former process of this runner may have begun
        copied = _copy(hosting, intent, request, check)
        steps.say(
            "copy", f"copied {amount(copied.files, 'file')}, {copied.bytes} bytes, of batch {request.prepare.batch}"
        )
        progress = _one_batch(hosting, intent, request, steps, check)
        sources = _sources(hosting, intent, request, progress)
    finally:
        with contextlib.suppress(TideoverError):  # thrown away by the next that looks
            hosting.files.delete(target, recursive=True)
    steps.say("clean", "the copy is deleted")
    return DrillReport(
        steps=tuple(steps.done),
        batch=int(progress["batchId"]),
        sources=sources,
        files=copied.files,
        bytes=copied.bytes,
    )


def _copy(hosting: Hosting, intent: Intent, request: DrillRequest, check: Check) -> PrepareReport:
    row = hosting.store.assignment(intent.query)
    if row is None or row.epoch != intent.epoch:
        raise DrillFailed(f"{intent.query} was moved before the drill began")
    declared = hosting.declared(intent.query, row.cluster)
    now_placed = Placed.of(row)
    return prepare(hosting.files, request.prepare, declared, aside=check, placed=now_placed)


def _one_batch(hosting: Hosting, intent: Intent, request: DrillRequest, steps: _Steps, check: Check) -> Progress:
    """Spark's report on the first batch with records. Raises ``DrillFailed``."""
    fresh, gate = request.prepare.resume == "fresh", CallbackGate()
    starting = request.prepare.target_offsets if fresh else None
    session, writer = drill_writer(hosting, intent.query, request.cluster, starting, request.records, gate)
    writer = writer.option("checkpointLocation", request.prepare.target).trigger(processingTime=_ONE_BATCH)
    steps.say("build", "the pipeline is built, and its sink replaced by noop")
    deadline = time.monotonic() + request.within_seconds
    while True:
        check()
        run = Run.start(session, writer, gate, RunName(intent.query, 0, request.prepare.target))
        try:
            if len(steps.done) < 3:
                steps.say("start", f"started on {request.cluster}")
            progress = _await_batch(run, deadline, check)
            if progress is not None:
                steps.say(
                    "batch", f"batch {progress['batchId']} is committed with {amount(progress['numInputRows'], 'row')}"
                )
        finally:
            _stop(run)
        if progress is not None:
            steps.say("stop", "the run is stopped and quiet")
            return progress
        if time.monotonic() >= deadline:
            raise DrillFailed(
                f"no record arrived on {request.cluster} within {request.within_seconds:g} s, so no batch was "
                "committed: run the drill again while records arrive"
            )
        _pause(_IDLE_SECONDS, check)


def _await_batch(run: Run, deadline: float, check: Check) -> Progress | None:
    """The report on the batch; None where there was nothing to read yet. Raises ``DrillFailed``.

    A standby that did not answer in time is read again, as a query that was moved reads it. The clients' waits are
    short (``PROMPT``), and on a busy host an answer takes longer at times.
    """
    while True:
        check()
        error = run.error()
        if error is not None:
            if error.startswith(_SILENT) and time.monotonic() + _IDLE_SECONDS < deadline:
                return None
            raise DrillFailed(f"the query fails on the standby: {error}")
        progress = run.last_progress()
        if progress is not None and "addBatch" in progress["durationMs"]:
            return progress if int(progress["numInputRows"]) else None
        if run.is_waiting:
            return None
        if time.monotonic() >= deadline:
            raise DrillFailed("the batch was not committed in time")
        time.sleep(_LOOK_SECONDS)


def _stop(run: Run) -> None:
    """Raises ``DrillFailed`` where something of it still runs after a while."""
    run.begin_stop()
    deadline = time.monotonic() + _STOP_SECONDS
    while (unrest := run.unrest()) is not None:
        if time.monotonic() >= deadline:
            raise DrillFailed(f"the rehearsed run was ordered to stop {_STOP_SECONDS:g} s ago: {unrest}")
        time.sleep(_LOOK_SECONDS)


def _pause(seconds: float, check: Check) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check()
        time.sleep(_LOOK_SECONDS)


def _sources(hosting: Hosting, intent: Intent, request: DrillRequest, progress: Progress) -> tuple[DrillSource, ...]:
    """What each Kafka source read: Spark reports them in the order of the offset log's keys."""
    path = join(request.prepare.target, "offsets", str(progress["batchId"]))
    entry = parse_offset_entry(hosting.files.read_bytes(path), path)
    bound = bind_sources([entry], hosting.declared(intent.query, request.cluster))
    sources = progress["sources"]
    return tuple(
        DrillSource(
            source=name,
            start=_offsets(sources[int(key)]["startOffset"]),
            end=_offsets(sources[int(key)]["endOffset"]) or {},
            rows=int(sources[int(key)]["numInputRows"]),
        )
        for key, name in bound.items()
    )


def _offsets(text: object) -> dict[str, dict[str, int]] | None:
    """Offsets as a report has them: JSON, or its text."""
    value = json.loads(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else None


def begin_sweep(hosting: Hosting, over: threading.Event) -> None:
    """Throw away, in the background, what drills of a process that is gone have left."""

    def live() -> None:
        own = [name for name, query in hosting.settings.queries.items() if hosting.runner in query.runners]
        log = logger_about({"runner": hosting.runner})
        while True:
            try:
                if not sweep(hosting, own):
                    return
            except (StoreError, CheckpointError) as error:
                log.warning("what drills have left is not cleaned yet", error=str(error))
            except Exception as error:  # noqa: BLE001 - a thread's edge: py4j raises what it likes
                log.warning("what drills have left is not cleaned", error=str(error))
                return
            if over.wait(_SWEEP_SECONDS):
                return

    threading.Thread(target=live, name="sweep drills", daemon=True).start()


def sweep(hosting: Hosting, queries: list[str]) -> bool:
    """Throw away the copies of drills that are over; whether there are some of open drills. Raises ``StoreError``."""
    are_left = False
    for query in queries:
        base = absolute(hosting.query(query).checkpoint, hosting.base)
        for name in hosting.files.list_names(base):
            made_by = read_drill_folder(name)
            if made_by is None:
                continue
            drill = hosting.store.operation(made_by)
            if drill is not None and drill.is_open:
                are_left = True
            else:
                hosting.files.delete(join(base, name), recursive=True)
                logger_about({"query": query, "operation": made_by}).info("copy of a drill deleted", folder=name)
    return are_left
