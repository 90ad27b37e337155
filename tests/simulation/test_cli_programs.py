"""What programs may rely on: the keys on the page for programs are those that the verbs print."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.context import Context as CliWorld
from orchestrator.cli.progress import result_of
from orchestrator.errors import Refused
from orchestrator.operation.wait import RequestWait, answers_to
from state.errors import StoreError, StoreUnavailable
from state.model.entities import OperationKind, Request
from state.store.sql.operations import RequestTable
from tests.simulation.test_cli import run, run_json
from tests.simulation.world import World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"


def said(sentence: str) -> set[str]:
    """The keys of the first indented block after these words."""
    text = PAGE.read_text(encoding="utf-8").partition(sentence)[2]
    block = re.search(r"((?:^ {4}\S.*\n)+)", text, re.MULTILINE)
    assert block is not None
    return set(re.findall(r"\w+", block[1]))


def keys(value: object) -> set[str]:
    """Of one object, or of the first of an array."""
    if isinstance(value, list):
        value = value[0]
    assert isinstance(value, Mapping)
    return set(value)


def test_the_page_for_programs_names_every_key_that_is_printed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    _, plan = run_json(capsys, "plan", "failover", "revenue")
    assert isinstance(plan, dict)
    assert keys(plan) == said("`plan failover QUERY`")
    assert keys(plan["gates"]) == said("Each of `gates`")
    assert keys(plan["partitions"]) == said("each of `partitions`")
    assert keys(plan["totals"]) == said("and `totals`")
    _, moved = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert isinstance(moved, dict)
    assert keys(moved) == said("`show-op ID`")
    assert keys(moved["steps"]) == said("Each of `steps`")
    assert keys(moved["measured"]) == said("and `measured`")
    assert keys(moved["plan"]) <= said("`plan failover QUERY`") | {"data_batch"}
    listed = said("`list`")
    assert keys(run_json(capsys, "list")[1]) == listed
    _, shown = run_json(capsys, "show", "revenue")
    assert isinstance(shown, dict)
    assert keys(shown) == listed | said("`show QUERY`")
    assert shown["readiness"] is None
    assert keys(shown["positions"]) == said("`positions` is an array")
    assert shown["replication"] is None
    _, checked = run_json(capsys, "check")
    assert keys(checked) == said("`check`: an array")
    assert isinstance(checked, list)
    assert keys(checked[0]["replication"]) == said("`replication` is how old")
    assert keys(checked[0]["replication"]["partitions"]) == said("sentence. Each of its `partitions` has")
    assert keys(shown["automatic"]) == said("`automatic` is an object here")
    assert keys(run_json(capsys, "pause", "revenue")[1]) == said("`pause` and `resume`")
    assert keys(run_json(capsys, "reconcile", "revenue")[1]) == said("`reconcile`: an array")
    assert keys(run_json(capsys, "history")[1]) == said("`history`: an array")
    _, found = run_json(capsys, "offsets", "--cluster", "west", "--topic", "orders", "--latest")
    assert keys(found) == said("`offsets`: an array")


def test_of_many_each_gets_its_answer_and_the_worst_is_the_exit_code(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "failover", "revenue", "--to", "west", "--yes")
    (operation,) = world.store.operations()
    moved = replace(requested("revenue"), operation=operation.id)
    refused = replace(requested("orders"), refused="exposure: the standby lacks 90 s")
    assert result_of(world.store, answers_to(world.store, [moved, refused]), "json", many=True) == 1
    out = capsys.readouterr().out
    assert '"query": "orders",\n    "group": "g",\n    "error": {\n      "kind": "refused"' in out
    assert '"outcome": "done"' in out
    assert result_of(world.store, answers_to(world.store, [moved, requested("orders")]), "table", many=True) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("orders: request r-orders has not begun yet; it expires at 20")
    assert operation.id in captured.out


def test_refusals_of_all_queries_are_shown_together(world: World) -> None:
    both = [replace(requested(name), refused=f"replay: too much of {name}") for name in ("orders", "revenue")]
    with pytest.raises(Refused, match="orders: replay: too much of orders\nrevenue: replay: too much of revenue"):
        result_of(world.store, answers_to(world.store, both), "json", many=True)


@pytest.mark.parametrize(
    "stopped_by", [KeyboardInterrupt(), StoreUnavailable("the store is locked"), StoreError("the store failed")]
)
def test_a_move_that_was_cut_off_is_unknown_and_names_the_way_on(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stopped_by: BaseException,
) -> None:
    def cut_off(*_: object, **__: Any) -> None:
        raise stopped_by

    monkeypatch.setattr(RequestWait, "see_through", cut_off)
    code, answer = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert code == 3
    assert isinstance(answer, dict)
    assert "operations that have begun stay open" in answer["error"]["text"]
    assert "run the same command again to continue it" in answer["error"]["hint"]
    (request,) = world.store.open_requests()
    assert keys(answer["requests"]) == said("Beside `error` there are then the `requests`")
    assert answer["requests"] == [{"request": request.id, "query": "revenue", "group": request.group}]


def test_a_store_that_is_lost_during_a_request_may_have_it(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RequestTable.add_request

    def lost(store: RequestTable, request: Request, *, term: int | None = None) -> None:
        write(store, request, term=term)
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(RequestTable, "add_request", lost)
    code, answer = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert code == 3
    assert isinstance(answer, dict)
    assert answer["error"]["kind"] == "outcome-unknown"
    assert [request.query for request in world.store.open_requests()] == ["revenue"]


def test_the_history_of_a_query_that_is_declared_no_more_is_kept(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "failover", "revenue", "--to", "west", "--yes")
    settings = CliWorld(config=None).settings.model_copy(update={"queries": {}})
    monkeypatch.setattr(CliWorld, "settings", settings)
    code, events = run_json(capsys, "history", "revenue")
    assert code == 0
    assert events
    assert run(capsys, "show", "revenue")[0] == 2


def requested(query: str) -> Request:
    return Request(
        id=f"r-{query}", group="g", kind=OperationKind.FAILOVER, query=query, target="west", expect_active=None,
        actor="me", reason="", consents=(), created_at=datetime.now(UTC),
        expires_at=datetime.now(UTC) + timedelta(minutes=1),
    )  # fmt: skip
