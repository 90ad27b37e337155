"""Free ports for servers of tests, apart from those of worlds (``lab.ports``)."""

import random

from lab.ports import is_free

_given: set[int] = set()


def free_port() -> int:
    """A port that no one listens on now, and that this process was not given before."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(12000, 19000)
        if port not in _given and is_free(port):
            _given.add(port)
            return port
    raise OSError("no free port between 12000 and 19000")
