"""A fence: what proves that a query writes nothing more, here or in another process, and what does not."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from state.messages import (
    CheckpointReport,
    FenceReport,
    FenceRequest,
    Process,
    Proof,
    ReleaseRequest,
    SinkMemory,
    SinkState,
)
from state.settings.keys import Spark
from streaming.clocks import SystemClock
from streaming.process import Identity, is_gone, own_identity, started_at
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import planted_epochs, release
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import Left, Move, Placed, write_move
from streaming.spark.errors import AlreadyRun, HeldByStranger
from streaming.spark.query.sink_memory import UNKNOWN_SINK, WrittenTo
from streaming.spark.runner.fence import FenceContext, FinishWait, fence, hold
from tests.checkpoints import CheckpointFolder

HERE = replace(own_identity(), host=f"{socket.gethostname()}/4026531836/5a3e92c1")
DECLARED = {"orders": ("orders",)}
GONE_PID_STARTED = 1


def unread(report: CheckpointReport, sink: WrittenTo) -> CheckpointReport:
    """A sink whose table no one reads."""
    return report.model_copy(update={"sink_memory": sink.memory})


def process(**changes: Any) -> Process:
    known = Process(
        runner="a",
        instance="other",
        host=HERE.host,
        boot_id=HERE.boot_id,
        pid=HERE.pid,
        pid_started=HERE.pid_started,
        spark_master="local[4]",
    )
    return known.model_copy(update=changes)


class LooksOnly(SystemClock):
    """Time passes by what is waited for and by nothing else, however busy the machine is."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.passed += seconds


def answers() -> bool:
    """The cluster that the query reads is never silent."""
    return False


def wait_for(
    request: FenceRequest, is_silent: Callable[[], bool] = answers, clock: SystemClock | None = None
) -> FinishWait:
    return FinishWait(request, is_silent, clock or LooksOnly())


def moved_before(folder: Path) -> CheckpointFolder:
    """A checkpoint on which operation ``then`` took the query to west with epoch 4."""
    checkpoint = CheckpointFolder(folder)
    checkpoint.commit(0)
    move = Move(epoch=4, operation="then", left=Left(cluster="east", epoch=0), to="west", places={})
    write_move(LocalFiles(), str(folder), move, lambda: None)
    return checkpoint


def test_a_query_that_continued_elsewhere_is_not_fenced(tmp_path: Path) -> None:
    """The store was put back to a copy of before that move; a fence would end what runs."""
    checkpoint = moved_before(tmp_path)
    before = checkpoint.files()
    request = FenceRequest(checkpoint=str(tmp_path), epoch=2, operation="op", hosting=None, wait_seconds=0.0)
    context = FenceContext(
        instance="me",
        here=HERE,
        spark=Spark(),
        files=LocalFiles(),
        knows=lambda _: False,
        still=lambda: None,
        with_sink=unread,
    )
    with pytest.raises(HeldByStranger, match="operation then of epoch 4"):
        fence(context, request, wait_for(request), [], DECLARED, lambda: UNKNOWN_SINK, Placed("east", 0))
    own = request.model_copy(update={"operation": "then"})
    with pytest.raises(AlreadyRun):
        fence(context, own, wait_for(own), [], DECLARED, lambda: UNKNOWN_SINK, Placed("east", 0))
    assert checkpoint.files() == before


class BusyRun:
    """A query that is in a batch, which is committed when it was looked at so many times; then it plans the next."""

    def __init__(self, folder: Path, looks: int) -> None:
        self._checkpoint = CheckpointFolder(folder)
        self._looks = looks
        self.closed_at: int | None = None
        """The newest committed batch when it was ordered to stop."""
        self.refused = False

    is_held = False

    @property
    def is_finishing(self) -> bool:
        self._looks -= 1
        if self._looks == 0:
            self._checkpoint.write("commits/2", "v1\n{}")
            self.refused = (self._checkpoint.path / "offsets" / "3").exists()
        return self.closed_at is None

    def close(self) -> None:
        self.closed_at = max(int(path.name) for path in (self._checkpoint.path / "commits").iterdir())

    def unrest(self) -> str | None:
        return None if self.closed_at is not None else "it is hosted here"

    def run_id_in_batch(self) -> str | None:
        return None

    def sink_state(self, _batch: int) -> SinkState:
        return SinkState.UNKNOWN


