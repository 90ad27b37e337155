"""A replicator or a copier sends again what was read: the plan forecasts it, a gate refuses it, and it is measured."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.facts import resume_offsets
from orchestrator.facts.measure import with_outcome
from orchestrator.facts.resume_offsets import COUNT_SECONDS
from state.messages import StateOperator
from state.model.entities import Operation
from streaming.resolve.resolver import resolve
from streaming.resume.model import Resolution
from tests.simulation.control import Site, pass_time
from tests.simulation.faults.scenes import assert_moved, operations, runs_on, scene
from tests.simulation.faults.test_records import totals
from tests.simulation.live import LiveWorld

ALL = 240
"""Records that the query has read."""


def send_again(world: LiveWorld, source: str, target: str, *, first: int = 0, last: int = 1_000_000) -> int:
    """Copy every partition once more, behind all that is there; returns how many records that were."""
    sent = 0
    for key in world.clusters[source].ends("orders"):
        for record in world.clusters[source].between("orders", key.partition, first, last):
            if record.digest in world.origin:
                world.clusters[target].append("orders", key.partition, record.timestamp_ms, record.digest)
                sent += 1
    return sent


def newest(world: LiveWorld) -> Operation:
    return operations(world)[0]


def returned(world: LiveWorld, site: Site, *consents: str) -> Operation:
    """What came of a request to go back to east."""
    world.request(target="east", consents=consents)
    pass_time(world, 30, site)
    return newest(world)


def refusal(operation: Operation) -> str:
    assert operation.outcome == "refused", operation
    return operation.sentence


def measured(world: LiveWorld, operation: Operation) -> object:
    return with_outcome(operation, world.store, world.clusters.__getitem__).measured.replay_records


@pytest.fixture
def idle() -> Iterator[tuple[LiveWorld, Site]]:
    """A query was moved to west, all is read there, nothing is produced any more; east is back, no replicator runs."""
    world, site = scene(LiveWorld(rate=0))
    pass_time(world, 10, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert_moved(world)
    world.replicator.alive, world.clusters["east"].reachable = False, True
    pass_time(world, 10, site)
    yield world, site
    assert world.broken == []


def keep_state(world: LiveWorld) -> None:
    """The query counts, and does not drop what it had already."""
    for checkpoint in world.checkpoints.values():
        checkpoint.operators = (StateOperator(id=0, name="stateStoreSave", partitions=2),)


def test_a_copier_from_the_beginning_never_repeats_into_state(idle: tuple[LiveWorld, Site]) -> None:
    world, site = idle
    keep_state(world)
    sent = send_again(world, "west", "east")
    refused = refusal(returned(world, site))
    assert refused.startswith(
        "repeats-into-state: records of orders-0, orders-1 would be counted twice in the state"
    ), refused
    assert totals(newest(world))["replay_records"] == sent == ALL
    assert runs_on(world) == "west"
    moved = returned(world, site, "repeats")
    assert (moved.outcome, totals(moved)["replay_records"], runs_on(world)) == ("done", sent, "east")
    assert world.account() == (0, sent)
    assert measured(world, moved) == sent


def test_without_copies_the_way_back_is_exact_for_a_query_with_state(idle: tuple[LiveWorld, Site]) -> None:
    world, site = idle
    keep_state(world)
    moved = returned(world, site)
    assert (moved.outcome, totals(moved)["replay_records"], runs_on(world)) == ("done", 0, "east")
    assert measured(world, moved) == 0


def test_a_copy_that_lags_is_shown_with_what_is_to_come(idle: tuple[LiveWorld, Site]) -> None:
    world, site = idle
    keep_state(world)
    sent = send_again(world, "west", "east", last=60)
    assert refusal(returned(world, site)).startswith("repeats-into-state: records of orders-0, orders-1")
    known = totals(newest(world))
    assert (known["replay_records"], known["replay_later_records"]) == (sent, ALL - sent)


def lost_behind_copies() -> tuple[LiveWorld, Site, int]:
    """A query with state on east, of which the replicator has sent that many records again before east died."""
    world, site = scene(LiveWorld(rate=0))
    keep_state(world)
    pass_time(world, 10, site)
    sent = send_again(world, "east", "west", first=70)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    return world, site, sent


def test_a_move_that_an_unknown_number_would_refuse_searches_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, where the usual time is over before what was sent again is read."""
    searched: list[float | None] = []

    def hurried(*requested: Any, **how: Any) -> Resolution:
        searched.append(how.get("search_seconds"))
        found = resolve(*requested, **how)
        if searched[-1] is not None:
            return found
        unknown = tuple(replace(target, exact=False, replay_records=None) for target in found.targets)
        return replace(found, targets=unknown, search_cut_short=True)

    monkeypatch.setattr(resume_offsets, "resolve", hurried)
    world, site, sent = lost_behind_copies()
    assert (newest(world).outcome, totals(newest(world))["replay_records"]) == ("refused", sent)
    assert searched.count(COUNT_SECONDS) == 1, "who only looks does not wait"
    world.request(consents=("repeats",))
    pass_time(world, 30, site)
    assert (newest(world).outcome, totals(newest(world))["replay_records"]) == ("done", None)
    assert searched.count(COUNT_SECONDS) == 1, "a person has accepted any number"


def test_a_replicator_that_sends_again_while_a_topic_is_idle_is_forecast() -> None:
    world, site, sent = lost_behind_copies()
    assert refusal(newest(world)).startswith(
        "repeats-into-state: records of orders-0, orders-1 would be counted twice in the state"
    )
    world.request(consents=("repeats",))
    pass_time(world, 30, site)
    moved = newest(world)
    assert (moved.outcome, totals(moved)["replay_records"]) == ("done", sent)
    assert world.account() == (0, sent)
    assert measured(world, moved) == sent
