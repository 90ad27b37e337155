"""``docs/reports/README.md`` and the table in CONTRIBUTING.md: what each report is of, and how old it is.

The age of a report is the number of commits since its own that change code of the product. It is counted when the index
is written and kept in the index, with the commit it was counted at: the text that follows from stamps and ages is pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from reports.entries import ENTRIES, Entry
from reports.errors import NoCommit, NotStamped, ReportsError
from reports.history import changing
from reports.origin import ROOT, git
from reports.stamp import Stamp, read

PRODUCT = ("orchestrator", "streaming", "state")
BEGIN, END = "<!-- the reports begin: make reports-index -->\n", "<!-- the reports end -->\n"
_AGES = re.compile(r"\n<!-- ages (\{.*\}) -->\n\Z")
_HEAD = """
# Reports

A command writes every report; its last line is a checksum, and it names the commit that it is of. `make reports` makes
them, `make reports-index` counts their ages again and runs nothing. The age is the number of commits since then that
change code of the product (`orchestrator/`, `streaming/`, `state/`; comments and docstrings do not count), counted at
`{at}`: the figures of a report are true of its commit. Exposed records were acknowledged and never came to the standby.
What people wrote about figures is in [the notes](notes.md).

| Report | Product commits since | Commit | Made | Exposed | Result |
|---|---|---|---|---|---|
""".lstrip()


@dataclass(frozen=True, kw_only=True)
class Age:
    """How far behind a report is; None where git does not know its commit."""

    fewest: int | None
    most: int | None
    """Another number where the page is of several commits."""
    judge: str = ""
    """The first commit since then that changed what judged it; empty where none did."""
    judge_changes: int = 0

    @property
    def words(self) -> str:
        if self.most is None:
            return "unknown"
        return f"{self.most}" if self.fewest == self.most else f"{self.fewest} to {self.most}"


@dataclass(frozen=True, kw_only=True)
class Ages:
    """All of them, and the newest product commit when they were counted."""

    at: str
    by_report: Mapping[str, Age]


def write(root: Path = ROOT) -> None:
    """Count the ages, and write the index and the table. Raises ReportsError."""
    stamps = stamps_of(root)
    ages = counted(root, stamps)
    page = index_page(root)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(printed(stamps, ages), encoding="utf-8")
    contributing = root / "CONTRIBUTING.md"
    text = contributing.read_text(encoding="utf-8")
    contributing.write_text(between(text, table(ENTRIES) + "\n"), encoding="utf-8")


def index_page(root: Path) -> Path:
    return root / "docs" / "reports" / "README.md"


def stamps_of(root: Path) -> dict[str, Stamp]:
    """The stamps of the pages that are there. Raises NotStamped with the page's name."""
    found = {}
    for entry in ENTRIES:
        page = root / "docs" / "reports" / f"{entry.name}.md"
        if page.exists():
            try:
                found[entry.name] = read(page.read_text(encoding="utf-8"))[1]
            except NotStamped as error:
                raise NotStamped(f"docs/reports/{entry.name}.md: {error}") from error
    return found


def counted(root: Path, stamps: Mapping[str, Stamp]) -> Ages:
    """Ages at the commit that is checked out. Raises NoCommit outside of git."""
    at = git(root, "log", "-1", "--format=%h", "--abbrev=12", "HEAD", "--", *PRODUCT)
    judges = {entry.name: entry.judges for entry in ENTRIES}
    return Ages(at=at, by_report={name: age(root, each.commits, judges[name]) for name, each in stamps.items()})


def age(root: Path, commits: Sequence[str], judges: Sequence[str] = (), at: str = "HEAD") -> Age:
    """The age of a page of these commits, which must be in the history that is checked out, when it was at ``at``."""
    known = [re.sub(r"(-dirty|\+changes)\Z", "", each) for each in commits]
    try:
        for each in known:
            git(root, "merge-base", "--is-ancestor", each, "HEAD")
        counts = [len(changing(root, f"{each}..{at}", PRODUCT)) for each in known]
        oldest = known[counts.index(max(counts))]
        changed = changing(root, f"{oldest}..{at}", judges) if judges else []
    except NoCommit:
        return Age(fewest=None, most=None)
    return Age(fewest=min(counts), most=max(counts), judge="".join(changed[:1]), judge_changes=len(changed))


