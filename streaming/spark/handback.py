"""Hands a checkpoint back to plain Spark: offsets that carry Tideover's mark become those that Spark itself writes.

A query that was moved on its checkpoint has offsets with the mark of a cluster, which Spark's own Kafka source refuses.
Here each entry of the offset log is rewritten in place, in the offsets of the cluster that the query reads now. State,
query id and batch ids stay. Before the first entry changes, ``_tideover_released`` has the number and the cluster of
the release, the old text of each entry, and the mappings and epochs, which are deleted afterwards. So it can be broken
off anywhere and done again, also once the row is forgotten.

Once it has begun, no runner starts the query under the same row: without marks, offsets of one cluster would be taken
for those of another. One that is declared again starts on the cluster of its newest release, and only behind a complete
one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from state.checkpoint_folders import read_mapping_name
from state.model.entities import Assignment
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import (
    OffsetEntry,
    format_offset_entry,
    parse_fence,
    parse_offset_entry,
    read_mark,
)
from streaming.spark.checkpoint.mapping import (
    DONE,
    HOME,
    MAPPINGS,
    RELEASED,
    Moves,
    Placed,
    all_moves,
    chain_of,
    read_move,
    rewritten_by,
)
from streaming.spark.checkpoint.read import EPOCHS, batch_ids, newest_commit, persistently
from streaming.spark.errors import Contradicted, FileVanished, HalfWritten, MalformedEntry, NoMapping

_BEGUN = "begun"
"""The first file of a release: its number, the cluster of its offsets, and the newest batch when it began."""
_OFFSETS = "offsets-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Handback:
    """What is to be done to a checkpoint."""

    checkpoint: str
    name: str | None
    """Of the mapping by which the query came to its cluster; None where there is nothing to do."""
    cluster: str
    old: Mapping[int, bytes]
    """By batch, the entries that change, as they were."""
    new: Mapping[int, bytes]
    kept: tuple[int, ...] = ()
    """Entries of clusters that were left long ago, which no start reads: they stay as they are."""
    last: int = -1
    """The newest batch; what follows it without a mark is plain Spark's own."""
    first: int = 0
    """The newest committed batch, from which on a start reads entries."""
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class _Release:
    """One that has begun."""

    name: str
    number: int
    """Later ones have higher numbers; epochs begin again once a query is forgotten."""
    cluster: str
    last: int
    is_done: bool

    @property
    def placed(self) -> Placed:
        return Placed(self.cluster, (read_mapping_name(self.name) or (HOME,))[0])


def plan_handback(files: CheckpointFiles, row: Assignment) -> Handback:
    """What would be done; nothing is changed. A release that was broken off is completed, also behind ``forget``.

    Raises ``HalfWritten`` where an operation holds the checkpoint, and ``NoMapping`` where an entry that a start reads
    has no offsets on the cluster of the row. Raises ``Contradicted`` where an entry is neither the old nor the new one,
    and what reading a checkpoint raises.
    """
    releases = _releases(files, row.checkpoint)
    begun = next((e for e in releases if (e.name == row.mapping if row.mapping else not e.is_done)), None)
    name = row.mapping if begun is None else begun.name
    if name is None:
        cluster = releases[-1].cluster if releases else row.cluster
        return Handback(checkpoint=row.checkpoint, name=None, cluster=cluster, old={}, new={}, is_done=True)
    placed = Placed.of(row) if begun is None else begun.placed
    folder = join(row.checkpoint, RELEASED, name)
    moves = _moves(files, row.checkpoint, name, placed)
    journalled = {int(n.removeprefix(_OFFSETS)) for n in files.list_names(folder) if n.startswith(_OFFSETS)}
    old: dict[int, bytes] = {}
    new: dict[int, bytes] = {}
    kept: list[int] = []
    is_done = begun is not None and begun.is_done and not files.list_names(join(row.checkpoint, MAPPINGS))
    batches, committed = batch_ids(files, row.checkpoint, "offsets"), newest_commit(files, row.checkpoint)
    # The entry before a committed one must be there, but a start takes nothing from it; only sources of Spark's first
    # API get it, and Kafka's is none (``MicroBatchExecution.populateStartOffsets``).
    needed = min(batches, default=0) if committed is None else committed
    for batch in batches:
        path = join(row.checkpoint, "offsets", str(batch))
        found = files.read_bytes(path)
        if parse_fence(found) is not None:
            raise HalfWritten(f"{path} is an entry by which an operation holds the checkpoint")
        before = files.read_bytes(join(folder, f"{_OFFSETS}{batch}")) if batch in journalled else found
        entry = parse_offset_entry(before, path)
        if begun is not None and batch > begun.last and not _is_marked(entry):
            continue  # plain Spark wrote it, behind entries that were all rewritten
        try:
            after = format_offset_entry(moves.on_active(entry, path, batch))
        except NoMapping:
            if batch >= needed:
                raise
            kept.append(batch)
            continue
        if found not in {before, after}:
            raise Contradicted(f"{path} is neither the entry that was to be released nor what a release makes of it")
        if after != before:
            old[batch], new[batch] = before, after
            is_done = is_done and found == after
    if is_done:
        old, new = {}, {}
    return Handback(
        checkpoint=row.checkpoint, name=name, cluster=placed.cluster, old=old, new=new, kept=tuple(kept),
        last=max(batches, default=-1), first=needed, is_done=is_done,
    )  # fmt: skip


