"""Which process this is, and whether another one on this host is gone for sure.

A process is named by host, boot, process id and start time, so that a reused id is never taken for the old process.
The host's part names the pid namespace too: a container cannot see its neighbour's processes, and not seeing a
process proves nothing there.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

_START_TIME = 19
"""Field 22 of ``/proc/<pid>/stat``, counted after the command's closing bracket."""


def this_process(proc: Path = Path("/proc")) -> str:
    """``host:boot_id:pid:start``, unique for ever where ``/proc`` exists; elsewhere parts of it are empty."""
    pid = os.getpid()
    return f"{_host(proc)}:{_boot_id(proc)}:{pid}:{_started(pid, proc) or ''}"


def is_gone(name: str, proc: Path = Path("/proc")) -> bool:
    """Whether the process of this name is proven dead: same host and pid namespace, and it is not there any more."""
    parts = name.rsplit(":", 3)
    if len(parts) != 4 or not parts[2].isdigit() or not parts[3].isdigit():
        return False
    host, boot_id, pid, started = parts
    if host != _host(proc) or not _host(proc).partition("/")[2]:
        return False
    if boot_id != _boot_id(proc):
        return bool(boot_id) and bool(_boot_id(proc))
    return _started(int(pid), proc) != int(started)


def _host(proc: Path) -> str:
    namespace = ""
    with suppress(OSError):
        namespace = str((proc / "self/ns/pid").readlink()).strip("pid:[]")
    return f"{socket.gethostname()}/{namespace}"


def _boot_id(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started(pid: int, proc: Path) -> int | None:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_START_TIME])
