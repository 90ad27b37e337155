"""A receiver that takes no notices is seen by a reader of the status."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from orchestrator.cli.inspect.watch import text
from orchestrator.config.load import load
from orchestrator.facts.status import StatusReader
from orchestrator.shapes.status import status_json, without_flows
from state.model.automation import NoticeCursor
from streaming.clocks import SystemClock
from tests.contract.samples import AT, term_of
from tests.memory_store import MemoryStore
from tests.served import CONFIG

NOTIFY = 'notify: {targets: [{name: oncall, url: "env:ONCALL"}]}\n'


def test_the_status_shows_who_takes_none_since_when_and_why(tmp_path: Path) -> None:
    (tmp_path / "tideover.yaml").write_text(CONFIG + NOTIFY, encoding="utf-8")
    settings = load(tmp_path / "tideover.yaml", {"ONCALL": "json://localhost"}).settings
    store = MemoryStore(lambda: AT + timedelta(seconds=90))
    reader, term = StatusReader(store, settings, SystemClock()), term_of(store)
    cursor = NoticeCursor(target="oncall", sequence=1, incidents={}, failures=3, failing_since=AT, error="error=503")
    store.keep_notice_cursor(cursor, term=term)
    failing = reader.read()
    assert "NOTICES\n  oncall takes none for 1 min 30 s: error=503\n" in text(failing)
    assert status_json(failing)["notices"] == [
        {
            "target": "oncall", "told_at": None, "failing_since": "2026-03-01T12:00:00.123Z", "failures": 3,
            "error": "error=503",
        }
    ]  # fmt: skip
    store.keep_notice_cursor(replace(cursor, failures=4), term=term)
    assert without_flows(status_json(reader.read())) == without_flows(status_json(failing))
    store.keep_notice_cursor(replace(cursor, failing_since=None, error=""), term=term)
    assert "NOTICES" not in text(reader.read())
