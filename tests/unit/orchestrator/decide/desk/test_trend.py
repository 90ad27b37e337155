"""Throughput and lag of the last hour: what is known of them, where the lines break, and how they are drawn."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.desk.trend import HEIGHT, NO_TREND, WIDTH, rates_of, trend_of, with_flow
from state.model.entities import TopicPartition
from state.model.maintenance import StandbySample
from tests.contract import samples
from tests.contract.samples import AT

MINUTE = timedelta(minutes=1)
NOW = AT + 60 * MINUTE
ORDERS = TopicPartition("orders", 0)


def at(minute: int, read: int | None, lag: int | None = None, **change: Any) -> StandbySample:
    when = AT + minute * MINUTE
    return samples.standby_sample(
        **({"sampled_at": when, "read_at": when, "read_records": read, "lag_records": lag} | change)
    )


def test_throughput_is_what_one_run_read_between_two_reports() -> None:
    assert rates_of([at(0, 0), at(1, 600), at(3, 600), at(4, 630)]) == [None, 10.0, 0.0, 0.5]
    assert rates_of([]) == []


@pytest.mark.parametrize(
    "second",
    [
        at(1, 900, run_id="run-2"),
        at(1, None),
        at(1, 900, run_id=None),
        at(1, 900, read_at=AT),
        at(1, 900, read_at=None),
        at(1, 500),
        at(7, 900),
    ],
    ids=["another-run", "nothing-reported", "no-run", "the-same-report", "no-time", "fewer", "long-after"],
)
def test_throughput_is_unknown_where_no_two_reports_show_it(second: StandbySample) -> None:
    assert rates_of([at(0, 600), second]) == [None, None]


def test_time_goes_to_the_right_and_the_largest_number_is_at_the_top() -> None:
    trend = trend_of([at(57, 0, 30), at(58, 600, 0), at(59, 3600, 15)], NOW)
    assert trend.read is not None
    assert trend.lag is not None
    assert (trend.read.newest, trend.read.highest, trend.read.path) == (50.0, 50.0, "M58 13L59 0")
    assert trend.lag.path == f"M57 0L58 {HEIGHT}L59 {HEIGHT // 2}"
    assert trend.text == "throughput 50/s, at most 50/s; lag 15, at most 30"


def test_a_query_that_reads_nothing_has_a_line_of_zeros() -> None:
    trend = trend_of([at(58, 600, 0), at(59, 600, 0)], NOW)
    assert trend.text == "throughput 0/s, at most 0/s; lag 0, at most 0"
    assert trend.lag is not None
    assert trend.lag.path == f"M58 {HEIGHT}L59 {HEIGHT}"


def test_a_small_number_is_not_rounded_to_nothing() -> None:
    assert trend_of([at(58, 0, 0), at(59, 12, 0)], NOW).text.startswith("throughput 0.2/s, at most 0.2/s")


def test_a_line_breaks_where_a_number_or_a_sample_is_missing() -> None:
    trend = trend_of([at(40, 0, 5), at(41, 60, None), at(42, 120, 5), at(50, 180, 5), at(51, 240, 5)], NOW)
    assert trend.lag is not None
    assert trend.read is not None
    assert trend.lag.path == "M40 0h-1M42 0h-1M50 0L51 0"
    assert trend.read.path == "M41 0L42 0M51 0h-1"


def test_an_old_sample_says_nothing_of_now() -> None:
    assert trend_of([at(50, 0, 7), at(51, 60, 7)], NOW).text == (
        "throughput unknown, at most 1/s; lag unknown, at most 7"
    )  # fmt: skip


def test_no_sample_of_the_last_hour_is_no_history() -> None:
    assert trend_of([], NOW) == NO_TREND
    assert trend_of([at(-1, 100, 5)], NOW) == NO_TREND
    nothing = trend_of([at(59, None, None)], NOW)
    assert (nothing.read, nothing.lag, nothing.text) == (None, None, "throughput unknown; lag unknown")


def test_the_oldest_sample_is_at_the_left_edge() -> None:
    trend = trend_of([at(0, None, 1), at(60, None, 1)], NOW)
    assert trend.lag is not None
    assert trend.lag.path == f"M0 0h-1M{WIDTH} 0h-1"


def flow(**change: Any) -> StandbySample:
    fact = samples.fact(
        **({"reported_at": AT, "input_rows": 700, "offsets": {"orders": {"orders": {"0": 100}}}, "epoch": 1} | change)
    )
    ends = {ORDERS: samples.end(topic="orders", partition=0, end=140, sampled_at=AT)}
    bare = samples.standby_sample(run_id=None, read_records=None, read_at=None, lag_records=None)
    return with_flow(bare, samples.assignment(epoch=1), fact, ends)


def test_a_sample_keeps_what_the_runner_reported() -> None:
    kept = flow(run_id="run-9")
    assert (kept.run_id, kept.read_records, kept.read_at, kept.lag_records) == ("run-9", 700, AT, 40)


@pytest.mark.parametrize("change", [{"epoch": 2}, {"reported_at": AT - 6 * MINUTE}], ids=["another-run", "old"])
def test_a_report_of_another_run_or_time_is_not_kept(change: dict[str, Any]) -> None:
    kept = flow(**change)
    assert (kept.run_id, kept.read_records, kept.read_at, kept.lag_records) == (None, None, None, None)


def test_old_ends_show_no_lag() -> None:
    ends = {ORDERS: samples.end(topic="orders", partition=0, end=140, sampled_at=AT - 6 * MINUTE)}
    fact = samples.fact(reported_at=AT, offsets={"orders": {"orders": {"0": 100}}}, epoch=1)
    kept = with_flow(samples.standby_sample(), samples.assignment(epoch=1), fact, ends)
    assert kept.lag_records is None
    assert with_flow(kept, None, fact, ends) == kept
