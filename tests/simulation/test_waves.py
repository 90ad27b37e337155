"""A canary first: the later waves begin when it is done, and stay where they are when it is not."""

from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.cli.progress import MANY
from orchestrator.new_requests import TAKEN_WITHIN, RequestSpec, submit
from orchestrator.schedules import request_due
from state.model.automation import Schedule
from state.model.entities import OperationKind, Phase, Request
from tests.contract import samples
from tests.simulation.conftest import CONFIG
from tests.simulation.control import scheduler, see_to
from tests.simulation.test_chains import refusal
from tests.simulation.test_cli import run, run_json, two
from tests.simulation.world import World, settings

__all__ = ["two"]
QUERIES = ("canary", "second", "third", "fourth")


def request_moves(
    world: World, *, expect_active: str = "east", within: timedelta = TAKEN_WITHIN
) -> tuple[Request, ...]:
    """``failover --all --to west --waves 1,2``."""
    spec = RequestSpec(
        kind=OperationKind.FAILOVER, targets=dict.fromkeys(QUERIES, "west"), expect_active={"canary": expect_active},
        actor="ann", reason="", consents=(), within=within, waves=(1, 2),
    )  # fmt: skip
    return submit(world.store, spec)


def active(world: World) -> dict[str, str]:
    return {each.query: each.cluster for each in world.store.assignments()}


def test_a_wave_is_stopped_when_the_one_before_it_has_settled() -> None:
    world = World(settings(queries=QUERIES))
    request_moves(world)
    begun: dict[str, set[str]] = {name: set() for name in QUERIES}

    def look() -> None:
        for operation in world.store.operations():
            if not begun[operation.query]:
                begun[operation.query] = {each.query for each in world.store.operations() if each.outcome == "done"}
                begun[operation.query].add("itself")

    world.clock.lives.append(look)
    see_to(world, scheduler(world), 20)
    assert active(world) == dict.fromkeys(QUERIES, "west")
    assert begun["second"] == begun["third"] == {"canary", "itself"}
    assert begun["fourth"] == {"canary", "second", "third", "itself"}
    last = world.store.operations(query="fourth")[0]
    assert last.parameters == {"wave": 3}
    assert last.started_at == world.store.steps(last.id)[0].started_at, "it was not away before"


def test_later_waves_stay_where_the_canary_was_refused() -> None:
    world = World(settings(queries=QUERIES))
    requests = request_moves(world, expect_active="west")
    see_to(world, scheduler(world), 2)
    assert refusal(world, requests[0]).startswith("expect-active: ")
    for request in requests[1:]:
        reported = (
            f"wave-failed: {request.query} is not moved, because canary of an earlier wave was not: expect-active: "
        )
        assert refusal(world, request).startswith(reported)
    assert active(world) == dict.fromkeys(QUERIES, "east")
    assert world.store.operations() == []


def test_later_waves_wait_while_the_canary_cannot_continue_and_expire() -> None:
    world = World(settings(queries=QUERIES))
    world.runner.answers = False
    requests = request_moves(world, within=timedelta(seconds=6))
    held = scheduler(world)
    see_to(world, held, 5)
    (only,) = world.store.operations()
    assert (only.query, only.phase) == ("canary", Phase.FENCING)
    see_to(world, held, 2)
    refused = {each.query: refusal(world, each) for each in requests[1:]}
    assert all("waits for wave 1: canary is not done" in text for text in refused.values()), refused
    assert {name: cluster for name, cluster in active(world).items() if name != "canary"} == dict.fromkeys(
        QUERIES[1:], "east"
    )


def test_a_scheduled_switchover_moves_in_the_waves_of_the_configuration() -> None:
    world = World(settings(queries=QUERIES, groups={"operations": {"waves": [1]}}))
    at = world.store.now()
    made = Schedule(
        id="s", kind=OperationKind.SWITCHOVER, queries=(), target="west", cron=None, zone="UTC", consents=(),
        actor="ann", reason="", created_at=at, next_at=at,
    )  # fmt: skip
    world.store.add_schedule(made, event=samples.event())
    lead = world.lead()
    assert lead.take()
    assert request_due(world.store, world.settings, term=lambda: lead.term) == 1
    assert [each.parameters for each in world.store.open_requests()] == [{"wave": 1}] + [{"wave": 2}] * 3


def test_a_verb_moves_in_waves_and_its_plan_shows_them(
    two: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "tideover.yaml"
    file.write_text(file.read_text("utf-8").replace("operations: {at_once: 1}", "operations: {waves: [1]}"), "utf-8")
    words = ("failover", "--all", "--to", "west")
    plans = run_json(capsys, "plan", *words)[1]
    assert {each["query"]: each["wave"] for each in plans} == {"revenue": 1, "clicks": 2}
    assert "  waves: 1, then 1; each begins when all moves before it are done" in run(capsys, "plan", *words)[1]
    assert all("wave" not in each for each in run_json(capsys, "plan", *words, "--waves", "off")[1])
    code, _, err = run(capsys, *words, "--yes")
    assert code == 0
    assert err.count("clicks keeps running in wave 2 and waits for wave 1: revenue is not done") == 1
    moves = {each.query: each for each in two.store.operations()}
    assert moves["revenue"].ended_at is not None
    assert moves["clicks"].started_at >= moves["revenue"].ended_at


@pytest.mark.parametrize("sizes", ["", "0", "1,-1", "some", "1;2"])
def test_sizes_that_are_none_are_refused(world: World, capsys: pytest.CaptureFixture[str], sizes: str) -> None:
    code, _, err = run(capsys, "failover", "--all", "--to", "west", "--yes", "--waves", sizes)
    assert code == 2
    assert "is not a list of sizes of waves: write 1,10 or off" in err
    assert world.store.open_requests() == []


def test_of_many_moves_the_ended_are_counted_and_the_failed_named(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, revenue = CONFIG.partition("  revenue:")
    names = ["revenue", *(f"q{number}" for number in range(MANY))]
    text = head + "".join(f"  {name}:" + revenue.replace("/cp/revenue", f"/cp/{name}") for name in names)
    (folder / "tideover.yaml").write_text(text, encoding="utf-8")
    for name in names[1:]:
        world.add(name)
    run(capsys, "failover", "q1", "--to", "west", "--yes")
    code, _, err = run(capsys, "failover", *names, "--expect-active", "east", "--yes", "--reason", "all")
    lines = err.splitlines()
    assert code == 1
    reported = [line for line in lines if line.startswith("q1: ")]
    assert reported, "the one that is not where it was expected"
    assert all("expect-active" in line for line in reported)
    counts = [line for line in lines if " have ended, " in line]
    assert counts[-1] == f"{len(names)} of {len(names)} have ended, 0 in progress, 0 waiting"
    assert not any(" hold: " in line for line in lines), "no steps"
