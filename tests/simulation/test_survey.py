"""Looking on: every look is new, and what is large is read now and then only."""

from dataclasses import replace

from orchestrator.survey import SLOW_SECONDS, Survey
from tests.simulation.control import controller, pass_time
from tests.simulation.world import QUERY, World, settings


def test_a_look_tells_what_stands_and_reads_what_is_large_now_and_then() -> None:
    world = World()
    survey = Survey(world.store, world.settings, world.clock)
    first = survey.take()
    assert [(each.query, each.cluster, each.lag_records) for each in first.queries] == [(QUERY, "east", 40)]
    world.store.save_ends(replace(end, end=end.end + 7) for end in world.store.ends("east").values())
    world.clock.wait(SLOW_SECONDS / 2)
    assert survey.take().queries[0].lag_records == 40
    world.clock.wait(SLOW_SECONDS)
    later = survey.take()
    assert later.queries[0].lag_records == 54
    assert later.at > first.at


def test_an_automatic_move_is_seen_from_its_beginning_to_its_cool_down() -> None:
    world = World(settings(policy={"automatic": True}))
    site, survey = controller(world), Survey(world.store, world.settings, world.clock)
    pass_time(world, 5, site)
    assert survey.take().leader is not None
    world.clusters["east"].reachable = False
    world.runner.answers = False
    pass_time(world, 20, site)
    moving = survey.take()
    (operation,) = moving.operations
    assert (moving.queries[0].operation, moving.queries[0].state) == (operation.id, "held")
    assert moving.clusters["east"] is not None
    assert moving.clusters["east"].verdict == "DOWN"
    world.runner.answers = True
    pass_time(world, 20, site)
    moved = survey.take()
    assert (moved.operations, moved.queries[0].cluster) == ((), "west")
    assert moved.cooldowns[QUERY].operation == operation.id
    assert moved.queries[0].automatic == "cooling-down"
    assert moved.events[-1].sequence == world.store.history()[-1].sequence
