"""What a controller costs while nothing happens: its store is left alone, and wakes it when something does."""

from collections import Counter
from typing import Any

from orchestrator.controller import REST_STEP_SECONDS, STEP_SECONDS
from state.model.cluster_status import Verdict
from state.store.controller_store import ControllerStore
from tests.simulation.control import REFUSED, Site, controller, pass_time
from tests.simulation.world import World

MINUTE = 60.0


class CountedStore:
    """Counts what a controller reads and writes."""

    def __init__(self, store: ControllerStore) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        def counted(*args: object, **kwargs: Any) -> object:
            self.calls[name] += 1
            return verb(*args, **kwargs)

        return counted


def at_work(seconds: float = 5.0) -> tuple[World, CountedStore, Site]:
    """A controller that has led for a while, counted from now on."""
    world = World()
    store = CountedStore(world.store)
    site = controller(world, store=store)
    pass_time(world, seconds, site)
    store.calls.clear()
    return world, store, site


def test_verdicts_at_rest_are_renewed_only_as_often_as_readers_need() -> None:
    world, store, site = at_work()
    pass_time(world, MINUTE, site)
    rounds = MINUTE / 2
    assert rounds - 2 <= store.calls["save_probe_reports"] <= rounds + 2
    assert store.calls["record_status"] == 2 * store.calls["save_probe_reports"]
    assert store.calls["probe_reports"] <= rounds + 2
    assert store.calls["assignments"] == 0, "nobody is down: no query has to leave"
    oldest = min(status.decided_at for status in world.store.cluster_statuses())
    assert (world.store.now() - oldest).total_seconds() <= 2.5


def test_a_cluster_that_is_down_is_judged_after_each_probe_not_each_tick() -> None:
    world, store, site = at_work()
    world.clusters["east"].reachable = False
    pass_time(world, 5.0, site)
    assert world.store.cluster_statuses()[0].verdict is Verdict.DOWN
    store.calls.clear()
    pass_time(world, MINUTE, site)
    assert store.calls["probe_reports"] <= 2 * MINUTE + 2, "as often as looks end"
    assert store.calls["record_status"] <= 2 * MINUTE + 2, "both clusters, once a second"
    assert store.calls["assignments"] <= 2 * MINUTE + 2


def test_a_change_at_rest_is_noticed_within_the_probe_interval() -> None:
    world, _, site = at_work()
    pass_time(world, 30.25, site)
    struck = world.clock.passed
    site.looks.blocked["east"] = REFUSED
    pass_time(world, 30.0, site, until=lambda: world.store.cluster_statuses()[0].verdict is Verdict.SUSPECT)
    assert world.clock.passed - struck <= 1.2
    pass_time(world, 30.0, site, until=lambda: world.store.cluster_statuses()[0].verdict is Verdict.DOWN)
    assert world.clock.passed - struck <= 1.65


def test_while_a_cluster_is_in_doubt_rounds_follow_each_other_sooner() -> None:
    world, _, site = at_work()
    assert site.controller.step_seconds(woken=False) == REST_STEP_SECONDS
    assert site.controller.step_seconds(woken=True) == site.controller.rest_seconds > REST_STEP_SECONDS
    site.looks.blocked["west"] = REFUSED
    pass_time(world, 3.0, site)
    assert {site.controller.step_seconds(woken=woken) for woken in (True, False)} == {STEP_SECONDS}
