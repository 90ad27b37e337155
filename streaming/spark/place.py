"""Where a query is, as its own files show it: for a runner whose store may be older than they are.

A folder was used since it was made where its logs are longer than its mark says. The newest such folder is the one in
use. In it the newest batch names the move by which its cluster was reached, and a mapping whose operation holds no
entries of the log was committed. An operation whose entries are still there has moved nothing: no run passed them.

What the row says goes first where the files do not contradict it: a move that was committed and has read nothing yet
leaves no other trace.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from state.checkpoint_folders import belongs_to, read_folder, read_mapping_name
from state.model.entities import Assignment
from state.settings.canonical import are_one_folder, canonical_path
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import has_been_run, planted_epochs, read_mark
from streaming.spark.checkpoint.log_text import Fence, parse_fence, parse_offset_entry
from streaming.spark.checkpoint.log_text import read_mark as read_offset_mark
from streaming.spark.checkpoint.mapping import HOME, Move, Placed, all_moves, chain_of, rewritten_by
from streaming.spark.checkpoint.read import batch_ids, is_cleaned, newest_commit
from streaming.spark.errors import CheckpointError, NoMapping


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveFile:
    """A mapping beside a checkpoint, without its offsets."""

    name: str
    epoch: int
    operation: str
    left: Placed
    to: str
    leads_on: bool = True
    """Whether it names a place for where the newest committed batch ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """What lies in one of a query's checkpoint folders."""

    path: str
    cluster: str | None = None
    """On which it was begun; None where it was begun without a move, or by an older version."""
    made_by: Fence | None = None
    has_run: bool = True
    committed: int | None = None
    """The newest id in the commit log."""
    read_epoch: int = HOME
    """Of the move by which the newest batch had come to its cluster."""
    moves: tuple[MoveFile, ...] = ()
    planted: tuple[Fence, ...] = ()
    """Whose entries lie beyond the newest commit."""
    epochs: tuple[int, ...] = ()
    """Planted beside it."""

    @property
    def epoch(self) -> int:
        """Under which it was made; 0 for the first."""
        return self.made_by.epoch if self.made_by is not None else HOME

    @property
    def highest(self) -> int:
        """The highest epoch that anything here names."""
        named = [*(move.epoch for move in self.moves), *(fence.epoch for fence in self.planted)]
        return max((self.epoch, self.read_epoch, *named, *self.epochs))


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where the query is; see ``FoundPlace``."""

    checkpoint: str | None
    cluster: str | None = None
    mapping: str | None = None
    batch: int | None = None
    epoch: int = HOME
    moved_by: str | None = None
    held_by: Fence | None = None
    text: str


def place_of(folders: Collection[Folder], row: Assignment) -> Place:
    """Where the files show the query, beside what its row says."""
    stored = next((each for each in folders if are_one_folder(each.path, row.checkpoint)), None)
    newest = max((each for each in folders if each.has_run), key=lambda each: each.epoch, default=stored)
    highest = max((each.highest for each in folders), default=HOME)
    if newest is None:
        return Place(checkpoint=None, epoch=highest, text=f"{row.checkpoint} and the folders beside it hold no batch")
    if stored is not None and stored.epoch > newest.epoch:
        newest = stored  # committed, and nothing was read yet
    lost = _lost_mapping(newest, row)
    if lost is not None:
        return Place(checkpoint=None, epoch=highest, text=f"{lost} is missing beside {newest.path}")
    move = _move_to(newest, row)
    held = max(newest.planted, key=lambda fence: fence.epoch, default=None)
    if move is not None:
        text = f"mapping {move.name} beside {newest.path} leads to {move.to}"
        return Place(
            checkpoint=newest.path,
            cluster=move.to,
            mapping=move.name,
            batch=newest.committed,
            epoch=highest,
            moved_by=move.operation,
            held_by=held,
            text=text,
        )
    cluster = _began_on(newest, row)
    return Place(
        checkpoint=newest.path,
        cluster=cluster,
        batch=newest.committed,
        epoch=highest,
        moved_by=newest.made_by.operation if newest.made_by is not None else None,
        held_by=held,
        text=f"{newest.path} holds the newest batch"
        + (f", and no mapping beside it leads away from {cluster}" if cluster is not None else ""),
    )


def _lost_mapping(folder: Folder, row: Assignment) -> str | None:
    """The mapping that was deleted, by which the query came to its place; None where none was.

    That shows no move which the store lost, and no place. A mapping stays beside its checkpoint, so an older store
    names one that is there, too.
    """
    is_row = are_one_folder(folder.path, row.checkpoint)
    if is_row and row.mapping is not None and all(move.name != row.mapping for move in folder.moves):
        return f"mapping {row.mapping}, by which the query came to {row.cluster},"
    if folder.read_epoch != HOME and all(move.epoch != folder.read_epoch for move in folder.moves):
        return f"the mapping of epoch {folder.read_epoch}, under which its newest batch was read,"
    return None


def _move_to(folder: Folder, row: Assignment) -> MoveFile | None:
    """The newest mapping by which the query came to where it is."""
    holders = {fence.operation for fence in folder.planted}
    is_row = are_one_folder(folder.path, row.checkpoint)
    counted = [
        move
        for move in folder.moves
        if move.epoch == folder.read_epoch
        or (is_row and move.name == row.mapping)
        or (move.epoch > folder.read_epoch and move.operation not in holders and move.leads_on)
    ]
    return max(
        counted,
        key=lambda move: (move.epoch, move.name == row.mapping, read_mapping_name(move.name) or ()),
        default=None,
    )


def _began_on(folder: Folder, row: Assignment) -> str | None:
    left = next((move.left.cluster for move in folder.moves if move.left.epoch == HOME), None)
    stored = row.cluster if row.mapping is None and are_one_folder(folder.path, row.checkpoint) else None
    return left or folder.cluster or stored


def find_place(files: CheckpointFiles, base: str, row: Assignment) -> Place:
    """Read where a query is; ``base`` is its configured checkpoint. Changes nothing, and raises nothing of a file.

    Where the configuration names another folder than the row is below, that one counts only where the row's is gone or
    cannot be read: it may be an older copy.
    """
    try:
        copied = copied_row(files, base, row)
        beside = row if copied is None else copied.row
        own = base if copied is not None or belongs_to(row.checkpoint, base) else _base_of(row.checkpoint)
        place = place_of([_read_folder(files, path) for path in _folders(files, own, beside)], beside)
        return place if copied is None else replace(place, text=f"{copied.why}, and {place.text}")
    except CheckpointError as error:
        return Place(checkpoint=None, text=str(error))


class CopiedRow(NamedTuple):
    """The row of a query as if its checkpoint lay where the configuration says now."""

    row: Assignment
    why: str
    """What became of the folder that the store names: one sentence without a full stop."""


def copied_row(files: CheckpointFiles, base: str, row: Assignment) -> CopiedRow | None:
    """Where the configured folder stands for the one that the row names; None where the row's is there, or is below it.

    Raises ``CheckpointError`` where nothing can be read at all.
    """
    if belongs_to(row.checkpoint, base):
        return None
    try:
        if files.list_names(row.checkpoint):
            return None
        why = f"{row.checkpoint} is empty or does not exist"
    except CheckpointError:  # the run that could not start says why
        why = f"{row.checkpoint} cannot be read"
    made = read_folder(row.checkpoint) is not None
    copy = join(base, row.checkpoint.rstrip("/").rpartition("/")[2]) if made else base
    return CopiedRow(replace(row, checkpoint=copy), why) if files.list_names(copy) else None


def _base_of(checkpoint: str) -> str:
    """The folder in which a query's moves make theirs, by one of them."""
    return checkpoint if read_folder(checkpoint) is None else checkpoint.rstrip("/").rpartition("/")[0]


