"""One row that cannot be dealt with: it says so, is given up where that is possible, and holds nothing else up."""

import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from orchestrator.decide.desk.status import state_of
from orchestrator.facts.gather import FactGatherer
from orchestrator.operation.automatic_failover import AutomaticFailover
from orchestrator.operation.requests import RequestHandler
from orchestrator.operation.scheduler import RETRY_AT_MOST
from orchestrator.rounds import ROUND_SECONDS
from state.errors import Conflict, Damaged, RowRefused
from state.model.entities import Operation, Phase
from state.store.controller_store import ControllerStore
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.stores import DoubtfulStore, RefusingStore
from tests.simulation.world import World, settings

QUERIES = ("first", "second")


def broken_for(query: str, name_of: Callable[..., str], verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with a defect that only one query meets."""

    def call(*given: Any, **more: Any) -> Any:
        if name_of(*given) == query:
            raise ZeroDivisionError("by nobody")
        return verb(*given, **more)

    return call


@pytest.fixture
def world() -> World:
    return World(settings(queries=QUERIES))


def move_both(world: World, site: Site) -> None:
    for query in QUERIES:
        world.request(query)
    pass_time(world, 5, site)


def operation(world: World, query: str) -> Operation:
    return world.store.operations(query=query)[0]


def cluster_of(world: World, query: str) -> str:
    row = world.store.assignment(query)
    assert row is not None
    return row.cluster


def break_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    after = broken_for("first", lambda _, facts, *rest: str(facts.query), FactGatherer.after)
    monkeypatch.setattr(FactGatherer, "after", after)


def test_a_defect_before_the_commit_is_shown_and_given_up_after_three_tries(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_resolving(monkeypatch)
    site = controller(world)
    move_both(world, site)
    stuck = operation(world, "first")
    assert stuck.sentence == "cannot continue: a bug in Tideover: ZeroDivisionError: by nobody"
    assert state_of(world.store.assignment("first"), None, stuck) == "stuck"
    assert cluster_of(world, "second") == "west"
    assert state_of(world.store.assignment("second"), None, operation(world, "second")) != "stuck"
    pass_time(world, 60, site)
    ended = operation(world, "first")
    assert (ended.phase, ended.outcome, cluster_of(world, "first")) == (Phase.ABORTED, "failed", "east")
    assert ended.sentence == "given up after 3 tries: a bug in Tideover: ZeroDivisionError: by nobody"
    assert world.checkpoints["/cp/first"].planted == set()
    texts = [event.text for event in world.store.history(operation=ended.id)]
    assert texts.count("cannot continue: a bug in Tideover: ZeroDivisionError: by nobody") == 2, (
        "of the first two tries"
    )


def test_tries_are_counted_on_by_the_next_leader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    break_resolving(monkeypatch)
    for name in ("one", "two", "three"):
        site = controller(world, name)
        if name == "one":
            move_both(world, site)
        pass_time(world, 5, site)
        site.controller.close()
        world.clock.lives.remove(site.live)
    assert operation(world, "first").phase is Phase.ABORTED


def test_a_defect_behind_the_commit_is_retried_with_growing_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.runner.commits = False
    site = controller(world)
    move_both(world, site)
    silence_of = broken_for("first", lambda _, moved: str(moved.query), FactGatherer.silence_of)
    with monkeypatch.context() as patched:
        patched.setattr(FactGatherer, "silence_of", silence_of)
        pass_time(world, 10 * RETRY_AT_MOST, site)
        stuck = operation(world, "first")
        assert (stuck.is_open, stuck.phase) == (True, Phase.VERIFYING)
        assert stuck.sentence.startswith("cannot continue: a bug in Tideover")
        assert len(world.store.history(operation=stuck.id)) < 40
    world.runner.commits = True
    pass_time(world, RETRY_AT_MOST + 5, site)
    assert operation(world, "first").outcome == "done"


def test_a_request_that_meets_a_defect_is_refused_and_others_are_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = broken_for("first", lambda _, request: str(request.query), RequestHandler._refusal)
    monkeypatch.setattr(RequestHandler, "_refusal", refusal)
    site = controller(world)
    first = world.request("first")
    world.request("second")
    pass_time(world, 20, site)
    answered = world.store.request(first.id)
    assert answered is not None
    assert answered.refused == "a bug in Tideover: ZeroDivisionError: by nobody; nothing was begun"
    assert (cluster_of(world, "first"), cluster_of(world, "second")) == ("east", "west")


def test_a_request_whose_operation_has_begun_is_not_turned_down_by_a_defect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = RequestHandler._answered
    fails = iter((True,))

    def answer(taker: RequestHandler, *given: Any) -> str:
        if next(fails, False):
            raise ZeroDivisionError("by nobody")
        return answered(taker, *given)

    monkeypatch.setattr(RequestHandler, "_answered", answer)
    request, site = world.request("first"), controller(world)
    pass_time(world, 20, site)
    stored = world.store.request(request.id)
    assert stored is not None
    assert (stored.operation, stored.refused) == (request.id, None)
    assert cluster_of(world, "first") == "west"


@pytest.mark.parametrize("part", ["give_verdicts", "resume"])
def test_a_defect_in_one_part_of_a_round_is_said_once_and_ends_no_controller(
    world: World, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = controller(world)
    pass_time(world, 2, site)
    broken = {"give_verdicts": site.controller.cluster_watch, "resume": site.scheduler}[part]

    def fail(*_: object, **__: Any) -> None:
        raise KeyError("south")

    monkeypatch.setattr(broken, part, fail)
    with capture_logs() as lines:
        world.request("second")
        pass_time(world, 20, site)
    assert cluster_of(world, "second") == "west"
    assert len([line for line in lines if line["event"].startswith("a bug in Tideover; the other parts continue")]) == 1


def test_a_query_that_cannot_be_judged_keeps_no_other_on_a_dead_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings(queries=QUERIES, policy={"automatic": True}))
    judged = broken_for("first", lambda _, query, *rest: str(query), AutomaticFailover._judged)
    monkeypatch.setattr(AutomaticFailover, "_judged", judged)
    site = controller(world)
    pass_time(world, 5, site)
    world.clusters["east"].reachable = False
    with capture_logs() as lines:
        pass_time(world, 30, site)
    assert (cluster_of(world, "first"), cluster_of(world, "second")) == ("east", "west")
    assert [line["part"] for line in lines if "part" in line] == ["automatic failover"], "said once"


NAMES = ("a", "b", "c", "d", "e")


def in_two_rounds(world: World, store: DoubtfulStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round has time for two queries; the store is lost right behind the first request of the second one."""
    judged, count = AutomaticFailover._judged, itertools.count(1)

    def slow(self: AutomaticFailover, *about: Any) -> Any:
        number = next(count)
        if number == 2:
            world.clock.wait(ROUND_SECONDS)
            store.die_after(3)
        return judged(self, *about)

    monkeypatch.setattr(AutomaticFailover, "_judged", slow)


def test_a_lost_answer_in_a_later_round_keeps_no_query_on_a_dead_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings(queries=NAMES, policy={"automatic": True}))
    store = DoubtfulStore(world.store, None, verbs={"add_request"})
    site = controller(world, store=cast("ControllerStore", store))
    pass_time(world, 5, site)
    in_two_rounds(world, store, monkeypatch)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert store.writes == ["add_request"] * 5, "each query once"
    assert {name: cluster_of(world, name) for name in NAMES} == dict.fromkeys(NAMES, "west")
    operations = world.store.operations()
    assert sorted((each.query, each.outcome) for each in operations) == [(name, "done") for name in NAMES]
    assert len({each.group for each in operations}) == 1


@pytest.mark.parametrize(
    ("verb", "error"),
    [("add_request", Conflict), ("add_request", RowRefused), ("assignment", Damaged), ("hold", Conflict),
     ("record", Conflict), ("operations", Damaged)],
)  # fmt: skip
def test_a_row_that_the_store_refuses_keeps_no_other_query_on_a_dead_cluster(
    verb: str, error: type[RowRefused]
) -> None:
    """Whatever the store refuses of one query, it is not away, and the round is not over."""
    world = World(settings(queries=NAMES, policy={"automatic": True}))
    store = RefusingStore(world.store, verb, "b", error("the row of b"))
    site = controller(world, store=cast("ControllerStore", store))
    pass_time(world, 5, site)
    world.clusters["east"].reachable = False
    with capture_logs() as lines:
        pass_time(world, 60, site)
    assert store.refused > 1
    assert {name: cluster_of(world, name) for name in "acde"} == dict.fromkeys("acde", "west")
    assert not [line for line in lines if line["event"].startswith("the store does not answer")]
