"""The report of faults that were injected into real parts: any part of a run brings its own lines up to date."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reports.origin import Origin
from reports.result import read as read_result
from tests.injected import Injected, missing, read, whole_rows
from tests.simulation.faults import table

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
KILL, FREEZE, FLAP, HALF = table.REAL[2], table.REAL[3], table.REAL[6], table.REAL[23]


def plugin(page: Path, commit: str = "abc123") -> Injected:
    on = Origin(revision=commit, changed=False, made="2026-11-22 11:00 UTC", machine="2 cores")
    return Injected(page, on=on, seed="7", now=lambda: NOON, still=lambda _: None)


def end(into: Injected, node: str, *, call: str = "passed", seconds: float = 10.0) -> None:
    """A test runs and ends."""
    for when, outcome in (("setup", "passed"), ("call", call), ("teardown", "passed")):
        values: dict[str, Any] = {"keywords": {}, "location": ("", 0, ""), "longrepr": None}
        report = pytest.TestReport(node, when=when, outcome=outcome, duration=seconds / 3, **values)  # type: ignore[arg-type]
        into.pytest_runtest_logreport(report)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "faults.json"


def test_a_real_test_that_ends_is_a_line_and_what_never_ran_says_so(page: Path) -> None:
    end(plugin(page), KILL, seconds=1234.0)
    lines = page.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    (line,) = [each for each in lines if each.startswith("| 2 |")]
    assert "all brokers of the primary are killed" in line
    assert line.endswith("| passed | 1,234 | `abc123` | 2026-11-22 12:00 | 7 |")
    assert all("| not run | - | - | - | - |" in each for each in lines if each.startswith(("| 3 |", "| 6 |")))
    assert f"faults {len(whole_rows(table.REAL))} have a real test that plays them whole, and 1 of these" in lines[-1]
    found = read_result(page)
    assert (found.count, len(found.missing), found.commits) == (1, len(table.REAL) - 1, ("abc123",))


def test_a_later_run_of_another_part_keeps_earlier_lines_and_their_commit(page: Path) -> None:
    end(plugin(page, "first"), KILL)
    end(plugin(page, "second"), FLAP, call="failed")
    runs = read(page)
    assert {number: (run.outcome, run.commit) for number, run in runs.items()} == {
        2: ("passed", "`first`"),
        6: ("**failed**", "`second`"),
    }
    end(plugin(page, "third"), FLAP)
    assert read(page)[6][:3] == ("passed, after a failure on the same commit", "10", "`third`")


def test_a_pass_after_a_failure_on_the_commit_says_so_for_good(page: Path) -> None:
    end(plugin(page), KILL, call="failed")
    for _ in range(2):
        end(plugin(page), KILL)
        assert read(page)[2].outcome == "passed, after a failure on the same commit"
    end(plugin(page), FREEZE)
    assert read(page)[3].outcome == "passed"


def test_a_test_of_two_cases_is_not_finished_after_one(page: Path) -> None:
    noted, session = plugin(page), Mock(items=[Mock(nodeid=f"{FLAP}[one]"), Mock(nodeid=f"{FLAP}[two]")])
    noted.pytest_collection_finish(session)
    end(noted, f"{FLAP}[one]")
    assert read(page)[6].outcome == "not finished (1 of 2 cases)"
    assert 6 in missing(read(page))
    end(noted, f"{FLAP}[two]")
    assert read(page)[6].outcome == "passed (2 cases)"
    assert 6 not in missing(read(page))


def test_the_cases_of_a_row_are_one_line_and_a_case_of_its_own_another(page: Path) -> None:
    noted = plugin(page)
    end(noted, FREEZE)
    assert read(page).keys() == {3}
    end(noted, f"{FLAP}[one]", call="failed")
    end(noted, f"{FLAP}[two]")
    assert read(page)[6][:2] == ("**failed** (2 cases)", "20")


def test_a_test_that_was_skipped_or_is_no_row_of_the_table_writes_nothing(page: Path) -> None:
    noted = plugin(page)
    end(noted, KILL, call="skipped")
    end(noted, "tests/long/test_soak.py::test_faults_shorter_than_the_limits_never_move_a_query")
    assert not page.exists()


def test_a_test_that_plays_its_row_in_part_is_no_whole_one(page: Path) -> None:
    end(plugin(page), HALF)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    (line,) = [each for each in text.splitlines() if each.startswith("| 23 |")]
    assert ", in part | passed |" in line
    assert "and 0 of these" in text


def test_a_line_of_a_test_that_the_table_no_longer_names_is_not_kept(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(plugin(page), FLAP)
    monkeypatch.setitem(table.REAL, 6, "tests/long/test_watch_faults.py::test_another")
    assert read(page) == {}
