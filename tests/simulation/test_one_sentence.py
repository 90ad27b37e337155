"""An operation has one sentence: each place that shows its end uses the same words."""

from datetime import timedelta

import pytest
import structlog
from markupsafe import Markup

from orchestrator.decide.desk.attention import concerns_of
from orchestrator.facts.evidence.page import page
from orchestrator.history_log import HistoryLog
from orchestrator.http.pages.details import Details
from orchestrator.http.reads import Reads
from orchestrator.notify.incidents import report_of
from orchestrator.shapes import operation_shapes
from streaming.clocks import SystemClock
from tests.simulation.test_cli import run
from tests.simulation.test_crashes import SCENARIOS, carried_out, leave_evidence
from tests.simulation.test_rewind import at
from tests.simulation.world import World
from tests.waiting import until


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.operation.execute.PATIENCE", timedelta(seconds=4))


def text_of(markup: str) -> str:
    return str(Markup(markup).unescape())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_end_of_an_operation_has_the_same_words_everywhere(name: str) -> None:
    scenario = SCENARIOS[name]
    world = scenario.world()
    parameters = {} if scenario.to_time_ms is None else at(scenario.to_time_ms)
    with structlog.testing.capture_logs() as logged:
        log = HistoryLog(world.store, kept=timedelta(days=1))
        log.write_news()
        request = world.request(
            kind=scenario.kind, target=scenario.target, consents=scenario.consents, parameters=parameters
        )
        operation = carried_out(world, request)
        leave_evidence(world, world.store)
        log.write_news()
    said = operation.sentence
    assert said
    lines = world.store.history(operation=operation.id)
    end = next(each for each in lines if report_of(each, {operation.id: operation}) is not None)
    report = report_of(end, {operation.id: operation})
    kept = world.store.evidence(operation.id)
    assert report is not None
    assert kept is not None
    reads = Reads(world.store, world.settings, world.clock)
    details = Details(reads, version="1")
    shown = {
        "history": end.text,
        "log": "\n".join(str(each["event"]) for each in logged),
        "notice": report.text,
        "evidence": str(kept.document),
        "page of the evidence": text_of(page(kept)),
        "show": str(operation_shapes.move_row(operation)["sentence"]),
        "the desk's operation": text_of(details.operation(operation.id, may_act=False)),
        "the desk's query": text_of(details.query(operation.query, may_act=False)),
    }
    assert [place for place, text in shown.items() if said not in text] == []


def test_a_failed_query_has_the_same_words_everywhere(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    said = "java.io.IOException: the disk of executor 3 is full"
    assignment = world.store.assignment("revenue")
    assert assignment is not None
    with structlog.testing.capture_logs() as logged:
        log = HistoryLog(world.store, kept=timedelta(days=1))
        log.write_news()
        world.runner.start_error = said
        world.runner.runs.clear()
        until(lambda: world.store.history(kind="query-failed"), "the failure is no line of the history")
        log.write_news()
    reads = Reads(world.store, world.settings, SystemClock())
    status = reads.status_now()
    shown = {
        "log": "\n".join(str(each["event"]) for each in logged),
        "show": run(capsys, "show", "revenue")[1],
        "history": run(capsys, "history")[1],
        "the desk's query": text_of(Details(reads, version="1").query("revenue", may_act=False)),
        "the desk's concern": "".join("".join(each.details) for each in concerns_of(status, world.settings)),
    }
    assert [place for place, text in shown.items() if said not in text] == []
    assert "failed" in run(capsys, "list")[1]