def printed(stamps: Mapping[str, Stamp], ages: Ages) -> str:
    """The index as Markdown."""
    rows = [_row(entry, stamps.get(entry.name), ages.by_report.get(entry.name)) for entry in ENTRIES]
    chapters = [
        line for entry in ENTRIES if entry.name in stamps
        for line in _chapter(entry, stamps[entry.name], ages.by_report[entry.name])
    ]  # fmt: skip
    kept = json.dumps({"at": ages.at, "ages": {name: asdict(each) for name, each in ages.by_report.items()}})
    return "\n".join([_HEAD.format(at=ages.at) + "\n".join(rows), "", *chapters, f"<!-- ages {kept} -->", ""])


def ages_in(text: str) -> Ages:
    """The ages that an index was written with. Raises ReportsError."""
    found = _AGES.search(text)
    if found is None:
        raise ReportsError("docs/reports/README.md keeps no ages: run make reports-index.")
    told = json.loads(found[1])
    return Ages(at=told["at"], by_report={name: Age(**each) for name, each in told["ages"].items()})


def between(text: str, generated: str) -> str:
    """A page with its generated part as it is now. Raises ReportsError where there is no place for it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ReportsError("CONTRIBUTING.md needs one place for the list of reports, between its two marks.")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + generated + END + rest.partition(END)[2]


def result(entry: Entry, told: Stamp) -> str:
    """How many, of how many, and how many went wrong."""
    unit = told.unit.removesuffix("s") if told.stories == 1 else told.unit
    fewer = f" of the {entry.stories} of a full report" if entry.stories and told.stories < entry.stories else ""
    is_figure = told.unit == "measurements"
    wrong = "missed the figure to reach" if is_figure else "not as expected"
    fault = f"**{told.broken} {wrong}**" if told.broken else "no figure missed" if is_figure else "all as expected"
    return ", ".join(
        [f"{told.stories:,} {unit}{fewer}", fault, *([f"**{len(told.missing)} not run**"] * bool(told.missing))]
    )


def table(entries: Sequence[Entry]) -> str:
    """What there is to make, for people."""
    lines = [
        "Minutes are rough, on two cores.",
        "",
        "| Report | Minutes | What it shows | Judged |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{each.name}` | {each.minutes} | {each.title} | {each.judged} |" for each in entries]
    hours = sum(each.minutes for each in entries) / 60
    return "\n".join([*lines, "", f"All together: about {hours:.0f} hours on two cores."])


def _row(entry: Entry, told: Stamp | None, old: Age | None) -> str:
    if told is None or old is None:
        return f"| {entry.title} (`{entry.name}`) | - | - | - | - | not made yet |"
    commits = ", ".join(f"`{each}`" for each in told.commits)
    cells = [f"[{entry.title}]({entry.name}.md)", old.words, commits, told.made, told.exposed, result(entry, told)]
    return f"| {' | '.join(cells)} |"


def _chapter(entry: Entry, told: Stamp, old: Age) -> list[str]:
    times = f", changed in {old.judge_changes} commits since" if old.judge_changes > 1 else ""
    judge = f"; by the judge before `{old.judge}`{times}" if old.judge else ""
    return [
        f"## [{entry.title}]({entry.name}.md)",
        "",
        f"- Command: `{told.command}`",
        f"- Machine: {told.machine}",
        f"- Judged: {told.judged}{judge}",
        *([f"- Made on changed files: {', '.join(f'`{each}`' for each in told.dirty)}"] if told.dirty else []),
        *([f"- Not run: {', '.join(told.missing)}"] if told.missing else []),
        *([f"- Runs on the same commit that failed before it: {told.failed_before}"] if told.failed_before else []),
        *([f"- {told.remark}"] if told.remark else []),
        "",
    ]
