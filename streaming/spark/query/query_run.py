"""One run of a streaming query: started, watched, and proven stopped.

Spark's ``stop()`` may hang for as long as a Kafka client's own deadline, it may return while tasks still write, and
``isActive`` turns false while the thread still runs. So a run is ordered to stop and then *looked at*. It is quiet when
no callback is inside, its thread is not inside a batch, and the scheduler has no task of its job group, which is the
run's id.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.plain_text import amount
from streaming.spark.checkpoint.batch_news import BatchNews, RunName, follow
from streaming.spark.errors import SparkMissing
from streaming.spark.jvm import JavaObject, java_context, java_query, java_view, root_cause, trace_of
from streaming.spark.query.callbacks import CallbackGate

_GROUP = "spark.jobGroup.id"
_EVENTS = "org$apache$spark$util$EventLoop$$eventQueue"
"""What Scala makes of the private ``EventLoop.eventQueue`` (3.5.7, 4.0.0, 4.2.0)."""


def cancel(session: SparkSession, run_id: str) -> None:
    """Order the scheduler to end a run's jobs, and from Spark 4.0 on also to refuse those that it starts later."""
    context = java_context(session)
    try:
        context.cancelJobGroupAndFutureJobs(run_id)
    except Py4JError:
        context.cancelJobGroup(run_id)


def unfinished(session: SparkSession, run_id: str) -> str | None:
    """What may still run of a run, in one sentence; None when the scheduler has nothing of it.

    Looked at in the order in which a job passes, so that none slips through between the looks: the queue of events,
    then the sets of tasks. A set stays until its last task has ended. Raises ``SparkMissing`` without a scheduler.

    Cancelling is asynchronous: ``cancelJobGroup`` puts an event into the scheduler's queue and returns, tasks are
    ordered to end and end when they like. A JDBC statement ignores interrupts, and a Python worker has two seconds
    (``spark.python.task.killTimeout``). ``StreamExecution.stop`` waits for the stream's thread and not for them.
    Listeners and ``SparkStatusTracker`` hear of it later still, so the scheduler itself is read.
    """
    context = java_context(session)
    events, scheduler = context.dagScheduler(), context.taskScheduler()
    if events is None or scheduler is None:
        raise SparkMissing("the Spark application has ended, and it is unknown whether its executors still run")
    if run_id in str(getattr(events.eventProcessLoop(), _EVENTS)()):
        return "Spark has not cancelled its jobs yet"
    ours = _task_sets_of(scheduler, run_id)
    if not ours:
        return None
    tasks = sum(each.runningTasks() for each in ours)
    return f"{amount(tasks, 'task')} of its job group still active" if tasks else "its job group has tasks yet to run"


def running_tasks(session: SparkSession, run_id: str) -> int:
    """How many tasks of a run are running, wherever. Raises ``SparkMissing`` without a scheduler."""
    scheduler = java_context(session).taskScheduler()
    if scheduler is None:
        raise SparkMissing("the Spark application has ended, and it is unknown whether its executors still run")
    return sum(each.runningTasks() for each in _task_sets_of(scheduler, run_id))


def _task_sets_of(scheduler: JavaObject, run_id: str) -> list[JavaObject]:
    return [each for each in _task_sets(scheduler.rootPool()) if _group_of(each) == run_id]


def _task_sets(schedulable: JavaObject) -> Iterator[JavaObject]:
    """The ``TaskSetManager`` objects below a pool; such an object itself has no queue."""
    below = schedulable.schedulableQueue()
    if below is None:
        yield schedulable
        return
    for each in below.toArray():  # a copy: they come and go in the meantime
        yield from _task_sets(each)


def _group_of(task_set: JavaObject) -> str | None:
    properties = task_set.taskSet().properties()
    return None if properties is None else properties.getProperty(_GROUP)


