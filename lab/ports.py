"""Free ports for worlds that run beside others.

All lie below the range from which the system takes the ports of outgoing connections. Otherwise a server that starts
again could find that a connection of another program uses its port.
"""

import random
import socket
from collections.abc import Iterable

from lab.world import PORTS


def free_base_port(low: int = 20000, high: int = 30000) -> int:
    """A base port for one world: with those above it that the world uses, it is free right now."""
    for _ in range(100):
        base = random.SystemRandom().randrange(low, high, PORTS)
        if not taken(range(base, base + PORTS)):
            return base
    raise OSError(f"no free block of ports between {low} and {high}")


def base_port(wanted: int) -> int:
    """The base port that is wanted, where a world's ports from there on are free, and else another one."""
    return free_base_port() if taken(range(wanted, wanted + PORTS)) else wanted


def taken(ports: Iterable[int]) -> list[int]:
    """Those ports on which a process listens now."""
    return [port for port in ports if not is_free(port)]


def is_free(port: int) -> bool:
    """Whether no process listens on a port of the loopback now.

    As Kafka itself binds it: connections of a broker that was killed a moment ago do not count.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
