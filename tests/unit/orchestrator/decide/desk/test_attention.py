"""What the desk says is wrong: each thing once, the urgent first, and nothing where all is well."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decide.desk import attention
from orchestrator.decide.desk.attention import Concern, away_of, concerns_of
from orchestrator.decide.desk.lines import copy_age, phases_of, query_lines, route_lines
from orchestrator.decide.desk.status import SAMPLE_VALID, Rows, Status, status_of
from state.model.cluster_status import Verdict
from state.model.entities import Departure, Desired, Lease, OperationKind, Phase, RunState
from state.model.maintenance import PartitionCopy
from state.settings.keys import Tideover
from tests.contract import samples
from tests.contract.samples import AT, SECOND

QUERIES = ("revenue", "sums", "totals", "users")


def settings(names: tuple[str, ...] = QUERIES, **query: Any) -> Tideover:
    one = {
        "pipeline": "examples.orders:revenue", "sources": {"orders": {"topics": ["orders"]}},
        "clusters": ["east", "west"], "runners": ["a"], **query,
    }  # fmt: skip
    clusters = {name: {"bootstrap": [f"{name}:1"]} for name in ("east", "west")}
    return Tideover.model_validate({
        "store": "sqlite:///x.db", "clusters": clusters, "runners": {"a": {}},
        "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
        "queries": {name: {**one, "checkpoint": f"/cp/{name}"} for name in names},
    })  # fmt: skip


def status(names: tuple[str, ...] = QUERIES, **changes: Any) -> Status:
    """All is well, but for the changes."""
    rows: dict[str, Any] = {
        "at": AT, "lease": Lease(name="controller", holder="one-1", term=1, expires_at=AT + SECOND),
        "probe_reports": [samples.probe_report()],
        "statuses": [samples.status(cluster=name) for name in ("east", "west")],
        "assignments": [samples.assignment(query=name) for name in names],
        "facts": [samples.fact(query=name) for name in names],
        "ends": {}, "operations": [], "departures": [], "pauses": [], "cooldowns": {}, "requests": [],
        "readiness": [samples.readiness(query=name) for name in names], "events": [],
    }  # fmt: skip
    return status_of(Rows(**(rows | changes)), settings(names))


def wrong(**changes: Any) -> tuple[Concern, ...]:
    return concerns_of(status(**changes), settings())


def test_where_all_is_well_nothing_is_wrong() -> None:
    assert wrong() == ()


def test_without_a_leader_that_is_the_first_thing_that_is_wrong() -> None:
    (found,) = wrong(lease=None)
    assert (found.urgent, found.what) == (True, "No controller leads: nothing is watched and nothing is decided")


@pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.UP])
def test_every_verdict_but_up_is_shown_with_its_reason_and_its_time(verdict: Verdict) -> None:
    (found,) = wrong(statuses=[samples.status(cluster="east", verdict=verdict), samples.status(cluster="west")])
    assert (found.what, found.details, found.since) == (f"east is {verdict}", ("it answers",), AT)
    assert found.urgent is (verdict in {Verdict.DOWN, Verdict.CONFIG_ERROR, Verdict.NOT_HERE})
    assert found.queries == QUERIES


def test_a_cluster_that_no_query_reads_may_be_away_from_its_endpoint() -> None:
    assert not wrong(
        statuses=[samples.status(cluster="west", verdict=Verdict.NOT_HERE), samples.status(cluster="east")]
    )


def test_a_dead_cluster_without_queries_needs_no_move() -> None:
    (found,) = wrong(statuses=[samples.status(cluster="west", verdict=Verdict.DOWN), samples.status(cluster="east")])
    assert not found.urgent
    assert found.todo.startswith(
        "No query waits there: nothing has to be moved. Keep the replicator stopped, and let the"
    )


def test_a_verdict_that_is_not_renewed_is_none() -> None:
    old = AT - timedelta(minutes=1)
    stale = [samples.status(cluster="east", decided_at=old), samples.status(cluster="west")]
    (found,) = wrong(statuses=stale)
    assert (found.urgent, found.since) == (False, old)
    assert found.what.startswith("east has no verdict")
    assert [each.what[:4] for each in wrong(statuses=[])] == ["east", "west"]


def test_a_hundred_queries_with_one_cause_are_one_thing() -> None:
    late = [samples.fact(query=name, progressed_at=AT - timedelta(minutes=2)) for name in QUERIES]
    (found,) = wrong(facts=[*late[:3], samples.fact(query="users", progressed_at=AT - timedelta(minutes=3))])
    assert found.what == "revenue, sums, totals and 1 more are without progress on east"
    assert (found.urgent, found.queries, found.since) == (True, QUERIES, AT - timedelta(minutes=3))


def test_a_silent_query_on_a_dead_cluster_is_no_second_alarm() -> None:
    late = [samples.fact(query=name, progressed_at=AT - timedelta(hours=2)) for name in QUERIES]
    down = [samples.status(cluster="east", verdict=Verdict.DOWN), samples.status(cluster="west")]
    assert [each.what for each in wrong(facts=late, statuses=down)] == ["east is DOWN"]


def test_one_outage_is_one_concern_with_what_queries_report_because_of_it() -> None:
    down = [samples.status(cluster="east", verdict=Verdict.DOWN), samples.status(cluster="west")]
    failing = [samples.fact(query=name, error="no broker\nat line 3") for name in QUERIES]
    gate = {"name": "loss", "ok": False, "measured": "9", "limit": "0", "text": "9 records are not on west"}
    unready = [samples.readiness(query="sums", ready=False, gates=(gate,))]
    (found,) = wrong(statuses=down, facts=failing, readiness=unready)
    assert (found.what, found.affected, found.plan) == ("east is DOWN", "4 queries wait", OperationKind.FAILOVER)
    assert found.details == (
        "it answers",
        "revenue, sums, totals and 1 more are failing on east: no broker",
        "sums could not fail over to west: loss: 9 records are not on west",
    )
    assert found.command == "tideover plan failover --all --expect-active east"
    (standby,) = wrong(
        statuses=[samples.status(cluster="east"), samples.status(cluster="west", verdict=Verdict.DOWN)],
        readiness=[samples.readiness(query=name, ready=False, gates=(gate,)) for name in QUERIES],
    )
    assert (standby.what, standby.urgent, standby.plan, len(standby.details)) == ("west is DOWN", False, None, 2)


def test_a_query_that_is_being_moved_does_not_wait_for_a_plan() -> None:
    down = [samples.status(cluster="east", verdict=Verdict.DOWN), samples.status(cluster="west")]
    (found,) = wrong(statuses=down, operations=[samples.operation()])
    assert found.queries == QUERIES[1:]
    (all_moving,) = wrong(statuses=down, operations=[samples.operation(id=name, query=name) for name in QUERIES])
    assert (all_moving.urgent, all_moving.plan, all_moving.affected) == (False, None, "")


def test_queries_away_can_be_planned_home_while_their_home_is_up() -> None:
    west = [samples.assignment(query=name, cluster="west") for name in QUERIES[:2]]
    left = [
        Departure(query=name, source="east", target="west", operation="op-1", epoch=2, at=at)
        for name, at in (("revenue", AT - SECOND), ("sums", AT))
    ]
    rows: dict[str, Any] = {"assignments": [*west, *(samples.assignment(query=name) for name in QUERIES[2:])]}
    (found,) = away_of(status(**rows, departures=left))
    assert (found.home, found.queries, found.since) == ("east", QUERIES[:2], AT - SECOND)
    down = [samples.status(cluster="east", verdict=Verdict.DEGRADED), samples.status(cluster="west")]
    assert away_of(status(**rows, statuses=down)) == ()
    moving = [samples.operation(query="revenue")]
    assert [each.queries for each in away_of(status(**rows, operations=moving))] == [("sums",)]


@pytest.mark.parametrize(("seconds", "silent"), [(60, False), (61, True)])
def test_a_query_is_silent_after_a_minute(seconds: int, silent: bool) -> None:
    late = [samples.fact(query="revenue", progressed_at=AT - timedelta(seconds=seconds))]
    facts = late + [samples.fact(query=name) for name in QUERIES[1:]]
    assert bool(wrong(facts=facts)) is silent


def test_a_query_with_a_long_trigger_is_given_three_of_them() -> None:
    slow = settings(trigger="5m")
    for minutes, silent in ((15, False), (16, True)):
        late = [samples.fact(query=name, progressed_at=AT - timedelta(minutes=minutes)) for name in QUERIES]
        assert bool(concerns_of(status(facts=late), slow)) is silent


def test_an_error_is_shown_by_its_first_line() -> None:
    failed = samples.fact(query="sums", state=RunState.FAILED, error="no such topic\nat line 3")
    (found,) = wrong(facts=[failed, *(samples.fact(query=name) for name in QUERIES if name != "sums")])
    assert (found.what, found.details) == ("sums is failing on east", ("no such topic",))
    assert found.command == "tideover show sums"
    assert found.anchor == "read-the-error-of-a-query"


def test_a_query_that_never_ran_or_is_held_needs_attention() -> None:
    kept = [samples.assignment(query=name) for name in QUERIES[1:]]
    (never,) = wrong(assignments=kept)
    assert (never.what, never.command) == ("revenue is waiting for its first start", "tideover run --name a")
    held = samples.assignment(query="revenue", desired=Desired.HELD)
    (found,) = wrong(assignments=[held, *kept])
    assert (found.urgent, found.what) == (True, "revenue is on hold, and no operation is open")


def test_a_query_of_an_application_that_never_ran_is_started_by_it() -> None:
    attached = settings(QUERIES[:1], attach="a", pipeline=None, runners=[])
    (never,) = concerns_of(status(QUERIES[:1], assignments=[], facts=[]), attached)
    assert (never.todo, never.command) == ("Start the application a as you always do.", "")


def test_a_cancelled_move_between_two_runs_is_no_concern() -> None:
    moved = [samples.assignment(query=name, epoch=3) for name in QUERIES]
    old = AT - timedelta(days=1)
    ended = [samples.fact(query=name, state=RunState.AWAITED, progressed_at=old) for name in QUERIES]
    assert wrong(assignments=moved, facts=ended) == ()


def test_a_gate_is_shown_once_for_all_queries_that_it_refuses() -> None:
    gate = {"name": "exposure", "ok": False, "measured": "90 s", "limit": "60 s", "text": "west lacks 90 s"}
    unready = [samples.readiness(query=name, ready=False, gates=(gate,)) for name in QUERIES[:2]]
    (found,) = wrong(readiness=[*unready, *(samples.readiness(query=name) for name in QUERIES[2:])])
    assert found.what == "revenue, sums could not fail over to west: exposure"
    assert found.details == ("west lacks 90 s",)
    assert (found.urgent, found.anchor) == (False, "a-gate-refuses")


def test_a_check_without_an_answer_differs_from_no_check() -> None:
    gate = {"name": "exposure", "ok": False, "measured": "unknown", "limit": "60 s", "text": "nobody knows"}
    others = [samples.readiness(query=name) for name in QUERIES[1:]]
    (unknown,) = wrong(readiness=[samples.readiness(ready=None, gates=(gate,)), *others])
    assert unknown.what == "revenue cannot be checked for a failover to west: exposure"
    old = AT - SAMPLE_VALID - SECOND
    (unchecked,) = wrong(readiness=[samples.readiness(sampled_at=old), *others])
    assert (unchecked.what, unchecked.since) == ("revenue is without a readiness check for more than 5 minutes", old)


def test_an_operation_that_waits_comes_first_and_hides_its_query() -> None:
    blocked = samples.operation(phase=Phase.BLOCKED, sentence="no proof")
    failing = samples.fact(query="revenue", error="stopped")
    facts = [failing, *(samples.fact(query=name) for name in QUERIES[1:])]
    (found,) = wrong(operations=[blocked], facts=facts)
    assert (found.what, found.details) == ("The failover of revenue from east to west waits", ("no proof",))
    assert (found.urgent, found.operation, found.since) == (True, "op-1", AT)
    assert wrong(operations=[samples.operation()], facts=facts) == ()


def test_a_move_that_awaits_a_start_is_not_urgent() -> None:
    waiting = samples.operation(phase=Phase.BLOCKED, sentence="awaits the next start of shop, which does not run now")
    (found,) = wrong(operations=[waiting], facts=[samples.fact(query=name) for name in QUERIES])
    assert (found.urgent, found.todo) == (False, "Nothing. The next start of the application completes the move.")


def test_urgent_things_come_before_others() -> None:
    found = wrong(lease=None, statuses=[samples.status(cluster="east", verdict=Verdict.SUSPECT)], facts=[])
    assert [each.urgent for each in found] == sorted((each.urgent for each in found), reverse=True)


def test_every_anchor_is_a_heading_of_the_runbook() -> None:
    root = Path(__file__).resolve().parents[5]
    source = Path(attention.__file__).read_text(encoding="utf-8")
    anchors = set(re.findall(r'"([a-z]+(?:-[a-z]+){2,})"', source))
    headings = re.findall(r"^#+ (.+)$", (root / "docs" / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    known = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    assert len(anchors) >= 9
    assert anchors - known == set()


COPY = PartitionCopy("orders", 0, "orders", 5_000, 4_000, 1_000, 3, 6_000, "")


def test_the_oldest_copy_speaks_for_a_route_and_a_missing_one_is_older_still() -> None:
    fine = copy_age("revenue", samples.replication(copies=(COPY, COPY._replace(partition=1, age_ms=250))))
    assert (fine.age_seconds, fine.worst, fine.unknown, fine.is_missing) == (1.0, "orders-0", 0, False)
    assert fine.text == "west is 1.0 s behind east at most (orders-0, 3 records)"
    gone = COPY._replace(partition=7, age_ms=None, target_newest_ms=None, records=9)
    missing = copy_age("sums", samples.replication(copies=(gone, COPY._replace(age_ms=None, note="?"))))
    assert (missing.worst, missing.is_missing, missing.unknown, missing.age_seconds) == ("orders-7", True, 1, None)
    there, back = route_lines(settings(), {"revenue": fine, "sums": missing})
    assert (there.oldest, there.queries) == (missing, 2)
    assert (back.source, back.oldest, back.queries) == ("west", None, 0)


def test_queries_that_need_attention_come_first() -> None:
    gate = {"name": "exposure", "ok": False, "measured": "90 s", "limit": "60 s", "text": "west lacks 90 s"}
    unready = samples.readiness(query="sums", ready=False, gates=(gate,))
    others = [samples.readiness(query=name) for name in QUERIES if name != "sums"]
    first, *rest = query_lines(status(readiness=[unready, *others]), {})
    assert (first.query.query, first.refusing, first.exposure, first.is_well) == ("sums", gate, gate, False)
    assert [line.query.query for line in rest] == ["revenue", "totals", "users"]


def test_a_check_that_is_too_old_says_nothing_of_now() -> None:
    gate = {"name": "exposure", "ok": True, "measured": "1 s", "limit": "60 s", "text": ""}
    old = AT - SAMPLE_VALID - SECOND
    (line,) = query_lines(status(("revenue",), readiness=[samples.readiness(gates=(gate,), sampled_at=old)]), {})
    assert (line.exposure, line.refusing) == (None, None)


def test_the_phases_of_a_move_show_where_it_is() -> None:
    way = phases_of(OperationKind.FAILOVER, Phase.PREPARING)
    assert [state for _, state in way] == ["done", "done", "now", "ahead", "ahead", "ahead"]
    assert phases_of(OperationKind.FAILOVER, Phase.BLOCKED)[0] == ("BLOCKED", "now")
    assert phases_of(OperationKind.DRILL, Phase.RESOLVING) == [("RESOLVING", "now")]
    assert phases_of(OperationKind.FAILOVER, Phase.ABORTED) == [("ABORTED", "now")]
