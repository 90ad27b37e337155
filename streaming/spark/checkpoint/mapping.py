"""Where a query continues that changes its cluster and keeps its checkpoint: one small file for each move beside it.

Nothing in the checkpoint is copied or rewritten. A file in ``_tideover_mappings`` says for each source which offsets of
the new cluster stand for the end of the last batch. It has those for the end of the one in flight, too. The companion's
source reads it (``Mapping.java``). What the log says of the old cluster is translated. What it writes from then on
carries a mark that names the cluster and the epoch of the move. Spark's own Kafka source refuses such offsets.

What becomes of batch N + 1 is said by where its two ends lead:

none     it was never planned: only the end of N is named.
replan   both ends are named as they were found, and it runs again over the same records.
promote  the sink has it: both ends lead to where N + 1 ended, so that it is empty.
bridge   else: both ends lead to where N ended, so that it is empty and its records are read after it.

A mapping is written once, before the move is committed, and kept: an entry of the log may need it as long as it is
there. One that an abort could not take away leads nowhere, for no query was placed by it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from state.checkpoint_folders import mapping_name, read_mapping_name
from state.messages import UncommittedBatch
from state.model.entities import Assignment
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import Fence, OffsetEntry, TopicOffsets, read_mark, with_mark
from streaming.spark.errors import Contradicted, HalfWritten, MalformedEntry, NoMapping, TargetTaken, WrongCluster

MAPPINGS = "_tideover_mappings"
RELEASED = "_tideover_released"
"""The folder with what was there before offsets were rewritten in place; Spark passes over it."""
DONE = "done"
HOME = 0
"""Stands for the epoch of a checkpoint's first cluster, whose offsets carry no mark."""

SourceOffsets = Mapping[str, TopicOffsets]
"""Offsets by the source's key in the entry."""


class Place(BaseModel):
    """The offsets of all partitions of a source on the old cluster, and those that stand for them on the new one."""

    model_config = ConfigDict(frozen=True)

    there: dict[str, dict[str, int]]
    here: dict[str, dict[str, int]]


class Left(BaseModel):
    """The cluster that a move left, and the epoch under which the query had come there."""

    model_config = ConfigDict(frozen=True)

    cluster: str
    epoch: int


class Move(BaseModel):
    """One file: a move, and where each source continues."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    epoch: int
    operation: str
    attempt: int = 1
    """Which attempt of the operation wrote it; the last one counts."""
    left: Left
    to: str
    places: dict[str, tuple[Place, ...]]
    """By the source's key in the offset log."""

    @property
    def name(self) -> str:
        """Of its file."""
        return mapping_name(self.epoch, self.operation, self.attempt)

    def content(self) -> bytes:
        return self.model_dump_json().encode()

    def here(self, key: str, there: TopicOffsets) -> TopicOffsets | None:
        """The offsets that stand for a source's on the cluster that was left; None where none are named."""
        return next((place.here for place in self.places.get(key, ()) if place.there == there), None)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the row of a query says that it is."""

    cluster: str
    epoch: int
    """Of the move by which it came there on its checkpoint; 0 where the checkpoint began there."""

    @classmethod
    def of(cls, row: Assignment) -> "Placed":
        made = None if row.mapping is None else read_mapping_name(row.mapping)
        if row.mapping is not None and made is None:
            raise MalformedEntry(f"{row.query} is placed by {row.mapping}, which is not the name of a mapping")
        return cls(row.cluster, HOME if made is None else made[0])


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves by which a query came to where it is placed, oldest first; each begins where the one before ended."""

    chain: tuple[Move, ...] = ()
    base: Move | None = None
    """The move behind which offsets were rewritten in place: those without a mark are of its cluster. None where they
    are of the cluster on which the checkpoint began."""
    base_from: int = 0
    """The first batch whose entry was rewritten; earlier ones are of a cluster that was left."""

    @property
    def every(self) -> tuple[Move, ...]:
        """That one and those behind it."""
        return self.chain if self.base is None else (self.base, *self.chain)

    @property
    def epoch(self) -> int:
        """Under which the query came to its cluster."""
        return self.every[-1].epoch if self.every else HOME

    def on_active(self, entry: OffsetEntry, where: str, batch: int | None = None) -> OffsetEntry:
        """An entry in the offsets of the cluster on which the query is placed, and without marks.

        ``batch``: its id, where the log says it. Raises ``NoMapping`` where a place on an earlier cluster has none
        here; what is no Kafka source's stays.
        """
        if self.base is not None and batch is not None and batch < self.base_from:
            raise NoMapping(f"{where} is of a cluster that was left before batch {self.base_from}")
        texts = {key: self._text(key, text, where) for key, text in entry.sources.items()}
        return entry if texts == dict(entry.sources) else replace(entry, sources=texts)

    def _text(self, key: str, text: str | None, where: str) -> str | None:
        marked = None if text is None else read_mark(text)
        if marked is None:
            return text
        epoch, offsets, plain = marked
        if epoch == HOME and self.base is not None:
            epoch = self.base.epoch
        if epoch == self.epoch:
            return plain
        first = next((index for index, move in enumerate(self.chain) if move.left.epoch == epoch), None)
        if first is None:
            raise NoMapping(f"{where}: source {key} is at {text}, and no mapping leads from there")
        at: TopicOffsets = offsets
        for move in self.chain[first:]:
            here = move.here(key, at)
            if here is None:
                raise NoMapping(
                    f"{where}: source {key} is at {text}, and operation {move.operation} found no resume offset on "
                    f"{move.to} for that"
                )
            at = here
        return with_mark(at, None)


