"""Readiness samples and pruning: by hand on a clock that jumps, and by the scheduler in real, short intervals."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from orchestrator import housekeeping
from orchestrator.cli.operation_text import plan_text
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from orchestrator.housekeeping import Housekeeping
from orchestrator.lease import NAME
from state.errors import StaleTerm, StoreUnavailable
from state.model.cluster_status import Verdict
from state.model.entities import OperationKind, Phase, TopicPartition
from state.model.plan import Plan
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from state.settings.keys import Timeline
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.simulation.clusters import Cluster
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import START, World, settings
from tests.waiting import until

TTL = timedelta(hours=1)
DAY = timedelta(days=1)
SHORT = timedelta(milliseconds=50)
WAIT = 60.0


def lead(world: World) -> int:
    lease = world.store.lead(NAME, "one", TTL)
    assert lease is not None
    return lease.term


def keeper(
    world: World, term: Callable[[], int | None], *, store: ControllerStore | None = None, **more: Any
) -> Housekeeping:
    return Housekeeping(
        store or world.store,
        world.settings,
        logs=world.clusters.__getitem__,
        term=term,
        actor="controller:one",
        clock=world.clock,
        **more,
    )


@contextmanager
def scheduled(
    world: World, term: Callable[[], int | None], *, store: ControllerStore | None = None
) -> Iterator[Housekeeping]:
    made = keeper(world, term, store=store, look_every=SHORT)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def texts(world: World) -> list[str]:
    return [event.text for event in world.store.history() if event.kind == "readiness"]


# -- readiness -------------------------------------------------------------------------------------------------------
def test_readiness_is_kept_and_a_changed_answer_is_in_the_history() -> None:
    world = World()
    term = lead(world)
    keeping = keeper(world, lambda: term)
    assert keeping.sample() == 1
    (fact,) = world.store.readiness()
    assert (fact.query, fact.target, fact.ready, fact.since) == ("revenue", "west", True, START)
    assert {"standby-reachable", "replication-lag"} <= {gate["name"] for gate in fact.gates}
    assert keeping.sample() == 0
    world.clock.wait(60)
    assert keeping.sample() == 1
    (later,) = world.store.readiness()
    assert (later.since, later.sampled_at) == (START, START + timedelta(seconds=60))
    world.clusters["west"].reachable = False
    world.clock.wait(60)
    keeping.sample()
    assert world.store.readiness()[0].ready is False
    first, second = texts(world)
    assert first == "revenue could fail over to west"
    assert second.startswith("revenue could not fail over to west: standby-reachable: ")
    assert world.store.history()[-1].actor == "controller:one"


# -- former checkpoints ----------------------------------------------------------------------------------------------
def keeping_checkpoints(**kept: Any) -> World:
    """A query that two moves of a month ago have carried on, and retention that says so."""
    tideover = settings()
    world = World(tideover.model_copy(update={"retention": tideover.retention.model_copy(update=kept)}))
    for epoch in (3, 5):
        checkpoint = f"/cp/revenue/epoch-{epoch}-x"
        moved = replace(samples.assignment(query="revenue"), epoch=epoch, placed_epoch=epoch, checkpoint=checkpoint)
        (row,) = world.store.assignments()
        event = samples.event(at=START - 30 * DAY, operation=None, text="moved")
        assert world.store.reconcile(moved, from_epoch=row.epoch, event=event)
        world.checkpoints[checkpoint] = world.checkpoints["/cp/revenue"]
    world.runner.ran["revenue"] = 5
    fact = samples.fact(epoch=5, checkpoint="/cp/revenue/epoch-5-x", instance="one")
    assert world.store.report_query(fact)
    return world


def test_retention_has_old_checkpoints_cleaned_each_hour_and_each_once() -> None:
    world = keeping_checkpoints(checkpoints=7 * DAY, keep_checkpoints=1)
    term = lead(world)
    keeping = keeper(world, lambda: term)
    assert keeping.clean() == 1
    assert keeping.clean() == 0, "it is asked for"
    (requested,) = world.store.to_clean("a")
    assert (requested.checkpoint, requested.left_epoch) == ("/cp/revenue", 3)
    event = world.store.history()[-1]
    assert event.text == "ordered runner a to clean /cp/revenue: left 30d ago, more than 7d"
    assert (event.actor, event.kind) == ("controller:one", "clean")
    world.runner.live()
    assert world.runner.cleaned == ["/cp/revenue"]
    assert keeping.clean() == 0, "it is cleaned"


@pytest.mark.parametrize("kept", [{}, {"checkpoints": 31 * DAY, "keep_checkpoints": 1}, {"checkpoints": 7 * DAY}])
def test_without_a_setting_or_a_reason_nothing_is_cleaned(kept: dict[str, Any]) -> None:
    world = keeping_checkpoints(**kept)
    term = lead(world)
    assert keeper(world, lambda: term).clean() == 0
    assert world.store.to_clean("a") == []


def test_another_runner_cleans_when_the_first_one_cannot() -> None:
    world = keeping_checkpoints(checkpoints=7 * DAY, keep_checkpoints=1)
    term = lead(world)
    keeping = keeper(world, lambda: term)
    assert keeping.clean() == 1
    world.runner.alive, world.other.alive = False, True
    world.clock.wait(60)
    assert keeping.clean() == 1
    assert (len(world.store.to_clean("a")), len(world.store.to_clean("b"))) == (0, 1)


def test_a_follower_and_a_stale_leader_have_nothing_cleaned() -> None:
    world = keeping_checkpoints(checkpoints=7 * DAY, keep_checkpoints=1)
    assert keeper(world, lambda: None).clean() == 0
    stale = lead(world)
    lease = world.store.leader(NAME)
    assert lease is not None
    world.store.resign(lease)
    assert world.store.lead(NAME, "two", TTL) is not None
    with pytest.raises(StaleTerm):
        keeper(world, lambda: stale).clean()
    assert world.store.to_clean("a") == []


def test_a_follower_neither_samples_nor_prunes() -> None:
    world = World()
    keeping = keeper(world, lambda: None)
    assert (keeping.sample(), keeping.prune().rows) == (0, 0)
    assert (world.store.readiness(), world.store.history(), world.clusters["west"].requested) == ([], [], 0)


def test_who_loses_the_lead_keeps_no_further_answer() -> None:
    world = World(settings(queries=("a", "b", "c")))
    term = lead(world)
    terms = iter([term, term, None])
    assert keeper(world, lambda: next(terms)).sample() == 1
    assert [fact.query for fact in world.store.readiness()] == ["a"]


def test_one_round_ends_by_its_limit_and_the_next_takes_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings(queries=("a", "b", "c")))
    term = lead(world)
    keeping = keeper(world, lambda: term)
    monkeypatch.setattr(housekeeping, "SAMPLING_SECONDS", 0.0)
    for _ in range(4):
        world.clock.wait(30)
        assert keeping.sample() == 1
    assert {fact.query: fact.sampled_at for fact in world.store.readiness()} == {
        query: START + timedelta(seconds=seconds) for query, seconds in (("a", 120), ("b", 60), ("c", 90))
    }


@pytest.mark.parametrize(
    ("automatic", "verdict", "age", "target"),
    [
        (True, Verdict.DOWN, 0, "west"),
        (True, Verdict.UP, 0, "north"),
        (True, Verdict.DOWN, 60, "north"),
        (False, Verdict.DOWN, 0, "north"),
    ],
)
def test_of_several_standbys_the_one_is_sampled_to_which_the_query_would_go(
    automatic: bool, verdict: Verdict, age: int, target: str
) -> None:
    routes = [{"from": "east", "to": name} for name in ("north", "west")]
    groups = {"clusters": {name: {"bootstrap": [f"{name}:1"]} for name in ("east", "north", "west")}, "routes": routes}
    order = ["east", "north", "west"]
    world = World(settings(groups=groups, clusters=order, policy={"automatic": automatic}))
    world.clusters["north"] = Cluster("north", world.clock.wait)
    term = lead(world)
    for name, given in (("north", verdict), ("west", Verdict.UP)):
        status = samples.status(cluster=name, verdict=given, decided_at=START - timedelta(seconds=age), term=term)
        world.store.record_status(status, term=term, event=samples.event())
    keeper(world, lambda: term).sample()
    assert [fact.target for fact in world.store.readiness()] == [target]


def test_a_query_on_an_undeclared_cluster_stops_no_sampling_of_others() -> None:
    world = World(settings(queries=("a", "b")))
    moved = world.carry_out(world.request("b"))
    assert moved is not None
    assert moved.outcome == "done"
    term = lead(world)
    declared = {"west": world.settings.clusters["west"]}
    world.settings = world.settings.model_copy(update={"clusters": declared, "routes": ()})
    del world.clusters["east"]
    keeping = keeper(world, lambda: term)
    assert keeping.sample() == 2
    refused = {fact.query: [gate["name"] for gate in fact.gates if not gate["ok"]] for fact in world.store.readiness()}
    assert refused["a"] == ["route-declared"]


def test_housekeeping_queries_no_cluster_while_a_query_is_moved() -> None:
    world = World()
    term = lead(world)
    world.store.record(samples.operation(id="x1", started_at=START), term=term)
    assert keeper(world, lambda: term).sample() == 0
    assert world.clusters["west"].requested == 0


# -- retention -------------------------------------------------------------------------------------------------------
def closed(world: World, term: int, name: str, days: int) -> None:
    at = START - days * DAY
    done = samples.operation(id=name, phase=Phase.ABORTED, outcome="aborted", started_at=at, ended_at=at)
    world.store.record(done, term=term, events=[samples.event(at=at, operation=name)])


def test_rows_older_than_the_retention_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    tideover = settings()
    world = World(tideover.model_copy(update={"retention": tideover.retention.model_copy(update={"operations": 2})}))
    term = lead(world)
    for number in range(5):
        closed(world, term, f"x{number}", days=100 - number)
    closed(world, term, "young", days=89)
    for days in (91, 89):
        world.store.note(samples.event(at=START - days * DAY, operation=None, text=f"{days} days ago"))
    monkeypatch.setattr(housekeeping, "PRUNED_AT_ONCE", 1)
    with capture_logs() as lines:
        gone = keeper(world, lambda: term).prune()
    assert (gone.operations, gone.events) == (4, 5)
    assert [operation.id for operation in world.store.operations()] == ["young", "x4"]
    assert [event.text for event in world.store.history()].count("91 days ago") == 0
    assert [event.text for event in world.store.history()].count("89 days ago") == 1
    assert lines[0]["operations"] == 4
    assert world.clock.passed > 0  # others may write in between
    assert keeper(world, lambda: term).prune().rows == 0


def test_pruning_ends_by_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    term = lead(world)
    for _ in range(9):
        world.store.note(samples.event(at=START - 91 * DAY, operation=None))
    monkeypatch.setattr(housekeeping, "PRUNED_AT_ONCE", 1)
    monkeypatch.setattr(housekeeping, "PRUNING_SECONDS", 3 * housekeeping.PAUSE_SECONDS)
    assert keeper(world, lambda: term).prune().events in {3, 4}


def test_orphaned_timelines_go_by_the_longest_configured_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "STRETCHES_AT_ONCE", 2)
    world = World()
    longer = world.settings.queries["revenue"].model_copy(update={"timeline": Timeline(keep=timedelta(hours=30))})
    world.settings = world.settings.model_copy(update={"queries": {"revenue": longer}})
    now_ms = int(world.store.now().timestamp() * 1000)
    for hours in (60, 50, 40, 31, 29):
        moment = Moment(now_ms - hours * 3_600_000, [hours], [NO_TIME], [0])
        stretch = Stretch.of("former", 1, "east", [SourcePartition("orders", "orders", 0)], [moment], precision_ms=1)
        world.store.save_timeline(stretch, keep=7 * DAY)
    assert keeper(world, lambda: None).prune_timelines() == 0
    term = lead(world)
    assert keeper(world, lambda: term).prune_timelines() == 4
    assert [each.steps().moments[0].offsets for each in world.store.timeline("former")] == [(29,)]


def test_samples_are_kept_with_each_check_and_go_when_retention_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "PRUNED_AT_ONCE", 2)
    world = World()
    term = lead(world)
    for _ in range(4):
        assert keeper(world, lambda: term).sample() == 1
        world.clock.wait(4 * 3600.0)
    kept = world.store.standby_samples("revenue")
    (fact,) = world.store.readiness()
    measured = next(gate["measured"] for gate in fact.gates if gate["name"] == "exposure")
    (report,) = world.store.query_facts(query="revenue")
    assert report.offsets is not None
    ends, (read,) = world.store.ends("east"), report.offsets.values()
    lag = sum(ends[TopicPartition("orders", int(each))].end - offset for each, offset in read["orders"].items())
    assert lag > 0
    assert (kept[0].run_id, kept[0].read_records, kept[0].lag_records) == (report.run_id, report.input_rows, lag)
    assert [(each.source, each.target, f"{each.exposure_seconds:.1f} s") for each in kept] == [
        ("east", "west", measured)
    ] * 4
    shorter = world.settings.retention.model_copy(update={"samples": timedelta(hours=6)})
    world.settings = world.settings.model_copy(update={"retention": shorter})
    assert keeper(world, lambda: None).prune_samples() == 0
    assert keeper(world, lambda: term).prune_samples() == 3
    assert world.store.standby_samples("revenue") == kept[3:]


# -- disorder --------------------------------------------------------------------------------------------------------
def consumed(world: World, *, steps: int, back_seconds: int) -> None:
    """A timeline of so many minutes up to now, in which times once went back."""
    now_ms, lane = int(world.store.now().timestamp() * 1000), SourcePartition("orders", "orders", 0)
    moments = []
    for step in range(steps):
        at_ms = now_ms - (steps - step) * 60_000
        back_ms = 60_000 + back_seconds * 1_000 if step == 9 else 0
        moments.append(Moment(at_ms, [step], [at_ms - back_ms], [0]))
    stretch = Stretch.of("revenue", 1, "east", [lane], moments, precision_ms=100)
    world.store.save_timeline(stretch, keep=DAY)


def planned(world: World) -> Plan:
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    return plan_query(gatherer, OperationKind.FAILOVER, "revenue", "west")


def test_a_measured_buffer_is_shown_with_its_reasons() -> None:
    world = World(settings(methods=["timestamp"], buffer="measured"))
    consumed(world, steps=200, back_seconds=31)
    (default,) = planned(world).buffers
    assert default.text == "900 s by default: not measured yet; the leading controller measures it"
    assert keeper(world, lambda: None).measure() == 0
    assert world.store.disorder("revenue") is None
    term = lead(world)
    assert keeper(world, lambda: term).measure() == 1
    plan = planned(world)
    text = "41.1 s measured: timestamps up to 31.1 s out of order in 3.3 h over 199 steps, margin 10 s"
    shown = plan.as_json()
    assert shown["buffers"] == [{"topic": "orders", "buffer_ms": 41_100, "measured": True, "text": text}]
    assert keys(shown["buffers"]) == said("`buffers`, one of each topic")
    assert f"  buffer of orders: {text}" in plan_text(plan).splitlines()
    assert {(each.method, each.buffer_ms) for each in plan.partitions} == {("timestamp", 41_100)}
    world.settings = settings(methods=["timestamp"])
    fixed = planned(world)
    assert "buffers" not in fixed.as_json()
    assert {each.buffer_ms for each in fixed.partitions} == {15 * 60_000}


def test_nothing_is_measured_for_a_query_whose_buffer_is_fixed() -> None:
    world = World()
    consumed(world, steps=200, back_seconds=31)
    term = lead(world)
    assert keeper(world, lambda: term).measure() == 0
    assert world.store.disorder("revenue") is None


# -- the scheduler ---------------------------------------------------------------------------------------------------
def old_lines(world: World) -> int:
    return sum(1 for event in world.store.history() if event.text == "old")


def test_both_jobs_repeat_only_while_this_controller_leads() -> None:
    world = World()
    terms: list[int | None] = [None]
    old = samples.event(at=START - 91 * DAY, operation=None, text="old")
    world.store.note(old)
    with scheduled(world, lambda: terms[0]):
        time.sleep(10 * SHORT.total_seconds())
        assert (world.store.readiness(), old_lines(world)) == ([], 1)
        terms[0] = lead(world)
        until(lambda: bool(world.store.readiness()) and not old_lines(world))
        world.store.note(old)
        world.clock.wait(60)
        until(lambda: world.store.readiness()[0].sampled_at > START)
        time.sleep(5 * SHORT.total_seconds())
        assert old_lines(world) == 1
        world.clock.wait(3600)
        until(lambda: not old_lines(world))


def test_a_job_that_fails_or_meets_a_defect_is_logged_and_runs_again() -> None:
    world = World()
    term = lead(world)
    troubles: list[Exception] = [StoreUnavailable("locked"), StoreUnavailable("locked"), KeyError("a defect")]

    class Troubled:
        """A store that is in trouble when readiness is read."""

        def __getattr__(self, name: str) -> Any:
            if name == "readiness" and troubles:
                raise troubles.pop(0)
            return getattr(world.store, name)

    with capture_logs() as lines, scheduled(world, lambda: term, store=Troubled()):
        until(lambda: bool(world.store.readiness()))
    assert [line["event"] for line in lines] == ["housekeeping waits for the store", "a bug in housekeeping"]
    assert lines[1]["job"] == "readiness"
    assert "a defect" in lines[1]["error"]


def test_a_run_that_is_late_is_run_nevertheless() -> None:
    """By the library's defaults one that is more than a second late is lost: here, for an hour."""
    world = World()
    term = lead(world)
    made = Housekeeping(
        world.store, world.settings, logs=world.clusters.__getitem__, term=lambda: term, actor="controller:one",
        look_every=timedelta(hours=1),
    )  # fmt: skip
    time.sleep(1.2)
    made.begin()
    try:
        until(lambda: bool(world.store.readiness()))
    finally:
        made.close()


