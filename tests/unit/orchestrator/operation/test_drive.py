"""One loop for moves and drills: a store that is away is waited for, and runners are heard again after it."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from orchestrator.lease import Leadership
from orchestrator.operation.drill_driver import DrillDriver
from orchestrator.operation.drive import HEARTS_SECONDS, STORE_PAUSE_SECONDS, Driver
from orchestrator.operation.execute import Executor
from state.errors import StoreUnavailable
from state.model.entities import Operation
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from tests.contract import samples


class Clock:
    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.passed += seconds


class AwayStore:
    """Holds one operation, and is away until so many seconds have passed."""

    def __init__(self, clock: Clock, until: float) -> None:
        self.clock, self.until = clock, until

    def operation(self, operation_id: str) -> Operation:
        if self.clock.passed < self.until:
            raise StoreUnavailable("away")
        return samples.operation(id=operation_id)


def began(driver: type[Driver], away: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """When its first tick begins, in seconds, while the store is away for so long."""
    clock, ticks = Clock(), list[float]()

    def tick(self: Driver, operation: Operation, *, term: int) -> float:
        ticks.append(clock.passed)
        return 0.0

    monkeypatch.setattr(driver, "_tick", tick)
    driver(
        store=cast(ControllerStore, AwayStore(clock, away)), settings=cast(Tideover, None), logs=lambda _: None,  # type: ignore[arg-type,return-value] # no cluster is read
        clock=clock, lead=cast(Leadership, SimpleNamespace(term=1)), actor="controller",
    ).drive("op-1", going_on=lambda: not ticks)  # fmt: skip
    return ticks[0]


@pytest.mark.parametrize("driver", [Executor, DrillDriver])
def test_runners_are_heard_again_after_a_store_that_was_away(
    driver: type[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick at once would find each runner silent, and end a drill for that."""
    assert began(driver, 0.0, monkeypatch) == 0.0
    assert began(driver, 2 * STORE_PAUSE_SECONDS, monkeypatch) == 2 * STORE_PAUSE_SECONDS, "shorter than two beats"
    assert began(driver, 2 * HEARTS_SECONDS, monkeypatch) == 3 * HEARTS_SECONDS
