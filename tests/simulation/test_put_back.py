"""A store that is put back to an older copy: noticed by what runs, refused everywhere, reconciled by a person."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decide.gates.automatic import AutomaticFacts, judge_automatic
from orchestrator.errors import Refused
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import check_queries
from orchestrator.operation.reconcile import Lost, lost_of, reconcile, reconcile_as_found, reconcile_by_hand, sides_of
from state.messages import Failure, Proof
from state.model.entities import (
    Assignment,
    Desired,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    QueryFact,
    Request,
    RunState,
)
from state.model.found_places import FoundPlace
from state.store.sql.migrate import open_store
from tests.contract import samples
from tests.simulation.control import controller, pass_time
from tests.simulation.live import LiveWorld
from tests.simulation.stores import back_up
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.world import QUERY, START, World, settings

PLACE = 33 + 100
"""Where the query is on west."""
REFUSAL = (
    "store-current: runner a runs revenue under epoch 2, but the store knows only epoch 1: the store was "
    "restored from an older backup; tideover reconcile revenue"
)


class Disk:
    """A world on a SQLite file that can be copied and put back."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.file, self.copy = folder / "t.db", folder / "backup.db"
        self.world = World(settings(**changes), store=open_store(f"sqlite:///{self.file}"))

    def back_up(self) -> None:
        self._reopen(lambda: shutil.copy(self.file, self.copy))

    def put_back(self) -> None:
        self._reopen(lambda: shutil.copy(self.copy, self.file))
        self.world.clock.wait(1)

    def _reopen(self, in_between: object) -> None:
        """Closing the last connection folds SQLite's log into the file."""
        self.world.store.close()
        assert not self.file.with_name("t.db-wal").exists()
        assert callable(in_between)
        in_between()
        store = open_store(f"sqlite:///{self.file}")
        self.world.store = self.world.runner.store = self.world.other.store = store


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def places(world: World) -> FactGatherer:
    return FactGatherer(store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock)


def refused(world: World, request: Request) -> str | None:
    assert world.carry_out(request) is None
    stored = world.store.request(request.id)
    assert stored is not None
    return stored.refused


def moved_and_put_back(disk: Disk) -> World:
    """The copy says east under epoch 1; what runs is on west under epoch 2."""
    disk.back_up()
    moved = disk.world.carry_out(disk.world.request())
    assert moved is not None
    assert moved.outcome == "done"
    disk.put_back()
    assignment = disk.world.store.assignment(QUERY)
    assert assignment is not None
    assert (assignment.cluster, assignment.epoch) == ("east", 1)
    return disk.world


def test_a_running_query_continues_and_nothing_moves_until_reconciled(disk: Disk) -> None:
    world = moved_and_put_back(disk)
    assert [start.cluster for start in world.starts] == ["west"]
    assert refused(world, world.request()) == REFUSAL
    facts = places(world).before(OperationKind.FAILOVER, QUERY, "west")
    automatic = AutomaticFacts(
        facts=facts, now=world.clock.now(), term=1, statuses={}, pauses=(), operations=(), acknowledged=frozenset()
    )
    logs = world.clusters.__getitem__
    (ready,) = check_queries([QUERY], store=world.store, settings=world.settings, logs=logs, clock=world.clock)
    for gates in (judge_automatic(automatic), ready.gates):
        assert [gate.ok for gate in gates if gate.name == "store-current"] == [False]
    assert ready.ready is False
    assert world.store.operations() == []


