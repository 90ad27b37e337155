"""Whether a scenario ended as expected, and how that is reported."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chaos.faults import EAST, Act, Action, When
from chaos.report import PlayedScenario, as_json, joined, measured, played_of, result_of
from chaos.scenario_outcome import Change, Load, Outcome, announced_repeats, changes_of, judge
from chaos.scenarios import Scenario, named
from orchestrator.decide.verdict import Judgement, form, verdict_event
from orchestrator.shapes.operation_shapes import event_row
from reports.origin import Origin
from reports.result import page
from state.model.cluster_status import Verdict

ROW = {"acked": 100, "replicated": 98, "resent": 0, "delivered": 98, "lost": 0, "duplicated": 0, "exposed": 2,
       "late_dropped": 0, "judged": "by 98 ids"}  # fmt: skip


LOAD = Load(before={"q": {"acked": 40, "delivered": 38}}, after={"q": ROW})


def operation(**more: Any) -> dict[str, Any]:
    return {
        "id": "o1", "kind": "failover", "query": "q", "outcome": "done", "started_at": "2026-01-02T03:04:15.000+00:00",
        "ended_at": "2026-01-02T03:04:19.000+00:00",
        "measured": {"switch_seconds": 4.25}, "plan": {"totals": {"replay_records": 0, "replay_later_records": 3}},
        **more,
    }  # fmt: skip


def deed(seconds: float, *on: str, act: Act = Act.KILL, when: When = When.AT_ONCE) -> Action:
    return Action(begun=seconds, done=seconds + 0.5, text=f"{act.value} {', '.join(on)}", act=act, on=on, when=when)


def scenario(name: str) -> Scenario:
    found = named(name)
    assert found is not None
    return found


MOVED = Outcome(
    scenario="kill-cluster", up_seconds=100.0, struck_at=1767323045.0, deeds=(deed(0.0, *EAST),),
    changes=(Change(seconds=-5.0, cluster="east", verdict="UP"), Change(seconds=9.5, cluster="east", verdict="DOWN")),
    places={"q": ("west", "a", "running")}, operations=(operation(),), verdict={"q": ROW},
    loads={"on west after the move": LOAD},
)  # fmt: skip
STAYED = replace(
    MOVED, scenario="kill-one-broker", deeds=(), changes=(Change(seconds=3.0, cluster="east", verdict="DEGRADED"),),
    places={"q": ("east", "a", "running")}, operations=(), verdict={"q": {**ROW, "exposed": 0}},
    loads={"while nothing moved": LOAD},
)  # fmt: skip


RETURNED = replace(
    MOVED, deeds=(deed(0.0, *EAST), deed(30.0, *EAST, act=Act.START)), verdict={"q": {**ROW, "exposed": 0}},
    changes=(*MOVED.changes, Change(seconds=45.0, cluster="east", verdict="UP")),
)  # fmt: skip


SWITCHED = replace(
    MOVED, deeds=(deed(0.0, act=Act.SWITCHOVER),), changes=(), operations=(operation(kind="switchover"),),
    verdict={"q": {**ROW, "exposed": 0}}, loads={**MOVED.loads, "during the switchover": LOAD},
)  # fmt: skip
DRILLED = replace(
    STAYED, deeds=(deed(0.0, act=Act.DRILL),), changes=(), operations=(operation(kind="drill"),),
    epochs={"q": (3, 3)}, loads={"during the drill": LOAD},
)  # fmt: skip
HOME = replace(
    RETURNED, deeds=(deed(-2.0, "replicator"), *RETURNED.deeds, deed(60.0, act=Act.FAILBACK)), tail=2,
    places={"q": ("east", "a", "running")}, verdict={"q": ROW},
    operations=(operation(), operation(id="o2", kind="failback", started_at="2026-01-02T03:06:05.000+00:00")),
    loads=dict.fromkeys(("during the failback", "on east after the failback"), LOAD),
)  # fmt: skip


def test_verbs_that_were_typed_and_ended_as_expected_have_no_problems() -> None:
    assert judge(scenario("switchover-under-load"), SWITCHED) == []
    assert judge(scenario("drill-under-load"), DRILLED) == []
    assert judge(scenario("failback-after-kill"), HOME) == []


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"operations": (operation(),)}, ["q was moved by a failover, not by a switchover"]),
        ({"operations": (operation(kind="drill"),)}, ["q was moved 0 times, not once"]),
        (
            {"operations": (operation(kind="switchover"), operation(id="o2", outcome=None))},
            ["failover of q is still open"],
        ),
        ({"verdict": {"q": ROW}}, ["q: 2 acknowledged records never came to west"]),
        ({"verdict": {"q": {**ROW, "exposed": 0, "duplicated": 1}}}, ["q: repeated 1, announced 0"]),
        ({"loads": MOVED.loads}, ["it was not counted during the switchover"]),
        ({"deeds": (deed(12.0, act=Act.SWITCHOVER),)}, ["switchover of q began before there was a cause"]),
        (
            {"changes": (Change(seconds=3.0, cluster="west", verdict="DOWN"),)},
            ["west was DOWN, and should never have been"],
        ),
    ],
)
def test_a_switchover_that_ends_otherwise_is_a_problem(changed: dict[str, Any], problems: list[str]) -> None:
    assert judge(scenario("switchover-under-load"), replace(SWITCHED, **changed)) == problems


DIES = deed(0.0, act=Act.SWITCHOVER), deed(10.5, *EAST, when=When.MOVING)
COMMIT = [{"name": "commit", "started_at": "2026-01-02T03:04:17.000+00:00"}]
BACK = operation(id="o0", kind="switchover", outcome="refused", steps=[])


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"operations": (operation(kind="switchover", steps=COMMIT),)}, []),
        ({"operations": (BACK, operation(started_at="2026-01-02T03:04:30.000+00:00", steps=[]))}, []),
        ({"operations": (BACK,)}, ["q was moved 0 times, not once"]),
        ({"operations": ({**BACK, "outcome": None},)},
         ["switchover of q is still open", "q was moved 0 times, not once"]),
        (
            {"operations": (operation(kind="switchover", steps=COMMIT),),
             "deeds": (DIES[0], replace(DIES[1], done=12.5))},
            ["kill east-1, east-2, east-3: that came too late or too early to hit a move"],
        ),
        (
            {"operations": (operation(kind="switchover", steps=COMMIT),),
             "changes": (Change(seconds=9.0, cluster="east", verdict="DOWN"),)},
            ["east was DOWN after 9.0 s, before it was struck"],
        ),
        (
            {"operations": (operation(kind="switchover", steps=COMMIT),), "verdict": {"q": {**ROW, "lost": 1}}},
            ["q: lost 1"],
        ),
    ],
)  # fmt: skip
def test_a_switchover_whose_primary_dies_ends_or_goes_back_and_fails_over(
    changed: dict[str, Any], problems: list[str]
) -> None:
    down = Change(seconds=20.0, cluster="east", verdict="DOWN")
    ended = replace(MOVED, deeds=DIES, changes=(down,))
    assert judge(scenario("primary-dies-in-switchover"), replace(ended, **changed)) == problems


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"operations": ()}, ["q was drilled 0 times, not once to a proven end"]),
        ({"operations": (operation(kind="drill", outcome="failed"),)},
         ["q was drilled 1 times, not once to a proven end"]),
        ({"epochs": {"q": (3, 4)}}, ["q had epoch 3 before the drill, and 4 in the end"]),
        ({"epochs": {}}, ["q had epoch None before the drill, and None in the end"]),
        (
            {"operations": (operation(kind="drill"), operation(id="o2"))},
            ["1 queries were moved, and none should have been"],
        ),
        ({"loads": {"while nothing moved": LOAD}}, ["it was not counted during the drill"]),
        (
            {"loads": {"during the drill": replace(LOAD, after={"q": {"acked": 90, "delivered": 38}})}},
            ["q: nothing was delivered during the drill"],
        ),
        ({"verdict": {"q": {**ROW, "exposed": 0, "duplicated": 7}}}, ["q: repeated 7, announced 0"]),
    ],
)  # fmt: skip
def test_a_drill_that_touches_production_or_proves_nothing_is_a_problem(
    changed: dict[str, Any], problems: list[str]
) -> None:
    assert judge(scenario("drill-under-load"), replace(DRILLED, **changed)) == problems


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"operations": HOME.operations[:1]}, ["q was moved 1 times, not twice"]),
        ({"operations": (HOME.operations[0],) * 2}, ["q was moved by a failover, not by a failback"]),
        ({"places": {"q": ("west", "a", "running")}}, ["q is running on west by runner a, not running on east by a"]),
        ({"verdict": {"q": {**ROW, "lost": 1}}}, ["q: lost 1"]),
        ({"verdict": {"q": {**ROW, "duplicated": 1}}}, ["q: repeated 1, announced 0"]),
        ({"tail": 1}, ["q: 2 acknowledged records are not at home, and the tail has 1"]),
        (
            {"verdict": {"q": {**ROW, "exposed": 0}}},
            ["q: east alone had nothing, so the report of the tail shows nothing"],
        ),
        ({"verdict": {"q": {**ROW, "exposed": 1_001}}, "tail": 1_001}, []),
        ({"changes": MOVED.changes}, ["east was never UP after it came back"]),
        ({"loads": {"on east after the failback": LOAD}}, ["it was not counted during the failback"]),
    ],
)
def test_a_way_home_that_ends_otherwise_is_a_problem(changed: dict[str, Any], problems: list[str]) -> None:
    assert judge(scenario("failback-after-kill"), replace(HOME, **changed)) == problems


def test_an_end_as_expected_has_no_problems() -> None:
    assert judge(scenario("primary-returns-late"), RETURNED) == []
    assert judge(scenario("kill-cluster"), MOVED) == []
    assert judge(scenario("kill-one-broker"), STAYED) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"places": {"q": ("east", "a", "running")}}, "q is running on east by runner a, not running on west by a"),
        ({"places": {"q": ("west", "b", "running")}}, "q is running on west by runner b, not running on west by a"),
        ({"places": {}}, "no query was seen in the end"),
        ({"operations": ()}, "q was moved 0 times, not once"),
        ({"operations": (operation(), operation())}, "q was moved 2 times, not once"),
        ({"changes": ()}, "east was never DOWN"),
        ({"verdict": {}}, "nothing was verified"),
        ({"verdict": {"q": {**ROW, "lost": 2}}}, "q: lost 2"),
        ({"verdict": {"q": {**ROW, "delivered": 0}}}, "q: nothing was delivered"),
        ({"verdict": {"q": {**ROW, "duplicated": 1}}}, "q: repeated 1, announced 0"),
        ({"broke": "docker is not there"}, "docker is not there"),
    ],
)
def test_a_move_with_any_unexpected_outcome_is_a_problem(changed: dict[str, Any], problem: str) -> None:
    assert judge(scenario("kill-cluster"), replace(MOVED, **changed)) == [problem]


@pytest.mark.parametrize(("exposed", "right"), [(1_000, True), (1_001, False)])
def test_few_records_may_be_left_behind_without_consent(exposed: int, right: bool) -> None:
    left = replace(MOVED, verdict={"q": {**ROW, "exposed": exposed}})
    reported = f"q: {exposed} records were left behind, more than 1000, without a consent"
    assert judge(scenario("kill-cluster"), left) == ([] if right else [reported])
    consented = replace(left, operations=(operation(id="o0", outcome="refused"), operation()))
    assert judge(scenario("replicator-dead"), consented) == []
    assert judge(scenario("primary-returns-late"), replace(RETURNED, verdict=left.verdict)) == [
        f"q: {exposed} acknowledged records never came to west"
    ]


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"operations": (operation(),)}, ["1 queries were moved, and none should have been"]),
        ({"verdict": {"q": ROW}}, ["q: 2 acknowledged records never came to west"]),
        (
            {"changes": (Change(seconds=9.0, cluster="east", verdict="DOWN"),)},
            ["east was never DEGRADED", "east was DOWN, and should never have been"],
        ),
        ({"changes": (Change(seconds=-2.0, cluster="east", verdict="DEGRADED"),)}, ["east was never DEGRADED"]),
        (
            {"changes": (*STAYED.changes, Change(seconds=9.0, cluster="west", verdict="DOWN"))},
            ["west was DOWN, and should never have been"],
        ),
    ],
)
def test_an_unexpected_move_where_nothing_should_move_is_a_problem(
    changed: dict[str, Any], problems: list[str]
) -> None:
    assert judge(scenario("kill-one-broker"), replace(STAYED, **changed)) == problems


@pytest.mark.parametrize(("repeats", "right"), [(3, True), (4, False)])
def test_where_the_primary_returns_repeats_that_were_announced_are_right(repeats: int, right: bool) -> None:
    outcome = replace(RETURNED, verdict={"q": {**ROW, "exposed": 0, "duplicated": repeats}})
    assert (judge(scenario("primary-returns-late"), outcome) == []) is right


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"deeds": (deed(0.0, *EAST),)}, "east was never UP after it came back"),
        ({"deeds": (deed(0.0, *EAST), deed(45.5, *EAST, act=Act.START))}, "east was never UP after it came back"),
        ({"verdict": {"q": ROW}}, "q: 2 acknowledged records never came to west"),
    ],
)
def test_a_returned_primary_must_be_well_and_its_records_must_come_over(changed: dict[str, Any], problem: str) -> None:
    assert judge(scenario("primary-returns-late"), replace(RETURNED, **changed)) == [problem]


STRUCK = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def line(cluster: str, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """A line of history as the product writes it."""
    at = STRUCK + timedelta(seconds=seconds)
    belief = form(cluster, Judgement(verdict, ("it is: so",)), None, standing=None, now=at, term=1)
    return event_row(verdict_event(belief, standing=None, actor="controller:controller-one"))


def test_every_verdict_of_the_history_counts_whether_anybody_watched_or_not() -> None:
    history = [
        line("east", Verdict.UP, -60.0),
        {**line("east", Verdict.UP, 1.0), "kind": "readiness"},
        line("east", Verdict.DOWN, 6.5),
        line("west", Verdict.UNREACHABLE_FROM_HERE, 7.0),
    ]
    assert [(each.seconds, each.cluster, each.verdict) for each in changes_of(history, STRUCK.timestamp())] == [
        (-60.0, "east", "UP"), (6.5, "east", "DOWN"), (7.0, "west", "UNREACHABLE_FROM_HERE"),
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "right"), [(9.0, False), (10.0, True), (13.0, True), (13.8, False)])
def test_a_fault_in_the_middle_of_a_move_must_meet_one(seconds: float, right: bool) -> None:
    met = replace(deed(seconds, "worker-1", when=When.MOVING), found="an executor of tideover a")
    # a move continues from 10 s to 14 s
    worker = replace(MOVED, deeds=(*MOVED.deeds, met))
    late = "kill worker-1: that came too late or too early to hit a move"
    assert judge(scenario("worker-dies-in-move"), worker) == ([] if right else [late])


@pytest.mark.parametrize("found", ["", "an executor of tideover b"])
def test_a_dead_worker_without_executors_of_the_moving_runner_shows_nothing(found: str) -> None:
    met = replace(deed(11.0, "worker-1", when=When.MOVING), found=found)
    worker = replace(MOVED, deeds=(*MOVED.deeds, met))
    assert judge(scenario("worker-dies-in-move"), worker) == ["kill worker-1: none of the executors was there"]


@pytest.mark.parametrize(("seconds", "right"), [(11.0, True), (12.0, False)])
def test_a_primary_that_returns_early_must_return_before_the_commit(seconds: float, right: bool) -> None:
    steps = [{"name": "commit", "started_at": "2026-01-02T03:04:17.000+00:00"}]
    thaw = deed(seconds, *EAST, act=Act.THAW, when=When.MOVING)
    loads = {"after the move": LOAD}
    thawed = replace(RETURNED, operations=(operation(steps=steps),), deeds=(*MOVED.deeds, thaw), loads=loads)
    assert (judge(scenario("primary-returns-early"), thawed) == []) is right


def test_a_move_that_an_early_return_calls_off_leaves_its_query_in_place() -> None:
    thawed = replace(
        RETURNED, deeds=(*MOVED.deeds, deed(11.0, *EAST, act=Act.THAW, when=When.MOVING)),
        loads={"after the move": LOAD}, operations=(operation(steps=COMMIT),),
    )  # fmt: skip
    early, text = scenario("primary-returns-early"), "q stays on east: cluster-down: east is not known to be down: UP"
    off = operation(outcome="refused", sentence=text, steps=[])
    stays = replace(thawed, operations=(off,), places={"q": ("east", "a", "running")})
    assert judge(early, thawed) == judge(early, stays) == []
    assert judge(scenario("primary-returns-late"), stays)[:1] == [
        "q is running on east by runner a, not running on west by a"
    ]
    assert judge(early, replace(stays, operations=({**off, "sentence": "q stays on east: retention: gone"},))) == [
        "q is running on east by runner a, not running on west by a", "q was moved 0 times, not once",
    ]  # fmt: skip
    assert judge(early, replace(thawed, operations=(off, *thawed.operations))) == [
        "q is running on west by runner a, not running on east by a", "q was moved 1 times, not never",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("leaders", "right"),
    [
        (((-5.0, "controller-one"), (20.0, "controller-two")), True),
        (((-5.0, "controller-one"), (20.0, None)), False),
        (((-5.0, "controller-one"), (41.0, "controller-two")), False),
        (((-5.0, "controller-one"),), False),
        (((-5.0, "controller-two"),), True),
        (((-5.0, "controller-two"), (5.0, "controller-one")), False),
    ],
)
def test_after_the_leader_was_struck_the_other_controller_must_lead(
    leaders: tuple[tuple[float, str | None], ...], right: bool
) -> None:
    frozen = deed(10.0, "controller-one", act=Act.FREEZE), deed(40.0, "controller-one", act=Act.THAW)
    deeds = *MOVED.deeds, *frozen
    reported = judge(scenario("leader-freezes-in-move"), replace(MOVED, deeds=deeds, leaders=leaders))
    assert reported == ([] if right else ["freeze controller-one: the other controller did not lead after that"])


@pytest.mark.parametrize(
    ("after", "problems"),
    [
        ({"acked": 41, "delivered": 39}, []),
        ({"acked": 40, "delivered": 39}, ["q: nothing was acknowledged "]),
        ({"acked": 41, "delivered": 38}, ["q: nothing was delivered "]),
        (None, ["it was not counted "]),
    ],
)
def test_without_load_nothing_was_shown(after: dict[str, int] | None, problems: list[str]) -> None:
    load = replace(LOAD, after={} if after is None else {"q": after})
    for name, ended in (("kill-cluster", MOVED), ("kill-one-broker", STAYED)):
        (when,) = ended.loads
        assert judge(scenario(name), replace(ended, loads={when: load})) == [f"{each}{when}" for each in problems]


def test_a_healing_fault_must_be_noticed_while_it_lasts() -> None:
    for name, heals in (("kill-one-broker", Act.START), ("full-disk", Act.EMPTY)):
        for seconds, problems in ((2.0, ["east was never DEGRADED"]), (4.0, [])):
            deeds = deed(0.0, "east-3"), deed(seconds, "east-3", act=heals)
            assert judge(scenario(name), replace(STAYED, deeds=deeds)) == problems


@pytest.mark.parametrize("cluster", ["east", "west"])
@pytest.mark.parametrize(
    ("seconds", "verdict", "right"),
    [(8.0, "UNREACHABLE_FROM_HERE", True), (8.0, "SUSPECT", True), (8.0, "UP", False), (47.0, "SUSPECT", False)],
)
def test_where_the_sites_are_cut_apart_the_leader_must_miss_one(
    cluster: str, seconds: float, verdict: str, right: bool
) -> None:
    deeds = deed(0.0, "link", act=Act.CUT), deed(46.0, "link", act=Act.JOIN)
    reported = replace(STAYED, deeds=deeds, changes=(Change(seconds=seconds, cluster=cluster, verdict=verdict),))
    problems = [] if right else ["neither cluster was SUSPECT or UNREACHABLE_FROM_HERE"]
    assert judge(scenario("cut-link"), reported) == problems


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({4.0: "DEGRADED", 209.0: "DOWN"}, []),
        ({209.0: "DOWN"}, ["east was never DEGRADED, in kill-one-broker"]),
        ({104.0: "DEGRADED", 209.0: "DOWN"}, ["east was never DEGRADED, in kill-one-broker"]),
        ({4.0: "DEGRADED", 150.0: "DOWN", 209.0: "DOWN"}, ["east was DOWN, and should never have been, in store-away"]),
        ({4.0: "DEGRADED", 150.0: "DOWN"}, ["east was DOWN, and should never have been, in store-away",
                                           "east was never DOWN"]),
    ],
)  # fmt: skip
def test_each_part_of_a_soak_is_judged_by_what_was_believed_in_its_own_time(
    given: dict[float, str], problems: list[str]
) -> None:
    parts = tuple(replace(scenario(name), steps=scenario(name).steps[:2]) for name in ("kill-one-broker", "store-away"))
    soak = replace(scenario("kill-cluster"), parts=parts)
    first, second = (f"while nothing moved, in {part}" for part in ("part 1, kill-one-broker", "part 2, store-away"))
    loads = dict.fromkeys((first, second, "on west after the move"), LOAD)
    deeds = (
        deed(0.0, "east-3"), deed(40.0, "east-3", act=Act.START),
        deed(100.0, "link", act=Act.CUT), deed(145.0, "link", act=Act.JOIN), deed(200.0, *EAST),
    )  # fmt: skip
    changes = [Change(seconds=seconds, cluster="east", verdict=verdict) for seconds, verdict in given.items()]
    late = operation(started_at="2026-01-02T03:07:35.000+00:00")
    ended = replace(MOVED, deeds=deeds, changes=changes, operations=(late,), loads=loads)
    assert judge(soak, ended) == problems
    assert judge(soak, replace(ended, loads={**loads, second: Load(before={}, after={})})) == [
        *problems, f"it was not counted {second}",
    ]  # fmt: skip
    dead = replace(LOAD, after=LOAD.before)
    assert judge(soak, replace(ended, loads={**loads, second: dead})) == [
        *problems, f"q: nothing was acknowledged {second}", f"q: nothing was delivered {second}",
    ]  # fmt: skip


@pytest.mark.parametrize(("leader", "right"), [("controller-two", True), ("controller-one", False)])
def test_the_controller_whose_clock_is_off_must_lead(leader: str, right: bool) -> None:
    deeds = deed(0.0, "controller-two", act=Act.CLOCK), deed(0.5, "controller-one"), deed(5.0, *EAST)
    assert [step.on for step in scenario("clock-off").steps] == [each.on for each in deeds]
    problems = judge(scenario("clock-off"), replace(MOVED, deeds=deeds, leaders=((-5.0, leader),)))
    assert problems == ([] if right else ["kill controller-one: the other controller did not lead after that"])


@pytest.mark.parametrize("name", ["clock-off", "replicator-dead"])
@pytest.mark.parametrize(
    ("struck", "problems"),
    [
        (9.0, []),
        (10.4, []),
        (10.6, ["east was DOWN after 9.5 s, before it was struck"]),
        (10.9, ["east was DOWN after 9.5 s, before it was struck"]),
        (11.1, ["failover of q began before there was a cause", "east was DOWN after 9.5 s, before it was struck"]),
    ],
)
def test_before_the_primary_is_struck_it_is_not_down_and_nothing_begins(
    name: str, struck: float, problems: list[str]
) -> None:
    deeds = deed(0.0, "controller-two", act=Act.CLOCK), deed(0.5, "replicator"), deed(struck, *EAST)
    refused = operation(id="o0", outcome="refused", started_at="2026-01-02T03:04:17.000+00:00")
    left = replace(MOVED, deeds=deeds, operations=(refused, operation()))
    assert judge(scenario(name), left) == problems


def test_a_verdict_is_counted_from_the_blow_to_the_primary() -> None:
    late = deed(-3.0, "replicator"), deed(4.5, *EAST)
    assert measured(replace(MOVED, deeds=late))["down"] == 5.0


def test_records_left_behind_with_consent_were_refused_before() -> None:
    refused = operation(id="o0", outcome="refused")
    left = replace(MOVED, operations=(refused, operation()))
    assert judge(scenario("replicator-dead"), left) == []
    assert judge(scenario("replicator-dead"), MOVED) == ["q was not refused before the consent"]
    none = replace(left, verdict={"q": {**ROW, "exposed": 0}})
    assert judge(scenario("replicator-dead"), none) == [
        "q: nothing was left behind, so there was nothing to consent to"
    ]  # fmt: skip


def test_a_query_without_a_verdict_was_not_judged() -> None:
    two = replace(MOVED, places={**MOVED.places, "p": ("west", "a", "running")})
    operations = (operation(), operation(query="p"))
    assert judge(scenario("kill-cluster"), replace(two, operations=operations)) == ["p was not judged"]


@pytest.mark.parametrize("lost", [1, 3])
def test_announced_repeats_excuse_no_loss(lost: int) -> None:
    """Three repeats are announced."""
    outcome = replace(RETURNED, verdict={"q": {**ROW, "exposed": 0, "lost": lost}})
    assert judge(scenario("primary-returns-late"), outcome) == [f"q: lost {lost}"]


@pytest.mark.parametrize(("measured", "repeats"), [({}, 9), ({"possible_replay_records": 4}, 4)])
def test_the_end_of_a_batch_under_way_counts_before_the_plan(measured: Mapping[str, int], repeats: int) -> None:
    moved = {"query": "q", "outcome": "done", "measured": measured, "plan": {"totals": {"possible_replay_records": 9}}}
    assert announced_repeats([moved], "q") == repeats


def played_one(name: str, outcome: Outcome, commit: str = "abc") -> PlayedScenario:
    """As the file has it."""
    played = {"commit": commit, "begun": "some day", "command": "python -m chaos run"}
    answer: PlayedScenario = json.loads(json.dumps(played_of(scenario(name), outcome, played)))
    return answer


def rendered(all_played: list[PlayedScenario]) -> str:
    on = Origin(revision="abc", changed=False, made="now", machine="2 cores")
    return page(result_of("chaos", all_played, [], on))


def test_the_report_says_what_was_measured() -> None:
    assert measured(MOVED) == {"down": 9.5, "switch": 4.25}
    assert measured(STAYED) == {"down": None, "switch": None}
    all_played = [played_one("kill-cluster", MOVED), played_one("kill-one-broker", replace(STAYED, places={}))]
    reported = as_json(all_played)
    assert not reported["expected"]
    assert [each["expected"] for each in reported["scenarios"]] == [True, False]
    text = rendered(all_played)
    assert "2 scenarios, **1 not as expected**" in text
    assert "- judged: q by 98 ids" in text
    assert "| kill-cluster | All brokers of the primary are killed | yes | 9.5 s | 4.2 s | 0 | 0 | 2 |" in text
    assert "- not as expected: no query was seen in the end" in text
    assert "- on west after the move: 60 records were acknowledged and 60 delivered, or more" in text
    assert "- 10.0 s: failover of q begins\n- 14.0 s: failover of q: done" in text
    assert "- kill-cluster, kill-one-broker:\n  - commit: abc\n  - begun: some day" in text


def test_an_earlier_failure_stays_in_the_report_after_another_play() -> None:
    all_played = [played_one("kill-cluster", replace(MOVED, places={}))]
    for commit in ("def", "fed"):
        all_played = joined(all_played, [played_one("kill-cluster", MOVED, commit)])
    assert as_json(all_played)["expected"]
    assert "played before, some day on abc, not as expected: no query was seen in the end" in rendered(all_played)
    assert "on def, not as expected" not in rendered(all_played)
