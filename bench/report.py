"""What the bench found, as values, as JSON for programs and as a page for people.

A number that could not be had is absent and its reason is there; nothing is filled in from elsewhere. Samples are all
kept in the JSON, so that a reader can do the arithmetic again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.samples import Spread, is_met, ratio
from reports.entries import BY_FIGURES
from reports.origin import Origin
from reports.stamp import Stamp, stamped

STEPS = "seconds by step, medians"
"""Of a row's ``detail``: by step of an operation its seconds, in their order."""


@dataclass(frozen=True, kw_only=True)
class Other:
    """What ours is compared with, or why it could not be measured."""

    name: str
    spread: Spread | None = None
    unit: str | None = None
    """None: the unit of the row; another unit is shown, and never compared."""
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantity."""

    measurement: str
    what: str
    unit: str
    ours: Spread | None
    limit: float | None = None
    """The number to reach, in ``unit``; the median is held against it."""
    others: tuple[Other, ...] = ()
    note: str = ""
    """What is and is not in the figure, in one or two sentences."""
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return is_met(self.ours, self.limit)

    def ratio_to(self, other: Other) -> float | None:
        """Their median as a multiple of ours; None when the two are not of one kind."""
        return ratio(self.ours, other.spread) if other.unit in {None, self.unit} else None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows of one run, and where they come from."""

    command: str
    origin: Origin
    started_at: str
    seconds: float
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    rows: Sequence[Row]
    failures: Mapping[str, str]
    """Per measurement that came to no end, the sentence that says why."""


def write(report: Report, directory: Path, picture: str = "") -> tuple[Path, Path]:
    """Write ``report.json`` and ``report.md``, and the picture of its steps beside them; returns the first two."""
    directory.mkdir(parents=True, exist_ok=True)
    as_json, as_page, name = directory / "report.json", directory / "report.md", f"{directory.name}.svg"
    as_json.write_text(json.dumps(to_json(report), indent=2) + "\n", encoding="utf-8")
    page = to_page(report)
    if picture:
        (directory / name).write_text(picture, encoding="utf-8")
        page += f"\n## Where the seconds go\n\n![The seconds of each step, medians]({name})\n"
    as_page.write_text(stamped(page, stamp_of(report, directory.name)), encoding="utf-8")
    return as_json, as_page


def stamp_of(report: Report, name: str) -> Stamp:
    """What the index of reports says of it; the report is named after its folder."""
    measured = [row for row in report.rows if row.ours is not None]
    return Stamp(
        report=name, command=report.command, commits=(report.origin.commit,), made=report.origin.made,
        machine=report.origin.machine, judged=BY_FIGURES,
        exposed="-", stories=len(measured), unit="measurements",
        broken=sum(row.met is False for row in measured),
        missing=(*report.failures, *(row.what for row in report.rows if row.ours is None)),
    )  # fmt: skip


def to_json(report: Report) -> dict[str, object]:
    """The report as plain JSON types; what was not measured is null."""
    return {
        "command": report.command,
        "commit": report.origin.commit,
        "started_at": report.started_at,
        "seconds": round(report.seconds, 1),
        "machine": dict(report.machine),
        "versions": dict(report.versions),
        "rows": [_row_json(row) for row in report.rows],
        "failures": dict(report.failures),
    }


def to_page(report: Report) -> str:
    """The report as a page in Markdown."""
    lines = ["# Measurements", "", f"Command: `{report.command}`, {report.origin.sentence}, {report.seconds:.0f} s."]
    lines += ["", *_facts("Machine", report.machine), *_facts("Versions", report.versions), ""]
    lines.append("Medians, in brackets minimum, maximum and number of samples. *times* is the other median over ours.")
    for measurement in dict.fromkeys(row.measurement for row in report.rows):
        lines += ["", f"## {measurement}", ""]
        lines += ["| What | Reach | Ours | | Beside it | Its figure | times |", "|---|---|---|---|---|---|---|"]
        rows = [row for row in report.rows if row.measurement == measurement]
        for row in rows:
            lines += _table_lines(row)
        notes = list(dict.fromkeys(row.note for row in rows if row.note))
        lines += ["", *(f"- {note}" for note in notes)] if notes else []
    if report.failures:
        lines += ["", "## Not measured", "", *(f"- {name}: {why}" for name, why in report.failures.items())]
    return "\n".join(lines) + "\n"


def figure(spread: Spread | None, unit: str) -> str:
    """A spread for people: ``43 (41-55, 9) ms``."""
    if spread is None:
        return "-"
    return f"{_number(spread.median)} ({_number(spread.least)} to {_number(spread.most)}, {spread.count}) {unit}"


def _table_lines(row: Row) -> list[str]:
    reach = "-" if row.limit is None else f"<= {_number(row.limit)} {row.unit}"
    verdict = {True: "met", False: "**missed**", None: "-"}[row.met]
    head = [row.what, reach, figure(row.ours, row.unit), verdict]
    lines = []
    for other in row.others or (Other(name="-", why_not="-"),):
        times = row.ratio_to(other)
        theirs = figure(other.spread, other.unit or row.unit) if other.spread else other.why_not
        lines.append("| " + " | ".join([*head, other.name, theirs, "-" if times is None else f"{times:.1f}"]) + " |")
        head = ["", "", "", ""]
    return lines


def _facts(title: str, facts: Mapping[str, object]) -> list[str]:
    return [f"{title}: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".", ""]


def _row_json(row: Row) -> dict[str, object]:
    return {
        "measurement": row.measurement,
        "what": row.what,
        "unit": row.unit,
        "limit": row.limit,
        "met": row.met,
        "ours": _spread_json(row.ours),
        "others": [
            {
                "name": other.name,
                "unit": other.unit or row.unit,
                "spread": _spread_json(other.spread),
                "ratio": row.ratio_to(other),
                "why_not": other.why_not or None,
            }
            for other in row.others
        ],
        "note": row.note,
        "detail": dict(row.detail),
    }


def _spread_json(spread: Spread | None) -> dict[str, object] | None:
    if spread is None:
        return None
    return {
        "median": spread.median,
        "min": spread.least,
        "max": spread.most,
        "n": spread.count,
        "samples": list(spread.samples),
    }


def _number(value: float) -> str:
    """Three figures at most behind a small number, none behind a large one."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
