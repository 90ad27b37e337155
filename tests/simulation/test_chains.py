"""A query that reads what another one writes follows it to the other cluster, and stays where that one stays."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.new_requests import TAKEN_WITHIN, RequestSpec, submit
from orchestrator.schedules import request_due
from state.model.automation import Schedule
from state.model.entities import Desired, Event, Operation, OperationKind, Phase, Request
from state.settings.keys import Output, Source, Tideover
from state.settings.topics import chains_of
from tests.simulation.conftest import CONFIG
from tests.simulation.control import InLineScheduler, controller, pass_time, scheduler, see_to
from tests.simulation.faults.scenes import active, assert_moved, scene
from tests.simulation.live import LiveWorld, live_settings
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_switchover import HEARTBEATS, ROUTES
from tests.simulation.world import START_MS, World, settings

FIRST, SECOND = "enrich", "revenue"
TOPIC = "enriched"


def chained(made: Tideover) -> Tideover:
    """The configuration has them the wrong way round."""
    queries = made.queries
    writer = queries[FIRST].model_copy(update={"output": Output(topic=TOPIC)})
    sources = {**queries[SECOND].sources, TOPIC: Source(topics=(TOPIC,))}
    reader = queries[SECOND].model_copy(update={"sources": sources})
    return made.model_copy(update={"queries": {SECOND: reader, FIRST: writer}})


def fill(world: World) -> None:
    """Five records of each partition of the topic between the two; west holds others in front of them."""
    for name, cluster in world.clusters.items():
        cluster.create(TOPIC, 2)
        for partition in range(2):
            for index in range(3 if name == "west" else 0):
                cluster.write(TOPIC, partition, f"foreign-{partition}-{index}", START_MS - 900_000)
            for index in range(5):
                copy(world, name, partition, index)


def copy(world: World, cluster: str, partition: int, index: int) -> None:
    world.clusters[cluster].write(TOPIC, partition, f"made-{partition}-{index}", START_MS - 60_000 + index)


def chain(**groups: Any) -> World:
    world = World(chained(settings(queries=(SECOND, FIRST), groups={"routes": ROUTES, **groups})))
    world.clusters["west"].create(HEARTBEATS)
    world.clusters["west"].append(HEARTBEATS, 0, START_MS - 1_000, bytes(16))
    fill(world)
    return world


def request_moves(
    world: World,
    queries: Sequence[str] = (FIRST, SECOND),
    *,
    kind: OperationKind = OperationKind.SWITCHOVER,
    target: str = "west",
    expect_active: Mapping[str, str] | None = None,
    within: timedelta = TAKEN_WITHIN,
) -> tuple[Request, ...]:
    """``switchover QUERY... --to west``."""
    targets = dict.fromkeys(chains_of(world.settings).in_order(queries), target)
    wish = RequestSpec(
        kind=kind, targets=targets, expect_active=expect_active or {}, actor="ann", reason="", consents=(),
        within=within,
    )  # fmt: skip
    return submit(world.store, wish)


def refusal(world: World, request: Request) -> str:
    answered = world.store.request(request.id)
    assert answered is not None
    return answered.refused or ""


def move_of(world: World, query: str) -> Operation:
    (operation,) = world.store.operations(query=query)
    return operation


def is_held(world: World, query: str) -> bool:
    row = world.store.assignment(query)
    assert row is not None
    return row.desired is Desired.HELD


def phases_of_first(world: World) -> set[Phase | None]:
    """In which phases the first one was, at any moment from now on, while the second one was held."""
    seen: set[Phase | None] = set()

    def look() -> None:
        if is_held(world, SECOND):
            seen.add(next((each.phase for each in world.store.operations(query=FIRST)), None))

    world.clock.lives.append(look)
    return seen


def assert_never_stopped(world: World) -> None:
    row = world.store.assignment(SECOND)
    assert row is not None
    assert (row.cluster, row.epoch) == ("east", 1)
    assert world.store.operations(query=SECOND) == []


def go_on(world: World, held: InLineScheduler, until: Callable[[], bool], seconds: float = 60.0) -> None:
    end = world.clock.passed + seconds
    while not until():
        assert world.clock.passed < end, [each.sentence for each in world.store.operations()]
        see_to(world, held, 0.1)


def test_a_query_stops_when_the_one_upstream_is_committed() -> None:
    world = chain()
    requested = request_moves(world)
    assert [request.query for request in requested] == [FIRST, SECOND]
    seen = phases_of_first(world)
    see_to(world, scheduler(world), 10)
    assert [move_of(world, query).outcome for query in (FIRST, SECOND)] == ["done", "done"]
    assert seen <= {Phase.STARTING, Phase.VERIFYING, Phase.SETTLED}
    assert seen
    second = move_of(world, SECOND)
    assert second.started_at == world.store.steps(second.id)[0].started_at, "it was not away before"


def test_a_query_stays_where_the_one_upstream_goes_back() -> None:
    world = chain(policy={"catch_up": "3s"})
    world.clusters["west"].cut("orders", 33 + 93)
    requested = request_moves(world)
    see_to(world, scheduler(world), 8)
    first = move_of(world, FIRST)
    assert (first.outcome, first.sentence.partition(":")[0]) == ("refused", "caught-up")
    reported = f"upstream-moved: {SECOND} is not moved, because {FIRST}, which is upstream of it, was not: operation "
    assert refusal(world, requested[1]).startswith(f"{reported}{first.id} (")
    assert_never_stopped(world)


def test_a_query_stays_where_the_one_upstream_is_refused() -> None:
    world = chain()
    requested = request_moves(world, expect_active={FIRST: "west"})
    see_to(world, scheduler(world), 1)
    assert refusal(world, requested[0]).startswith("expect-active: ")
    assert refusal(world, requested[1]).endswith(f"was not: {refusal(world, requested[0])}")
    assert_never_stopped(world)


def test_a_query_waits_no_longer_than_its_time() -> None:
    world = chain()
    world.runner.answers = False
    requested = request_moves(world, within=timedelta(seconds=2))
    see_to(world, scheduler(world), 3)
    first = move_of(world, FIRST)
    assert f"waits for {FIRST}, which is upstream of it: operation {first.id} is FENCING" in refusal(
        world, requested[1]
    )
    assert_never_stopped(world)


def test_who_shall_stay_is_answered_while_the_one_upstream_moves() -> None:
    world = chain()
    world.runner.answers = False
    requested, held = request_moves(world), scheduler(world)
    see_to(world, held, 1)
    (stay,) = request_moves(world, (SECOND,), target="east")
    see_to(world, held, 0.5)
    assert refusal(world, requested[1]) == f"cancelled by ann: {SECOND} stays on east"
    assert refusal(world, stay).startswith("not-already-there")


def test_a_query_requested_later_waits_too_and_then_moves_either_way() -> None:
    world = chain(policy={"catch_up": "3s"})
    world.clusters["west"].cut(TOPIC, 5)
    held = scheduler(world)
    request_moves(world, (FIRST,))
    see_to(world, held, 1)
    request_moves(world, (SECOND,))
    see_to(world, held, 1)
    assert_never_stopped(world)
    go_on(world, held, lambda: bool(world.store.operations(query=SECOND)))
    assert move_of(world, FIRST).phase is Phase.ABORTED, "nobody asked for both"
    go_on(world, held, lambda: move_of(world, SECOND).outcome == "done")


def test_a_failover_waits_for_no_other_query() -> None:
    world = chain()
    world.runner.answers = False
    request_moves(world, kind=OperationKind.FAILOVER)
    see_to(world, scheduler(world), 0.1)
    assert [each.query for each in reversed(world.store.operations())] == [FIRST, SECOND]
    assert is_held(world, SECOND)


def test_a_query_goes_when_its_output_is_copied() -> None:
    world = chain()
    world.clusters["west"].cut(TOPIC, 3 + 2)
    requested, held = request_moves(world), scheduler(world)
    assert len(requested) == 2
    see_to(world, held, 3)
    first = move_of(world, FIRST)
    assert first.phase is Phase.RESOLVING
    reported = (
        f"waiting for the replicator: 0 of 2 partitions caught up; west lacks records of {TOPIC}, which {FIRST} writes"
    )
    assert first.sentence.startswith(reported)
    assert_never_stopped(world)
    for partition in range(2):
        for index in range(2, 5):
            copy(world, "west", partition, index)
    go_on(world, held, lambda: [each.outcome for each in world.store.operations()] == ["done", "done"])


def test_a_query_goes_back_where_its_output_is_not_copied_in_time() -> None:
    world = chain(policy={"catch_up": "3s"})
    world.clusters["west"].cut(TOPIC, 3 + 2)
    request_moves(world)
    see_to(world, scheduler(world), 8)
    assert move_of(world, FIRST).outcome == "refused"
    assert move_of(world, FIRST).sentence.startswith(f"output-copied: west lacks records of {TOPIC}")
    assert_never_stopped(world)


def test_another_writer_to_the_output_delays_no_query() -> None:
    world = chain()
    world.clusters["west"].cut(TOPIC, 3 + 4)
    held = scheduler(world)
    request_moves(world, (FIRST,))
    see_to(world, held, 2)
    for partition in range(2):
        copy(world, "east", partition, 5)
        copy(world, "west", partition, 4)
    go_on(world, held, lambda: move_of(world, FIRST).outcome == "done")


def test_an_empty_output_delays_no_query() -> None:
    world = chain()
    world.clusters["east"].cut(TOPIC, 0)
    world.clusters["west"].cut(TOPIC, 3)
    request_moves(world, (FIRST,))
    see_to(world, scheduler(world), 5)
    assert move_of(world, FIRST).outcome == "done"


def test_a_scheduled_switchover_requests_the_upstream_query_first() -> None:
    world = chain()
    at = world.store.now()
    made = Schedule(
        id="s", kind=OperationKind.SWITCHOVER, queries=(), target="west", cron=None, zone="UTC", consents=(),
        actor="ann", reason="", created_at=at, next_at=at,
    )  # fmt: skip
    reported = Event(
        sequence=None, at=at, kind="schedule", query=None, operation=None, epoch=None, actor="ann", text="", detail={}
    )
    world.store.add_schedule(made, event=reported)
    lead = world.lead()
    assert lead.take()
    assert request_due(world.store, world.settings, term=lambda: lead.term) == 1
    assert [request.query for request in world.store.open_requests()] == [FIRST, SECOND]


def test_automatic_failover_begins_upstream_and_waits_for_no_query() -> None:
    made = live_settings(queries=(SECOND, FIRST), policy={"automatic": True})
    world, site = scene(LiveWorld(chained(made)))
    fill(world)
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: len(world.store.operations()) == 2)
    first, second = (move_of(world, query) for query in (FIRST, SECOND))
    assert first.id < second.id
    assert first.started_at == second.started_at
    assert is_held(world, FIRST)
    assert is_held(world, SECOND)


def test_an_output_that_cannot_be_read_is_waited_for_and_said() -> None:
    world = chain(policy={"catch_up": "3s"})
    request_moves(world, (FIRST,))
    held = scheduler(world)
    go_on(world, held, lambda: bool(world.store.operations()))
    world.clusters["east"].reachable = False
    go_on(world, held, lambda: move_of(world, FIRST).outcome == "refused")
    assert move_of(world, FIRST).sentence.startswith("output-copied: ")
    assert "no bootstrap server answered" in move_of(world, FIRST).sentence


@pytest.mark.parametrize("committed", [False, True])
def test_the_next_leader_keeps_the_order(committed: bool) -> None:
    made = live_settings(queries=(SECOND, FIRST), policy={"automatic": False})
    world, site = scene(LiveWorld(chained(made)))
    fill(world)
    seen = phases_of_first(world)
    request_moves(world)

    def comes() -> bool:
        begun = world.store.operations(query=FIRST)
        return bool(begun) and (begun[0].phase is Phase.STARTING or not committed)

    pass_time(world, 20, site, until=comes)
    site.frozen = True
    after = controller(world, "two")
    pass_time(world, 40, after, until=lambda: not world.store.open_requests())
    pass_time(world, 20, after)
    moves = [assert_moved(world, query) for query in (FIRST, SECOND)]
    assert world.store.steps(moves[1].id)[0].started_at >= commit_of(world, moves[0])
    assert seen <= {Phase.STARTING, Phase.VERIFYING, Phase.SETTLED}
    assert world.broken == []
    assert world.account(SECOND) == (0, 0)


def commit_of(world: World, operation: Operation) -> Any:
    return next(step.ended_at for step in world.store.steps(operation.id) if step.name == "commit")


def test_a_query_stays_where_leader_and_upstream_move_are_gone() -> None:
    made = live_settings(queries=(SECOND, FIRST), policy={"automatic": False, "catch_up": "5s"})
    world, site = scene(LiveWorld(chained(made)))
    fill(world)
    world.clusters["west"].cut(TOPIC, 5)
    requested = request_moves(world)
    pass_time(world, 20, site, until=lambda: bool(world.store.operations()))
    site.frozen = True
    pass_time(world, 40, controller(world, "two"), until=lambda: not world.store.open_requests())
    assert refusal(world, requested[1]).startswith("upstream-moved: ")
    assert [active(world, query) for query in (FIRST, SECOND)] == ["east", "east"]
    assert_never_stopped(world)


def test_a_plan_shows_the_order_and_the_verb_keeps_it(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = "  clicks:" + CONFIG.partition("  revenue:")[2].replace("/cp/revenue", "/cp/clicks")
    (folder / "tideover.yaml").write_text(f"{CONFIG}    after: [clicks]\n{first}", encoding="utf-8")
    world.add("clicks")
    code, plans = run_json(capsys, "plan", "switchover", "--all", "--to", "west", "--consent", "replication")
    assert code == 0
    assert [(plan["query"], plan.get("after")) for plan in plans] == [("clicks", None), ("revenue", ["clicks"])]
    assert "begins after clicks is committed" in run(capsys, "plan", "switchover", "--all", "--to", "west")[1]
    assert "after" not in run_json(capsys, "plan", "failover", "--all", "--to", "west")[1][1]
    verb = ("switchover", "--all", "--to", "west", "--yes", "--consent", "replication")
    code, _, err = run(capsys, *verb)
    assert code == 0
    assert "revenue keeps running and waits for clicks, which is upstream of it: " in err
    clicks, revenue = (world.store.operations(query=name)[0] for name in ("clicks", "revenue"))
    assert world.store.steps(revenue.id)[0].started_at >= commit_of(world, clicks)
