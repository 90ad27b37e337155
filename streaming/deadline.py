"""One point in time by which a call returns, shared by everything the call does."""

import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock; passed on whole, so that no step can add a wait of its own."""

    at: float
    """``time.monotonic()`` seconds."""

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def soonest(self, seconds: float) -> "Deadline":
        """Return this deadline, or the one ``seconds`` from now if that comes first."""
        return Deadline(min(self.at, time.monotonic() + seconds))
