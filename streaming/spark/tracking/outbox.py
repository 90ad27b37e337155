"""Positions and samples on their way to the store: what it does not take waits in a file, and goes first later."""

import time
from collections.abc import Iterable

from state.errors import StoreError
from state.model.entities import Assignment, EndSample, Position
from state.store.runner_store import RunnerStore
from streaming.spark.hosting import logger_about
from streaming.spark.tracking.spool import Spool, Spooled

_FLUSH_SECONDS = 2.0


class Outbox:
    """Of one cluster, in one thread; a store that is away costs the queries nothing."""

    def __init__(self, store: RunnerStore, spool: Spool, cluster: str) -> None:
        self._store = store
        self._spool = spool
        self._talk = logger_about({"cluster": cluster})
        self._waiting = Spooled()
        self._flush_at = 0.0
        """On the monotonic clock."""
        self._is_left = False
        """The file is still there, although the store has what is in it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._waiting.is_empty

    def is_due(self, now: float) -> bool:
        """Whether what waits is to be tried again."""
        return not self.is_empty and now >= self._flush_at

    def send(self, positions: list[Position]) -> None:
        """Store positions, or keep them."""
        if not self.is_empty:
            self._keep(positions, [])  # in their order: what waits goes first
            return
        try:
            self._store.save_positions(in_use(positions, self._store.assignments()))
        except StoreError:
            self._keep(positions, [])

    def send_ends(self, samples: list[EndSample]) -> None:
        """Store samples of ends, or keep them."""
        if not samples:
            return
        try:
            self._store.save_ends(samples)
        except StoreError:
            self._keep([], samples)

    def flush(self) -> None:
        """Give the store what waits.

        A file that cannot be removed then waits for the next flush. Until then a new process would store it once more,
        which changes nothing.
        """
        self._flush_at = time.monotonic() + _FLUSH_SECONDS
        if self.is_empty and not self._is_left:
            return
        if not self.is_empty:
            try:
                self._store.save_positions(in_use(self._waiting.positions, self._store.assignments()))
                self._store.save_ends(self._waiting.ends)
            except StoreError:
                return
            self._talk.info("spool flushed", positions=len(self._waiting.positions), ends=len(self._waiting.ends))
        self._waiting = Spooled()
        self._is_left = not self._saved("spool cannot be removed")

    def load(self) -> None:
        """Take over what an earlier process left."""
        try:
            self._waiting = self._spool.load()
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._talk.warning("spool cannot be read", error=str(error))
            self._waiting = Spooled()

    def _keep(self, positions: list[Position], samples: list[EndSample]) -> None:
        self._waiting = self._waiting.merged(positions, samples)
        self._saved("positions could not be spooled")

    def _saved(self, otherwise: str) -> bool:
        """Whether the file has what waits; a warning where it has not."""
        try:
            self._spool.save(self._waiting)
        except OSError as error:
            self._talk.warning(otherwise, error=str(error))
            return False
        return True


def in_use(positions: Iterable[Position], assignments: Iterable[Assignment]) -> list[Position]:
    """Positions of where queries are placed now: after a move what was read at the old place is not needed."""
    rows = {row.query: row for row in assignments}
    return [each for each in positions if (row := rows.get(each.query)) is not None and _is_of(row, each)]


def _is_of(row: Assignment, position: Position) -> bool:
    return position.cluster == row.cluster and position.epoch >= row.placed_epoch
