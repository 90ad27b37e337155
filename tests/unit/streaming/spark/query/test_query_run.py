"""Whether one run of a query is quiet: what its callbacks, its thread and Spark's scheduler say of it."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streaming.spark.errors import SparkMissing
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.query_run import Run, unfinished

RUN = "1c7e"
IN_BATCH = ("write", "addBatch", "runBatch")


class Query:
    """Spark's query after it was ordered to stop: its thread may have ended or not."""

    def __init__(self, stack: Sequence[str] = (), *, active: bool = False) -> None:
        self.id, self.runId, self.isActive = "of the query", RUN, active
        self.stack = stack
        self._jsq = self
        self.returned = threading.Event()

    def streamingQuery(self) -> Any:  # noqa: N802 - Spark's name
        frames = [SimpleNamespace(getMethodName=lambda name=name: name) for name in self.stack]
        thread = SimpleNamespace(getStackTrace=lambda: frames)
        return SimpleNamespace(queryExecutionThread=lambda: thread)

    def stop(self) -> None:
        self.returned.set()


class Events(list[str]):
    """The scheduler's queue of events, as Java prints it."""


def task_set(running: int, group: str | None = RUN) -> Any:
    properties = None if group is None else {"spark.jobGroup.id": group}
    known = None if properties is None else SimpleNamespace(getProperty=properties.get)
    return SimpleNamespace(
        schedulableQueue=lambda: None,
        taskSet=lambda: SimpleNamespace(properties=lambda: known),
        runningTasks=lambda: running,
    )


def pool(*below: Any) -> Any:
    return SimpleNamespace(schedulableQueue=lambda: SimpleNamespace(toArray=lambda: list(below)))


def session(root: Any = None, events: Sequence[str] = (), *, ended: bool = False) -> Any:
    """A session whose scheduler has these sets of tasks and these events to come."""
    loop = SimpleNamespace(**{"org$apache$spark$util$EventLoop$$eventQueue": lambda: Events(events)})
    context = SimpleNamespace(
        dagScheduler=lambda: None if ended else SimpleNamespace(eventProcessLoop=lambda: loop),
        taskScheduler=lambda: None if ended else SimpleNamespace(rootPool=lambda: root or pool()),
        cancelJobGroupAndFutureJobs=lambda _: None,
    )
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))


def run(query: Query, of: Any = None, gate: CallbackGate | None = None) -> Run:
    return Run(of or session(), cast(Any, query), gate or CallbackGate())


def test_a_run_with_nothing_left_is_quiet() -> None:
    assert run(Query()).unrest() is None


def test_a_run_whose_stop_returned_is_not_quiet_while_tasks_are_active() -> None:
    query = Query()
    stopped = run(query, session(pool(task_set(2))))
    stopped.begin_stop()
    assert query.returned.wait(60.0)
    assert stopped.unrest() == "2 tasks of its job group still active"


def test_a_run_is_not_quiet_while_its_thread_is_inside_a_batch() -> None:
    assert run(Query(IN_BATCH)).unrest() == "its thread is still inside a batch"


def test_a_run_is_not_quiet_while_it_is_active() -> None:
    assert run(Query(active=True)).unrest() == "the query is still active"


def test_a_run_is_not_quiet_while_a_callback_is_inside() -> None:
    gate, said = CallbackGate(), []
    known = run(Query(), gate=gate)
    gate.watch(lambda _frame, _batch: said.append(known.unrest()))(cast(Any, None), 1)
    assert said == ["1 foreachBatch callback is still running"]


def test_tasks_are_counted_after_the_thread_was_looked_at() -> None:
    """A thread that leaves its batch between the looks may have started a job before."""
    tasks: list[Any] = []

    class Leaving(Query):
        def streamingQuery(self) -> Any:  # noqa: N802 - as above
            tasks.append(task_set(1))
            return super().streamingQuery()

    root = SimpleNamespace(schedulableQueue=lambda: SimpleNamespace(toArray=lambda: tasks))
    assert run(Leaving(), session(root)).unrest() == "1 task of its job group still active"


