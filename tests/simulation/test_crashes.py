"""A crash after every recorded write of every kind of operation; and after each, a write whose answer is lost."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from orchestrator.facts.evidence.chain import check_chain
from orchestrator.facts.evidence.keeping import keep_evidence
from state.errors import StoreUnavailable
from state.messages import Failure, Planned, PrepareReport, PrepareRequest, Proof, SinkState
from state.model.entities import Assignment, Desired, IntentKind, Operation, OperationKind, Phase, Request
from state.model.evidence import KEPT
from state.settings.keys import Resume
from state.store.controller_store import ControllerStore
from tests.contract.samples import plan_of
from tests.simulation.control import controller, pass_time
from tests.simulation.live import LiveWorld
from tests.simulation.stores import RUNNERS, Crash, CrashingStore, DoubtfulStore
from tests.simulation.test_failback import away, beat
from tests.simulation.test_rewind import BACK_MS, at, stateful
from tests.simulation.test_switchover import behind, copy, replicated
from tests.simulation.world import QUERY, START_MS, Checkpoint, World, settings
from tests.thorough import moments

PLACE = 33 + 100
MOST_WRITES = 200
Faulty = type[CrashingStore]


def assigned(world: World) -> Assignment:
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    return assignment


# -- operations, each as far as its first process came, and then to its end ------------------------------------------
def plain() -> World:
    return World()


def lagging() -> World:
    return World(settings(policy={"max_exposure": "5s"}))


def full_disk() -> World:
    world = World()
    world.runner.failures = {IntentKind.PREPARE: [Failure(kind="no-space", text="no space left on device")] * 2}
    return world


def moves_on() -> World:
    """A batch is committed between the fence's report and the making of the checkpoint."""
    world = World()
    prepare, checkpoint = world.runner._prepare, world.checkpoints[f"/cp/{QUERY}"]

    def move_on_once(request: PrepareRequest, old: Checkpoint) -> PrepareReport | Failure:
        if checkpoint.batch == 7:
            checkpoint.batch, checkpoint.offsets = 8, {"orders": {"orders": {"0": 105, "1": 100}}}
            world.track(QUERY, 8, 105)
        return prepare(request, old)

    world.runner._prepare = move_on_once  # type: ignore[method-assign] # the fault
    return world


def in_flight() -> World:
    world = World()
    planned = Planned(batch=8, offsets={"orders": {"orders": {"0": 104, "1": 101}}}, sink=SinkState.UNKNOWN)
    world.checkpoints[f"/cp/{QUERY}"].planned = planned
    world.track(QUERY, 8, 104)
    return world


def unproven() -> World:
    world = World()
    world.runner.proof = None
    return world


def when_blocked(world: World, act: Callable[[], object]) -> World:
    """What a person does, once, a while after the operation was found BLOCKED, whichever controller leads then."""
    seen: list[float] = []

    def look() -> None:
        if not seen and any(each.phase is Phase.BLOCKED for each in world.store.operations()):
            seen.append(world.clock.passed + 3.0)
        if seen and world.clock.passed >= seen[0]:
            seen[0] = math.inf
            act()

    world.clock.lives.insert(0, look)
    return world


def never_copied() -> World:
    """West lacks records that the query has read, and the replicator never brings them."""
    world = replicated(policy={"catch_up": "4s"})
    behind(world, 7)
    return world


def copied_late() -> World:
    """West lacks them when the switchover begins, and has them two seconds later."""
    world = replicated()
    behind(world, 7)
    waits = iter([True])

    def replicate() -> None:
        if world.clock.passed > 2 and next(waits, False):
            copy(world, 93, 110)

    world.clock.lives.insert(0, replicate)
    return world


def called_off() -> World:
    """Nothing proves that the old run is gone, and the person who requested the move requests where it is."""
    world = unproven()
    return when_blocked(world, lambda: world.request(target="east"))


def proven_late() -> World:
    """The run that would not stop stops after all."""
    world = unproven()
    return when_blocked(world, lambda: setattr(world.runner, "proof", Proof.RUNNER))


def without_its_runner() -> World:
    """The only runner is gone when it is to fence, and comes back."""
    world = World()
    leave_once = iter([False])

    def leave() -> None:
        if world.store.operations():
            world.runner.alive = next(leave_once, world.runner.alive)

    world.clock.lives.insert(0, leave)
    return when_blocked(world, lambda: setattr(world.runner, "alive", True))


def loses_its_runner() -> World:
    """Runner a dies when it is ordered to start on west; b can prove it."""
    world = World()
    world.other.alive, world.other.proof, world.runner.commits = True, Proof.PROCESS, False
    obey = world.runner._obey

    def die(assignment: Assignment) -> None:
        world.runner.alive = assignment.cluster != "west"
        if world.runner.alive:
            obey(assignment)

    world.runner._obey = die  # type: ignore[method-assign] # the fault
    return world


