"""Faults of the store: away, slow, in doubt, put back."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from orchestrator.operation.reconcile import lost_of, reconcile, reconcile_by_hand, sides_of
from state.model.cluster_status import Verdict
from state.model.entities import Phase
from state.store.controller_store import ControllerStore
from tests.simulation.control import controller, pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    events_of,
    only_operation,
    operations,
    runs_on,
    scene,
    verdict,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld
from tests.simulation.stores import AwayStore, back_up


@fault(
    18,
    "the store is down while all is well",
    verdict=Verdict.UP,
    then="the queries run on; nothing is decided; what they tracked is stored when it is back",
)
def test_without_the_store_streaming_continues_and_is_recorded_later() -> LiveWorld:
    world = LiveWorld()
    away = AwayStore(world.store)
    site = controller(world, store=cast(ControllerStore, away))
    pass_time(world, 5, site)
    stores = [away, *(driver.store for driver in world.drivers.values())]
    for store in stores:
        store.away = True
    before = len(world.sink.batches)
    pass_time(world, 120, site)
    assert len(world.sink.batches) > before + 60
    for store in stores:
        store.away = False
    pass_time(world, 10, site)
    newest = max(position.batch for position in world.store.positions("revenue"))
    assert newest >= world.checkpoints["/cp/revenue"].batch
    assert_left_alone(world)
    return world


@fault(
    19,
    "the store goes down in the middle of a move",
    verdict=Verdict.DOWN,
    then="the move stops at its last recorded step and continues from there; nothing is done that was not recorded",
)
def test_a_move_waits_for_its_store_at_every_step() -> LiveWorld:
    for phase in (Phase.FENCING, Phase.PREPARING, Phase.STARTING, Phase.VERIFYING):
        world = LiveWorld()
        away = AwayStore(world.store)
        site = controller(world, store=cast(ControllerStore, away))
        pass_time(world, 5, site)
        world.clusters["east"].reachable = False
        pass_time(world, 20, site, until=partial(is_in, world, phase))
        stores = [away, *(driver.store for driver in world.drivers.values())]
        for store in stores:
            store.away = True
        left = only_operation(world)
        pass_time(world, 30, site)
        assert only_operation(world) == left
        for store in stores:
            store.away = False
        pass_time(world, 60, site)
        assert_moved(world)
        assert [start.epoch for start in world.starts] == [1, 2]
    return world


@fault(
    20,
    "the store is restored from a backup older than the last move",
    verdict=Verdict.DOWN,
    then="a runner reports a newer epoch than the store knows: every move is refused until a person reconciles",
)
def test_a_store_that_was_put_back_decides_nothing_until_it_is_reconciled() -> LiveWorld:
    world, site = scene()
    put_back = back_up(world.store)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert_moved(world)
    put_back()
    world.rules.restart()
    world.clusters["west"].reachable = False
    pass_time(world, 60, site)
    assert (active(world), runs_on(world), list(operations(world))) == ("east", "west", [])
    sides = sides_of(world.store, "revenue")
    assert sides is not None
    reconcile(world.store, world.settings, sides, actor="ann", reason="the backup was restored")
    world.clusters["west"].reachable = True
    pass_time(world, 30, site)
    assert (active(world), runs_on(world)) == ("west", "west")
    assert [event.kind for event in events_of(world, "reconcile")] == ["reconcile"]
    return world


@fault(
    50,
    "the same, and every runner is restarted before anybody notices; then the primary dies",
    verdict=Verdict.DOWN,
    then="the old checkpoint is held by an operation that the store does not know. The query is not started "
    "from it, and every move is refused until a person says where it went",
)
def test_a_restored_store_and_forgetful_runners_move_nothing_twice() -> LiveWorld:
    world, site = scene()
    put_back = back_up(world.store)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert_moved(world)
    went_to = world.starts[-1].checkpoint
    world.clusters["east"].reachable = True
    pass_time(world, 30, site)
    for driver in list(world.drivers.values()):
        driver.kill()
    put_back()
    world.rules.restart()
    for name in list(world.drivers):
        world.start(name)
    pass_time(world, 10, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert (active(world), runs_on(world), list(operations(world))) == ("east", None, [])
    lost = lost_of(world.store, "revenue")
    assert lost is not None
    reconcile_by_hand(
        world.store, world.settings, lost, cluster="west", checkpoint=went_to, runner=None, actor="ann", reason=""
    )
    pass_time(world, 30, site)
    assert (active(world), runs_on(world)) == ("west", "west")
    return world


@fault(
    46,
    "the store answers each question only after 400 ms",
    verdict=Verdict.UP,
    then="late probes do not count: while it cannot keep up it has no verdict and moves nothing; later all is well",
)
def test_a_slow_store_delays_decisions_and_makes_no_wrong_one() -> LiveWorld:
    world = LiveWorld()
    slow = SlowStore(world.store, world.clock.wait)
    first, second = controller(world, "one", store=cast(ControllerStore, slow)), controller(world, "two")
    pass_time(world, 5, first, second)
    slow.seconds = 0.4
    pass_time(world, 120, first, second)
    assert_left_alone(world)
    slow.seconds = 0.0
    pass_time(world, 20, first, second)
    assert verdict(world) is Verdict.UP
    world.clusters["east"].reachable = False
    slow.seconds = 0.4
    pass_time(world, 120, first, second)
    assert_moved(world)
    return world


def is_in(world: LiveWorld, phase: Phase) -> bool:
    return any(operation.phase is phase for operation in operations(world))


class SlowStore:
    """A store each of whose answers takes its time."""

    def __init__(self, store: ControllerStore, wait: Callable[[float], None]) -> None:
        self._store = store
        self._wait = wait
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        def requested(*args: object, **kwargs: Any) -> object:
            self._wait(self.seconds)
            return verb(*args, **kwargs)

        return requested