def test_after_it_is_reconciled_the_query_runs_where_it_ran_and_can_be_moved(disk: Disk) -> None:
    world = moved_and_put_back(disk)
    (before,) = world.starts
    world.track(QUERY, 9, PLACE, cluster="west", epoch=2)
    sides = sides_of(world.store, QUERY)
    assert sides is not None
    now = reconcile(world.store, world.settings, sides, actor="ann@desk", reason="backup of Monday")
    assert (now.epoch, now.cluster, now.checkpoint) == (3, "west", before.checkpoint)
    assert world.store.assignment(QUERY) == now
    assert sides_of(world.store, QUERY) is None
    world.clock.wait(1)
    assert [(start.cluster, start.epoch, start.checkpoint) for start in world.starts] == [
        ("west", 2, before.checkpoint),
        ("west", 3, before.checkpoint),
    ]
    events = world.store.history(query=QUERY)[-1]
    assert (events.kind, events.actor, events.epoch) == ("reconcile", "ann@desk", 3)
    assert events.text.endswith("epoch 3 on west; the store had epoch 1 on east: backup of Monday")
    back = world.carry_out(world.request(target="east"))
    assert back is not None
    assert (back.outcome, back.source, back.epoch) == ("done", "west", 4)
    assert world.checkpoints[world.starts[-1].checkpoint].offsets == {"orders": {"orders": {"0": 100, "1": 100}}}


def test_a_restored_open_operation_is_left_alone_until_reconciled(disk: Disk) -> None:
    world = disk.world
    world.runner.answers = False
    request = world.request()
    assert isinstance(world.carry_out(request, seconds=2), Operation)
    disk.back_up()
    world.runner.answers = True
    done = world.carry_out(request)
    assert done is not None
    assert (done.outcome, done.epoch) == ("done", 2)
    runs = world.checkpoints[world.starts[-1].checkpoint]
    disk.put_back()
    still = world.carry_out(request, seconds=5)
    assert still is not None
    assert still.outcome is None
    assert still.sentence.startswith("runner a runs revenue under epoch 2, but in the store it is held: the store was")
    assert [(intent.name, intent.state) for intent in world.store.intents(done.id)] == [("fence", IntentState.FAILED)]
    assert not runs.planted, "what the copy still asks for does not stop what runs"
    sides = sides_of(world.store, QUERY)
    assert sides is not None
    reconcile(world.store, world.settings, sides, actor="ann@desk", reason="")
    closed = world.store.operation(done.id)
    assert closed is not None
    assert closed.outcome == "failed"
    assert world.store.operations(only_open=True) == []
    world.clock.wait(1)
    assert (world.starts[-1].cluster, world.starts[-1].epoch) == ("west", 3)


# -- nothing left that could show ------------------------------------------------------------------------------------
HELD = (
    "store-current: /cp/revenue is held by operation {}, which this store does not know. The store was restored from a "
    "backup older than that move; tideover reconcile revenue"
)


def moved_put_back_and_restarted(disk: Disk, *, alive: bool = True) -> tuple[World, str]:
    """Neither the store nor the runner remembers the move; only the old checkpoint does. The operation's id, too."""
    world = disk.world
    disk.back_up()
    moved = world.carry_out(world.request())
    assert moved is not None
    assert moved.outcome == "done"
    world.runner.instance, world.runner.alive = "two", alive
    world.runner.ran.clear()
    world.runner.runs.clear()
    disk.put_back()
    return world, moved.id


def stored(world: World) -> Assignment:
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    return assignment


def test_a_query_moved_by_a_lost_operation_is_not_moved_again(disk: Disk) -> None:
    world, lost = moved_put_back_and_restarted(disk)
    (fact,) = world.store.query_facts()
    assert (fact.instance, fact.epoch, fact.state, fact.held_by) == ("two", 1, RunState.FAILED, lost)
    world.clusters["east"].reachable = False
    assert refused(world, world.request()) == HELD.format(lost)
    facts = places(world).before(OperationKind.FAILOVER, QUERY, "west")
    automatic = AutomaticFacts(
        facts=facts, now=world.clock.now(), term=1, statuses={}, pauses=(), operations=(), acknowledged=frozenset()
    )
    assert [gate.ok for gate in judge_automatic(automatic) if gate.name == "store-current"] == [False]
    assert [(start.cluster, start.epoch) for start in world.starts] == [("west", 2)]
    assert (world.store.operations(), stored(world).epoch) == ([], 1)


