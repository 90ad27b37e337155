"""The table of reports: what makes each, how long that takes, and how it is judged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.errors import ReportsError

BY_RECORDS = "what the sinks hold is compared with what the standby holds, by ids or by sums of their hashes"
BY_FIGURES = "each median is held against the figure that was to be reached"
_AT_HOME = "what the sinks hold is compared with what the primary holds after the way back, by ids or by sums of hashes"
_FAULTS = {"TIDEOVER_FAULTS_REPORT": "1"}
MOST_MINUTES = 120
"""What `make reports` may take; the rest is made by name, when its subject changes or for a release."""
EVERY = "all"


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
    runs: int | None = None
    """How many a report has; None where RUNS changes nothing."""
    unit: str = "runs"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables for the command; ``{runs}`` is their number."""
    by_name: bool = False
    """Whether `make reports` leaves it out unless ONLY names it."""

    @property
    def result(self) -> str:
        """The file that the command writes, below the folder of the commit."""
        return f"{self.name}/report.json" if self.command[0] in {"bench", "chaos"} else f"{self.name}.json"

    def planned(self, runs: int | None) -> int | None:
        """How many runs to make where ``runs`` were requested."""
        return self.runs if self.runs is None or runs is None else runs


def _long(file: str) -> tuple[str, ...]:
    """Worlds are kept beside the page: that of a run that broke can be looked into until the next run of it."""
    worlds = ("--basetemp", f"{{folder}}/worlds/{file}")
    return ("pytest", "-p", "no:cacheprovider", *worlds, "-m", "long", "--timeout", "14400", f"tests/long/{file}.py")


def _runs(name: str, minutes: int, runs: int, title: str, judged: str = BY_RECORDS, **settings: str) -> Entry:
    return Entry(
        name=name, title=title, command=_long(f"test_many_{name}"), minutes=minutes, judged=judged, runs=runs,
        settings={name.upper(): "{runs}", **settings},
    )  # fmt: skip


def _chaos(name: str, minutes: int, title: str, *words: str) -> Entry:
    return Entry(
        name=name, title=title, command=("chaos", *words, "--dir", f"{{folder}}/{name}"), minutes=minutes,
        judged=BY_RECORDS, unit="scenarios", by_name=True,
    )  # fmt: skip


def _bench(name: str, minutes: int, title: str, *measurements: str, by_name: bool = True) -> Entry:
    return Entry(
        name=name, title=f"Measurements of {title}", minutes=minutes, judged=BY_FIGURES, unit="measurements",
        command=("bench", "--dir", f"{{folder}}/{name}", "--only", *measurements), by_name=by_name,
    )  # fmt: skip


ENTRIES = (
    _runs("carries", 12, 10, "Carries at random moments, by kill and by freeze"),
    _runs("automatic", 14, 5, "Failovers that the controller decides", **_FAULTS),
    _runs("returns", 33, 10, "There and back: failover, then the way back", _AT_HOME),
    _runs("switches", 20, 10, "Switches at random moments, with and without their driver, there and back"),
    _runs(
        "transactions", 5, 8, "Kill and freeze among aborted transactions",
        "every value is counted in the log of the standby and in the sinks",
    ),
    Entry(
        name="faults", title="The table of faults, on real parts", command=("tests.injected",), minutes=40,
        judged="each row is a test that passed or failed", unit="faults", settings=_FAULTS, by_name=True,
    ),
    Entry(
        name="soak", title="Pauses, cuts and load that move nothing", command=_long("test_soak"), minutes=30,
        judged=f"no query may move; then, after a kill, {BY_RECORDS}", unit="strikes", by_name=True,
    ),
    Entry(
        name="alignment", title="Resume offsets found by content behind a real replicator", unit="positions",
        command=_long("test_alignment"), minutes=4,
        judged="another client reads both logs whole and compares numbers in the headers",
    ),
    _chaos("chaos", 97, "Faults in containers, two of them between secured clusters", "run", "--missing"),
    _chaos(
        "chaos-planned", 16, "Drill, switchover and failback in containers, beside a plain kill",
        "run", "drill-under-load", "switchover-under-load", "primary-dies-in-switchover", "failback-after-kill",
        "kill-cluster",
    ),
    _chaos("chaos-soak", 45, "Half an hour of random faults in containers", "soak", "--minutes", "30", "--seed", "2"),
    _bench(
        "bench", 26, "look-up, tracking and switch, beside the alternatives", "lookup", "tracking", "switch",
        by_name=False,
    ),
    _bench("bench-places", 4, "many partitions", "exact", "many", "tracking-cost"),
    _bench("bench-takeover", 4, "a warm standby runner", "takeover", by_name=False),
    _bench(
        "bench-switchover", 22, "the pause in a switchover, and of a drill's cost",
        "switchover", "switchover-three", "switchover-carry", "switchover-four", "drill",
    ),
    _bench("bench-state", 30, "the pause with gigabytes of state", "state"),
    _bench("bench-attachment", 40, "an attached application: its moves, its batches and its attendant", "attachment"),
    _bench("bench-light", 15, "what settings of Spark cost a restart and a batch", "light"),
    _bench("bench-watch", 10, "the controller's watch", "watch"),
    _bench("bench-desk", 7, "the desk: 200 open pages through a failover, and 100 queries", "desk", "desk-size"),
    _bench(
        "bench-size", 10, "25, 50, 100 and 1,000 queries that leave a dead cluster at once", "size", "thousand", "crowd"
    ),
    _bench("bench-demo", 12, "the demo from its start to the kill", "demo"),
    _bench("timeline", 6, "the timeline: its size and its cost", "timeline"),
)  # fmt: skip
"""In the order in which they run: the table of faults after the runs that two of its rows are."""


def entry(name: str) -> Entry:
    """The entry of a name. Raises ReportsError."""
    found = next((each for each in ENTRIES if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in ENTRIES)
        raise ReportsError(f"There is no report {name!r}: ONLY takes {EVERY}, or some of {known}.")
    return found


def chosen(only: str | None) -> Sequence[Entry]:
    """The entries that ``ONLY=a,b`` names, in the order of the table; without it those of two hours.

    Raises ReportsError.
    """
    if only is None or not only.strip():
        return [each for each in ENTRIES if not each.by_name]
    if only.strip() == EVERY:
        return ENTRIES
    names = [each.strip() for each in only.split(",")]
    wanted = {entry(name).name for name in names}
    return [each for each in ENTRIES if each.name in wanted]


def counted(runs: str | None) -> int | None:
    """The number that ``RUNS=n`` gives; None without it. Raises ReportsError."""
    if runs is None or not runs.strip():
        return None
    if not (runs.strip().isascii() and runs.strip().isdigit()) or int(runs) < 1:
        raise ReportsError(f"RUNS={runs} is no number of runs: give 1 or more.")
    return int(runs)
