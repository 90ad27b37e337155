"""How long look-ups took that several clients make in turns, and whether each answer was right."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Protocol

from bench.errors import BenchError
from bench.report import Other
from bench.samples import Spread
from state.model.entities import TopicPartition

Answers = Mapping[TopicPartition, int]


class Lookup(Protocol):
    """A client that looks offsets up by time."""

    def request(self, partitions: Sequence[TopicPartition], time_ms: int) -> Answers: ...

    def close(self) -> None: ...


def request_once(client: Lookup, partitions: Sequence[TopicPartition], time_ms: int) -> Answers:
    """The first question of a client that is closed after it."""
    with closing(client):
        return client.request(partitions, time_ms)


class Timings:
    """What each client took, in milliseconds, and how many of its answers were wrong."""

    def __init__(self, count_wrong: Callable[[Answers], int]) -> None:
        self._count_wrong = count_wrong
        self.milliseconds: dict[str, list[float]] = {}
        self.wrong: dict[str, int] = {}

    def take(self, name: str, request: Callable[[], Answers]) -> None:
        """Time one look-up; garbage of the one before is collected first, so that each pays for its own."""
        gc.collect()
        started = time.perf_counter()
        answers = request()
        took = (time.perf_counter() - started) * 1000
        self.milliseconds.setdefault(name, []).append(took)
        self.wrong[name] = self.wrong.get(name, 0) + self._count_wrong(answers)

    def take_rounds(self, clients: Mapping[str, Callable[[], Answers]], rounds: int) -> None:
        """Time all clients in turns, this many times; each looks up once before: page cache, and leaders."""
        for request in clients.values():
            request()
        for _ in range(rounds):
            for name, request in clients.items():
                self.take(name, request)

    def other(self, name: str, label: str) -> Other:
        """A client that ours is compared with."""
        wrong = self.wrong.get(name, 0)
        return Other(name=f"{label} ({wrong} answers wrong)" if wrong else label, spread=self.spread(name))

    def spread(self, name: str) -> Spread | None:
        """All samples of a client; None without any."""
        return Spread.of(self.milliseconds.get(name, ()))

    def require_ours(self) -> None:
        """Raise BenchError when an answer of a client whose name begins with ``ours`` was wrong."""
        wrong = {name: count for name, count in self.wrong.items() if name.startswith("ours") and count}
        if wrong:
            raise BenchError(f"answers of ours were wrong: {wrong}")
