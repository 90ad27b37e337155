"""Times of three clocks: the monotonic one that waits are measured by, the host's wall clock, and the store's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.ports import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """This process's two clocks; seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def store_time(store: Store, monotonic: Callable[[], float] = time.monotonic) -> Callable[[float], datetime]:
    """Ask the store for the time, and return what turns this process's monotonic times into it.

    Off by half of the question's round trip at most. Raises ``StoreError``.
    """
    before = monotonic()
    now = store.now()
    middle = (before + monotonic()) / 2
    return lambda when: now + timedelta(seconds=when - middle)