class RestingRun(BusyRun):
    """A query that waits for its next trigger, and plans a batch when it was looked at twice."""

    _rests = 3

    @property
    def is_finishing(self) -> bool:
        self._rests -= 1
        if self._rests == 0:
            self._checkpoint.plan(2)
        return super().is_finishing


class RunHere:
    """A query that this process hosts: it says what it is set to say."""

    is_held = False

    def __init__(self, unrest: Callable[[], str | None], sink: SinkState = SinkState.UNKNOWN) -> None:
        self.unrest = unrest
        self._sink = sink
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def run_id_in_batch(self) -> str | None:
        return None

    def sink_state(self, _batch: int) -> SinkState:
        return self._sink


def quiet() -> None:
    """Nothing of it runs."""


def fenced(
    folder: Path,
    hosting: Process | None,
    *here: RunHere,
    file_sink: Path | None = None,
    wait_seconds: float = 0.05,
) -> FenceReport:
    guard = FenceContext(
        instance="mine",
        here=HERE,
        spark=Spark(),
        files=LocalFiles(),
        knows=lambda _: True,
        still=lambda: None,
        with_sink=unread,
    )
    request = FenceRequest(checkpoint=str(folder), epoch=4, operation="op", hosting=hosting, wait_seconds=wait_seconds)
    sink = UNKNOWN_SINK if file_sink is None else WrittenTo("parquet", str(file_sink), SinkMemory.BATCH)
    return fence(guard, request, wait_for(request), cast(Any, here), DECLARED, lambda: sink)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint = CheckpointFolder(tmp_path / "c")
    checkpoint.commit(0)
    checkpoint.commit(1)
    return tmp_path / "c"


def finished(
    folder: Path,
    run: BusyRun,
    seconds: float,
    is_silent: Callable[[], bool] = answers,
    clock: LooksOnly | None = None,
    files: LocalFiles | None = None,
) -> FenceReport:
    guard = FenceContext(
        instance="mine",
        here=HERE,
        spark=Spark(),
        files=files or LocalFiles(),
        knows=lambda _: True,
        still=lambda: None,
        with_sink=unread,
    )
    request = FenceRequest(
        checkpoint=str(folder), epoch=4, operation="op", hosting=process(instance="mine"), finish_seconds=seconds
    )
    wait = wait_for(request, is_silent, clock)
    return fence(guard, request, wait, cast(Any, [run]), DECLARED, lambda: UNKNOWN_SINK)


class HoldableRun:
    """A query that can be held: at rest after so many looks."""

    is_quiet = False
    closed = False
    may_leave = True

    def __init__(
        self, looks: int, *, can_be_held: bool = True, keeps_after: int = 1_000_000, silent: bool = False
    ) -> None:
        self._looks = looks
        self._can_be_held = can_be_held
        self._keeps_after = keeps_after
        self.waits_for_cluster = silent
        self.is_kept_in_batch = False
        self.requested = 0
        self._kept = False

    @property
    def is_held(self) -> bool:
        return self._kept and not self.closed

    @property
    def is_finishing(self) -> bool:
        return not (self.closed or self.is_held)

    def hold(self) -> bool:
        self.requested += 1
        return self._can_be_held

    def keep_in_batch(self) -> bool:
        self._keeps_after -= 1
        self.is_kept_in_batch = self._keeps_after < 0
        return self.is_kept_in_batch

    def keep_held(self) -> None:
        self._kept = True

    def close(self) -> None:
        self.closed = True

    def unrest(self) -> str | None:
        self._looks -= 1
        return None if self.closed or self._looks < 0 or self.is_kept_in_batch else "its batch is not finished"

    def run_id_in_batch(self) -> str | None:
        return "r" if self.is_held and self.is_kept_in_batch and self.may_leave else None

    def sink_state(self, _batch: int) -> SinkState:
        return SinkState.UNKNOWN


