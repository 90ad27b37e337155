"""Data for people and for programs: tables, TSV, JSON and YAML on stdout; talk on stderr."""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence

import click
import yaml

Row = Mapping[str, object]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def show(rows: Sequence[Row], output: str, *, columns: Sequence[str]) -> None:
    """Print rows in the wanted form; ``columns`` orders (and limits) tables and TSV."""
    if output in {"json", "yaml"}:
        document(list(rows), output)
    elif output == "tsv":
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(cell(row.get(column)) for column in columns))
    else:
        click.echo(table(rows, columns))


def document(value: object, output: str) -> None:
    """Print one value as JSON or YAML."""
    if output == "yaml":
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))


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


def talk(text: str) -> None:
    """Say something to the person at the terminal."""
    click.echo(text, err=True)


def wanted_output(arguments: Sequence[str]) -> str:
    """The output form that a command line asks for, read without parsing it: it may be what is wrong."""
    for index, argument in enumerate(arguments):
        if argument in {"-o", "--output"} and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith("--output="):
            return argument.partition("=")[2]
        if argument.startswith("-o") and not argument.startswith("--"):
            return argument[2:].removeprefix("=")
    return "table"


def print_error(kind: str, text: str, hint: str, arguments: Sequence[str]) -> None:
    """One error: an object on stdout for programs, sentences on stderr for people."""
    if wanted_output(arguments) == "json":
        click.echo(json.dumps({"error": {"kind": kind, "text": text, "hint": hint or None}}, ensure_ascii=False))
        return
    talk(f"tideover: {text}")
    if hint:
        talk(f"hint: {hint}")


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


PARTITION_COLUMNS = (
    "topic", "partition", "offset", "target_offset", "method", "replay_records", "replay_later_records",
    "exposure_records", "note",
)  # fmt: skip


def plan(value: Mapping[str, object]) -> str:
    """A plan for people: what moves, the gates, the partitions, the sums."""
    heading = (
        f"{value['kind']} of {value['query']} from {value['from']} to {value['to']}: {value['resume']}, "
        f"epoch {cell(value['epoch'], blank='-')}, uncommitted batch {value['uncommitted_batch']}, "
        f"fence {value['fence']}"
    )
    parts = [heading]
    gates, partitions, totals = value.get("gates"), value.get("partitions"), value.get("totals")
    if isinstance(gates, list):
        parts.append(table(gates, ("name", "ok", "measured", "limit", "text"), indent="  "))
    if isinstance(partitions, list) and partitions:
        parts.append(table(partitions, PARTITION_COLUMNS, indent="  "))
    if isinstance(totals, Mapping):
        sums = ", ".join(f"{name.replace('_', ' ')} {cell(total, blank='unknown')}" for name, total in totals.items())
        parts.append("  " + sums)
    if value.get("refused"):
        parts.append("  REFUSED")
    return "\n\n".join(parts)


def rows_of(value: Mapping[str, object]) -> list[Row]:
    """The partitions of a plan."""
    partitions = value.get("partitions")
    return [row for row in partitions if isinstance(row, Mapping)] if isinstance(partitions, list) else []
