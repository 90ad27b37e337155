"""The arithmetic and the shape of the bench's report."""

from typing import Any

import pytest

from bench.report import Other, Report, Row, result_of
from bench.samples import Spread, is_met, paired_percent, ratio
from reports.origin import Origin
from reports.result import page


def row(**changes: Any) -> Row:
    defaults: dict[str, Any] = {
        "measurement": "lookup", "what": "3,500 partitions, warm", "unit": "ms", "ours": Spread((40.0, 50.0, 60.0)),
        "limit": 60.0, "others": (Other(name="confluent-kafka", spread=Spread((100.0,))),),
    }  # fmt: skip
    return Row(**{**defaults, **changes})


def report(*rows: Row, failures: dict[str, str] | None = None) -> Report:
    origin = Origin(revision="abc", changed=False, made="2026-01-01 00:00 UTC", machine="2 cores")
    return Report(
        command="python -m bench", origin=origin, started_at="2026-01-01T00:00:00+00:00", seconds=12.34,
        machine={"cores": 2}, versions={"Kafka": "4.3.1"}, rows=rows, failures=failures or {},
    )  # fmt: skip


def test_a_spread_knows_its_median_range_and_count_whatever_the_order() -> None:
    spread = Spread((9.0, 1.0, 3.0, 4.0))
    assert (spread.median, spread.least, spread.most, spread.count) == (3.5, 1.0, 9.0, 4)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (Spread((2.0,)), Spread((5.0,)), 2.5),
        (Spread((5.0,)), Spread((2.0,)), 0.4),
        (Spread((0.0,)), Spread((2.0,)), None),
        (None, Spread((2.0,)), None),
        (Spread((2.0,)), None, None),
    ],
)
def test_a_ratio_says_how_often_ours_fits_into_theirs(
    ours: Spread | None, theirs: Spread | None, expected: float | None
) -> None:
    assert ratio(ours, theirs) == expected


@pytest.mark.parametrize(
    ("samples", "limit", "expected"),
    [((59.0, 60.0, 900.0), 60.0, True), ((61.0,), 60.0, False), ((1.0,), None, None), ((), 60.0, None)],
)
def test_a_target_is_held_against_the_median(
    samples: tuple[float, ...], limit: float | None, expected: bool | None
) -> None:
    assert is_met(Spread.of(samples), limit) is expected


def test_extra_cost_is_taken_pair_by_pair() -> None:
    assert paired_percent([100.0, 200.0], [102.0, 199.0]) == pytest.approx((2.0, -0.5))


def test_unpaired_or_non_positive_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_percent([100.0, 100.0], [102.0])
    with pytest.raises(ValueError, match="positive"):
        paired_percent([0.0], [1.0])


def test_the_result_keeps_every_sample_and_none_for_what_was_not_measured() -> None:
    absent = Other(name="GetOffsetShell", why_not="no Java")
    first, second = result_of(report(row(others=(absent,)), row(ours=None)), "bench").data["rows"]
    assert first["samples"] == [40.0, 50.0, 60.0]
    assert first["met"] is True
    assert first["others"] == [{"name": "GetOffsetShell", "unit": "ms", "samples": None}]
    assert second["samples"] is None
    assert second["met"] is None


def rendered(*rows: Row, failures: dict[str, str] | None = None) -> str:
    return page(result_of(report(*rows, failures=failures), "bench"))


def test_the_page_names_target_both_figures_and_verdict_in_one_line() -> None:
    assert (
        "| 3,500 partitions, warm | <= 60.0 ms | 50.0 (40.0 to 60.0, 3) ms | met "
        "| confluent-kafka | 100 (100 to 100, 1) ms | 2.0 |" in rendered(row())
    )


def test_a_missed_target_is_marked_and_a_failure_is_reported() -> None:
    text = rendered(row(limit=10.0), failures={"switch": "the runner ended"})
    assert "**missed**" in text
    assert "- switch: the runner ended" in text


def test_an_alternative_that_could_not_be_had_shows_why_instead_of_a_number() -> None:
    assert "| GetOffsetShell | no Java | - |" in rendered(
        row(others=(Other(name="GetOffsetShell", why_not="no Java"),))
    )


def test_the_result_counts_missed_figures_and_names_unmeasured_ones() -> None:
    rows = (row(), row(limit=10.0), row(what="cold", ours=None))
    found = result_of(report(*rows, failures={"switch": "the runner ended"}), "bench")
    assert (found.report, found.commits, found.count, found.wrong) == ("bench", ("abc",), 2, 1)
    assert found.missing == ("switch", "cold")
