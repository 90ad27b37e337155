"""Applications and queries of event logs, plain and compressed, whole and cut."""

import json
from pathlib import Path

import pytest
import zstandard

from streaming.spark.inventory.event_logs import LoggedSource, read_application
from streaming.spark.inventory.log_files import lines_of, logs_below

_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
EVENTS = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.2.0"},
    {"Event": "SparkListenerApplicationStart", "App Name": "shop", "App ID": "app-1"},
    {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.plugins": "a.B"}},
    {"Event": "SparkListenerJobStart", "Job ID": 1},
    {"Event": f"{_STREAMING}QueryStartedEvent", "id": "q1", "runId": "r", "name": "archive"},
    {
        "Event": f"{_STREAMING}QueryProgressEvent",
        "progress": {
            "id": "q1", "name": "archive", "sink": {"description": "ForeachBatchSink"},
            "sources": [{"description": "KafkaV2[Subscribe[orders, parcels]]"}, {"description": "FileStreamSource[x]"}],
        },
    },
]  # fmt: skip
TEXT = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in EVENTS)


def test_a_log_names_application_spark_settings_and_queries() -> None:
    found = read_application("log", TEXT.splitlines(keepends=True))
    assert (found.name, found.id, found.spark, found.conf) == ("shop", "app-1", "4.2.0", {"spark.plugins": "a.B"})
    (query,) = found.queries.values()
    assert (query.id, query.name, query.sink) == ("q1", "archive", "ForeachBatchSink")
    assert query.sources == (LoggedSource(way="Subscribe", what="orders, parcels"),)


def test_a_line_that_was_cut_says_nothing() -> None:
    found = read_application("log", TEXT[:-30].splitlines(keepends=True))
    assert found.queries["q1"].sources is None


def test_parts_are_read_in_their_order_and_decompressed(tmp_path: Path) -> None:
    log = tmp_path / "eventlog_v2_app-1"
    log.mkdir()
    half = TEXT.index('{"Event":"SparkListenerJobStart"')
    (log / "events_2_app-1.zstd").write_bytes(zstandard.compress(TEXT[:half].encode()))
    (log / "events_10_app-1").write_text(TEXT[half:])
    (log / "appstatus_app-1").touch()
    ((where, files),) = logs_below(tmp_path)
    assert where == log
    found = read_application(str(where), lines_of(files))
    assert (found.name, list(found.queries)) == ("shop", ["q1"])


def test_a_compressed_log_of_a_killed_driver_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "app-1.zstd.inprogress"
    made = zstandard.ZstdCompressor().compressobj()
    path.write_bytes(made.compress(TEXT.encode()) + made.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    found = read_application("log", lines_of([path]))
    assert found.name == "shop"


def test_other_files_are_no_logs_and_other_codecs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "local-1").write_text(TEXT)
    assert [path.name for path, _ in logs_below(tmp_path)] == ["local-1"]
    (tmp_path / "app-2.lz4").write_bytes(b"x")
    with pytest.raises(ValueError, match="compressed by lz4"):
        list(lines_of([tmp_path / "app-2.lz4"]))
