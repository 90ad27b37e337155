"""Tables for people: they fit a terminal, lose nothing, and have colours only where a terminal shows them."""

import re
import sys

import click
import pytest
from rich.cells import cell_len

from orchestrator.cli.tables import cut, table
from tests.simulation.test_cli import Terminal

ROWS: list[dict[str, object]] = [
    {"query": "revenue-per-minute", "state": "running", "lag": 12, "note": "the copy on west is older than the limit "
     "allows, and its newest record is unknown"},
    {"query": "\u65e5\u672c\u8a9e", "state": "DOWN", "lag": None, "note": "[bold]no markup[/bold]"},
]  # fmt: skip
COLUMNS = ("query", "state", "lag", "note")


def show_on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Stdout is a terminal of this width without colours; called in the test, since pytest swaps stdout before it."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("width", [28, 40, 80, 120])
def test_a_table_fits_the_terminal_and_loses_no_word(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    show_on_terminal(monkeypatch, width)
    drawn = table(ROWS, COLUMNS, indent="  ")
    assert max(cell_len(line) for line in drawn.splitlines()) <= width
    words = set(drawn.split())
    assert {word for row in ROWS for value in row.values() if value for word in str(value).split()} <= words


def test_a_sentence_wraps_and_an_id_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on_terminal(monkeypatch, 80)
    drawn = table(ROWS, COLUMNS).splitlines()
    assert drawn[0].startswith("query               state    lag  note")
    assert drawn[2].startswith("revenue-per-minute  running   12  the copy on west")
    assert re.fullmatch(r" {34}\S.*", drawn[3]), "the rest of the sentence is below it"


def test_a_narrow_terminal_gets_a_list_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on_terminal(monkeypatch, 26)
    assert table(ROWS, ("query", "state", "lag")).splitlines()[:4] == [
        "query  revenue-per-minute", "state  running", "lag    12", "",
    ]  # fmt: skip


def test_a_pipe_gets_one_line_for_each_row_and_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert len(table(ROWS, COLUMNS).splitlines()) == 2 + len(ROWS)
    assert "\x1b" not in table(ROWS, COLUMNS)


def test_a_terminal_gets_colors_unless_they_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on_terminal(monkeypatch, 80)
    assert "\x1b[31m" not in table(ROWS, COLUMNS)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[31mDOWN" in table(ROWS, COLUMNS)
    assert "\x1b" not in table(ROWS, COLUMNS, is_plain=True)


def test_wide_output_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    show_on_terminal(monkeypatch, 80)
    verb = click.Command("list", params=[click.Option(["--output"])])
    with verb.make_context("list", ["--output", "wide"]):
        assert len(table(ROWS, COLUMNS).splitlines()) == 2 + len(ROWS)


def test_a_line_is_cut_by_the_columns_that_it_takes() -> None:
    assert (cut("abc", 3), cut("abcd", 3), cut("abcdefg", 5)) == ("abc", "...", "ab...")
    assert cell_len(cut("\u65e5" * 10, 8)) <= 8
