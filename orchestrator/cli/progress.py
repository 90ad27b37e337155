"""Progress lines of operations, as they are recorded, and what waits for its turn: on stderr, for people."""

from collections.abc import Sequence

from orchestrator.cli.render import talk
from orchestrator.decide.turn import waits
from orchestrator.desk import open_operations
from orchestrator.requests import standing_of
from state.errors import StoreUnavailable
from state.model import Request
from state.ports import Store


class Progress:
    """Says each recorded line of the operations of these requests once."""

    def __init__(self, store: Store, requests: Sequence[Request], *, at_once: int) -> None:
        self._store = store
        self._requests = requests
        self._at_once = at_once
        self._waiting: set[str] = set()
        """Requests of which it is said that they wait."""
        self._said: dict[str, int] = {}
        self._away = False

    def say(self) -> None:
        """Say what is new."""
        try:
            self._say()
            self._away = False
        except StoreUnavailable as error:
            if not self._away:
                talk(f"the store does not answer, waiting: {error}")
            self._away = True

    def _say(self) -> None:
        standing = standing_of(self._store, self._requests)
        self._say_who_waits(standing)
        for request in standing:
            if request.operation is None:
                continue
            if request.operation not in self._said:
                joined = "" if request.operation == request.id else " (joined)"
                talk(f"{request.query}: operation {request.operation}{joined}")
                self._said[request.operation] = 0
            for event in self._store.history(operation=request.operation, after=self._said[request.operation]):
                self._said[request.operation] = event.sequence or 0
                talk(
                    f"{event.at:%H:%M:%S}.{event.at.microsecond // 1000:03d} {request.query} {event.kind}: {event.text}"
                )

    def _say_who_waits(self, standing: Sequence[Request]) -> None:
        open_ones = [each for each in standing if each.operation is None and each.refused is None]
        untold = [each for each in open_ones if each.id not in self._waiting]
        under_way = open_operations(self._store) if untold else ()
        for request in untold:
            why = waits(request, under_way, self._at_once)
            if why is not None:
                talk(why)
                self._waiting.add(request.id)
