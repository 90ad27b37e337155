"""The folders of the checkpoints that moves make: their names tell the epoch and the operation of the move."""

import re
from typing import NamedTuple

_MADE = re.compile(r"epoch-(?P<epoch>\d+)-(?P<rest>[^/]+)")


class Made(NamedTuple):
    """What the name of such a folder tells."""

    epoch: int
    rest: str
    """The operation, and the number of the attempt where it was not the first."""

    def is_of(self, operation: str) -> bool:
        """Whether an operation made it, in whichever attempt."""
        return re.fullmatch(re.escape(operation) + r"(-\d+)?", self.rest) is not None


def folder(base: str, epoch: int, operation: str, attempt: int = 1) -> str:
    """The new checkpoint's folder. Each attempt has its own, so that a runner that wakes up late spoils none."""
    suffix = "" if attempt == 1 else f"-{attempt}"
    return f"{base.rstrip('/')}/epoch-{epoch}-{operation}{suffix}"


def next_folder(target: str, attempts: int) -> str:
    """The folder of the attempt after so many, the last of which had ``target``."""
    return f"{target}-{attempts + 1}" if attempts == 1 else f"{target.rpartition('-')[0]}-{attempts + 1}"


def read_folder(path: str) -> Made | None:
    """What a path or a name tells; None when no move made it."""
    made = _MADE.fullmatch(path.rstrip("/").rpartition("/")[2])
    return None if made is None else Made(int(made["epoch"]), made["rest"])
