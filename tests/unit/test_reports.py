"""Reports are of one clean commit: refusals, going on after an interruption, ages and the list of them."""

import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from chaos import cli as chaos
from reports import __main__ as reports
from reports import index
from reports.entries import ENTRIES, Entry, chosen, counted, entry
from reports.errors import DirtyTree, NotStamped, ReportsError
from reports.origin import Origin, java, machine, origin, unchanged
from reports.run import run, unfit
from reports.stamp import Stamp, read, stamped
from tests.background import deaf
from tests.checkout import Checkout
from tests.long.notes import Notes
from tests.waiting import until

CARRIES, SOAK, FAULTS = entry("carries"), entry("soak"), entry("faults")
STAMP = Stamp(
    report="carries", command="make reports", commits=("abc",), made="2026-11-23 06:00 UTC", machine="2 cores",
    judged="by ids", exposed="0 to 56", stories=30, unit="stories", broken=0,
)  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.delenv("DRAFT", raising=False)
    return Checkout(tmp_path / "checkout")


class Maker:
    """Stands in for the commands: writes a page of the commit, and notes what was made."""

    def __init__(self, checkout: Checkout, *, broken: str = "", stopped: str = "", touches: str = "") -> None:
        self.made: list[tuple[str, int | None]] = []
        self._checkout, self._broken, self._stopped, self._touches = checkout, broken, stopped, touches

    def __call__(self, made: Entry, folder: Path, told: int | None) -> int:
        if made.name == self._stopped:
            raise KeyboardInterrupt
        self.made.append((made.name, told))
        is_broken = made.name == self._broken
        facts = replace(STAMP, report=made.name, commits=(folder.name,), stories=told or 1, broken=int(is_broken))
        (folder / made.page).parent.mkdir(parents=True, exist_ok=True)
        (folder / made.page).write_text(stamped("# A page", facts), encoding="utf-8")
        if made.name == SOAK.name:
            (folder / made.page).with_name(f"{made.name}.svg").write_text("<svg/>", encoding="utf-8")
        if self._touches:
            self._checkout.write(self._touches)
        return int(is_broken)


def main(checkout_root: Path, *arguments: str) -> int:
    """The command line, with nothing behind it that could start a broker."""

    def execute(made: Entry, folder: Path, told: int | None) -> int:
        pytest.fail(f"{made.name} was begun")

    return reports.main(arguments, root=checkout_root, execute=execute)


def make(checkout: Checkout, maker: Maker, entries: Sequence[Entry] = (CARRIES, SOAK), most: int | None = None) -> int:
    return run(checkout.root, entries, most, execute=maker, say=lambda _: None)


def published(checkout: Checkout, name: str) -> Stamp:
    return read((checkout.root / "docs" / "reports" / f"{name}.md").read_text(encoding="utf-8"))[1]


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


def test_files_that_the_command_publishes_are_no_change(checkout: Checkout) -> None:
    for path in ("docs/reports/carries.md", "CONTRIBUTING.md", "build/log"):
        checkout.write(path)
    assert origin(checkout.root).commit == checkout.head()


def test_a_draft_of_changed_files_says_so_in_its_commit_and_its_sentence(checkout: Checkout) -> None:
    checkout.write("state/model/entities.py")
    on = origin(checkout.root, draft=True)
    assert on.commit == f"{checkout.head()}+changes"
    assert "a draft, made on changed files" in on.sentence


def test_a_file_changed_during_a_report_stops_the_run_unpublished(checkout: Checkout) -> None:
    with pytest.raises(DirtyTree, match="Files changed during the run"):
        make(checkout, Maker(checkout, touches="state/model/entities.py"))
    assert not (checkout.root / "docs" / "reports" / "carries.md").exists()


def test_outside_of_git_there_is_no_commit_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path, "run") == 2
    assert "no report can name its commit" in capsys.readouterr().err


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


def test_the_java_of_a_report_is_its_version_whatever_the_environment_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    alone = java()
    assert re.fullmatch(r"\d+[\d.]*", alone), alone
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xshare:auto")
    assert java() == alone


# -- going on --------------------------------------------------------------------------------------------------------
def test_an_interrupted_run_goes_on_with_what_is_left_on_the_same_commit(checkout: Checkout) -> None:
    first, second, third = Maker(checkout, stopped="soak"), Maker(checkout), Maker(checkout)
    with pytest.raises(KeyboardInterrupt):
        make(checkout, first)
    assert make(checkout, second) == 0
    assert make(checkout, third) == 0
    assert (first.made, second.made, third.made) == ([("carries", 30)], [("soak", None)], [])
    assert published(checkout, "soak").commits == (checkout.head(),)


def test_another_commit_begins_at_the_start(checkout: Checkout) -> None:
    make(checkout, Maker(checkout))
    checkout.commit("docs/page.md")
    again = Maker(checkout)
    make(checkout, again)
    assert [name for name, _ in again.made] == ["carries", "soak"]
    assert published(checkout, "carries").commits == (checkout.head(),)


