"""Faults, and people at work, in any order and at any distance: the rules hold at every moment, and all ends well."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.decide.times import instant
from orchestrator.errors import Refused
from orchestrator.operation.pauses import acknowledge, pause, resume
from orchestrator.operation.reconcile import lost_of, reconcile, reconcile_by_hand, sides_of
from state.model.automation import EVERY
from state.model.entities import OperationKind
from tests.contract.samples import plan_of
from tests.simulation.control import REFUSED, Site, controller, pass_time
from tests.simulation.live import LiveWorld
from tests.simulation.stores import AwayStore, back_up
from tests.simulation.world import QUERY
from tests.thorough import tries

HOSTS = ({"a": "host-one", "b": "host-one"}, {"a": "host-one", "b": "host-two"})
SECONDS = (0.2, 0.7, 1.9, 6.0, 15.0)
HEALED_SECONDS = 200.0
REWIND_SECONDS = 20.0
LOOKED_SECONDS = 20.0
"""How long a person lets the mended world settle before looking whether the store must be reconciled."""


class Stage:
    """A world with two controllers, in which each act turns something around."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self.world = LiveWorld(hosts=hosts)
        self.stores = [AwayStore(self.world.store) for _ in range(2)]
        one, two = (
            controller(self.world, name, store=store) for name, store in zip(("one", "two"), self.stores, strict=True)
        )
        self.sites: tuple[Site, Site] = (one, two)
        self._put_back: Callable[[], None] | None = None
        self._was_put_back = False
        self._plans: dict[str, Mapping[str, Any]] = {}
        """By operation, of those that a store knew that was replaced by an older copy."""

    def pass_time(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        pass_time(self.world, seconds, *self.sites, until=until)

    # -- acts ------------------------------------------------------------------------------------------------------
    def kill_or_start_east(self) -> None:
        self.world.clusters["east"].reachable ^= True

    def kill_or_start_west(self) -> None:
        self.world.clusters["west"].reachable ^= True

    def freeze_or_thaw_east(self) -> None:
        self.world.clusters["east"].silent ^= True

    def cut_or_mend_the_first_controllers_network(self) -> None:
        blocked = self.sites[0].looks.blocked
        blocked.update({"east": REFUSED}) if not blocked else blocked.clear()

    def freeze_or_thaw_the_first_controller(self) -> None:
        self.sites[0].frozen ^= True

    def freeze_or_thaw_the_second_controller(self) -> None:
        self.sites[1].frozen ^= True

    def take_or_give_the_controllers_their_store(self) -> None:
        for store in self.stores:
            store.away ^= True

    def take_or_give_a_its_store(self) -> None:
        self.world.drivers["a"].store.away ^= True

    def kill_or_start_a(self) -> None:
        self._turn("a")

    def kill_or_start_b(self) -> None:
        self._turn("b")

    def freeze_or_thaw_a(self) -> None:
        self.world.drivers["a"].frozen ^= True

    def freeze_or_thaw_b(self) -> None:
        self.world.drivers["b"].frozen ^= True

    def let_a_be_stubborn_or_obey(self) -> None:
        self.world.drivers["a"].is_stubborn ^= True

    def stop_or_start_the_replicator(self) -> None:
        self.world.replicator.alive ^= True

    def set_the_clock(self) -> None:
        self.world.clock.set_ahead = 3600.0 - self.world.clock.set_ahead

    def set_the_stores_clock(self) -> None:
        self.world.clock.store_set_ahead = 3600.0 - self.world.clock.store_set_ahead

    def copy_or_put_back_the_store(self) -> None:
        """Put back, it is an older one, and nothing may be decided of a query that has moved since."""
        if self._put_back is None:
            self._put_back = back_up(self.world.store)
            return
        self._plans |= self._known_plans()
        self._put_back()
        self._put_back, self._was_put_back = None, True
        self.world.rules.restart()

    def request_west(self) -> None:
        self.world.request(target="west")

    def request_east(self) -> None:
        self.world.request(target="east")

    def request_a_switchover_to_west(self) -> None:
        self.world.request(kind=OperationKind.SWITCHOVER, target="west")

    def request_a_switchover_to_east(self) -> None:
        """Nothing copies from west to east here, and no record was written to west alone."""
        self.world.request(kind=OperationKind.SWITCHOVER, target="east", consents=("replication",))

    def request_a_failback(self) -> None:
        """As above, by its own verb."""
        self.world.request(kind=OperationKind.FAILBACK, target="east", consents=("replication",))

    def request_a_rewind(self) -> None:
        """By 20 seconds, on the cluster where the query is by now."""
        row = self.world.store.assignment(QUERY)
        assert row is not None
        then = round((self.world.clock.store_now().timestamp() - REWIND_SECONDS) * 1000)
        parameters = {"to_time": instant(then)}
        self.world.request(kind=OperationKind.REWIND, target=row.cluster, parameters=parameters)

    def pause_or_resume(self) -> None:
        if resume(self.world.store, EVERY, actor="ann", reason="") is None:
            pause(self.world.store, EVERY, until=None, actor="ann", reason="")

    def acknowledge(self) -> None:
        try:
            acknowledge(self.world.store, self.world.settings, QUERY, actor="ann", reason="")
        except Refused:
            return

    def _turn(self, name: str) -> None:
        driver = self.world.drivers[name]
        if driver.alive:
            driver.kill()
        else:
            self.world.start(name)

    # -- the end ---------------------------------------------------------------------------------------------------
    def heal(self) -> None:
        """Everything is mended; then there is time to finish what was begun."""
        for cluster in self.world.clusters.values():
            cluster.reachable, cluster.silent = True, False
        for store in self.stores:
            store.away = False
        for site in self.sites:
            site.frozen = False
            site.looks.blocked.clear()
        for name, driver in list(self.world.drivers.items()):
            driver.frozen, driver.is_stubborn, driver.store.away = False, False, False
            if not driver.alive:
                self.world.start(name)
        self.world.replicator.alive = True
        if self._was_put_back:
            self.pass_time(LOOKED_SECONDS, until=self._is_calm)
            self._reconcile()
        self.pass_time(HEALED_SECONDS, until=self._is_calm)
        if self._was_put_back and lost_of(self.world.store, QUERY) is not None:
            self._reconcile()
            self.pass_time(HEALED_SECONDS, until=self._is_calm)

    def _reconcile(self) -> None:
        """A person looks at a query that the store knows less of than its runners, or its checkpoint.

        Again where its checkpoint turns out to be fenced: a run that never stopped does not know of a lost operation.
        """
        store, configured = self.world.store, self.world.settings
        sides = sides_of(store, QUERY)
        if sides is not None:
            reconcile(store, configured, sides, actor="ann", reason="")
            return
        if self._is_place_awaited():
            self.pass_time(LOOKED_SECONDS, until=lambda: not self._is_place_awaited())
        lost = lost_of(store, QUERY)
        if lost is not None:
            went_to = self.world.starts[-1]
            reconcile_by_hand(
                store, configured, lost, cluster=went_to.cluster, checkpoint=went_to.checkpoint, runner=None,
                actor="ann", reason="",
            )  # fmt: skip

    def _is_place_awaited(self) -> bool:
        """Whether a runner has still to read where the query is, as the refusal says."""
        lost = lost_of(self.world.store, QUERY)
        return lost is not None and lost.place is None

    def _is_calm(self) -> bool:
        run, row = self.world.run_of(QUERY), self.world.store.assignment(QUERY)
        runs = run is not None and row is not None and run.row.epoch == row.epoch
        return runs and not self._unfinished() and self.world.lag() <= 4

    def _unfinished(self) -> list[str]:
        store = self.world.store
        return [each.sentence for each in store.operations(only_open=True)] + [r.id for r in store.open_requests()]

    def assert_all_is_well(self) -> None:
        """The rules held; nothing is lost, no more repeated than was announced; the query runs where it is placed."""
        world = self.world
        assert world.broken == []
        assert self._unfinished() == []
        run, row = world.run_of(QUERY), world.store.assignment(QUERY)
        assert run is not None
        assert row is not None
        assert (run.row.epoch, run.row.cluster, world.lag() <= 4) == (row.epoch, row.cluster, True)
        account, announced = world.account(), self._announced()
        assert account.lost == 0
        assert announced is None or account.repeated <= announced

    def _announced(self) -> int | None:
        """Repeats of all moves that were forecast; None where one could not be known."""
        counts = [
            plan["totals"][name]
            for plan in (self._plans | self._known_plans()).values()
            for name in ("replay_records", "possible_replay_records", "replay_later_records")
        ]
        return None if None in counts else sum(counts)

    def _known_plans(self) -> dict[str, Mapping[str, Any]]:
        """By operation. One that the store has without its plan may have gone on after the copy was taken."""
        return {each.id: plan_of(each) for each in self.world.store.operations() if each.plan is not None}


ACTS = tuple(sorted(name for name in vars(Stage) if "_or_" in name or name.startswith(("set_", "request_", "ackn"))))
Schedule = list[tuple[str, float]]
SCHEDULES = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(SECONDS)), min_size=1, max_size=10)


