"""The result of one layered look at a cluster: how far it came, how long each layer took, and what it met.

Pure values: ``streaming.kafka.probe`` makes them from real brokers, tests and simulations make their own.
"""

from dataclasses import dataclass
from typing import Protocol

from state.sighting import Fault, Layer


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """A layer that answered."""

    layer: Layer
    ms: float
    """Milliseconds that this layer took by itself."""
    kept: bool = False
    """Its connection was open before: nothing new was shown of it but that it still carries answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """Why the next layer was not reached."""

    kind: str
    """One stable word: ``refused``, ``silent``, ``reset``, ``unreachable``, ``name``, ``resolver``, ``credential``,
    ``permission``, ``error``, ``stuck``, ``internal``."""
    text: str
    fault: Fault
    retriable: bool
    """Whether looking again can help with nothing changed on our side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How whole a cluster is that answers."""

    brokers: int
    """Those that the cluster names, and those that hold replicas of the topics of interest."""
    brokers_silent: int
    partitions: int
    leaderless: int
    unreadable: int
    under_replicated: int
    under_min_isr: int | None
    """None where ``min.insync.replicas`` may not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """One look at one cluster."""

    began: float
    """On this process's monotonic clock. What the look proves, it proves for a moment after this one."""
    seconds: float
    passed: tuple[Passed, ...] = ()
    trouble: Trouble | None = None
    """None when every layer answered."""
    health: Health | None = None
    """None when the look did not come so far."""
    notes: tuple[str, ...] = ()
    """What else is worth a sentence."""

    @property
    def ok(self) -> bool:
        return self.trouble is None

    @property
    def layer(self) -> Layer | None:
        """The last layer that answered."""
        return self.passed[-1].layer if self.passed else None

    @property
    def latency_ms(self) -> float | None:
        """Round trip of the metadata question; None when it was not answered."""
        return next((each.ms for each in self.passed if each.layer is Layer.METADATA), None)

    @property
    def text(self) -> str:
        return self.trouble.text if self.trouble else "; ".join(self.notes)


class Eye(Protocol):
    """What looks at one cluster, again and again; one look at a time."""

    def look(self, timeout: float) -> Sight:
        """One look within ``timeout`` seconds. Never raises for what a cluster or its settings do."""

    def close(self) -> None:
        """Give up the connections; returns within about a second."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more; a name server that does not answer can hold a closed one up."""
