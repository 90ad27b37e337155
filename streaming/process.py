"""Which host, which boot and which process this is, as far as others may conclude anything from it; Linux.

A name that is equal must mean one and the same process table, or a process that is merely cut off is taken for dead.
The host's name alone does not: a new machine or pod can have the name of one that may still be running. So the name
carries the pid namespace (a container does not see its neighbour's processes), and outside of containers the machine's
id. Inside, ``/etc/machine-id`` is the image's, shared by all that were made of it, and is not used. There an unlike
boot proves nothing, while the same boot with a process that is gone still does.

A pid alone is reused; together with the boot's id and the start time in clock ticks it is not. A driver is two
processes: ours and the JVM that it launched, which outlives a killed parent by the time its shutdown takes. So a
runner counts as gone only when both are.
"""

import hashlib
import os
import signal
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from state.messages import Process
from state.model.entities import RunnerFact

ROOT = Path("/")
INSTANCE_KEY = "spark.tideover.instance"
"""Is part of the command line of a driver's JVM: an orphaned one is known by its runner's instance."""
_FIRST_NAMESPACE = "4026531836"
"""The kernel's own pid namespace (``PROC_PID_INIT_INO``)."""
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
_POD = "KUBERNETES_SERVICE_HOST"
"""Docker, Podman and Kubernetes leave these also where a container has the pid namespace of its host."""
_ID_DIGITS = 32
_MACHINE_NAMED = 2
"""The slashes in a name with a machine in it: another boot under it means that the earlier one is over."""
_START_TIME = 19
"""Field 22 of ``/proc/<pid>/stat``, counted after the command's closing bracket."""


def host_name(root: Path = ROOT) -> str:
    """``name/namespace/machine``; without its last part where the machine is unknown, ``name/`` without ``/proc``.

    The machine's id is confidential (``machine-id(5)``): eight digits of a digest stand for it.
    """
    namespace = machine = ""
    with suppress(OSError):
        namespace = str((root / "proc/self/ns/pid").readlink()).strip("pid:[]")
    if namespace == _FIRST_NAMESPACE and not _is_container(root):
        with suppress(OSError):
            machine = (root / "etc/machine-id").read_text(encoding="ascii", errors="replace").strip()
    parts = [socket.gethostname(), namespace]
    if len(machine) == _ID_DIGITS:  # it says "uninitialized" before the first boot is through
        parts.append(hashlib.sha256(f"tideover {machine}".encode()).hexdigest()[:8])
    return "/".join(parts)


def _is_container(root: Path) -> bool:
    return _POD in os.environ or any((root / mark).exists() for mark in _CONTAINER_MARKS)


def boot_id(root: Path = ROOT) -> str:
    """The id of this boot; empty without ``/proc``."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def started_at(pid: int, root: Path = ROOT) -> int | None:
    """Field 22 of ``/proc/<pid>/stat``, clock ticks since boot; None when there is no such process, or a zombie."""
    try:
        text = (root / "proc" / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and parentheses
    return None if fields[0] in {"Z", "X"} else int(fields[_START_TIME])


def is_over(
    host: str, boot: str, pid: int, started: int, *, here: str, boot_here: str, root: Path = ROOT
) -> bool | None:
    """Whether a process of this host has ended; None when it belongs to another host, or that is unknown."""
    if host != here or host.endswith("/") or not boot or not boot_here:
        return None
    if boot != boot_here:
        return True if here.count("/") == _MACHINE_NAMED else None
    return started_at(pid, root) != started


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


_BEFORE: dict[str, str | None] = {}
"""What the variables were that this process has set for itself; None: there was none."""
_OWN = "TIDEOVER_"


def set_own(name: str, value: str) -> None:
    """Set a variable for this process and what belongs to it; programs of others get what was there before."""
    _BEFORE.setdefault(name, os.environ.get(name))
    os.environ[name] = value


def environment_of_others(secret: Collection[str]) -> dict[str, str]:
    """The environment for a program that is not ours: as it was before, without ours and without these variables."""
    found = {**os.environ, **_BEFORE}
    return {
        name: value
        for name, value in found.items()
        if value is not None and name not in secret and not name.startswith(_OWN)
    }
