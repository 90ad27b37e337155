"""Controllers in the one-process world: real verdicts from looks that the world answers, operations driven in line."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from orchestrator.cluster_watch import ClusterWatch
from orchestrator.controller import STEP_SECONDS, Controller, assemble
from orchestrator.errors import NotLeading
from orchestrator.lease import Leadership
from orchestrator.operation.drill_driver import DrillDriver
from orchestrator.operation.drive import STORE_PAUSE_SECONDS, Driver
from orchestrator.operation.execute import Executor
from orchestrator.operation.scheduler import Scheduler, _defect
from state.errors import StaleTerm, StoreUnavailable, TideoverError
from state.store.controller_store import ControllerStore
from tests.simulation.looks import CREDENTIAL, NO_NETWORK, REFUSED, SILENT, Looks
from tests.simulation.stores import AwayStore
from tests.simulation.world import ManualClock, World


@dataclass(kw_only=True)
class _InHand:
    """An operation in the hands of a driver: since when it has its turn, and when its next step is due."""

    executor: Driver
    began: float
    due: float


@dataclass(kw_only=True)
class InLineScheduler(Scheduler):
    """Drives every operation side by side, as threads would, by one step of each in every round of the world."""

    _in_hand: dict[str, _InHand] = field(default_factory=dict)
    _in_drill: dict[str, _InHand] = field(default_factory=dict)

    def _at_work(self) -> Collection[str]:
        return self._in_hand.keys()

    def _begin(self, operation: str) -> None:
        now = self.clock.monotonic()
        self._in_hand[operation] = _InHand(executor=self._made(Executor), began=now, due=now)

    def _drilling(self) -> Collection[str]:
        return self._in_drill.keys()

    def _rehearse(self, drill: str) -> None:
        now = self.clock.monotonic()
        if drill not in self._in_drill and now >= self._retry_at.get(drill, 0.0):
            self._in_drill[drill] = _InHand(executor=self._made(DrillDriver), began=now, due=now)

    def turn(self) -> None:
        """Let every driver go as far as it can without waiting."""
        for operation, each in list(self._in_hand.items()):
            if self.clock.monotonic() < each.due:
                continue
            if self._is_over(operation, each.began) or not self._goes_on_with(operation, each):
                del self._in_hand[operation]
        for drill, each in list(self._in_drill.items()):
            if self.clock.monotonic() >= each.due and not self._goes_on_with(drill, each):
                del self._in_drill[drill]

    def _goes_on_with(self, name: str, in_hand: _InHand) -> bool:
        pause = 0.0
        try:
            while not pause:
                term = self.lead.term
                operation = self.store.operation(name)
                if operation is None or not operation.is_open:
                    self._has_gone_on(name)
                    return False
                pause = in_hand.executor._tick(operation, term=term)
        except (NotLeading, StaleTerm):
            return False
        except StoreUnavailable:
            pause = STORE_PAUSE_SECONDS
        except TideoverError as error:
            self._has_failed(name, error, in_hand.executor)
            return False
        except Exception as error:  # noqa: BLE001 - as the thread of a driver
            self._has_failed(name, TideoverError(_defect(error)), in_hand.executor)
            return False
        in_hand.due = self.clock.monotonic() + pause
        return True

    def close(self) -> None:
        """Nothing runs."""
        self._in_hand.clear()
        self._in_drill.clear()


def scheduler(world: World, lead: Leadership | None = None) -> InLineScheduler:
    """The scheduler of a process that leads."""
    lead = lead or world.lead()
    assert lead.take()
    return InLineScheduler(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock, lead=lead,
        actor="controller",
    )  # fmt: skip


def see_to(world: World, held: InLineScheduler, seconds: float) -> None:
    """Let a scheduler take what is requested and drive what is open, for so long."""
    until = world.clock.passed + seconds
    while world.clock.passed < until:
        assert held.lead.holds()
        held.take()
        held.turn()
        world.clock.wait(STEP_SECONDS)


@dataclass(kw_only=True)
class Site:
    """One controller process of the world: its eyes, its loop, and whether it runs."""

    controller: Controller
    looks: Looks
    scheduler: InLineScheduler
    frozen: bool = False

    def live(self) -> None:
        """Its probers, which have threads of their own."""
        if not self.frozen:
            self.looks.live()

    def tick(self) -> None:
        if not self.frozen:
            self.controller.tick()
            self.scheduler.turn()


def controller(world: World, name: str = "one", *, store: ControllerStore | None = None) -> Site:
    """A controller that has just been started."""
    store = store or world.store
    looks = Looks(world=world, viewpoint=f"controller:{name}", instance=name, reads_heartbeats=True)
    watching = ClusterWatch(store, world.settings, looks, identities=looks.identities, actor=looks.viewpoint)  # type: ignore[arg-type] # looks stand for an observer
    made = assemble(
        world.settings, store=store, clock=world.clock, lead=world.lead(store), watching=watching,
        logs=looks.log, actor=looks.viewpoint,
    )  # fmt: skip
    real = made.scheduler
    in_line = InLineScheduler(
        store=real.store, settings=real.settings, logs=real.logs, clock=real.clock, lead=real.lead, actor=real.actor,
        width=real.width, retry_seconds=real.retry_seconds,
    )  # fmt: skip
    made.scheduler = in_line
    site = Site(controller=made, looks=looks, scheduler=in_line)
    world.clock.lives.append(site.live)
    return site


def pass_time(world: World, seconds: float, *sites: Site, until: Callable[[], bool] = lambda: False) -> None:
    """Let the controllers live for so long, or until something holds."""
    end = world.clock.passed + seconds
    while world.clock.passed < end and not until():
        for site in sites:
            site.tick()
        world.clock.wait(STEP_SECONDS)


__all__ = [
    "CREDENTIAL",
    "NO_NETWORK",
    "REFUSED",
    "SILENT",
    "AwayStore",
    "Looks",
    "ManualClock",
    "Site",
    "controller",
    "pass_time",
    "scheduler",
    "see_to",
]