def read_moves(files: CheckpointFiles, checkpoint: str, placed: Placed | None) -> Moves:
    """What counts for a query at its place; None: whatever is there.

    Raises ``MalformedEntry`` for a file that is none, and what ``chain_of`` raises.
    """
    found = all_moves(files, checkpoint)
    return chain_of(found, placed, checkpoint, rewritten_by(files, checkpoint) if found else _NONE)


def rewritten_by(files: CheckpointFiles, checkpoint: str) -> dict[str, int]:
    """The mappings behind which the offsets of a checkpoint were rewritten in place, by name, each with the first batch
    of which they were. Raises ``MalformedEntry``.
    """
    found = {}
    for name in files.list_names(join(checkpoint, RELEASED)):
        if DONE in files.list_names(join(checkpoint, RELEASED, name)):
            path = join(checkpoint, RELEASED, name, DONE)
            try:
                found[name] = int(json.loads(files.read_bytes(path)).get("from", 0))
            except (ValueError, TypeError, AttributeError) as error:
                raise MalformedEntry(f"{path} does not say what was rewritten") from error
    return found


_NONE: Mapping[str, int] = {}


def chain_of(
    found: Collection[Move], placed: Placed | None, where: str, rewritten: Mapping[str, int] = _NONE
) -> Moves:  # fmt: skip
    """The moves that lead to a place, of all mappings beside a checkpoint: the rule that ``Mappings.of`` applies too.

    There must be one of the epoch that the row names, and it must end at the cluster of the row. Each must begin where
    the one before it ended, back to the cluster on which the checkpoint began. Of several attempts of one operation the
    last counts. Behind one that is ``rewritten``, by its name, nothing earlier counts: all offsets are of its cluster.
    Raises ``WrongCluster`` where the chain leads elsewhere, ``HalfWritten`` where a link of it is missing.
    """
    newest = _latest(move for move in found if placed is None or move.epoch == placed.epoch)
    if newest is None:
        _require_home(found, placed, where)
        return Moves()
    if placed is not None and newest.to != placed.cluster:
        raise WrongCluster(
            f"operation {newest.operation} moved {where} to {newest.to}, but the query is to read {placed.cluster}: "
            "it is not started"
        )
    if newest.name in rewritten:
        return Moves((), newest, rewritten[newest.name])
    chain = [newest]
    while chain[0].left.epoch != HOME:
        left, operation = chain[0].left, chain[0].operation
        before = _latest(each for each in found if (each.to, each.epoch) == (left.cluster, left.epoch))
        if before is None or before.epoch >= chain[0].epoch:
            raise HalfWritten(
                f"{where}: operation {operation} left {left.cluster} of epoch {left.epoch}, and {MAPPINGS} has no "
                "mapping that leads there"
            )
        if before.name in rewritten:
            return Moves(tuple(chain), before, rewritten[before.name])
        chain.insert(0, before)
    return Moves(tuple(chain))


def chain_with(
    found: Collection[Move], kept: Collection[Move], name: str, placed: Placed, where: str,
    rewritten: Mapping[str, int] = _NONE,
) -> Moves:  # fmt: skip
    """The moves that lead to a place, of the mappings beside a checkpoint and of those that the store kept.

    ``name`` is the mapping by which the row says that the query came there: of that epoch no other one counts. Raises
    what ``chain_of`` raises, and ``Contradicted`` where a file and what was kept of it are not the same.
    """
    kept = [move for move in kept if move.epoch != placed.epoch or move.name == name]
    there = {move.name: move for move in found}
    chain = chain_of([*found, *(move for move in kept if move.name not in there)], placed, where, rewritten)
    newest = chain.every[-1].name
    if newest != name:
        raise Contradicted(f"{where}: the query came here by mapping {name}, but {MAPPINGS} has {newest} of that epoch")
    for move in kept:
        lies = there.get(move.name)
        if lies in chain.every and lies != move:
            raise Contradicted(f"{join(where, MAPPINGS, move.name)} says something else than the store kept of it")
    return chain


def parse_move(content: bytes | str, where: str) -> Move:
    """Read the content of a mapping. Raises ``MalformedEntry``."""
    try:
        return Move.model_validate_json(content)
    except ValidationError as error:
        raise MalformedEntry(f"{where} is not a mapping: {error.errors()[0]['msg']}") from error


class _Linked(Protocol):
    """A mapping, read whole or by its head."""

    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def to(self) -> str: ...
    @property
    def left(self) -> "_From": ...


