"""Data for people and for programs: tables, TSV, JSON and YAML on stdout; talk on stderr.

A reader that went away (``| head``, a closed terminal) does not stop a verb: what it does to queries matters more than
who looks on, and its exit code stays its own.

Tables are twenty lines of our own. The package ``rich`` brings three others and 30 ms more at every verb, and takes
nearly as many lines of settings to leave widths, markup and trailing blanks alone.
"""

import contextlib
import errno
import json
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import click
import yaml

Row = Mapping[str, object]

_CUT = "..."
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NOBODY_READS = frozenset({errno.EPIPE, errno.EIO})


def show(rows: Sequence[Row], output: str, *, columns: Sequence[str]) -> None:
    """Print rows in the wanted form; ``columns`` orders (and limits) tables and TSV."""
    if output in {"json", "yaml"}:
        document(list(rows), output)
    elif output == "tsv":
        say("\t".join(columns))
        for row in rows:
            say("\t".join(cell(row.get(column)) for column in columns))
    else:
        say(table(rows, columns))


def document(value: object, output: str) -> None:
    """Print one value as JSON or YAML."""
    if output == "yaml":
        say(yaml.safe_dump(value, sort_keys=False, allow_unicode=_takes_all_letters(sys.stdout)).removesuffix("\n"))
    else:
        say(json.dumps(value, ensure_ascii=not _takes_all_letters(sys.stdout), indent=2))


def table(rows: Sequence[Row], columns: Sequence[str], *, indent: str = "") -> str:
    """A table whose columns are as wide as their content, numbers to the right."""
    heads = [column.replace("_", " ") for column in columns]
    cells = [[cell(row.get(column), blank="-") for column in columns] for row in rows]
    widths = [max([_width(head), *(_width(line[i]) for line in cells)]) for i, head in enumerate(heads)]
    right = [bool(rows) and all(_is_number(row.get(column)) for row in rows) for column in columns]
    lines = [_line(heads, widths, right), _line(["-" * width for width in widths], widths, right)]
    lines += [_line(line, widths, right) for line in cells]
    return "\n".join(indent + line for line in lines)


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


def say(text: str) -> None:
    """Print data. Raises ``OSError`` when it cannot be written, but not for a pipe whose reader has gone."""
    _print(text, sys.stdout)


def talk(text: str) -> None:
    """Say something to the person at the terminal; a terminal that is gone misses it."""
    with contextlib.suppress(OSError):
        _print(text, sys.stderr)


def _print(text: str, stream: TextIO | None) -> None:
    if stream is None:  # closed by the process that started us
        return
    try:
        click.echo(in_letters_of(stream, text), file=stream)
    except OSError as error:
        if error.errno not in NOBODY_READS:
            raise
        # What is still buffered would raise again when the interpreter ends, and change the exit code.
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def in_letters_of(stream: TextIO, text: str) -> str:
    """The text in letters that the stream's encoding has."""
    if _takes_all_letters(stream):
        return text
    return text.encode(stream.encoding, "backslashreplace").decode(stream.encoding)


def _takes_all_letters(stream: TextIO | None) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def wanted_output(arguments: Sequence[str]) -> str:
    """The output form that a command line requires, read without parsing it: it may be what is wrong."""
    wanted = "table"
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument == "--":
            break
        if argument in {"-o", "--output"}:
            wanted = following
        elif argument.startswith("--output="):
            wanted = argument.partition("=")[2]
        elif argument.startswith("-o"):
            wanted = argument[2:].removeprefix("=")
    return wanted


def error_json(kind: str, text: str, hint: str) -> dict[str, object]:
    """One error, as every verb prints it for programs."""
    return {"error": {"kind": kind, "text": text, "hint": hint or None}}


def print_error(kind: str, text: str, hint: str, arguments: Sequence[str], requests: Sequence[Row] = ()) -> None:
    """One error: an object on stdout for programs, with its requests if it has any; sentences on stderr for people."""
    output = wanted_output(arguments)
    if output in {"json", "yaml"}:
        try:
            asked = {"requests": list(requests)} if requests else {}
            document({**error_json(kind, text, hint), **asked}, output)
            return
        except OSError:  # a full disk behind stdout is what is being reported: then people are
            pass
    talk(f"tideover: {text}")
    if hint:
        talk(f"hint: {hint}")


def cut(line: str, width: int) -> str:
    """A line that fits into this many columns."""
    if _width(line) <= width:
        return line
    kept = ""
    for letter in line:
        if _width(kept + letter) > width - len(_CUT):
            break
        kept += letter
    return kept + _CUT[:width]


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        " " * (width - _width(text)) + text if to_right else text + " " * (width - _width(text))
        for text, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()
