"""What Spark reports of batches: those with data, and a usual one among the newest."""

import json
from pathlib import Path

import pytest

from bench.spark_progress import BATCH, EVENT, Batch, logged_in, newest, parsed, phase_ms, read_batches


def line(name: str, batch: int, rows: int, milliseconds: int) -> str:
    progress = {
        "name": name, "batchId": batch, "durationMs": {BATCH: milliseconds, "addBatch": 10},
        "sources": [{"description": "KafkaV2[Subscribe[orders]]", "numInputRows": rows}],
    }  # fmt: skip
    return json.dumps({"Event": EVENT, "progress": progress}) + "\n"


def test_batches_without_data_and_a_line_half_written_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    assert logged_in(folder)["spark.eventLog.dir"] == folder.as_uri()
    other = json.dumps({"Event": "SparkListenerLogStart"}) + "\n"
    text = other + line("totals", 1, 5, 100) + line("totals", 2, 0, 7) + line("totals", 3, 5, 120)[:-9]
    (folder / "local-1.inprogress").write_text(text, encoding="utf-8")
    assert [(each.query, each.number, each.phases[BATCH]) for each in read_batches(folder)] == [("totals", 1, 100)]


def test_a_usual_batch_is_the_middle_of_the_newest_of_each_query() -> None:
    lines = [line("totals", each, 5, 100 + each) for each in range(100)]
    lines += [line("archive", each, 5, 1000 if each % 4 == 0 else 50) for each in range(100)]
    found = newest(parsed(lines), 40)
    assert [each.number for each in found] == [*range(60, 100), *range(60, 100)]
    assert phase_ms(found, BATCH) == pytest.approx((179.5 + 50.0) / 2)


def test_a_phase_that_no_batch_has_is_zero_and_no_batch_is_no_figure() -> None:
    assert phase_ms([Batch("totals", 1, {BATCH: 9.0})], "walCommit") == 0.0
    with pytest.raises(ValueError, match="no batch"):
        phase_ms([], BATCH)
