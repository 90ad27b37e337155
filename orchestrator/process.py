"""Which process this is, and whether another one on this host is gone for sure.

A process is named by host, boot, process id and start time, so that a reused id is never taken for the old process.
"""

import os
from pathlib import Path

from streaming.host import ROOT, boot_id, host_name, is_over, started_at


def this_process(root: Path = ROOT) -> str:
    """``host:boot_id:pid:start``, unique for ever where ``/proc`` exists; elsewhere parts of it are empty."""
    pid = os.getpid()
    return f"{host_name(root)}:{boot_id(root)}:{pid}:{started_at(pid, root) or ''}"


def is_gone(name: str, root: Path = ROOT) -> bool:
    """Whether the process of this name is proven dead: of this host, and not there any more."""
    parts = name.rsplit(":", 3)
    if len(parts) != 4 or not parts[2].isdigit() or not parts[3].isdigit():
        return False
    host, boot, pid, started = parts
    here, boot_here = host_name(root), boot_id(root)
    return bool(is_over(host, boot, int(pid), int(started), here=here, boot_here=boot_here, root=root))
