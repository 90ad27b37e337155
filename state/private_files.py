"""Files that their owner alone may read, under any umask: the store, the spool, evidence.

They name queries, topics, people and reasons, and an SQLite store can be written by each user who may write its file.
Files of a checkpoint are Spark's: they keep the umask, for executors may run as another user.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import TextIO

_FILE, _FOLDER = 0o600, 0o700


def make_private_folder(path: Path) -> None:
    """Make the folder, and those above it that are missing. One that is there keeps its mode. Raises ``OSError``."""
    for missing in [each for each in (*reversed(path.parents), path) if not each.exists()]:
        missing.mkdir(mode=_FOLDER, exist_ok=True)
    path.mkdir(mode=_FOLDER, exist_ok=True)  # raises where a file has the name


def make_private_file(path: Path) -> None:
    """Make an empty file, or leave the one that is there as it is. Raises ``OSError``.

    The file under ``path`` is never opened here. To close a file drops each lock that this process holds on it, by any
    other descriptor, too: in the middle of a transaction of SQLite that corrupts the store.
    """
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _FILE))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def private_writer(path: Path, *, is_new: bool = False) -> TextIO:
    """The file, open to write text. ``is_new``: raises ``FileExistsError`` where it is there. Raises ``OSError``."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | (os.O_EXCL if is_new else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, _FILE), "w", encoding="utf-8")
