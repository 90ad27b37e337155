"""The reports that are committed: written by commands, whole, and as the index says."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import __main__ as bench
from chaos import cli as chaos
from reports import index
from reports.entries import ENTRIES
from reports.errors import NoCommit
from reports.origin import git
from reports.stamp import Stamp, read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reports"
BY_HAND = {"notes.md", "README.md"}
DIRTY_BEFORE = {("chaos", "8ce9b08-dirty")}
"""Made before changed files were refused. The next `make reports` replaces them; nothing may be added here."""
MADE = sorted(page.stem for page in FOLDER.glob("*.md") if page.name not in BY_HAND)


@pytest.fixture
def stamps() -> Mapping[str, Stamp]:
    return index.stamps_of(ROOT)


def test_each_page_is_of_the_table_and_carries_the_checksum_of_its_command() -> None:
    pages = {
        page.stem: read(page.read_text(encoding="utf-8"))[1]
        for page in FOLDER.iterdir()
        if page.name not in BY_HAND and page.suffix != ".svg"
    }
    assert pages.keys() <= {entry.name for entry in ENTRIES}
    assert {name: stamp.report for name, stamp in pages.items()} == {name: name for name in pages}
    pictures = {page.stem for page in FOLDER.glob("*.svg")}
    assert all(f"({name}.svg)" in FOLDER.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in pictures)


def test_the_index_says_what_the_pages_say(stamps: Mapping[str, Stamp]) -> None:
    said = index.index_page(ROOT).read_text(encoding="utf-8")
    ages = index.ages_in(said)
    assert said == index.printed(stamps, ages), "run: make reports-index"


def test_contributing_says_how_long_each_report_takes() -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert said == index.between(said, index.table(ENTRIES) + "\n"), "run: make reports-index"
    hours = f"about {sum(entry.minutes for entry in ENTRIES) / 60:.0f} hours"
    assert hours in said
    assert f"reports: java ## {hours}" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MADE)
def test_the_age_of_a_report_is_what_git_counts(name: str, stamps: Mapping[str, Stamp]) -> None:
    ages = index.ages_in(index.index_page(ROOT).read_text(encoding="utf-8"))
    try:
        git(ROOT, "merge-base", "--is-ancestor", ages.at, "HEAD")
    except NoCommit:
        pytest.skip("the commit that ages were counted at is not in this history")
    counted, kept = index.age(ROOT, stamps[name].commits, at=ages.at), ages.by_report[name]
    assert (counted.fewest, counted.most) == (kept.fewest, kept.most), "run: make reports-index"


def test_no_report_comes_from_changed_files_but_those_that_are_listed(stamps: Mapping[str, Stamp]) -> None:
    assert {(name, each) for name, stamp in stamps.items() for each in stamp.dirty} <= DIRTY_BEFORE


def test_each_command_of_the_table_names_what_is_there() -> None:
    for entry in ENTRIES:
        files = [word for word in (*entry.command, *entry.judges) if word.endswith(".py")]
        assert [file for file in files if not (ROOT / file).exists()] == []


def test_bench_and_chaos_understand_the_commands_of_the_table() -> None:
    for entry in ENTRIES:
        program, *words = (word.format(folder="build") for word in entry.command)
        if program == "bench":
            assert bench._parse(words).only
        elif program == "chaos":
            assert chaos._parser().parse_args(words).dir == f"build/{entry.name}"
        else:
            assert program in {"pytest", "tests.injected"}
