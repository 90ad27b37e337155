"""Plots of exposure and of copy age: points in a box, breaks, and what is said beside them."""

from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.desk.query_lines import HEIGHT, WIDTH, Plot, plots_of, plotted_from
from state.model.maintenance import StandbySample
from tests.contract import samples
from tests.contract.samples import AT

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def at(minute: int, value: float | None = 0.0, **change: Any) -> StandbySample:
    return samples.standby_sample(
        sampled_at=AT + minute * MINUTE, exposure_seconds=value, copy_age_seconds=value, **change
    )  # fmt: skip


def exposure(*given: StandbySample, limit: float = 60.0) -> Plot:
    (plot, _) = plots_of(given, AT, AT + HOUR, limit)
    return plot


def test_time_goes_to_the_right_and_values_upwards() -> None:
    plot = exposure(at(0, 0.0), at(5, 1.0), at(10, 2.0))
    assert [list(line) for line in plot.lines] == [[(0.0, HEIGHT), (WIDTH / 12, HEIGHT / 2), (WIDTH / 6, 0.0)]]
    assert (plot.newest, plot.highest, plot.highest_at, plot.top) == (2.0, 2.0, AT + 10 * MINUTE, 2.0)


@pytest.mark.parametrize(("highest", "top"), [(0.0, 1.0), (0.4, 1.0), (1.1, 2.0), (4.9, 5.0), (51.0, 100.0)])
def test_the_scale_ends_at_a_round_number(highest: float, top: float) -> None:
    assert exposure(at(0, highest)).top == top


def test_a_line_breaks_where_nothing_was_measured_and_where_the_query_moved() -> None:
    silent = exposure(at(0), at(1, None), at(2))
    away = exposure(at(0), at(5), at(11))
    moved = exposure(at(0), at(1, source="west", target="east"))
    assert [[len(line) for line in plot.lines] for plot in (silent, away, moved)] == [[1, 1], [2, 1], [1, 1]]


def test_the_limit_is_drawn_only_where_it_is_in_the_box() -> None:
    assert exposure(at(0, 0.4)).limit_y is None
    assert exposure(at(0, 90.0)).limit_y == pytest.approx(HEIGHT * 0.4)


def test_plots_begin_with_the_first_sample_but_ten_minutes_ago_at_the_latest() -> None:
    now = AT + 6 * HOUR
    assert plotted_from((), now, 6 * HOUR) == now - 10 * MINUTE
    assert plotted_from((at(355),), now, 6 * HOUR) == now - 10 * MINUTE
    assert plotted_from((at(120), at(355)), now, 6 * HOUR) == AT + 120 * MINUTE
    assert plotted_from((at(-1), at(355)), now, 6 * HOUR) == AT


def test_nothing_measured_is_no_line_and_no_number() -> None:
    for given in ((), (at(0, None),)):
        plot = exposure(*given)
        assert (plot.lines, plot.newest, plot.highest, plot.highest_at) == ((), None, None, None)