def play(hosts: Mapping[str, str], schedule: Schedule) -> None:
    stage = Stage(hosts)
    stage.pass_time(3)
    for act, seconds in schedule:
        getattr(stage, act)()
        stage.pass_time(seconds)
        assert stage.world.broken == []
    stage.heal()
    stage.assert_all_is_well()


PUT_BACK_WHILE_FENCED: Schedule = [
    ("take_or_give_a_its_store", 0.2), ("copy_or_put_back_the_store", 15.0), ("request_west", 1.9),
    ("copy_or_put_back_the_store", 0.2), ("let_a_be_stubborn_or_obey", 1.9), ("kill_or_start_west", 15.0),
]  # fmt: skip

SET_BACK_WHILE_BLOCKED: Schedule = [
    ("let_a_be_stubborn_or_obey", 0.2), ("freeze_or_thaw_a", 6.0), ("request_west", 1.9),
    ("set_the_stores_clock", 6.0), ("request_west", 0.7), ("request_west", 15.0), ("set_the_clock", 6.0),
    ("set_the_stores_clock", 0.7), ("freeze_or_thaw_a", 1.9), ("freeze_or_thaw_a", 6.0),
]  # fmt: skip
"""What was requested while the store's clock was ahead stays the newest by time, until an hour later."""

