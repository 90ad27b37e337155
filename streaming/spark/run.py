"""One start of one streaming query, and the proof that it writes nothing more.

Spark's ``stop()`` may hang for as long as a Kafka client's own deadline, and ``isActive`` turns false while the thread
still runs. So a run is told to stop and then *looked at*: it is quiet when ``stop()`` returned, or when no task of its
job group is active, no callback is inside, and its thread is not inside a batch.
"""

import json
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streaming.spark.callbacks import Gate
from streaming.spark.jvm import JavaObject, java_context, java_query, java_view, root_cause
from streaming.spark.run_errors import SparkMissing

_IN_BATCH = ("runBatch", "constructNextBatch")
"""Frames of Spark's stream thread that plan a batch or write one (3.5.7, 4.0.0, 4.2.0)."""
_WAITING = "Waiting for data to arrive"
"""Spark's status after a trigger that planned no batch (3.5.7, 4.0.0, 4.2.0)."""
_STILL_ASKING = "latestOffset"
"""A frame inside ``constructNextBatch`` from before the offset log entry: nothing is planned yet."""


class Run:
    """A started query: stop it without waiting, and ask it how it is."""

    def __init__(self, session: SparkSession, query: StreamingQuery, gate: Gate) -> None:
        self._session = session
        self._query = query
        self._gate = gate
        self._stopping = threading.Lock()
        self._told = False
        self._returned = threading.Event()
        self.run_id = str(query.runId)

    @classmethod
    def start(cls, session: SparkSession, writer: DataStreamWriter, gate: Gate) -> "Run":
        """Start the writer. Raises whatever Spark refuses it for."""
        return cls(session, writer.start(), gate)

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def error(self) -> str | None:
        """Why the run ended, as one line: what the callback raised, or the innermost Java cause; None while it runs."""
        failure = java_query(self._query).exception()
        if failure.isEmpty():
            return None
        return self._gate.error or root_cause(failure.get())

    def progress(self) -> list[dict[str, Any]]:
        """Spark's recent progress reports, oldest first."""
        return [json.loads(report.json()) for report in java_query(self._query).recentProgress()]

    def last_progress(self) -> dict[str, Any] | None:
        """The newest progress report."""
        report = java_query(self._query).lastProgress()
        return None if report is None else json.loads(report.json())

    @property
    def is_waiting(self) -> bool:
        """Whether it has asked its sources and found nothing new (``MicroBatchExecution``)."""
        return self.is_active and self._query.status["message"] == _WAITING

    def begin_stop(self) -> None:
        """Close the gate, cancel the jobs and ask Spark to stop, all without waiting; doing it again is harmless."""
        self._gate.close()
        with self._stopping:
            if self._told:
                return
            self._told = True
        threading.Thread(target=self._stop, name=f"stop {self.run_id}", daemon=True).start()

    def unrest(self) -> str | None:
        """What could still write, in one sentence; None once the run is quiet."""
        if self._returned.is_set():
            return None
        if self._gate.running:
            return f"{self._gate.running} foreachBatch callback is still running"
        tasks = active_tasks(self._session, self.run_id)
        if tasks:
            return f"{tasks} tasks of its job group are still active"
        if self.is_active:
            return "the query is still active"
        # The thread last: a batch that it enters after this look meets a planted entry, and a batch that it was in
        # at the time of the first look may have started a job since, so tasks are counted once more.
        if in_batch(stack_of(self._query)):
            return "its thread is still inside a batch"
        return "tasks of its job group are active again" if active_tasks(self._session, self.run_id) else None

    def _stop(self) -> None:
        try:
            java_context(self._session).cancelJobGroup(self.run_id)
            self._query.stop()
        except Py4JError:
            return  # stopTimeout passed or the JVM is going down: then only looking tells
        except Exception:  # noqa: BLE001 - a thread's edge: pyspark wraps Spark's TimeoutException in classes of its own
            return
        self._returned.set()


def active_tasks(session: SparkSession, run_id: str) -> int:
    """Tasks that the scheduler still knows for a job group. Raises ``SparkMissing`` when there is no scheduler."""
    scheduler = java_context(session).taskScheduler()
    if scheduler is None:
        raise SparkMissing("the Spark application has ended, and nobody can say what its executors still do")
    by_task = scheduler.taskIdToTaskSetManager()
    managers = java_view(session).java.util.Collections.list(by_task.elements())  # a copy: tasks come and go meanwhile
    return [_group_of(manager) for manager in managers].count(run_id)


def _group_of(manager: JavaObject) -> str | None:
    properties = manager.taskSet().properties()
    return None if properties is None else properties.getProperty("spark.jobGroup.id")


def stack_of(query: StreamingQuery) -> str:
    """Method names of the stream thread, newest first; empty once it has ended."""
    thread = java_query(query).streamingQuery().queryExecutionThread()
    return " ".join(frame.getMethodName() for frame in thread.getStackTrace())


def in_batch(stack: str) -> bool:
    """Whether a stream thread with this stack plans a batch or hands one to the sink."""
    if "runBatch" in stack:
        return True
    return any(frame in stack for frame in _IN_BATCH) and _STILL_ASKING not in stack
