"""How tests wait: for the thing itself, with time to spare on a slow machine; a wait ends when it comes true."""

import time
from collections.abc import Callable

PROCESS_SECONDS = 120.0
"""For a process, a JVM or a broker, and for what is requested of one of them."""
THREAD_SECONDS = 60.0
"""For a thread of this process."""


def until(holds: Callable[[], object], what: str = "it did not come true", *, seconds: float = PROCESS_SECONDS) -> None:
    """Wait until something holds; an AssertionError with ``what`` when it never does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
