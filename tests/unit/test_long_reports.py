"""The reports of the long tests, written of made-up runs: what a row shows, and what is counted."""

from pathlib import Path
from typing import Any

import pytest

from lab.scenario import Played, Script
from reports.origin import Origin
from reports.result import Result, Section, read
from tests.alignment.cases import CASES
from tests.alignment.report import Row
from tests.alignment.report import section as alignment
from tests.long import test_many_automatic as automatic
from tests.long import test_many_carries as carries
from tests.long import test_many_returns as returns
from tests.long import test_many_switches as switches
from tests.long import test_many_transactions as transactions
from tests.long.notes import Note, Notes, conclude, table

ROW = {"acked": 10, "replicated": 8, "delivered": 8, "exposed": 2, "lost": 0, "duplicated": 0, "judged": "by 8 ids"}
BROKEN = {"fault": "kill", "seed": 7, "warm": True, "problems": ["no world"]}


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Origin:
    """A clean commit whose results go into the folder of the test."""
    monkeypatch.setattr(Origin, "folder", lambda self: tmp_path / self.commit)
    monkeypatch.setattr("tests.long.notes.unchanged", lambda _: None)
    monkeypatch.setenv("SEED", "7")
    return Origin(revision="abc", changed=False, made="2026-11-23 06:00 UTC", machine="2 cores")


def played_run(**changes: Any) -> Played:
    """One query is carried, one starts fresh."""
    plans = {"orders": {"resume": "carry", "uncommitted_batch": "none"}, "latest": {"resume": "fresh", "totals": {
        "replay_records": 0, "possible_replay_records": 0}}}  # fmt: skip
    return Played(
        script=Script(), plan=(), failover_exit=0, fault_to_first_commit_seconds={},
        operations=[{"query": name, "plan": plan, "measured": {"switch_seconds": 1.5}} for name, plan in plans.items()],
        verdict={"orders": {**ROW, "judged": "by 4 sums", **changes}, "latest": ROW},
    )  # fmt: skip


def carried(**changes: Any) -> Note:
    return {"fault": "kill", "seed": 7, "warm": True, **carries._note(played_run(**changes))}


def test_a_row_shows_what_was_exposed_and_how_it_was_judged() -> None:
    (row,) = carries.section([carried()]).rows
    assert " ".join(row) == "kill 7 8 0 0 2 none 1.50 s orders by 4 sums; latest by 8 ids kept"
    (cold,) = carries.section([{**carried(), "warm": False}]).rows
    assert "1.50 s, cold" in cold


def test_a_row_of_a_broken_promise_shows_what_was_lost() -> None:
    (row,) = carries.section([carried(lost=1)]).rows
    assert (row[3], row[-1]) == ("1", "orders: lost 1")


RETURNED = {**carried(), "tail": 3, "switches": [1.0, None, 2.0]}
SWITCHED = {**carried(), "driver": "lost", "home": True}
AUTOMATIC = {"fault": "kill", "seed": 7, "down": 1.0, "commits": [2.0, 11.0], "exposed": 56, "judged": "q by 8 sums",
             "problems": []}  # fmt: skip