def _folders(files: CheckpointFiles, base: str, row: Assignment) -> Sequence[str]:
    found = {canonical_path(path): path for path in (base, row.checkpoint)}
    above = {canonical_path(base): base}
    if read_folder(row.checkpoint) is not None:
        parent = row.checkpoint.rstrip("/").rpartition("/")[0]
        above.setdefault(canonical_path(parent), parent)
    for folder in above.values():
        made = (join(folder, name) for name in files.list_names(folder) if read_folder(name) is not None)
        found |= {canonical_path(path): path for path in made}
    return [path for path in found.values() if files.list_names(path) and not is_cleaned(files, path)]


def _read_folder(files: CheckpointFiles, path: str) -> Folder:
    mark, named = read_mark(files, path), read_folder(path)
    committed = newest_commit(files, path)
    planted: list[Fence] = []
    read_epoch, last = HOME, None
    for batch in reversed(batch_ids(files, path, "offsets")):
        content = files.read_bytes(join(path, "offsets", str(batch)))
        fence = parse_fence(content)
        if fence is not None:
            planted.append(fence)
            continue
        entry = parse_offset_entry(content, f"{path}/offsets/{batch}")
        marks = [read_offset_mark(text) for text in entry.sources.values() if text is not None]
        read_epoch = max((read_epoch, *(each[0] for each in marks if each is not None)))
        if batch == committed:
            last = entry
        if committed is None or batch <= committed:
            break
    moves, rewritten = all_moves(files, path), rewritten_by(files, path)

    def leads_on(move: Move) -> bool:
        if last is None:
            return True
        try:
            before = [each for each in moves if each.epoch <= move.epoch]
            chain_of(before, Placed(move.to, move.epoch), path, rewritten).on_active(last, path, committed)
        except NoMapping:
            return False
        return True

    made_by = Fence(mark.epoch, mark.operation) if mark is not None else None
    if made_by is None and named is not None:
        made_by = Fence(named.epoch, named.rest)
    return Folder(
        path=path,
        cluster=mark.cluster if mark is not None else None,
        made_by=made_by,
        committed=committed,
        has_run=has_been_run(files, path) if mark is not None else bool(batch_ids(files, path, "offsets")),
        read_epoch=read_epoch,
        moves=tuple(
            MoveFile(
                name=move.name,
                epoch=move.epoch,
                operation=move.operation,
                left=Placed(move.left.cluster, move.left.epoch),
                to=move.to,
                leads_on=move.epoch <= read_epoch or leads_on(move),
            )
            for move in moves
        ),
        planted=tuple(planted),
        epochs=tuple(fence.epoch for fence in planted_epochs(files, path)),
    )
