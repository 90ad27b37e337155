"""The tools of the companion's Java: ``python -m tests.java format`` rewrites it, ``check`` says what that changes."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

from streaming.companion.jar import SOURCES, Line, companion_jar, run_javac
from streaming.jars import jar_paths
from streaming.java import OLDEST_MAJOR, java_home_binary

TESTS = Path(__file__).parent / "java"
CASES = Path(__file__).parent / "cases"
"""Cases that tests in Python and in Java share, where both apply one rule."""
_SPARK, _KAFKA = "companion-4.2.0", "spark-4.2.0"
_COMPILER_DOORS = [
    f"--add-exports=jdk.compiler/com.sun.tools.javac.{name}=ALL-UNNAMED"
    for name in ("api", "code", "file", "parser", "tree", "util")
]
"""What google-java-format wants opened of the JDK, by its own README."""
_SECONDS = 300.0


def run_format(*options: str) -> "subprocess.CompletedProcess[str]":
    """google-java-format over all our Java."""
    sources = [
        str(path)
        for root in (SOURCES, TESTS, *(TESTS.parent / name for name in ("suites", "jobs")))
        for path in sorted(root.rglob("*.java"))
    ]
    return _java([*_COMPILER_DOORS, "-jar", str(_tool("google-java-format")), *options, *sources])


def run_junit(scratch: Path) -> "subprocess.CompletedProcess[str]":
    """Compile the Java tests against the jar and run them."""
    jars = [companion_jar(), _tool("junit-platform-console-standalone"), *jar_paths(_KAFKA)]
    run_javac(sorted(TESTS.rglob("*.java")), [*jars, *jar_paths(_SPARK)], scratch, OLDEST_MAJOR)
    class_path = os.pathsep.join(map(str, [scratch, *jars, Path(pyspark.__file__).parent / "jars" / "*"]))
    launcher = [
        f"-Dtideover.cases={CASES}",
        "-cp",
        class_path,
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        "--disable-banner",
    ]
    return _java([*launcher, "--scan-class-path", str(scratch), "--fail-if-no-tests", "--details", "tree"])


def java_digest() -> str:
    """What the result of the Java tests depends on: our jar, the tests, their cases, jars of Spark and of Kafka."""
    jars = [companion_jar(), *jar_paths(_SPARK), *jar_paths(_KAFKA)]
    texts = sorted(path for folder in (TESTS, CASES) for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256(pyspark.__version__.encode())
    for path in (*texts, jars[0]):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    digest.update("".join(path.name for path in jars).encode())
    return digest.hexdigest()


def compile_race(scratch: Path, line: Line) -> str:
    """Compile the race of writers for a Spark line; the name of its class, whose folder is ``scratch/classes``."""
    source = scratch / "Race.java"
    source.write_text(
        line.adapted((TESTS / "tideover/spark41/Race.java").read_text(encoding="utf-8")), encoding="utf-8"
    )
    run_javac([source], jar_paths(f"companion-{line.spark}"), scratch / "classes", OLDEST_MAJOR)
    return f"tideover.{line.package}.Race"


def _tool(name: str) -> Path:
    return next(path for path in jar_paths("companion-tools") if path.name.startswith(name))


def _java(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(java_home_binary()), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
    )


if __name__ == "__main__":
    verbs = {"format": ["--replace"], "check": ["--dry-run", "--set-exit-if-changed"]}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.exit("usage: python -m tests.java format|check")
    formatted = run_format(*verbs[sys.argv[1]])
    sys.stderr.write(formatted.stdout + formatted.stderr)
    sys.exit(formatted.returncode)
