"""Each rule of the world, broken by hand: what no scenario may do is seen and named, and what it may do is not."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.new_requests import RequestSpec, submit
from state.model.entities import (
    Assignment,
    Desired,
    Event,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Step,
)
from state.model.measured import NOTHING
from state.store.sql.schema import assignments
from tests.simulation.control import controller, pass_time
from tests.simulation.driver import Run
from tests.simulation.live import LiveWorld
from tests.simulation.stores import back_up, force
from tests.simulation.world import QUERY, START, Checkpoint, ManualClock

OFFSETS = {"orders": {"orders": {"0": 133, "1": 133}}}
TARGET = "/cp/revenue/epoch-2-by-hand"


class Hand:
    """Writes into a world's store what no controller would."""

    def __init__(self) -> None:
        self.world = LiveWorld(hosts={"a": "host-one", "b": "host-two"})
        self.world.clock.wait(1)
        lead = self.world.lead()
        assert lead.take()
        self.term = lead.term
        self.operation: Operation | None = None

    @property
    def row(self) -> Assignment:
        row = self.world.store.assignment(QUERY)
        assert row is not None
        return row

    @property
    def open(self) -> Operation:
        assert self.operation is not None
        return self.operation

    def hold(self) -> None:
        """As a taker opens an operation."""
        self.operation = Operation(
            id="by-hand", group="by-hand", kind=OperationKind.FAILOVER, query=QUERY, source="east", target="west",
            epoch=2, phase=Phase.FENCING, outcome=None, actor="ann", reason="", consents=(), plan=None,
            measured=NOTHING, sentence="", started_at=START, ended_at=None,
        )  # fmt: skip
        step = Step(operation="by-hand", sequence=1, name="hold", started_at=START)
        held = self.world.store.hold(self.operation, from_epoch=1, term=self.term, step=step, event=self._event())
        assert held is not None
        self.world.clock.wait(1)

    def answered(self, kind: IntentKind, *, epoch: int, name: str = "", **result: Any) -> None:
        """An intent of the operation that a runner has done."""
        request: Mapping[str, Any] = {}
        if kind is IntentKind.PREPARE:
            request = {
                "checkpoint": "/cp/revenue", "target": TARGET, "operation": "by-hand", "epoch": 2, "resume": "carry",
                "batch": 7, "offsets": {}, "target_offsets": result.pop("target_offsets"),
            }  # fmt: skip
            self.world.checkpoints[TARGET] = Checkpoint(batch=7, offsets=OFFSETS)
        intent = Intent(
            id=f"by-hand/{name or kind}", operation="by-hand", name=name or kind.value, kind=kind, query=QUERY,
            runner="a", epoch=epoch, request=request, state=IntentState.DONE, result=result, created_at=START,
            ended_at=START,
        )  # fmt: skip
        self.world.store.record(self.open, term=self.term, intents=[intent])

    def place(self, **changes: Any) -> None:
        """Give the query to runner b on west, whatever else changes, and let the world continue."""
        there: dict[str, Any] = {
            "epoch": 2, "placed_epoch": 2, "desired": Desired.RUNNING, "cluster": "west", "runner": "b",
            "checkpoint": TARGET,
        }  # fmt: skip
        row = replace(self.row, **{**there, **changes})
        self.world.checkpoints.setdefault(row.checkpoint, Checkpoint(batch=7, offsets=OFFSETS))
        assert self.world.store.place(
            row, operation=self.open, from_epoch=self.row.epoch, term=self.term, steps=(), event=self._event()
        )
        self.world.clock.wait(1)
        run = self.world.run_of(QUERY)
        assert run is not None, "the rule is about a run"
        assert run.row == row

    def _event(self) -> Event:
        return Event(
            sequence=None, at=START, kind="by hand", query=QUERY, operation=None, epoch=None, actor="ann", text=""
        )

    def names(self, text: str) -> None:
        """This was seen."""
        assert any(text in line for line in self.world.broken), self.world.broken


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_a_second_run_of_a_query_is_seen(hand: Hand) -> None:
    other = hand.world.drivers["b"]
    other.frozen = True  # else it would see that the row is not its own
    other.runs[QUERY] = Run(row=hand.row, begun=0.0, due=0.0, data_batch=0)
    hand.world.clock.wait(1)
    hand.names("revenue runs under [1, 1]")


def test_an_epoch_that_falls_is_seen(hand: Hand) -> None:
    put_back = back_up(hand.world.store)
    hand.hold()
    put_back()
    hand.world.clock.wait(1)
    hand.names("epoch of revenue fell to 1")


# -- fences ----------------------------------------------------------------------------------------------------------
UNFENCED = "revenue began under epoch {} before a fence was confirmed"


def test_a_start_whose_operation_made_no_fence_is_found(hand: Hand) -> None:
    hand.hold()
    hand.place()
    hand.names(UNFENCED.format(2))


