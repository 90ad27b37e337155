"""Who may write beside a checkpoint: the one rule for entries, epochs, mappings and their removal.

A runner can be frozen between any two of its steps, and thaw when the operation for which it works is long over. It may
be given up, committed, or taken over by another runner. So whatever is written beside a checkpoint carries a token: the
operation, its epoch, and the attempt, which is the request that one runner answers. Before the first write and behind
the last one the store is read: does that request still count? Where it does not, the attempt takes back what it wrote
under its own token, and nothing else: what another attempt wrote has another token, and another name.

A freeze that never ends leaves such a file behind. The runner that starts the query removes it (``clear``): an entry
holds nothing once its operation is over, and a row that wants the run is proof of that. And it writes again what a move
needs and what was deleted, by hand or by a rule of a bucket (``restore_mappings``, ``restore_epoch``).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from state.checkpoint_folders import mapping_name
from state.errors import StoreError
from state.messages import ReleaseRequest
from state.model.entities import Assignment, Desired, Intent
from state.store.runner_store import RunnerStore
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import (
    Knows,
    Still,
    end_runs,
    plant,
    plant_epoch,
    planted_epochs,
    planters,
    release,
    take_back,
    unplant,
)
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import (
    MAPPINGS,
    Placed,
    all_moves,
    chain_with,
    parse_move,
    rewritten_by,
    withdraw_attempt,
)
from streaming.spark.checkpoint.read import EPOCHS
from streaming.spark.errors import CheckpointError, Overtaken


def counts(store: RunnerStore, intent: Intent) -> Still:
    """Whether an intent still counts: it was not taken back, and its operation holds the query under its epoch."""

    def still() -> None:
        row = store.assignment(intent.query)
        holds = row is not None and row.desired is Desired.HELD
        if row is None or not holds or (row.operation, row.epoch) != (intent.operation, intent.epoch):
            raise Overtaken(
                f"operation {intent.operation} does not hold {intent.query} under epoch {intent.epoch} any more"
            )
        if all(each.id != intent.id for each in store.pending_intents(intent.runner)):
            raise Overtaken(f"{intent.name} of operation {intent.operation} was taken back from this runner")

    return still


@dataclass(frozen=True, slots=True)
class Authority:
    """The right of one attempt of an operation to write beside one checkpoint."""

    files: CheckpointFiles
    checkpoint: str
    token: Fence
    still: Still

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Around all that the attempt writes. Raises ``Overtaken``, and then nothing of it is left."""
        self.still()
        try:
            yield
        except CheckpointError:
            self._confirm()
            raise
        self._confirm()

    def _confirm(self) -> None:
        """A store that is away says it when the answer is reported: see ``IntentWorker``."""
        try:
            self.still()
        except StoreError:
            return
        except Overtaken:
            self.take_back_fence()
            raise

    def plant(self, knows: Knows) -> tuple[int, ...]:
        """Hold the next entries of the log; see ``log_fence.plant``."""
        return plant(
            self.files,
            self.checkpoint,
            operation=self.token.operation,
            epoch=self.token.epoch,
            attempt=self.token.attempt,
            knows=knows,
        )

    def plant_epoch(self, *, is_held: bool = False) -> None:
        """End every run of an older epoch; see ``log_fence.plant_epoch``. One that is held here continues."""
        plant_epoch(self.files, self.checkpoint, self.token)
        if not is_held:
            end_runs(self.files, self.checkpoint)

    def release(self, request: ReleaseRequest) -> tuple[int, ...]:
        """Take away what the operation planted in all its attempts; see ``log_fence.release``."""
        self.still()
        return release(self.files, request)

    def take_back_fence(self) -> None:
        """Take away the entries and the epoch that bear this very token, and nothing else.

        No mapping: fences and mappings of an operation count their attempts each from 1, so one may have this token.
        """
        take_back(self.files, self.checkpoint, self.token)

    def take_back_mapping(self) -> None:
        """Take away the mapping that bears this very token, and nothing of a fence."""
        withdraw_attempt(self.files, self.checkpoint, self.token)


def clear(files: CheckpointFiles, row: Assignment, is_over: Callable[[str], bool]) -> frozenset[str]:
    """Take away the entries that hold a checkpoint no longer; the operations whose they were.

    That are those of the operation which placed the query here, or gave it back, up to the row's epoch. The row wants
    the run, so it is done with them. And those of operations that ``is_over`` knows to be closed: an attempt that
    thawed too late planted them.
    """
    removed: set[str] = set()
    for operation in planters(files, row.checkpoint):
        done = operation == row.operation or is_over(operation)
        if done and unplant(files, row.checkpoint, operation, row.epoch):
            removed.add(operation)
    return frozenset(removed)


def restore_mappings(files: CheckpointFiles, row: Assignment, store: RunnerStore) -> frozenset[str]:
    """Write the mappings again that lead a query to where its row says, and that are missing; their names.

    The store keeps the content of each from before its move is committed. What it does not hold it gets here, so that
    a store that was restored knows them again. Raises ``Contradicted`` where a file says something else than what was
    kept of it, what ``chain_of`` raises where one is lost, and ``StoreError``.
    """
    if row.mapping is None:
        return frozenset()
    kept = store.mappings(row.query)
    moves = [parse_move(content, f"mapping {name} in the store") for name, content in kept.items()]
    found = {move.name: move for move in all_moves(files, row.checkpoint)}
    restored: set[str] = set()
    rewritten = rewritten_by(files, row.checkpoint)
    chain = chain_with(list(found.values()), moves, row.mapping, Placed.of(row), row.checkpoint, rewritten)
    for move in chain.every:
        if move.name not in kept:
            store.keep_mapping(row.query, move.name, move.content().decode())
        if move.name not in found:
            files.create_atomically(join(row.checkpoint, MAPPINGS, move.name), move.content())
            restored.add(move.name)
    return frozenset(restored)


def restore_epoch(files: CheckpointFiles, row: Assignment) -> bool:
    """Write the epoch of the row beside its checkpoint, where the folder names none as new; whether it was missing.

    A run of an older epoch that begins late would take the folder without it for one that nothing was moved from. It
    ends no run of the row itself. The first epoch has none before it.
    """
    if row.epoch <= 1 or any(planted.epoch >= row.epoch for planted in planted_epochs(files, row.checkpoint)):
        return False
    name = mapping_name(row.epoch, row.operation or _BY_ROW, _OF_A_START)
    said = f"{row.query} runs from this checkpoint under epoch {row.epoch}: no run of an older one may write here\n"
    return files.create_atomically(join(row.checkpoint, EPOCHS, name), said.encode())


_BY_ROW = "assignment"
"""Stands for the operation of a row that none made."""
_OF_A_START = 0
"""Attempts of operations count from 1, so none takes this one back."""
