"""Leading: one process at a time may decide, and stops well before somebody else may.

The lease's end is kept by the store's clock; this side counts on the monotonic clock from *before* it asked, so that
a slow store makes the lease look shorter, never longer. A process that was frozen finds on waking that its time is up
and acts no more; what it had in hand fails on its old term. The holder's name is a process, so that a holder on the
same host that is dead can be succeeded at once.
"""

import threading
from datetime import timedelta

from orchestrator.clock import Clock
from orchestrator.errors import NotLeading
from orchestrator.process import is_gone
from state.errors import StoreUnavailable
from state.model import Lease
from state.ports import Store

NAME = "controller"
TTL = timedelta(seconds=10)
MARGIN = 3.0
"""Seconds before the end of the lease at which its holder stops acting."""
RENEW_EVERY = 2.0
AGAIN_EVERY = 0.5
"""Seconds between two tries to lead, while somebody else does."""


class Lead:
    """The lease as this process holds it, or not. Thread-safe."""

    def __init__(self, store: Store, clock: Clock, holder: str, ttl: timedelta = TTL) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._ttl = ttl
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._until = 0.0
        self._renewed = 0.0
        self._next_try = -AGAIN_EVERY

    @property
    def term(self) -> int:
        """The term to write with. Raises ``NotLeading`` when there is no time left to act in."""
        self.keep()
        with self._lock:
            if self._lease is None:
                raise NotLeading
            return self._lease.term

    def take(self) -> bool:
        """Take the lease if it is free, expired, ours, or held by a process that is proven dead."""
        with self._lock:
            return self._ask()

    def keep(self) -> None:
        """Renew when due. Raises ``NotLeading`` once the time to act is over; a later ``take`` starts a new term."""
        with self._lock:
            now = self._clock.monotonic()
            if self._lease is None:
                raise NotLeading
            if now >= self._until:
                self._lease = None
                raise NotLeading("the lease ran out before it was renewed", hint="whoever leads now goes on")
            if now - self._renewed >= RENEW_EVERY:
                term = self._lease.term
                if not self._ask() or self._lease.term != term:
                    self._lease = None
                    raise NotLeading("another process took the lease")

    def stands(self) -> bool:
        """Whether this process leads: kept, or tried for again, at most every ``AGAIN_EVERY`` seconds.

        False while another leads, and while the store is away: whoever calls this in a loop leads as soon as it can.
        """
        try:
            self.keep()
        except NotLeading:
            with self._lock:
                now = self._clock.monotonic()
                if now < self._next_try:
                    return False
                self._next_try = now + AGAIN_EVERY
            return self._took()
        except StoreUnavailable:
            return False
        return True

    def _took(self) -> bool:
        try:
            return self.take()
        except StoreUnavailable:
            return False

    def give_up(self) -> None:
        """Let the next process lead at once."""
        with self._lock:
            if self._lease is not None:
                self._store.resign(self._lease)
            self._lease = None

    def _ask(self) -> bool:
        asked = self._clock.monotonic()
        lease = self._store.lead(NAME, self._holder, self._ttl)
        if lease is None:
            stands = self._store.leader(NAME)
            if stands is not None and is_gone(stands.holder):
                lease = self._store.seize(NAME, self._holder, stands.holder, self._ttl)
        self._lease = lease
        if lease is not None:
            self._renewed = asked
            self._until = asked + self._ttl.total_seconds() - MARGIN
        return lease is not None
