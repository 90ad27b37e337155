"""Finds the Java that Spark, the lab's brokers and Ivy run on.

The binary itself prints its version: directory names and release files lie often enough, and the question costs
fifty milliseconds once.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from streaming.errors import JavaMissing

OLDEST_MAJOR = 17
SYSTEM_HOMES = Path("/usr/lib/jvm")
_ANSWER_SECONDS = 30.0


def java_home_binary() -> Path:
    """Return a `java` of version 17 or newer: JAVA_HOME first, then PATH, then the oldest that serves of the system's.

    Raises JavaMissing when there is none.
    """
    return _find(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


def java_home() -> Path:
    """The home of that Java, for a program that looks in JAVA_HOME, where another one may be that is too old."""
    binary = java_home_binary()
    own = Path(os.environ.get("JAVA_HOME", ""))
    return own if binary == own / "bin" / "java" else binary.resolve().parent.parent


@functools.cache
def _find(java_home: str | None, path: str | None) -> Path:
    for binary in _preferred(java_home, path):
        if _major(binary) >= OLDEST_MAJOR:
            return binary
    found = [(major, home / "bin" / "java") for home in _system_homes() if (major := _major(home / "bin" / "java"))]
    serving = sorted(pair for pair in found if pair[0] >= OLDEST_MAJOR)
    if serving:
        return serving[0][1]
    raise JavaMissing(
        f"Java {OLDEST_MAJOR} or newer was not found in JAVA_HOME, on PATH or under {SYSTEM_HOMES}",
        hint=f"install a Java {OLDEST_MAJOR} runtime (Debian, Ubuntu: openjdk-{OLDEST_MAJOR}-jre-headless) "
        "or point JAVA_HOME at one",
    )


def _preferred(java_home: str | None, path: str | None) -> Iterator[Path]:
    if java_home:
        yield Path(java_home) / "bin" / "java"
    if path and (on_path := shutil.which("java", path=path)):
        yield Path(on_path)


def _system_homes() -> list[Path]:
    return sorted(SYSTEM_HOMES.iterdir()) if SYSTEM_HOMES.is_dir() else []


def _major(binary: Path) -> int:
    """The major version of a binary; 0 where it prints none. Java 8 calls itself 1.8."""
    major = re.match(r"(?:1\.)?(\d+)", version(binary) or "")
    return int(major[1]) if major else 0


def version(binary: Path) -> str | None:
    """The version that a binary reports; None when it is missing, broken or silent.

    With options in the environment (``JDK_JAVA_OPTIONS``) it speaks of them first.
    """
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(rb'version "([^"]+)"', answer.stderr)
    return said[1].decode() if said and answer.returncode == 0 else None
