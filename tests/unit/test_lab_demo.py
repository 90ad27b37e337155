"""The page at the end of ``make demo``: what it tells when nobody typed anything."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lab.demo import _page
from lab.rehearsal import Script, Story

MOVE = "failover of orders from east to west"
DOWN = "east is DOWN: 3 looks failed in a row"
COMMITTED = "batch 41 is committed on west, 1.9 s after the decision"
HEADING = "what happened, as tideover history tells it:"


def event(at: str, kind: str, text: str, query: str | None = "orders") -> Mapping[str, Any]:
    return {"at": f"2026-11-22T00:35:{at}Z", "kind": kind, "query": query, "text": text}


EVENTS = (
    event("00.858", "verdict", DOWN, None),
    event("03.900", "settled", COMMITTED),  # each operation writes by itself: lines come out of their order
    event("00.966", "hold", MOVE),
    event("00.996", "fence", "asking runner a to stop the query and to fence its checkpoint"),
    event("01.059", "fence", "waiting for runner a to stop the query"),
    event("02.579", "start", "placed on west with epoch 2: the point of no return"),
)
ROW = {"acked": 10, "replicated": 10, "delivered": 10, "exposed": 0, "lost": 0, "duplicated": 0}
STORY = Story(
    script=Script(automatic=True),
    plan=(),
    operations=({"query": "orders", "plan": {"resume": "carry"}, "measured": {"switch_seconds": 1.9}},),
    verdict={"orders": ROW},
    failover_exit=0,
    fault_to_first_commit_seconds={"orders": 3.0},
    events=EVENTS,
)


def test_the_page_of_an_automatic_move_tells_from_the_verdict_to_the_end_in_order() -> None:
    page = _page(STORY, [])
    told = page[page.index(HEADING) + 1 : page.index("", page.index(HEADING))]
    assert [line.split()[:2] for line in told] == [
        ["00:35:00.858", "verdict"],
        ["00:35:00.966", "hold"],
        ["00:35:02.579", "start"],
        ["00:35:03.900", "settled"],
    ]
    assert [DOWN in told[0], MOVE in told[1], COMMITTED in told[3]] == [True] * 3
    assert page[-1].startswith("verdict: lost 0, repeated 0")


def test_what_was_only_asked_for_or_waited_for_is_left_out() -> None:
    page = "\n".join(_page(STORY, []))
    assert "asking runner" not in page
    assert "waiting for" not in page


def test_the_page_of_a_typed_move_has_no_list_of_events() -> None:
    assert HEADING not in _page(replace(STORY, script=Script()), [])