@pytest.mark.parametrize(
    ("root", "events", "said"),
    [
        (pool(), [], None),
        (pool(task_set(3, "another"), task_set(1, None)), [], None),
        (pool(task_set(2), task_set(1), task_set(9, "another")), [], "3 tasks of its job group still active"),
        (pool(pool(task_set(2)), pool()), [], "2 tasks of its job group still active"),
        (pool(task_set(0)), [], "its job group has tasks yet to run"),
        (pool(), [f"JobGroupCancelled({RUN},false,None)"], "Spark has not cancelled its jobs yet"),
        (pool(), ["JobGroupCancelled(another,false,None)"], None),
    ],
)
def test_the_scheduler_says_what_a_job_group_still_has(root: Any, events: list[str], said: str | None) -> None:
    assert unfinished(session(root, events), RUN) == said


def test_nothing_is_proven_where_the_application_has_ended() -> None:
    with pytest.raises(SparkMissing, match="the Spark application has ended"):
        unfinished(session(ended=True), RUN)


# -- held between two batches ----------------------------------------------------------------------------------------
class Holding:
    """The companion's answer."""

    def __init__(self, *, waits: bool, tasks: int = 0, goes_on: bool = True) -> None:
        self.waits = waits
        self.tasks = tasks
        self.goes_on = goes_on
        self.calls: list[tuple[object, ...]] = []

    def begin(self, *calls: object) -> None:
        self.calls.append(("begin", *calls))

    def end(self, *calls: object) -> bool:
        self.calls.append(("end", *calls))
        return self.goes_on

    def canEnd(self, *calls: object) -> bool:  # noqa: N802 - the companion's name
        self.calls.append(("can", *calls))
        return self.goes_on

    def mayLeave(self, follower: str) -> bool:  # noqa: N802 - as above
        assert follower == "f"
        return self.goes_on

    def keepInBatch(self, *calls: object) -> None:  # noqa: N802 - the companion's name
        self.calls.append(("keep", *calls))

    def leaveBatch(self, *calls: object) -> None:  # noqa: N802 - as above
        self.calls.append(("leave", *calls))

    def waitingTasks(self, follower: str) -> int:  # noqa: N802 - as above
        assert self.calls[-1] == ("keep", follower), "counted while tasks could go on"
        return self.tasks

    def isWaiting(self, follower: str) -> bool:  # noqa: N802 - the companion's name
        assert follower == "f"
        return self.waits


def held(
    query: Query, holding: Holding, root: Any = None, gate: CallbackGate | None = None, *, ended: bool = False
) -> Run:
    known = session(root, ended=ended)
    known.sparkContext._jvm = SimpleNamespace(tideover=SimpleNamespace(Hold=holding))
    followed = cast(Any, SimpleNamespace(follower="f"))
    return Run(known, cast(Any, query), gate or CallbackGate(), followed)


PLANNING = ("latestOffset", "constructNextBatch")
AT_REST = ("waitTillTime", "execute")
BETWEEN = ("executeOneBatch", "execute")


@pytest.mark.parametrize(
    ("stack", "waits", "said"),
    [
        (PLANNING, True, None),
        (AT_REST, False, None),
        (PLANNING, False, "its batch is not finished"),
        (BETWEEN, False, "its batch is not finished"),
        (IN_BATCH, False, "its batch is not finished"),
    ],
)
def test_a_held_run_is_quiet_in_the_hold_and_while_it_waits_for_a_trigger(
    stack: Sequence[str], waits: bool, said: str | None
) -> None:
    assert held(Query(stack, active=True), Holding(waits=waits)).unrest_on_hold() == said


def test_a_held_run_that_ended_or_has_tasks_or_a_callback_is_not_quiet() -> None:
    waits = Holding(waits=True)
    assert held(Query(PLANNING), waits).unrest_on_hold() == "it has ended"
    active = Query(PLANNING, active=True)
    assert held(active, waits, pool(task_set(2))).unrest_on_hold() == "2 tasks of its job group still active"
    gate, said = CallbackGate(), []
    known = held(active, waits, gate=gate)
    gate.watch(lambda _frame, _batch: said.append(known.unrest_on_hold()))(cast(Any, None), 1)
    assert said == ["1 foreachBatch callback is still running"]


