"""How the tracking bench picks batches, and what it says when there are none."""

import json
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from bench.report import result_of
from bench.tracking import Taken, _block, _rows
from reports.result import page
from tests.unit.bench.test_report import report

FAR = float("inf")


class Clock:
    """Advances by one at each look of the bench."""

    def __init__(self) -> None:
        self.now = 0.0


class Reports:
    """A query whose newest report is that of the batch which the clock has come to; one takes ten looks."""

    isActive = True  # noqa: N815 - Spark's name
    _jsq = property(lambda self: self)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def lastProgress(self) -> "Reports":  # noqa: N802 - Spark's name
        return self

    def batchId(self) -> int:  # noqa: N802 - Spark's name
        return int(self._clock.now // 10)

    def json(self) -> str:
        took = {"addBatch": 1, "triggerExecution": 100 + self.batchId()}
        return json.dumps({"batchId": self.batchId(), "durationMs": took, "numInputRows": 5})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    def look(_: float) -> None:
        clock.now += 1

    monkeypatch.setattr("bench.tracking.time.sleep", look)
    monkeypatch.setattr("bench.tracking.time.monotonic", lambda: clock.now)
    return clock


def test_the_batch_that_runs_is_left_out_and_the_clock_begins_at_its_end(clock: Clock) -> None:
    clock.now = 45.0
    query = cast(StreamingQuery, cast(Any, Reports(clock)))
    durations, passed = _block(query, 2, FAR, lambda: clock.now)
    assert durations == [106.0, 107.0]
    assert passed == 20.0


def test_a_count_without_a_single_pair_is_reported_as_not_measured() -> None:
    rows = _rows(1000, Taken(without=[60_000.0]))
    assert [row.ours for row in rows] == [None, None]
    assert "not one pair of blocks" in page(result_of(report(*rows), "bench"))


def test_shares_are_of_the_neighbouring_block() -> None:
    _, share = _rows(4, Taken(without=[100.0, 200.0], with_it=[101.0, 201.0], cpu_per_batch=[2.0, 3.0]))
    assert share.ours is not None
    assert share.ours.samples == (2.0, 1.5)
