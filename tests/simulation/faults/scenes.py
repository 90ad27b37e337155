"""What every scenario begins with, and what it needs of its world."""

from collections.abc import Sequence
from typing import Any

from state.model.cluster_status import Verdict
from state.model.entities import Event, Operation
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.live import LiveWorld, live_settings

CALM_SECONDS = 5.0


def scene(world: LiveWorld | None = None, *, phase: float = 0.0, **changes: Any) -> tuple[LiveWorld, Site]:
    """A world with one controller, in which all is well for a few seconds; it looks ``phase`` seconds after others."""
    world = world or LiveWorld(live_settings(**changes))
    world.clock.wait(phase)
    site = controller(world)
    pass_time(world, CALM_SECONDS, site)
    assert verdict(world) is Verdict.UP
    return world, site


def verdict(world: LiveWorld, cluster: str = "east") -> Verdict:
    """What is believed of a cluster now."""
    return next(status.verdict for status in world.store.cluster_statuses() if status.cluster == cluster)


def active(world: LiveWorld, query: str = "revenue") -> str:
    """The cluster to which a query is assigned."""
    assignment = world.store.assignment(query)
    assert assignment is not None
    return assignment.cluster


def operations(world: LiveWorld) -> Sequence[Operation]:
    """Newest first."""
    return world.store.operations()


def only_operation(world: LiveWorld) -> Operation:
    (operation,) = world.store.operations()
    return operation


def events_of(world: LiveWorld, kind: str) -> list[Event]:
    """Lines of history of one kind, oldest first."""
    return [event for event in world.store.history(limit=10_000) if event.kind == kind]


def runs_on(world: LiveWorld, query: str = "revenue") -> str | None:
    """The cluster that a query really reads from."""
    run = world.run_of(query)
    return run.row.cluster if run else None


def assert_moved(world: LiveWorld, query: str = "revenue") -> Operation:
    """The query was moved to west once, and runs there."""
    mine = [operation for operation in operations(world) if operation.query == query]
    assert [operation.outcome for operation in mine] == ["done"]
    assert (active(world, query), runs_on(world, query)) == ("west", "west")
    return mine[0]


def assert_left_alone(world: LiveWorld) -> None:
    """Nothing was tried, and the query runs where it ran."""
    assert list(operations(world)) == []
    assert (active(world), runs_on(world), world.lag() <= 4) == ("east", "east", True)
