"""Leading: one process at a time may decide, and stops well before another one may.

The lease's end is kept by the store's clock. This side counts on the monotonic clock from *before* its request, so that
a slow store makes the lease look shorter, never longer. A process that was frozen finds on waking that its time is up
and acts no more; what it had in hand fails on its old term. The holder's name is a process, so that a holder on the
same host that is dead can be succeeded at once.
"""

import os
import threading
from datetime import timedelta
from pathlib import Path

from orchestrator.errors import NotLeading
from state.errors import StoreUnavailable
from state.model.entities import Lease
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.process import ROOT, boot_id, host_name, is_over, started_at


def this_process(root: Path = ROOT) -> str:
    """``host:boot_id:pid:start``, unique for ever where ``/proc`` exists; elsewhere parts of it are empty."""
    pid = os.getpid()
    return f"{host_name(root)}:{boot_id(root)}:{pid}:{started_at(pid, root) or ''}"


def is_gone(name: str, root: Path = ROOT) -> bool:
    """Whether the process of this name is proven dead: of this host, and not there any more."""
    parts = name.rsplit(":", 3)
    if len(parts) != 4 or not parts[2].isdigit() or not parts[3].isdigit():
        return False
    host, boot, pid, started = parts
    here, boot_here = host_name(root), boot_id(root)
    return bool(is_over(host, boot, int(pid), int(started), here=here, boot_here=boot_here, root=root))


NAME = "controller"
TTL = timedelta(seconds=10)
MARGIN = 3.0
"""Seconds before the end of the lease at which its holder stops acting."""
RENEW_EVERY = 2.0
AGAIN_EVERY = 0.5
"""Seconds between two tries to lead, while another one does."""


def is_led(store: ControllerStore) -> bool:
    """Whether a controller leads now: has the lease, and is not proven dead. Changes nothing."""
    lease = store.leader(NAME)
    return lease is not None and lease.expires_at > store.now() and not is_gone(lease.holder)


class Leadership:
    """The lease as this process holds it, or not. Thread-safe."""

    def __init__(self, store: ControllerStore, clock: Clock, holder: str, ttl: timedelta = TTL) -> None:
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
            return self._request()

    def keep(self) -> None:
        """Renew when due. Raises ``NotLeading`` once the time to act is over; a later ``take`` starts a new term."""
        with self._lock:
            now = self._clock.monotonic()
            if self._lease is None:
                raise NotLeading
            if now >= self._until:
                self._lease = None
                raise NotLeading(
                    "the lease ran out before it was renewed", hint="the controller that leads now continues"
                )
            if now - self._renewed >= RENEW_EVERY:
                term = self._lease.term
                if not self._request() or self._lease.term != term:
                    self._lease = None
                    raise NotLeading("another process took the lease")

    def holds(self) -> bool:
        """Whether this process leads: kept, or tried for again, at most every ``AGAIN_EVERY`` seconds.

        False while another leads, and while the store is away: a caller in a loop leads as soon as it can.
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

    @property
    def is_held(self) -> bool:
        """Whether this process had the lease when it looked last."""
        with self._lock:
            return self._lease is not None

    def give_up(self) -> None:
        """Let the next process lead at once."""
        with self._lock:
            if self._lease is not None:
                self._store.resign(self._lease)
            self._lease = None

    def _request(self) -> bool:
        sent_at = self._clock.monotonic()
        lease = self._store.lead(NAME, self._holder, self._ttl)
        if lease is None:
            holds = self._store.leader(NAME)
            if holds is not None and is_gone(holds.holder):
                lease = self._store.seize(NAME, self._holder, holds.holder, self._ttl)
        self._lease = lease
        if lease is not None:
            self._renewed = sent_at
            self._until = sent_at + self._ttl.total_seconds() - MARGIN
        return lease is not None
