"""The history as log lines: each line that enters it, whoever wrote it, in the same words.

It is read from the store, and not told by those who write, because people and other controllers write, too; so the
log of one controller tells the whole story. Each line has the operation and the epoch that it is about.
"""

import threading

import structlog

from orchestrator.decide.times import iso
from state.errors import StoreError
from state.model import Event
from state.ports import Store

LOOK_SECONDS = 0.5
BATCH = 100_000
_GRAVE = frozenset({"wait", "release", "takeover", "unverified", "not-moved"})

log = structlog.get_logger()


class Chronicle:
    """Follows the history on a thread of its own, from its end on. A store that is away is read again later."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: int | None = None
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
        if self._told is None:
            newest = self._store.history(limit=1)
            self._told = (newest[-1].sequence or 0) if newest else 0
            return 0
        told = self._told
        events = self._store.history(after=told - 1, limit=BATCH)
        if told and not (events and events[0].sequence == told):
            self._begin_anew(told)
            return 0
        new = [event for event in events if event.sequence != told]
        for event in new:
            _say(event)
            self._told = event.sequence or self._told
        return len(new)

    def _begin_anew(self, told: int) -> None:
        """The last line that was told is gone: later ones would have numbers of lines that were told already."""
        self._told = None
        self.tell()
        if self._told != told:
            log.warning("the history ends before what was told: the store was put back", told=told, ends=self._told)

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
