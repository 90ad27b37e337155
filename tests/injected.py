"""The report ``faults``: which faults were injected into real parts, when, on which commit, and how it ended.

A plugin of pytest, in place where ``TIDEOVER_FAULTS_REPORT=1``. The page lies in the folder of the commit and is
written again whenever one of the table's real tests has ended, so a run that is cut off loses nothing.
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
from reports.errors import ReportsError
from reports.origin import Origin, origin, unchanged
from reports.stamp import Stamp, stamped
from tests.simulation.faults import table

WANTED = 36
"""The faults that were named before anything was built; the others were added later."""
ABOUT = """
# Faults that were injected into real parts

Command: `make reports ONLY=faults`, {sentence}.
Each line is the last run of its test. [The table of faults](../faults.md) says what each fault does. "In part" is a
test that leaves out something of its row, as that table says.
"""
HEAD = "| | Fault | Test | Outcome | Seconds | Commit | Ended (UTC) | Seed |"
NOT_RUN, UNFINISHED = "not run", "not finished"
AFTER = ", after a failure on the same commit"


class Ended(NamedTuple):
    """The last run of a row's test, as it stands in the page."""

    outcome: str
    seconds: str
    commit: str
    at: str
    seed: str


Runs = Mapping[int, Ended]


class Injected:
    """Notes how the tests of ``table.REAL`` end."""

    def __init__(
        self, page: Path, *, on: Origin, seed: str = "-", now: Callable[[], datetime] = lambda: datetime.now(UTC),
        still: Callable[[Origin], None] = unchanged,
    ) -> None:  # fmt: skip
        self._page, self._on, self._seed, self._now = page, on, seed, now
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
        before = read(self._page)
        write(
            self._page, {**before, **{number: self._ended(number, before.get(number)) for number in numbers}}, self._on
        )

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
    return Injected(page_of(on), on=on, seed=os.environ.get("SEED", "-"))


def page_of(on: Origin) -> Path:
    return on.folder() / "faults.md"


def main() -> int:
    """Run the tests whose rows have not ended on this commit; 0 when all rows have passed."""
    try:
        on = origin()
    except ReportsError as error:
        print(error, file=sys.stderr)
        return 2
    left = missing(read(page_of(on)))
    tests = dict.fromkeys(table.REAL[number] for number in left)
    if tests:
        os.environ["TIDEOVER_FAULTS_REPORT"] = "1"
        options = ["-p", "no:cacheprovider", "-m", "real or long", "--timeout", "14400"]
        pytest.main([*options, *tests])
    runs = read(page_of(on))
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


def write(page: Path, runs: Runs, on: Origin) -> None:
    """The whole page, each row of the table that has a real test, with its stamp."""
    rows = {row.number: row for row in table.rows()}
    empty = Ended(NOT_RUN, "-", "-", "-", "-")
    lines = [
        f"| {number} | {rows[number].injected} | {_test(number)} | {' | '.join(runs.get(number, empty))} |"
        for number in sorted(table.REAL)
    ]
    about = ABOUT.format(sentence=on.sentence).strip()
    parts = [about, f"{HEAD}\n|---|---|---|---|---|---|---|---|\n" + "\n".join(lines), summary(runs)]
    page.parent.mkdir(parents=True, exist_ok=True)
    facts = Stamp(
        report="faults", command="make reports ONLY=faults", commits=(on.commit,), made=on.made, machine=on.machine,
        judged=entry("faults").judged, exposed="-", stories=len(table.REAL) - len(left := missing(runs)),
        unit="faults", broken=len(failed(runs)), missing=tuple(f"row {number}" for number in left),
    )  # fmt: skip
    page.write_text(stamped("\n\n".join(parts), facts), encoding="utf-8")


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
