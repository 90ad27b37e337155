"""The report ``faults``: which faults were injected into real parts, when, on which commit, and how it ended.

A plugin of pytest, in place where ``TIDEOVER_FAULTS_REPORT=1``. The result is in the folder of the commit, and is
written again whenever one of the table's real tests has ended, so an interruption loses nothing.
``python -m tests.injected`` runs the tests of the table that have not ended on this commit.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from reports.entries import entry
from reports.errors import NoResult, ReportsError
from reports.origin import Origin, origin, unchanged
from reports.result import Result, Section
from reports.result import read as read_result
from reports.result import write as write_result
from tests.simulation.faults import table

WANTED = 36
"""The faults that were named before anything was built; the others were added later."""
ABOUT = """
Each line is the last run of its test. [The table of faults](../faults.md) says what each fault does. "In part" is a
test that leaves out something of its row, as that table says.
"""
COLUMNS = ("", "Fault", "Test", "Outcome", "Seconds", "Commit", "Ended (UTC)", "Seed")
NOT_RUN, UNFINISHED = "not run", "not finished"
AFTER = ", after a failure on the same commit"


class Ended(NamedTuple):
    """The last run of a row's test, as the page has it."""

    outcome: str
    seconds: str
    commit: str
    at: str
    seed: str


Runs = Mapping[int, Ended]


class Injected:
    """Notes how the tests of ``table.REAL`` end."""

    def __init__(
        self, path: Path, *, on: Origin, seed: str = "-", now: Callable[[], datetime] = lambda: datetime.now(UTC),
        still: Callable[[Origin], None] = unchanged,
    ) -> None:  # fmt: skip
        self._path, self._on, self._seed, self._now = path, on, seed, now
        self._still = still
        self._collected: list[str] = []
        self._phases: dict[str, list[pytest.TestReport]] = {}
        self._cases: dict[str, tuple[bool, float]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Which cases there are: a test with several has ended when all have."""
        self._collected = [item.nodeid for item in session.items]

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
        if "skipped" in outcomes:
            return
        self._cases[report.nodeid] = (outcomes == {"passed"}, sum(each.duration for each in phases))
        self._still(self._on)
        before = read(self._path)
        now = {number: self._ended(number, before.get(number)) for number in numbers}
        write(self._path, {**before, **now}, self._on)

    def _ended(self, number: int, before: Ended | None) -> Ended:
        """All cases of a test that ended in this run are one line; an earlier failure on the commit is not hidden."""
        mine = [node for node in self._cases if number in rows_of(node)]
        outcome = "passed" if all(self._cases[node][0] for node in mine) else "**failed**"
        expected = sum(number in rows_of(node) for node in self._collected)
        cases = f" ({len(mine)} cases)" if len(mine) > 1 else ""
        if outcome == "passed" and len(mine) < expected:
            outcome, cases = UNFINISHED, f" ({len(mine)} of {expected} cases)"
        if outcome == "passed" and before and ("failed" in before.outcome or before.outcome.endswith(AFTER)):
            cases += AFTER
        seconds = f"{sum(self._cases[node][1] for node in mine):,.0f}"
        return Ended(outcome + cases, seconds, f"`{self._on.commit}`", f"{self._now():%Y-%m-%d %H:%M}", self._seed)


def plugin() -> Injected:
    """The plugin for this checkout. Raises DirtyTree."""
    on = origin()
    return Injected(path_of(on), on=on, seed=os.environ.get("SEED", "-"))


def path_of(on: Origin) -> Path:
    return on.folder() / entry("faults").result


def main() -> int:
    """Run the tests whose rows have not ended on this commit; 0 when all rows have passed."""
    try:
        on = origin()
    except ReportsError as error:
        print(error, file=sys.stderr)
        return 2
    left = missing(read(path_of(on)))
    tests = dict.fromkeys(table.REAL[number] for number in left)
    if tests:
        os.environ["TIDEOVER_FAULTS_REPORT"] = "1"
        options = ["-p", "no:cacheprovider", "-m", "real or long", "--timeout", "14400"]
        pytest.main([*options, *tests])
    runs = read(path_of(on))
    return 1 if missing(runs) or failed(runs) else 0


def missing(runs: Runs) -> list[int]:
    """The rows whose test has not ended, with all its cases."""
    return [n for n in sorted(table.REAL) if n not in runs or runs[n].outcome.startswith((NOT_RUN, UNFINISHED))]


def failed(runs: Runs) -> list[int]:
    """The rows whose test failed."""
    return [number for number in sorted(runs) if runs[number].outcome.startswith("**failed")]


def rows_of(node: str) -> list[int]:
    """The rows whose test this is, or one case of it."""
    return [number for number, test in table.REAL.items() if node == test or node.startswith(test + "[")]


def read(path: Path) -> Runs:
    """The runs in a result that are still of the test that the table names. Empty where there is none yet."""
    try:
        runs = read_result(path).data["runs"]
    except NoResult:
        return {}
    known = {int(number): (test, Ended(*ended)) for number, (test, *ended) in runs.items()}
    return {number: ended for number, (test, ended) in known.items() if table.REAL.get(number) == test}


def write(path: Path, runs: Runs, on: Origin) -> None:
    """The whole result, each row of the table that has a real test."""
    rows = {row.number: row for row in table.rows()}
    empty = Ended(NOT_RUN, "-", "-", "-", "-")
    lines = tuple(
        (str(number), rows[number].injected, _test(number), *runs.get(number, empty)) for number in sorted(table.REAL)
    )
    section = Section(texts=(ABOUT.strip(),), columns=COLUMNS, rows=lines, after=(summary(runs),))
    made, left = entry("faults"), missing(runs)
    result = Result(
        report=made.name, title=made.title, command="make reports ONLY=faults", commits=(on.commit,), made=on.made,
        machine=on.machine, judged=made.judged, count=len(table.REAL) - len(left), unit=made.unit,
        wrong=len(failed(runs)), missing=tuple(f"row {number}" for number in left), sections=(section,),
        data={"runs": {number: (table.REAL[number], *ended) for number, ended in runs.items()}},
    )  # fmt: skip
    write_result(result, path)


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


if __name__ == "__main__":
    from tests import injected

    sys.exit(injected.main())