def hand_back(
    files: CheckpointFiles,
    plan: Handback,
    still: Callable[[], None] = lambda: None,
    *,
    keeps_mappings: bool = False,
    each: Callable[[], None] = lambda: None,
) -> None:
    """Do it; doing it again changes nothing. Raises ``FileSystemError``.

    ``keeps_mappings``: the query stays Tideover's, and its next move begins where this one ended.

    ``still`` is called once no start is admitted any more, before the first entry changes. It raises where a run may
    have begun since the plan: then nothing is changed. ``each`` is called before each entry changes. Raises
    ``Contradicted`` where a later release has begun; a writer that froze inside a write learns it behind it.
    """
    if plan.name is None or plan.is_done:
        return
    folder = join(plan.checkpoint, RELEASED, plan.name)
    _begin(files, plan, folder, still)
    for batch, content in plan.old.items():
        files.create_atomically(join(folder, f"{_OFFSETS}{batch}"), content)
    for below in (MAPPINGS, EPOCHS):
        for name in files.list_names(join(plan.checkpoint, below)):
            content = files.read_bytes(join(plan.checkpoint, below, name))
            files.create_atomically(join(folder, f"{below}-{name}"), content)
    for batch, content in plan.new.items():
        path = join(plan.checkpoint, "offsets", str(batch))
        if files.read_bytes(path) != content:
            each()
            _require_newest(files, plan)
            files.replace(path, content)
    _require_newest(files, plan)
    for below in () if keeps_mappings else (MAPPINGS, EPOCHS):
        files.delete(join(plan.checkpoint, below), recursive=True)
    files.create_atomically(join(folder, DONE), json.dumps({"entries": sorted(plan.new), "from": plan.first}).encode())


def rewrite_in_place(files: CheckpointFiles, row: Assignment, still: Callable[[], None] = lambda: None) -> int:
    """The same for a query that stays Tideover's: its application starts, and plain Spark reads the offsets.

    How many entries carry other offsets than they did before the move. Doing it again changes nothing.
    """
    plan = plan_handback(files, row)
    hand_back(files, plan, still, keeps_mappings=True, each=still)
    return len(plan.new)


def require_rewritten(files: CheckpointFiles, row: Assignment) -> None:
    """Each entry is as the rewrite for a row left it. Raises ``Contradicted``, and what reading a checkpoint raises."""

    def other() -> str | None:
        paths = {join(row.checkpoint, "offsets", str(n)): text for n, text in plan_handback(files, row).new.items()}
        return next((path for path, text in paths.items() if files.read_bytes(path) != text), None)

    path = persistently(other)
    if path is not None:
        raise Contradicted(f"{path} was changed after it had been rewritten for {row.cluster}")


def complete_rewrite(files: CheckpointFiles, row: Assignment, still: Callable[[], None] = lambda: None) -> None:
    """Complete what a process began that has ended since: until then entries of two clusters lie in one log.

    The application is not started before that, so nothing else writes there.
    """
    if any(each.name == row.mapping and not each.is_done for each in _releases(files, row.checkpoint)):
        rewrite_in_place(files, row, still)


