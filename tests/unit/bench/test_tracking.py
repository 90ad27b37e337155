"""How the tracking bench picks batches, and what it says when there are none."""

from bench.report import result_of
from bench.tracking import Taken, _rows
from reports.result import page
from tests.unit.bench.test_report import report

FAR = float("inf")


def test_a_count_without_a_single_pair_is_reported_as_not_measured() -> None:
    rows = _rows(1000, Taken(without=[60_000.0]))
    assert [row.ours for row in rows] == [None, None]
    assert "not one pair of blocks" in page(result_of(report(*rows), "bench"))


def test_shares_are_of_the_neighbouring_block() -> None:
    _, share = _rows(4, Taken(without=[100.0, 200.0], with_it=[101.0, 201.0], cpu_per_batch=[2.0, 3.0]))
    assert share.ours is not None
    assert share.ours.samples == (2.0, 1.5)