def test_fewer_stories_are_not_the_full_report_and_the_index_says_so(checkout: Checkout) -> None:
    make(checkout, Maker(checkout), (CARRIES,), 10)
    page = index.index_page(checkout.root).read_text(encoding="utf-8")
    assert "10 stories of the 30 of a full report" in page
    full = Maker(checkout)
    make(checkout, full, (CARRIES,))
    assert full.made == [("carries", 30)]
    assert "of a full report" not in index.index_page(checkout.root).read_text(encoding="utf-8")


def test_the_picture_of_a_page_is_published_beside_it(checkout: Checkout) -> None:
    assert make(checkout, Maker(checkout)) == 0
    folder = checkout.root / "docs" / "reports"
    assert [path.name for path in folder.glob("*.svg")] == ["soak.svg"]
    assert (folder / "soak.svg").read_text(encoding="utf-8") == "<svg/>"


def test_a_failure_is_published_and_is_not_hidden_by_a_later_run(checkout: Checkout) -> None:
    assert make(checkout, Maker(checkout, broken="carries"), (CARRIES,)) == 1
    assert (published(checkout, "carries").broken, published(checkout, "carries").failed_before) == (1, 1)
    again = Maker(checkout)
    assert make(checkout, again, (CARRIES,)) == 0
    assert again.made == [("carries", 30)]
    assert (published(checkout, "carries").broken, published(checkout, "carries").failed_before) == (0, 1)
    assert "that failed before it: 1" in index.index_page(checkout.root).read_text(encoding="utf-8")


def test_stories_that_were_told_on_the_commit_are_not_told_again(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_story_that_ends_on_changed_files_is_not_kept(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ("facts", "told", "problem"),
    [
        ({}, 30, None),
        ({"broken": 3}, 30, None),
        ({"missing": ("row 2", "row 3")}, 30, "carries: not run: row 2, row 3; a report has all of them"),
        ({"commits": ("abc", "def")}, 30, "carries: the page is report carries of abc, def, not of abc"),
        ({"commits": ("abc+changes",)}, 30, "carries: the page is report carries of abc+changes, not of abc"),
        ({"stories": 12}, 30, "carries: the page has 12 of 30 stories"),
        ({"stories": 12}, 12, None),
    ],
)
def test_a_page_is_published_only_if_it_is_whole_and_of_the_commit(
    tmp_path: Path, facts: dict[str, Any], told: int, problem: str | None
) -> None:
    on = Origin(revision="abc", changed=False, made="now", machine="2 cores")
    page = tmp_path / "carries.md"
    page.write_text(stamped("# A page", replace(STAMP, **facts)), encoding="utf-8")
    assert unfit(CARRIES, page, on, told) == problem


def test_a_row_that_was_not_run_keeps_the_old_page_and_ends_with_1(checkout: Checkout) -> None:
    def without_a_row(made: Entry, folder: Path, told: int | None) -> int:
        facts = replace(STAMP, report=made.name, commits=(folder.name,), missing=("row 2",))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / made.page).write_text(stamped("# Faults", facts), encoding="utf-8")
        return 0

    make(checkout, Maker(checkout), (FAULTS,))
    old = checkout.head()
    checkout.commit("state/model/entities.py")
    assert run(checkout.root, (FAULTS,), None, execute=without_a_row, say=lambda _: None) == 1
    assert published(checkout, "faults").commits == (old,)


@pytest.mark.parametrize("change", [("# A page", "# Another"), ('"broken": 0', '"broken": 1'), ("sha256", "md5")])
def test_a_page_that_was_changed_by_hand_is_refused(change: tuple[str, str]) -> None:
    page = stamped("# A page", STAMP)
    assert read(page) == ("# A page", STAMP)
    with pytest.raises(NotStamped):
        read(page.replace(*change))
    with pytest.raises(NotStamped):
        read(page + "A remark.\n")


