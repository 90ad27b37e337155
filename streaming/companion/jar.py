"""The companion's jar: the one that was shipped, or one that is built where the Java was changed.

Beside the jar lies a record: its own SHA-256, and that of the sources it was made from. A wheel brings both, so that a
machine without a compiler has the jar; a clone has neither at first, and builds. A jar that does not fit its record, or
whose sources are others now, is never used.

`python -m streaming.companion` builds it where it has to be built, and prints its path.

One jar serves all Spark lines, with the same bytes from the same sources. The Java uses public interfaces of Hadoop and
Spark only. Their ``CheckpointFileManager`` moved to another package with Spark 4.1, so the one class that implements it
is compiled twice, its package names replaced. It is compiled against the locked jars of a line of either kind. What
serves both has to come out the same. A test compiles it against those of every line
(``tests/real/test_companion_build.py``). A jar for each line would be five times the files for classes that do not
differ.

The classes of the tab in Spark's UI are compiled twice as well, for Spark 3 and for Spark 4. A Spark that they do not
fit has no tab (``UiPages.java``).

Which classes serve the Spark that runs is found out there, by what it has (``SparkBuild.java``); the jar lists its own
classes for that.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from streaming.errors import CompanionError, JavaMissing
from streaming.jars import Progress, cache_root, held, jar_paths
from streaming.java import java_home_binary

_FOLDER = Path(__file__).parent
_JAR = "companion.jar"
_CLASSES = "tideover/classes.txt"
_RECORD = "companion.json"
SOURCES = _FOLDER / "java"
_NEW, _OLD = "spark41", "spark35"
_UI, _OLD_UI = "ui4", "ui3"
_UI_MOVED = (
    (f"tideover.{_UI}", f"tideover.{_OLD_UI}"),
    ("jakarta.servlet.", "javax.servlet."),
    ("scala.collection.immutable.Seq", "scala.collection.Seq"),
)
_MOVED = (
    ("org.apache.spark.sql.execution.streaming.checkpointing.", "org.apache.spark.sql.execution.streaming."),
    (f"tideover.{_NEW}", f"tideover.{_OLD}"),
)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip file can hold."""
JAVA = 8
"""The oldest Java that loads the classes. Spark 3.4 and 3.5 run on 8, 11 and 17, Spark 4 on 17 and newer."""
_OPTIONS = (
    "-encoding",
    "UTF-8",
    "-proc:none",
    "-g:source,lines",
    "-Xlint:all,-classfile,-options",
    "-Werror",
)
"""Without ``classfile``, which is about annotations in Spark's own classes whose jars are not needed otherwise. Without
``options``: a newer compiler says there that it will make nothing for Java 8 one day."""
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Line:
    """A Spark version that is compiled against, and the package of the class that serves it."""

    spark: str
    package: str

    @property
    def manager(self) -> str:
        """The class for ``spark.sql.streaming.checkpointFileManagerClass``."""
        return f"tideover.{self.package}.FencedCheckpointFileManager"

    @property
    def sparks_package(self) -> str:
        """Where this Spark has its own managers."""
        return (_MOVED[0][0] if self.package == _NEW else _MOVED[0][1]).rstrip(".")

    @property
    def ui(self) -> str:
        """The package of the classes that serve its UI: servlets and Scala changed with Spark 4."""
        return _OLD_UI if self.spark.startswith("3.") else _UI

    def adapted(self, source: str) -> str:
        """A source written for the newest line, as this line takes it."""
        return source if self.package == _NEW else source.replace(*_MOVED[0]).replace(*_MOVED[1])

    def adapted_ui(self, source: str) -> str:
        """The same of a class of the UI."""
        if self.ui == _OLD_UI:
            for new, old in _UI_MOVED:
                source = source.replace(new, old)
        return source


class Record(BaseModel):
    """What a jar is, and what it was made from; both SHA-256 in hexadecimal."""

    model_config = ConfigDict(frozen=True)

    jar: str
    sources: str


LINES = (
    Line("3.4.4", _OLD),
    Line("3.5.7", _OLD),
    Line("4.0.0", _OLD),
    Line("4.1.2", _NEW),
    Line("4.2.0", _NEW),
)
"""Newest last. The companion fits them, and its classes are the same bytes for each."""
BUILT = (LINES[1], LINES[-1])
"""Those that the jar is made from, one of either package."""


def companion_jar(progress: Progress = lambda line: None, folder: Path = _FOLDER) -> Path:
    """The jar, built first where there is none of these sources.

    Raises ``CompanionError`` where it cannot be built or put there, ``JavaMissing`` without a compiler, ``JarError``.
    """
    sources = sources_digest()
    jar = folder / _JAR
    if _is_right(folder, sources):
        return jar
    lock = cache_root()
    lock.mkdir(parents=True, exist_ok=True)
    with held(lock / ".companion", lambda: progress("companion: waiting for another process that builds it")):
        if not _is_right(folder, sources):
            _build(folder, sources, progress)
    return jar