def loses_its_runner_in_place() -> World:
    """The same of a query that stays on east: runner a dies when it is ordered to start there again."""
    world = World()
    world.other.alive, world.other.proof, world.runner.commits = True, Proof.PROCESS, False
    obey = world.runner._obey

    def die(assignment: Assignment) -> None:
        world.runner.alive = assignment.epoch == 1
        if world.runner.alive:
            obey(assignment)

    world.runner._obey = die  # type: ignore[method-assign] # the fault
    return world


def keeps_state() -> World:
    return stateful(World())


def loses_its_batches() -> World:
    """What is to be gone back to is purged once the query is held."""
    world = keeps_state()
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]

    def purge() -> None:
        if world.store.operations():
            checkpoint.history = checkpoint.history[-1:]

    world.clock.lives.insert(0, purge)
    return world


def loses_its_only_cluster() -> World:
    """East dies once the query is held."""
    world = World()

    def die() -> None:
        if world.store.operations():
            world.clusters["east"].reachable = False

    world.clock.lives.insert(0, die)
    return world


def loses_its_standby() -> World:
    """West dies when the query has been started there."""
    world = World()
    world.runner.commits = False
    obey = world.runner._obey

    def start_and_die(assignment: Assignment) -> None:
        obey(assignment)
        world.clusters["west"].reachable = assignment.cluster != "west"

    world.runner._obey = start_and_die  # type: ignore[method-assign] # the fault
    return world


def moved_before() -> World:
    """The query was moved to west, has read on there, and is to go back."""
    world = World()
    world.carry_out(world.request())
    placed = world.checkpoints[world.starts.pop().checkpoint]
    placed.batch, placed.offsets = 10, {"orders": {"orders": {"0": PLACE + 5, "1": PLACE + 5}}}
    world.track(QUERY, 10, PLACE + 5, cluster="west", epoch=2)
    return world


def comes_home() -> World:
    """The query failed over, read on there, and replication was reversed; heartbeats arrive at home."""
    world, _ = away()
    world.starts.clear()
    beaten = [-math.inf]

    def go_on_beating() -> None:
        if world.clock.passed >= beaten[0] + 5.0:
            beaten[0] = world.clock.passed
            beat(world, "west", "east")

    world.clock.lives.insert(0, go_on_beating)
    go_on_beating()
    return world


def assert_moved(world: World, operation: Operation) -> None:
    assert (operation.outcome, assigned(world).cluster) == ("done", operation.target)
    epochs = [start.epoch for start in world.starts]
    assert len(epochs) == len(set(epochs)), "started twice"
    assert world.starts[-1].epoch == assigned(world).epoch
    assert world.checkpoints[assigned(world).checkpoint].planted == set()


def assert_placed_as_chosen(world: World, operation: Operation) -> None:
    assert_moved(world, operation)
    at = PLACE + 5 if world.checkpoints[f"/cp/{QUERY}"].batch == 8 else PLACE
    assert world.checkpoints[assigned(world).checkpoint].offsets == {"orders": {"orders": {"0": at, "1": PLACE}}}


def assert_went_back(world: World, operation: Operation) -> None:
    assert operation.phase is Phase.ABORTED
    row = assigned(world)
    assert (row.cluster, row.epoch, row.desired, row.checkpoint) == ("east", 3, Desired.RUNNING, f"/cp/{QUERY}")
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()
    world.clock.wait(1)
    assert [start.epoch for start in world.starts] == [3]


def assert_went_back_in_time(world: World, operation: Operation) -> None:
    assert_moved(world, operation)
    assert (operation.source, operation.target, len(world.starts)) == ("east", "east", 1)
    made, old = world.checkpoints[assigned(world).checkpoint], world.checkpoints[f"/cp/{QUERY}"]
    at = 70 if old.operators else 60
    assert made.offsets == {"orders": {"orders": {"0": at, "1": at}}}
    assert (made.batch, old.batch, bool(old.planted)) == (4 if old.operators else 7, 7, True)


def assert_called_off(world: World, operation: Operation) -> None:
    assert operation.sentence == f"cancelled by ann: {QUERY} stays on east"
    assert_went_back(world, operation)


def assert_was_blocked(world: World, operation: Operation) -> None:
    assert "wait" in {event.kind for event in world.store.history(operation=operation.id)}
    assert_placed_as_chosen(world, operation)


