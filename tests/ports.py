"""Free ports for servers and worlds that run beside others.

All lie below the range from which the system takes the ports of outgoing connections: a server that is started again
on its port would now and then find it taken by somebody's connection.
"""

import random
import socket

_given: set[int] = set()


def free_base_port(low: int = 20000, high: int = 30000) -> int:
    """A base port for one world: with the nineteen above it, it is free right now."""
    for _ in range(100):
        base = random.SystemRandom().randrange(low, high, 20)
        if all(_is_free(port) for port in range(base, base + 20)):
            return base
    raise OSError(f"no free block of ports between {low} and {high}")


def free_port() -> int:
    """A port that nobody listens on now, and that this process was not given before."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(12000, 19000)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError("no free port between 12000 and 19000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
