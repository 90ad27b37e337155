"""Writes the spans of each operation once it is closed, on a thread of its own, while this process leads.

An operation is never held up by it: what is written comes from the journal, after its evidence was kept. How far that
was done is in the store, as for receivers of notices; a collector that is away gets what it missed when it is back.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from orchestrator.errors import NotLeading
from orchestrator.traces.spans import Span, spans_of
from state.errors import StaleTerm, StoreError
from state.model.evidence import KEPT
from state.model.notices import NoticeCursor
from state.store.controller_store import ControllerStore

NAME = "traces:otlp"
"""Of its row in the store; no receiver of notices can be called so."""
LOOK_SECONDS = 2.0
PAUSE_SECONDS = 30.0
BATCH = 1000
"""So many lines of the history are read at once, the newest of them if there are more."""

log = structlog.get_logger()


class Sink(Protocol):
    """Whoever takes spans."""

    def write(self, spans: Sequence[Span]) -> bool:
        """Whether they were taken; may take seconds, and raise."""


class TraceWriter:
    """One round is a ``turn``."""

    def __init__(self, store: ControllerStore, sink: Sink, term: Callable[[], int | None]) -> None:
        self._store = store
        self._sink = sink
        self._term = term
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def begin(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self, grace: float = 5.0) -> None:
        """Begin no more, and wait so long at most for what is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(grace)

    def turn(self) -> float:
        """Write what is new; returns after how many seconds to do so again. Raises ``StoreError``."""
        term = self._term()
        if term is None:
            return LOOK_SECONDS
        cursor = self._stored(term)
        for event in self._store.history(kind=KEPT, after=cursor.sequence, limit=BATCH):
            operation = self._store.operation(event.operation) if event.operation is not None else None
            spans = spans_of(operation, self._store.steps(operation.id)) if operation is not None else ()
            if spans and not self._is_taken(spans):
                since = cursor.failing_since or self._store.now()
                if cursor.failing_since is None:
                    log.warning("the collector of traces does not take them; it is tried again")
                failed = replace(cursor, failures=cursor.failures + 1, failing_since=since, error="not taken")
                self._store.keep_notice_cursor(failed, term=term)
                return PAUSE_SECONDS
            sequence = event.sequence or cursor.sequence
            cursor = replace(
                cursor, sequence=sequence, told_at=self._store.now(), failing_since=None, error=""
            )  # fmt: skip
            self._store.keep_notice_cursor(cursor, term=term)
        return LOOK_SECONDS

    def _is_taken(self, spans: Sequence[Span]) -> bool:
        try:
            return self._sink.write(spans)
        except Exception:  # noqa: BLE001 - whatever the library raises, they were not taken
            return False

    def _stored(self, term: int) -> NoticeCursor:
        """How far it was written; at first, from now on."""
        found = next((each for each in self._store.notice_cursors() if each.target == NAME), None)
        if found is None:
            newest = self._store.history(limit=1)
            found = NoticeCursor(target=NAME, sequence=newest[-1].sequence or 0 if newest else 0, incidents={})
            self._store.keep_notice_cursor(found, term=term)
        return found

    def _run(self) -> None:
        told: str | None = None
        while not self._over.is_set():
            pause = LOOK_SECONDS
            try:
                pause = self.turn()
                told = None
            except (NotLeading, StaleTerm, StoreError):
                pass  # the loop says that the store is away, or that another leads
            except Exception as error:
                if told != repr(error):
                    log.exception("a bug in Tideover; traces are tried again")
                told = repr(error)
            self._over.wait(pause)
