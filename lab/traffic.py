"""Sends orders to a cluster with an idempotent producer, and writes down what was acknowledged.

A cluster that dies, freezes or comes back is lived with. The producer keeps at most five seconds' worth of records
waiting, skips what does not fit, and ends in time.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from lab.access import settings_for
from lab.ledger import UNKNOWN_OFFSET, Ledger, Sent
from lab.load_profile import Order, Shape, due, orders, timestamp_ms
from lab.topics import QUIET

_TICK_SECONDS = 0.005
_WAITING_SECONDS = 5
_PATIENCE_SECONDS = 10.0
_FLUSH_SECONDS = 30.0


@dataclass(kw_only=True)
class Tally:
    """How it went, in records."""

    sent: int = 0
    acked: int = 0
    unknown: int = 0
    """Never acknowledged; they may have been written all the same."""
    skipped: int = 0
    """Not sent, because too many were waiting for a cluster that did not answer."""


class Sender:
    """One run of traffic."""

    def __init__(self, bootstrap: Sequence[str], topic: str, shape: Shape, ledger: Ledger) -> None:
        self._topic = topic
        self._shape = shape
        self._ledger = ledger
        self._heard_at = time.monotonic()
        self.tally = Tally()
        self._producer = Producer(
            {
                **settings_for(bootstrap),
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "queue.buffering.max.messages": max(1000, shape.rate * _WAITING_SECONDS),
                **QUIET,
            }
        )

    def run(self, stop: threading.Event) -> Tally:
        """Send until everything is sent, the time is over, or it is stopped; then wait a little for answers."""
        begun = time.monotonic()
        waiting = orders(self._shape)
        while not stop.is_set():
            elapsed = time.monotonic() - begun
            wanted = due(self._shape, elapsed)
            while self.tally.sent + self.tally.skipped < wanted:
                if not self._send(next(waiting)):
                    self.tally.skipped += wanted - self.tally.sent - self.tally.skipped
            self._producer.poll(_TICK_SECONDS)
            self._ledger.sync()
            if elapsed >= self._shape.seconds:
                break
        self._finish()
        return self.tally

    def _send(self, order: Order) -> bool:
        at_ms = timestamp_ms(self._shape, time.time_ns() // 1_000_000)
        try:
            self._producer.produce(
                self._topic, value=order.value(at_ms), key=order.customer, partition=order.partition,
                timestamp=at_ms, on_delivery=self._answer(order.id, at_ms),
            )  # fmt: skip
        except BufferError:
            return False
        self.tally.sent += 1
        return True

    def _answer(self, identity: int, at_ms: int) -> Callable[[Any, Any], None]:
        def note(error: Any, message: Any) -> None:
            if error is None:
                self._heard_at = time.monotonic()
                self.tally.acked += 1
                self._ledger.note(Sent(identity, message.partition(), message.offset(), at_ms))
            else:
                self.tally.unknown += 1
                self._ledger.note(Sent(identity, message.partition(), UNKNOWN_OFFSET, at_ms))

        return note

    def _finish(self) -> None:
        """Wait for answers while they come; what stays without one is written down as unknown."""
        deadline = time.monotonic() + _FLUSH_SECONDS
        while self._producer.flush(0.1) and time.monotonic() < min(deadline, self._heard_at + _PATIENCE_SECONDS):
            self._ledger.sync()
        self._producer.purge()
        self._producer.flush(1.0)
        self._ledger.sync(now=True)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
