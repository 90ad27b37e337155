"""Free ports for worlds that run beside others.

All lie below the range from which the system takes the ports of outgoing connections: a server that is started again
on its port would now and then find it taken by somebody's connection.
"""

import random
import socket

from lab.world import PORTS


def free_base_port(low: int = 20000, high: int = 30000) -> int:
    """A base port for one world: with those above it that the world uses, it is free right now."""
    for _ in range(100):
        base = random.SystemRandom().randrange(low, high, PORTS)
        if all(is_free(port) for port in range(base, base + PORTS)):
            return base
    raise OSError(f"no free block of ports between {low} and {high}")


def is_free(port: int) -> bool:
    """Whether no process listens on a port of the loopback now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
