"""Verbs about some of many queries: by label, by where they are, all at once."""

import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.decide.gates.readiness import Readiness
from orchestrator.decide.times import instant
from state.model.entities import Intent, IntentKind, RunState
from state.model.plan import Gate
from tests.contract import samples
from tests.simulation.conftest import CONFIG, WAIT
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.test_cli_steer import moved
from tests.simulation.world import World
from tests.waiting import until


@pytest.fixture
def three(world: World, folder: Path) -> World:
    """Revenue and clicks of one team, search of another; automatic mode is on."""
    head, _, revenue = CONFIG.partition("  revenue:")
    text = head
    for name, team in (("revenue", "shop"), ("clicks", "shop"), ("search", "find")):
        text += f"  {name}:" + revenue.replace("/cp/revenue", f"/cp/{name}")
        text += f"    labels: {{team: {team}, tier: {'gold' if name == 'clicks' else 'tin'}}}\n"
    (folder / "tideover.yaml").write_text(text + "policy: {automatic: true}\n", encoding="utf-8")
    for name in ("clicks", "search"):
        world.add(name)
    return world


def places(world: World) -> dict[str, str]:
    return {each.query: each.cluster for each in world.store.assignments()}


def test_a_label_moves_its_queries_and_no_others(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, plans = run_json(capsys, "plan", "failover", "--label", "team=shop", "--label", "tier=gold")
    assert [each["query"] for each in plans] == ["clicks"]
    code, done = run_json(capsys, "failover", "--label", "team=shop", "--to", "west", "--yes")
    assert (code, {each["query"] for each in done}) == (0, {"revenue", "clicks"})
    assert places(three) == {"revenue": "west", "clicks": "west", "search": "east"}
    again = run_json(capsys, "failover", "--label", "team=shop", "--expect-active", "east", "--yes")
    assert again == (0, []), "none of them is there any more"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("failover", "--label", "team=nobody", "--to", "west", "--yes"), "no query has the label team=nobody"),
        (("failover", "--label", "team", "--to", "west", "--yes"), "'team' is not a label: write KEY=VALUE"),
        (("failover", "--label", "team=shop", "--yes"), "--label needs --to or --expect-active"),
        (("failover", "revenue", "--label", "team=shop", "--to", "west", "--yes"), "or use --all, or --label"),
        (("plan", "failover", "--all", "--label", "team=shop"), "or use --all, or --label"),
        (("check", "revenue", "--label", "team=shop"), "or use --all, or --label"),
        (("ack",), "or use --all, or --label"),
    ],
)
def test_a_label_that_means_nothing_is_refused_before_anything(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    if "--expect-active" in text:
        monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert text in err
    if "nobody" in text:
        assert "labels of queries: team=find, team=shop, tier=gold, tier=tin" in err
    assert three.store.open_requests() == []


def test_list_shows_the_queries_that_are_named(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "failover", "clicks", "--to", "west", "--yes")

    def listed(*words: str) -> list[str]:
        return [row["query"] for row in run_json(capsys, "list", *words)[1]]

    assert listed() == ["clicks", "revenue", "search"]
    assert listed("--cluster", "east") == ["revenue", "search"]
    assert listed("--label", "team=shop", "--cluster", "east") == ["revenue"]
    assert listed("--not-ready") == ["clicks", "revenue", "search"], "no controller has looked yet"
    term, now = samples.term_of(three.store), three.store.now()
    for name, ready in (("clicks", True), ("revenue", False)):
        found = samples.readiness(query=name, ready=ready, since=now, sampled_at=now)
        three.store.keep_readiness(found, term=term, event=samples.event())
    assert listed("--not-ready") == ["revenue", "search"]
    code, out, err = run(capsys, "list", "--cluster", "west")
    assert (code, err) == (0, "1 of 3 queries\n")
    assert out.splitlines()[2].endswith("team=shop tier=gold")
    assert run(capsys, "list", "--cluster", "north")[0] == 2


def test_history_shows_the_lines_of_a_kind_since_a_time(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the history is empty" in run(capsys, "history")[2]
    run(capsys, "pause", "revenue", "--reason", "first")
    run(capsys, "resume", "revenue")
    run(capsys, "pause", "clicks", "--reason", "second")
    assert run(capsys, "history")[2] == ""
    answer = run_json(capsys, "history", "--kind", "pause")[1]
    assert [each["query"] for each in answer] == ["revenue", "clicks"]
    since = answer[1]["at"]
    assert [each["query"] for each in run_json(capsys, "history", "--kind", "pause", "--since", since)[1]] == ["clicks"]
    assert run_json(capsys, "history", "--since", "-1h", "--kind", "pause")[1] == answer
    code, _, err = run(capsys, "history", "--kind", "paws")
    assert (code, err) == (0, "no line of the history matches; tideover history shows all kinds\n")
    assert run(capsys, "history", "--since", "noon")[0] == 2


def test_all_cooldowns_are_acknowledged_at_once(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none of 3 queries is in cool-down" in run(capsys, "ack", "--all")[2]
    moved(three)
    code, given = run_json(capsys, "ack", "--label", "team=find")
    assert (code, given) == (0, [])
    code, given = run_json(capsys, "ack", "--all", "--reason", "seen")
    assert (code, [(each["query"], each["operation"]) for each in given]) == (0, [("revenue", "x1")])
    assert run_json(capsys, "ack", "--all") == (0, [])


def test_a_query_that_still_moves_keeps_no_other_from_its_ack(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    moved(three)
    moved(three, outcome=None, name="x2", query="clicks")
    code, out, err = run(capsys, "ack", "--all", "-o", "tsv")
    assert (code, [line.split("\t")[0] for line in out.splitlines()]) == (1, ["query", "revenue"])
    assert "operation x2 of clicks is still running" in err


def test_all_queries_that_a_runner_reports_are_reconciled(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "the store is current for all 3 queries: nothing done" in run(capsys, "reconcile", "--all")[2]
    silenced = threading.Event()
    monkeypatch.setattr(three.runner, "live", silenced.set)
    assert silenced.wait(WAIT), "the runner reports once more at most, and before this"
    for name in ("revenue", "clicks"):
        fact = samples.fact(query=name, epoch=4, cluster="west", runner="b", checkpoint=f"/cp/{name}/new")
        assert three.store.report_query(fact)
    held = {
        "epoch": 1,
        "cluster": "east",
        "runner": "a",
        "checkpoint": "/cp/search",
        "instance": "one",
        "mapping": None,
    }
    three.store.report_query(samples.fact(query="search", **held, state=RunState.FAILED, held_by="lost"))
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "reconcile", "--all")
    assert code == 1
    assert "Save in the store what the runners report of 2 queries?" in err
    assert set(places(three).values()) == {"east"}, "the answer was no"
    code, out, err = run(capsys, "reconcile", "--all", "--yes", "--reason", "backup", "-o", "tsv")
    assert code == 1, "one of them nobody can report"
    assert "no runner has read yet where search is" in err
    assert [line.split("\t")[:2] for line in out.splitlines()[1:]] == [
        *([name, side] for name in ("clicks", "revenue") for side in ("store", "runner", "now")),
        ["search", "store"],
    ]
    assert places(three) == {"revenue": "west", "clicks": "west", "search": "east"}
    assert run(capsys, "reconcile", "--all", "--cluster", "west")[0] == 2


def held_back(world: World, query: str, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The runner prepares nothing for one query before the event is set."""
    answer, over = world.runner._answer, threading.Event()

    def answered(intent: Intent) -> None:
        if intent.query != query or intent.kind is not IntentKind.PREPARE or over.is_set():
            answer(intent)

    monkeypatch.setattr(world.runner, "_answer", answered)
    return over


def test_the_evidence_of_a_group_does_not_wait_for_its_slowest_member(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.operation.wait.MEASURED_WITHIN", timedelta(0))
    over = held_back(three, "search", monkeypatch)
    found: list[set[str]] = []

    def look() -> None:
        """Let the slow one continue once the others have their evidence."""
        try:
            until(lambda: len(evidence()) == 2, "no evidence before the slowest has ended")
            found.append(evidence())
        finally:
            over.set()

    def evidence() -> set[str]:
        closed = [each for each in three.store.operations() if three.store.evidence(each.id) is not None]
        return {each.query for each in closed}

    looker = threading.Thread(target=look)
    looker.start()
    code, done = run_json(capsys, "failover", "--all", "--to", "west", "--yes")
    looker.join(WAIT)
    assert (code, {each["query"] for each in done}) == (0, {"revenue", "clicks", "search"})
    assert found == [{"revenue", "clicks"}]
    assert evidence() == {"revenue", "clicks", "search"}


def test_the_moves_of_one_command_are_shown_in_one_report(
    three: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, moves = run_json(capsys, "failover", "--label", "team=shop", "--to", "west", "--yes", "--reason", "test")
    assert (code, len({each["group"] for each in moves})) == (0, 1)
    group = moves[0]["group"]
    code, found = run_json(capsys, "show-group", group)
    assert (code, sorted(each["query"] for each in found["queries"])) == (0, ["clicks", "revenue"])
    assert (found["outcomes"], found["reason"]) == ({"done": 2}, "test")
    pauses = [each["measured"]["switch_seconds"] for each in moves]
    assert found["longest_pause_seconds"] == max(pauses)
    assert run_json(capsys, "show-group", moves[0]["id"])[1] == found
    code, out, err = run(capsys, "show-group", group)
    assert "exposure records: unknown for 2 of 2 moves, until the old cluster answers" in err
    assert (code, "revenue" in out, "longest pause" in out.lower().replace("_", " ")) == (0, True, True)
    for end, wanted in ((".html", "<h1>failover of 2 queries</h1>"), (".json", '"outcomes":{"done":2}')):
        target = folder / f"report{end}"
        assert run(capsys, "show-group", group, "--report", str(target))[0] == 0
        assert wanted in target.read_text(encoding="utf-8")
        code, _, err = run(capsys, "show-group", group, "--report", str(target))
        assert (code, "a report overwrites nothing" in err) == (2, True)
    assert "neither with .json nor with .html" in run(capsys, "show-group", group, "--report", "report.pdf")[2]
    assert "no request and no operation has the group 'x'" in run(capsys, "show-group", "x")[2]
    moved(three, outcome=None, name="x2", query="search")
    assert run(capsys, "show-group", "x2", "--report", "later.json")[0] == 1


def test_a_terminal_shows_each_second_who_is_waited_for_and_why(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = held_back(three, "search", monkeypatch)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "300")
    live = "s: 2 of 3 have ended, search is PREPARING: waiting for runner a to make the checkpoint: ordered at"

    def look() -> None:
        try:
            until(lambda: screen.getvalue().count(live) >= 2, "the line of the terminal does not change")
        finally:
            over.set()

    looker = threading.Thread(target=look)
    looker.start()
    code = main(["failover", "--all", "--to", "west", "--yes", "-o", "json"])
    looker.join(WAIT)
    assert code == 0
    assert screen.getvalue().count(live) >= 2
    assert not screen.getvalue().endswith("\r"), "the line is taken away at the end"
    assert live not in capsys.readouterr().out
    monkeypatch.undo()
    assert live not in run(capsys, "failback", "--all", "--expect-active", "west", "--yes")[2], "no pipe gets it"


def test_a_refusal_of_many_queries_in_the_same_words_is_said_once(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cli.moves.move.MANY", 2)
    run(capsys, "failover", "--all", "--to", "west", "--yes")
    code, _, err = run(capsys, "failback", "--all", "--expect-active", "west", "--yes")
    assert code == 1
    why = "replication-alive: the route from west to east declares no heartbeats"
    assert err.count(why) == 2, "while they end, and as the answer"
    assert f"tideover: revenue, clicks, search: {why}" in err
    assert "declare its heartbeats under routes, as those of west; --consent replication accepts it" in err
    assert "hint: tideover plan failback revenue shows every gate" in err
    printed = run(capsys, "plan", "failback", "--all", "--expect-active", "west")[1]
    assert "3 queries: 0 can move, 3 refused" in printed
    assert "expected time" not in printed


def test_show_has_times_that_people_read(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    three.track("revenue", 8, 110, cluster="east", epoch=1)
    printed = run(capsys, "show", "revenue")[1]
    assert "timestamp ms" not in printed
    (at,) = {each["timestamp_ms"] for each in run_json(capsys, "show", "revenue")[1]["positions"]}
    assert str(instant(at)) in printed


def test_of_many_ready_queries_check_shows_the_names(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in places(three):
        three.track(name, 8, 110, cluster="east", epoch=1)
    whole = run(capsys, "check")[1].splitlines()
    assert [line.partition(" (")[0] for line in whole[1:]] == ["revenue: ready", "clicks: ready", "search: ready"]
    monkeypatch.setattr("orchestrator.cli.inspect.check.READY_WHOLE", 2)
    code, printed, _ = run(capsys, "check")
    assert (code, printed.splitlines()) == (0, [
        "3 queries: 0 NOT READY, 0 UNKNOWN, 3 ready",
        "ready: revenue, clicks, search",
        "oldest copy: 10.0 s (orders-0 of search); --details shows every gate and copy",
    ])  # fmt: skip


def test_failback_names_no_target_and_says_so(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("failback", "--all", "--yes"), ("plan", "failback", "--all")):
        code, _, err = run(capsys, *words, "--to", "east")
        assert code == 2
        assert "failback takes queries home, to the first of their clusters, and has no --to" in err
        assert "hint: leave --to out" in err
    assert run(capsys, "failback", "--all")[2].endswith("hint: tideover failback --all --yes\n")
    assert run(capsys, "failover", "--all", "--to", "west")[2].endswith(
        "hint: tideover failover --all --to west --yes\n"
    )


def test_check_shows_the_same_refusal_of_many_queries_once(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "failover", "--all", "--to", "west", "--yes")
    whole = run(capsys, "check")
    assert whole[1].count("  place-found: no resume offset") == 3, "nothing is tracked there"
    monkeypatch.setattr("orchestrator.cli.inspect.check.ALIKE", 2)
    code, printed, _ = run(capsys, "check")
    assert (code, printed.splitlines()[1]) == (whole[0], "revenue, clicks, search: NOT READY")
    assert printed.count("  place-found: no resume offset") == 1


def test_refusals_that_differ_in_a_number_are_alike(
    three: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cli.inspect.check.ALIKE", 2)
    found = [
        Readiness(
            query=name, source="east", target="west", replication=None,
            gates=(Gate(name="lag", ok=False, measured=age, limit="30 s", text=f"{age} old"),),
        )
        for name, age in (("revenue", "125.4 s"), ("clicks", "126.6 s"), ("search", "125.4 s"))
    ]  # fmt: skip
    monkeypatch.setattr("orchestrator.cli.inspect.check.check_queries", lambda *_, **__: found)
    assert run(capsys, "check")[1].splitlines()[1:] == [
        "revenue, clicks, search: NOT READY (with the numbers of revenue)",
        "  lag: 125.4 s old (measured 125.4 s, limit 30 s)",
    ]
