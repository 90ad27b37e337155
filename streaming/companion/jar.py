"""Finds the companion's jar: the one that was shipped, or one that is built where the Java was changed.

Beside the jar lies a record: its own SHA-256, and that of the sources it was made from. A wheel brings both, so that a
machine without a compiler has the jar; a clone has neither at first, and builds. A jar that does not fit its record, or
whose sources are others now, is never used.

`python -m streaming.companion` builds it where it has to be built, and prints its path.
"""

import hashlib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from streaming.companion.build import build, sources_digest
from streaming.errors import CompanionError
from streaming.jars import Progress, cache_root, held

_FOLDER = Path(__file__).parent
_JAR = "companion.jar"
_RECORD = "companion.json"


class Record(BaseModel):
    """What a jar is, and what it was made from; both SHA-256 in hexadecimal."""

    model_config = ConfigDict(frozen=True)

    jar: str
    sources: str


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