def test_a_start_behind_a_fence_without_proof_is_seen(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof=None)
    hand.place()
    hand.names(UNFENCED.format(2))


def test_a_start_of_an_operation_that_the_store_does_not_know_is_seen(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.place(operation="another")
    hand.names(UNFENCED.format(2))


def test_a_start_behind_a_proven_fence_breaks_no_rule(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.answered(IntentKind.PREPARE, epoch=2, target_offsets=OFFSETS)
    hand.place()
    assert hand.world.broken == []


def test_a_start_by_consent_without_proof_breaks_no_rule(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof=None)
    assert hand.world.store.consent("by-hand", ["unfenced"], term=hand.term, event=hand._event())
    hand.place()
    assert hand.world.broken == []


def test_a_takeover_without_a_second_fence_is_found(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.place()
    assert hand.world.broken == []
    hand.place(epoch=3, runner="a")
    hand.names(UNFENCED.format(3))


def test_a_takeover_with_a_second_fence_breaks_no_rule(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.place()
    hand.answered(IntentKind.FENCE, epoch=3, name="fence#2", proof="process")
    hand.place(epoch=3, runner="a")
    assert hand.world.broken == []


def give_back(hand: Hand, runner: str) -> None:
    hand.operation = replace(hand.open, phase=Phase.ABORTED, outcome="failed", ended_at=START)
    hand.place(epoch=3, placed_epoch=1, cluster="east", runner=runner, checkpoint="/cp/revenue")


def test_a_query_that_is_given_back_to_who_had_it_breaks_no_rule(hand: Hand) -> None:
    hand.hold()
    give_back(hand, "a")
    assert hand.world.broken == []


def test_returning_a_query_to_another_runner_without_a_fence_breaks_a_rule(hand: Hand) -> None:
    hand.hold()
    give_back(hand, "b")
    hand.names(UNFENCED.format(3))


def test_returning_a_query_to_another_runner_behind_a_fence_is_allowed(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="process")
    give_back(hand, "b")
    assert hand.world.broken == []


# -- places ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def placed(hand: Hand) -> Hand:
    """Rightly."""
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.answered(IntentKind.PREPARE, epoch=2, target_offsets=OFFSETS)
    hand.place()
    assert hand.world.broken == []
    return hand


@pytest.mark.parametrize(
    "change",
    [{"checkpoint": "/cp/other"}, {"cluster": "east"}, {"starting_offsets": OFFSETS}],
    ids=lambda each: [*each],
)
def test_a_committed_place_that_changes_is_seen(placed: Hand, change: dict[str, Any]) -> None:
    held = replace(placed.row, **change)
    placed.world.checkpoints.setdefault(held.checkpoint, Checkpoint(batch=7, offsets=OFFSETS))
    force(placed.world.store, assignments, held)
    placed.world.clock.wait(1)
    placed.names("revenue was placed at")


def test_offsets_that_are_chosen_again_after_the_commit_are_found(placed: Hand) -> None:
    others = {"orders": {"orders": {"0": 140, "1": 140}}}
    placed.answered(IntentKind.PREPARE, epoch=2, name="prepare#2", target_offsets=others)
    placed.world.clock.wait(1)
    placed.names("revenue was placed at")


def test_a_checkpoint_that_holds_other_offsets_than_were_chosen_is_seen(hand: Hand) -> None:
    hand.hold()
    hand.answered(IntentKind.FENCE, epoch=2, proof="runner")
    hand.answered(IntentKind.PREPARE, epoch=2, target_offsets={"orders": {"orders": {"0": 130, "1": 133}}})
    hand.place()
    hand.names("revenue resumes at")


# -- sinks -----------------------------------------------------------------------------------------------------------
def test_a_batch_that_comes_again_with_other_records_is_seen(hand: Hand) -> None:
    hand.world.sink.take(QUERY, 7, [b"another record"])
    hand.world.clock.wait(1)
    hand.names("batch 7 of revenue came with other records")


def test_a_world_in_which_a_query_is_moved_breaks_no_rule() -> None:
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={QUERY: "west"}, expect_active={}, actor="ann", reason="", consents=()
    )
    world = LiveWorld()
    submit(world.store, wish)
    pass_time(world, 30, controller(world))
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, world.broken) == ("west", [])


def test_a_thread_that_gets_no_core_for_a_while_misses_no_time() -> None:
    clock, gets_a_core = ManualClock(), threading.Event()
    seen: list[float] = []

    def drive() -> None:
        assert gets_a_core.wait(60.0)
        for _ in range(3):
            seen.append(clock.passed)
            clock.wait(0.0)

    driver = threading.Thread(target=drive, name="drive op-1")
    driver.start()
    threading.Timer(0.3, gets_a_core.set).start()
    while driver.is_alive():
        clock.wait(1.0)
    driver.join()
    assert seen[-1] <= 5.0