# -- what may be asked for -------------------------------------------------------------------------------------------
def test_only_takes_names_of_the_table_in_its_order() -> None:
    assert chosen(None) == chosen("") == ENTRIES
    assert [each.name for each in chosen("bench, carries")] == ["carries", "bench"]
    assert [each.told(counted("8")) for each in (CARRIES, SOAK)] == [8, None]
    assert CARRIES.told(counted("")) == CARRIES.told(counted("50")) == 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "carrys"], "There is no report 'carrys': ONLY takes carries, automatic,"),
        (["--only", "carries,"], "There is no report '': ONLY takes"),
        (["--stories", "ten"], "STORIES=ten is no number of stories: give 1 or more."),
        (["--stories", "0"], "STORIES=0 is no number"),
        (["--stories", "-3"], "STORIES=-3 is no number"),
    ],
)
def test_a_mistake_in_only_or_stories_is_one_sentence(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(checkout.root, "run", "=".join(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)


# -- ages ------------------------------------------------------------------------------------------------------------
def test_the_age_counts_the_commits_that_change_the_product_and_no_others(checkout: Checkout) -> None:
    made = checkout.head()
    for path in ("docs/page.md", "state/a.py", "tests/test_a.py", "streaming/b.py", "orchestrator/c.py"):
        checkout.commit(path)
    later = checkout.commit("orchestrator/c.py")
    assert index.age(checkout.root, [made]).words == "4"
    assert index.age(checkout.root, [later]).words == "0"
    assert index.age(checkout.root, [f"{made}-dirty", f"{later}+changes"]).words == "0 to 4"
    assert index.age(checkout.root, ["0123456789ab"]).words == "unknown"


def test_a_commit_that_only_readers_see_makes_no_report_older(checkout: Checkout) -> None:
    file = checkout.root / "state" / "a.py"
    texts = {
        "made": 'X = 1\n"""One."""\n\n\ndef seconds():\n    """A length."""\n    return X\n',
        "other words": '"""Lengths."""\n\nX = 1  # of a second\n\n\ndef seconds():\n    return X\n',
        "other code": '"""Lengths."""\n\nX = 2  # of a second\n\n\ndef seconds():\n    return X\n',
    }
    commits = {}
    for what, text in texts.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        commits[what] = checkout.commit()
    assert index.age(checkout.root, [commits["made"]], at=commits["other words"]).words == "0"
    assert index.age(checkout.root, [commits["made"]]).words == "1"
    assert index.age(checkout.root, [commits["made"]], ["state/a.py"]).judge_changes == 1
    for path in ("state/words.txt", "state/words.txt"):
        checkout.commit(path)
    assert index.age(checkout.root, [commits["made"]]).words == "3"


def test_a_report_of_a_commit_behind_the_newest_product_commit_is_of_age_0(checkout: Checkout) -> None:
    checkout.commit("docs/page.md")
    make(checkout, Maker(checkout), (CARRIES,))
    ages = index.ages_in(index.index_page(checkout.root).read_text(encoding="utf-8"))
    assert ages.by_report["carries"].words == "0"
    assert index.age(checkout.root, [checkout.head()], at=ages.at).words == "0"


def test_the_index_names_the_first_commit_that_changed_the_judge(checkout: Checkout) -> None:
    made = checkout.head()
    first = checkout.commit("lab/judge.py")
    checkout.commit("lab/judge.py", "docs/page.md")
    age = index.age(checkout.root, [made], ["lab/judge.py"])
    assert first.startswith(age.judge)
    assert age.judge_changes == 2
    assert index.age(checkout.root, [checkout.head()], ["lab/judge.py"]).judge == ""


def test_ages_alone_are_counted_again_and_nothing_else_changes(checkout: Checkout) -> None:
    make(checkout, Maker(checkout), (CARRIES,))
    page = (checkout.root / "docs" / "reports" / "carries.md").read_bytes()
    assert index.ages_in(index.index_page(checkout.root).read_text(encoding="utf-8")).by_report["carries"].words == "0"
    checkout.commit("state/a.py")
    assert main(checkout.root, "index") == 0
    assert index.ages_in(index.index_page(checkout.root).read_text(encoding="utf-8")).by_report["carries"].words == "1"
    assert (checkout.root / "docs" / "reports" / "carries.md").read_bytes() == page


def test_the_index_says_which_reports_are_of_changed_files_or_lack_something() -> None:
    told = replace(STAMP, commits=("abc-dirty",), missing=("row 2",), broken=1)
    ages = index.Ages(at="fed", by_report={"carries": index.Age(fewest=3, most=3, judge="bad")})
    page = index.printed({"carries": told}, ages)
    assert "- Made on changed files: `abc-dirty`" in page
    assert "- Not run: row 2" in page
    assert "by the judge before `bad`" in page
    assert "**1 not as expected**, **1 not run**" in page
    assert "| Pauses, cuts and load that move nothing (`soak`) | - | - | - | - | not made yet |" in page
    assert index.ages_in(page) == ages


@pytest.mark.parametrize("text", ["", index.BEGIN, index.END, (index.BEGIN + index.END) * 2])
def test_a_page_without_one_place_for_the_list_is_refused(text: str) -> None:
    with pytest.raises(ReportsError, match="one place for the list"):
        index.between(text, "list")


SCRIPT = """
import sys
from pathlib import Path
from lab.interrupt import heed_signals
from reports.entries import Entry
from reports.run import execute
heed_signals()
slow = "import os, time; print('begun', flush=True); time.sleep(600)"
entry = Entry(
    name="slow", title="", command=("timeit", "-n", "1", "-r", "1", slow), minutes=1, judged="", judges=(),
)
execute(entry, Path(sys.argv[1]), None)
"""


def test_a_report_that_is_ended_ends_its_command_by_an_interrupt(tmp_path: Path) -> None:
    """By more it could not end the brokers that it has started; the interpreter says what it died of."""
    running = subprocess.Popen(deaf(sys.executable, "-c", SCRIPT, str(tmp_path)), stderr=subprocess.DEVNULL)
    log = tmp_path / "slow.log"
    try:
        until(lambda: log.exists() and "begun" in log.read_text())
        running.terminate()
        assert running.wait(60) != 0
        assert "KeyboardInterrupt" in log.read_text()
    finally:
        running.kill()
