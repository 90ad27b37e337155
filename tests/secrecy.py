"""Where a secret could have been left: in files, and in the arguments of processes, which everybody may read."""

import os
from contextlib import suppress
from pathlib import Path


def process_arguments() -> str:
    """Of every process that there is."""
    reported = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            reported.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(reported)


def files_below(folder: Path) -> list[Path]:
    """All of them, at any depth."""
    return [path for at, _, names in os.walk(folder) for name in names if (path := Path(at, name)).is_file()]


def files_with(secret: str, paths: list[Path]) -> list[str]:
    """Those in which it is found; one that has gone since, as a draft that was renamed, is passed over."""
    return [str(path) for path in paths if secret.encode() in _contents(path)]


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
