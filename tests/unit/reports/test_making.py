"""Reports are of one clean commit: refusals, continuing after an interruption, publishing and rendering."""

import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from chaos import cli as chaos
from reports import __main__ as reports
from reports import index
from reports.entries import Entry, entry
from reports.errors import DirtyTree
from reports.making import run, unfit
from reports.origin import Origin, machine, origin, unchanged
from reports.result import Result, Section, page, read, write
from tests.checkout import Checkout
from tests.long.notes import Notes

CARRIES, SOAK, FAULTS = entry("carries"), entry("soak"), entry("faults")
RESULT = Result(
    report="carries", title="Carries", command="make reports", commits=("abc",), made="2026-11-23 06:00 UTC",
    machine="2 cores", judged="by ids", exposed="0 to 56", count=10, unit="runs", wrong=0,
    sections=(Section(texts=("All.",), columns=("seed", "lost"), rows=(("1", "0"),)),), data={"runs": [{"seed": 1}]},
)  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.delenv("DRAFT", raising=False)
    return Checkout(tmp_path / "checkout")


class Maker:
    """Takes the place of the commands: writes a result of the commit, and notes what was made."""

    def __init__(
        self, checkout: Checkout, *, wrong: str = "", stopped: str = "", touches: str = "",
        missing: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.made: list[tuple[str, int | None]] = []
        self._checkout, self._wrong, self._stopped, self._touches = checkout, wrong, stopped, touches
        self._missing = missing

    def __call__(self, made: Entry, folder: Path, planned: int | None) -> int:
        if made.name == self._stopped:
            raise KeyboardInterrupt
        self.made.append((made.name, planned))
        is_wrong = made.name == self._wrong
        section = Section(title="Steps", picture=f"{made.name}.svg")
        path = folder / made.result
        write(
            replace(
                RESULT, report=made.name, commits=(folder.name,), count=planned or 1, wrong=int(is_wrong),
                missing=self._missing, sections=(section,),
            ), path,
        )  # fmt: skip
        path.with_name(section.picture).write_text("<svg/>", encoding="utf-8")
        if self._touches:
            self._checkout.write(self._touches)
        return int(is_wrong)


def main(checkout_root: Path, *arguments: str) -> int:
    """The command line, with nothing behind it that could start a broker."""

    def execute(made: Entry, folder: Path, planned: int | None) -> int:
        pytest.fail(f"{made.name} was begun")

    return reports.main(arguments, root=checkout_root, execute=execute)


def make(checkout: Checkout, maker: Maker, entries: Sequence[Entry] = (CARRIES, SOAK), runs: int | None = None) -> int:
    return run(checkout.root, entries, runs, execute=maker, say=lambda _: None)


def published(checkout: Checkout, name: str) -> Result:
    return read(index.folder(checkout.root) / f"{name}.json")


# -- one clean commit ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["state/model/entities.py", "state/new.py", "tests/test_new.py"])
def test_a_changed_or_new_file_is_refused_before_anything_runs(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    checkout.write(path)
    assert main(checkout.root, "run", "--only", "carries") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == f"A report names its commit, but the checkout differs from it ({path}): commit or remove that."
    assert not (checkout.root / "build").exists()


def test_a_draft_of_changed_files_says_so_in_its_commit(checkout: Checkout) -> None:
    checkout.write("state/model/entities.py")
    assert origin(checkout.root, draft=True).commit == f"{checkout.head()}+changes"


def test_a_file_changed_during_a_report_stops_the_run_unpublished(checkout: Checkout) -> None:
    with pytest.raises(DirtyTree, match="Files changed during the run"):
        make(checkout, Maker(checkout, touches="state/model/entities.py"))
    assert not (checkout.root / "docs" / "reports" / "carries.md").exists()


@pytest.mark.parametrize(("program", "arguments"), [(bench, ["--only", "timeline"]), (chaos, ["run", "kill-cluster"])])
def test_bench_and_chaos_refuse_changed_files(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: object,
    arguments: list[str],
) -> None:  # fmt: skip
    def begin(*_: object, **__: Any) -> None:
        pytest.fail("something was begun")

    checkout.write("state/model/entities.py")
    monkeypatch.setattr(bench, "MEASUREMENTS", {"timeline": begin})
    monkeypatch.setattr(chaos, "_look", begin)
    monkeypatch.setattr(program, "origin", lambda *_, draft: origin(checkout.root, draft=draft))
    assert program.main([*arguments, "--dir", str(checkout.root)]) == 2  # type: ignore[attr-defined] # both are modules with main
    assert "differs from it (state/model/entities.py): commit or remove that, or set DRAFT=1" in capsys.readouterr().err


def test_the_machine_of_a_report_has_no_host_name_and_no_path() -> None:
    said = ", ".join(machine())
    assert platform.node() not in said
    assert "/" not in said
    assert all(word in said for word in ("cores", "GiB", "Java", "Python"))


# -- continuing ------------------------------------------------------------------------------------------------------
def test_an_interrupted_run_continues_on_the_same_commit(checkout: Checkout) -> None:
    first, second, third = Maker(checkout, stopped="soak"), Maker(checkout), Maker(checkout)
    with pytest.raises(KeyboardInterrupt):
        make(checkout, first)
    assert make(checkout, second) == 0
    assert make(checkout, third) == 0
    assert (first.made, second.made, third.made) == ([("carries", 10)], [("soak", None)], [])
    assert published(checkout, "soak").commits == (checkout.head(),)


def test_result_page_and_picture_are_published_side_by_side(checkout: Checkout) -> None:
    assert make(checkout, Maker(checkout), (SOAK,)) == 0
    folder = index.folder(checkout.root)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "soak.json", "soak.md", "soak.svg"]
    assert (folder / "soak.md").read_text(encoding="utf-8") == page(published(checkout, "soak"))
    assert f"| `{checkout.head()}` |" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_failure_is_published_and_is_not_hidden_by_a_later_run(checkout: Checkout) -> None:
    assert make(checkout, Maker(checkout, wrong="carries"), (CARRIES,)) == 1
    assert (published(checkout, "carries").wrong, published(checkout, "carries").failed_before) == (1, 1)
    again = Maker(checkout)
    assert make(checkout, again, (CARRIES,)) == 0
    assert again.made == [("carries", 10)]
    assert (published(checkout, "carries").wrong, published(checkout, "carries").failed_before) == (0, 1)
    assert "that failed before this one: 1" in page(published(checkout, "carries"))


def test_runs_that_ended_on_the_commit_are_not_made_again(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    on = Origin(revision="abc", changed=False, made="now", machine="2 cores")
    monkeypatch.setattr(Origin, "folder", lambda self: checkout.root / "build" / self.commit)
    monkeypatch.setattr("tests.long.notes.unchanged", lambda _: None)
    notes = Notes("automatic", on)
    monkeypatch.setenv("SEED", "7")
    assert list(notes.left(3, fault="kill")) == [(0, 7), (1, 8), (2, 9)]
    notes.add({"fault": "kill", "seed": 7, "problems": []})
    monkeypatch.setenv("SEED", "100")
    assert list(Notes("automatic", on).left(3, fault="kill")) == [(1, 8), (2, 9)]
    assert list(Notes("automatic", on).left(2, fault="freeze")) == [(0, 7), (1, 8)]
    assert len(list(Notes("automatic", replace(on, revision="other")).left(3, fault="kill"))) == 3


def test_a_run_that_ends_on_changed_files_is_not_kept(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Origin, "folder", lambda self: checkout.root / "build" / self.commit)
    monkeypatch.setattr("tests.long.notes.unchanged", lambda on: unchanged(on, checkout.root))
    notes = Notes("carries", origin(checkout.root))
    notes.add({"seed": 7})
    checkout.write("state/model/entities.py")
    with pytest.raises(DirtyTree, match="is not kept"):
        notes.add({"seed": 8})
    checkout.commit()
    with pytest.raises(DirtyTree):
        notes.add({"seed": 9})
    assert [note["seed"] for note in notes.all()] == [7]


# -- what is whole ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("facts", "planned", "problem"),
    [
        ({}, 10, None),
        ({"wrong": 3}, 10, None),
        ({"missing": ("row 2", "row 3")}, 10, "carries: not run: row 2, row 3; a report has all of them"),
        ({"commits": ("abc", "def")}, 10, "carries: the result is report carries of abc, def, not of abc"),
        ({"commits": ("abc+changes",)}, 10, "carries: the result is report carries of abc+changes, not of abc"),
        ({"report": "soak"}, 10, "carries: the result is report soak of abc, not of abc"),
        ({"count": 4}, 10, "carries: the result has 4 of 10 runs"),
        ({"count": 4}, 4, None),
    ],
)
def test_a_result_is_published_only_if_it_is_whole_and_of_the_commit(
    tmp_path: Path, facts: dict[str, Any], planned: int, problem: str | None
) -> None:
    on = Origin(revision="abc", changed=False, made="now", machine="2 cores")
    write(replace(RESULT, **facts), tmp_path / CARRIES.result)
    assert unfit(CARRIES, tmp_path, on, planned) == problem


# -- the renderer ----------------------------------------------------------------------------------------------------
def test_a_result_reads_back_what_was_written_and_its_page_lies_beside_it(tmp_path: Path) -> None:
    beside = write(RESULT, tmp_path / "new" / "carries.json")
    assert read(tmp_path / "new" / "carries.json") == RESULT
    assert beside.read_text(encoding="utf-8") == page(RESULT)


def test_a_page_names_its_commit_says_it_is_true_of_it_and_has_each_section() -> None:
    picture = Section(title="Where", bullets=("one", "two"), after=("So.",), picture="a.svg")
    found = replace(RESULT, wrong=1, missing=("row 2",), sections=(*RESULT.sections, picture))
    assert (
        page(found)
        == """# Carries

Command: `make reports`, commit `abc`, 2026-11-23 06:00 UTC, 2 cores.

10 runs, **1 not as expected**, **1 not run**. What this page says is true of that commit. Judged: by ids.

Not run: row 2.

All.

| seed | lost |
| --- | --- |
| 1 | 0 |

## Where

- one
- two

So.

![Where](a.svg)
"""
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "10 runs, all as expected"),
        ({"count": 1}, "1 run, all as expected"),
        ({"count": 1440, "unit": "positions", "wrong": 2}, "1,440 positions, **2 not as expected**"),
        ({"unit": "measurements"}, "10 measurements, no figure missed"),
        ({"unit": "measurements", "wrong": 3}, "10 measurements, **3 missed the figure to reach**"),
    ],
)
def test_the_outcome_counts_and_names_what_went_wrong(facts: dict[str, Any], words: str) -> None:
    assert replace(RESULT, **facts).outcome == words


# -- what may be requested -------------------------------------------------------------------------------------------