def _is_right(folder: Path, sources: str) -> bool:
    try:
        record = Record.model_validate_json((folder / _RECORD).read_bytes())
        return record == Record(jar=_sha256(folder / _JAR), sources=sources)
    except (OSError, ValidationError):
        return False


def _build(folder: Path, sources: str, progress: Progress) -> None:
    """The record goes first and comes last: killed in between, the next look builds again."""
    if not os.access(folder, os.W_OK):
        raise CompanionError(
            f"{folder / _JAR} is missing or not the one that was shipped, and it cannot be built there",
            hint="install Tideover again",
        )
    (folder / _RECORD).unlink(missing_ok=True)
    build(folder / _JAR, progress)
    draft = folder / f".{_RECORD}.{os.getpid()}"
    draft.write_text(Record(jar=_sha256(folder / _JAR), sources=sources).model_dump_json() + "\n", encoding="utf-8")
    draft.replace(folder / _RECORD)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sources_digest() -> str:
    """SHA-256 over names and contents of all sources, and over how they are compiled, in hexadecimal."""
    digest = hashlib.sha256(f"{JAVA} {_OPTIONS} {[line.spark for line in BUILT]} {_MOVED} {_UI_MOVED}\n".encode())
    for path in sorted(SOURCES.rglob("*.java")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def build(target: Path, progress: Progress) -> None:
    """Compile and pack; the jar appears whole. Raises ``CompanionError``, ``JavaMissing`` and ``JarError``."""
    with tempfile.TemporaryDirectory(prefix="tideover-companion-") as scratch:
        classes = compile_lines(Path(scratch), progress, BUILT)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    _pack(classes, draft)
    draft.replace(target)


def compile_lines(scratch: Path, progress: Progress, lines: Sequence[Line]) -> Mapping[str, bytes]:
    """All classes by their path in the jar, each the same from all of these lines. Raises as ``build`` does."""
    classes: dict[str, bytes] = {}
    for line in lines:
        progress(f"companion: compiling against Spark {line.spark}")
        folder = scratch / line.spark
        made = _compile(line, _adapted(line, folder / "sources"), folder / "classes")
        for name, content in made.items():
            if classes.setdefault(name, content) != content:
                raise CompanionError(f"{name} differs for Spark {line.spark}: one jar cannot serve all lines")
    return classes


def _adapted(line: Line, folder: Path) -> Path:
    """The sources as this line takes them."""
    shutil.copytree(SOURCES, folder)
    if line.package == _OLD:
        moved = (folder / "tideover" / _NEW).rename(folder / "tideover" / _OLD)
        for path in moved.glob("*.java"):
            path.write_text(line.adapted(path.read_text(encoding="utf-8")), encoding="utf-8")
    if line.ui == _OLD_UI:
        moved = (folder / "tideover" / _UI).rename(folder / "tideover" / _OLD_UI)
        for path in moved.glob("*.java"):
            path.write_text(line.adapted_ui(path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def _compile(line: Line, sources: Path, target: Path) -> Mapping[str, bytes]:
    run_javac(sorted(sources.rglob("*.java")), jar_paths(f"companion-{line.spark}"), target)
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in sorted(target.rglob("*.class"))}


def run_javac(sources: Sequence[Path], class_path: Sequence[Path], target: Path, java: int = JAVA) -> None:
    """Compile for a Java; every warning is an error. Raises ``CompanionError`` with what javac says."""
    given = ["--release", str(java), *_OPTIONS, "-cp", os.pathsep.join(map(str, class_path)), "-d", str(target)]
    command = [str(javac()), *given]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise CompanionError(f"the companion does not compile:\n{done.stdout}{done.stderr}")


def javac() -> Path:
    """The compiler beside the Java that is used. Raises ``JavaMissing``."""
    beside = java_home_binary().resolve().parent / "javac"
    found = str(beside) if beside.is_file() else shutil.which("javac")
    if found is None:
        raise JavaMissing(
            "the companion cannot be built: there is a Java, but no compiler (javac)",
            hint="install a JDK 17 (Debian, Ubuntu: openjdk-17-jdk-headless); an installed wheel brings the jar",
        )
    return Path(found)


def _pack(classes: Mapping[str, bytes], target: Path) -> None:
    """Write a jar that says nothing of when and where: sorted, one time, not compressed."""
    manifest = b"Manifest-Version: 1.0\r\nImplementation-Title: Tideover companion\r\n\r\n"
    names = "".join(f"{name.removesuffix('.class').replace('/', '.')}\n" for name in sorted(classes)).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as jar:
        for name, content in [("META-INF/MANIFEST.MF", manifest), (_CLASSES, names), *sorted(classes.items())]:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            jar.writestr(entry, content)
