"""What a runner does about checkpoints that it was ordered to clean."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from state.errors import StoreUnavailable
from state.model.entities import Desired
from state.model.maintenance import CleanedFiles, FormerCheckpoint
from state.settings.keys import Tideover
from streaming.process import own_identity
from streaming.spark.checkpoint import log_fence
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.hosting import Hosting, NoListener
from streaming.spark.runner import cleaning as module
from streaming.spark.runner.cleaning import CheckpointCleaner
from tests.checkpoints import CheckpointFolder
from tests.contract import samples
from tests.memory_store import MemoryStore

WAIT = 30.0


class Runner:
    """A process whose query continued from its folder to one that a move made in it."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "revenue"
        self.left = CheckpointFolder(self.base)
        self.left.commit(0)
        log_fence.plant(LocalFiles(), str(self.base), operation="op-1", epoch=2, knows=lambda _: True)
        self.active = str(self.base / "epoch-2-op-1")
        self.store = MemoryStore(lambda: datetime.now(UTC))
        self.store.adopt(samples.assignment(checkpoint=str(self.base)))
        moved = samples.assignment(epoch=2, placed_epoch=2, checkpoint=self.active)
        assert self.store.reconcile(moved, from_epoch=1, event=samples.event())
        self.hosted: list[object] = []
        self.cleaning = CheckpointCleaner(self.hosting(folder), lambda _: cast(Any, self.hosted))

    def hosting(self, folder: Path) -> Hosting:
        return Hosting(
            settings=SETTINGS, runner="a", instance="one", spark_master="local[4]", application_id="app", base=folder,
            here=own_identity(), session=cast(Any, None), files=LocalFiles(), store=self.store, listener=NoListener(),
        )  # fmt: skip

    def to_clean(self) -> Sequence[FormerCheckpoint]:
        (former,) = self.store.formers()
        assert self.store.request_cleaning(former, runner="a", epoch=2, event=samples.event(text="asked"))
        return self.store.to_clean("a")

    def take(self) -> FormerCheckpoint:
        """Request it, have it done, and return what the store says of it then."""
        self.cleaning.take(self.to_clean())
        self.finish()
        return self.store.formers()[0]

    def finish(self) -> None:
        thread = self.cleaning._thread
        assert thread is not None
        thread.join(WAIT)
        assert not thread.is_alive()


SETTINGS = Tideover.model_validate(
    {
        "store": "sqlite:///t.db",
        "clusters": {"east": {"bootstrap": ["localhost:1"]}, "west": {"bootstrap": ["localhost:2"]}},
        "runners": {"a": {}},
        "queries": {
            "revenue": {
                "pipeline": "p:q", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
                "runners": ["a"], "checkpoint": "revenue",
            },
        },
    }
)  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_a_checkpoint_is_cleaned_and_the_history_has_it(runner: Runner) -> None:
    cleaned = runner.take()
    assert cleaned.cleaned_at is not None
    assert cleaned.files == 0, "one batch, without state"
    event = runner.store.history()[-1]
    assert (event.kind, event.actor, event.query) == ("cleaned", "runner a", "revenue")
    assert event.text == f"{runner.base}, which revenue left with epoch 2, is cleaned: 0 files, 0 bytes"
    assert runner.store.to_clean("a") == []


def hosts(runner: Runner) -> None:
    runner.hosted.append(SimpleNamespace(subject=SimpleNamespace(checkpoint=f"file://{runner.base}/")))


def is_held(runner: Runner) -> None:
    held = samples.operation(id="op-2", epoch=3)
    term = samples.term_of(runner.store)
    step = samples.step(operation="op-2")
    assert runner.store.hold(held, from_epoch=2, term=term, step=step, event=samples.event(text="held"))


def is_not_fenced(runner: Runner) -> None:
    for entry in (1, 2):
        (runner.base / "offsets" / str(entry)).unlink()


@pytest.mark.parametrize(
    ("in_between", "why"),
    [(hosts, "uses it, or did until now"), (is_held, "is held"), (is_not_fenced, "has no fence")],
)
def test_a_runner_refuses_to_clean_what_changed_since_the_order(
    runner: Runner, in_between: Callable[[Runner], None], why: str
) -> None:
    requested = runner.to_clean()
    in_between(runner)
    before = runner.left.files()
    runner.cleaning.take(requested)
    runner.finish()
    (former,) = runner.store.formers()
    assert former.refused is not None
    assert why in former.refused
    assert (former.cleaned_at, runner.left.files()) == (None, before)
    assert runner.store.history()[-1].kind == "not-cleaned"


@pytest.mark.parametrize("path", ["/etc", "gs://bucket/revenue"])
def test_another_folder_than_the_configured_one_is_refused(runner: Runner, path: str) -> None:
    runner.cleaning.take([replace(runner.to_clean()[0], checkpoint=path)])
    runner.finish()
    requested = runner.store.to_clean("a")
    assert [each.checkpoint for each in requested] == [str(runner.base)], "what nobody asked for is not answered"
    assert runner.cleaning._refusal(replace(requested[0], checkpoint=path)) == f"it is outside {runner.base}"
    assert runner.cleaning._refusal(replace(requested[0], query="late")) is not None


def test_a_row_of_a_query_that_runs_elsewhere_says_what_is_in_use(runner: Runner) -> None:
    (requested,) = runner.to_clean()
    row = runner.store.assignment("revenue")
    assert row is not None
    assert row.desired is Desired.RUNNING
    assert runner.cleaning._refusal(requested) is None
    in_use = runner.cleaning._refusal(replace(requested, checkpoint=f"{runner.active}/"))
    assert in_use == "revenue uses it, or did until now"
    assert runner.cleaning._refusal(replace(requested, checkpoint=f"file://localhost{runner.active}")) == in_use


def test_an_answer_that_the_store_did_not_hear_is_given_again(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    report, refused = runner.store.report_cleaned, [StoreUnavailable("away")]

    def hear(*given: Any, **more: Any) -> bool:
        if refused:
            raise refused.pop()
        return report(*given, **more)

    monkeypatch.setattr(runner.store, "report_cleaned", hear)
    former = runner.take()
    assert (former.is_requested, runner.store.history()[-1].text) == (True, "asked")
    runner.cleaning.take(runner.store.to_clean("a"))
    runner.finish()
    assert runner.store.formers()[0].cleaned_at is not None


def test_one_that_hangs_keeps_the_next_waiting_and_nothing_is_begun_twice(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    goes_on = Event()

    def hang(_files: object, checkpoint: str) -> CleanedFiles:
        begun.append(checkpoint)
        assert goes_on.wait(WAIT)
        return CleanedFiles(1, 1)

    monkeypatch.setattr(module, "clean", hang)
    requested = runner.to_clean()
    for _ in range(3):
        runner.cleaning.take(requested)
    goes_on.set()
    runner.finish()
    assert begun == [str(runner.base)]
    runner.cleaning.close()
    runner.cleaning.take(requested)
    assert begun == [str(runner.base)]
    assert runner.store.formers()[0].files == 1


def test_an_error_of_hadoop_is_shown_in_one_line(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_files: object, _checkpoint: str) -> CleanedFiles:
        raise ValueError("the name node is in safe mode")

    monkeypatch.setattr(module, "clean", fail)
    assert runner.take().refused == "ValueError: the name node is in safe mode"
    assert runner.store.formers()[0].asked_at is not None
    assert datetime.now(UTC) - runner.store.formers()[0].asked_at < timedelta(hours=1)  # type: ignore[operator]