def test_a_move_that_began_before_a_runner_could_say_so_ends_at_its_fence(disk: Disk) -> None:
    world, lost = moved_put_back_and_restarted(disk, alive=False)
    world.clusters["east"].reachable = False
    request = world.request()
    assert world.carry_out(request, seconds=7) is not None
    world.runner.alive = True
    ended = world.carry_out(request)
    assert ended is not None
    assert (ended.outcome, ended.sentence) == ("refused", HELD.format(lost))
    checkpoint = world.checkpoints["/cp/revenue"]
    assert (checkpoint.holder, checkpoint.planted) == (lost, {8, 9})
    assert (stored(world).cluster, stored(world).epoch) == ("east", 3)
    world.clock.wait(1)
    assert refused(world, world.request()) == HELD.format(lost), "a later epoch does not take it over either"
    assert [(start.cluster, start.epoch) for start in world.starts] == [("west", 2)]


def test_a_restored_move_that_was_committed_is_not_made_again(disk: Disk) -> None:
    world = disk.world
    world.runner.answers = False
    request = world.request()
    assert isinstance(world.carry_out(request, seconds=2), Operation)
    disk.back_up()
    world.runner.answers = True
    done = world.carry_out(request)
    assert done is not None
    assert done.outcome == "done"
    (went_to,) = {start.checkpoint for start in world.starts}
    world.runner.instance = "two"
    world.runner.ran.clear()
    world.runner.runs.clear()
    disk.put_back()
    stays = world.carry_out(request, seconds=30)
    assert stays is not None
    assert (stays.outcome, stays.phase) == (None, Phase.ABORTED), "it holds the query until somebody has looked"
    assert f"{went_to} has been run since it was made" in stays.sentence
    refusals = [event.text for event in world.store.history(query=QUERY) if "store-current" in event.text]
    assert all(text.endswith("tideover reconcile revenue") for text in refusals)
    assert world.checkpoints["/cp/revenue"].planted
    assert [(start.cluster, start.epoch) for start in world.starts] == [("west", 2)]
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    reconcile_as_found(world.store, world.settings, lost, runner=None, actor="ann", reason="")
    assert world.store.operations(only_open=True) == []
    world.clock.wait(1)
    assert (world.starts[-1].cluster, world.starts[-1].epoch, world.starts[-1].checkpoint) == ("west", 3, went_to)


def test_the_files_show_where_the_query_went_and_it_continues_there(disk: Disk) -> None:
    world, _ = moved_put_back_and_restarted(disk)
    went_to = world.starts[0].checkpoint
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    assert (
        lost.found == f"{went_to} holds the newest batch, and no mapping beside it leads away from west. In the "
        "store revenue is on east with /cp/revenue"
    )
    by = {"runner": None, "actor": "ann@desk", "reason": "backup of Monday"}
    for cluster, checkpoint in (("west", "/cp/revenue/"), ("east", went_to)):
        with pytest.raises(Refused, match=r"revenue is not (from|on) .*: .* holds the newest batch") as refused:
            reconcile_by_hand(world.store, world.settings, lost, cluster=cluster, checkpoint=checkpoint, **by)  # type: ignore[arg-type]
        assert refused.value.hint.endswith("tideover reconcile revenue")
    now = reconcile_as_found(world.store, world.settings, lost, **by)  # type: ignore[arg-type]
    assert (now.epoch, now.cluster, now.checkpoint, now.runner) == (3, "west", went_to, "a")
    assert stored(world) == now
    world.clock.wait(1)
    assert (world.starts[-1].cluster, world.starts[-1].epoch, world.starts[-1].checkpoint) == ("west", 3, went_to)
    assert lost_of(world.store, QUERY) is None
    events = world.store.history(query=QUERY)[-1]
    assert events.text.startswith("reconciled revenue as its files show (")
    assert events.text.endswith("): epoch 3 on west; the store had epoch 1 on east: backup of Monday")
    world.track(QUERY, 9, PLACE, cluster="west", epoch=3)
    back = world.carry_out(world.request(target="east"))
    assert back is not None
    assert (back.outcome, back.source, back.epoch) == ("done", "west", 4)


