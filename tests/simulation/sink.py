"""What a query's sink was given: it keeps a batch once by its id, and remembers everything that came twice.

Ids count from 0 again in a checkpoint that was begun afresh; this sink is given which one that was, like one that keeps
the epoch with each batch.
"""

from collections import Counter
from collections.abc import Iterable


class Sink:
    """Of all queries."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int, str], frozenset[bytes]] = {}
        """By query, batch, and the checkpoint that was begun afresh, if one was."""
        self.changed: list[tuple[str, int]] = []
        """Batches that came again under their id with other records: what a sink by batch id would lose."""

    def take(self, query: str, batch: int, records: Iterable[bytes], *, begun: str = "") -> None:
        """One batch, maybe a second time."""
        key, given = (query, batch, begun), frozenset(records)
        if self.batches.setdefault(key, given) != given:
            self.changed.append((query, batch))
            self.batches[key] = self.batches[key] | given

    def delivered(self, query: str) -> Counter[bytes]:
        """How often each record is in it."""
        return Counter(record for (name, *_), given in self.batches.items() if name == query for record in given)
