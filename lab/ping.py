"""How long a round trip to a broker takes, by hand: `python -m lab.ping DIR CLUSTER HOST:PORT` prints seconds.

A client of Kafka's would retry and keep connections, and so hide what a slow line does.
"""

import socket
import ssl
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab.access import Access
from lab.credentials import FOLDER

_TRIPS = 3
_MOST_SECONDS = 10.0
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""What any client sends first: size, key and version of the request, a number for the answer, no name of the client."""


def round_trip(address: str, *, tls: bool) -> float:
    """Seconds from a request to its answer, over a connection that is there. Raises OSError.

    Of a listener that speaks TLS the first flight of the handshake is requested, and no certificate is checked.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_MOST_SECONDS) as connection:
        begun = time.monotonic()
        if tls:
            anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
            anybody.wrap_socket(connection).close()
        else:
            connection.sendall(_API_VERSIONS)
            if not connection.recv(1):
                raise ConnectionError(f"{address} closed the connection without an answer")
        return time.monotonic() - begun


def main(arguments: Sequence[str]) -> int:
    """Print the shortest of a few round trips; a slow machine only adds to one. Exit 2 when there is no answer."""
    directory, cluster, address = arguments
    tls = Access.found(Path(directory) / FOLDER / cluster) is not None
    try:
        print(f"{min(round_trip(address, tls=tls) for _ in range(_TRIPS)):.3f}")
    except OSError as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
