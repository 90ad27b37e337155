"""Where a measurement was taken: machine, versions, commit. Absolute times mean nothing without them."""

import os
import platform
import subprocess
import timeit
from importlib import metadata
from pathlib import Path

from streaming.java import java_home_binary

LIBRARIES = ("pyspark", "kafka-python", "confluent-kafka", "SQLAlchemy")


def machine() -> dict[str, object]:
    """Cores, memory, processor, kernel, and the load before the bench began (others may be at work)."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{_memory_gib():.0f} GiB",
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "a million squares in Python": f"{min(timeit.repeat(_squares, number=1, repeat=5)) * 1000:.0f} ms",
    }


def _squares() -> int:
    """Work whose time tells how fast this machine is today: a shared one may be half as fast as yesterday."""
    return sum(number * number for number in range(1_000_000))


def versions(kafka: str) -> dict[str, str]:
    """Of the interpreter, of Java, of the brokers and of the libraries that are compared."""
    return {
        "Python": platform.python_version(),
        "Java": _java(),
        "Kafka": kafka,
        **{name: _installed(name) for name in LIBRARIES},
    }


def commit(root: Path) -> str:
    """Short commit id of the checkout, marked ``+changes`` when files differ from it; ``unknown`` outside of git.

    Reports do not count: a run that brings several of them up to date would mark itself.
    """
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return "unknown"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/reports")
    return head + ("+changes" if changed else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _java() -> str:
    answer = subprocess.run([java_home_binary(), "-version"], capture_output=True, text=True, timeout=30, check=False)
    return answer.stderr.splitlines()[0].replace('"', "") if answer.stderr else "unknown"


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
