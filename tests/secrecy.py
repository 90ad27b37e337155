"""Where a secret could have been left: in files, and in the arguments of processes, which everybody may read."""

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
    return [path for path in folder.rglob("*") if path.is_file()]


def files_with(secret: str, paths: list[Path]) -> list[str]:
    """Those in which it is found."""
    return [str(path) for path in paths if secret.encode() in path.read_bytes()]
