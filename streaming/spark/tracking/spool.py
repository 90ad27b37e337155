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
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path

from state.model.entities import EndSample, Position
from state.model.fingerprints import Fingerprints
from state.private_files import make_private_folder, private_writer

SHAPE = 3
"""Of the file's content; another shape is another version's, and dropped like a damaged file."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """Positions, and samples of a cluster's ends."""

    positions: tuple[Position, ...] = ()
    ends: tuple[EndSample, ...] = ()

    def merged(self, positions: Sequence[Position], ends: Sequence[EndSample]) -> "Spooled":
        """With newer ones added: of each query and epoch the newest two batches stay, of each end the newest."""
        by_key = {_key(position): position for position in [*self.positions, *positions]}
        batches: dict[tuple[str, int], set[int]] = {}
        for position in by_key.values():
            batches.setdefault((position.query, position.epoch), set()).add(position.batch)
        kept = {key: set(sorted(ids)[-2:]) for key, ids in batches.items()}
        newest = {(each.cluster, each.topic, each.partition): each for each in [*self.ends, *ends]}
        return replace(
            self,
            positions=tuple(each for each in by_key.values() if each.batch in kept[each.query, each.epoch]),
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
        """What is kept; nothing when there is no file, a damaged one, or one of another shape. Raises ``OSError``."""
        try:
            checksum, _, text = self._path.read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return Spooled()
        if checksum != _checksum(text):
            return Spooled()
        value = json.loads(text)
        if value.get("shape") != SHAPE:
            return Spooled()
        return Spooled(
            positions=tuple(_position(fields) for fields in value["positions"]),
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
                "shape": SHAPE,
                "positions": [_fields(each) | {"ring": Fingerprints.of(each.ring)} for each in spooled.positions],
                "ends": [_fields(sample) for sample in spooled.ends],
            },
            default=_plain,
        )
        make_private_folder(self._path.parent)
        aside = self._path.with_name(self._path.name + ".new")
        with private_writer(aside) as file:
            file.write(f"{_checksum(text)}\n{text}")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)


def _key(position: Position) -> tuple[str, int, int, str, str, int]:
    return position.query, position.epoch, position.batch, position.source, position.topic, position.partition


def _fields(noun: Position | EndSample) -> dict[str, object]:
    """What ``asdict`` gives, without its copies."""
    return {each.name: getattr(noun, each.name) for each in fields(noun)}


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Fingerprints):
        return value.to_bytes().hex()
    raise TypeError(f"{type(value).__name__} has no place in the spool")


def _position(kept: dict[str, object]) -> Position:
    ring, tracked_at = (
        Fingerprints.from_bytes(bytes.fromhex(str(kept["ring"]))),
        datetime.fromisoformat(str(kept["tracked_at"])),
    )
    return Position(**kept | {"ring": ring, "tracked_at": tracked_at})  # type: ignore[arg-type] # JSON, checked by its sum


def _checksum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
