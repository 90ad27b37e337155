"""Reads what the example pipelines wrote, each in its own way."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from lab.judge import Tally, Truth, Verdict, judge_by_id, judge_by_window

Judge = Callable[[Mapping[str, Any], Truth], Verdict]

_DEFAULT_WINDOW_SECONDS = 60


def _windowed(deduplicates: bool) -> Judge:
    def judge(settings: Mapping[str, Any], truth: Truth) -> Verdict:
        rows = _rows(Path(settings["sink"]), "SELECT start_ms, orders, ids FROM windows")
        window_ms = int(settings.get("window_seconds", _DEFAULT_WINDOW_SECONDS)) * 1000
        windows = {start_ms: Tally(orders, ids) for start_ms, orders, ids in rows}
        return judge_by_window(truth, windows, window_ms, deduplicates=deduplicates)

    return judge


def _counted(settings: Mapping[str, Any], truth: Truth) -> Verdict:
    return judge_by_id(truth, dict(_rows(Path(settings["sink"]), "SELECT id, deliveries FROM orders")))


def _archived(settings: Mapping[str, Any], truth: Truth) -> Verdict:
    return judge_by_id(truth, archived(Path(settings["sink"])))


JUDGES: Mapping[str, Judge] = {
    "examples.orders:revenue_per_minute": _windowed(deduplicates=True),
    "examples.orders:orders_per_minute": _windowed(deduplicates=False),
    "examples.orders:archive": _archived,
    "examples.orders:latest_orders": _counted,
}
"""How the sink of a pipeline is judged."""


def archived(folder: Path) -> dict[int, int]:
    """Return how often each id stands in the Parquet files that the file sink committed.

    Spark reads them, because only it follows the sink's own log: a folder also holds files of batches that failed.
    """
    if not (folder / "_spark_metadata").exists():
        return {}
    from pyspark.sql import SparkSession

    # The settings keep it quiet and small: it counts ids, once in a while.
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("lab verify")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.catalog.clearCache()
    counted = spark.read.schema("id LONG").parquet(str(folder)).groupBy("id").count().collect()
    return {row[0]: row[1] for row in counted}


def _rows(database: Path, query: str) -> list[Any]:
    """Return all rows, none while the sink has not written yet."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=10.0)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
