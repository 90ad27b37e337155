"""What was acknowledged, written down as it happens, so that it is known even after the producer was killed.

One append-only file for each run of traffic, `acked/<topic>.<run>.<cluster>.ids`, one record a line: id, partition,
offset, timestamp in ms. An offset of -1 is a record whose fate the producer never learned: it may have been written or
not.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.world import hold

UNKNOWN_OFFSET = -1
IDS_PER_RUN = 10_000_000

_SYNC_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Sent:
    """One record that was sent."""

    id: int
    partition: int
    offset: int
    at_ms: int

    @property
    def acknowledged(self) -> bool:
        """Whether the cluster said that it has the record."""
        return self.offset != UNKNOWN_OFFSET


def take_run(folder: Path) -> int:
    """Take the next run number of a world, from 1."""
    with hold(folder):
        path = folder / "runs"
        run = int(path.read_text(encoding="ascii")) + 1 if path.exists() else 1
        path.write_text(f"{run}\n", encoding="ascii")
    return run


def read(folder: Path, topic: str, cluster: str) -> Iterator[Sent]:
    """Yield what was sent to a topic of a cluster, run by run, in the order in which it became known."""
    for path in _runs(folder, topic, cluster):
        whole, _, _ = path.read_text(encoding="ascii").rpartition("\n")  # the last line may be half written
        for line in whole.splitlines():
            yield Sent(*map(int, line.split()))


def count(folder: Path, topic: str, cluster: str) -> int:
    """How many records of a topic a cluster acknowledged; in the memory of one line."""
    unknown, counted = str(UNKNOWN_OFFSET), 0
    for path in _runs(folder, topic, cluster):
        with path.open(encoding="ascii") as file:
            counted += sum(line.endswith("\n") and line.split()[2] != unknown for line in file)
    return counted


def topics(folder: Path, cluster: str) -> set[str]:
    """The topics of a cluster to which something was sent."""
    return {path.name.rsplit(".", 3)[0] for path in folder.glob(f"*.{cluster}.ids")}


def _runs(folder: Path, topic: str, cluster: str) -> list[Path]:
    """The files of the runs to a topic of a cluster, in their order."""
    paths = (path for path in folder.glob(f"*.{cluster}.ids") if path.name.rsplit(".", 3)[0] == topic)
    return sorted(paths, key=lambda path: int(path.name.rsplit(".", 3)[1]))


class Ledger:
    """The file of one run; safe on disk a tenth of a second after the acknowledgement."""

    def __init__(self, folder: Path, topic: str, run: int, cluster: str) -> None:
        self._file = (folder / f"{topic}.{run}.{cluster}.ids").open("x", encoding="ascii")
        self._lines: list[str] = []
        self._synced_at = time.monotonic()

    def note(self, sent: Sent) -> None:
        """Remember one record; written at the next `sync`."""
        self._lines.append(f"{sent.id} {sent.partition} {sent.offset} {sent.at_ms}\n")

    def sync(self, *, now: bool = False) -> None:
        """Write what was noted and make it safe, if that is due."""
        if not now and time.monotonic() < self._synced_at + _SYNC_SECONDS:
            return
        self._file.writelines(self._lines)
        self._lines.clear()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sync(now=True)
        self._file.close()