def test_a_query_that_kept_its_checkpoint_is_found_by_its_mapping(tmp_path: Path) -> None:
    """The store is a copy of before a switch, and nothing that ran then runs: the checkpoint alone shows."""
    world, moved = moved_put_back_and_restarted(Disk(tmp_path, resume="switch"))
    assert [start.cluster for start in world.starts] == ["west"], "it is not started on east"
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    assert lost.found == (
        f"mapping 2-{moved}.1 beside /cp/revenue leads to west. In the store revenue is on east with /cp/revenue"
    )
    assert f"held by operation {moved}" in (refused(world, world.request()) or "")
    there = {"checkpoint": "/cp/revenue", "runner": None, "actor": "ann", "reason": ""}
    with pytest.raises(Refused, match=f"revenue is not on east: mapping 2-{moved}.1 beside /cp/revenue leads to west"):
        reconcile_by_hand(world.store, world.settings, lost, cluster="east", **there)  # type: ignore[arg-type]
    now = reconcile_as_found(world.store, world.settings, lost, runner=None, actor="ann", reason="")
    assert (now.epoch, now.placed_epoch, now.cluster, now.checkpoint) == (3, 2, "west", "/cp/revenue")
    assert now.mapping == f"2-{moved}.1"
    world.clock.wait(1)
    assert (world.starts[-1].cluster, world.starts[-1].epoch) == ("west", 3)


# -- what the lost operation had only begun --------------------------------------------------------------------------
def take_as_found(world: World, lost: Lost) -> Assignment:
    return reconcile_as_found(world.store, world.settings, lost, runner=None, actor="ann", reason="backup of Monday")


def fenced_and_put_back(disk: Disk) -> tuple[Request, Operation, Lost]:
    """The store is a copy of before an operation that had fenced, and moved nothing; its request as it was."""
    world = disk.world
    disk.back_up()
    world.runner.proof = None
    request = world.request()
    begun = world.carry_out(request, seconds=2)
    assert begun is not None
    assert (begun.outcome, world.checkpoints["/cp/revenue"].planted) == (None, {8, 9})
    disk.put_back()
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    return replace(request, operation=begun.id), begun, lost


def test_a_query_fenced_by_a_lost_operation_continues_where_it_was(disk: Disk) -> None:
    world = disk.world
    request, begun, lost = fenced_and_put_back(disk)
    assert lost.place is not None
    assert (lost.place.held_by, lost.place.held_epoch) == (begun.id, 2)
    with pytest.raises(Refused, match="revenue is not on west: /cp/revenue holds the newest batch"):
        reconcile_by_hand(
            world.store, world.settings, lost, cluster="west", checkpoint="/cp/revenue", runner=None, actor="ann",
            reason="",
        )  # fmt: skip
    now = take_as_found(world, lost)
    assert (now.epoch, now.desired, now.cluster, now.runner) == (3, Desired.HELD, "east", "a")
    undone = world.carry_out(request)
    assert undone is not None
    assert (undone.outcome, undone.sentence) == (
        "failed", "cancelled by ann: the store was restored from an older backup, and revenue stays where it runs"
    )  # fmt: skip
    assert not world.checkpoints["/cp/revenue"].planted
    world.clock.wait(1)
    assert [(start.cluster, start.epoch, start.checkpoint) for start in world.starts] == [("east", 4, "/cp/revenue")]
    assert lost_of(world.store, QUERY) is None
    world.runner.proof = Proof.RUNNER
    moved = world.carry_out(world.request())
    assert moved is not None
    assert (moved.outcome, moved.epoch) == ("done", 5)


def test_an_undo_waits_for_its_runner_in_one_sentence(disk: Disk) -> None:
    world = disk.world
    request, _, lost = fenced_and_put_back(disk)
    take_as_found(world, lost)
    world.runner.alive = False
    for fact in world.store.runners():
        world.store.unregister(fact.runner, fact.instance)
    waits = world.carry_out(request, seconds=30)
    assert waits is not None
    assert waits.sentence == (
        "cancelled by ann: the store was restored from an older backup, and revenue stays where it runs; "
        "no runner of revenue is alive: start one with tideover run --name a"
    )
    events = len(world.store.history(limit=1_000))
    world.carry_out(request, seconds=30)
    assert len(world.store.history(limit=1_000)) == events


