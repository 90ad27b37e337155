"""A way to an object store on which answers get lost: the store takes a conditional put, and its client hears nothing.

The client sees a connection that ends, and sends its request again. The store refuses that one, because the object is
there by then.
"""

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_CONDITIONAL = rb"\APUT .*\r\nif-none-match:"
_INTERIM = b"HTTP/1.1 100"
_PIECE = 1 << 16


@dataclass
class LossyWay:
    """Carries connections from its own port to the store's."""

    target: int
    loses: Callable[[int], bool]
    """Whether the answer of the n-th conditional put is lost, counted from 1."""
    counts: re.Pattern[bytes]
    """What such a request begins with."""
    instead: tuple[bytes, bytes] = (b"", b"")
    """What is put in the place of what, in each request; both are of one length."""
    port: int = 0
    puts: int = 0
    lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_lost(self) -> bool:
        """Count a conditional put; whether its answer is lost."""
        with self._lock:
            self.puts += 1
            lost = self.loses(self.puts)
            self.lost += lost
            return lost

    def carry(self, client: socket.socket) -> None:
        """One connection, until either side ends it or an answer is lost."""
        with client, socket.create_connection(("127.0.0.1", self.target)) as store:
            losing = threading.Event()

            def answers() -> None:
                with contextlib.suppress(OSError):
                    while data := store.recv(_PIECE):
                        if losing.is_set() and not data.startswith(_INTERIM):
                            break
                        client.sendall(data)
                for each in (client, store):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

            back = threading.Thread(target=answers, daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while data := client.recv(_PIECE):
                    if self.counts.match(data) and self.is_lost():
                        losing.set()
                    store.sendall(data.replace(*self.instead) if self.instead[0] else data)
                store.shutdown(socket.SHUT_WR)
            back.join()


@contextmanager
def lossy_way(
    target: int,
    loses: Callable[[int], bool],
    *,
    counts: bytes = _CONDITIONAL,
    instead: tuple[bytes, bytes] = (b"", b""),
) -> Iterator[LossyWay]:
    """A way to a port of this host, until the block ends."""
    way = LossyWay(target, loses, re.compile(counts, re.IGNORECASE | re.DOTALL), instead)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way.port = listener.getsockname()[1]

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=way.carry, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield way
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
