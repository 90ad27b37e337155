"""What the bench found, as values, and as the result that is rendered.

A number that could not be had is absent and its reason is there; nothing is filled in from elsewhere. Samples are all
kept in the result, so that a reader can do the arithmetic again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.samples import Spread, is_met, ratio
from reports.entries import BY_FIGURES
from reports.origin import Origin
from reports.result import Result, Section

STEPS = "seconds by step, medians"
"""Of a row's ``detail``: by step of an operation its seconds, in their order."""
_LEGEND = "Medians, in brackets minimum, maximum and number of samples. *times* is the other median divided by ours."


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


def result_of(report: Report, name: str, picture: str = "") -> Result:
    """The report of this name; ``picture`` is the file with its steps, beside it."""
    measured = [row for row in report.rows if row.ours is not None]
    kinds = dict.fromkeys(row.measurement for row in report.rows)
    sections = [Section(texts=(_facts("Machine", report.machine), _facts("Versions", report.versions), _LEGEND))]
    sections += [_section(kind, [row for row in report.rows if row.measurement == kind]) for kind in kinds]
    if report.failures:
        why = tuple(f"{name}: {reason}" for name, reason in report.failures.items())
        sections.append(Section(title="Not measured", bullets=why))
    if picture:
        sections.append(Section(title="The seconds of each step, medians", picture=picture))
    return Result(
        report=name, title="Measurements", command=report.command, commits=(report.origin.commit,),
        made=report.origin.made, machine=report.origin.machine, judged=BY_FIGURES, count=len(measured),
        unit="measurements", wrong=sum(row.met is False for row in measured),
        missing=(*report.failures, *(row.what for row in report.rows if row.ours is None)),
        sections=tuple(sections), data=_data(report),
    )  # fmt: skip


def figure(spread: Spread | None, unit: str) -> str:
    """A spread for people: ``43 (41-55, 9) ms``."""
    if spread is None:
        return "-"
    return f"{_number(spread.median)} ({_number(spread.least)} to {_number(spread.most)}, {spread.count}) {unit}"


def _section(kind: str, rows: Sequence[Row]) -> Section:
    return Section(
        title=kind, columns=("What", "Reach", "Ours", "", "Beside it", "Its figure", "times"),
        rows=tuple(line for row in rows for line in _lines(row)),
        bullets=tuple(dict.fromkeys(row.note for row in rows if row.note)),
    )  # fmt: skip


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    reach = "-" if row.limit is None else f"<= {_number(row.limit)} {row.unit}"
    verdict = {True: "met", False: "**missed**", None: "-"}[row.met]
    head: tuple[str, ...] = (row.what, reach, figure(row.ours, row.unit), verdict)
    for other in row.others or (Other(name="-", why_not="-"),):
        times = row.ratio_to(other)
        theirs = figure(other.spread, other.unit or row.unit) if other.spread else other.why_not
        yield (*head, other.name, theirs, "-" if times is None else f"{times:.1f}")
        head = ("", "", "", "")


def _facts(title: str, facts: Mapping[str, object]) -> str:
    return f"{title}: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "."


def _data(report: Report) -> dict[str, object]:
    """Every sample; what was not measured is null."""
    return {
        "started_at": report.started_at,
        "seconds": round(report.seconds, 1),
        "rows": [_row_data(row) for row in report.rows],
    }


def _row_data(row: Row) -> dict[str, object]:
    return {
        "measurement": row.measurement,
        "what": row.what,
        "unit": row.unit,
        "limit": row.limit,
        "met": row.met,
        "samples": _samples(row.ours),
        "others": [
            {"name": other.name, "unit": other.unit or row.unit, "samples": _samples(other.spread)}
            for other in row.others
        ],
        "detail": dict(row.detail),
    }


def _samples(spread: Spread | None) -> list[float] | None:
    return None if spread is None else list(spread.samples)


def _number(value: float) -> str:
    """Three figures at most behind a small number, none behind a large one."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
