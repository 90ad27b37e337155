"""Opens the files of Spark's event logs: one file an application, or a folder of parts, plain or compressed by zstd.

Spark 4.0 and later write parts, compressed by zstd, by default; earlier versions one plain file.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import zstandard

_ROLLED = "eventlog_v2_"
_PART = "events_"
_PLAIN = frozenset({"", ".inprogress"})
_ZSTD = ".zstd"
CODECS = (".lz4", ".lzf", ".snappy")
"""Suffixes of logs that cannot be read here: Spark frames these in its own way."""


def logs_below(folder: Path) -> Sequence[tuple[Path, Sequence[Path]]]:
    """Every event log of a directory, with its files in order; nothing that is not one by name."""
    found: list[tuple[Path, Sequence[Path]]] = []
    for each in sorted(folder.iterdir()):
        if each.is_dir() and each.name.startswith(_ROLLED):
            parts = [part for part in each.iterdir() if part.name.startswith(_PART)]
            found.append((each, sorted(parts, key=_number)))
        elif each.is_file() and not each.name.startswith(".") and _is_log(each):
            found.append((each, [each]))
    return found


def lines_of(files: Sequence[Path]) -> Iterator[str]:
    """The lines of a log. Raises ``OSError``, and ``ValueError`` with a sentence for one that cannot be read."""
    for path in files:
        name = path.name.removesuffix(".inprogress")
        if name.endswith(CODECS):
            raise ValueError(f"{path} is compressed by {name.rpartition('.')[2]}; only plain files and zstd are read")
        with path.open("rb") as raw:
            if name.endswith(_ZSTD):
                yield from _decompressed(raw, path)
            else:
                yield from io.TextIOWrapper(raw, "utf-8", errors="replace")


def _decompressed(raw: io.BufferedReader, path: Path) -> Iterator[str]:
    """A driver that was killed leaves a frame without an end: what is there of it counts."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
            yield from io.TextIOWrapper(stream, "utf-8", errors="replace")
    except zstandard.ZstdError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _number(part: Path) -> int:
    number = part.name.split("_")[1]
    return int(number) if number.isdigit() else 0


def _is_log(path: Path) -> bool:
    suffix = path.suffix
    if suffix in {_ZSTD, *CODECS}:
        return True
    if suffix not in _PLAIN and not path.name.startswith(("app-", "application_", "local-", "spark-")):
        return False
    with path.open("rb") as file:
        return file.read(9) == b'{"Event":'
