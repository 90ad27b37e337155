"""The one clock of the acting code: wall time for records, monotonic time for limits, and a way to wait."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the shell sees it; tests bring their own."""

    def now(self) -> datetime:
        """Wall clock, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
