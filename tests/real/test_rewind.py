"""Rewinds on a real broker and Spark, under load: what was read since a time is read again, and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lab.judge import weight
from orchestrator.decide.times import iso
from orchestrator.facts.measure import with_outcome
from orchestrator.lease import Leadership
from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.wait import RequestWait, outcome_of
from state.model.entities import Operation, OperationKind
from state.settings.keys import Tideover
from streaming.clocks import SystemClock
from streaming.kafka.link import Link
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.read import newest_commit
from tests.contract.samples import plan_of
from tests.real.pipelines import kept, kept_ids, sums_of
from tests.real.test_runner import Stage, stage
from tests.runner_process import RunnerProcess

__all__ = ["stage"]

pytestmark = [pytest.mark.real, pytest.mark.shared]

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PACE = 20


class Load:
    """Ids that are written to east all the time, and how many there are."""

    def __init__(self, on: Stage) -> None:
        self._on, self._over, self.end = on, threading.Event(), 0
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._over.wait(0.2):
            self._on.extend(self.end + _PACE, self._on.east)
            self.end += _PACE

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def carry_out(on: Stage, query: str, to_time: str) -> Operation:
    """One rewind, typed by a person."""
    settings, clock = Tideover.model_validate(on.settings), SystemClock()
    links = {name: Link(cluster) for name, cluster in settings.clusters.items()}
    work = RequestWait(
        store=on.store, settings=settings, logs=links.__getitem__, clock=clock,
        lead=Leadership(on.store, clock, "test"), actor="test",
    )  # fmt: skip
    wish = RequestSpec(
        kind=OperationKind.REWIND, targets={query: "east"}, expect_active={query: "east"}, actor="test", reason="",
        consents=(), parameters={"to_time": to_time},
    )  # fmt: skip
    try:
        (request,) = work.see_through(submit(on.store, wish), seconds=120)
        operation = outcome_of(on.store, request)
        assert operation is not None, request.refused
        assert operation.outcome == "done", operation.sentence
        return operation
    finally:
        for link in links.values():
            link.close()


def measured(on: Stage, operation: Operation) -> object:
    settings = Tideover.model_validate(on.settings)
    link = Link(settings.clusters["east"])
    try:
        return with_outcome(operation, on.store, lambda _: link).measured.replay_records
    finally:
        link.close()


def newest_sums(on: Stage) -> dict[str, tuple[int, int]]:
    """By key what its sink was given last."""
    reported = sorted(kept(on.folder / "sums"), key=lambda each: float(each["at"]))
    return {key: (count, weight(count, high, low)) for each in reported for key, count, high, low in each["rows"]}


def test_a_rewind_repeats_what_it_forecast_and_state_ends_exact(stage: Stage) -> None:
    queries: Any = stage.settings["queries"]
    base = queries["ids"]
    for name, pipeline in (("ids", "rows_by_batch"), ("sums", "sums_by_batch")):
        queries[name] = base | {
            "pipeline": f"tests.real.pipelines:{pipeline}",
            "settings": {"sink": str(stage.folder / name)},
            "checkpoint": str(stage.folder / "checkpoints" / name),
            "trigger": "500ms",
        }
    stage.settings["spark"]["conf"] |= {
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    runner = RunnerProcess(stage.settings, stage.folder)
    try:
        with Load(stage).running() as load:
            runner.until("both have read for a while", lambda: all(batches(stage, name) >= 3 for name in queries))
            runner.until("how far back it can go is told", lambda: getattr(stage.fact("sums"), "retained_from", None))
            then = stage.store.now()
            first_again = max(kept_ids(stage.folder / "ids")) // 2
            runner.until("it has read more since", lambda: all(read_since(stage, name, then) for name in queries))

            sums = carry_out(stage, "sums", str(iso(then)))
            rows = carry_out(stage, "ids", f"{record_time(first_again)}")
            load.stop()
        end = load.end
        runner.until("each id was read", lambda: set(kept_ids(stage.folder / "ids")) == set(range(end)))
        runner.until("the sums are those of each id once", lambda: newest_sums(stage) == sums_of(end))

        went_back: Any = plan_of(sums)
        before = newest_commit(LocalFiles(), str(stage.folder / "checkpoints" / "sums"))
        assert before is not None
        assert went_back["rewind"]["batch"] < before
        assert went_back["totals"]["replay_records"] > 0
        plan: Any = plan_of(rows)
        forecast = plan["totals"]["replay_records"]
        counts = kept_ids(stage.folder / "ids")
        again = {number for number, count in counts.items() if count == 2}
        assert (set(counts.values()), len(again)) == ({1, 2}, forecast)
        assert min(again) == first_again
        runner.until("it is measured", lambda: measured(stage, rows) == forecast)
        runner.until("it is measured", lambda: measured(stage, sums) == went_back["totals"]["replay_records"])
        assert (plan["totals"]["possible_replay_records"], plan["uncommitted_batch"]) == (0, "none")
    finally:
        runner.kill()


def batches(on: Stage, query: str) -> int:
    fact = on.fact(query)
    return -1 if fact is None or fact.batch is None else fact.batch


def read_since(on: Stage, query: str, then: datetime) -> bool:
    """Whether batches were planned and committed since a time."""
    reported = [float(each["at"]) for each in kept(on.folder / query)]
    return sum(at > (then + timedelta(seconds=1)).timestamp() for at in reported) >= 2


def record_time(number: int) -> str:
    """When the record of an id was written, by its timestamp."""
    return str(iso(datetime.fromtimestamp((1_700_000_000_000 + number) / 1000, UTC)))
