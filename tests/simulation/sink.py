"""What a query's sink was given: it keeps a batch once by its id, and remembers everything that came twice."""

from collections import Counter
from collections.abc import Iterable


class Sink:
    """Of all queries."""

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], frozenset[bytes]] = {}
        self.changed: list[tuple[str, int]] = []
        """Batches that came again under their id with other records: what a sink by batch id would lose."""

    def take(self, query: str, batch: int, records: Iterable[bytes]) -> None:
        """One batch, maybe a second time."""
        given = frozenset(records)
        if self.batches.setdefault((query, batch), given) != given:
            self.changed.append((query, batch))
            self.batches[query, batch] = self.batches[query, batch] | given

    def delivered(self, query: str) -> Counter[bytes]:
        """How often each record is in it."""
        return Counter(record for (name, _), given in self.batches.items() if name == query for record in given)
