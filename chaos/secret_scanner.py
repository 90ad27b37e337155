"""Looks into files where they lie: handed to the Python of a container as text, so that it imports nothing of ours.

What to look for comes on standard input, since everybody may read the arguments of a process; answers are JSON.

    python -c TEXT gather FOLDER SUFFIX...      {name below FOLDER: content}
    python -c TEXT look FOLDER...               {"read": [path], "unread": [path], "hits": [[path, name of a secret]]}
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def answer(words: Sequence[str], given: str) -> str:
    """What is printed for these arguments and that input."""
    verb, *rest = words
    if verb == "gather":
        return json.dumps(gather(Path(rest[0]), rest[1:]))
    return json.dumps(look([Path(word) for word in rest], json.loads(given)))


def gather(folder: Path, suffixes: Sequence[str]) -> dict[str, str]:
    """Read small files whole. Raises OSError when one cannot be read, UnicodeDecodeError when one is not ASCII."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in suffixes]
    return {str(path.relative_to(folder)): path.read_text(encoding="ascii") for path in paths}


def look(folders: Sequence[Path], secrets: Mapping[str, str], block: int = _BLOCK) -> dict[str, list[Any]]:
    """Search every file below some folders; ``block`` bytes of one are held at a time.

    A file that is gone before its turn could not be read by others. One that is there and cannot be read is reported.
    """
    wanted = {name: secret.encode() for name, secret in secrets.items()}
    report: dict[str, list[Any]] = {"read": [], "unread": [], "hits": []}
    for path in _files(folders, report["unread"]):
        try:
            found = _names_in(path, wanted, block)
        except FileNotFoundError:
            continue
        except OSError:
            report["unread"].append(str(path))
            continue
        report["read"].append(str(path))
        report["hits"] += [[str(path), name] for name in found]
    return report


def _files(folders: Sequence[Path], unread: list[Any]) -> Iterator[Path]:
    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unread.append(error.filename)

    for folder in folders:
        for where, _, names in os.walk(folder, onerror=note):
            paths = (Path(where, name) for name in sorted(names))
            yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _names_in(path: Path, wanted: Mapping[str, bytes], block: int) -> list[str]:
    """Those that stand in a file, also where two blocks meet."""
    overlap = max(map(len, wanted.values()), default=1) - 1
    found: set[str] = set()
    kept = b""
    with path.open("rb") as file:
        while read := file.read(block):
            text = kept + read
            found |= {name for name, secret in wanted.items() if secret in text}
            kept = text[len(text) - overlap :] if overlap else b""
    return sorted(found)


if __name__ == "__main__":
    sys.stdout.write(answer(sys.argv[1:], sys.stdin.read()))
