"""The history as log lines: each line that enters it, whoever wrote it, in the same words.

It is read from the store, and not told by those who write, because people and other controllers write, too; so the
log of one controller tells the whole story. Each line has the operation and the epoch that it is about.
"""

import threading

import structlog

from orchestrator.decide.times import iso
from orchestrator.tail import Tail
from state.errors import StoreError
from state.model import Event
from state.ports import Store

LOOK_SECONDS = 0.5
_GRAVE = frozenset({"wait", "release", "takeover", "unverified", "not-moved"})

log = structlog.get_logger()


class Chronicle:
    """Follows the history on a thread of its own, from its end on. A store that is away is read again later."""

    def __init__(self, store: Store) -> None:
        self._tail = Tail(lambda after, limit: store.history(after=after, limit=limit), put_back=_tell_put_back)
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


def _tell_put_back(told: int, ends: int) -> None:
    log.warning("the history ends before what was told: the store was put back", told=told, ends=ends)


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
