"""The functions of ``foreachBatch`` answer Spark's JVM and no other process of the host."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from streaming.spark.jvm import protect_callbacks
from tests.real.test_carry_spark import spark

__all__ = ["spark"]

pytestmark = [pytest.mark.real, pytest.mark.shared]


def answer_to(lines: str) -> bytes:
    """What the callback server answers to a stranger, who knows its protocol and no token."""
    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.port
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
        stranger.sendall(lines.encode())
        try:
            return stranger.recv(4096)
        except ConnectionError:
            return b""


def run_one_batch(spark: SparkSession, folder: Path, function: Callable[[DataFrame, int], None]) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    writer = frame.writeStream.option("checkpointLocation", str(folder)).foreachBatch(function)
    writer.trigger(availableNow=True).start().awaitTermination(60)


def test_a_stranger_can_neither_call_nor_list_nor_delete_a_function(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[int] = []
    answers: list[bytes] = []
    protect_callbacks(spark)

    def keep(_frame: DataFrame, batch: int) -> None:
        functions = ["p0", "p1", "p2", "p3"]
        answers.extend(answer_to(f"c\n{each}\n__repr__\ne\n") for each in functions)
        answers.extend(answer_to(f"g\n{each}\ne\n") for each in functions)
        answers.append(answer_to("A\nwrong\ne\n"))
        seen.append(batch)

    run_one_batch(spark, tmp_path / "one", keep)
    assert seen
    assert all(b"!y" not in each and b"keep" not in each for each in answers), answers
    count = len(seen)
    run_one_batch(spark, tmp_path / "two", keep)
    assert len(seen) > count
