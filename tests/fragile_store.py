"""A store that may be away for what runners report, and keeps what was reported."""

from collections.abc import Callable, Iterable
from datetime import datetime

from state.errors import StoreUnavailable
from state.model.entities import EndSample, Position, QueryFact, RunState
from tests.memory_store import MemoryStore
from tests.waiting import until


class FragileStore(MemoryStore):
    """Takes no report, position or end while it is ``away``."""

    away = False

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self.reported: list[RunState] = []
        self.tries = 0

    def report_query(self, fact: QueryFact) -> bool:
        self.tries += 1
        self._require()
        taken = super().report_query(fact)
        self.reported.append(fact.state)  # last: who waits for it looks at the fact
        return taken

    def save_positions(self, positions: Iterable[Position]) -> None:
        self._require()
        super().save_positions(positions)

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        self._require()
        super().save_ends(samples)

    @property
    def fact(self) -> QueryFact:
        """The one that is there, or comes."""
        until(self.query_facts)
        (fact,) = self.query_facts()
        return fact

    def _require(self) -> None:
        if self.away:
            raise StoreUnavailable
