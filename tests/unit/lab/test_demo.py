"""What ``make demo`` finds wrong with a test run, and the page at its end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import configuration
from lab.demo import NEXT, _page, ended, judge, judged
from lab.scenario import Played, Script, give_token
from lab.stage import ScenarioFailed, Stage
from lab.world import Options, World
from orchestrator.config.load import load
from orchestrator.http.auth import Gatekeeper, Principal, Role

MOVE = "failover of orders from east to west"
DOWN = "east is DOWN: 3 probes failed in a row"
COMMITTED = "batch 41 is committed on west, 1.9 s after the decision"
HEADING = "what happened, from tideover history:"


def event(at: str, kind: str, text: str, query: str | None = "orders") -> Mapping[str, Any]:
    return {"at": f"2026-11-22T00:35:{at}Z", "kind": kind, "query": query, "text": text}


EVENTS = (
    event("00.858", "verdict", DOWN, None),
    event("03.900", "settled", COMMITTED),  # each operation writes for itself: lines come out of their order
    event("00.966", "hold", MOVE),
    event("00.996", "fence", "ordering runner a to stop the query and to fence its checkpoint"),
    event("01.059", "fence", "waiting for runner a to stop the query"),
    event("02.579", "start", "placed on west with epoch 2: the point of no return"),
)
ROW = {"acked": 10, "replicated": 10, "delivered": 10, "exposed": 0, "lost": 0, "duplicated": 0,
       "judged": "by 12 sums"}  # fmt: skip
PLAYED = Played(
    script=Script(automatic=True),
    plan=(),
    operations=({"query": "orders", "plan": {"resume": "carry"}, "measured": {"switch_seconds": 1.9}},),
    verdict={"orders": ROW},
    failover_exit=0,
    fault_to_first_commit_seconds={"orders": 3.0},
    events=EVENTS,
)


def test_the_page_of_an_automatic_move_shows_all_events_in_order() -> None:
    page = _page(PLAYED, [])
    reported = page[page.index(HEADING) + 1 : page.index("", page.index(HEADING))]
    assert [line.split()[:2] for line in reported] == [
        ["00:35:00.858", "verdict"],
        ["00:35:00.966", "hold"],
        ["00:35:02.579", "start"],
        ["00:35:03.900", "settled"],
    ]
    assert [DOWN in reported[0], MOVE in reported[1], COMMITTED in reported[3]] == [True] * 3
    assert page[-1].startswith("verdict: lost 0, repeated 0")


def test_a_demo_in_which_all_was_kept_has_no_problems() -> None:
    assert judge(PLAYED) == []
    assert judged(PLAYED) == "orders by 12 sums"
    assert judged(replace(PLAYED, verdict={"orders": ROW, "rows": ROW})) == "orders, rows by 12 sums"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"verdict": {"orders": {**ROW, "lost": 1}}}, "orders: lost 1"),
        ({"verdict": {"orders": {**ROW, "duplicated": 2}}}, "orders: repeated 2"),
        ({"verdict": {"orders": {**ROW, "delivered": 0}}}, "orders: nothing was delivered"),
        ({"verdict": {}}, "orders was not judged"),
        ({"verdict": {"orders": ROW, "rows": ROW}}, "rows was not moved"),
        ({"verdict": {}, "operations": ()}, "no query was moved"),
        ({"failover_exit": 1}, "tideover failover ended with exit code 1"),
    ],
)
def test_each_broken_promise_of_a_demo_is_a_problem(changed: Mapping[str, Any], problem: str) -> None:
    assert judge(replace(PLAYED, **changed)) == [problem]


def test_the_forecast_of_a_fresh_query_excuses_its_repeats_and_no_loss() -> None:
    totals = {"replay_records": 2, "possible_replay_records": 3}
    fresh = {"query": "orders", "plan": {"resume": "fresh", "totals": totals}, "measured": {}}
    for repeated, right in ((2, True), (5, True), (0, False), (3, False)):
        played = replace(PLAYED, operations=(fresh,), verdict={"orders": {**ROW, "duplicated": repeated}})
        assert (judge(played) == []) is right
    went_on = {**fresh, "measured": {"possible_replay_records": 0}}
    twice = replace(PLAYED, operations=(went_on,), verdict={"orders": {**ROW, "duplicated": 5}})
    assert judge(twice) == ["orders: 5 repeated, and the forecast was 2"], "what became of the batch is known"
    lost = replace(PLAYED, operations=(fresh,), verdict={"orders": {**ROW, "duplicated": 2, "lost": 2}})
    assert judge(lost) == ["orders: lost 2"]


def test_a_fresh_query_without_a_forecast_of_repeats_is_a_problem() -> None:
    (operation,) = PLAYED.operations
    unknown = {"replay_records": None, "possible_replay_records": 0}
    plan = {**operation["plan"], "resume": "fresh", "totals": unknown}
    assert judge(replace(PLAYED, operations=[{**operation, "plan": plan}])) == [
        "orders: 0 repeated, and the forecast was unknown"
    ]


def test_the_token_of_the_demo_allows_to_act_on_its_page(tmp_path: Path) -> None:
    on = Stage(tmp_path, print)
    world = World(directory=on.world, options=Options(base_port=19092))
    on.world.mkdir()
    configuration.write(world)
    said = give_token(on)
    token = (on.world / "desk.token").read_text().strip()
    settings = load(on.config).settings
    assert said == f"http://{settings.http.listen}/ (log in with {token})"
    gate = Gatekeeper(settings.http.tokens, lambda: 0.0)
    assert gate.principal_of([f"Bearer {token}"], "127.0.0.1") == Principal("demo", Role.OPERATOR)
    assert (on.world / "desk.token").stat().st_mode & 0o077 == 0


def test_a_demo_that_cannot_run_says_why_with_the_next_command() -> None:
    line = ended(ScenarioFailed("lab up ended with exit code 2: no Java\n\tat java.Main"), Path("build/demo"))
    assert line == f"the demo ended early: lab up ended with exit code 2: no Java; logs: build/demo; next: {NEXT}"
