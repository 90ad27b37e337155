"""How things stand, put together from what the store says; and the picture of it, which fits whatever shows it."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.inspect import watch
from orchestrator.decide.desk.status import SAMPLE_VALID, Leader, Rows, Status, gone_lines, status_of
from orchestrator.decide.gates.automatic import VERDICT_VALID, Cooldown
from orchestrator.shapes.status import status_json, without_flows
from state.model.automation import EVERY, Pause
from state.model.cluster_status import Verdict
from state.model.entities import Departure, Desired, Lease, RunState, TopicPartition
from tests.contract import samples
from tests.simulation.world import settings

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOLDER = "host/4026:boot:4711:99"
ROWS = Rows(
    at=NOW, lease=None, probe_reports=(), statuses=(), assignments=(), facts=(), ends={}, operations=(), pauses=(),
    cooldowns={}, requests=(), readiness=(), events=(), departures=(),
)  # fmt: skip
LEASE = Lease(name="controller", holder=HOLDER, term=3, expires_at=NOW + SECOND)
ENDS = {"east": {TopicPartition("orders", 0): samples.end(end=20)}}
RUNNING = replace(ROWS, assignments=(samples.assignment(),), facts=(samples.fact(progressed_at=NOW - SECOND),))


def of(rows: Rows, **changes: Any) -> Status:
    return status_of(rows, settings(**changes))


def status(verdict: Verdict = Verdict.UP, *, cluster: str = "east", said: timedelta = SECOND) -> Any:
    return samples.status(cluster=cluster, verdict=verdict, since=NOW - 90 * SECOND, decided_at=NOW - said)


# -- home ------------------------------------------------------------------------------------------------------------
def test_a_query_is_away_from_home_since_the_last_move_that_left_it() -> None:
    left = [
        Departure(query=query, source=source, target="x", operation="op", epoch=2, at=NOW - number * SECOND)
        for number, (query, source) in enumerate([("revenue", "east"), ("revenue", "west"), ("other", "east")])
    ]
    for cluster, known, away in (
        ("east", left, (None, False)),
        ("west", left, (NOW, True)),
        ("west", left[1:], (None, True)),
    ):
        rows = replace(ROWS, assignments=(samples.assignment(cluster=cluster),), departures=known)
        (query,) = of(rows).queries
        assert (query.home, query.away_since, query.is_away) == ("east", *away)
        assert query.away == {(None, False): "", (NOW, True): "from east since 2026-01-31T12:00:00.000Z"}.get(
            away, "from east"
        )
    (undeclared,) = of(replace(RUNNING, departures=left), queries=()).queries
    assert (undeclared.home, undeclared.is_away) == (None, False)


# -- the value -------------------------------------------------------------------------------------------------------
def test_the_name_of_the_leader_comes_from_its_probe_reports() -> None:
    seen = (
        samples.probe_report(viewpoint="replicator:east->west", instance=HOLDER),
        samples.probe_report(viewpoint="controller:one", instance=HOLDER),
        samples.probe_report(viewpoint="controller:two", instance="another"),
    )
    assert of(replace(ROWS, lease=LEASE, probe_reports=seen)).leader == Leader(name="one", holder=HOLDER, term=3)
    assert of(replace(ROWS, lease=LEASE)).leader == Leader(name=None, holder=HOLDER, term=3)
    assert of(replace(ROWS, lease=replace(LEASE, expires_at=NOW), probe_reports=seen)).leader is None
    assert of(ROWS).leader is None


def test_every_declared_cluster_is_shown_before_the_first_probe() -> None:
    down = status(Verdict.DOWN, cluster="west")
    assert of(replace(ROWS, statuses=(down,))).clusters == {"east": None, "west": down}


@pytest.mark.parametrize(
    ("state", "epoch", "cluster", "shown"),
    [
        (RunState.AWAITED, 1, "east", "awaited"),
        (RunState.AWAITED, 1, "west", "waiting"),
        (RunState.AWAITED, 4, "east", "waiting"),
        (RunState.FINISHED, 1, "east", "waiting"),
        (RunState.RUNNING, 1, "east", "waiting"),
    ],
)
def test_a_query_is_still_awaited_where_a_move_was_cancelled(
    state: RunState, epoch: int, cluster: str, shown: str
) -> None:
    row = samples.assignment(epoch=3, cluster="east")
    fact = samples.fact(epoch=epoch, state=state, cluster=cluster)
    (query,) = of(replace(ROWS, assignments=(row,), facts=(fact,))).queries
    assert query.state == shown


def test_a_query_lags_by_what_it_has_not_read_where_all_of_it_is_known() -> None:
    lagging = replace(RUNNING, ends=ENDS)
    assert of(lagging).queries[0].lag_records == 8
    ahead = {"east": {TopicPartition("orders", 0): samples.end(end=5)}}
    assert of(replace(lagging, ends=ahead)).queries[0].lag_records == 0
    assert of(replace(lagging, ends={"east": {}})).queries[0].lag_records is None
    moved = (samples.assignment(cluster="west"),)
    assert of(replace(lagging, assignments=moved, ends=ENDS | {"west": {}})).queries[0].lag_records is None
    assert of(replace(ROWS, assignments=(samples.assignment(),))).queries[0].lag_records is None


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        (ROWS, "never-run"),
        (RUNNING, "running"),
        (replace(RUNNING, assignments=(samples.assignment(epoch=2),)), "waiting"),
        (replace(RUNNING, assignments=(samples.assignment(desired=Desired.HELD),)), "held"),
        (replace(RUNNING, facts=(samples.fact(state=RunState.FAILED),)), "failed"),
    ],
)
def test_a_query_is_in_the_state_that_is_known(rows: Rows, state: str) -> None:
    assert of(rows).queries[0].state == state


def test_readiness_that_was_sampled_long_ago_says_nothing() -> None:
    young, old = (samples.readiness(sampled_at=NOW - age) for age in (SAMPLE_VALID, SAMPLE_VALID + SECOND))
    assert of(replace(ROWS, readiness=(young,))).queries[0].ready is True
    assert of(replace(ROWS, readiness=(old,))).queries[0].ready is None


def test_only_what_holds_now_is_held_back() -> None:
    pause = Pause(scope=EVERY, since=NOW - SECOND, until=NOW + SECOND, reason="upgrade", actor="ann@desk")
    over = replace(pause, scope="revenue", until=NOW)
    cooldown = Cooldown(operation="x1", until=NOW + SECOND, moved=True)
    rows = replace(ROWS, pauses=(pause, over), cooldowns={"revenue": cooldown, "late": replace(cooldown, until=NOW)})
    found = of(rows, policy={"automatic": True})
    assert (found.pauses, found.cooldowns) == ((pause,), {"revenue": cooldown})
    assert found.queries[0].automatic == "paused"
    assert of(replace(rows, pauses=()), policy={"automatic": True}).queries[0].automatic == "cooling-down"
    assert of(rows).queries[0].automatic == "off"


def test_a_query_that_is_not_declared_any_more_is_there_too() -> None:
    rows = replace(ROWS, assignments=(samples.assignment(query="former"),))
    assert [(each.query, each.automatic) for each in of(rows).queries] == [("former", None), ("revenue", "off")]


# -- the picture -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("at_once", "waiting"), [(1, 1), (2, 0)])
def test_a_query_that_waits_its_turn_is_shown_among_the_held_back(at_once: int, waiting: int) -> None:
    request = (samples.request(), samples.request(id="request-2", query="clicks"))
    rows = replace(ROWS, operations=(samples.operation(),), requests=request)
    found = status_of(rows, settings(groups={"operations": {"at_once": at_once}}))
    reported = (
        f"clicks keeps running and waits for its turn: 1 move in progress, at most {at_once} at once "
        "(operations.at_once)"
    )
    assert found.waiting == (reported,) * waiting
    assert (f"HELD BACK\n  {reported}" in watch.text(found)) is bool(waiting)


def full(queries: int = 1, operations: int = 1, events: int = 1, cooldowns: int = 1) -> Status:
    names = [f"query-{number:03}" for number in range(queries)]
    rows = replace(
        ROWS,
        lease=LEASE,
        statuses=(status(Verdict.DOWN),),
        assignments=[samples.assignment(query=name) for name in names],
        facts=[samples.fact(query=name, progressed_at=NOW - 75 * SECOND) for name in names],
        operations=[
            samples.operation(id=f"x{number}", query=f"moving-{number}", started_at=NOW - 5 * SECOND)
            for number in range(operations)
        ],
        cooldowns={f"query-{n:03}": Cooldown(operation="x9", until=NOW + SECOND, moved=True) for n in range(cooldowns)},
        events=[samples.event(at=NOW, text=f"line {number}") for number in range(events)],
    )
    return status_of(rows, settings(queries=names))


def test_the_status_is_shown_in_sections() -> None:
    shown = watch.text(full())
    assert shown.splitlines()[0] == "2026-01-31 12:00:00 UTC   a command leads (host, pid 4711), term 3"
    assert "  east  DOWN  for 1 min 30 s  it answers" in shown
    assert "  west  -                     not probed yet" in shown
    assert "  x0  failover of moving-0 from east to west: FENCING, began at 11:59:55 UTC, 5 s ago: fencing" in shown
    assert "  operation x9 moved query-000 automatically; next automatic move after" in shown
    assert "to allow it now: tideover ack query-000 (1 s left)" in shown
    assert "  query-000  east     a       running  1 min 15 s ago" in shown
    assert shown.splitlines()[-2:] == ["HISTORY", "  12:00:00  held       revenue  line 0"]
    assert "error" not in shown


def test_no_leader_a_silent_store_and_an_old_verdict_are_named() -> None:
    assert (
        watch.text(of(ROWS))
        .splitlines()[0]
        .endswith("NO CONTROLLER LEADS: nothing is decided until one does; start one with tideover control")
    )
    away = watch.text(of(ROWS), away="it is locked").splitlines()[0]
    assert away == "THE STORE DOES NOT ANSWER: it is locked; last status, from 2026-01-31 12:00:00 UTC"
    old = status(said=VERDICT_VALID + SECOND)
    shown = watch.text(of(replace(ROWS, statuses=(old,))))
    assert "  east  UP?  for 1 min 30 s  this verdict is 11 s old; no controller updates it; it answers" in shown
    assert status_json(of(replace(ROWS, statuses=(old,))))["clusters"][0]["verdict"] is None  # type: ignore[index]


def test_a_cluster_is_shown_with_the_leaders_times_per_layer() -> None:
    seen = (
        samples.probe_report(instance=HOLDER, layers_ms={"tcp": 0.0, "security": 2.125}),
        samples.probe_report(viewpoint="controller:two", instance="another", layers_ms={"tcp": 9.0}),
        samples.probe_report(viewpoint="replicator:east->west", instance=HOLDER),
    )
    rows = replace(ROWS, lease=LEASE, probe_reports=seen, statuses=(status(Verdict.DOWN),))
    reported: Any = status_json(of(rows))
    east, west = reported["clusters"]
    assert east["layers_ms"] == {"tcp": 0.0, "security": 2.125, "metadata": None, "leaders": None, "read": None}
    assert west["layers_ms"] is None
    away = status_json(of(replace(rows, probe_reports=seen[1:])))["clusters"][0]  # type: ignore[index] # rows
    assert away["layers_ms"] is None, "the leader has not looked yet"


def test_queries_that_need_a_look_come_first_with_their_error() -> None:
    names = ("a", "b", "c", "d")
    assignments = [samples.assignment(query=name, cluster="west" if name == "c" else "east") for name in names]
    facts = [samples.fact(query=name, cluster="west" if name == "c" else "east") for name in names]
    facts[3] = samples.fact(query="d", state=RunState.FAILED, error="no such table\n  at line 1")
    rows = replace(ROWS, assignments=assignments, facts=facts, statuses=(status(Verdict.SUSPECT, cluster="west"),))
    shown = watch.text(status_of(rows, settings(queries=names))).splitlines()
    table = shown[shown.index("QUERIES") + 3 :][:4]
    assert [line.split()[0] for line in table] == ["c", "d", "a", "b"]
    assert table[1].endswith("no such table")


def test_queries_that_are_not_shown_are_said_to_be_on_a_dead_cluster() -> None:
    names = [f"query-{number}" for number in range(9)]
    assignments = tuple(samples.assignment(query=name, cluster="west") for name in names)
    rows = replace(ROWS, assignments=assignments, statuses=(status(Verdict.DOWN, cluster="west"),))
    found = status_of(rows, settings(queries=names))
    shown = watch.text(found, height=17)
    assert re.search(r"  \.\.\. and \d more, all on west, which is DOWN\n", shown), shown
    assert gone_lines(found) == ["west is DOWN since 11:58:30 UTC: 9 queries are there"]
    well = replace(ROWS, assignments=assignments, statuses=(status(Verdict.UP, cluster="west"),))
    assert gone_lines(status_of(well, settings(queries=names))) == []


@given(
    st.integers(40, 200), st.integers(23, 60), st.integers(1, 150), st.integers(0, 40), st.integers(0, 50),
    st.integers(0, 40),
)  # fmt: skip
def test_the_picture_fits_the_terminal_and_leaves_no_section_out(
    width: int, height: int, queries: int, operations: int, events: int, cooldowns: int
) -> None:
    lines = watch.text(full(queries, operations, events, cooldowns), width=width, height=height).splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert {"CLUSTERS", "QUERIES", "HISTORY"} <= set(lines)
    assert ("OPERATIONS" in lines) is bool(operations)
    hidden = queries - sum(line.startswith("  query-") for line in lines)
    assert (hidden > 0) is any(line.startswith(f"  ... and {hidden} more, ") for line in lines)


def test_a_taller_terminal_shows_more_history() -> None:
    small, tall = (watch.text(full(events=50), width=80, height=height).count("  line ") for height in (24, 40))
    assert tall == small + 16
    assert small > 2


def test_only_what_lasts_counts_as_a_change() -> None:
    now = full()
    later = replace(
        now, at=NOW + SECOND, queries=(replace(now.queries[0], batch=99, lag_records=5, progressed_at=NOW),),
        probes={"east": samples.probe_report(layers_ms={"tcp": 1.5})},
    )  # fmt: skip
    assert without_flows(status_json(now)) == without_flows(status_json(later))
    failed = replace(now, queries=(replace(now.queries[0], state="failed"),))
    for changed in (failed, replace(now, leader=None), replace(now, events=()), replace(now, operations=())):
        assert without_flows(status_json(now)) != without_flows(status_json(changed))
