"""On what a measurement was taken, beside the origin of its report. Absolute times mean nothing without it."""

import os
import platform
import timeit
from importlib import metadata

from reports.origin import cores, java, memory, processor

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
    """Work whose time tells how fast this machine is today: a shared one may be half as fast as yesterday."""
    return sum(number * number for number in range(1_000_000))


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
