"""Watches the Python side of ``foreachBatch``: a fenced run starts no callback, and it is known whether one runs.

Spark's ``stop()`` waits for a running callback, and a cancelled job says nothing about code of the user that writes to
a database between two jobs. So each run has a *gate*: pyspark's own ``ForeachBatchFunction`` passes it before and after
each call. The function is made while the pipeline is called, in that thread, which is how it finds its gate.
"""

import contextlib
import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import utils as pyspark_utils

from state.messages import SinkState
from streaming.spark.errors import RunFenced
from streaming.spark.jvm import cause_of

BatchFunction = Callable[[DataFrame, int], None]


class CallbackGate:
    """Lets the callbacks of one run through until it is closed; knows how many are inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._running = 0
        self._entered: int | None = None
        self._finished: int | None = None
        self._error: str | None = None
        self._trace: str | None = None

    @property
    def running(self) -> int:
        """Callbacks that are inside right now."""
        with self._lock:
            return self._running

    @property
    def entered(self) -> int | None:
        """Id of the batch that was handed to the callback last."""
        with self._lock:
            return self._entered

    @property
    def finished(self) -> int | None:
        """Id of the batch whose callback last returned without an error."""
        with self._lock:
            return self._finished

    @property
    def error(self) -> str | None:
        """What the last callback raised, as one line."""
        with self._lock:
            return self._error

    @property
    def trace(self) -> str | None:
        """The traceback of it."""
        with self._lock:
            return self._trace

    def sink_state(self, batch: int) -> SinkState:
        """Whether the callback has delivered a planned batch.

        A run that finished the batch before planned this one itself, so what it did not hand over was not handed over.
        Of a callback that was cut short, and of what an earlier run did, nothing is known.
        """
        with self._lock:
            if self._finished == batch:
                return SinkState.HAS
            untouched = self._finished == self._entered == batch - 1
            return SinkState.HAS_NOT if untouched else SinkState.UNKNOWN

    def close(self) -> None:
        """Let no call in any more; returns at once, even while a call is inside."""
        with self._lock:
            self._closed = True

    def watch(self, function: BatchFunction) -> BatchFunction:
        """The same callback, through this gate."""

        @functools.wraps(function)
        def guarded(frame: DataFrame, batch: int) -> None:
            with self._inside(batch):
                function(frame, batch)

        return guarded

    @contextlib.contextmanager
    def _inside(self, batch: int) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise RunFenced(f"batch {batch} is not handed to the sink: this run has been fenced")
            self._running += 1
            self._entered = batch
        try:
            yield
        except Exception as error:
            with self._lock:
                self._error, self._trace = cause_of(error), traceback.format_exc().rstrip()
                closed = self._closed
            if closed:
                # Said short: Spark matches the whole text of a cancelled callback against a pattern. On the traceback
                # of a py4j error that overflows its stack, and Spark prints a thousand lines of it.
                raise RunFenced(f"batch {batch} was cut short: this run has been fenced") from None
            raise
        else:
            with self._lock:
                self._finished, self._error, self._trace = batch, None, None
        finally:
            with self._lock:
                self._running -= 1


_gate: ContextVar[CallbackGate | None] = ContextVar("tideover_gate", default=None)


@contextlib.contextmanager
def gated(gate: CallbackGate) -> Iterator[None]:
    """Send every ``foreachBatch`` function that is set inside this block, in this thread, through the gate."""
    _install()
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)


@functools.cache
def _install() -> None:
    """Wrap the constructor once per process; without a gate it does what it always did (3.5.7, 4.0.0, 4.2.0)."""
    plain = pyspark_utils.ForeachBatchFunction.__init__

    @functools.wraps(plain)
    def watched(self: Any, session: SparkSession, function: BatchFunction) -> None:
        gate = _gate.get()
        plain(self, session, function if gate is None else gate.watch(function))

    pyspark_utils.ForeachBatchFunction.__init__ = watched  # type: ignore[assignment] # the seam itself
