"""The report of a group as one page for people: no script, no link, nothing from elsewhere; light and dark."""

from collections.abc import Mapping
from typing import Any

from orchestrator.facts.evidence.page import template

COLUMNS = {
    "query": "query",
    "from": "from",
    "to": "to",
    "outcome": "outcome",
    "started_at": "began",
    "ended_at": "ended",
    "pause_seconds": "pause from the decision on, seconds",
    "exposure_records": "not on the new cluster",
    "replay_records": "read twice",
    "replay_later_records": "came late, read twice",
    "dropped_late_rows": "dropped late",
    "sentence": "what happened",
}
"""Of a query's row what the page shows, under which heading."""


def group_page(report: Mapping[str, Any]) -> str:
    """The page of a report; it shows what the report says, and adds nothing."""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in report["outcomes"].items())
    facts = (
        ("outcome", outcomes),
        ("began", report["started_at"]),
        ("ended", report["ended_at"]),
        ("longest pause from the decision on, seconds", report["longest_pause_seconds"]),
        ("records that the new cluster lacked", report["exposure_records"]),
        ("records read twice", report["replay_records"]),
        ("records that came late and were read twice", report["replay_later_records"]),
        ("rows dropped late", report["dropped_late_rows"]),
    )
    count = len(report["queries"])
    title = f"{report['kind']} of {count} {'query' if count == 1 else 'queries'}"
    return template("group.html").render(report=report, title=title, facts=facts, columns=COLUMNS)
