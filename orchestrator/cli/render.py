"""Data for people and for programs: tables, TSV, JSON and YAML on stdout; talk on stderr.

A reader that went away (``| head``, a closed terminal) does not stop a verb: what it does to queries matters more than
who looks on, and its exit code stays its own.
"""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click
import yaml

from orchestrator.cli.tables import Row, cell, table

NO_READER = frozenset({errno.EPIPE, errno.EIO})


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
        if error.errno not in NO_READER:
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
            requested = {"requests": list(requests)} if requests else {}
            document({**error_json(kind, text, hint), **requested}, output)
            return
        except OSError:  # a full disk behind stdout is what is being reported: then people are
            pass
    talk(f"tideover: {text}")
    if hint:
        talk(f"hint: {hint}")
