"""The shape of traffic: which orders are sent, to which partition, and when. Pure; the same seed gives the same orders.

The partition is chosen here and not by hashing the key, so that load can be uneven and partitions idle on purpose. A
customer's orders still share one partition, as they would with hashing.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

_CUSTOMERS_PER_PARTITION = 50
_LARGEST_AMOUNT = 20_000
_BURST_MS = 500


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What traffic looks like."""

    rate: int
    """Records per second."""
    seconds: float
    partitions: int
    first_id: int = 1
    seed: int = 0
    uneven: bool = False
    """Each partition gets half of what the one before it gets."""
    idle: int = 0
    """How many partitions, the last ones, get nothing."""
    burst: bool = False
    """Sent twice a second, all records of a burst with the same timestamp."""
    same_payload: bool = False
    """Records differ by their id alone."""

    def __post_init__(self) -> None:
        if self.rate < 1 or self.seconds <= 0:
            raise ValueError("rate and seconds must be positive")
        if not 0 <= self.idle < self.partitions:
            raise ValueError(f"{self.idle} of {self.partitions} partitions cannot be idle: one must get the records")

    @property
    def total(self) -> int:
        """How many records there are in all."""
        return int(self.rate * self.seconds)


@dataclass(frozen=True)
class Order:
    """One record to be sent, but for its timestamp."""

    id: int
    partition: int
    customer: str
    amount: int
    """In cents."""

    def value(self, at_ms: int) -> bytes:
        """Return the record's value."""
        return json.dumps({"id": self.id, "amount": self.amount, "at_ms": at_ms}).encode()


def orders(shape: Shape) -> Iterator[Order]:
    """Yield the orders, their ids counting up from `first_id`."""
    chance = random.Random(shape.seed)
    busy = range(shape.partitions - shape.idle)
    weights = [0.5**partition if shape.uneven else 1.0 for partition in busy]
    for number in range(shape.total):
        partition = chance.choices(busy, weights)[0]
        if shape.same_payload:
            customer, amount = partition, 100
        else:
            customer = partition + shape.partitions * chance.randrange(_CUSTOMERS_PER_PARTITION)
            amount = chance.randrange(1, _LARGEST_AMOUNT)
        yield Order(shape.first_id + number, partition, f"customer-{customer}", amount)


def due(shape: Shape, elapsed_seconds: float) -> int:
    """Return how many records should have been sent by now."""
    elapsed_ms = int(elapsed_seconds * 1000)
    if shape.burst:
        elapsed_ms -= elapsed_ms % _BURST_MS
    return min(shape.total, shape.rate * elapsed_ms // 1000)


def timestamp_ms(shape: Shape, now_ms: int) -> int:
    """Return the timestamp of a record that is sent now."""
    return now_ms - now_ms % _BURST_MS if shape.burst else now_ms
