"""What a command found on one commit, as JSON; and the page of it, which nothing else renders.

Facts and sections are rendered, for people. ``data`` holds what a program needs to do the arithmetic again.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reports.errors import NoResult


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page, in this order; what is empty is left out."""

    title: str = ""
    texts: tuple[str, ...] = ()
    """A paragraph each."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """The table; a cell for each column."""
    bullets: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Paragraphs behind the table."""
    picture: str = ""
    """A file beside the page."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one command found."""

    report: str
    """Its name; the page is ``docs/reports/NAME.md``."""
    title: str
    command: str
    commits: tuple[str, ...]
    """One in what `make reports` publishes; a run of chaos that was continued may name several."""
    made: str
    machine: str
    judged: str
    """What decided that it is well, as a part of a sentence."""
    count: int
    unit: str
    """What is counted: runs, scenarios, faults, positions, measurements."""
    wrong: int
    """How many of them did not do what they should."""
    exposed: str = "-"
    """Records that were acknowledged and never came to the standby; ``-`` where no cluster dies."""
    missing: tuple[str, ...] = ()
    """What belongs to it and was not run. Never published by `make reports`."""
    failed_before: int = 0
    """Runs on the same commit that failed before this one."""
    sections: tuple[Section, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """How many, and how many went wrong."""
        unit = self.unit[:-1] if self.count == 1 and self.unit.endswith("s") else self.unit
        is_figure = self.unit == "measurements"
        wrong = "missed the figure to reach" if is_figure else "not as expected"
        fault = f"**{self.wrong} {wrong}**" if self.wrong else "no figure missed" if is_figure else "all as expected"
        left_out = [f"**{len(self.missing)} not run**"] if self.missing else []
        return ", ".join([f"{self.count:,} {unit}", fault, *left_out])


def write(result: Result, path: Path) -> Path:
    """Write the result, and its page beside it; returns the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(result), ensure_ascii=False, indent=1, default=str)
    path.write_text(text + "\n", encoding="utf-8")
    beside = path.with_suffix(".md")
    beside.write_text(page(result), encoding="utf-8")
    return beside


def read(path: Path) -> Result:
    """The result in a file. Raises NoResult."""
    try:
        found = {
            key: value if key == "data" else _tuples(value) for key, value in json.loads(path.read_bytes()).items()
        }
        return Result(**{**found, "sections": tuple(Section(**each) for each in found["sections"])})
    except FileNotFoundError as error:
        raise NoResult("no result was written") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoResult(f"{path.name} is no result of a command, or one of another version: {error}") from error


def page(result: Result) -> str:
    """The page of a result, in Markdown."""
    return (
        "\n\n".join(["# " + result.title, *_head(result), *(part for each in result.sections for part in _parts(each))])
        + "\n"
    )


def _head(result: Result) -> Iterator[str]:
    commits = ", ".join(f"`{each}`" for each in result.commits)
    yield f"Command: `{result.command}`, commit {commits}, {result.made}, {result.machine}."
    yield f"{result.outcome}. What this page says is true of that commit. Judged: {result.judged}."
    if result.missing:
        yield f"Not run: {', '.join(result.missing)}."
    if result.failed_before:
        yield f"Runs on the same commit that failed before this one: {result.failed_before}."


def _parts(section: Section) -> Iterator[str]:
    if section.title:
        yield "## " + section.title
    yield from section.texts
    if section.columns:
        lines = (section.columns, ("---",) * len(section.columns), *section.rows)
        yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    if section.bullets:
        yield "\n".join(f"- {each}" for each in section.bullets)
    yield from section.after
    if section.picture:
        yield f"![{section.title}]({section.picture})"


def _tuples(value: Any) -> Any:
    """JSON has lists where values have tuples."""
    if isinstance(value, Mapping):
        return {key: _tuples(each) for key, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
