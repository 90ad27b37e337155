"""How the lab starts Kafka's Java programs: its jars, a small heap, one log configuration."""

import functools
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from streaming import class_archive
from streaming.jars import jar_paths, java_home_binary

ARCHIVED = ("StorageTool", "Kafka", "MirrorMaker")
"""The programs that a world starts."""

Say = Callable[[str], None]


def classpath(kafka: str, say: Say) -> str:
    """Return the class path of a Kafka version, fetching its jars when the cache lacks them."""
    return ":".join(str(path) for path in _jars(kafka, say))


def command(main_class: str, *arguments: str, heap_mb: int, class_path: str = "") -> list[str]:
    """Return the command line of a Java program; the class path goes by the environment to keep it readable.

    Given it here too, the program maps the archive of its classes where there is one (``streaming.class_archive``).
    The quick compiler and the serial collector alone: a world shares few cores, and starts often.
    """
    configuration = Path(str(resources.files("lab"))) / "log4j2.yaml"
    return [
        str(java_home_binary()), f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        *(class_archive.options(archive(main_class.rpartition(".")[2], class_path)) if class_path else ()),
        "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={configuration}", main_class, *arguments,
    ]  # fmt: skip


def archive(program: str, class_path: str) -> Path:
    """Where the archive of a program's classes lies, whether or not it is there."""
    return class_archive.archive_of(program, class_path.split(":"))


@functools.cache
def _jars(kafka: str, say: Say) -> tuple[Path, ...]:
    return tuple(jar_paths(f"kafka-{kafka}", progress=say))
