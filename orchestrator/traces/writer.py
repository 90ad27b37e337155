"""Writes the spans of each operation once it is closed, on a thread of its own, while this process leads.

An operation is never held up by it: what is written comes from the journal, after its evidence was kept. How far that
was done is in the store, as for receivers of notices; a collector that is away gets what it missed when it is back.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from orchestrator.rounds import Rounds, cursor_of, newest_line
from orchestrator.traces.spans import Span, spans_of
from state.model.evidence import KEPT
from state.store.controller_store import ControllerStore

NAME = "traces:otlp"
"""Of its row in the store; no receiver of notices can be called so."""
LOOK_SECONDS = 2.0
PAUSE_SECONDS = 30.0
BATCH = 1000
"""How many lines of the history are read at once, the newest of them if there are more."""

log = structlog.get_logger()


class Sink(Protocol):
    """A receiver of spans."""

    def write(self, spans: Sequence[Span]) -> bool:
        """Whether they were taken; may take seconds, and raise."""


class TraceWriter:
    """One round is a ``turn``."""

    def __init__(self, store: ControllerStore, sink: Sink, term: Callable[[], int | None]) -> None:
        """Raises ``StoreError``: what closed before this start is not written."""
        self._store = store
        self._since = newest_line(store)
        self._sink = sink
        self._term = term
        bug = "a bug in Tideover; traces are tried again"
        self._rounds = Rounds("traces", self.turn, pause=LOOK_SECONDS, bug=bug, over=threading.Event())

    def begin(self) -> None:
        """Begin to write."""
        self._rounds.begin()

    def close(self, grace: float = 5.0) -> None:
        """Begin no more, and wait so long at most for what is under way."""
        self._rounds.close(grace)

    def turn(self) -> float:
        """Write what is new; returns after how many seconds to do so again. Raises ``StoreError``."""
        term = self._term()
        if term is None:
            return LOOK_SECONDS
        cursor = cursor_of(self._store, NAME, term, since=self._since)
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
