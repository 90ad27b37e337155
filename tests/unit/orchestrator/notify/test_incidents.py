"""What is made of the history: one incident from its beginning to its end, by kind and severity."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.notify.incidents import DIGEST, Report, Severity, State, notices_for, report_of
from state.model.cluster_status import Verdict
from state.model.entities import Event, Operation, OperationKind, Phase
from state.settings.keys import NotifyTarget
from tests.contract import samples
from tests.contract.samples import AT, SECOND
from tests.notified import readiness, target, verdict


def seen(*events: Event, operations: dict[str, Operation] | None = None) -> list[Report]:
    return [report for event in events if (report := report_of(event, operations or {})) is not None]


def notices_of(
    given: NotifyTarget, reports: list[Report], known: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    notices, _ = notices_for(given, reports, known or {})
    return [(notice.state.value, notice.title) for notice in notices]


def test_a_cluster_that_goes_down_opens_an_incident_and_its_return_ends_it() -> None:
    notices, known = notices_for(target(), seen(verdict(Verdict.DOWN, 4)), {})
    (notice,) = notices
    assert (notice.incident, notice.state, notice.severity) == ("cluster:east", State.OPENED, Severity.CRITICAL)
    assert notice.subject == "[CRITICAL opened] east is DOWN"
    assert notice.body == "east is DOWN: because\n\nincident cluster:east, line 4 of the history"
    assert notice.incidents == known == {"cluster:east": "east is DOWN"}
    (closed,), known = notices_for(target(), seen(verdict(Verdict.UP, 9)), known)
    assert (closed.state, closed.title, known) == (State.CLOSED, "east is UP", {})


def test_another_verdict_updates_the_incident_and_the_same_does_not() -> None:
    known = {"cluster:east": "east is DOWN"}
    assert notices_of(target(), seen(verdict(Verdict.DOWN)), known) == []
    assert notices_of(target(), seen(verdict(Verdict.CONFIG_ERROR)), known) == [("updated", "east is CONFIG_ERROR")]


@pytest.mark.parametrize("word", [Verdict.SUSPECT, Verdict.UNKNOWN])
def test_a_verdict_that_is_none_yet_says_nothing(word: Verdict) -> None:
    assert seen(verdict(word)) == []


@pytest.mark.parametrize(("queries", "opened"), [([], 0), (["q"], 1)])
def test_a_cluster_away_from_its_endpoint_is_an_incident_if_it_is_read(queries: list[str], opened: int) -> None:
    event = verdict(Verdict.NOT_HERE)
    found = seen(replace(event, detail={**event.detail, "queries": queries}))
    assert [(each.title, each.severity) for each in found] == [("east is NOT_HERE", Severity.CRITICAL)] * opened


def test_a_cluster_that_was_well_all_the_time_makes_no_notice() -> None:
    assert notices_of(target(severity="info"), []) == []
    assert notices_of(target(), seen(verdict(Verdict.UP))) == []


def test_a_receiver_hears_nothing_below_its_severity() -> None:
    assert notices_of(target(severity="critical"), seen(verdict(Verdict.DEGRADED))) == []
    assert notices_of(target(severity="warning"), seen(verdict(Verdict.DEGRADED))) == [("opened", "east is DEGRADED")]


def test_a_kind_may_have_a_severity_of_its_own_or_be_off() -> None:
    reports = seen(verdict(Verdict.DEGRADED, 1), readiness(ready=False, sequence=2))
    assert notices_of(target(kinds={"cluster": "critical"}), reports) == [("opened", "revenue could not fail over")]
    assert notices_of(target(kinds={"readiness": "off"}), reports) == [("opened", "east is DEGRADED")]
    assert notices_of(target(severity="critical", kinds={"readiness": "info"}), reports) == [
        ("opened", "revenue could not fail over")
    ]


def test_an_incident_that_is_known_is_closed_whatever_the_severity() -> None:
    known = {"cluster:east": "east is DOWN"}
    assert notices_of(target(severity="critical"), seen(verdict(Verdict.UP)), known) == [("closed", "east is UP")]


def test_an_incident_that_began_and_ended_unseen_is_one_notice() -> None:
    events = [verdict(word, index) for index, word in enumerate((Verdict.DOWN, Verdict.SUSPECT, Verdict.UP))]
    assert notices_of(target(), seen(*events)) == [("closed", "east is UP")]
    assert notices_of(target(kinds={"cluster": "off"}), seen(*events)) == []


@pytest.mark.parametrize(
    ("ready", "title"),
    [(False, "revenue could not fail over"), (None, "revenue cannot be checked for a failover")],
)
def test_a_query_that_could_not_fail_over_opens_and_readiness_closes(ready: bool | None, title: str) -> None:
    assert notices_of(target(), seen(readiness(ready=ready))) == [("opened", title)]
    known = {"readiness:revenue": title}
    assert notices_of(target(), seen(readiness(ready=True)), known) == [("closed", "revenue could fail over again")]


def test_a_failover_opens_is_updated_when_blocked_and_closes_with_its_end() -> None:
    known: dict[str, str] = {}
    steps: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
        ({}, [("opened", "failover of revenue from east to west has begun")]),
        ({"phase": Phase.RESOLVING}, []),
        ({"phase": Phase.BLOCKED}, [("updated", "failover of revenue from east to west is BLOCKED")]),
        (
            {"phase": Phase.SETTLED, "outcome": "done", "ended_at": AT},
            [("closed", "failover of revenue from east to west: done")],
        ),
    ]
    for change, expected in steps:
        reports = seen(samples.event(sequence=3), operations={"op-1": samples.operation(**change)})
        notices, now_known = notices_for(target(), reports, known)
        assert [(each.state.value, each.title) for each in notices] == expected
        known = dict(now_known)
    assert known == {}


def test_a_move_that_awaits_a_start_needs_no_person() -> None:
    waiting = samples.operation(phase=Phase.BLOCKED, sentence="awaits the next start of shop, which does not run now")
    (report,) = seen(samples.event(), operations={"op-1": waiting})
    assert (report.severity, report.is_over) == (Severity.WARNING, False)
    assert report.title == "failover of revenue from east to west awaits the next start of its application"


def test_a_failure_is_critical_and_a_drill_is_not() -> None:
    failed = seen(samples.event(), operations={"op-1": samples.operation(outcome="failed", ended_at=AT)})
    assert [report.severity for report in failed] == [Severity.CRITICAL]
    drill = samples.operation(kind=OperationKind.DRILL)
    assert notices_of(target(), seen(samples.event(), operations={"op-1": drill})) == []
    assert notices_of(target(kinds={"drill": "info"}), seen(samples.event(), operations={"op-1": drill})) != []


def test_only_the_last_line_of_an_operation_closes_its_incident() -> None:
    failed = {"op-1": samples.operation(outcome="failed", ended_at=AT)}
    lines = [samples.event(at=AT - SECOND), samples.event(), samples.event(kind="evidence", at=AT + SECOND)]
    assert [len(seen(line, operations=failed)) for line in lines] == [0, 1, 0]


def test_automatic_failover_that_does_nothing_is_notified_at_once() -> None:
    event = samples.event(kind="not-moved", operation=None, text="revenue is not moved: exposure: too much")
    notices, known = notices_for(target(severity="critical"), seen(event), {})
    assert [(each.state, each.title) for each in notices] == [
        (State.CLOSED, "automatic failover leaves revenue where it is")
    ]
    assert known == {}


def test_many_incidents_at_once_are_one_notice_that_names_them() -> None:
    events = [readiness(ready=False, query=f"q{index}", sequence=index + 1) for index in range(DIGEST + 1)]
    (notice,), known = notices_for(target(), seen(*events), {})
    assert (notice.state, notice.title) == (State.REPORTED, "6 notices")
    assert notice.sequence == DIGEST + 1
    assert len(known) == len(notice.incidents) == DIGEST + 1
    assert all(f"q{index} could not fail over" in notice.text for index in range(DIGEST + 1))


def test_a_line_of_another_kind_opens_nothing() -> None:
    assert seen(samples.event(kind="pause", operation=None), samples.event(operation="gone")) == []
