"""A runner says that it is warm once a throw-away query has been through it, and tries again where that failed."""

import json
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from streaming.spark.hosting import Hosting
from streaming.spark.query import warmup
from streaming.spark.query.launch import Sinks
from streaming.spark.query.warmup import QueryHosts, WarmupListener, await_batch, begin_warmup, few
from tests.memory_log import MemoryCluster


@dataclass
class FakeQuery:
    """Without any progress until it has been looked at so often."""

    requested_before: int = 0
    isActive: bool = True  # noqa: N815 - Spark's name
    failure: Exception | None = None
    requested: int = 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        self.requested += 1
        return {"numInputRows": 40} if self.requested > self.requested_before else None

    def exception(self) -> Exception | None:
        return self.failure


class Hurried(threading.Event):
    """Waits for nothing, and says for how long it should have waited where that is long."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None and timeout >= 1:
            self.pauses.append(timeout)
        return self.is_set()


@dataclass
class Tries:
    """What each try to warm up does."""

    ends: list[Exception | tuple[int, ...] | None]
    failures: list[int] = field(default_factory=lambda: [0])
    """How many queries stay cold after each rehearsal."""
    done: int = 0
    heard: threading.Event = field(default_factory=threading.Event)

    def __call__(self, hosting: Hosting, over: threading.Event) -> tuple[int, ...] | None:
        end = self.ends[self.done]
        self.done += 1
        if isinstance(end, Exception):
            raise end
        return end

    def rehearse(self, *_: object) -> int:
        assert self.heard.is_set(), "it may be asked already while its queries are rehearsed"
        return self.failures.pop(0)


def warmed(monkeypatch: pytest.MonkeyPatch, tries: Tries, over: threading.Event) -> bool:
    """Whether it was said, once the thread has ended."""
    monkeypatch.setattr(warmup, "warm_up", tries)
    hosting = cast(Hosting, SimpleNamespace(runner="a"))
    monkeypatch.setattr(warmup, "rehearse", tries.rehearse)
    host = cast(QueryHosts, SimpleNamespace(has_settled=lambda: True))
    begin_warmup(
        hosting, host, cast(Sinks, None), cast(WarmupListener, SimpleNamespace(set_warm=tries.heard.set)), over
    )
    for thread in threading.enumerate():
        if thread.name == "warm-up":
            thread.join(60.0)
    return tries.heard.is_set()


def waited(query: FakeQuery, seconds: float) -> int:
    return await_batch(cast(StreamingQuery, query), Hurried(), seconds)


def test_of_wide_topics_a_few_partitions_are_named_and_of_others_none() -> None:
    west = MemoryCluster("west")
    west.create("wide", 200)
    west.create("slim", 4)
    for untouched in ({"subscribe": "slim"}, {"subscribe": "nowhere"}, {"subscribePattern": "wide.*"}):
        changed = few(west, untouched)
        assert changed.items() >= untouched.items()
        assert changed["maxOffsetsPerTrigger"] == "40"
        assert "assign" not in changed
    changed = few(west, {"subscribe": "wide,slim", "kafka.bootstrap.servers": "west:9092"})
    assert json.loads(changed["assign"]) == {"wide": [*range(16)], "slim": [0, 1, 2, 3]}
    assert "subscribe" not in changed
    assert changed["kafka.bootstrap.servers"] == "west:9092"


def test_a_finished_batch_shows_how_much_it_read() -> None:
    assert waited(FakeQuery(requested_before=3), 10.0) == 40


def test_a_query_that_never_gets_a_batch_through_has_warmed_nothing() -> None:
    with pytest.raises(TimeoutError, match="no batch has finished"):
        waited(FakeQuery(requested_before=10**9), 0.01)
    with pytest.raises(TimeoutError):
        waited(FakeQuery(isActive=False), 10.0)


def test_an_error_that_ended_the_query_is_raised() -> None:
    with pytest.raises(ConnectionError, match="no route"):
        waited(FakeQuery(isActive=False, failure=ConnectionError("no route")), 10.0)


def test_a_warm_up_that_failed_is_tried_again_after_longer_and_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    over, away = Hurried(), TimeoutError("the standby is away")
    tries = Tries([*[away] * 7, (40, 40)])
    assert warmed(monkeypatch, tries, over)
    assert over.pauses == [30, 60, 120, 240, 480, 600, 600]


def test_a_runner_without_a_standby_never_says_that_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries([None])
    assert not warmed(monkeypatch, tries, Hurried())
    assert tries.done == 1


def test_queries_that_stay_cold_are_tried_again_without_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    over, tries = Hurried(), Tries([(40, 40)], failures=[2, 1, 0])
    assert warmed(monkeypatch, tries, over)
    assert (over.pauses, tries.done, tries.failures) == ([30, 60], 1, [])
