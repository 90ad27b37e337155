"""A sign that a process's main loop still turns, for systemd's watchdog and for probes that look at a file's age.

A controller or a runner that hangs still has its process, its sockets and, for a while, its row in the store. Each turn
of its loop therefore touches the file that ``TIDEOVER_PULSE`` names, and sends systemd ``READY=1`` and ``WATCHDOG=1``
(sd_notify(3)). Neither needs the store or a cluster: a process that waits for them is alive.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

PULSE = "TIDEOVER_PULSE"
"""The environment variable that names the file."""

_EVERY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass
class Pulse:
    """Where a loop says that it turns; nothing is written unless the environment names a file."""

    file: Path | None
    """Touched at each beat: its modification time is when the loop turned last."""
    notify_socket: str | None
    """systemd's, as ``NOTIFY_SOCKET`` names it; one that begins with ``@`` is in the abstract namespace."""
    turned_at: float = float("-inf")
    """When the loop turned last, monotonic."""
    _next: float = float("-inf")
    _failed: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """What the environment of a process requires."""
        file = environment.get(PULSE)
        return cls(file=Path(file) if file else None, notify_socket=environment.get("NOTIFY_SOCKET") or None)

    def beat(self, now: float) -> None:
        """Say that the loop has turned; at most once a second. ``now`` is monotonic, in seconds.

        A failure is logged once and raised never: a sign of life must not end what lives.
        """
        self.turned_at = now
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        try:
            if self.file is not None:
                self.file.touch()
            if self.notify_socket is not None:
                _notify(self.notify_socket)
        except OSError as error:
            if self._failed != str(error):
                _log.warning(
                    "the heartbeat file cannot be written; liveness probes will see this process as hung",
                    error=str(error),
                )
            self._failed = str(error)
        else:
            self._failed = None


def own_pulse() -> Pulse:
    """The pulse of this process."""
    return Pulse.of(os.environ)


def _notify(address: str) -> None:
    path = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messenger:
        messenger.sendto(b"READY=1\nWATCHDOG=1", path)
