"""Free ports for servers of tests and for worlds, each process that shares the tests its own.

A server listens on a port seconds after it was found free: another process could have found the same one by then.
"""

import os
import random

from lab import ports

_SERVERS, _WORLDS = (12000, 19000), (20000, 30000)
_given: set[int] = set()


def free_port() -> int:
    """A port for one server that no one listens on now, and that this process was not given before."""
    low, high = _share(*_SERVERS)
    for _ in range(1000):
        port = random.SystemRandom().randrange(low, high)
        if port not in _given and ports.is_free(port):
            _given.add(port)
            return port
    raise OSError(f"no free port between {low} and {high}")


def free_base_port() -> int:
    """The base port of a world."""
    return ports.free_base_port(*_share(*_WORLDS))


def _share(low: int, high: int) -> tuple[int, int]:
    """What is this process's of a range: each worker of pytest-xdist, ``gw0`` and so on, has a part of its own."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = (high - low) // max(number + 1, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    return low + number * size, low + (number + 1) * size