def _require_newest(files: CheckpointFiles, plan: Handback) -> None:
    """Where a later one has begun, this one has been completed, and its offsets are old. Raises ``Contradicted``."""
    releases = _releases(files, plan.checkpoint)
    own = next((each.number for each in releases if each.name == plan.name), 0)
    later = next((each for each in releases if each.number > own), None)
    if later is not None:
        raise Contradicted(
            f"the offsets of {plan.checkpoint} were written for {later.cluster} while this process wrote those for "
            f"{plan.cluster}"
        )


def _begin(files: CheckpointFiles, plan: Handback, folder: str, still: Callable[[], None]) -> None:
    number = 1 + max((each.number for each in _releases(files, plan.checkpoint)), default=0)
    begun = {"number": number, "cluster": plan.cluster, "last": plan.last}
    is_new = files.create_atomically(join(folder, _BEGUN), json.dumps(begun).encode())
    try:
        still()
    except Exception:
        if is_new and list(files.list_names(folder)) == [_BEGUN]:  # else another process keeps old texts there by now
            files.delete(join(folder, _BEGUN))
        raise


def released_on(files: CheckpointFiles, checkpoint: str) -> str | None:
    """The cluster of a checkpoint's newest release, of which its offsets are; None where there was none.

    Raises ``Contradicted`` for one that was broken off.
    """
    return _newest(_releases(files, checkpoint), checkpoint)


def _newest(releases: Sequence[_Release], checkpoint: str) -> str | None:
    broken = next((each for each in releases if not each.is_done), None)
    if broken is not None:
        raise Contradicted(
            f"the release of {checkpoint} on {broken.cluster} was broken off",
            hint="declare its query, end its application, then complete the release by tideover release",
        )
    return releases[-1].cluster if releases else None


def require_not_released(files: CheckpointFiles, row: Assignment) -> None:
    """No runner starts or moves a query whose marks are gone. Raises ``Contradicted``."""
    releases = _releases(files, row.checkpoint)
    if any(each.name == row.mapping for each in releases):
        raise Contradicted(
            f"{row.query} was handed back to plain Spark by tideover release: remove it from the configuration, then "
            f"tideover forget {row.query}"
        )
    require_place(files, row)


def require_place(files: CheckpointFiles, row: Assignment) -> None:
    """The offsets of a checkpoint that was released are of the cluster of its row. Raises ``Contradicted``.

    What was rewritten for the row's own move may be broken off: its next start completes it.
    """
    releases = _releases(files, row.checkpoint)
    cluster = _newest([each for each in releases if each.is_done or each.name != row.mapping], row.checkpoint)
    if row.mapping is None and cluster not in {None, row.cluster}:
        raise Contradicted(
            f"{row.checkpoint} was released on {cluster}, so its offsets are not of {row.cluster}: "
            f"name {cluster} first among the clusters of {row.query}"
        )


def _releases(files: CheckpointFiles, checkpoint: str) -> list[_Release]:
    """Those that have begun, oldest first. Raises ``MalformedEntry``."""
    found = []
    for name in files.list_names(join(checkpoint, RELEASED)):
        folder = join(checkpoint, RELEASED, name)
        names = files.list_names(folder)
        if read_mapping_name(name) is None or not names:
            continue
        path = join(folder, _BEGUN)
        try:
            begun = json.loads(files.read_bytes(path))
            number, cluster, last = int(begun["number"]), str(begun["cluster"]), int(begun["last"])
        except (FileVanished, ValueError, KeyError, TypeError) as error:
            raise MalformedEntry(f"{path} does not say which release it is of") from error
        found.append(_Release(name, number, cluster, last, DONE in names))
    return sorted(found, key=lambda each: each.number)


def _moves(files: CheckpointFiles, checkpoint: str, name: str, placed: Placed) -> Moves:
    """The moves that lead to a place, of the mappings beside a checkpoint and of those that were put away.

    What is done already counts as if it was not: the same entries are made of what they were.
    """
    found = {move.name: move for move in all_moves(files, checkpoint)}
    folder = join(checkpoint, RELEASED, name)
    for file in files.list_names(folder):
        if file.startswith(f"{MAPPINGS}-"):
            move = read_move(files, join(folder, file))
            found.setdefault(move.name, move)
    return chain_of(
        list(found.values()),
        placed,
        checkpoint,
        {each: first for each, first in rewritten_by(files, checkpoint).items() if each != name},
    )


def _is_marked(entry: OffsetEntry) -> bool:
    marks = (read_mark(text) for text in entry.sources.values() if text is not None)
    return any(mark is not None and mark[0] != HOME for mark in marks)