def held(
    folder: Path,
    *here: Any,
    finish_seconds: float = 0.0,
    is_silent: Callable[[], bool] = answers,
    clock: LooksOnly | None = None,
) -> FenceReport:
    """A fence of a run that may be held."""
    guard = FenceContext(
        instance="mine",
        here=HERE,
        spark=Spark(),
        files=LocalFiles(),
        knows=lambda _: True,
        still=lambda: None,
        with_sink=unread,
    )
    request = FenceRequest(
        checkpoint=str(folder), epoch=4, operation="op", hosting=process(instance="mine"), wait_seconds=0.05,
        finish_seconds=finish_seconds,
    )  # fmt: skip
    wait = wait_for(request, is_silent, clock)
    hold(wait, cast(Any, here))
    return fence(guard, request, wait, cast(Any, here), DECLARED, lambda: UNKNOWN_SINK)


def test_a_run_that_comes_to_rest_in_a_hold_is_fenced_alive(folder: Path) -> None:
    run = HoldableRun(looks=100)
    report = held(folder, run, finish_seconds=60.0)
    assert report.proof is Proof.RUNNER
    assert report.detail == "held here between two batches: no task and no callback of it is running"
    assert (run.closed, report.planted) == (False, (2, 3))
    assert planted_epochs(LocalFiles(), str(folder)) == (Fence(4, "op"),)
    assert held(folder, run) == report, "asked again"
    assert run.requested == 1


@pytest.mark.parametrize("run", [HoldableRun(1_000_000), HoldableRun(0, can_be_held=False)])
def test_a_run_that_cannot_be_held_or_does_not_rest_is_stopped(folder: Path, run: HoldableRun) -> None:
    report = held(folder, run)
    assert run.closed
    assert report.detail == "stopped here: no task, no callback and no batch of it is running"