def test_a_runner_that_saw_the_lost_hold_says_why_it_starts_nothing() -> None:
    world = LiveWorld()
    site, runner = controller(world), world.drivers["a"]
    pass_time(world, 3, site)
    put_back = back_up(world.store)
    world.request()
    pass_time(world, 5, site, until=lambda: bool(world.store.operations()))
    world.clusters["west"].reachable = False
    pass_time(world, 2, site)
    (begun,) = world.store.operations()
    assert world.checkpoints["/cp/revenue"].planted
    put_back()
    world.rules.restart()
    pass_time(world, 3, site)
    assert world.run_of(QUERY) is None
    assert runner.said[-1] == (
        "the store says epoch 1 of revenue, but said 2 before: the store was restored from an older backup; "
        "tideover reconcile revenue"
    )
    (fact,) = world.store.query_facts()
    assert (fact.state, fact.error, fact.held_by) == (RunState.FAILED, runner.said[-1], begun.id)
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    take_as_found(world, lost)
    pass_time(world, 10, site)
    run = world.run_of(QUERY)
    assert run is not None
    assert (run.row.epoch, run.row.cluster, run.row.checkpoint) == (4, "east", "/cp/revenue")
    assert (world.broken, world.account(), world.lag() <= 4) == ([], (0, 0), True)


def test_an_operation_that_the_store_knows_is_no_stranger(disk: Disk) -> None:
    """It was given up: its entries are gone, what its runner last said of them may not be."""
    world = disk.world
    world.runner.failures[IntentKind.PREPARE] = [Failure(kind="no-space", text="the disk is full")]
    given_up = world.carry_out(world.request())
    assert given_up is not None
    assert given_up.outcome == "failed"
    report(world, epoch=3, runner="a", cluster="east", checkpoint="/cp/revenue", instance="one", held_by=given_up.id)
    assert lost_of(world.store, QUERY) is None
    moved = world.carry_out(world.request())
    assert moved is not None
    assert moved.outcome == "done"


# -- the verb --------------------------------------------------------------------------------------------------------
def report(world: World, **changes: Any) -> QueryFact:
    """What a runner reports of an epoch that the store has lost."""
    newer = samples.fact(
        **{"epoch": 4, "cluster": "west", "runner": "b", "checkpoint": "/cp/new", "mapping": None, **changes}
    )
    assert world.store.report_query(newer)
    return newer


def test_the_verb_shows_both_sides_and_writes_down_what_runs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.alive = False
    report(world)
    assert run(capsys, "failover", "revenue", "--to", "west", "--yes")[0] == 1
    assert run(capsys, "check")[0] == 1
    code, out, err = run(capsys, "reconcile", "revenue")
    assert (code, out) == (2, "")
    assert "without a terminal, this command needs --yes" in err
    assert "runner b runs revenue under epoch 4, but the store knows only epoch 1" in err
    code, shown = run_json(capsys, "reconcile", "revenue", "--yes", "--reason", "backup")
    assert code == 0
    assert isinstance(shown, list)
    assert [(row["side"], row["epoch"], row["cluster"], row["checkpoint"]) for row in shown] == [
        ("store", 1, "east", "/cp/revenue"),
        ("runner", 4, "west", "/cp/new"),
        ("now", 5, "west", "/cp/new"),
    ]
    assignment = world.store.assignment("revenue")
    assert assignment is not None
    assert (assignment.epoch, assignment.runner, assignment.desired) == (5, "b", Desired.RUNNING)
    code, out, err = run(capsys, "reconcile", "revenue", "--yes")
    assert (code, out) == (0, "")
    assert "nothing done" in err


