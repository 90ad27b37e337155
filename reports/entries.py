"""The table of reports: what makes each, how long that takes, and how it is judged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.errors import ReportsError

_LAB_JUDGE = ("lab/judge.py", "lab/verify.py", "lab/truth.py")
BY_RECORDS = "what the sinks hold is compared with what the standby holds, by ids or by sums of their hashes"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One report."""

    name: str
    """Its page is ``docs/reports/NAME.md``."""
    title: str
    command: tuple[str, ...]
    """Behind `python -m`; ``{folder}`` is the folder of the commit."""
    minutes: int
    """On two cores, roughly; from the seconds of earlier runs."""
    judged: str
    judges: tuple[str, ...]
    """The files that decide; the index says where they have changed since."""
    stories: int | None = None
    """How many a full report has; None where STORIES changes nothing."""
    unit: str = "stories"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables for the command; ``{stories}`` is their number."""
    written: str = ""
    """The page below the folder of the commit; empty: ``NAME.md``."""

    @property
    def page(self) -> str:
        return self.written or f"{self.name}.md"

    def told(self, most: int | None) -> int | None:
        """How many stories to tell where ``most`` were asked for."""
        return self.stories if self.stories is None or most is None else min(self.stories, most)


def _long(file: str) -> tuple[str, ...]:
    """Worlds lie beside the page: that of a story that broke is there to be looked into until the next run of it."""
    worlds = ("--basetemp", f"{{folder}}/worlds/{file}")
    return ("pytest", "-p", "no:cacheprovider", *worlds, "-m", "long", "--timeout", "14400", f"tests/long/{file}.py")


def _bench(name: str, *measurements: str) -> tuple[str, ...]:
    return ("bench", "--dir", f"{{folder}}/{name}", "--only", *measurements)


BY_FIGURES = "each median is held against the figure that was to be reached"
_FAULTS = {"TIDEOVER_FAULTS_REPORT": "1"}

ENTRIES = (
    Entry(
        name="carries", title="Carries at random moments, by kill and by freeze", command=_long("test_many_carries"),
        minutes=35, judged=BY_RECORDS, judges=_LAB_JUDGE, stories=30, settings={"CARRIES": "{stories}"},
    ),
    Entry(
        name="automatic", title="Failovers that the controller decides", command=_long("test_many_automatic"),
        minutes=27, judged=BY_RECORDS, judges=_LAB_JUDGE, stories=10, settings={"AUTOMATIC": "{stories}", **_FAULTS},
    ),
    Entry(
        name="returns", title="There and back: failover, then the way home", command=_long("test_many_returns"),
        minutes=100, judged=f"at home {BY_RECORDS.replace('the standby holds', 'the home cluster holds')}",
        judges=(*_LAB_JUDGE, "lab/homecoming.py"), stories=30, settings={"RETURNS": "{stories}"},
    ),
    Entry(
        name="switches", title="Switches at random moments, with and without their driver, there and back",
        command=_long("test_many_switches"), minutes=60, judged=BY_RECORDS,
        judges=(*_LAB_JUDGE, "lab/homecoming.py"), stories=30, settings={"SWITCHES": "{stories}"},
    ),
    Entry(
        name="transactions", title="Kill and freeze among aborted transactions",
        command=_long("test_many_transactions"), minutes=5,
        judged="every value is counted in the log of the standby and in the sinks",
        judges=("tests/transactions.py",), stories=8, settings={"TRANSACTIONS": "{stories}"},
    ),
    Entry(
        name="faults", title="The table of faults, on real parts", command=("tests.injected",), minutes=40,
        judged="each row is a test that passed or failed", judges=(*_LAB_JUDGE, "tests/long/unattended.py"),
        unit="faults", settings=_FAULTS,
    ),
    Entry(
        name="soak", title="Pauses, cuts and load that move nothing", command=_long("test_soak"), minutes=30,
        judged=f"no query may move; then, after a kill, {BY_RECORDS}", judges=_LAB_JUDGE, unit="strikes",
    ),
    Entry(
        name="alignment", title="Resume offsets found by content behind a real replicator",
        command=_long("test_alignment"), minutes=4,
        judged="another client reads both logs whole and compares numbers in the headers",
        judges=("tests/alignment/judge.py",), unit="positions",
    ),
    Entry(
        name="chaos", title="Faults in containers, two of them between secured clusters",
        command=("chaos", "run", "--missing", "--dir", "{folder}/chaos"), minutes=97, judged=BY_RECORDS,
        judges=(*_LAB_JUDGE, "chaos/outcome.py"), unit="scenarios", written="chaos/report.md",
    ),
    Entry(
        name="chaos-planned", title="Drill, switchover and failback in containers, beside a plain kill",
        command=(
            "chaos", "run", "drill-under-load", "switchover-under-load", "primary-dies-in-switchover",
            "failback-after-kill", "kill-cluster", "--dir", "{folder}/chaos-planned",
        ), minutes=16, judged=BY_RECORDS,
        judges=(*_LAB_JUDGE, "chaos/outcome.py"), unit="scenarios", written="chaos-planned/report.md",
    ),
    Entry(
        name="chaos-soak", title="Half an hour of random faults in containers",
        command=("chaos", "soak", "--minutes", "30", "--seed", "2", "--dir", "{folder}/chaos-soak"), minutes=45,
        judged=BY_RECORDS, judges=(*_LAB_JUDGE, "chaos/outcome.py"), unit="scenarios", written="chaos-soak/report.md",
    ),
    Entry(
        name="bench", title="Measurements of look-up, tracking and switch, beside the alternatives",
        command=_bench("bench", "lookup", "tracking", "switch"), minutes=26, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench/report.md",
    ),
    Entry(
        name="bench-places", title="Measurements of many partitions",
        command=_bench("bench-places", "exact", "many", "tracking-cost"), minutes=4, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-places/report.md",
    ),
    Entry(
        name="bench-takeover", title="Measurements of a warm standby runner",
        command=_bench("bench-takeover", "takeover"), minutes=4, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-takeover/report.md",
    ),
    Entry(
        name="bench-switchover", title="Measurements of the pause in a switchover, and of a drill's cost",
        command=_bench(
            "bench-switchover", "switchover", "switchover-three", "switchover-carry", "switchover-four", "drill"
        ), minutes=22, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-switchover/report.md",
    ),
    Entry(
        name="bench-state", title="Measurements of the pause with gigabytes of state",
        command=_bench("bench-state", "state"), minutes=30, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-state/report.md",
    ),
    Entry(
        name="bench-light", title="Measurements of what settings of Spark cost a restart and a batch",
        command=_bench("bench-light", "light"), minutes=15, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-light/report.md",
    ),
    Entry(
        name="bench-watch", title="Measurements of the controller's watch",
        command=_bench("bench-watch", "watch"), minutes=10, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-watch/report.md",
    ),
    Entry(
        name="bench-desk", title="Measurements of the desk: 200 open pages through a failover, and 100 queries",
        command=_bench("bench-desk", "desk", "desk-size"), minutes=7, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-desk/report.md",
    ),
    Entry(
        name="bench-size", title="Measurements of 25, 50, 100 and 1,000 queries that leave a dead cluster at once",
        command=_bench("bench-size", "size", "thousand", "crowd"), minutes=10, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-size/report.md",
    ),
    Entry(
        name="bench-demo", title="Measurements of the demo from its start to the kill",
        command=_bench("bench-demo", "demo"), minutes=12, judged=BY_FIGURES,
        judges=("bench/samples.py",), unit="measurements", written="bench-demo/report.md",
    ),
    Entry(
        name="timeline", title="Size and cost of the timeline", command=_bench("timeline", "timeline"), minutes=6,
        judged=BY_FIGURES, judges=("bench/samples.py",), unit="measurements", written="timeline/report.md",
    ),
)  # fmt: skip
"""In the order in which they run: the table of faults after the stories that two of its rows are."""


def entry(name: str) -> Entry:
    """The entry of a name. Raises ReportsError."""
    found = next((each for each in ENTRIES if each.name == name), None)
    if found is None:
        raise ReportsError(f"There is no report {name!r}: ONLY takes {', '.join(each.name for each in ENTRIES)}.")
    return found


def chosen(only: str | None) -> Sequence[Entry]:
    """The entries that ``ONLY=a,b`` names, in the order of the table; all without it. Raises ReportsError."""
    if only is None or not only.strip():
        return ENTRIES
    names = [each.strip() for each in only.split(",")]
    wanted = {entry(name).name for name in names}
    return [each for each in ENTRIES if each.name in wanted]


def counted(stories: str | None) -> int | None:
    """The number that ``STORIES=n`` gives; None without it. Raises ReportsError."""
    if stories is None or not stories.strip():
        return None
    if not (stories.strip().isascii() and stories.strip().isdigit()) or int(stories) < 1:
        raise ReportsError(f"STORIES={stories} is no number of stories: give 1 or more.")
    return int(stories)
