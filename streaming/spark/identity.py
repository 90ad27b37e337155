"""Names a process for ever, and tells whether it is still there; Linux, from ``/proc``.

A pid alone is reused; together with the boot's id and the start time in clock ticks it is not. A driver is two
processes: ours and the JVM that it launched, which outlives a killed parent by the time its shutdown takes. So a
runner counts as gone only when both are.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from state.model import RunnerFact
from state.protocol import Process
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
    return Identity(host=_host(), boot_id=_boot_id(), pid=pid, pid_started=started_at(pid) or 0)


def _host() -> str:
    """Host name and pid namespace: not to see a process of another container proves nothing about it."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = str((_PROC / "self/ns/pid").readlink()).strip("pid:[]")
    return f"{socket.gethostname()}/{namespace}"


def started_at(pid: int) -> int | None:
    """Field 22 of ``/proc/<pid>/stat``, clock ticks since boot; None when there is no such process, or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and parentheses
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def is_gone(process: Process | RunnerFact, here: Identity) -> bool | None:
    """Whether a process of this host has ended; None when it belongs to another host, where we cannot look."""
    if process.host != here.host:
        return None
    if process.boot_id != here.boot_id:
        return True
    return started_at(process.pid) != process.pid_started


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


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