PUT_BACK_WHILE_TAKEN_OVER: Schedule = [
    ("kill_or_start_east", 1.9), ("copy_or_put_back_the_store", 0.2), ("take_or_give_a_its_store", 0.2),
    ("kill_or_start_a", 0.2), ("copy_or_put_back_the_store", 1.9), ("copy_or_put_back_the_store", 1.9),
    ("copy_or_put_back_the_store", 0.2), ("acknowledge", 0.2), ("acknowledge", 0.2),
]  # fmt: skip
"""The takeover is begun again, under the epoch that it had, and fences the checkpoint that its runner went to."""

CALLED_OFF_WITHOUT_PROOF: Schedule = [("let_a_be_stubborn_or_obey", 0.2), ("request_west", 0.7), ("request_east", 6.0)]
"""Back where it was, on the very runner whose old run no one has seen quiet."""


PUT_BACK_WITHOUT_ITS_PLAN: Schedule = [
    ("acknowledge", 0.2), ("kill_or_start_east", 1.9), ("acknowledge", 0.2),
    ("freeze_or_thaw_the_second_controller", 1.9), ("request_a_rewind", 0.2),
    ("copy_or_put_back_the_store", 0.2), ("copy_or_put_back_the_store", 0.2),
]  # fmt: skip
"""The copy of the store has the rewind, and not yet what it announced: that was done all the same."""

PUT_BACK_TWO_MOVES: Schedule = [
    ("request_west", 0.2), ("copy_or_put_back_the_store", 0.2), ("let_a_be_stubborn_or_obey", 0.7),
    ("request_east", 0.2), ("copy_or_put_back_the_store", 0.2),
]  # fmt: skip
"""The run of the first move is found at once, the fence of the second only when it starts again."""


@example(hosts=HOSTS[0], schedule=PUT_BACK_WITHOUT_ITS_PLAN)
@example(hosts=HOSTS[0], schedule=PUT_BACK_TWO_MOVES)
@example(hosts=HOSTS[0], schedule=CALLED_OFF_WITHOUT_PROOF)
@example(hosts=HOSTS[0], schedule=PUT_BACK_WHILE_TAKEN_OVER)
@example(hosts=HOSTS[0], schedule=SET_BACK_WHILE_BLOCKED)
@example(hosts=HOSTS[1], schedule=PUT_BACK_WHILE_FENCED)
@given(hosts=st.sampled_from(HOSTS), schedule=SCHEDULES)
@settings(max_examples=tries(25), derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_no_order_of_faults_breaks_a_rule_and_all_of_them_end_well(
    hosts: Mapping[str, str], schedule: Schedule
) -> None:
    play(hosts, schedule)


@pytest.mark.long
@pytest.mark.timeout(14_400)
@given(hosts=st.sampled_from(HOSTS), schedule=SCHEDULES)
@settings(max_examples=5_000, suppress_health_check=[HealthCheck.too_slow])
def test_no_order_of_faults_breaks_a_rule_however_many_are_tried(hosts: Mapping[str, str], schedule: Schedule) -> None:
    play(hosts, schedule)