def test_a_held_run_learns_where_each_source_continues() -> None:
    holding = Holding(waits=True)
    known = held(Query(PLANNING, active=True), holding)
    known.hold()
    known.go_on(4, {"orders": {"tideover.cluster": "west"}})
    known.go_on(5, None)
    there = '{"orders": {"tideover.cluster": "west"}}'
    assert holding.calls == [("begin", "f"), ("end", "f", 4, there), ("end", "f", 5, None)]


@pytest.mark.parametrize(
    ("waiting", "root", "is_kept"),
    [
        (3, pool(task_set(1), task_set(2), task_set(9, "another")), True),
        (2, pool(task_set(1), task_set(2)), False),
        (0, pool(task_set(0)), False),
        (0, pool(), False),
    ],
)
def test_a_run_is_kept_in_its_batch_only_if_all_of_its_tasks_wait(waiting: int, root: Any, is_kept: bool) -> None:
    holding = Holding(waits=False, tasks=waiting)
    gate, said = CallbackGate(), []
    known = held(Query(IN_BATCH, active=True), holding, root, gate)
    assert known.keep_in_batch() is is_kept
    assert known.is_kept_in_batch is is_kept
    assert holding.calls == [("keep", "f"), *([] if is_kept else [("leave", "f")])]
    gate.watch(lambda _frame, _batch: said.append(known.unrest_on_hold()))(cast(Any, None), 1)
    assert said == [None if is_kept else "1 foreachBatch callback is still running"]


def test_a_run_whose_tasks_cannot_be_counted_is_not_kept_in_its_batch() -> None:
    """Else its tasks would wait for a hold that no one has begun."""
    holding = Holding(waits=False, tasks=1)
    known = held(Query(IN_BATCH, active=True), holding, ended=True)
    with pytest.raises(SparkMissing):
        known.keep_in_batch()
    assert holding.calls == [("keep", "f"), ("leave", "f")]
    assert not known.is_kept_in_batch


def test_a_run_that_is_kept_in_its_batch_is_not_quiet_once_it_has_ended() -> None:
    query = Query(IN_BATCH, active=True)
    known = held(query, Holding(waits=False, tasks=1), pool(task_set(1)))
    assert known.keep_in_batch()
    query.isActive = False
    assert known.unrest_on_hold() == "it has ended"


def test_a_run_says_whether_it_continues_from_the_middle_of_its_batch() -> None:
    holding = Holding(waits=False, tasks=1, goes_on=False)
    known = held(Query(IN_BATCH, active=True), holding, pool(task_set(1)))
    assert known.keep_in_batch()
    assert not known.go_on(4, {})
    assert known.is_kept_in_batch
    holding.goes_on = True
    assert known.go_on(4, {})
    assert not known.is_kept_in_batch


def in_batch_with(*, goes_on: bool) -> tuple[Run, Holding]:
    holding = Holding(waits=False, tasks=1, goes_on=goes_on)
    return held(Query(IN_BATCH, active=True), holding, pool(task_set(1))), holding


THERE = {"orders": {"tideover.cluster": "west"}}


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_says_beforehand_whether_it_can_continue_in_its_batch(goes_on: bool) -> None:
    known, holding = in_batch_with(goes_on=goes_on)
    assert known.keep_in_batch()
    assert known.can_go_on(4, THERE) is goes_on
    assert holding.calls[-1] == ("can", "f", 4, '{"orders": {"tideover.cluster": "west"}}')
    assert known.may_leave_in_batch is goes_on
    assert known.is_kept_in_batch, "asking ends no hold"


def test_a_run_in_no_batch_cannot_continue_from_the_middle_of_one() -> None:
    known, _ = in_batch_with(goes_on=True)
    assert not known.can_go_on(4, THERE)
    assert not known.may_leave_in_batch


def test_a_run_that_is_not_followed_cannot_be_held() -> None:
    with pytest.raises(ValueError, match="cannot be held"):
        run(Query(PLANNING, active=True)).hold()
