"""The history as log lines: each line that enters it, whoever wrote it, in the same words.

It is read from the store, and not told by those who write, because people and other controllers write, too; so the
log of one controller tells the whole story. Each line has the operation and the epoch that it is about.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from orchestrator.decide.times import iso
from state.errors import StoreError
from state.model.entities import Event
from state.store.controller_store import ControllerStore

LOOK_SECONDS = 0.5
_GRAVE = frozenset({"wait", "release", "takeover", "unverified", "not-moved"})

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
        """Begin to follow; what stands already is not told."""
        self._thread.start()

    def close(self, grace: float = 5.0) -> None:
        """Tell what is left, and end."""
        self._over.set()
        self._thread.join(grace)

    def tell(self) -> int:
        """Tell what is new, and how much it was; the first call only finds the end. Raises ``StoreError``."""
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
            self.tell()
        except StoreError:
            return  # the loop says that the store is away, once


def is_grave(event: Event) -> bool:
    """Whether somebody who only reads warnings should read this line."""
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


BATCH = 100_000
"""Events that are read at once, the newest of them if there are more."""

Read = Callable[[int, int], Sequence[Event]]
"""Events after a sequence number, the newest so many."""


class HistoryTail:
    """What is new in the history since it was read last, for all who follow it; a store that was restored is noticed.

    A sequence number alone does not do: once the store is restored from an older copy, what comes has the numbers of
    lines that were shown already. So the last line shown is read again each time. Another line under its number, or
    none while it is too young to be pruned, is the sign of a restored store; what was written after that line's time is
    new then. A line that is gone for its age is no sign of anything.

    ``restored`` is called with the last line shown once the store has lost it. ``is_kept`` tells whether a line is too
    young to have been pruned; it is asked only of a line that is gone.
    """

    def __init__(self, read: Read, *, restored: Callable[[Event], None], is_kept: Callable[[Event], bool]) -> None:
        self._read = read
        self._restored = restored
        self._is_kept = is_kept
        self._shown: Event | None = None

    def begin(self, newest: int) -> Sequence[Event]:
        """The newest so many; what comes behind them is new. Raises ``StoreError``."""
        return self._show(self._read(0, newest))

    def news(self) -> Sequence[Event]:
        """What was written since. Raises ``StoreError``."""
        shown = self._shown
        if shown is None or shown.sequence is None:
            return self._show(self._read(0, BATCH))
        events = self._read(shown.sequence - 1, BATCH)
        if events and events[0].sequence == shown.sequence:
            return self._show(events[1:]) if _is_same(events[0], shown) else self._begin_again(shown)
        if events or not self._is_kept(shown):  # pruned, or left out of more than can be read at once
            return self._show(events)
        return self._begin_again(shown)

    def _begin_again(self, lost: Event) -> Sequence[Event]:
        events = self._read(0, BATCH)
        self._shown = None
        self._restored(lost)
        self._show(events)
        return [event for event in events if event.at > lost.at]

    def _show(self, events: Sequence[Event]) -> Sequence[Event]:
        if events:
            self._shown = events[-1]
        return events


def _is_same(event: Event, other: Event) -> bool:
    return (event.sequence, event.at, event.kind, event.text) == (other.sequence, other.at, other.kind, other.text)
