"""``forget``: what is in use is refused, what goes is shown, and a person confirms it."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.model.entities import RunState
from state.store.sql.store import SqlStore
from tests.contract import samples
from tests.contract.samples import term_of
from tests.simulation.conftest import CONFIG
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import World

HOUR = timedelta(hours=1)


@pytest.fixture
def old(world: World) -> World:
    """A query of before, which a runner that is gone ran, and stopped an hour ago."""
    at = datetime.now(UTC) - HOUR
    world.store.adopt(samples.assignment(query="old", runner="z", checkpoint="/cp/old"))
    world.store.save_positions([samples.position(query="old", partition=number) for number in range(3)])
    world.store.report_query(samples.fact(query="old", runner="z", state=RunState.STOPPED, reported_at=at))
    return world


def test_a_query_that_is_not_declared_any_more_is_forgotten(old: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert "old" in [row["query"] for row in run_json(capsys, "list")[1]]
    code, shown = run_json(capsys, "forget", "old", "--dry-run")
    assert code == 0
    assert isinstance(shown, dict)
    assert keys(shown) == said("`forget QUERY`")
    assert (shown["forgotten"], shown["checkpoint"]) == (False, "/cp/old")
    assert {name: count for name, count in shown["rows"].items() if count} == {
        "assignments": 1, "positions": 3, "reports": 1,
    }  # fmt: skip
    assert old.store.assignment("old") is not None
    code, _, err = run(capsys, "forget", "old", "--yes", "--reason", "replaced")
    assert code == 0
    assert "The checkpoint /cp/old is kept" in err
    assert [row["query"] for row in run_json(capsys, "list")[1]] == ["revenue"]
    code, answer = run_json(capsys, "history", "old")
    assert code == 0
    assert isinstance(answer, list)
    assert [(event["kind"], event["text"]) for event in answer] == [("forget", "old is forgotten: replaced")]
    assert run(capsys, "forget", "old", "--yes")[0] == 2, "nothing is left to forget"


def test_a_declared_query_is_not_forgotten(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "forget", "revenue", "--yes")
    assert code == 1
    assert "revenue is still declared" in err
    assert world.store.assignment("revenue") is not None


def test_a_running_query_is_not_forgotten_although_it_is_not_declared(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tideover.yaml").write_text(CONFIG.replace("  revenue:", "  other:"), encoding="utf-8")
    world.runner.live()
    code, _, err = run(capsys, "forget", "revenue", "--yes")
    assert code == 1
    assert "runner a runs revenue" in err
    monkeypatch.setattr(SqlStore, "now", lambda self: datetime.now(UTC) + HOUR)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "forget", "revenue")
    assert code == 1
    assert "reported running at" in err
    assert "make sure that its process has ended" in err
    assert world.store.assignment("revenue") is not None


def test_a_query_with_a_request_or_an_operation_is_not_forgotten(
    old: World, capsys: pytest.CaptureFixture[str]
) -> None:
    old.store.add_request(samples.request(query="old", expires_at=datetime.now(UTC) + HOUR))
    code, _, err = run(capsys, "forget", "old", "--yes")
    assert code == 1
    assert "request request-1 of old has not begun yet" in err
    term = term_of(old.store)
    old.store.answer("request-1", term=term, refused="no")
    opened = samples.operation(query="old")
    old.store.hold(opened, from_epoch=1, term=term, step=samples.step(), event=samples.event())
    code, _, err = run(capsys, "forget", "old", "--yes")
    assert code == 1
    assert "operation op-1 of old is open" in err
    assert old.store.assignment("old") is not None


def test_without_a_terminal_nothing_is_forgotten_unconfirmed(old: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "forget", "old")
    assert code == 2
    assert "without a terminal, this command needs --yes" in err
    assert old.store.assignment("old") is not None


def test_forget_refuses_an_unknown_query(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "forget", "nope", "--yes")
    assert code == 2
    assert "the store knows nothing of query 'nope'" in err
