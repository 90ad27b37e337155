"""The person who requests a move takes upon himself what nothing proves; automatic mode has no person for that."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.move_facts import MoveFacts
from orchestrator.facts.gather import FactGatherer
from state.model.automation import AUTOMATIC
from state.model.entities import Operation, TopicPartition
from state.model.fingerprints import back, timestamps_of
from state.model.timeline import Moment, SourcePartition, Stretch
from tests.contract import samples
from tests.contract.samples import plan_of
from tests.simulation.clusters import digest_of
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.live import LiveWorld, live_settings
from tests.simulation.world import QUERY, World, settings


def moved_by_itself(world: World) -> Operation:
    """By a controller, because east is dead."""
    site = controller(world)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site, until=lambda: any(not each.is_open for each in world.store.operations()))
    (operation,) = world.store.operations()
    assert operation.actor == AUTOMATIC
    return operation


def moved_by_a_person(world: World) -> Operation:
    operation = world.carry_out(world.request())
    assert operation is not None
    return operation


def unattended() -> World:
    return World(settings(policy={"automatic": True}))


def empty_the_standby(world: World) -> None:
    world.clusters["west"].create("orders", 2)


def forget_the_newest_times(world: World) -> None:
    world.store.save_ends(replace(sample, newest_timestamp_ms=None) for sample in world.store.ends("east").values())
    for partition in (0, 1):  # behind the query: how many records it lacks cannot be counted either
        world.clusters["west"].truncate("orders", partition, 120)


@pytest.mark.parametrize("hide", [empty_the_standby, forget_the_newest_times])
def test_an_unknown_loss_is_a_persons_to_accept(hide: Callable[[World], None]) -> None:
    world = unattended()
    hide(world)
    alone = moved_by_itself(world)
    assert alone.outcome == "refused"
    assert alone.sentence.startswith("exposure: it is unknown what the standby lacks of orders-0, orders-1")
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    assert assignment.cluster == "east"
    assert moved_by_a_person(world).outcome == "done"


def test_a_known_loss_within_the_limit_is_nobodys_question() -> None:
    assert moved_by_itself(unattended()).outcome == "done"


@pytest.mark.parametrize(("name", "consent"), [("schemas-agree", "columns"), ("answers-consistent", "gap")])
def test_a_refusal_of_the_last_check_refuses_the_move(name: str, consent: str) -> None:
    """The cluster that is left cannot be queried any more."""
    world = unattended()
    said = {"name": name, "ok": False, "measured": "differ", "limit": "agree", "text": "as checked"}
    now, lead = world.store.now(), world.lead()
    assert lead.take()
    found = samples.readiness(query=QUERY, target="west", ready=False, gates=(said,), since=now, sampled_at=now)
    world.store.keep_readiness(found, term=lead.term, event=samples.event())
    lead.give_up()
    world.clusters["east"].reachable = False
    request = world.request()
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.refused or "").startswith(f"{name}: as checked; --consent {consent} accepts")
    moved = world.carry_out(world.request(consents=(consent,)))
    assert moved is not None
    assert moved.outcome == "done"


class Busy(LiveWorld):
    """Producers write ten times a second, each with a clock of its own."""

    def __init__(self, *, rate: float, out_of_order_ms: int, seed: int, **changes: Any) -> None:
        self._chance, self._out_of_order_ms = random.Random(seed), out_of_order_ms
        super().__init__(live_settings(**changes), rate=rate)

    def _produce_second(self) -> None:
        self._due = self.clock.passed + 0.1
        east = self.clusters["east"]
        for number in self.partitions if east.lives else ():
            for _ in range(max(1, round(self.rate / 10))):
                self.produced += 1
                key, late = f"new-{self.produced}", self._chance.randrange(self._out_of_order_ms + 1)
                self.origin[digest_of(key)] = "east"
                east.write("orders", number, key, round(self.clock.store_now().timestamp() * 1000) - late)
        self.replicator.live()


@pytest.mark.parametrize(
    ("rate", "behind", "out_of_order_ms"),
    [
        (20, 0.0, 0),
        (20, 0.0, 50),
        (100, 0.2, 300),
        (20, 1.0, 0),
        (20, 0.5, 50),
        (100, 1.0, 50),
        (20, 2.0, 3_000),
        (3, 5.0, 100),
        (100, 2.0, 20),
    ],
)
def test_a_replicator_that_lags_under_load_leaves_no_number_unknown(
    rate: float, behind: float, out_of_order_ms: int
) -> None:
    """In ordinary operation the sample of the ends is up to a second old, and the last records are on their way."""
    seed = random.randrange(1 << 32)
    world = Busy(rate=rate, out_of_order_ms=out_of_order_ms, seed=seed)
    world.replicator.behind_seconds = behind
    site = controller(world)
    pass_time(world, 20, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site, until=lambda: any(not each.is_open for each in world.store.operations()))
    (operation,) = world.store.operations()
    assert (operation.outcome, operation.actor) == ("done", AUTOMATIC), f"seed {seed}: {operation.sentence}"
    plan: Any = plan_of(operation)
    unknown = [name for name in FORECAST if plan["totals"][name] is None]
    assert unknown == [], f"seed {seed}"
    assert (world.account(), world.broken) == ((0, 0), []), f"seed {seed}"


FORECAST = (
    "replay_records", "possible_replay_records", "replay_later_records", "exposure_records", "exposure_seconds",
    "first_batch_records",
)  # fmt: skip


def test_a_lag_beyond_what_is_remembered_is_bounded_by_older_batches() -> None:
    """10 s at 100 records a second are four times as many as a partition remembers."""
    world = Busy(rate=100, out_of_order_ms=50, seed=random.randrange(1 << 32))
    world.replicator.behind_seconds = 10.0
    site = controller(world)
    pass_time(world, 40, site)
    operation = left_by_itself(world, site)
    assert operation.outcome == "done", operation.sentence
    totals = bounded_totals(operation)
    assert totals["at_most"]["exposure_seconds"] <= 60
    assert_bounds_hold(world, operation)


@pytest.mark.parametrize(("max_exposure", "outcome"), [("60s", "done"), ("40s", "refused")])
def test_a_lag_beyond_every_batch_is_bounded_by_the_timeline(max_exposure: str, outcome: str) -> None:
    world = Busy(
        rate=40, out_of_order_ms=50, seed=random.randrange(1 << 32),
        policy={"automatic": True, "max_exposure": max_exposure}, buffer="10s",
    )  # fmt: skip
    world.replicator.behind_seconds = 30.0
    site = controller(world)
    lane, moments = [SourcePartition("orders", "orders", number) for number in world.partitions], list[Moment]()
    for _ in range(60):
        pass_time(world, 1, site)
        moments.append(moment_of(world))
    world.store.save_timeline(
        Stretch.of(QUERY, 1, "east", lane, moments, precision_ms=100), keep=timedelta(hours=1)
    )  # fmt: skip
    operation = left_by_itself(world, site)
    assert operation.outcome == outcome, operation.sentence
    if outcome == "done":
        assert 40 < bounded_totals(operation)["at_most"]["exposure_seconds"] <= 60
        assert_bounds_hold(world, operation)
    else:
        assert operation.sentence.startswith("exposure: the standby lacks 4"), operation.sentence
        assert "at most" in operation.sentence


def left_by_itself(world: Busy, site: Site) -> Operation:
    world.clusters["east"].reachable = False
    pass_time(world, 60, site, until=lambda: any(not each.is_open for each in world.store.operations()))
    (operation,) = world.store.operations()
    assert operation.actor == AUTOMATIC
    return operation


def moment_of(world: Busy) -> Moment:
    """How far the query has read, as a recorder takes it."""
    at_ms = -(-round(world.clock.store_now().timestamp() * 1000) // 100) * 100
    rows = {row.partition: row for row in sorted(world.store.positions(QUERY), key=lambda row: row.batch)}
    last = [rows[number] for number in world.partitions]
    times, disorders = [row.timestamp_ms or 0 for row in last], [back(timestamps_of(row.ring)) for row in last]
    return Moment(at_ms, [row.offset for row in last], times, disorders)


def bounded_totals(operation: Operation) -> Any:
    """The totals of its plan, in which the numbers themselves are unknown."""
    totals: Any = plan_of(operation)["totals"]
    assert (totals["exposure_records"], totals["replay_later_records"]) == (None, None)
    return totals


def assert_bounds_hold(world: Busy, operation: Operation) -> None:
    """Against what the world knows: the replicator has copied less than was read."""
    rows: Any = plan_of(operation)["partitions"]
    for row in rows:
        copied, sampled = world.replicator.copied[row["partition"]], world.store.ends("east")
        lacking = sampled[TopicPartition("orders", row["partition"])].end - copied
        most = row["at_most"]
        assert most["exposure_records"] >= lacking > 256
        assert most["replay_later_records"] >= row["offset"] - copied > 256
        assert row["note"].count("the standby lacks at most") == 1


def test_many_queries_are_judged_against_one_verdict_that_stays_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the loop a third of a second, as on a busy host; a verdict counts for ten seconds."""
    names = tuple(f"q{number:02}" for number in range(60))
    world = World(settings(queries=names, policy={"automatic": True}), partitions=1)
    site, before = controller(world), FactGatherer.before

    def slowly(self: FactGatherer, *about: Any, look: bool = True, **more: Any) -> MoveFacts:
        if look:
            world.clock.wait(0.3)
        return before(self, *about, look=look, **more)

    monkeypatch.setattr(FactGatherer, "before", slowly)
    pass_time(world, 3, site)
    world.clusters["east"].reachable = False
    pass_time(world, 120, site, until=lambda: {row.cluster for row in world.store.assignments()} == {"west"})
    assert {row.cluster for row in world.store.assignments()} == {"west"}
    events = world.store.history(limit=10_000)
    assert [event.text for event in events if event.kind in {"refused", "not-moved"}] == []
    assert len({operation.group for operation in world.store.operations(limit=100)}) == 1
