"""The reports that are committed: rendered from results of the table, and listed as the index says."""

from pathlib import Path

import pytest

from bench import __main__ as bench
from chaos import cli as chaos
from reports import index
from reports.entries import ENTRIES, EVERY, MOST_MINUTES, chosen
from reports.result import page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reports"
BY_HAND = {"notes.md", "README.md"}
FOUND = index.results(ROOT)


def test_each_file_is_the_result_the_page_or_a_picture_of_a_report() -> None:
    pictures = {section.picture for found in FOUND.values() for section in found.sections}
    expected = {f"{name}.{kind}" for name in FOUND for kind in ("json", "md")} | BY_HAND | pictures - {""}
    old = {f"{name}.svg" for name, found in FOUND.items() if not found.sections}
    assert {path.name for path in FOLDER.iterdir()} - old == expected
    assert {name: found.report for name, found in FOUND.items()} == {name: name for name in FOUND}


@pytest.mark.parametrize("name", FOUND)
def test_a_page_is_what_its_result_renders_to(name: str) -> None:
    """Pages of before results were kept name their commit all the same."""
    found, text = FOUND[name], (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert all(f"`{commit}`" in text or f"commit: {commit}" in text for commit in found.commits)
    assert not any(commit.endswith(("-dirty", "+changes")) for commit in found.commits)
    if found.sections:
        assert text == page(found)


def test_the_index_lists_what_is_there() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == index.printed(FOUND), "run: python -m reports index"


def test_making_the_reports_takes_two_hours_as_the_makefile_says() -> None:
    assert sum(entry.minutes for entry in chosen(None)) <= MOST_MINUTES
    hours = sum(entry.minutes for entry in chosen(EVERY)) / 60
    (line,) = [each for each in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "reports:" in each]
    assert "two hours" in line
    assert f"ONLY=all every one in {hours:.0f} hours" in line


def test_the_programs_understand_the_commands_of_the_table() -> None:
    for entry in ENTRIES:
        program, *words = (word.format(folder="build") for word in entry.command)
        assert [word for word in words if word.endswith(".py") and not (ROOT / word).exists()] == []
        if program == "bench":
            assert bench._parse(words).only
        elif program == "chaos":
            assert chaos._parser().parse_args(words).dir == f"build/{entry.name}"
        else:
            assert program in {"pytest", "tests.injected"}
