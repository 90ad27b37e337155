"""The names of checkpoint folders, and of mappings beside one: after the move that made them, and what a name contains.
Pure."""

import re
from typing import NamedTuple

from state.settings.canonical import are_one_folder, canonical_path

_MADE = re.compile(r"epoch-(?P<epoch>\d+)-(?P<rest>[^/]+)")
_BESIDE = re.compile(r"(?P<epoch>\d{1,18})-(?P<operation>[^/]+)\.(?P<attempt>\d+)")
_DRILL = "drill-"


class FolderName(NamedTuple):
    """What the name of such a folder contains."""

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


def mapping_name(epoch: int, operation: str, attempt: int = 1) -> str:
    """The file of a mapping, or of a planted epoch. Each attempt has its own: a late one takes back no other's."""
    return f"{epoch}-{operation}.{attempt}"


def read_mapping_name(name: str) -> tuple[int, str, int] | None:
    """Epoch, operation and attempt of such a file; None for any other name."""
    made = _BESIDE.fullmatch(name)
    return None if made is None else (int(made["epoch"]), made["operation"], int(made["attempt"]))


def drill_folder(base: str, operation: str) -> str:
    """Where a drill copies a checkpoint to. No move takes it for one of its own, and no query runs from it."""
    return f"{base.rstrip('/')}/{_DRILL}{operation}"


def read_drill_folder(path: str) -> str | None:
    """The drill that made a folder, by its name; None when none did."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.removeprefix(_DRILL) if name.startswith(_DRILL) and name != _DRILL else None


def next_folder(target: str, attempts: int) -> str:
    """The folder of the attempt after this many, the last of which had ``target``."""
    return f"{target}-{attempts + 1}" if attempts == 1 else f"{target.rpartition('-')[0]}-{attempts + 1}"


def read_folder(path: str) -> FolderName | None:
    """What a path or a name contains; None when no move made it."""
    made = _MADE.fullmatch(path.rstrip("/").rpartition("/")[2])
    return None if made is None else FolderName(int(made["epoch"]), made["rest"])


def is_copy(path: str, other: str) -> bool:
    """Whether one folder can only be a copy of the other in another place: a move gives each folder a name of its own.

    Both were made by one move, or both by none, and they are not one folder.
    """
    return not are_one_folder(path, other) and read_folder(path) == read_folder(other)


def belongs_to(path: str, base: str) -> bool:
    """Whether a folder is a query's own, or one that a move made directly in it.

    One that is written with ``..`` belongs to none: behind a link it is another folder than its text says.
    """
    if not base or ".." in path.split("/"):
        return False
    path, base = canonical_path(path), canonical_path(base)
    return path == base or (path.rpartition("/")[0] == base.removesuffix("/") and read_folder(path) is not None)


def is_of_drill(path: str, base: str, operation: str) -> bool:
    """Whether a folder is the one that a drill of a query copies its checkpoint to; nothing else is thrown away."""
    return bool(base) and are_one_folder(path, drill_folder(base, operation))
