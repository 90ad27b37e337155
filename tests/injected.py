"""``docs/reports/faults.md``: which faults were injected into real parts, when, on which commit, and how it ended.

A plugin of pytest, in place where ``TIDEOVER_FAULTS_REPORT=1`` (``make test-long`` sets it). The page is written anew
whenever one of the table's real tests has ended: a run of any part of them brings its own lines up to date, the others
stay as they are, each with the commit that it was run on, and a run that is cut off loses nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.surroundings import commit
from tests.simulation.faults import table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reports" / "faults.md"
WANTED = 36
"""The faults that were named before anything was built; the others were added later."""
ABOUT = """
# Faults that were injected into real parts

Written by the tests themselves: `make test-long`, and `TIDEOVER_FAULTS_REPORT=1 make test` for those of `tests/real`.
Each line is the last run of its test, on the commit that it names. What each fault does is told in
[the table of faults](../faults.md). "In part" is a test that leaves out something of its row, as that table says.
"""
HEAD = "| | Fault | Test | Outcome | Seconds | Commit | Ended (UTC) | Seed |"
NOT_RUN = "not run"


class Ended(NamedTuple):
    """The last run of a row's test, as it stands in the page."""

    outcome: str
    seconds: str
    commit: str
    at: str
    seed: str


Runs = Mapping[int, Ended]


class Injected:
    """Notes how the tests of ``table.REAL`` end; ``now`` and the rest are arguments for its own test's sake."""

    def __init__(
        self,
        page: Path = PAGE,
        *,
        commit: str,
        seed: str = "-",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._page, self._commit, self._seed, self._now = page, commit, seed, now
        self._phases: dict[str, list[pytest.TestReport]] = {}
        self._cases: dict[str, tuple[bool, float]] = {}
        self._again: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up, call and clean-up of one test come one after the other; with the last it has ended."""
        numbers = rows_of(report.nodeid)
        if not numbers:
            return
        self._phases.setdefault(report.nodeid, []).append(report)
        if report.when != "teardown":
            return
        phases = self._phases.pop(report.nodeid)
        outcomes = {str(each.outcome) for each in phases}
        if "rerun" in outcomes:
            self._again.add(report.nodeid)
            return
        if "skipped" in outcomes:
            return
        self._cases[report.nodeid] = (outcomes == {"passed"}, sum(each.duration for each in phases))
        write(self._page, {**read(self._page), **{number: self._ended(number) for number in numbers}})

    def _ended(self, number: int) -> Ended:
        """All cases of a test that ended in this run are one line."""
        mine = [node for node in self._cases if number in rows_of(node)]
        outcome = "passed" if all(self._cases[node][0] for node in mine) else "**failed**"
        cases = f" ({len(mine)} cases)" if len(mine) > 1 else ""
        again = ", tried again" if self._again & set(mine) else ""
        seconds = f"{sum(self._cases[node][1] for node in mine):,.0f}"
        return Ended(outcome + cases + again, seconds, f"`{self._commit}`", f"{self._now():%Y-%m-%d %H:%M}", self._seed)


def plugin() -> Injected:
    """The plugin for this checkout."""
    return Injected(commit=commit(ROOT), seed=os.environ.get("SEED", "-"))


def rows_of(node: str) -> list[int]:
    """The rows whose test this is, or one case of it."""
    return [number for number, test in table.REAL.items() if node == test or node.startswith(test + "[")]


def read(page: Path) -> Runs:
    """The lines of a page that still tell of the test that the table names. Empty where there is no page yet."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = {}
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ")
        if not (cells[0].isdigit() and len(cells) == 8):
            continue
        number = int(cells[0])
        if cells[3] != NOT_RUN and number in table.REAL and cells[2] == _test(number):
            found[number] = Ended(*cells[3:])
    return found


def write(page: Path, runs: Runs) -> None:
    """The whole page, each row of the table that has a real test."""
    rows = {row.number: row for row in table.rows()}
    empty = Ended(NOT_RUN, "-", "-", "-", "-")
    lines = [
        f"| {number} | {rows[number].injected} | {_test(number)} | {' | '.join(runs.get(number, empty))} |"
        for number in sorted(table.REAL)
    ]
    parts = [ABOUT.strip(), f"{HEAD}\n|---|---|---|---|---|---|---|---|\n" + "\n".join(lines), summary(runs)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def summary(runs: Runs) -> str:
    """How many of the first faults have a test that plays them whole, and how many of these passed."""
    whole = whole_rows(table.REAL)
    passed = [number for number in whole if number in runs and runs[number].outcome.startswith("passed")]
    return (
        f"Of the first {WANTED} faults {len(whole)} have a real test that plays them whole, and {len(passed)} of these"
        f" passed when they were last run. Beyond them: {len(table.REAL) - len(whole)} in part, or added later."
    )


def whole_rows(numbers: Iterable[int]) -> list[int]:
    """Those of the first faults that a test plays whole."""
    return [number for number in sorted(numbers) if number <= WANTED and number not in table.IN_PART]


def _test(number: int) -> str:
    return table.link(table.REAL[number], "../..") + (", in part" if number in table.IN_PART else "")
