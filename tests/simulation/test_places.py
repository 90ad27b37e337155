"""Querying the standby: how long an answer counts, and how long that there was none."""

from orchestrator.decide.lookup_wants import rules_of
from orchestrator.facts.gather import SILENCE_SECONDS, FactGatherer
from orchestrator.facts.resume_offsets import STANDBY_SECONDS
from state.model.entities import OperationKind
from state.settings.keys import Route, Source
from tests.simulation.world import World


def requested(world: World, gatherer: FactGatherer) -> tuple[int, bool]:
    """How many questions one look costs, and whether the standby is believed to be there."""
    before = world.clusters["west"].requested
    standby = gatherer.before(OperationKind.FAILOVER, "revenue", "west").standby
    assert standby is not None
    return world.clusters["west"].requested - before, standby.reachable


def test_a_standby_gets_one_request_for_many_queries_if_it_answers_or_not() -> None:
    world = World()
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    assert [requested(world, gatherer), requested(world, gatherer)] == [(1, True), (0, True)]
    world.clusters["west"].reachable = False
    assert requested(world, gatherer) == (0, True)
    world.clock.wait(STANDBY_SECONDS)
    assert [requested(world, gatherer), requested(world, gatherer)] == [(1, False), (0, False)]


def test_a_standby_that_comes_back_is_seen_soon() -> None:
    world = World()
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    world.clusters["west"].reachable = False
    assert requested(world, gatherer) == (1, False)
    world.clusters["west"].reachable = True
    world.clock.wait(SILENCE_SECONDS)
    assert requested(world, gatherer) == (1, True)


def test_a_runner_that_was_last_seen_in_a_time_to_come_is_not_alive() -> None:
    """The store's clock was set back since, and a living one says so again within a second."""
    world = World()
    gatherer = FactGatherer(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    world.clock.wait(1)
    assert [fact.runner for fact in gatherer.alive("revenue")] == ["a"]
    world.runner.alive = False
    world.clock.store_set_ahead = -3600.0
    assert gatherer.alive("revenue") == ()
    world.runner.alive = True
    world.clock.wait(1)
    assert [fact.runner for fact in gatherer.alive("revenue")] == ["a"]


def test_the_replicator_of_the_route_is_a_rule_of_the_search() -> None:
    world = World()
    route = {"from": "east", "to": "west", "offset_syncs": "mm2-offset-syncs.east.internal", "keeps_offsets": True}
    rules = rules_of(world.settings.queries["revenue"], "fail", Route.model_validate(route))
    assert (rules.offset_syncs, rules.keeps_offsets) == ("mm2-offset-syncs.east.internal", True)
    assert rules.committed_only == frozenset()
    bare = rules_of(world.settings.queries["revenue"], "fail", None)
    assert (bare.offset_syncs, bare.keeps_offsets) == (None, False)


def test_each_source_is_looked_for_as_it_reads() -> None:
    query = World().settings.queries["revenue"]
    declared = {
        "bare": Source(topics=("orders",)),
        "all": Source(topics=("orders",), options={"kafka.isolation.level": "read_uncommitted"}),
        "committed": Source(topics=("orders",), options={"Kafka.Isolation.Level": "read_committed"}),
    }
    rules = rules_of(query.model_copy(update={"sources": declared}), "fail", None)
    assert rules.committed_only == {"committed"}
