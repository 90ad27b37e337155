"""The history as log lines: each line that enters it, by any writer, in the same words. It is read from the store, and
not logged by those who write, because people and other controllers write, too; so the log of one controller has
everything. Each line has the operation and the epoch that it is about.
"""

import threading
from datetime import timedelta

import structlog

from orchestrator.decide.times import iso
from orchestrator.history_tail import HistoryTail
from state.errors import StoreError
from state.model.entities import Event
from state.store.controller_store import ControllerStore

LOOK_SECONDS = 0.5
_GRAVE = frozenset({"wait", "release", "takeover", "unverified", "not-moved", "query-failed"})

log = structlog.get_logger()


class HistoryLog:
    """Follows the history on a thread of its own, from its end on. A store that is away is read again later."""

    def __init__(self, store: ControllerStore, *, kept: timedelta) -> None:
        """``kept`` is how long the history is kept at least."""
        self._tail = HistoryTail(
            lambda after, limit: store.history(after=after, limit=limit),
            restored=_warn_of_restored,
            is_kept=lambda event: store.now() - event.at < kept,
        )
        self._begun = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="chronicle", daemon=True)

    def begin(self) -> None:
        """Begin to follow; what is there already is not logged."""
        self._thread.start()

    def close(self, grace: float = 5.0) -> None:
        """Log what is left, and end."""
        self._over.set()
        self._thread.join(grace)

    def write_news(self) -> int:
        """Log what is new, and how much it was; the first call only finds the end. Raises ``StoreError``."""
        if not self._begun:
            self._tail.begin(1)
            self._begun = True
            return 0
        new = self._tail.news()
        for event in new:
            _say(event)
        return len(new)

    def _follow(self) -> None:
        while not self._over.is_set():
            self._try()
            self._over.wait(LOOK_SECONDS)
        self._try()

    def _try(self) -> None:
        try:
            self.write_news()
        except StoreError:
            return  # the loop says that the store is away, once


def is_grave(event: Event) -> bool:
    """Whether a reader of warnings alone should read this line."""
    if event.kind == "verdict":
        return event.detail.get("verdict") != "UP"
    if event.kind == "readiness":
        return event.detail.get("ready") is not True
    return event.kind in _GRAVE


def _warn_of_restored(lost: Event) -> None:
    log.warning("the store was restored from an older backup: lines of its history are lost", lost_from=lost.sequence)


def _say(event: Event) -> None:
    about = {"query": event.query, "operation": event.operation, "epoch": event.epoch}
    say = log.warning if is_grave(event) else log.info
    say(
        event.text,
        kind=event.kind,
        actor=event.actor,
        at=iso(event.at),
        sequence=event.sequence,
        **{name: value for name, value in about.items() if value is not None},
    )