def assert_stays_placed(world: World, operation: Operation) -> None:
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "failed")
    assert (assigned(world).cluster, assigned(world).epoch) == ("west", 2)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One kind of operation: its world, how it must end however often it is interrupted, and how much it writes."""

    world: Callable[[], World]
    ends: Callable[[World, Operation], None]
    writes: int
    target: str = "west"
    consents: tuple[str, ...] = ()
    kind: OperationKind = OperationKind.FAILOVER
    to_time_ms: int | None = None


def rewind(
    world: Callable[[], World], ends: Callable[[World, Operation], None], writes: int, to_time_ms: int
) -> Scenario:
    return Scenario(
        world=world, ends=ends, writes=writes, target="east", kind=OperationKind.REWIND, to_time_ms=to_time_ms
    )


SCENARIOS = {
    "a failover": Scenario(world=plain, ends=assert_placed_as_chosen, writes=12),
    "a failover with a batch in flight": Scenario(world=in_flight, ends=assert_placed_as_chosen, writes=12),
    "a checkpoint that moved on": Scenario(world=moves_on, ends=assert_placed_as_chosen, writes=16),
    "a refusal behind the fence": Scenario(world=lagging, ends=assert_went_back, writes=8),
    "a checkpoint that cannot be made": Scenario(world=full_disk, ends=assert_went_back, writes=10),
    "a fence without proof, with consent": Scenario(
        world=unproven, ends=assert_placed_as_chosen, writes=12, consents=("unfenced",)
    ),
    "a move that is called off while it is blocked": Scenario(world=called_off, ends=assert_called_off, writes=8),
    "a fence that is proven late": Scenario(world=proven_late, ends=assert_was_blocked, writes=14),
    "a runner that is away and returns": Scenario(world=without_its_runner, ends=assert_was_blocked, writes=14),
    "a takeover behind the commit": Scenario(world=loses_its_runner, ends=assert_moved, writes=18),
    "a standby that dies behind the commit": Scenario(world=loses_its_standby, ends=assert_stays_placed, writes=14),
    "a switchover": Scenario(world=copied_late, ends=assert_placed_as_chosen, writes=13, kind=OperationKind.SWITCHOVER),
    "a switchover that goes back": Scenario(
        world=never_copied, ends=assert_went_back, writes=9, kind=OperationKind.SWITCHOVER
    ),
    "a way home": Scenario(world=moved_before, ends=assert_moved, writes=12, target="east"),
    "a failback": Scenario(world=comes_home, ends=assert_moved, writes=12, target="east", kind=OperationKind.FAILBACK),
    "a rewind": rewind(plain, assert_went_back_in_time, 12, BACK_MS),
    "a rewind with a batch in flight": rewind(in_flight, assert_went_back_in_time, 12, BACK_MS),
    "a rewind with state": rewind(keeps_state, assert_went_back_in_time, 12, START_MS - 25_000),
    "a rewind whose batches are purged": rewind(loses_its_batches, assert_went_back, 8, START_MS - 25_000),
    "a rewind whose cluster dies": rewind(loses_its_only_cluster, assert_went_back, 8, BACK_MS),
    "a takeover behind the commit of a rewind": rewind(loses_its_runner_in_place, assert_moved, 18, BACK_MS),
}


def by_switch(scenario: Scenario) -> Scenario:
    """The same operation of a query that keeps its checkpoint; what it was placed by before may have been a carry."""

    def world() -> World:
        made = scenario.world()
        queries = {
            name: each.model_copy(update={"resume": Resume.SWITCH}) for name, each in made.settings.queries.items()
        }
        made.settings = made.settings.model_copy(update={"queries": queries})
        return made

    def ends(world: World, operation: Operation) -> None:
        scenario.ends(world, operation)
        (path,) = {row.checkpoint for row in world.store.assignments()}
        was = Path(path).name if operation.kind is OperationKind.REWIND else path
        held = world.checkpoints[path]
        if operation.kind is OperationKind.REWIND:
            assert was.startswith("epoch-"), "going back in time works on a copy"
        elif operation.outcome == "done" or operation.phase is Phase.SETTLED:
            assert [each for each, _ in held.mapped.values()] == [operation.id]
            assert plan_of(operation)["resume"] == "switch"
        else:
            assert held.mapped == {}, "a mapping was left"

    return replace(scenario, world=world, ends=ends)


SCENARIOS |= {
    f"{name}, by switch": by_switch(SCENARIOS[name])
    for name in (
        "a failover",
        "a failover with a batch in flight",
        "a checkpoint that moved on",
        "a refusal behind the fence",
        "a checkpoint that cannot be made",
        "a move that is called off while it is blocked",
        "a runner that is away and returns",
        "a takeover behind the commit",
        "a standby that dies behind the commit",
        "a switchover that goes back",
        "a way home",
        "a failback",
        "a rewind with state",
    )
}


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.operation.execute.PATIENCE", timedelta(seconds=4))


def carried_out(world: World, request: Request) -> Operation:
    operation = world.carry_out(request)
    assert operation is not None
    return operation


def leave_evidence(world: World, store: ControllerStore) -> None:
    """What the next turn of housekeeping does, or the next leader."""
    lead = world.lead(store)
    while not lead.take():
        world.clock.wait(1.0)
    logs = world.clusters.__getitem__
    keep_evidence(store, logs, term=lambda: lead.term, actor="ann", patience=timedelta(0))
    lead.give_up()


def assert_left_evidence(world: World, operations: int) -> None:
    """One document of each operation, announced once."""
    chain, flaws = check_chain(world.store)
    assert (chain.links, chain.documents, flaws) == (operations, operations, [])
    assert len(world.store.history(kind=KEPT)) == operations
    assert world.store.without_evidence(limit=1) == []


@pytest.mark.parametrize("faulty", [CrashingStore, DoubtfulStore], ids=["crash", "answer lost"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_operation_interrupted_at_any_write_ends_as_it_would_have(name: str, faulty: Faulty) -> None:
    scenario = SCENARIOS[name]
    for writes in moments():
        world = scenario.world()
        parameters = {} if scenario.to_time_ms is None else at(scenario.to_time_ms)
        request = world.request(
            kind=scenario.kind, target=scenario.target, consents=scenario.consents, parameters=parameters
        )
        before = len(world.store.operations())
        faults = faulty(world.store, writes)
        try:
            operation = world.carry_out(request, store=cast(ControllerStore, faults))
            leave_evidence(world, cast(ControllerStore, faults))
        except (Crash, StoreUnavailable):
            operation = carried_out(world, request)
            leave_evidence(world, world.store)
        assert operation is not None, f"{name}, write {writes}: {faults.writes[-1]}"
        scenario.ends(world, operation)
        assert len(world.store.operations()) == before + 1
        assert_left_evidence(world, before + 1)
        if len(faults.writes) < writes:
            break
    assert writes >= scenario.writes


# -- controllers and drivers -----------------------------------------------------------------------------------------
def is_over(world: LiveWorld) -> bool:
    """Moved, and the query has read there."""
    return any(each.outcome for each in world.store.operations()) and assigned(world).cluster == "west"


def assert_over(world: LiveWorld, what: str) -> None:
    (operation,) = world.store.operations()
    assert (operation.outcome, assigned(world).cluster) == ("done", "west"), what
    assert (world.broken, world.account()) == ([], (0, 0)), what
    assert [start.epoch for start in world.starts if start.cluster == "west"] == [assigned(world).epoch], what


def test_a_controller_that_dies_after_any_write_is_followed_by_the_next() -> None:
    for writes in moments():
        world = LiveWorld()
        crashing = CrashingStore(world.store, None)
        first, second = controller(world, "one", store=cast(ControllerStore, crashing)), controller(world, "two")
        pass_time(world, 2, first)
        crashing.die_after(writes)
        world.clusters["east"].reachable = False
        try:
            pass_time(world, 20, first, until=lambda w=world: is_over(w))  # type: ignore[misc]
            break
        except Crash:
            first.frozen = True
        pass_time(world, 40, second, until=lambda w=world: is_over(w))  # type: ignore[misc]
        assert_over(world, f"died after write {writes}: {crashing.writes[-1]}")
    assert writes > 12


def test_a_controller_unsure_of_a_write_does_nothing_twice() -> None:
    for writes in moments():
        world = LiveWorld()
        doubtful = DoubtfulStore(world.store, None)
        site = controller(world, store=cast(ControllerStore, doubtful))
        pass_time(world, 2, site)
        doubtful.die_after(writes)
        world.clusters["east"].reachable = False
        pass_time(world, 40, site, until=lambda w=world: is_over(w))  # type: ignore[misc]
        assert_over(world, f"in doubt of write {writes}")
        if len(doubtful.writes) < writes:
            break
    assert writes > 12


def test_a_driver_that_dies_after_any_write_is_restarted_and_repeats_nothing() -> None:
    for writes in moments():
        world = LiveWorld()
        site, driver = controller(world), world.drivers["a"]
        world.drivers["b"].kill()
        pass_time(world, 2, site)
        crashing = CrashingStore(world.store, writes, verbs=RUNNERS - {"register", "save_ends"})
        driver.store._store = cast(ControllerStore, crashing)
        world.clusters["east"].reachable = False
        pass_time(world, 40, site, until=lambda w=world, d=driver: is_over(w) or not d.alive)  # type: ignore[misc]
        if driver.alive:
            break
        world.start("a")
        pass_time(world, 60, site, until=lambda w=world: is_over(w))  # type: ignore[misc]
        pass_time(world, 5, site)
        (operation,) = world.store.operations()
        assert (operation.outcome, assigned(world).cluster) == ("done", "west"), f"died after write {writes}"
        assert (world.broken, world.account(), world.lag()) == ([], (0, 0), 0), f"died after write {writes}"
    assert writes > 6
