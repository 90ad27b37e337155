"""Holds Python's cyclic garbage collector back while a large answer is taken apart.

Decoding 100,000 partitions makes half a million objects that all live to the end; the collector would walk them
again and again and double the time. Small answers do not pay for the switch.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 2000


class Collector:
    """The one switch of this process: held back while any thread has a large answer at hand."""

    _lock = threading.Lock()
    _holders = 0
    _was_enabled = False

    @classmethod
    @contextmanager
    def held_back(cls, size: int) -> Iterator[None]:
        """Keep the collector off during the block if ``size`` answers are worth it."""
        if size < _LARGE:
            yield
            return
        with cls._lock:
            if not cls._holders:
                cls._was_enabled = gc.isenabled()
                gc.disable()
            cls._holders += 1
        try:
            yield
        finally:
            with cls._lock:
                cls._holders -= 1
                if not cls._holders and cls._was_enabled:
                    gc.enable()
