"""A run that finds nothing new to read says so at once, and then once a second."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from state.messages import CheckpointReport
from state.model.entities import BucketRules, RulesFound
from state.settings.keys import Query
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.hosting import Subject, logger_about
from streaming.spark.query import run_monitor as module
from streaming.spark.query.run_monitor import RunMonitor
from streaming.spark.query.session import polling_delay_ms
from tests.waiting import until


@dataclass
class FakeRun:
    is_waiting: bool = False
    news: None = None
    silent: timedelta | None = None

    def silence(self) -> timedelta | None:
        return self.silent

    def last_progress(self) -> None:
        return None


class FakeFollower:
    committed: int | None = None
    data_batch = 0

    def poll(self, given: object) -> list[object]:
        return []


@dataclass
class FakeLedger:
    has_progressed: bool = False
    said: list[str] = field(default_factory=list)

    def inspected(self, report: CheckpointReport) -> None:
        self.said.append("inspected")

    def waits(self, silence: timedelta | None) -> None:
        if silence is not None:
            self.said.append(f"silent {silence.total_seconds():g}")

    def waiting(self) -> None:
        self.has_progressed = True
        self.said.append("waiting")

    bucket: BucketRules | None = None

    def kept_by(self, bucket: BucketRules | None) -> None:
        self.bucket = bucket

    def report(self) -> None:
        self.said.append("report")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    known = Clock()
    monkeypatch.setattr(module, "time", known)
    return known


def watch_of(
    run: FakeRun, ledger: FakeLedger, bucket_rules: Callable[[str], BucketRules | None] = lambda _: None
) -> RunMonitor:
    subject = Subject("q", 1, "east", "/c")
    watch = RunMonitor(
        cast(Any, SimpleNamespace(bucket_rules=bucket_rules)),
        subject,
        cast(Any, run),
        cast(Any, FakeFollower()),
        cast(Any, ledger),
        logger_about({}),
    )
    watch._reported = 99.5  # half a second ago
    return watch


def test_the_first_wait_is_reported_at_once(clock: Clock) -> None:
    run, ledger = FakeRun(), FakeLedger()
    watch = watch_of(run, ledger)
    watch.poll()
    assert ledger.said == []
    run.is_waiting = True
    watch.poll()
    assert ledger.said == ["waiting", "report"]


def test_the_rules_of_a_bucket_are_read_in_the_background_and_each_hour(clock: Clock) -> None:
    ledger, requested, open_ = FakeLedger(), list[str](), threading.Event()
    found = BucketRules(RulesFound.NONE, "no rule")

    def slow(checkpoint: str) -> BucketRules:
        requested.append(checkpoint)
        assert open_.wait(60)
        return found

    watch = watch_of(FakeRun(is_waiting=True), ledger, slow)
    for _ in range(3):
        clock.now += 1
        watch.poll()
    assert ledger.bucket is None, "the store has not answered, and nothing waits for it"
    open_.set()
    until(lambda: watch._rules is found)
    clock.now += 1
    watch.poll()
    assert (ledger.bucket, requested) == (found, ["/c"])
    clock.now += 3600
    watch._read_rules()
    until(lambda: len(requested) == 2)


def test_later_waits_are_reported_once_a_second(clock: Clock) -> None:
    run, ledger = FakeRun(is_waiting=True), FakeLedger()
    watch = watch_of(run, ledger)
    for _ in range(20):
        watch.poll()
        clock.now += 0.1
    assert ledger.said == ["waiting", "report"] * 2


def test_a_run_that_waits_for_its_cluster_says_so_and_makes_no_progress(clock: Clock) -> None:
    run, ledger = FakeRun(silent=timedelta(seconds=4)), FakeLedger()
    watch = watch_of(run, ledger)
    clock.now += 1
    watch.poll()
    assert ledger.said == ["silent 4", "report"]
    assert not ledger.has_progressed


def test_a_checkpoint_that_cannot_be_inspected_is_logged_with_its_query(tmp_path: Path) -> None:
    hosting = SimpleNamespace(files=LocalFiles(), declared=lambda *_: {}, bucket_rules=lambda _: None)
    follower, about = FakeFollower(), {"query": "q", "epoch": 2, "operation": "op-1"}
    follower.committed = 3
    subject = Subject("q", 2, "east", str(tmp_path))
    fakes: tuple[Any, ...] = (FakeRun(is_waiting=True), follower, FakeLedger())
    with capture_logs() as lines:
        RunMonitor(cast(Any, hosting), subject, *fakes, logger_about(about)).poll()  # type: ignore[call-arg] # three fakes in a row
    (line,) = lines
    assert line["event"] == "checkpoint cannot be inspected"
    assert about.items() <= line.items()


@pytest.mark.parametrize(("trigger", "delay_ms"), [("1s", 500), ("200ms", 100), ("0s", 10), ("10m", 1000)])
def test_a_run_stays_in_the_state_of_waiting_for_half_a_trigger(trigger: str, delay_ms: int) -> None:
    query = Query.model_validate(
        {
            "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
            "runners": ["a"], "checkpoint": "c", "trigger": trigger,
        }
    )  # fmt: skip
    assert polling_delay_ms(query) == delay_ms
