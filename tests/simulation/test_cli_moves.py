"""What ``failover`` requests is what the person saw, and no more; ``list`` and ``show`` go by the store's clock."""

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.lease import NAME
from state.store.sql.store import SqlStore
from tests.contract import samples
from tests.contract.samples import term_of
from tests.simulation.test_cli import Terminal, run, run_json, two
from tests.simulation.world import World

__all__ = ["two"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sits there."""
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))


def cluster_of(world: World, query: str = "revenue") -> str:
    assignment = world.store.assignment(query)
    assert assignment is not None
    return assignment.cluster


@pytest.mark.usefixtures("terminal")
def test_a_query_moved_during_the_question_is_not_moved_back(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def others_are_faster(question: str) -> None:
        assert question.startswith("Move revenue from east to west? Reads ")
        operation = world.carry_out(world.request())
        assert operation is not None
        assert operation.outcome == "done"

    monkeypatch.setattr("orchestrator.cli.moves.move.confirm", others_are_faster)
    assert run(capsys, "failover", "revenue")[0] == 0, "it is where it was to go"
    assert cluster_of(world) == "west"
    assert len(world.store.operations()) == 1


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("to", [(), ("--to", "west")])
def test_a_request_carries_the_cluster_that_the_person_saw(
    world: World, capsys: pytest.CaptureFixture[str], to: tuple[str, ...]
) -> None:
    assert run(capsys, "failover", "revenue", *to)[0] == 0
    (operation,) = world.store.operations()
    request = world.store.request(operation.id)
    assert request is not None
    assert (request.target, request.expect_active) == ("west", "east")


def test_a_script_that_names_a_target_moves_from_wherever(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "failover", "revenue", "--to", "west", "--yes")[0] == 0
    (operation,) = world.store.operations()
    request = world.store.request(operation.id)
    assert request is not None
    assert request.expect_active is None


def test_all_that_are_expected_somewhere_leaves_the_others(two: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "failover", "clicks", "--to", "west", "--yes")[0] == 0
    code, out, err = run(capsys, "failover", "--all", "--expect-active", "east", "--yes", "-o", "tsv")
    assert (code, [line.split("\t")[1] for line in out.splitlines()]) == (0, ["query", "revenue"])
    assert "clicks is on west, not on east: not moved" in err
    assert (cluster_of(two, "clicks"), cluster_of(two)) == ("west", "west")
    assert run_json(capsys, "failover", "--all", "--expect-active", "east", "--yes") == (0, [])
    code, plans = run_json(capsys, "plan", "failover", "--all", "--expect-active", "west")
    assert isinstance(plans, list)
    assert sorted(plan["query"] for plan in plans) == ["clicks", "revenue"]


@pytest.mark.usefixtures("two")
def test_lines_of_several_moves_come_in_the_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "failover", "--all", "--to", "west", "--yes", "-o", "json")
    assert code == 0
    moves = json.loads(out)
    begun = [operation["started_at"][11:19] for operation in moves]
    assert (
        f"began at {moves[0]['started_at']}, ended at {moves[0]['ended_at']}, after "
        in run(capsys, "show-op", moves[0]["id"])[1]
    )
    assert [line.rpartition(", ")[2] for line in err.splitlines() if ": operation " in line] == [
        f"began at {each} UTC" for each in begun
    ]
    lines = [line for line in err.splitlines() if line[2:3] == line[5:6] == ":"]
    assert {line.split()[1] for line in lines} == {"revenue", "clicks"}
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_all_needs_a_word_on_where_from_or_where_to(
    world: World, capsys: pytest.CaptureFixture[str], yes: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, "failover", "--all", *yes)
    assert (code, out) == (2, "")
    assert "--all needs --to or --expect-active" in err
    assert world.store.open_requests() == []


def test_no_wait_looks_who_leads_without_leading(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "failover", "revenue", "--to", "west", "--yes", "--no-wait")
    assert code == 2
    assert "no controller is running" in err
    assert world.store.leader(NAME) is None
    assert world.store.open_requests() == []


def test_list_shows_every_open_operation(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    at, term = datetime.now(UTC), term_of(world.store)
    for number, query in enumerate(("revenue", *(f"other-{each}" for each in range(100)))):
        opened = samples.operation(id=f"op-{number}", query=query, started_at=at + timedelta(seconds=number))
        world.store.record(opened, term=term)
    (row,) = run_json(capsys, "list")[1]
    assert row["operation"] == "op-0"


def test_ages_go_by_the_clock_that_stamped_them(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "failover", "revenue", "--to", "west", "--yes")[0] == 0
    # More than the hour: the store gives its time first, and what a runner reports in the meantime is a little newer.
    monkeypatch.setattr(SqlStore, "now", lambda self: datetime.now(UTC) + timedelta(minutes=61))
    (row,) = run_json(capsys, "list")[1]
    _, shown = run_json(capsys, "show", "revenue")
    assert isinstance(shown, dict)
    ages = (row["progress_age_seconds"], shown["progress_age_seconds"], shown["runners"][0]["seen_seconds_ago"])
    assert all(3600 <= age < 4200 for age in ages), ages