def test_a_person_is_shown_both_sides_before_the_question(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.runner.alive = False
    report(world)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _out, err = run(capsys, "reconcile", "revenue")
    assert code == 1
    assert err.index("/cp/new") < err.index("Save in the store what runner b reports of revenue?")
    assignment = world.store.assignment("revenue")
    assert assignment is not None
    assert assignment.epoch == 1
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run(capsys, "reconcile", "revenue")[0] == 0


@pytest.mark.parametrize("changes", [{"cluster": "north"}, {"runner": "z"}])
def test_reconcile_refuses_what_the_configuration_does_not_allow(
    world: World, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    world.runner.alive = False
    report(world, **changes)
    code, out, _ = run(capsys, "reconcile", "revenue", "--yes", "-o", "json")
    assert code == 1
    assert "which its configuration does not allow" in json.loads(out)["error"]["text"]
    assignment = world.store.assignment("revenue")
    assert assignment is not None
    assert assignment.epoch == 1


def test_the_verb_takes_a_place_by_hand_only_where_no_file_shows_it(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.runner.alive = False
    there = ("--cluster", "west", "--checkpoint", "/cp/revenue/epoch-4-lost")
    code, _, err = run(capsys, "reconcile", "revenue", *there, "--yes")
    assert code == 0
    assert "nothing shows that the store is wrong about revenue: nothing done" in err
    held = {"epoch": 1, "cluster": "east", "runner": "a", "checkpoint": "/cp/revenue", "instance": "one"}
    report(world, **held, state=RunState.FAILED, held_by="lost")
    for named in ((), there):
        code, _, err = run(capsys, "reconcile", "revenue", *named, "--yes")
        assert code == 1
        assert "which this store does not know, and no runner has read yet where revenue is" in err
        assert "tideover run --name a" in err
    world.store.report_place(found(checkpoint="/cp/revenue/epoch-4-lost", text="its mark names no cluster"))
    code, _, err = run(capsys, "reconcile", "revenue", "--yes")
    assert code == 1
    assert "runner a cannot read where revenue is: its mark names no cluster" in err
    assert "tideover reconcile revenue --cluster CLUSTER --checkpoint FOLDER" in err
    assert run(capsys, "reconcile", "revenue", "--checkpoint", "/cp/x")[0] == 2
    assert run(capsys, "reconcile", "revenue", "--cluster", "west", "--checkpoint", "epoch-4-lost", "--yes")[0] == 2
    assert run(capsys, "reconcile", "revenue", "--cluster", "north", *there[2:], "--yes")[0] == 1
    assert run(capsys, "reconcile", "revenue", "--cluster", "west", "--checkpoint", "/cp/x", "--yes")[0] == 1
    assert run(capsys, "reconcile", "revenue", *there)[0] == 2
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "reconcile", "revenue", *there)
    assert code == 1
    assert "is it stopped everywhere now?" in err
    assert world.store.assignment("revenue") == replace(stored(world), epoch=1, cluster="east")
    code, shown = run_json(capsys, "reconcile", "revenue", *there, "--yes", "--reason", "backup")
    assert code == 0
    assert isinstance(shown, list)
    assert [(row["side"], row["epoch"], row["cluster"], row["checkpoint"]) for row in shown] == [
        ("store", 1, "east", "/cp/revenue"),
        ("files", 4, None, "/cp/revenue/epoch-4-lost"),
        ("now", 5, "west", "/cp/revenue/epoch-4-lost"),
    ]
    report(world, epoch=6, checkpoint="/cp/other")
    code, _, err = run(capsys, "reconcile", "revenue", *there, "--yes")
    assert code == 2
    assert "a runner reports where revenue runs" in err


def found(**changes: Any) -> FoundPlace:
    """What a runner read beside the row of epoch 1."""
    values: dict[str, Any] = {
        "query": QUERY, "runner": "a", "instance": "one", "row_epoch": 1, "checkpoint": "/cp/revenue",
        "cluster": None, "mapping": None, "epoch": 4, "moved_by": None, "held_by": None, "held_epoch": None,
        "text": "", "found_at": START,
    }  # fmt: skip
    return FoundPlace(**values | changes)
