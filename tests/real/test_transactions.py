"""Kafka's own producers, with transactions that abort: a kill in the middle loses nothing and repeats nothing."""

from pathlib import Path

import pytest

from tests.transactions import Plot, judged, play_plot

pytestmark = pytest.mark.real


def test_a_kill_among_transactions_is_exact_under_either_isolation(tmp_path: Path) -> None:
    plot = Plot(fault="kill", replicator="read_committed", size=20, calm_seconds=3.0, decide_seconds=0.5)
    played = play_plot(plot, tmp_path)
    assert judged(played) == []
    assert sum(played.committed.values()) > 0
    attempts = sum(sum(each.values()) for each in played.rows["rows_all"].values())
    assert attempts > sum(sum(each.values()) for each in played.rows["rows_committed"].values()), "nothing was aborted"
