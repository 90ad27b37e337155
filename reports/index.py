"""``docs/reports/README.md``: each report, what it found, and of which commit. Pure but for reading and writing."""

from collections.abc import Mapping
from pathlib import Path

from reports.entries import ENTRIES, MOST_MINUTES, Entry
from reports.origin import ROOT
from reports.result import Result, read

_HEAD = """
# Reports

A command makes each page, on the commit that the page names. What a page says is true of that commit. Beside it, the
file of the same name that ends in `.json` has the same for programs. Exposed records were acknowledged and never came
to the standby. What people wrote about figures is in [the notes](notes.md).

`make reports` makes those without a star, about {most} minutes on two cores. `make reports ONLY=NAME` makes any of
them, when its subject changes; `ONLY=all` makes every one, in about {hours:.0f} hours.

| Report | Result | Exposed | Commit | Made | Name | Minutes |
|---|---|---|---|---|---|---|
""".lstrip()


def write(root: Path = ROOT) -> None:
    """Write the index of what is there. Raises NoResult."""
    path = folder(root) / "README.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(printed(results(root)), encoding="utf-8")


def folder(root: Path) -> Path:
    """Where reports are published."""
    return root / "docs" / "reports"


def results(root: Path) -> dict[str, Result]:
    """What is published, by the name of its report. Raises NoResult."""
    paths = {each.name: folder(root) / f"{each.name}.json" for each in ENTRIES}
    return {name: read(path) for name, path in paths.items() if path.exists()}


def printed(found: Mapping[str, Result]) -> str:
    """The index as Markdown."""
    head = _HEAD.format(most=MOST_MINUTES, hours=sum(each.minutes for each in ENTRIES) / 60)
    return head + "".join(_row(each, found.get(each.name)) for each in ENTRIES)


def _row(entry: Entry, found: Result | None) -> str:
    made_by = [f"`{entry.name}`{'*' if entry.by_name else ''}", str(entry.minutes)]
    if found is None:
        cells = [entry.title, "not made yet", "-", "-", "-", *made_by]
    else:
        commits = ", ".join(f"`{each}`" for each in found.commits)
        cells = [f"[{entry.title}]({entry.name}.md)", found.outcome, found.exposed, commits, found.made, *made_by]
    return f"| {' | '.join(cells)} |\n"
