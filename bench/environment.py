"""On what a measurement was taken, beside the origin of its report. Absolute times mean nothing without it."""

import os
import platform
import timeit
from importlib import metadata
from pathlib import Path

from reports.origin import cores, java, memory, processor

_TICKS = os.sysconf("SC_CLK_TCK")
LIBRARIES = ("pyspark", "kafka-python", "confluent-kafka", "SQLAlchemy")


def machine() -> dict[str, object]:
    """Cores, memory, processor, system, and the load before the bench began (others may be at work)."""
    return {
        "cores": cores(),
        "memory": memory(),
        "processor": processor(),
        "system": platform.system(),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "a million squares in Python": f"{min(timeit.repeat(_squares, number=1, repeat=5)) * 1000:.0f} ms",
    }


def _squares() -> int:
    """Work whose time shows how fast this machine is today: a shared one may be half as fast as yesterday."""
    return sum(number * number for number in range(1_000_000))


def spent_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, from ``/proc``."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def megabytes(pid: int) -> float:
    """Resident memory of a process, from ``/proc``."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def versions(kafka: str) -> dict[str, str]:
    """Of the interpreter, of Java, of the brokers and of the libraries that are compared."""
    return {
        "Python": platform.python_version(),
        "Java": java(),
        "Kafka": kafka,
        **{name: _installed(name) for name in LIBRARIES},
    }


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