def test_runs_that_were_missed_are_made_up_for_once() -> None:
    """A process that was stopped for ten hours has missed ten of them."""
    world = World()
    term = lead(world)
    runs: list[float] = []

    class Counting:
        """A store that hears of each run, which begins with the answers of all queries."""

        def readiness(self, *, query: str | None = None) -> Any:
            if query is None:
                runs.append(time.monotonic())
            return world.store.readiness(query=query)

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store, name)

    made = Housekeeping(
        Counting(), world.settings, logs=world.clusters.__getitem__, term=lambda: term,
        actor="controller:one", look_every=timedelta(hours=1),
    )  # fmt: skip
    made._scheduler.modify_job("readiness", next_run_time=datetime.now(UTC) - timedelta(hours=10))
    made.begin()
    try:
        until(lambda: bool(world.store.readiness()))
        time.sleep(5 * SHORT.total_seconds())
    finally:
        made.close()
    assert len(runs) == 1


def test_a_run_that_hangs_holds_up_no_other_job_and_is_followed_by_the_next() -> None:
    world = World()
    term = lead(world)
    entered, leave = threading.Event(), threading.Event()
    runs: list[float] = []
    world.store.note(samples.event(at=START - 91 * DAY, operation=None, text="old"))

    class Slow:
        def __getattr__(self, name: str) -> Any:
            if name == "readiness":
                runs.append(time.monotonic())
                entered.set()
                if len(runs) == 1:
                    leave.wait(WAIT)
            return getattr(world.store, name)

    with capture_logs() as lines, scheduled(world, lambda: term, store=Slow()):
        assert entered.wait(WAIT)
        until(lambda: not world.store.history())
        time.sleep(5 * SHORT.total_seconds())
        assert len(runs) == 1
        leave.set()
        until(lambda: len(runs) > 2)
    assert not [line for line in lines if line["log_level"] == "error"]


