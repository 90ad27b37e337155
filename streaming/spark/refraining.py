"""Says why a query is not started whose row is older than one that was seen before, and what holds its checkpoint.

Nobody else may be left to say so: the store does not know the newer row, and what ran has stopped because of it.
"""

import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JError

from state.errors import StoreError
from streaming.spark.errors import CheckpointError
from streaming.spark.facts import Ledger, about, bound
from streaming.spark.hosting import Hosting
from streaming.spark.obey import Refrain
from streaming.spark.plant import holder
from streaming.spark.run_errors import AssignmentMoved

_AGAIN_SECONDS = 5.0


class Refraining:
    """Tells of each such query at once and every few seconds, off the runner's loop: a checkpoint may answer slowly."""

    def __init__(self, hosting: Hosting, is_quiet: Callable[[str], bool]) -> None:
        self._hosting = hosting
        self._is_quiet = is_quiet
        self._begun: dict[str, float] = {}
        self._said: dict[str, str] = {}

    def tell(self, refrain: Refrain) -> None:
        """Log and report it, unless that was done a moment ago or something of the query is still to stop here."""
        query, now = refrain.assignment.query, time.monotonic()
        if now - self._begun.get(query, -_AGAIN_SECONDS) < _AGAIN_SECONDS or not self._is_quiet(query):
            return
        self._begun[query] = now
        threading.Thread(target=self._tell, args=(refrain,), name=f"refrain {query}", daemon=True).start()

    def _tell(self, refrain: Refrain) -> None:
        row = refrain.assignment
        try:
            held = holder(self._hosting.files, row.checkpoint)
        except (CheckpointError, Py4JError):
            return  # said when it can be read
        why = refrain.why(held is not None)
        if self._said.get(row.query) != why:
            self._said[row.query] = why
            bound(about(row)).warning("query not started", why=why)
        ledger = Ledger(self._hosting, row)
        try:
            ledger.announce()
        except (AssignmentMoved, StoreError):
            return  # a runner tells of a newer epoch, or the store is away
        ledger.failed(why, held)
