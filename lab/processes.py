"""Processes that outlive the command that started them, and are found again without ever hitting a stranger.

A pid alone is reused by the kernel; pid, start time and boot together are not. A signal goes through a pidfd that was
opened before the start time was compared, so the process cannot change in between.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["running", "frozen", "gone"]

_PROC = Path("/proc")
_POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of this boot of this machine."""

    pid: int
    started: str
    """Boot id and the kernel's start time in clock ticks."""


def identify(pid: int) -> Process | None:
    """Return the process that has a pid now; None when there is none, or only its exit status is left."""
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Process(pid=pid, started=f"{boot}:{fields[19]}")


def look(process: Process) -> State:
    """Return whether a process runs, is stopped by a signal, or is gone."""
    if identify(process.pid) != process:
        return "gone"
    fields = _stat(process.pid)
    if fields is None:
        return "gone"
    return "frozen" if fields[0] in "Tt" else "running"


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def end(processes: Iterable[Process], grace_seconds: float) -> None:
    """Send all the signal to end, wait, and kill those that did not (a frozen one cannot hear anything else)."""
    left = [process for process in processes if send(process, signal.SIGTERM)]
    deadline = time.monotonic() + grace_seconds
    while left and time.monotonic() < deadline:
        left = [process for process in left if look(process) == "running"] + _kill_frozen(left)
        time.sleep(_POLL_SECONDS if left else 0)
    for process in left:
        send(process, signal.SIGKILL)
    await_gone(left)


def await_gone(processes: Sequence[Process]) -> None:
    """Wait until the kernel has ended what was killed."""
    while any(look(process) != "gone" for process in processes):
        time.sleep(_POLL_SECONDS)


def spawn(command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> Process:
    """Start a process in a session of its own, appending what it prints to a log."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(environment),
            start_new_session=True,
        )  # fmt: skip
    child.returncode = 0  # it is meant to outlive us: no warning when this object goes
    fields = _stat(child.pid)
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Process(pid=child.pid, started=f"{boot}:{fields[19] if fields else 0}")


def find(argument: str) -> list[Process]:
    """Return the processes that were started with exactly this argument: ours, whose pid was never written down."""
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended while we looked, or belongs to another user
            continue
        process = identify(int(entry.name)) if argument.encode() in words else None
        if process is not None:
            found.append(process)
    return found


def children(parent: int, *, argument: str) -> list[int]:
    """Return the pids of the processes that a process started with exactly this argument."""
    named = {process.pid: _stat(process.pid) for process in find(argument)}
    return [pid for pid, fields in named.items() if fields is not None and fields[1] == str(parent)]


def tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _kill_frozen(processes: Iterable[Process]) -> list[Process]:
    frozen = [process for process in processes if look(process) == "frozen"]
    for process in frozen:
        send(process, signal.SIGKILL)
    return frozen


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command's name: state first, start time at index 19."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
