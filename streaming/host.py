"""Which host and which boot this is, as far as a process elsewhere may conclude anything from it; Linux.

A name that is equal must mean one and the same process table, or somebody is taken for dead who is merely cut off. The
host's name alone does not: a machine or a pod is made anew under the name of one that may still be running. So the name
carries the pid namespace (a container does not see its neighbour's processes), and outside of containers the machine's
id. Inside, ``/etc/machine-id`` is the image's, shared by all that were made of it, and is not used: there an unlike
boot proves nothing, while the same boot with a process that is gone still does.
"""

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
_FIRST_NAMESPACE = "4026531836"
"""The kernel's own pid namespace (``PROC_PID_INIT_INO``)."""
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
_POD = "KUBERNETES_SERVICE_HOST"
"""Docker, Podman and Kubernetes leave these also where a container has the pid namespace of its host."""
_ID_DIGITS = 32
_MACHINE_NAMED = 2
"""So many slashes has a name with a machine in it: another boot under it means that the earlier one is over."""
_START_TIME = 19
"""Field 22 of ``/proc/<pid>/stat``, counted after the command's closing bracket."""


def host_name(root: Path = ROOT) -> str:
    """``name/namespace/machine``; without its last part where the machine cannot be told, ``name/`` without ``/proc``.

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
    """Whether a process of this host has ended; None when it belongs to another host, or that cannot be told."""
    if host != here or host.endswith("/") or not boot or not boot_here:
        return None
    if boot != boot_here:
        return True if here.count("/") == _MACHINE_NAMED else None
    return started_at(pid, root) != started
