"""Tables for people, by the library ``rich``: they fit the terminal, and have colours where it shows any.

A table that is written to a file or a pipe has no limit of width, and no colours.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Row = Mapping[str, object]
PEOPLE = frozenset({"table", "wide"})
"""The forms that people read."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNLIMITED = 100_000
_GAP = 2
"""Blanks between two columns."""
_COLORS = {
    "DOWN": "red", "CONFIG_ERROR": "red", "NOT READY": "red", "BLOCKED": "red", "failed": "red", "refused": "red",
    "REFUSES": "red", "stopped": "red", "SUSPECT": "yellow", "DEGRADED": "yellow", "UNKNOWN": "yellow",
    "NOT_HERE": "yellow", "unknown": "yellow", "UP": "green", "running": "green", "done": "green",
}  # fmt: skip
"""Of cells that are exactly this word."""


def terminal_width() -> int | None:
    """The columns of the terminal behind stdout; None where there is none, and for ``-o wide``."""
    verb = click.get_current_context(silent=True)
    if verb is not None and verb.params.get("output") == "wide":
        return None
    return shutil.get_terminal_size().columns if _is_terminal() else None


def table(rows: Sequence[Row], columns: Sequence[str], *, indent: str = "", is_plain: bool = False) -> str:
    """A table whose cells wrap between words to fit the terminal, numbers to the right.

    ``is_plain``: one line a row without colours, for a display that cuts lines.
    """
    width = None if is_plain else terminal_width()
    room = _UNLIMITED if width is None else width - len(indent)
    heads = [column.replace("_", " ") for column in columns]
    cells = [[cell(row.get(column), blank="-") for column in columns] for row in rows]
    widths = _widths([heads, *cells], room - _GAP * (len(heads) - 1))
    if widths is None:
        drawn, width = _lists(heads, cells), room
    else:
        numbers = [bool(rows) and all(_is_number(row.get(column)) for row in rows) for column in columns]
        drawn, width = _drawn(heads, cells, numbers, widths), sum(widths) + _GAP * len(widths)
    has_colors = not is_plain and _is_terminal() and not os.environ.get("NO_COLOR")
    lines = _printed(drawn, width, has_colors=has_colors).splitlines()
    return "\n".join((indent + line).rstrip() for line in lines)


def cell(value: object, *, blank: str = "") -> str:
    """One value in one line."""
    if value is None or value == "":
        return blank
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(" ", str(value))


def cut(line: str, width: int) -> str:
    """A line that fits into this many columns."""
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 3)) + "..."[:width]


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of each column: the widest shrink first, none below its longest word; None where that is too wide."""
    from rich.cells import cell_len

    columns = list(zip(*lines, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max(cell_len(word) for text in column for word in (text.split() or [""])) for column in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((width, i) for i, width in enumerate(widths) if width > least[i])[1]
        widths[widest] -= 1
    return widths


def _drawn(
    heads: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool], widths: Sequence[int]
) -> "Table":
    # Imported here, as above: a verb that prints JSON does not wait for the library.
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=False)
    for head, is_number, width in zip(heads, numbers, widths, strict=True):
        drawn.add_column(Text(head, style="bold"), justify="right" if is_number else "left", width=width)
    drawn.add_row(*("-" * width for width in widths))
    for line in cells:
        drawn.add_row(*map(_styled, line))
    return drawn


def _lists(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> "Table":
    """Each row as a list of its columns: for a terminal that is too narrow for the table."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for number, line in enumerate(cells):
        if number:
            drawn.add_row("", "")
        for head, each in zip(heads, line, strict=True):
            drawn.add_row(Text(head, style="bold"), _styled(each))
    return drawn


def _printed(drawn: "Table", width: int, *, has_colors: bool) -> str:
    from rich.console import Console

    console = Console(file=StringIO(), width=width, force_terminal=has_colors, highlight=False)
    with console.capture() as printed:
        console.print(drawn)
    return printed.get()


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _styled(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style=_COLORS.get(text, ""))


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
