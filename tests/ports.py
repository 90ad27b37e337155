"""Free ports for worlds that run beside others."""

import random
import socket


def free_base_port(low: int = 20000, high: int = 30000) -> int:
    """A base port whose neighbours, also those of the second cluster ten thousand above, are free right now."""
    for _ in range(100):
        base = random.SystemRandom().randrange(low, high, 20)
        if all(_is_free(port) for start in (base, base + 10000) for port in range(start, start + 12)):
            return base
    raise OSError(f"no free block of ports between {low} and {high}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