_IN_BATCH = ("runBatch", "constructNextBatch")
"""Frames of Spark's stream thread that plan a batch or write one (3.5.7, 4.0.0, 4.2.0)."""
_WAITING = "Waiting for data to arrive"
"""Spark's status after a trigger that planned no batch (3.5.7, 4.0.0, 4.2.0)."""
_RESTING = "waitTillTime"
"""The frame in which it waits for its next trigger (``ProcessingTimeExecutor``)."""
_STILL_PLANNING = "latestOffset"
"""A frame inside ``constructNextBatch`` from before the offset log entry: nothing is planned yet."""


class Run:
    """A started query: stop it without waiting, and see how it is."""

    def __init__(
        self, session: SparkSession, query: StreamingQuery, gate: CallbackGate, news: BatchNews | None = None
    ) -> None:
        self.news = news
        """What it publishes, where it reports that."""
        self._session = session
        self._query = query
        self._gate = gate
        self._stopping = threading.Lock()
        self._reported = False
        self._kept_in_batch = False
        self.run_id = str(query.runId)
        self.query_id = str(query.id)
        """Of its checkpoint, by the file ``metadata``."""

    @classmethod
    def start(cls, session: SparkSession, writer: DataStreamWriter, gate: CallbackGate, name: RunName) -> Self:
        """Start the writer, whose checkpoint ``name`` has. Raises whatever Spark refuses it for."""
        news = follow(session, name)
        try:
            return cls(session, writer.start(), gate, news)
        except BaseException:
            if news is not None:
                news.close()
            raise

    @property
    def query(self) -> StreamingQuery:
        """Spark's query."""
        return self._query

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def error(self) -> str | None:
        """Why the run ended, as one line: what the callback raised, or the innermost Java cause; None while it runs."""
        failure = java_query(self._query).exception()
        if failure.isEmpty():
            return None
        return self._gate.error or root_cause(failure.get())

    def trace(self) -> str | None:
        """The Python traceback behind ``error``; None where it was not Python that raised."""
        failure = java_query(self._query).exception()
        if failure.isEmpty():
            return None
        return self._gate.trace or trace_of(failure.get())

    def progress(self) -> list[dict[str, Any]]:
        """Spark's recent progress reports, oldest first."""
        return [json.loads(report.json()) for report in java_query(self._query).recentProgress()]

    def last_progress(self) -> dict[str, Any] | None:
        """The newest progress report."""
        report = java_query(self._query).lastProgress()
        return None if report is None else json.loads(report.json())

    @property
    def is_waiting(self) -> bool:
        """Whether it has looked at its sources and found nothing new (``MicroBatchExecution``)."""
        return self.is_active and self._query.status["message"] == _WAITING

    def silence(self) -> timedelta | None:
        """For how long it has waited for its cluster, which does not answer; None while it does.

        Only the companion's source waits, and reports it; of tasks it knows those of this JVM. Raises py4j's errors.
        """
        if self.news is None:
            return None
        milliseconds = int(java_view(self._session).tideover.Silence.milliseconds(self.run_id))
        return timedelta(milliseconds=milliseconds) if milliseconds > 0 else None

    def pin(self, cluster: str, known: str) -> None:
        """Say which id a cluster has: the companion's source reads from no other one. Raises py4j's errors."""
        if self.news is not None:
            java_view(self._session).tideover.Identity.pin(cluster, known)

    def hold(self) -> None:
        """Let it plan no further batch, and leave it alive; only the companion's source can. Raises py4j's errors."""
        follower = self._follower
        self._holding.begin(follower)

    def keep_in_batch(self) -> bool:
        """Hold it in the middle of its batch, where every task that runs waits for its cluster; False, and nothing is
        changed, where one does something else. Raises ``SparkMissing`` and py4j's errors.

        Tasks are counted once none that waits can continue. One on another host is no task that the hold knows.
        """
        follower = self._follower
        self._holding.keepInBatch(follower)
        try:
            waiting = int(self._holding.waitingTasks(follower))
            self._kept_in_batch = 0 < waiting == running_tasks(self._session, self.run_id)
        finally:
            if not self._kept_in_batch:
                self._holding.leaveBatch(follower)
        return self._kept_in_batch

    @property
    def is_kept_in_batch(self) -> bool:
        """Whether it is held in the middle of its batch."""
        return self._kept_in_batch

    def unrest_on_hold(self) -> str | None:
        """What keeps a run that is held from being quiet; None once it waits in the hold, or for a trigger behind which
        the hold is. Raises ``SparkMissing`` and py4j's errors.

        One that is kept in its batch is quiet: its tasks get no record, and it publishes nothing.

        A run that has only begun may owe a batch that was planned before, for which no source is read: it has not
        come to a trigger yet.
        """
        if self._kept_in_batch and self.is_active:
            return None
        if self._gate.running:
            return f"{self._gate.running} foreachBatch callback is still running"
        if not self.is_active:
            return "it has ended"
        if not self._holding.isWaiting(self._follower) and _RESTING not in stack_of(self._query).split():
            return "its batch is not finished"
        return unfinished(self._session, self.run_id)

    @property
    def may_leave_in_batch(self) -> bool:
        """Whether it is held in the middle of a batch that may leave its cluster: it does so once. py4j's errors."""
        return self._kept_in_batch and bool(self._holding.mayLeave(self._follower))

    def can_go_on(self, epoch: int, sources: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether ``go_on`` would let it continue; it stays held. Raises py4j's errors."""
        return self._kept_in_batch and bool(self._holding.canEnd(self._follower, epoch, _as_json(sources)))

    def go_on(self, epoch: int, sources: Mapping[str, Mapping[str, str]] | None) -> bool:
        """End the hold: the same run continues under a newer epoch. Raises py4j's errors.

        False where it cannot: it is in the middle of a batch whose records have no offset there that follows from
        theirs here. Then it stays held.

        ``sources``: by declared source, its options on the cluster that it reads from now on; None: it stays.
        """
        goes_on = bool(self._holding.end(self._follower, epoch, None if sources is None else _as_json(sources)))
        self._kept_in_batch = self._kept_in_batch and not goes_on
        return goes_on

    @property
    def _holding(self) -> JavaObject:
        return java_view(self._session).tideover.Hold

    @property
    def _follower(self) -> str:
        if self.news is None:
            raise ValueError(f"run {self.run_id} is not followed through the companion, so it cannot be held")
        return self.news.follower

    def begin_stop(self) -> None:
        """Close the gate, cancel the jobs and order Spark to stop, all without waiting; doing it again is harmless."""
        self._gate.close()
        with self._stopping:
            if self._reported:
                return
            self._reported = True
        threading.Thread(target=self._stop, name=f"stop {self.run_id}", daemon=True).start()

    def unrest(self) -> str | None:
        """What could still write, in one sentence; None once the run is quiet. Raises ``SparkMissing``.

        That ``stop()`` returned is no answer: it waits for the thread alone. The tasks come last, for a thread inside a
        batch may start a job after they were counted; a batch that it enters after this look meets a planted entry.
        """
        if self._gate.running:
            return f"{self._gate.running} foreachBatch callback is still running"
        if self.is_active:
            return "the query is still active"
        if in_batch(stack_of(self._query)):
            return "its thread is still inside a batch"
        return unfinished(self._session, self.run_id)

    def _stop(self) -> None:
        # stopTimeout passed, or the JVM is going down: pyspark and py4j have many words for it, and only a look shows
        # it
        with contextlib.suppress(Exception):
            cancel(self._session, self.run_id)
            self._query.stop()


def _as_json(sources: Mapping[str, Mapping[str, str]]) -> str:
    return json.dumps({name: dict(own) for name, own in sources.items()})


def stack_of(query: StreamingQuery) -> str:
    """Method names of the stream thread, newest first; empty once it has ended."""
    thread = java_query(query).streamingQuery().queryExecutionThread()
    return " ".join(frame.getMethodName() for frame in thread.getStackTrace())


def in_batch(stack: str) -> bool:
    """Whether a stream thread with this stack plans a batch or hands one to the sink."""
    if "runBatch" in stack:
        return True
    return any(frame in stack for frame in _IN_BATCH) and _STILL_PLANNING not in stack
