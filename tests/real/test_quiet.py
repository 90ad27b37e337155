"""When a stopped query is quiet: real Spark, and a task that writes after ``stop()`` returned."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions

from streaming.spark.checkpoint.batch_news import RunName
from streaming.spark.jvm import detach, java_context
from streaming.spark.query.callbacks import CallbackGate, gated
from streaming.spark.query.query_run import Run
from tests.jars import connector_jars
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.matrix]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),  # the first session of a process settles which jars its JVM has
        "spark.python.task.killTimeout": "120s",  # 2 s; so long a task that was cancelled may continue
    }
    known = SparkSession.builder.master("local[2]").config(map={**settings}).getOrCreate()
    yield known
    known.stop()


NAME = RunName("revenue", 1, "without the companion")


def writing_run(session: SparkSession, folder: Path) -> Run:
    """A run whose tasks write their rows once they may: Spark lets a Python worker continue, whatever was cancelled."""

    def write_late(number: int) -> int:
        (folder / "begun").touch()
        while not (folder / "go").exists():
            time.sleep(0.02)
        with (folder / "rows").open("a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        return number

    late = functions.udf(write_late, "long", useArrow=False)
    frame = session.readStream.format("rate").option("rowsPerSecond", "1").load().select(late("value"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", (folder / "checkpoint").as_uri())
    return Run.start(session, writer, CallbackGate(), NAME)


def failed_run(session: SparkSession, folder: Path, *, callback: bool) -> Run:
    """A run that a function of the user's ends: in a worker, or in a worker behind a callback."""

    def price(number: int) -> int:
        raise ValueError(f"no price of {number}\nsee the list")

    priced = functions.udf(price, "long", useArrow=False)
    gate = CallbackGate()
    rate = session.readStream.format("rate").option("numPartitions", "1").load()  # so that partition 0 comes first
    writer = rate.select(priced("value")).writeStream
    with gated(gate):
        writer = writer.foreachBatch(lambda frame, _: frame.collect()) if callback else writer.format("noop")  # type: ignore[arg-type] # Spark drops what it returns
    run = Run.start(session, writer.option("checkpointLocation", (folder / "checkpoint").as_uri()), gate, NAME)
    until(lambda: not run.is_active)
    return run


@pytest.mark.parametrize("callback", [False, True])
def test_an_error_of_a_python_worker_is_shown_in_its_own_words(
    session: SparkSession, tmp_path: Path, callback: bool
) -> None:
    run = failed_run(session, tmp_path, callback=callback)
    until(run.error)
    said = run.error() or ""
    assert said.startswith("ValueError: no price of 0 (Python worker, test_quiet.py:")
    trace = run.trace() or ""
    assert trace.startswith("Traceback (most recent call last):")
    assert "ValueError: no price of 0\nsee the list" in trace


def test_a_start_leaves_no_listener_behind(session: SparkSession, tmp_path: Path) -> None:
    bus = java_context(session).listenerBus()

    def played(name: str) -> tuple[int, int]:
        """How many listen while a run of a session of its own continues, and when that is over."""
        own = session.newSession()
        frame = own.readStream.format("rate").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", (tmp_path / name).as_uri())
        run = Run.start(own, writer, CallbackGate(), NAME)
        during = bus.listeners().size()
        run.begin_stop()
        until(lambda: run.unrest() is None)
        detach(own)
        return during, bus.listeners().size()

    _, before = played("first")  # with the first query of an application listeners of Spark's own come to stay
    during, after = played("second")
    assert during > before
    assert after == before


def test_a_run_whose_stop_returned_is_not_quiet_while_a_task_writes(session: SparkSession, tmp_path: Path) -> None:
    run = writing_run(session, tmp_path)
    until((tmp_path / "begun").exists)
    run.begin_stop()
    until(lambda: f"stop {run.run_id}" not in {thread.name for thread in threading.enumerate()})
    assert run.unrest() is not None
    (tmp_path / "go").touch()
    until(lambda: run.unrest() is None)
    rows = (tmp_path / "rows").read_text(encoding="utf-8")
    assert rows, "it wrote although it was cancelled"
    time.sleep(3)
    assert (tmp_path / "rows").read_text(encoding="utf-8") == rows
