"""A store that is lost without a backup: an empty one takes its place, and runners and files show where queries are."""

import pytest

from orchestrator.operation.reconcile import lost_of, reconcile, reconcile_as_found, sides_of
from state.model.entities import Assignment
from tests.memory_store import MemoryStore
from tests.simulation.world import QUERY, World, settings

PLACE = 33 + 100
"""Where the query is on west."""


def moved(resume: str) -> World:
    """The query is on west, under epoch 2."""
    world = World(settings(resume=resume))
    world.runner.companion = world.other.companion = resume == "switch"
    world.clock.wait(1.5)
    done = world.carry_out(world.request())
    assert done is not None
    assert (done.outcome, world.starts[-1].cluster) == ("done", "west")
    return world


def lose(world: World, *, restarted: bool) -> None:
    """An empty store; a runner that is restarted adopts what no row speaks of, as ``Runner`` does."""
    store = MemoryStore(world.clock.store_now)
    world.store = world.runner.store = world.other.store = store
    if restarted:
        world.runner.instance = "two"
        world.runner.ran.clear()
        world.runner.runs.clear()
        first = Assignment.first(
            QUERY, cluster="east", runner="a", checkpoint="/cp/revenue", now=world.clock.now()
        )  # fmt: skip
        store.adopt(first)
    world.clock.wait(6)


def back(world: World) -> tuple[str | None, str]:
    """A failover to east: what became of it, and the methods of its resume offsets."""
    done = world.carry_out(world.request(target="east"))
    assert done is not None
    assert done.plan is not None
    return done.outcome, ", ".join(sorted({str(row.method) for row in done.plan.partitions}))


@pytest.mark.parametrize("resume", ["switch", "carry"])
def test_a_runner_that_lives_shows_an_empty_store_where_its_query_is(resume: str) -> None:
    world = moved(resume)
    runs = len(world.starts)
    lose(world, restarted=False)
    assert len(world.starts) == runs, "what runs continues"
    sides = sides_of(world.store, QUERY)
    assert sides is not None
    assert (sides.stored, sides.runs.cluster, sides.runs.epoch) == (None, "west", 2)
    now = reconcile(world.store, world.settings, sides, actor="ann", reason="the store burned")
    assert (now.cluster, now.epoch, now.mapping) == ("west", 3, world.starts[-1].mapping)
    world.clock.wait(2)
    assert [(each.cluster, each.epoch) for each in world.starts[runs:]] == [("west", 3)]


@pytest.mark.parametrize("resume", ["switch", "carry"])
def test_the_files_show_an_empty_store_where_a_query_is(resume: str) -> None:
    world = moved(resume)
    runs = len(world.starts)
    lose(world, restarted=True)
    assert len(world.starts) == runs, "it is not started on its first cluster"
    lost = lost_of(world.store, QUERY)
    assert lost is not None
    now = reconcile_as_found(world.store, world.settings, lost, runner=None, actor="ann", reason="the store burned")
    assert (now.cluster, now.epoch) == ("west", 3)
    world.clock.wait(2)
    assert [(each.cluster, each.epoch) for each in world.starts[runs:]] == [("west", 3)]


def test_a_query_that_never_moved_needs_no_word() -> None:
    world = World()
    world.clock.wait(1.5)
    lose(world, restarted=True)
    assert (sides_of(world.store, QUERY), lost_of(world.store, QUERY)) == (None, None)
    assert [(each.cluster, each.epoch) for each in world.starts] == [("east", 1)]


def test_positions_of_an_empty_store_come_with_the_next_batch() -> None:
    world = moved("switch")
    lose(world, restarted=False)
    sides = sides_of(world.store, QUERY)
    assert sides is not None
    reconcile(world.store, world.settings, sides, actor="ann", reason="")
    world.clock.wait(2)
    assert back(world) == ("refused", "None")
    world.track(QUERY, 9, PLACE, cluster="west", epoch=3)
    assert back(world) == ("done", "exact")
