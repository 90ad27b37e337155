"""Archives of the classes that a Java program loads: one that maps its archive starts on half the processor time.

Java's own class data sharing (JEP 310 and 350): what a trial run had loaded and verified is written when it ends, and
mapped by every later start. Measured on two cores with Java 17. A Spark session with its first query takes 22 s of
processor time without, 10 s with; a broker takes 4.0 s and 2.4 s. An archive is for one Java and one class path;
anything else would be refused by the JVM, so both are part of its name. Where there is none, programs start as they
always did.

`python -m lab archive` makes those of a runner's driver, of brokers and of MirrorMaker.
"""

import hashlib
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from streaming.jars import cache_root, java_home_binary

SETTING = "TIDEOVER_CLASS_ARCHIVE"
"""In the environment: ``read`` (the default), ``write`` (when the program ends), ``off``."""

_KEPT = 20
"""How many archives are kept: each is 30 to 150 MB, and a class path that changed leaves its old one behind."""


def archive_of(program: str, class_path: Iterable[str]) -> Path:
    """Where the archive of a program lies, whether or not it is there. An entry may end in ``*``: all jars."""
    parts = [_content(java_home_binary().resolve().parent.parent / "lib" / "modules")]
    for entry in filter(None, class_path):
        jars = _jars(Path(entry[:-1])) if entry.endswith("*") else [Path(entry)]
        parts += [entry, *sorted(_content(jar) for jar in jars)]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return archives() / f"{program}-{name}.jsa"


def options(archive: Path) -> list[str]:
    """Java's options to map an archive, or to write it, as ``SETTING`` says; none where it is not there.

    A JVM that cannot use an archive says nothing and continues without.
    """
    wanted = os.environ.get(SETTING, "read")
    if wanted == "write":
        archive.parent.mkdir(parents=True, exist_ok=True)
        return [f"-XX:ArchiveClassesAtExit={archive}.{uuid.uuid4().hex}", *_SILENT]
    return [f"-XX:SharedArchiveFile={archive}", *_SILENT] if wanted == "read" and archive.is_file() else []


def keep_trials() -> list[Path]:
    """Put what the programs of a trial run wrote in its place, each whole; the archives that are new. Old ones go."""
    written = {each.with_suffix(""): each for each in archives().glob("*.jsa.*")}  # of two brokers one is enough
    for archive, trial in written.items():
        trial.replace(archive)
    for other in archives().glob("*.jsa.*"):
        other.unlink()
    for old in sorted(archives().glob("*.jsa"), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return sorted(written)


def archives() -> Path:
    """The folder of all archives, beside the jars."""
    return cache_root() / "classes"


_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Java would report an archive that does not fit, on the standard output of a program that others read."""


def _jars(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in os.scandir(folder)] if folder.is_dir() else []


def _content(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return f"{path} -"
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"