def test_closing_ends_a_run_at_its_next_look() -> None:
    world = World(settings(queries=tuple(f"q{number}" for number in range(50))))
    term = lead(world)
    entered, leave = threading.Event(), threading.Event()

    def held_up() -> int:
        if len(world.store.readiness()) == 3:
            entered.set()
            assert leave.wait(WAIT)
        return term

    made = keeper(world, held_up, look_every=SHORT)
    made.begin()
    assert entered.wait(WAIT)
    made.close(grace=0.0)
    leave.set()
    made.close(grace=WAIT)  # until what was under way has ended
    assert len(world.store.readiness()) in {3, 4}, "the one that it was at, and no more"


def test_the_store_sees_a_stale_term_and_the_job_is_quiet() -> None:
    world = World()
    stale = lead(world)
    lease = world.store.leader(NAME)
    assert lease is not None
    world.store.resign(lease)
    assert world.store.lead(NAME, "two", TTL) is not None
    with capture_logs() as lines, scheduled(world, lambda: stale):
        time.sleep(5 * SHORT.total_seconds())
    assert (world.store.readiness(), lines) == ([], [])


def test_list_shows_the_sampled_readiness(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["west"].reachable = False
    assert run_json(capsys, "list")[1][0]["ready"] is None
    term = lead(world)
    made = Housekeeping(
        world.store, world.settings, logs=world.clusters.__getitem__, term=lambda: term, actor="controller:one"
    )
    assert made.sample() == 1
    made.close()
    assert run_json(capsys, "list")[1][0]["ready"] is False
    _, shown = run_json(capsys, "show", "revenue")
    assert isinstance(shown, dict)
    assert keys(shown["readiness"]) == said("`readiness` is the controller's last check")
    assert [gate["name"] for gate in shown["readiness"]["refused"]] == ["standby-reachable"]
    texts = run(capsys, "show", "revenue")[1]
    assert "readiness   revenue could not fail over to west: standby-reachable: " in texts


def test_show_prints_how_many_resume_offsets_were_proven(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    term = lead(world)
    made = Housekeeping(
        world.store, world.settings, logs=world.clusters.__getitem__, term=lambda: term, actor="controller:one"
    )
    assert made.sample() == 1
    made.close()
    texts = run(capsys, "show", "revenue")[1]
    (age,) = re.findall(r"\nresume      exact: 2 of 2 resume offsets proven (\d+) s ago\n", texts)
    assert int(age) < 30, "by the store's own clock, which goes on while a busy machine stands still"


@pytest.mark.parametrize("silent", ["nobody", "east", "west"])
def test_how_old_the_copies_are_is_shown_from_the_store_alone(
    world: World, capsys: pytest.CaptureFixture[str], silent: str
) -> None:
    if silent in world.clusters:
        world.clusters[silent].reachable = False
    term = lead(world)
    made = Housekeeping(
        world.store, world.settings, logs=world.clusters.__getitem__, term=lambda: term, actor="controller:one"
    )
    assert made.sample() == 1
    made.close()
    for cluster in world.clusters.values():
        cluster.reachable = False
    _, shown = run_json(capsys, "show", "revenue")
    assert isinstance(shown, dict)
    replication, texts = shown["replication"], run(capsys, "show", "revenue")[1]
    assert (replication["from"], replication["to"]) == ("east", "west")
    assert 0 <= replication["sample_age_seconds"] < 30
    assert [row["partition"] for row in replication["partitions"]] == [0, 1]
    if silent == "west":
        assert replication["worst"] is None
        assert {row["age_seconds"] for row in replication["partitions"]} == {None}
        assert "(orders-0: west does not answer: " in texts
    else:
        assert {row["age_seconds"] for row in replication["partitions"]} == {10.0}
        assert replication["worst"] == {"topic": "orders", "partition": 0}
        assert "\nreplication west is 10.0 s behind east at most (orders-0, " in texts
        assert ("east last seen" in texts) == (silent == "east")