AMONG = {"fault": "freeze", "seed": 7, "replicator": "read_committed", "size": 3, "delivered": 1200, "problems": []}
KINDS: list[tuple[str, Any, Note, str]] = [
    ("carries", lambda notes: [carries.section(notes)], carried(), "Switch time of 2 carried queries, warmed up"),
    ("returns", lambda notes: [returns.section(notes)], RETURNED, "Pause of 4 queries on the way back"),
    ("switches", lambda notes: [switches.section(notes)], SWITCHED, "| kill | 7 | lost | there and back | 8 |"),
    ("automatic", automatic.sections, AUTOMATIC, "| kill | 7 | 1.00 s | 2.00 s | 11.00 s | 56 | q by 8 sums | kept |"),
    ("transactions", lambda notes: [table(notes, transactions.COLUMNS, about=transactions.ABOUT)], AMONG,
     "| freeze | 7 | `read_committed` | 3 | 1,200 | kept |"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sections", "note", "words"), KINDS, ids=[each[0] for each in KINDS])
def test_each_kind_writes_a_result_and_a_page_of_its_runs(
    on: Origin, name: str, sections: Any, note: Note, words: str
) -> None:
    notes = Notes(name, on)
    for _ in range(2):
        notes.add(note)
    written = notes.conclude(2, sections(notes.all()))
    found = read(on.folder() / f"{name}.json")
    assert (found.report, found.count, found.wrong, found.unit) == (name, 2, 0, "runs")
    assert found.command == f"SEED=7 make reports ONLY={name} RUNS=2"
    assert found.data == {"runs": list(notes.all())}
    assert words in written.read_text(encoding="utf-8")


def test_a_run_that_broke_is_counted_and_its_row_has_no_figures(on: Origin) -> None:
    notes = Notes("returns", on)
    notes.add(RETURNED)
    notes.add(BROKEN)
    notes.conclude(2, [returns.section(notes.all())])
    found: Result = read(on.folder() / "returns.json")
    assert (found.count, found.wrong, found.exposed) == (2, 1, "2")
    assert found.sections[0].rows[1] == ("kill", "7", "-", "-", "-", "-", "-", "-", "no world")


def test_a_report_of_no_runs_takes_its_own_counts(on: Origin) -> None:
    conclude(on, "soak", [Section(texts=("Calm.",))], command="make", count=93, wrong=0, exposed="not counted")
    assert read(on.folder() / "soak.json").outcome == "93 strikes, all as expected"


def test_the_matrix_of_positions_has_a_cell_for_each_column() -> None:
    made = alignment([])
    assert made.after == ("0 positions: 0 exact, 0 earlier, 0 later.",)
    assert all(case.name for case in CASES)
    assert Row.__dataclass_fields__.keys() == {"case", "answers"}


# -- failovers that no one typed -------------------------------------------------------------------------------------
def notes_of(*seconds: tuple[float, float], fault: str = "kill") -> list[Note]:
    """Runs by their seconds to the verdict, and to the first commit."""
    return [{**AUTOMATIC, "fault": fault, "down": down, "commits": [first, first + 9.0]} for down, first in seconds]


def summary(notes: list[Note]) -> str:
    (sentence,) = automatic._sum_up(notes)
    return sentence


def test_a_reached_figure_is_called_met_beside_its_target() -> None:
    assert summary(notes_of((1.0, 2.0), (2.0, 3.0), (1.5, 5.0))) == (
        "Fault to verdict DOWN: median 1.50 s, 95th percentile 2.00 s; to reach: 95th percentile <= 2 s: met."
        " Fault to first commit: median 3.00 s, 95th percentile 5.00 s;"
        " to reach: median <= 3 s, 95th percentile <= 5 s: met."
    )


def test_a_late_median_or_one_late_commit_among_ten_is_called_missed() -> None:
    late = summary(notes_of((1.0, 3.1), (1.5, 3.1), (1.2, 3.2)))
    assert "95th percentile <= 5 s: **missed**." in late
    assert "Of the median 3.10 s, 1.20 s pass until the verdict" in late
    assert summary([*notes_of(*[(1.0, 2.0)] * 9), *notes_of((1.0, 5.1))]).count("**missed**") == 1


def test_a_late_verdict_is_called_missed_and_a_freeze_may_take_a_second_more() -> None:
    assert "<= 2 s: **missed**." in summary(notes_of((2.1, 2.5)))
    assert "<= 3 s: met." in summary(notes_of((2.1, 2.5), fault="freeze"))
    assert "<= 3 s: **missed**." in summary(notes_of((3.1, 3.2), fault="freeze"))


def test_each_fault_has_a_chapter_whichever_ran_first() -> None:
    _, kill, freeze = automatic.sections([*notes_of((2.0, 3.0), fault="freeze"), *notes_of(*[(1.0, 2.0)] * 10)])
    assert (kill.title, kill.texts, freeze.texts) == ("By kill", ("10 runs.",), ("1 run.",))
    assert automatic.sections([])[1].rows == ()
