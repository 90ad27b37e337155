"""When automatic mode may act: one table of refusals, and rules that hold whatever the circumstances."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.automatic import (
    AUTOMATIC_GATES,
    VERDICT_VALID,
    AutomaticFacts,
    Recheck,
    is_usable,
    judge_automatic,
    pause_in_force,
    recheck,
    standby_of,
)
from orchestrator.decide.gates.checks import refusal
from orchestrator.decide.gates.gate import Gate
from state.model.automation import AUTOMATIC, EVERY, Pause
from state.model.cluster_status import GONE, ClusterStatus, Verdict
from state.model.entities import Operation, OperationKind, Phase
from state.settings.keys import Policy
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, NOW, query

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def status(cluster: str, verdict: Verdict, **changes: Any) -> ClusterStatus:
    values: dict[str, Any] = {
        "cluster": cluster, "verdict": verdict, "since": NOW - 3 * SECOND, "reasons": ("3 looks in a row failed",),
        "first_failed_at": None, "leaderless": 0, "unreadable": 0, "under_replicated": 0, "under_min_isr": 0,
        "decided_at": NOW, "term": 7,
    }  # fmt: skip
    values |= changes
    return ClusterStatus(**{"down_since": values["since"] if verdict in GONE else None, **values})


def operation(**changes: Any) -> Operation:
    values: dict[str, Any] = {
        "id": "x1", "group": "g", "kind": OperationKind.FAILOVER, "query": "q", "source": "west", "target": "east",
        "epoch": 2, "outcome": "done", "actor": AUTOMATIC, "reason": "", "consents": (),
        "plan": None, "measured": {}, "sentence": "", "started_at": NOW - 30 * MINUTE, "ended_at": NOW - 30 * MINUTE,
    }  # fmt: skip
    values |= changes
    placed = values["outcome"] in {"done", "failed"}
    return Operation(**{"phase": Phase.SETTLED if placed else Phase.ABORTED, **values})


def pause(**changes: Any) -> Pause:
    values: dict[str, Any] = {
        "scope": "q",
        "since": NOW - HOUR,
        "until": None,
        "reason": "upgrade",
        "actor": "ann@desk",
    }
    return Pause(**{**values, **changes})


ON = Policy(automatic=True)
DOWN, UP = status("east", Verdict.DOWN), status("west", Verdict.UP)
ACT = AutomaticFacts(
    facts=replace(GOOD, policy=ON), now=NOW, term=7, statuses={"east": DOWN, "west": UP}, pauses=(), operations=(),
    acknowledged=frozenset(),
)  # fmt: skip


def believing(**statuses: ClusterStatus) -> AutomaticFacts:
    return replace(ACT, statuses={**ACT.statuses, **statuses})


def judged(name: str, circumstances: AutomaticFacts) -> Gate | None:
    return next((gate for gate in judge_automatic(circumstances) if gate.name == name), None)


def test_a_dead_cluster_with_a_standby_that_is_up_may_be_left() -> None:
    found = judge_automatic(replace(ACT, pauses=(pause(until=NOW - MINUTE),)))
    assert refusal(found) is None
    assert {gate.name for gate in found} >= {check.__name__.replace("_", "-") for check in AUTOMATIC_GATES}


def test_a_cluster_that_its_endpoint_has_left_may_be_left() -> None:
    away = believing(east=status("east", Verdict.NOT_HERE, reasons=("endpoint dr leads to west now",)))
    assert refusal(judge_automatic(away)) is None
    gate = judged("cluster-down", away)
    assert gate is not None
    assert gate.text == "east is not behind its endpoint since 2026-01-31T11:59:57.000Z: endpoint dr leads to west now"
    before = believing(west=status("west", Verdict.NOT_HERE))
    gate = judged("standby-up", before)
    assert gate is not None
    assert not gate.ok


REFUSALS: list[tuple[str, AutomaticFacts, str, str, str]] = [
    ("automatic-on", replace(ACT, facts=GOOD), "off", "on", "policy.automatic is off for q"),
    ("not-paused", replace(ACT, pauses=(pause(),)), "until resumed", "no pause",
     "ann@desk paused automatic failover of q until tideover resume q: upgrade"),
    ("not-paused", replace(ACT, pauses=(pause(scope=EVERY, until=NOW + HOUR),)), "until 2026-01-31T13:00:00.000Z",
     "no pause", "paused automatic failover of all queries until"),
    ("fresh-verdict", replace(ACT, pauses=(pause(resumed_at=NOW - SECOND),)), "2026-01-31T11:59:57.000Z",
     "after 2026-01-31T11:59:59.000Z", "so q is not moved automatically: tideover failover q"),
    ("fresh-verdict", replace(ACT, pauses=(pause(until=NOW - 3 * SECOND),)), "2026-01-31T11:59:57.000Z",
     "after 2026-01-31T11:59:57.000Z", "east was already down when the pause ended"),
    ("fresh-verdict", replace(believing(east=replace(DOWN, down_since=NOW - MINUTE)), pauses=(pause(
        until=NOW - 4 * SECOND),)), "2026-01-31T11:59:00.000Z", "after 2026-01-31T11:59:56.000Z", "already down when"),
    ("fresh-verdict", replace(ACT, pauses=(pause(until=NOW - HOUR / 2), pause(scope=EVERY, until=NOW))),
     "2026-01-31T11:59:57.000Z", "after 2026-01-31T12:00:00.000Z", "was already down when the pause ended"),
    ("fresh-verdict", replace(ACT, pauses=(pause(resumed_at=NOW + HOUR),)), "2026-01-31T11:59:57.000Z",
     "after 2026-01-31T12:00:00.000Z", "was already down when the pause ended"),
    ("cooled-down", replace(ACT, operations=(operation(),)), "2026-01-31T12:30:00.000Z", "before 2026-01-31T12:00",
     "operation x1 moved q automatically; next automatic move after 2026-01-31T12:30:00.000Z; to allow it now: "),
    ("cooled-down", replace(ACT, operations=(operation(outcome="refused", ended_at=NOW - 59 * SECOND),)),
     "2026-01-31T12:00:01.000Z", "before", "operation x1 failed to move q automatically; next attempt"),
    ("cluster-down", believing(east=status("east", Verdict.UP)), "UP", "DOWN",
     "east is not known to be down: UP since"),
    ("cluster-down", believing(east=status("east", Verdict.SUSPECT)), "SUSPECT", "DOWN", "SUSPECT"),
    ("cluster-down", believing(east=status("east", Verdict.UNREACHABLE_FROM_HERE)), "UNREACHABLE_FROM_HERE", "DOWN",
     "east is not known to be down"),
    ("cluster-down", believing(east=status("east", Verdict.CONFIG_ERROR)), "CONFIG_ERROR", "DOWN", ""),
    ("cluster-down", believing(east=status("east", Verdict.UNKNOWN)), "UNKNOWN", "DOWN", ""),
    ("cluster-down", believing(east=status("east", Verdict.DEGRADED)), "DEGRADED", "DOWN", ""),
    ("cluster-down", replace(ACT, statuses={"west": UP}), "no verdict", "DOWN", "no verdict"),
    ("cluster-down", believing(east=replace(DOWN, term=6)), "no verdict", "DOWN", "no verdict"),
    ("cluster-down", believing(east=replace(DOWN, decided_at=NOW - 11 * SECOND)), "no verdict", "DOWN", "no verdict"),
    ("standby-up", believing(west=status("west", Verdict.DOWN)), "DOWN", "UP, or DEGRADED",
     "west cannot take over: DOWN"),
    ("standby-up", believing(west=status("west", Verdict.DEGRADED, leaderless=1)), "DEGRADED", "UP, or DEGRADED", ""),
    ("standby-up", believing(west=status("west", Verdict.DEGRADED, unreadable=None)), "DEGRADED", "UP", ""),
    ("standby-up", believing(west=replace(UP, term=6)), "no verdict", "UP", "no verdict"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "circumstances", "measured", "limit", "text"), REFUSALS)
def test_a_refusal_names_the_gate_the_number_and_the_limit(
    name: str, circumstances: AutomaticFacts, measured: str, limit: str, text: str
) -> None:
    gate = judged(name, circumstances)
    assert gate is not None
    assert not gate.ok
    assert gate.measured == measured
    assert gate.limit.startswith(limit)
    assert text in gate.text
    assert [each.name for each in judge_automatic(circumstances) if not each.ok and each.name != name] == []


def test_every_gate_of_automatic_mode_can_refuse() -> None:
    assert {name for name, *_ in REFUSALS} == {check.__name__.replace("_", "-") for check in AUTOMATIC_GATES}


def test_the_gates_of_a_failover_apply_too() -> None:
    open_one = replace(ACT, facts=replace(ACT.facts, open_operation="x1"))
    assert [gate.name for gate in judge_automatic(open_one) if not gate.ok] == ["no-operation-open"]
    assert judge_automatic(ACT)[-len(checks.judge_move(ACT.facts)) :] == checks.judge_move(ACT.facts)


@pytest.mark.parametrize(
    "circumstances",
    [
        replace(ACT, pauses=(pause(resumed_at=NOW - 4 * SECOND),)),
        replace(ACT, pauses=(pause(scope="other"), pause(scope="another", until=NOW))),
        replace(ACT, operations=(operation(),), acknowledged=frozenset({"x1"})),
        replace(ACT, operations=(operation(ended_at=NOW - HOUR),)),
        replace(ACT, operations=(operation(actor="ann@desk"),)),
        believing(west=status("west", Verdict.DEGRADED)),
        believing(east=replace(DOWN, decided_at=NOW - VERDICT_VALID)),
    ],
    ids=[
        "down-after-resume",
        "paused-elsewhere",
        "acknowledged",
        "cooled-down",
        "moved-by-a-person",
        "degraded-standby",
        "as-old-as-a-verdict-may-be",
    ],
)
def test_automatic_mode_acts_again_once_its_hold_ends(circumstances: AutomaticFacts) -> None:
    assert refusal(judge_automatic(circumstances)) is None


def test_the_return_of_the_old_cluster_changes_nothing() -> None:
    moved = replace(
        ACT,
        facts=replace(ACT.facts, source="west", target="east"),
        operations=(operation(ended_at=NOW - 5 * HOUR),),
        statuses={"east": status("east", Verdict.UP), "west": UP},
    )
    assert [gate.name for gate in judge_automatic(moved)[:7] if not gate.ok] == ["cluster-down"]


def test_the_standby_is_the_next_cluster_that_can_take_over() -> None:
    three = query(clusters=["east", "west", "north"])
    north = status("north", Verdict.UP)
    assert standby_of(three, "east", {"west": UP, "north": north}) == "west"
    assert standby_of(three, "east", {"west": status("west", Verdict.DOWN), "north": north}) == "north"
    assert standby_of(three, "west", {"east": DOWN, "north": north}) == "north"
    assert standby_of(three, "north", {}) == "east"
    assert standby_of(three, "elsewhere", {}) == "east"


def test_of_two_pauses_the_one_that_ends_last_is_named() -> None:
    short, long = pause(until=NOW + MINUTE), pause(scope=EVERY, until=NOW + HOUR)
    assert pause_in_force((short, long), "q", NOW) == long
    assert pause_in_force((replace(short, until=None), long), "q", NOW) == replace(short, until=None)
    assert pause_in_force((short, long), "q", NOW + 2 * HOUR) is None


# -- rules -----------------------------------------------------------------------------------------------------------
MOMENTS = st.integers(-7200, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
PAST = st.integers(-7200, 0).map(lambda seconds: NOW + timedelta(seconds=seconds))


@st.composite
def pauses(draw: st.DrawFn) -> Pause:
    since = draw(PAST)
    until = draw(st.none() | st.integers(1, 9000).map(lambda seconds: since + timedelta(seconds=seconds)))
    resumed = draw(st.none() | st.integers(0, 9000).map(lambda seconds: since + timedelta(seconds=seconds)))
    if resumed is not None and (resumed > NOW or (until is not None and resumed >= until)):
        resumed = None
    return pause(scope=draw(st.sampled_from(["q", EVERY, "other"])), since=since, until=until, resumed_at=resumed)


@st.composite
def cluster_statuses(draw: st.DrawFn, cluster: str) -> ClusterStatus:
    since = draw(PAST)
    went_down = since - draw(st.integers(0, 3600)) * SECOND
    return status(
        cluster, draw(st.sampled_from(Verdict)), since=since, down_since=draw(st.sampled_from([since, went_down])),
        decided_at=max(since, NOW - draw(st.integers(0, 20)) * SECOND),
        term=draw(st.sampled_from([6, 7])), leaderless=draw(st.sampled_from([0, 1, None])),
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> tuple[Operation, ...]:
    ends = sorted(draw(st.lists(PAST, max_size=5)), reverse=True)
    return tuple(
        operation(
            id=f"x{index}", started_at=end, ended_at=end, actor=draw(st.sampled_from([AUTOMATIC, "ann@desk"])),
            outcome=draw(st.sampled_from(["done", "refused", "failed", "aborted"])),
        )
        for index, end in enumerate(ends)
    )  # fmt: skip


@st.composite
def situations(draw: st.DrawFn) -> AutomaticFacts:
    return AutomaticFacts(
        facts=replace(GOOD, policy=Policy(automatic=draw(st.booleans()))),
        now=NOW,
        term=draw(st.sampled_from([None, 7])),  # no one leads
        statuses={name: draw(cluster_statuses(name)) for name in draw(st.sets(st.sampled_from(["east", "west"])))},
        pauses=tuple(draw(st.lists(pauses(), max_size=3))),
        operations=draw(histories()),
        acknowledged=frozenset(draw(st.sets(st.sampled_from(["x0", "x1", "x2"])))),
    )


def may_act(circumstances: AutomaticFacts) -> bool:
    return refusal(judge_automatic(circumstances)) is None


@given(
    situations() | st.builds(lambda p, h: replace(ACT, pauses=tuple(p), operations=h), st.lists(pauses()), histories())
)
def test_it_acts_only_as_an_unpaused_leader_with_a_fresh_down(circumstances: AutomaticFacts) -> None:
    if not may_act(circumstances):
        return
    down = circumstances.statuses["east"]
    assert circumstances.facts.policy.automatic
    assert (circumstances.term, down.verdict, down.term) == (7, Verdict.DOWN, 7)
    assert is_usable(circumstances.statuses["west"])
    for each in circumstances.pauses:
        if each.covers("q"):
            assert each.over_at is not None
            assert each.over_at <= NOW
            assert down.down_since is not None
            assert each.over_at < down.down_since, "a pause that ended moves nothing that was down before"


@given(st.builds(lambda h, a: replace(ACT, operations=h, acknowledged=frozenset(a)), histories(),
                 st.sets(st.sampled_from(["x0", "x1", "x2"]))))  # fmt: skip
def test_a_move_within_the_cooldown_blocks_the_next_unless_acknowledged(
    circumstances: AutomaticFacts,
) -> None:
    newest: Operation | None = None
    for each in circumstances.operations:
        if each.id in circumstances.acknowledged or (each.actor != AUTOMATIC and each.phase is Phase.SETTLED):
            break
        if each.actor == AUTOMATIC and each.phase is Phase.SETTLED:
            newest = each
            break
    if newest is not None and newest.ended_at is not None and newest.ended_at + HOUR > NOW:
        assert not may_act(circumstances)


@given(situations())
def test_a_pause_or_losing_the_lead_never_lets_anything_through(circumstances: AutomaticFacts) -> None:
    assert not may_act(replace(circumstances, pauses=(*circumstances.pauses, pause(scope=EVERY))))
    assert not may_act(replace(circumstances, term=None))  # no one leads


@given(MOMENTS, pauses())
def test_a_pause_is_in_force_from_its_beginning_to_its_end_and_never_again(at: datetime, given: Pause) -> None:
    if not given.is_in_force(at):
        assert not given.is_in_force(at + HOUR)


@pytest.mark.parametrize(
    ("given", "against", "doubt"),
    [
        (ACT, "", ""),
        (replace(ACT, statuses={}), "", ""),
        (replace(ACT, facts=GOOD), "automatic-on: policy.automatic is off", ""),
        (replace(ACT, pauses=(pause(),)), "not-paused: ", ""),
        (believing(east=status("east", Verdict.UP)), "cluster-down: east is not known to be down: UP", ""),
        (believing(east=status("east", Verdict.SUSPECT)), "", "cluster-down: east is not known to be down: SUSPECT"),
    ],
)
def test_a_begun_move_is_called_off_only_by_what_is_known_for_sure(
    given: AutomaticFacts, against: str, doubt: str
) -> None:
    found = recheck(given)
    assert found.against.startswith(against)
    assert found.doubt.startswith(doubt)
    assert (found == Recheck()) is not bool(against or doubt)