class _From(Protocol):
    @property
    def cluster(self) -> str: ...
    @property
    def epoch(self) -> int: ...


def chain_to(found: Collection[_Linked], name: str | None) -> frozenset[str]:
    """The names of a mapping and of those that lead to where it begins; none where ``name`` is None or not there."""
    names: set[str] = set()
    move = next((each for each in found if each.name == name), None)
    while move is not None and move.name not in names:
        names.add(move.name)
        left = move.left
        before = (each for each in found if (each.to, each.epoch) == (left.cluster, left.epoch))
        move = max(before, key=lambda each: read_mapping_name(each.name) or (0,), default=None)
    return frozenset(names)


def _latest(moves: Iterable[Move]) -> Move | None:
    return max(moves, key=lambda move: (move.epoch, move.attempt), default=None)


def _require_home(found: Iterable[Move], placed: Placed | None, where: str) -> None:
    """Only a query on the cluster on which its checkpoint began needs no mapping; one that leaves there names it.

    A mapping that was deleted never means "nothing happened": without it another cluster's offsets would count.
    """
    if placed is not None and placed.epoch != HOME:
        raise HalfWritten(
            f"{where}: the query came to {placed.cluster} by a mapping of epoch {placed.epoch}, and {MAPPINGS} has "
            "none of it"
        )
    began = next((move.left.cluster for move in found if move.left.epoch == HOME), None)
    if placed is not None and began not in {None, placed.cluster}:
        raise WrongCluster(
            f"{where} began on {began}, and no mapping leads to {placed.cluster}, which the query is to read: it is "
            "not started"
        )


def all_moves(files: CheckpointFiles, checkpoint: str) -> list[Move]:
    """Every mapping beside a checkpoint, those of operations that were given up included. Raises ``MalformedEntry``."""
    folder = join(checkpoint, MAPPINGS)
    return [read_move(files, join(folder, name)) for name in files.list_names(folder) if not name.startswith(".")]


def read_move(files: CheckpointFiles, path: str) -> Move:
    """One file. Raises ``MalformedEntry`` and ``FileVanished``."""
    return parse_move(files.read_bytes(path), path)


def places_of(
    treatment: UncommittedBatch,
    ends: SourceOffsets,
    planned: SourceOffsets,
    target: SourceOffsets,
    planned_target: SourceOffsets,
) -> dict[str, tuple[Place, ...]]:
    """Where the ends of batch N and of the planned batch lead, by the source's key; see above.

    ``target`` stands for the end of N, or of N + 1 when it is promoted; ``planned_target`` for that of a replanned one.
    """
    after = planned_target if treatment is UncommittedBatch.REPLAN else target
    found: dict[str, tuple[Place, ...]] = {}
    for key in sorted(ends.keys() | planned.keys()):
        places: list[Place] = []
        for there, here in ((ends.get(key), target.get(key)), (planned.get(key), after.get(key))):
            known = any(place.there == there for place in places)
            if there is not None and here is not None and not known:
                places.append(_place(there, here))
        found[key] = tuple(places)
    return found


def _place(there: TopicOffsets, here: TopicOffsets) -> Place:
    return Place(
        there={topic: dict(partitions) for topic, partitions in there.items()},
        here={topic: dict(partitions) for topic, partitions in here.items()},
    )


def write_move(files: CheckpointFiles, checkpoint: str, move: Move, still: Callable[[], None]) -> int:
    """Write a mapping and read it back; how many bytes. Writing the same again changes nothing.

    ``still`` raises where the operation holds the checkpoint no longer: then its mapping is not left behind. Raises
    ``TargetTaken`` where a later request of the operation wrote another one.
    """
    path, content = join(checkpoint, MAPPINGS, move.name), move.content()
    _require_last(files, checkpoint, move)
    if not files.create_atomically(path, content) and read_move(files, path) != move:
        raise TargetTaken(f"{path} is there already, and says something else")
    try:
        still()
        _require_last(files, checkpoint, move)
    except Exception:
        withdraw(files, checkpoint, [move])
        raise
    if files.read_bytes(path) != content:
        raise HalfWritten(f"{path} does not read back as it was written")
    return len(content)


def _require_last(files: CheckpointFiles, checkpoint: str, move: Move) -> None:
    """Raises ``TargetTaken`` where a later request of the same operation has written its mapping."""
    for other in all_moves(files, checkpoint):
        if (other.operation, other.epoch) == (move.operation, move.epoch) and other.attempt > move.attempt:
            raise TargetTaken(f"{checkpoint} was mapped by a later request of operation {move.operation}")


def withdraw(files: CheckpointFiles, checkpoint: str, moves: Iterable[Move]) -> None:
    """Take mappings away by which no query was placed: each by its full name, which no other attempt shares."""
    for move in moves:
        files.delete(join(checkpoint, MAPPINGS, move.name))


def withdraw_attempt(files: CheckpointFiles, checkpoint: str, fence: Fence) -> None:
    """Take the mapping of one attempt away, if it wrote one."""
    files.delete(join(checkpoint, MAPPINGS, mapping_name(fence.epoch, fence.operation, fence.attempt)))
