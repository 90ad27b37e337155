"""Every way in which an operation can end is reported as its end once, whatever the history says of it afterwards."""

from datetime import timedelta

import pytest

from orchestrator.notify.incidents import notices_for, report_of
from tests.notified import target
from tests.simulation.test_crashes import SCENARIOS, carried_out, leave_evidence
from tests.simulation.test_rewind import at


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.operation.execute.PATIENCE", timedelta(seconds=4))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_end_of_an_operation_is_notified_once(name: str) -> None:
    scenario = SCENARIOS[name]
    world = scenario.world()
    parameters = {} if scenario.to_time_ms is None else at(scenario.to_time_ms)
    request = world.request(
        kind=scenario.kind, target=scenario.target, consents=scenario.consents, parameters=parameters
    )
    operation = carried_out(world, request)
    leave_evidence(world, world.store)
    lines = world.store.history(operation=operation.id)
    reports = [found for line in lines if (found := report_of(line, {operation.id: operation})) is not None]
    assert len(lines) > 3
    assert [report.is_over for report in reports] == [True]
    known = {f"operation:{operation.id}": "it has begun"}
    (notice,), left = notices_for(target(severity="critical"), reports, known)
    assert (notice.state.value, left) == ("closed", {})
    assert notice.title.endswith(f": {operation.outcome}")