def test_a_run_is_held_in_its_batch_where_all_of_its_tasks_wait(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run = HoldableRun(looks=1_000_000, keeps_after=2)
    report = held(folder, run)
    assert report.proof is Proof.RUNNER
    text = "held here in the middle of a batch: all of its tasks wait for records, and it publishes nothing"
    assert report.detail == text
    assert not run.closed
    stopped = held(folder, HoldableRun(looks=1_000_000))
    assert [each.checkpoint.planned and each.checkpoint.planned.held for each in (report, stopped)] == [True, False]
    assert [each.checkpoint.planned and each.checkpoint.planned.run_id for each in (report, stopped)] == ["r", None]


def test_a_batch_that_left_its_cluster_is_not_reported_as_held(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run = HoldableRun(looks=1_000_000, keeps_after=3)
    run.may_leave = False
    planned = held(folder, run).checkpoint.planned
    assert planned is not None
    assert (planned.held, planned.run_id) == (False, None)


def test_a_run_of_which_a_part_waits_is_given_time_for_the_rest(folder: Path) -> None:
    """At a look every 20 ms the tenth is later than what one gets that is busy."""
    silent, busy = (HoldableRun(looks=1_000_000, keeps_after=10, silent=each) for each in (True, False))
    held(folder, silent)
    held(folder, busy)
    assert (silent.closed, busy.closed) == (False, True)


def test_one_of_two_runs_that_are_not_quiet_is_not_held(folder: Path) -> None:
    runs = HoldableRun(0), HoldableRun(0)
    held(folder, *runs)
    assert [run.closed for run in runs] == [True, True]
    assert [run.requested for run in runs] == [0, 0]


def test_a_planned_move_lets_the_batch_under_way_be_committed(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run = BusyRun(folder, looks=5)
    report = finished(folder, run, 60.0)
    assert (run.closed_at, run.refused) == (2, True)
    assert (report.checkpoint.batch, report.checkpoint.planned, report.planted) == (2, None, (3, 4))


def test_a_run_that_outruns_its_fence_is_stopped_where_it_is(folder: Path) -> None:
    """Until it is ordered to stop it plans each batch before that entry can be planted."""
    CheckpointFolder(folder).plan(2)
    run = BusyRun(folder, looks=1_000_000)

    class Slow(LocalFiles):
        def create_atomically(self, path: str, content: bytes) -> bool:
            if run.closed_at is None and "/offsets/" in path and not self.exists(path):
                CheckpointFolder(folder).commit(int(Path(path).name))
            return super().create_atomically(path, content)

    report = finished(folder, run, 0.2, files=Slow())
    assert run.closed_at == report.checkpoint.batch
    assert report.checkpoint.batch is not None
    assert report.planted == (report.checkpoint.batch + 1, report.checkpoint.batch + 2)


def test_a_batch_that_takes_too_long_is_cut_off(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run = BusyRun(folder, looks=1_000_000)
    report = finished(folder, run, 0.2)
    assert run.closed_at == 1
    assert report.checkpoint.planned is not None
    assert report.checkpoint.planned.batch == 2


def test_a_batch_of_a_silent_cluster_is_waited_for_three_seconds(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run, clock = BusyRun(folder, looks=1_000_000), LooksOnly()
    report = finished(folder, run, 30.0, lambda: True, clock)
    assert clock.passed == pytest.approx(3.0, abs=0.05)
    assert (run.closed_at, report.checkpoint.batch) == (1, 1)


def test_a_run_that_cannot_rest_on_a_silent_cluster_is_stopped_soon(folder: Path) -> None:
    """Its tasks run on other hosts, so no one here knows whether they wait; and no wait follows the first."""
    CheckpointFolder(folder).plan(2)
    run, clock = HoldableRun(looks=1_000_000), LooksOnly()
    held(folder, run, finish_seconds=30.0, is_silent=lambda: True, clock=clock)
    assert run.closed
    assert clock.passed == pytest.approx(3.0, abs=0.05)


def test_a_cluster_that_answers_in_between_leaves_a_batch_its_time(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    run, clock = BusyRun(folder, looks=450), LooksOnly()
    finished(folder, run, 30.0, lambda: clock.passed % 2 >= 0.1, clock)
    assert (run.closed_at, run.refused) == (2, True)
    assert clock.passed > 2 * 3.0


def test_a_run_between_two_batches_is_stopped_behind_the_next(folder: Path) -> None:
    run = RestingRun(folder, looks=8)
    report = finished(folder, run, 60.0)
    assert (run.closed_at, run.refused) == (2, True)
    assert (report.checkpoint.batch, report.checkpoint.planned, report.planted) == (2, None, (3, 4))


def test_a_run_that_begins_no_batch_is_stopped_soon(folder: Path) -> None:
    run = BusyRun(folder, looks=1_000_000)
    report = finished(folder, run, 0.1)
    assert (run.closed_at, report.planted) == (1, (2, 3))


def test_a_process_that_is_gone_proves_it(folder: Path) -> None:
    report = fenced(folder, process(pid_started=GONE_PID_STARTED))
    assert report.proof is Proof.PROCESS
    assert report.planted == (2, 3)
    assert report.checkpoint.batch == 1


def test_a_checkpoint_that_was_never_run_is_fenced_and_holds_no_batch(tmp_path: Path) -> None:
    report = fenced(tmp_path / "new", process(pid_started=GONE_PID_STARTED))
    assert (report.planted, report.proof) == ((0, 1), Proof.PROCESS)
    assert (report.checkpoint.batch, report.checkpoint.planned, report.checkpoint.offsets) == (None, None, {})
    files = LocalFiles()
    request = ReleaseRequest(checkpoint=str(tmp_path / "new"), planted=(0, 1), prepared=None, operation="op")
    assert release(files, request) == (0, 1)
    assert [path for path in (tmp_path / "new").rglob("*") if path.is_file()] == []


def test_a_host_that_has_booted_since_proves_it(folder: Path) -> None:
    assert fenced(folder, process(boot_id="an earlier boot")).proof is Proof.PROCESS


def test_a_run_that_waits_for_a_silent_cluster_has_time_to_be_held(folder: Path) -> None:
    """Its wait for an answer ends with the hold, and the thread that waited may be late on a busy machine."""

    class Planning(HoldableRun):
        def hold(self) -> bool:
            self.waits_for_cluster = False
            return super().hold()

    run = Planning(looks=20, silent=True)
    assert held(folder, run).detail == "held here between two batches: no task and no callback of it is running"


def test_a_boot_id_under_a_possibly_shared_name_proves_nothing(folder: Path) -> None:
    container = replace(HERE, host="runner-a-0/4026532201")
    guard = FenceContext(
        instance="mine",
        here=container,
        spark=Spark(),
        files=LocalFiles(),
        knows=lambda _: True,
        still=lambda: None,
        with_sink=unread,
    )
    hosting = process(host=container.host, boot_id="of another node")
    request = FenceRequest(checkpoint=str(folder), epoch=4, operation="op", hosting=hosting, wait_seconds=0.05)
    report = fence(guard, request, wait_for(request), [], DECLARED, lambda: UNKNOWN_SINK)
    assert report.proof is None
    assert "before a reboot" in report.detail


def test_a_process_that_lives_is_no_proof_but_the_checkpoint_is_planted(folder: Path) -> None:
    report = fenced(folder, process())
    assert report.proof is None
    assert report.planted == (2, 3)
    assert "alive" in report.detail


def test_another_container_of_the_same_host_cannot_be_looked_at(folder: Path) -> None:
    name, namespace = HERE.host.split("/")[:2]
    assert namespace, "the identity tells one pid namespace from another"
    report = fenced(folder, process(host=f"{name}/{int(namespace) + 1}", pid_started=GONE_PID_STARTED))
    assert report.proof is None


def test_another_host_cannot_be_looked_at(folder: Path) -> None:
    report = fenced(folder, process(host="elsewhere", pid_started=GONE_PID_STARTED))
    assert report.proof is None
    assert "another host" in report.detail


def test_a_process_that_said_it_had_stopped_need_not_be_looked_at(folder: Path) -> None:
    for spark_master in ("local[4]", "spark://m:7077"):
        report = fenced(folder, process(host="elsewhere", stopped=True, spark_master=spark_master))
        assert report.proof is Proof.RUNNER
        assert "reported that it had stopped" in report.detail


def test_fencing_twice_gives_the_same_report(folder: Path) -> None:
    first = fenced(folder, process(pid_started=GONE_PID_STARTED))
    assert fenced(folder, process(pid_started=GONE_PID_STARTED)) == first


def test_a_query_that_was_never_hosted_is_quiet(folder: Path) -> None:
    assert fenced(folder, None).proof is Proof.RUNNER


def test_a_batch_in_flight_is_reported_as_planned_and_later_entries_held(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    report = fenced(folder, process(pid_started=GONE_PID_STARTED))
    assert report.planted == (3, 4)
    assert report.checkpoint.planned is not None
    assert report.checkpoint.planned.batch == 2


@pytest.mark.parametrize("hosting", [None, process(instance="mine"), process(host="elsewhere", stopped=True)])
def test_a_run_here_whose_tasks_are_active_leaves_a_fence_without_evidence(
    folder: Path, hosting: Process | None
) -> None:
    report = fenced(folder, hosting, RunHere(quiet), RunHere(lambda: "2 tasks of its job group still active"))
    assert report.proof is None
    assert report.detail == "ordered to stop, but 2 tasks of its job group still active"
    assert report.planted == (2, 3)


def test_a_run_here_is_stopped_before_anything_is_proven(folder: Path) -> None:
    run = RunHere(lambda: None if run.closed else "it still runs here")
    assert fenced(folder, process(instance="mine"), run).proof is Proof.RUNNER
    assert run.closed


def test_an_epoch_is_planted_once_nothing_is_waited_for(folder: Path) -> None:
    """Before, it would refuse the commit of a batch that the sink has."""
    seen: list[tuple[Fence, ...]] = []

    def look() -> str | None:
        seen.append(planted_epochs(LocalFiles(), str(folder)))
        return None if len(seen) > 1 else "its thread is still inside a batch"

    fenced(folder, process(instance="mine"), RunHere(look), wait_seconds=60.0)
    assert seen == [(), ()]
    assert planted_epochs(LocalFiles(), str(folder)) == (Fence(4, "op"),)


def test_an_epoch_is_planted_also_where_nothing_is_proven(folder: Path) -> None:
    assert fenced(folder, process()).proof is None
    assert planted_epochs(LocalFiles(), str(folder)) == (Fence(4, "op"),)


def test_entries_are_planted_behind_a_batch_committed_before_the_run_ended(folder: Path) -> None:
    def commits_its_batch() -> None:
        if not (folder / "commits" / "2").exists():
            (folder / "offsets" / "2").unlink()  # the batch was planned before the fence came
            CheckpointFolder(folder).commit(2)

    report = fenced(folder, process(instance="mine"), RunHere(commits_its_batch))
    assert report.checkpoint.batch == 2
    assert report.planted == (3, 4)


@pytest.mark.parametrize("reported", list(SinkState))
def test_callbacks_show_whether_the_sink_has_a_batch_without_a_file(folder: Path, reported: SinkState) -> None:
    CheckpointFolder(folder).plan(2)
    planned = fenced(folder, process(instance="mine"), RunHere(quiet, reported)).checkpoint.planned
    assert planned is not None
    assert planned.sink is reported


def test_the_file_sinks_own_log_counts_more_than_callbacks(folder: Path) -> None:
    CheckpointFolder(folder).plan(2)
    log = folder.parent / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "2").write_text("v1\n", encoding="utf-8")
    run = RunHere(quiet, SinkState.HAS_NOT)
    planned = fenced(folder, process(instance="mine"), run, file_sink=log.parent).checkpoint.planned
    assert planned is not None
    assert planned.sink is SinkState.HAS


def test_a_pid_that_was_given_to_another_process_is_not_the_same_process() -> None:
    assert is_gone(process(), HERE) is False
    assert is_gone(process(pid_started=HERE.pid_started + 1), HERE) is True
    assert is_gone(process(), replace(HERE, host="elsewhere")) is None


def test_a_zombie_is_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    while started_at(child) is not None:
        pass
    os.waitpid(child, 0)
    assert isinstance(HERE, Identity)


def test_a_batch_whose_cut_was_broken_off_is_planned_for_a_fence(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(tmp_path)
    checkpoint.commit(0)
    checkpoint.plan(1)
    former = checkpoint.text("offsets/1")
    cutting = {"batch": 1, "epoch": 1, "former": former, "content": "smaller"}
    checkpoint.write("_tideover_cut/1", json.dumps(cutting))
    LocalFiles().delete(f"{tmp_path}/offsets/1")
    report = fenced(tmp_path, None)
    assert checkpoint.text("offsets/1") == former
    assert report.checkpoint.planned is not None
    assert report.planted == (2, 3)


def test_one_that_runs_outside_all_runners_is_no_proof(tmp_path: Path) -> None:
    guard = FenceContext(
        instance="mine", here=HERE, spark=Spark(), files=LocalFiles(), knows=lambda _: True, still=lambda: None,
        with_sink=unread, outside=lambda: "its application still runs",
    )  # fmt: skip
    request = FenceRequest(checkpoint=str(tmp_path), epoch=4, operation="op", hosting=None, wait_seconds=0.1)
    report = fence(guard, request, wait_for(request), [], DECLARED, lambda: UNKNOWN_SINK)
    assert (report.proof, report.detail) == (None, "ordered to stop, but its application still runs")
