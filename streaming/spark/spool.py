"""What the store could not take, kept on local disk until it can; one file, replaced as a whole.

The store keeps the newest few batches of a query, so the newest is all that is worth keeping here: the file never grows
with the length of an outage. It is written aside, synced and renamed, so that a kill leaves the old file or the new
one. A line of its own carries the checksum of the rest: what a broken disk left is dropped, not believed.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from state.model import EndSample, Fingerprint, Position


@dataclass(frozen=True, slots=True)
class Spooled:
    """Positions with the checkpoint that they belong to, and samples of a cluster's ends."""

    positions: tuple[tuple[str, Position], ...] = ()
    """``(checkpoint, position)``: a position of a checkpoint that is not in use any more is not worth flushing."""
    ends: tuple[EndSample, ...] = ()

    def merged(self, positions: Sequence[tuple[str, Position]], ends: Sequence[EndSample]) -> "Spooled":
        """With newer ones added: of each query's checkpoint the newest two batches stay, of each end the newest."""
        by_key = {_key(*pair): pair for pair in [*self.positions, *positions]}
        batches: dict[tuple[str, str], set[int]] = {}
        for checkpoint, position in by_key.values():
            batches.setdefault((position.query, checkpoint), set()).add(position.batch)
        kept = {key: set(sorted(ids)[-2:]) for key, ids in batches.items()}
        newest = {(each.cluster, each.topic, each.partition): each for each in [*self.ends, *ends]}
        return replace(
            self,
            positions=tuple(pair for pair in by_key.values() if pair[1].batch in kept[pair[1].query, pair[0]]),
            ends=tuple(newest.values()),
        )

    @property
    def is_empty(self) -> bool:
        return not self.positions and not self.ends


class Spool:
    """The file. Not for several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Spooled:
        """What is kept; nothing when there is no file, or a damaged one. Raises ``OSError``."""
        try:
            checksum, _, text = self._path.read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return Spooled()
        if checksum != _checksum(text):
            return Spooled()
        value = json.loads(text)
        return Spooled(
            positions=tuple((checkpoint, _position(fields)) for checkpoint, fields in value["positions"]),
            ends=tuple(
                EndSample(**fields | {"sampled_at": datetime.fromisoformat(fields["sampled_at"])})
                for fields in value["ends"]
            ),
        )

    def save(self, spooled: Spooled) -> None:
        """Keep exactly this; nothing removes the file. Raises ``OSError``."""
        if spooled.is_empty:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            return
        text = json.dumps(
            {
                "positions": [[checkpoint, asdict(position)] for checkpoint, position in spooled.positions],
                "ends": [asdict(sample) for sample in spooled.ends],
            },
            default=_plain,
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_name(self._path.name + ".new")
        with aside.open("w", encoding="utf-8") as file:
            file.write(f"{_checksum(text)}\n{text}")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)


def _key(checkpoint: str, position: Position) -> tuple[str, str, str, str, int, int]:
    return checkpoint, position.query, position.source, position.topic, position.partition, position.batch


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no place in the spool")


def _position(fields: dict[str, object]) -> Position:
    ring = tuple(Fingerprint(offset, at, bytes.fromhex(digest)) for offset, at, digest in fields["ring"])  # type: ignore[attr-defined] # JSON, checked by its sum
    return Position(**fields | {"ring": ring, "tracked_at": datetime.fromisoformat(str(fields["tracked_at"]))})  # type: ignore[arg-type] # as above


def _checksum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
