"""Pause, resume, ack, check and a followed history, as people and programs see them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.streaming_output import follow
from orchestrator.decide.gates.gate import UNKNOWN, Gate
from orchestrator.decide.gates.readiness import Readiness
from orchestrator.history_tail import BATCH
from orchestrator.lease import NAME
from orchestrator.shapes.operation_shapes import event_row
from state.errors import StoreUnavailable
from state.model.automation import AUTOMATIC, EVERY
from state.model.cluster_status import ClusterStatus, Verdict
from state.model.entities import Event, Operation, OperationKind, Phase
from state.model.measured import NOTHING
from state.store.sql.migrate import open_store
from state.store.sql.operations import AssignmentTable, AutomationTables
from state.store.sql.store import SqlStore
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.simulation.conftest import CONFIG
from tests.simulation.stores import back_up
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import ManualClock, World

AUTO = CONFIG + "policy: {automatic: true}\n"
ROOT = Path(__file__).resolve().parents[2]
TTL = timedelta(seconds=30)


@pytest.fixture
def automatic(world: World, folder: Path) -> World:
    (folder / "tideover.yaml").write_text(AUTO, encoding="utf-8")
    return world


def moved(world: World, *, outcome: str | None = "done", name: str = "x1", query: str = "revenue") -> Operation:
    """An automatic failover, as the store remembers it."""
    lease = world.store.lead(NAME, "test", TTL)
    assert lease is not None
    now = datetime.now(UTC)
    operation = Operation(
        id=name, group="g", kind=OperationKind.FAILOVER, query=query, source="west", target="east", epoch=1,
        phase=Phase.SETTLED if outcome else Phase.FENCING, outcome=outcome, actor=AUTOMATIC, reason="", consents=(),
        plan=None, measured=NOTHING, sentence="", started_at=now, ended_at=now if outcome else None,
    )  # fmt: skip
    world.store.record(operation, term=lease.term)
    world.store.resign(lease)
    return operation


def state(capsys: pytest.CaptureFixture[str]) -> object:
    (row,) = run_json(capsys, "list")[1]
    return row["automatic"]


def test_a_pause_is_shown_until_it_is_resumed_and_is_in_the_history(
    automatic: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state(capsys) == "on"
    code, shown = run_json(capsys, "pause", "revenue", "--until", "2h", "--reason", "broker upgrade")
    assert code == 0
    assert isinstance(shown, list)
    assert (shown[0]["scope"], shown[0]["reason"], shown[0]["resumed_at"]) == ("revenue", "broker upgrade", None)
    until, since = (datetime.fromisoformat(shown[0][name]) for name in ("until", "since"))
    assert until - since == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=1))
    assert state(capsys) == "paused"
    _, detail = run_json(capsys, "show", "revenue")
    assert isinstance(detail, dict)
    assert detail["automatic"]["pause"] == shown[0]
    assert (
        f"paused      {shown[0]['actor']} paused automatic failover of revenue until"
        in run(capsys, "show", "revenue")[1]
    )
    code, ended = run_json(capsys, "resume", "revenue", "--reason", "done")
    assert code == 0
    assert isinstance(ended, list)
    assert ended[0]["resumed_at"] is not None
    assert state(capsys) == "on"
    events = [event for event in automatic.store.history() if event.kind in {"pause", "resume"}]
    assert [(event.kind, event.query) for event in events] == [("pause", "revenue"), ("resume", "revenue")]
    assert events[0].text.endswith(": broker upgrade")
    assert events[0].actor == shown[0]["actor"]


@pytest.mark.parametrize(
    ("part", "write", "words"),
    [
        (AutomationTables, "pause", ("pause", "revenue")),
        (AutomationTables, "resume", ("resume", "revenue")),
        (AutomationTables, "acknowledge", ("ack", "revenue")),
        (AssignmentTable, "reconcile", ("reconcile", "revenue", "--yes")),
    ],
)
def test_a_store_that_is_lost_at_the_write_may_have_kept_it(
    automatic: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    part: type,
    write: str,
    words: tuple[str, ...],
) -> None:
    moved(automatic)
    if write == "reconcile":
        automatic.store.report_query(samples.fact(query="revenue", cluster="west", epoch=7))

    def lost(*_: object, **__: Any) -> None:
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(part, write, lost)
    code, answer = run_json(capsys, *words)
    assert code == 3
    assert isinstance(answer, dict)
    assert answer["error"]["kind"] == "outcome-unknown"
    assert "may or may not have been saved: the connection was lost" in answer["error"]["text"]
    assert "safe to repeat" in answer["error"]["hint"]


def test_a_store_that_is_away_before_the_write_has_kept_nothing(
    automatic: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> datetime:
        raise StoreUnavailable("no connection")

    monkeypatch.setattr(SqlStore, "now", away)
    assert run_json(capsys, "pause", "revenue", "--until", "2h")[0] == 2


def test_resuming_all_leaves_the_pause_of_a_single_query_and_says_so(
    automatic: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "pause", "--all")
    run(capsys, "pause", "revenue", "--reason", "mine")
    code, out, err = run(capsys, "resume", "--all")
    assert code == 0
    assert out.splitlines()[2].startswith("*")
    assert "still paused: " in err
    assert "paused automatic failover of revenue until tideover resume revenue: mine" in err
    assert state(capsys) == "paused"
    assert {pause.scope: pause.resumed_at is None for pause in automatic.store.pauses()} == {
        EVERY: False,
        "revenue": True,
    }
    assert run(capsys, "resume", "--all") == (
        0,
        "",
        "there is no pause of all queries to end: nothing done\n" + err,
    )
    assert run_json(capsys, "resume", "--all") == (0, [])


def test_pausing_names_what_is_under_way_and_resuming_what_is_down(
    automatic: World, capsys: pytest.CaptureFixture[str]
) -> None:
    moved(automatic, outcome=None)
    assert "operation x1 of revenue has already begun and continues" in run(capsys, "pause", "revenue")[2]
    lease = automatic.store.lead(NAME, "test", TTL)
    assert lease is not None
    now = datetime.now(UTC)
    down = ClusterStatus(
        cluster="east", verdict=Verdict.DOWN, since=now, down_since=now, reasons=(), first_failed_at=now,
        leaderless=None, unreadable=None, under_replicated=None, under_min_isr=None, decided_at=now, term=lease.term,
    )  # fmt: skip
    event = Event(
        sequence=None, at=now, kind="verdict", query=None, operation=None, epoch=None, actor="test", text="", detail={}
    )
    automatic.store.record_status(down, term=lease.term, event=event)
    assert "east has been down since" in run(capsys, "resume", "revenue")[2]


def test_an_acknowledgement_ends_the_cooldown_once(automatic: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ack", "revenue") == (
        0,
        "",
        "revenue is not in cool-down, nothing to acknowledge: nothing done\n",
    )
    moved(automatic)
    assert state(capsys) == "cooling-down"
    _, detail = run_json(capsys, "show", "revenue")
    assert isinstance(detail, dict)
    assert detail["automatic"]["cooldown"]["operation"] == "x1"
    assert "cool-down   operation x1 moved revenue automatically" in run(capsys, "show", "revenue")[1]
    code, shown = run_json(capsys, "ack", "revenue", "--reason", "west is fine")
    assert code == 0
    assert isinstance(shown, list)
    assert (shown[0]["operation"], shown[0]["reason"]) == ("x1", "west is fine")
    assert keys(shown) == said("`ack`: an array of those that were given")
    assert state(capsys) == "on"
    assert run_json(capsys, "ack", "revenue") == (0, [])
    assert [(event.kind, event.epoch) for event in automatic.store.history(operation="x1")] == [("ack", 1)]


def test_an_operation_under_way_is_not_acknowledged(automatic: World, capsys: pytest.CaptureFixture[str]) -> None:
    moved(automatic, outcome=None)
    code, error = run_json(capsys, "ack", "revenue")
    assert code == 1
    assert isinstance(error, dict)
    assert error["error"]["text"] == "operation x1 of revenue is still running: acknowledge it after it has ended"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("pause",), "name one query, or use --all"),
        (("pause", "revenue", "--all"), "name one query, or use --all"),
        (("pause", "nope"), "query 'nope' is not declared"),
        (("pause", "revenue", "--until", "noon"), "'noon' is not a time"),
        (("pause", "revenue", "--until=-15m"), "is in the past"),
        (("pause", "revenue", "--until", "2020-01-31T12:00:00Z"), "is in the past"),
        (("pause", "revenue", "--until", "9999999999d"), "too long for a duration"),
        (("pause", "revenue", "--until", "99999999d"), "is too far in the future"),
        (("resume",), "name one query, or use --all"),
        (("ack", "nope"), "query 'nope' is not declared"),
        (("check", "nope"), "query 'nope' is not declared"),
    ],
)
def test_bad_usage_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    before = world.store.history()
    code, error = run_json(capsys, *arguments)
    assert code == 2
    assert isinstance(error, dict)
    assert text in error["error"]["text"]
    assert (world.store.pauses(), world.store.history()) == ([], before)


# -- check -----------------------------------------------------------------------------------------------------------
def test_a_ready_standby_is_shown_with_every_gate(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = run_json(capsys, "check")
    assert code == 0
    assert isinstance(shown, list)
    (row,) = shown
    assert (row["query"], row["ready"]) == ("revenue", True)
    assert set(row["gates"][0]) == {"name", "ok", "measured", "limit", "text"}
    names = [gate["name"] for gate in row["gates"]]
    assert {"store-current", "standby-reachable", "exposure", "retention-reach", "replication-lag"} <= set(names)
    lag = next(gate for gate in row["gates"] if gate["name"] == "replication-lag")
    assert (lag["measured"], lag["limit"]) == ("10.0 s", "60 s")
    assert world.store.operations() == []
    code, out, _ = run(capsys, "check", "revenue", "-o", "tsv")
    assert code == 0
    assert out.splitlines()[0] == "query\tname\tok\tmeasured\tlimit\ttext"
    printed = run(capsys, "check", "revenue", "--details")[1]
    assert printed.startswith("revenue: ready\n")
    assert all(name in printed for name in names)
    assert row["replication"]["text"].startswith("west is 10.0 s behind east at most (orders-0, ")
    assert row["replication"]["text"].split(";")[0] in printed
    ages = [(each["topic"], each["partition"], each["age_seconds"]) for each in row["replication"]["partitions"]]
    assert ages == [("orders", 0, 10.0), ("orders", 1, 10.0)]


def test_a_check_shows_what_refuses_and_keeps_the_rest_for_details(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = run(capsys, "check")[1].splitlines()
    _, shown = run_json(capsys, "check")
    assert isinstance(shown, list)
    gates = shown[0]["gates"]
    said = f"revenue: ready ({len(gates)} of {len(gates)} gates pass); exact: 2 of 2 resume offsets proven; "
    assert line.startswith(f"{said}west is 10.0 s behind east")
    assert (shown[0]["proven"], shown[0]["partitions"]) == (2, 2)
    world.clusters["west"].reachable = False
    code, printed, _ = run(capsys, "check")
    assert code == 1
    first, *refused = printed.splitlines()
    assert first.startswith("revenue: NOT READY (")
    assert refused[0].startswith("  standby-reachable: west cannot be reached: ")
    _, shown = run_json(capsys, "check")
    assert isinstance(shown, list)
    assert len(refused) == sum(not gate["ok"] for gate in shown[0]["gates"])


def test_a_dead_primary_does_not_make_the_standby_less_ready(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["east"].reachable = False
    assert run(capsys, "check")[0] == 0


@pytest.mark.parametrize("how", ["cut", "recreated"])
def test_a_log_that_lost_read_records_is_named_by_partition_and_offset(
    world: World, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    east = world.clusters["east"]
    if how == "cut":
        east.truncate("orders", 0, 60)
    else:
        east.create("orders", len(east.topics["orders"].partitions))
    for offset in range(500):
        east.write("orders", 0, f"new-{offset}", 1)
    code, shown = run_json(capsys, "check", "revenue")
    assert code == 1
    assert isinstance(shown, list)
    (gate,) = [gate for gate in shown[0]["gates"] if gate["name"] == "log-truncation"]
    assert not gate["ok"]
    assert f"orders-0 (read to 100, diverges at {60 if how == 'cut' else 0})" in gate["text"]


def test_a_standby_that_is_not_there_is_not_ready(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clusters["west"].reachable = False
    code, shown = run_json(capsys, "check", "revenue")
    assert code == 1
    assert isinstance(shown, list)
    assert shown[0]["ready"] is False
    assert [gate["name"] for gate in shown[0]["gates"] if not gate["ok"]] == ["standby-reachable"]
    assert run(capsys, "check", "revenue")[1].startswith("revenue: NOT READY (")


def test_a_query_that_was_never_sampled_is_not_known_to_be_ready(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.store.save_ends(
        replace(sample, newest_timestamp_ms=None, sampled_at=sample.sampled_at + timedelta(days=1))
        for sample in world.store.ends("east").values()
    )
    code, shown = run_json(capsys, "check")
    assert code == 3
    assert isinstance(shown, list)
    assert shown[0]["ready"] is None
    assert run(capsys, "check")[1].startswith("revenue: UNKNOWN (")


@pytest.mark.parametrize(
    ("found", "code"), [((True, True), 0), ((True, None), 3), ((None, False), 1), ((False, True), 1)]
)
def test_the_worst_answer_of_several_queries_is_the_exit_code(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[bool | None, ...],
    code: int,
) -> None:
    measured = {True: (), None: (UNKNOWN,), False: ("90 s",)}

    def refusals(answer: bool | None) -> tuple[Gate, ...]:
        return tuple(Gate(name="lag", ok=False, measured=each, limit="60 s", text="") for each in measured[answer])

    answers = [
        Readiness(query="revenue", source="east", target="west", gates=refusals(answer), replication=None)
        for answer in found
    ]
    monkeypatch.setattr("orchestrator.cli.inspect.check.check_queries", lambda *_, **__: iter(answers))
    exit_code, printed, _ = run(capsys, "check")
    assert exit_code == code
    count = f"{found.count(False)} NOT READY, {found.count(None)} UNKNOWN, {found.count(True)} ready"
    worst = next(word for ready, word in ((False, "NOT READY"), (None, "UNKNOWN"), (True, "ready")) if ready in found)
    assert printed.splitlines()[0] == f"2 queries: {count}"
    assert printed.splitlines()[1].startswith(f"revenue: {worst} (")


# -- a followed history ----------------------------------------------------------------------------------------------
def note(folder: Path, text: str) -> None:
    store = open_store(f"sqlite:///{folder}/t.db")
    store.note(
        Event(
            sequence=None, at=datetime.now(UTC), kind="note", query="revenue", operation=None, epoch=None, actor="test",
            text=text, detail={},
        )
    )  # fmt: skip
    store.close()


def followed(folder: Path, *arguments: str, wait: Callable[["subprocess.Popen[str]"], None]) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "history", "-f", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait(process)
        assert process.stderr is not None
        code = process.wait(120)
        return code, process.stderr.read()
    finally:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_followed_history_prints_what_comes_and_ends_cleanly(folder: Path, number: signal.Signals) -> None:
    for text in ("one", "two", "three"):
        note(folder, text)

    def wait(process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["text"] for _ in range(2)] == ["two", "three"]
        note(folder, "four")
        row = json.loads(process.stdout.readline())
        assert (row["sequence"], row["text"]) == (4, "four")
        process.send_signal(number)
        assert process.stdout.read() == ""

    assert followed(folder, "--limit", "2", "-o", "json", wait=wait) == (0, "")


def test_after_a_store_was_away_no_more_lines_are_shown_than_requested(capsys: pytest.CaptureFixture[str]) -> None:
    requested: list[tuple[int, int]] = []

    def read(after: int, newest: int) -> list[Event]:
        requested.append((after, newest))
        if len(requested) < 3:
            raise StoreUnavailable("locked")
        if len(requested) == 4:
            raise KeyboardInterrupt
        return [samples.event(sequence=7)]

    follow(read, event_row, newest=2, columns=("text",), output="tsv", clock=ManualClock(), is_kept=young)
    assert requested == [(0, 2), (0, 2), (0, 2), (6, BATCH)]
    assert capsys.readouterr().err.count("the store does not answer") == 1


def test_a_history_that_was_put_back_is_followed_from_its_new_end(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore(lambda: datetime.now(UTC))
    store.note(samples.event(text="one"))
    put_back = back_up(store)
    store.note(samples.event(text="two"))
    # What happens between two looks; the look after the store was put back only finds the new end.
    in_between = iter((put_back, lambda: None, lambda: store.note(samples.event(text="anew")), lambda: None))

    def read(after: int, newest: int) -> Sequence[Event]:
        return store.history(after=after, limit=newest)

    class Clock(ManualClock):
        def wait(self, seconds: float) -> None:
            if (comes := next(in_between, None)) is None:
                raise KeyboardInterrupt
            comes()

    follow(read, event_row, newest=5, columns=("text",), output="tsv", clock=Clock(), is_kept=young)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["text", "one", "two", "anew"]
    assert captured.err.startswith("the store was restored from a backup: it no longer has line 2, shown above. ")
    assert captured.err.count("\n") == 1


def young(event: Event) -> bool:
    return True


def test_a_reader_that_has_enough_ends_it_without_a_complaint(folder: Path) -> None:
    note(folder, "one")

    def wait(process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        assert process.stdout.readline().rstrip().endswith("revenue  -  -  test  one")
        process.stdout.close()
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            note(folder, "more")
            time.sleep(0.2)

    assert followed(folder, wait=wait) == (0, "")


def test_letters_that_cannot_be_seen_are_cleaned_from_a_reason(
    automatic: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run_json(capsys, "pause", "revenue", "--reason", "a\nb\x1b[31m\x9b\u202ec\u2028d")
    assert (code, shown[0]["reason"]) == (0, "a b\ufffd[31m\ufffd\ufffdc d")
    assert automatic.store.history()[-1].detail["reason"] == shown[0]["reason"]
    code, _, wrong = run(capsys, "pause", "revenue", "--reason", "x" * 501)
    assert code == 2
    assert "the text has 501 letters, and 500 are the most" in wrong
