"""The command line against a real SQLite store, clusters of lists and a runner on a thread: output and exit codes."""

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from orchestrator.cli import main
from orchestrator.cli.app import VERBS
from orchestrator.cli.inspect.list import QUERY_COLUMNS
from orchestrator.lease import Leadership
from state.model.entities import SeenCheckpoint, TopicPartition
from state.store.sql.store import SqlStore
from streaming.clocks import SystemClock
from streaming.cluster_log import PartitionError, TopicFacts
from tests.simulation.conftest import CONFIG
from tests.simulation.world import World

LONG_ENOUGH_TO_BEGIN = "8"
"""Seconds. What has not begun when they are over is refused; beside a load that took more than one."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, _ = run(capsys, *arguments, "-o", "json")
    return code, json.loads(out)


def test_failover_moves_the_query_and_shows_what_it_did(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = run_json(capsys, "failover", "revenue", "--to", "west", "--yes", "--reason", "east is down")
    assert code == 0
    assert isinstance(shown, dict)
    assert (shown["outcome"], shown["phase"], shown["reason"]) == ("done", "SETTLED", "east is down")
    assert [step["name"] for step in shown["steps"]] == [
        "hold", "fence", "resolve", "prepare", "commit", "start", "verify",
    ]  # fmt: skip
    assert set(shown["measured"]) == {
        "detect_seconds", "switch_seconds", "first_commit_at", "replay_records", "replay_later_records",
        "exposure_records",
        "dropped_late_rows", "partitions",
    }  # fmt: skip
    assert shown["measured"]["detect_seconds"] is None
    assert (shown["measured"]["exposure_records"], shown["measured"]["replay_records"]) == (None, None)
    assert shown["plan"]["operation"] == shown["id"]
    code, again = run_json(capsys, "show-op", shown["id"])
    assert isinstance(again, dict)
    assert [row["exposure_records"] for row in shown["measured"].pop("partitions")] == [None, None]
    assert [row["exposure_records"] for row in again["measured"].pop("partitions")] == [10, 10], "measured afterwards"
    assert again["measured"].pop("exposure_records") == 20
    assert shown["measured"].pop("exposure_records") is None
    assert (code, again) == (0, shown)
    (row,) = run_json(capsys, "list")[1]
    assert (row["cluster"], row["epoch"], row["state"], row["operation"]) == ("west", 2, "running", None)
    code, out, err = run(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert (code, out, err) == (0, "", "revenue is already there: nothing done\n")
    assert run_json(capsys, "failover", "revenue", "--to", "west", "--yes") == (0, None)
    assert run_json(capsys, "failover", "--all", "--to", "west", "--yes") == (0, [])
    code, plans = run_json(capsys, "plan", "failover", "--all", "--to", "west")
    assert code == 0, "as the move itself"
    assert isinstance(plans, list)
    assert next(gate["name"] for gate in plans[0]["gates"] if not gate["ok"]) == "not-already-there"


def test_a_plan_refuses_no_move_that_would_join_an_open_operation(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.runner.answers = False
    assert run(capsys, "failover", "revenue", "--to", "west", "--yes", "--timeout", LONG_ENOUGH_TO_BEGIN)[0] == 3
    code, value = run_json(capsys, "plan", "failover", "revenue", "--to", "west")
    assert code == 0
    assert isinstance(value, dict)
    assert value["refused"] is True, "it would be another operation"


def test_several_queries_are_typed_at_once(world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = "".join(
        f"  {name}:" + CONFIG.partition("  revenue:")[2].replace("/cp/revenue", f"/cp/{name}")
        for name in ("clicks", "orders")
    )
    (folder / "tideover.yaml").write_text(CONFIG + more, encoding="utf-8")
    named = ("revenue", "clicks", "revenue")
    code, plans = run_json(capsys, "plan", "failover", *named, "--to", "west")
    assert code == 1
    assert isinstance(plans, list)
    assert [value["query"] for value in plans] == ["revenue", "clicks"]
    code, made = run_json(capsys, "failover", *named, "--to", "west", "--yes")
    assert code == 1, "clicks has never run"
    assert isinstance(made, list)
    assert [(value["query"], value.get("outcome")) for value in made] == [("revenue", "done"), ("clicks", None)]
    assert run(capsys, "failover", "revenue", "nobody", "--to", "west", "--yes")[0] == 2


@pytest.fixture
def two(world: World, folder: Path) -> World:
    """Another query, and no more than one is moved at a time."""
    clicks = "  clicks:" + CONFIG.partition("  revenue:")[2].replace("/cp/revenue", "/cp/clicks")
    (folder / "tideover.yaml").write_text(f"{CONFIG}{clicks}operations: {{at_once: 1}}\n", encoding="utf-8")
    world.add("clicks")
    return world


def test_a_verb_says_which_queries_wait_for_their_turn(two: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "failover", "--all", "--to", "west", "--yes")
    assert code == 0
    reported = "clicks keeps running and waits for its turn: 1 move in progress, at most 1 at once (operations.at_once)"
    assert err.splitlines().count(reported) == 1
    assert err.index(reported) < err.index("clicks: operation ")


def test_failover_to_where_the_query_is_calls_off_a_waiting_request(
    two: World, capsys: pytest.CaptureFixture[str]
) -> None:
    _, request = two.request("revenue"), two.request("clicks")
    assert run_json(capsys, "failover", "clicks", "--to", "east", "--yes") == (0, None)
    stored = two.store.request(request.id)
    assert stored is not None
    assert stored.refused is not None
    assert stored.refused.startswith("cancelled by ")
    assert stored.refused.endswith(": clicks stays on east")
    assert list(two.store.operations()) == [], "the other request is left to who asked for it"


def test_show_counts_the_runs_that_ended_in_one_batch(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (fact,) = world.store.query_facts(query="revenue")
    seen = SeenCheckpoint(fact.checkpoint, fact.epoch, 8, 7, None, None, 3)
    assert world.store.report_query(replace(fact, seen=seen))
    assert "unfinished  3 runs ended in batch 8, which is not committed\n" in run(capsys, "show", "revenue")[1]
    assert run_json(capsys, "show", "revenue")[1]["report"]["runs_ended_in_batch"] == 3
    assert world.store.report_query(replace(fact, seen=seen.with_batch(8, committed=True)))
    assert "unfinished" not in run(capsys, "show", "revenue")[1]


def test_show_prints_the_runner_the_checkpoint_and_the_last_report(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.runner.live()
    code, shown = run_json(capsys, "show", "revenue")
    assert code == 0
    assert isinstance(shown, dict)
    assert shown["runner"]["warm"] is True
    assert shown["checkpoint"] == "/cp/revenue"
    assert shown["report"]["offsets"] == {"orders": {"orders": {"0": 100, "1": 100}}}
    assert [(row["partition"], row["offset"]) for row in shown["positions"]] == [(0, 100), (1, 100)]
    assert all(row["remembered"] > 0 for row in shown["positions"])
    assert run(capsys, "show", "revenue")[0] == 0


def test_progress_goes_to_stderr_and_the_table_to_stdout(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "failover", "--all", "--expect-active", "east", "--yes")
    assert code == 0
    assert out.splitlines()[0].split() == ["id", "query", "from", "to", "phase", "outcome", "sentence"]
    assert "revenue: operation " in err
    assert " revenue hold: failover of revenue from east to west" in err
    assert " revenue settled: batch 10 is committed on west" in err


def test_plan_has_the_promised_shape_and_changes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, plan = run_json(capsys, "plan", "failover", "revenue")
    assert code == 0
    assert isinstance(plan, dict)
    assert {
        "operation", "kind", "query", "from", "to", "epoch", "resume", "uncommitted_batch", "fence", "gates",
        "partitions", "starting_offsets", "totals", "refused",
    } <= set(plan)  # fmt: skip
    assert (plan["operation"], plan["epoch"], plan["fence"], plan["refused"]) == (None, 2, "pending", False)
    assert plan["starting_offsets"] == {"orders": {"0": 133, "1": 133}}
    assert {
        "topic", "partition", "offset", "timestamp_ms", "buffer_ms", "target_topic", "target_partition",
        "target_offset", "method", "begin", "end", "replay_records", "replay_later_records",
        "exposure_records",
        "exposure_seconds", "note",
    } <= set(plan["partitions"][0])  # fmt: skip
    assert set(plan["gates"][0]) == {"name", "ok", "measured", "limit", "text"}
    assert world.store.operations() == []
    code, many = run_json(capsys, "plan", "failover", "--all")
    assert isinstance(many, list)
    assert len(many) == 1


def test_plan_refuses_by_the_gates_of_the_operation(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["west"].reachable = False
    code, plan = run_json(capsys, "plan", "failover", "revenue")
    assert code == 1
    assert isinstance(plan, dict)
    assert plan["refused"] is True
    (gate,) = [gate for gate in plan["gates"] if not gate["ok"]]
    assert gate["name"] == "standby-reachable"
    code, error = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert code == 1
    assert isinstance(error, dict)
    assert error["error"]["kind"] == "refused"
    assert error["error"]["text"] == f"revenue: {gate['name']}: {gate['text']}"


def test_a_wrong_belief_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_json(capsys, "failover", "revenue", "--expect-active", "west", "--yes")
    assert code == 1
    assert isinstance(error, dict)
    assert "expect-active: revenue is on east, not on west" in error["error"]["text"]


def test_an_operation_that_does_not_end_in_time_stays_open(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.answers = False
    code, shown = run_json(capsys, "failover", "revenue", "--to", "west", "--yes", "--timeout", LONG_ENOUGH_TO_BEGIN)
    assert code == 3
    assert isinstance(shown, dict)
    assert shown["outcome"] is None
    (row,) = run_json(capsys, "list")[1]
    assert (row["state"], row["operation"]) == ("held", shown["id"])
    world.runner.answers = True
    code, again = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    assert code == 0
    assert isinstance(again, dict)
    assert again["id"] == shown["id"]


def test_the_same_failover_without_a_target_joins_what_it_opened(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    world.runner.commits = False
    code, shown = run_json(capsys, "failover", "revenue", "--yes", "--timeout", LONG_ENOUGH_TO_BEGIN)
    assert code == 3
    assert isinstance(shown, dict)
    assert shown["phase"] in {"STARTING", "VERIFYING"}  # behind the commit, however busy the machine is
    code, error = run_json(capsys, "failover", "revenue", "--to", "east", "--yes")
    assert code == 1
    assert isinstance(error, dict)
    assert f"operation {shown['id']}, a failover to west, is open (" in error["error"]["text"]
    world.runner.commits = True
    code, again = run_json(capsys, "failover", "revenue", "--yes")
    assert code == 0
    assert isinstance(again, dict)
    assert (again["id"], again["outcome"]) == (shown["id"], "done")


def test_a_terminal_sees_the_plan_before_the_question(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _out, err = run(capsys, "failover", "revenue")
    assert code == 1
    assert "you answered no: nothing was changed" in err
    assert err.index("failover of revenue from east to west") < err.index(
        "Move revenue from east to west? Reads 0 records twice, leaves 20 records behind, takes an unknown time."
    )
    assert world.store.operations() == []
    monkeypatch.setattr(sys, "stdin", Terminal("y\nrevenu\n"))
    code, _out, err = run(capsys, "failover", "revenue", "--consent", "repeats")
    assert code == 1
    assert "Type 'revenue' to accept" in err
    monkeypatch.setattr(sys, "stdin", Terminal("y\nrevenue\n"))
    code, _out, err = run(capsys, "failover", "revenue", "--consent", "repeats")
    assert code == 0


def test_no_wait_needs_a_controller_that_leads(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("failover", "revenue", "--to", "west", "--yes", "--no-wait")
    assert run(capsys, *arguments)[0] == 2
    assert Leadership(world.store, SystemClock(), "elsewhere/1:b:1:1").take()
    code, answer = run_json(capsys, *arguments)
    assert code == 3
    assert isinstance(answer, dict)
    (request,) = world.store.open_requests()
    assert answer["error"]["kind"] == "outcome-unknown"
    assert answer["requests"] == [{"request": request.id, "query": "revenue", "group": request.group}]
    assert request.expires_at - request.created_at == timedelta(minutes=2)
    (row,) = run_json(capsys, "list")[1]
    assert (row["operation"], row["request"]) == (None, request.id)
    _, shown = run_json(capsys, "show", "revenue")
    assert isinstance(shown, dict)
    assert [(row["id"], row["to"]) for row in shown["requests"]] == [(request.id, "west")]
    assert "requests that have not begun" in run(capsys, "show", "revenue")[1]


def test_a_request_whose_verb_waits_no_longer_is_not_taken(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert Leadership(world.store, SystemClock(), "elsewhere/1:b:1:1").take()
    code, _, printed = run(capsys, "failover", "revenue", "--to", "west", "--yes", "--timeout", "1")
    assert code == 3
    assert "has not begun yet; it expires at" in printed
    (request,) = world.store.open_requests()
    assert world.carry_out(request) is None
    stored = world.store.request(request.id)
    assert stored is not None
    assert stored.refused is not None
    assert stored.refused.startswith("no controller took it before")
    assert world.store.operations() == []


def test_a_move_begins_by_the_stores_clock_whatever_this_host_believes(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hour = timedelta(hours=1)
    monkeypatch.setattr(SqlStore, "now", lambda self: datetime.now(UTC) - hour)
    assert Leadership(world.store, SystemClock(), "elsewhere/1:b:1:1").take()
    run(capsys, "failover", "revenue", "--to", "west", "--yes", "--no-wait")
    (request,) = world.store.open_requests()
    assert timedelta() <= world.store.now() - request.created_at < hour / 2
    assert request.id.startswith(f"{request.created_at:%y%m%d-%H%M%S}-")


def test_help_lists_each_verb_once_in_its_group_and_uncut(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    listed = [
        line.split()[0]
        for line in out.partition("Look:")[2].splitlines()
        if line.startswith("  ") and line[2:3].islower()
    ]
    assert sorted(each for each in listed if each in VERBS) == sorted(VERBS)
    assert out.index("Look:") < out.index("  show-op") < out.index("Move:") < out.index("  failover")
    assert "..." not in out.replace("[ARGS]...", "")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("failovr", "revenue"), "did you mean 'failover'?"),
        (("show", "revenu"), "did you mean 'revenue'?"),
        (("failover", "revenue", "--to", "wst"), "west"),
    ],
)
def test_a_name_that_is_nearly_right_is_suggested(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], hint: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert hint in err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("failover", "revenue", "--dry-run"), "tideover plan failover shows what it would do"),
        (("switchover", "--all", "--cluster", "east"), "--expect-active CLUSTER names it"),
        (("show-op",), "tideover show QUERY lists the last operations; tideover history those of all queries"),
        (("show-group",), "tideover show QUERY lists the last operations; tideover history those of all queries"),
        (("list", "--dry-run"), "see tideover list --help"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_command(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], hint: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert (code, err.splitlines()[-1]) == (2, f"hint: {hint}")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("failover", "revenue"), 2, "needs --yes and --to or --expect-active"),
        (("failover", "revenue", "--yes"), 2, "needs --yes and --to or --expect-active"),
        (("failover",), 2, "name one or more queries, or use --all"),
        (("failover", "revenue", "--all"), 2, "name one or more queries, or use --all"),
        (("failover", "nope"), 2, "query 'nope' is not declared"),
        (("failover", "revenue", "--to", "north"), 2, "cluster 'north' is not declared"),
        (("failover", "revenue", "--consent", "all"), 2, "Invalid value for '--consent'"),
        (("show", "nope"), 2, "query 'nope' is not declared"),
        (("failover", "revenue", "--to", "south", "--yes"), 2, "revenue may not run on south"),
        (("plan", "failover", "revenue", "--to", "south"), 2, "revenue may not run on south"),
        (("show-op", "nope"), 2, "the store knows no operation 'nope'"),
        (("history", "--operation", "nope"), 2, "the store knows no operation 'nope'"),
        (("history", "nope"), 2, "query 'nope' is not declared"),
        (("run", "--name", "z"), 78, "runner 'z' is not declared"),
        (("offsets", "--cluster", "west", "--topic", "orders"), 2, "use exactly one of"),
        (("offsets", "--cluster", "west", "--topic", "orders", "--at", "noon"), 2, "'noon' is not a time"),
        (("offsets", "--cluster", "west", "--topic", "nope", "--latest"), 2, "west has no topic 'nope'"),
        (("offsets", "--cluster", "west", "--topic", "orders", "--partition", "9", "--latest"), 2, "no partition 9"),
        (("frobnicate",), 2, "there is no verb 'frobnicate'"),
        (("status",), 2, "there is no verb 'status'; did you mean 'watch'?"),
        (("-c", "nowhere.yaml", "list"), 2, "nowhere.yaml is not a file"),
        (("-c", "nowhere.yaml", "run", "--name", "a"), 78, "nowhere.yaml is not a file"),
        (("-c", "nowhere.yaml", "control"), 78, "nowhere.yaml is not a file"),
    ],
)
def test_bad_usage_is_a_sentence_for_people_and_an_object_for_programs(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, text: str
) -> None:
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, "")
    assert text in err
    cached = structlog.get_config()["cache_logger_on_first_use"]
    assert not cached, "logs that are set up here go on into a stream that is closed by then"
    got, out, err = run(capsys, *arguments, "-o", "json")
    if code != 78:  # services log, and know no -o
        assert (got, err) == (code, "")
        assert text in json.loads(out)["error"]["text"]


def test_all_answers_share_one_time_limit(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []
    request = world.clusters["west"].offsets

    def offsets(times: Mapping[TopicPartition, int], *, read_committed: bool, timeout: float) -> object:
        left.append(timeout)
        return request(times, read_committed=read_committed, timeout=timeout)

    monkeypatch.setattr(world.clusters["west"], "offsets", offsets)
    arguments = ("--cluster", "west", "--topic", "orders", "--at", "0", "--at", "1", "--timeout", "4")
    assert run(capsys, "offsets", *arguments)[0] == 0
    assert 4 > left[0] > left[1]


def test_a_topic_that_may_not_be_described_is_not_called_missing(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = PartitionError(name="TOPIC_AUTHORIZATION_FAILED", text="not authorized", retriable=False)
    facts = TopicFacts(
        name="orders", topic_id=None, partitions={}, timestamp_type=None, cleanup_policy=None, error=error
    )
    monkeypatch.setattr(world.clusters["west"], "describe", lambda topics, *, timeout: {"orders": facts})
    code, answer = run_json(capsys, "offsets", "--cluster", "west", "--topic", "orders", "--latest")
    assert code == 2
    assert isinstance(answer, dict)
    assert answer["error"]["kind"] == "kafka"
    assert (
        answer["error"]["text"] == "cannot describe topic 'orders' on west: TOPIC_AUTHORIZATION_FAILED: not authorized"
    )


def test_offsets_are_looked_up_by_time_and_at_the_ends(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    at = "2026-01-31T11:58:00Z"
    code, found = run_json(capsys, "offsets", "--cluster", "west", "--topic", "orders", "--at", at)
    assert code == 0
    assert isinstance(found, list)
    assert found[0] == {
        "topic": "orders", "partition": 0, "query_time": "2026-01-31T11:58:00.000Z", "offset": 33,
        "timestamp_ms": 1769860680000, "leader_epoch": 0, "error": None,
    }  # fmt: skip
    late = ("--at", "2099-01-01T00:00:00Z", "--at", at)
    _, found = run_json(capsys, "offsets", "--cluster", "west", "--topic", "orders", "--partition", "1", *late)
    assert isinstance(found, list)
    assert [(row["offset"], row["error"]) for row in found] == [(None, None), (33, None)]
    for flag, offset in (("--earliest", 0), ("--latest", 143), ("--max-timestamp", 142)):
        _, found = run_json(capsys, "offsets", "--cluster", "west", "--topic", "orders", flag)
        assert isinstance(found, list)
        assert [row["offset"] for row in found] == [offset, offset]


def test_an_error_of_one_partition_is_in_its_row_beside_the_others(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages without times: error 43 (KIP-79)."""
    error = PartitionError(name="UNSUPPORTED_FOR_MESSAGE_FORMAT", text="no times", retriable=False)
    world.clusters["west"].partition("orders", 0).error = error
    requested = ("--cluster", "west", "--topic", "orders", "--at", "2026-01-31T11:58:00Z", "--at", "0")
    code, found = run_json(capsys, "offsets", *requested)
    assert code == 2
    assert isinstance(found, list)
    assert [(row["partition"], row["offset"], row["error"]) for row in found] == [
        (0, None, error.name), (0, None, error.name), (1, 33, None), (1, 0, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--at", "-5"), "is not a time"),
        (("--at", "0", "--at", "1969-12-31T23:59:59Z"), "Kafka has no negative timestamps"),
        (("--segments", "--before", "1969-12-31T23:59:59Z"), "Kafka has no negative timestamps"),
        (("--segments", "--isolation", "read_committed"), "--segments cannot be combined with --isolation"),
    ],
)
def test_offsets_refuses_bad_questions_before_any_request(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    text: str,
) -> None:
    requested: list[object] = []
    monkeypatch.setattr(world.clusters["west"], "describe", lambda topics, *, timeout: requested.append(topics))
    code, _, err = run(capsys, "offsets", "--cluster", "west", "--topic", "orders", *arguments)
    assert (code, requested) == (2, [])
    assert text in err


