"""Files that their owner alone may read, under any umask: the store, the spool, evidence.

They name queries, topics, people and reasons, and an SQLite store can be written by each user who may write its file.
Files of a checkpoint are Spark's: they keep the umask, for executors may run as another user.
"""

import os
from pathlib import Path
from typing import TextIO

_FILE, _FOLDER = 0o600, 0o700


def make_private_folder(path: Path) -> None:
    """Make the folder, and those above it that are missing. One that is there keeps its mode. Raises ``OSError``."""
    for missing in [each for each in (*reversed(path.parents), path) if not each.exists()]:
        missing.mkdir(mode=_FOLDER, exist_ok=True)
    path.mkdir(mode=_FOLDER, exist_ok=True)  # raises where a file has the name


def make_private_file(path: Path) -> None:
    """Make an empty file, or leave the one that is there as it is. Raises ``OSError``."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _FILE))


def private_writer(path: Path, *, is_new: bool = False) -> TextIO:
    """The file, open to write text. ``is_new``: raises ``FileExistsError`` where it is there. Raises ``OSError``."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | (os.O_EXCL if is_new else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, _FILE), "w", encoding="utf-8")
