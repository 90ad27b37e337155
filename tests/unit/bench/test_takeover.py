"""The take-over of a dead runner's query, as the bench reckons it."""

from pathlib import Path
from typing import Any

import pytest

from bench.baseline_restart import naive_settings
from bench.errors import BenchError
from bench.report import Report, result_of
from bench.takeover import TakenOver, rows, taken_over
from reports.origin import Origin
from reports.result import page

ON = Origin(revision="x", changed=False, made="now", machine="2 cores")

DECLARED: dict[str, Any] = {
    "store": "sqlite:////world/tideover.db",
    "clusters": {name: {"bootstrap": [f"127.0.0.1:{port}"]} for name, port in (("east", 2001), ("west", 2002))},
    "routes": [{"from": "east", "to": "west"}], "runners": {"z": {}},
    "spark": {"master": "local[8]", "conf": {"spark.sql.shuffle.partitions": 2}},
    "queries": {
        name: {
            "pipeline": "examples.orders:revenue_per_minute", "sources": {"orders": {"topics": ["orders"]}},
            "settings": {"sink": f"/world/sinks/{name}.db", "window_seconds": 10}, "clusters": ["east", "west"],
            "runners": ["z"], "checkpoint": f"/world/checkpoints/{name}", "sink": "keyed",
        }
        for name in ("revenue", "archive")
    },
}  # fmt: skip
OPERATION = {
    "query": "guarded", "started_at": "2026-03-01T12:00:01.500+00:00", "outcome": "done", "sentence": "it runs",
    "measured": {"switch_seconds": 1.75},
}  # fmt: skip
STARTED = 1772366401.5
"""The operation's start as seconds since 1970."""


def test_takeover_figures_begin_at_the_record_the_kill_and_the_process_start() -> None:
    assert taken_over(OPERATION, struck_at=STARTED - 1.25, started_at=STARTED - 0.5) == TakenOver(
        decided=1.75, killed=3.0, started=2.25
    )


def test_an_operation_that_committed_nothing_ends_the_measurement() -> None:
    refused = {**OPERATION, "measured": {}, "outcome": "refused", "sentence": "no runner is alive"}
    with pytest.raises(BenchError, match="guarded was not taken over: refused, no runner is alive"):
        taken_over(refused, struck_at=STARTED, started_at=STARTED)


def test_the_report_shows_warm_against_target_cold_and_a_new_driver() -> None:
    warm = [TakenOver(decided=each, killed=each + 1.2, started=each + 0.5) for each in (1.0, 2.0, 3.0)]
    cold = [TakenOver(decided=4.0, killed=99.0, started=12.0)]
    made = rows(warm, cold, [20.0, 24.0])
    report = Report(
        command="c", origin=ON, started_at="now", seconds=1.0, machine={}, versions={}, rows=made, failures={}
    )
    text = page(result_of(report, "bench-takeover"))
    assert (
        "| warm standby runner: decision to first committed batch | <= 2.50 s | 2.00 (1.00 to 3.00, 3) s | met " in text
    )
    assert "| the same, typed | - | 2.50" not in text, "every line says what it is of"
    assert "| runner started at that moment, state kept | 12.0 (12.0 to 12.0, 1) s | 6.0 |" in text
    assert "| new driver, startingOffsetsByTimestamp, state lost | 22.0 (20.0 to 24.0, 2) s | 11.0 |" in text
    assert (
        "| warm standby runner: kill to first committed batch, decided after 1 s | - | 3.20 (2.20 to 4.20, 3) s" in text
    )


def test_a_new_driver_starts_five_seconds_before_the_kill_from_nothing(tmp_path: Path) -> None:
    settings = naive_settings(DECLARED, "revenue", tmp_path, 1000.0)
    assert (settings["bootstrap"], settings["time_ms"]) == ("127.0.0.1:2002", 995_000)
    assert settings["settings"] == {"sink": str(tmp_path / "naive.db"), "window_seconds": 10}
    assert settings["checkpoint"] == str(tmp_path / "naive-checkpoint")
    assert settings["conf"]["spark.master"] == "local[8]"
