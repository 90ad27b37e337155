"""How the lab starts Kafka's Java programs: its jars, a small heap, one log configuration."""

import functools
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from streaming.jars import jar_paths, java_home_binary

Say = Callable[[str], None]


def classpath(kafka: str, say: Say) -> str:
    """Return the class path of a Kafka version, fetching its jars when the cache lacks them."""
    return ":".join(str(path) for path in _jars(kafka, say))


def command(main_class: str, *arguments: str, heap_mb: int) -> list[str]:
    """Return the command line of a Java program; the class path goes by the environment to keep it readable.

    The quick compiler and the serial collector alone: a world shares few cores, and starts often.
    """
    configuration = Path(str(resources.files("lab"))) / "log4j2.yaml"
    return [
        str(java_home_binary()), f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={configuration}", main_class, *arguments,
    ]  # fmt: skip


@functools.cache
def _jars(kafka: str, say: Say) -> tuple[Path, ...]:
    return tuple(jar_paths(f"kafka-{kafka}", progress=say))