def test_segments_are_shown_newest_first_where_the_brokers_still_know_them(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    west = world.clusters["west"]
    west.roll("orders", 0, written_ms=1_000)
    west.write("orders", 0, "one more", 2_000)
    requested = ("offsets", "--cluster", "west", "--topic", "orders", "--partition", "0", "--segments")
    end = west.partition("orders", 0).end
    code, found = run_json(capsys, *requested)
    assert (code, found) == (0, [{
        "topic": "orders", "partition": 0, "query_time": "latest", "offsets": [end, end - 1, 0],
        "timestamp_ms": None, "leader_epoch": None, "error": None,
    }])  # fmt: skip
    for more, offsets in ((("--limit", "2"), [end, end - 1]), (("--before", "1000"), [0]), (("--before", "999"), [])):
        code, found = run_json(capsys, *requested, *more)
        assert isinstance(found, list)
        assert (code, found[0]["offsets"]) == (0, offsets)
    assert run(capsys, *requested[:-1], "--latest", "--limit", "2")[0] == 2
    west.knows_segments = False
    code, out, err = run(capsys, *requested, "-o", "tsv")
    assert (code, out.splitlines()[1].split("\t")[-1]) == (2, "UNSUPPORTED_VERSION")
    assert "does not support segment-level search" in err


def test_the_age_of_a_copy_is_shown_in_seconds_and_records(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    east = world.clusters["east"]
    newest = east.records("orders", 0)[-1].timestamp_ms
    there = world.clusters["west"].records("orders", 0)[-1].timestamp_ms
    for number in range(3):
        east.write("orders", 0, f"late-{number}", newest + 4_000 + number)
    requested = ("offsets", "--cluster", "east", "--topic", "orders", "--partition", "0", "--max-timestamp")
    code, found = run_json(capsys, *requested, "--compare", "west")
    assert code == 0
    assert isinstance(found, list)
    behind = sum(record.timestamp_ms > there for record in east.records("orders", 0))
    assert behind >= 3
    reported = {key: found[0][key] for key in ("timestamp_ms", "standby_timestamp_ms", "age_seconds", "age_records")}
    assert reported == {
        "timestamp_ms": newest + 4_002, "standby_timestamp_ms": there, "age_seconds": (newest + 4_002 - there) / 1000,
        "age_records": behind,
    }  # fmt: skip
    assert run(capsys, *requested[:-1], "--latest", "--compare", "west")[0] == 2
    assert run(capsys, *requested, "--compare", "nowhere")[0] == 2


LIST = """\
query    cluster  state      progress  automatic  ready  away
-------  -------  ---------  --------  ---------  -----  ----
revenue        -  never-run         -  off            -  -
"""


def test_a_query_that_never_ran_is_listed_as_such(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list") == (0, LIST, "")
    assert run(capsys, "list", "-o", "tsv") == (
        0,
        "\t".join(QUERY_COLUMNS) + "\nrevenue\t\t\t\tnever-run\t\t\t\toff\t\teast\t\t\t\n",
        "",
    )
    _code, out, _ = run(capsys, "list", "-o", "yaml")
    assert out.startswith("- query: revenue\n  cluster: null\n")


def test_the_history_shows_who_what_when_and_why(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "failover", "revenue", "--to", "west", "--yes")
    code, found = run_json(capsys, "history", "revenue")
    assert code == 0
    assert isinstance(found, list)
    assert {row["kind"] for row in found} >= {"hold", "resolve", "prepare", "start", "verify", "settled"}
    assert all(datetime.fromisoformat(row["at"]).tzinfo == UTC for row in found)
    assert len(run_json(capsys, "history", "--limit", "2")[1]) == 2


def test_config_is_checked_and_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "check")
    assert (code, out) == (
        0,
        f"{folder}/tideover.yaml: no mistakes; 3 clusters, 2 routes, 2 runners, 1 queries\n",
    )
    code, out, _ = run(capsys, "config", "show")
    assert f"store: sqlite:///{folder}/t.db\n" in out
    (folder / "tideover.yaml").write_text(CONFIG + "    tigger: 1s\n", encoding="utf-8")
    code, out, err = run(capsys, "config", "check")
    assert (code, out) == (2, "")
    assert "queries.revenue.tigger: no such key; did you mean 'trigger'?" in err


@pytest.mark.parametrize(
    "verb",
    [
        "run",
        "list",
        "show",
        "plan failover",
        "failover",
        "pause",
        "resume",
        "ack",
        "check",
        "history",
        "show-op",
        "offsets",
        "config check",
    ],
)
def test_every_verb_has_help_with_examples(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = run(capsys, *verb.split(), "--help")
    assert code == 0
    assert "Example" in out
    assert "tideover" in out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("tideover, version ")
