"""Names a process for ever, and tells whether it is still there; Linux, from ``/proc``.

A pid alone is reused; together with the boot's id and the start time in clock ticks it is not. A driver is two
processes: ours and the JVM that it launched, which outlives a killed parent by the time its shutdown takes. So a
runner counts as gone only when both are.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from state.model import RunnerFact
from state.protocol import Process
from streaming.host import boot_id, host_name, is_over, started_at
from streaming.spark.session import INSTANCE_KEY

_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """This host, this boot, this process."""

    host: str
    boot_id: str
    pid: int
    pid_started: int


def own_identity() -> Identity:
    """Who we are."""
    pid = os.getpid()
    return Identity(host=host_name(), boot_id=boot_id(), pid=pid, pid_started=started_at(pid) or 0)


def is_gone(process: Process | RunnerFact, here: Identity) -> bool | None:
    """Whether a process of this host has ended; None when it belongs to another host, where we cannot look."""
    return is_over(
        process.host, process.boot_id, process.pid, process.pid_started, here=here.host, boot_here=here.boot_id
    )


def orphans(instance: str) -> list[int]:
    """JVMs on this host that a runner's instance launched."""
    marker = f"{INSTANCE_KEY}={instance}".encode()
    return [pid for pid, words in _command_lines() if any(marker in word for word in words) and _is_java(words)]


def end_orphans(instance: str) -> list[int]:
    """Kill the JVMs that a dead runner left behind, and return those that were still there."""
    found = orphans(instance)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            continue  # it stays in the list: the caller sees that it is not gone
    return found


def _is_java(words: list[bytes]) -> bool:
    return words[0].endswith(b"java")


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked, or is not ours to look at
            yield int(folder.name), words
