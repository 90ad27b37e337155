"""Ten failovers that a controller decides, of each fault: the report ``automatic``.

``AUTOMATIC=n`` changes the count and ``SEED=n`` the first seed: run i uses seed + i. Every run is noted when it
ends, and the report holds all runs of one commit.
"""

import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo import judge, judged
from lab.scenario import Fault, Script, play_script
from reports.origin import origin
from reports.result import Section
from tests.long.notes import FAULTS, Columns, Note, Notes, problems_in, table
from tests.ports import free_base_port

pytestmark = pytest.mark.long

DOWN_SECONDS: dict[Fault, float] = {"kill": 2.0, "freeze": 3.0}
"""What the 95th percentile of the seconds to the verdict shall keep below."""
COMMIT_SECONDS = (3.0, 5.0)
"""The same of the first commit, median and 95th percentile: set for a kill, and a freeze is held to it, too."""
ABOUT = """
Each run is a new world (two Kafka clusters, MirrorMaker 2). It has four queries, 2,000 records/s, one controller with
`policy.automatic: true`, a fault at a random moment, and no operator. Three queries keep their state; all move at once.
Seconds from the fault: to the verdict DOWN, and to the first batch on the standby of the first and of the last of them.
Exposed records were acknowledged and never came to the standby. Judged shows how the delivered records were
distinguished: by ids, or by so many sums of their hashes, one for each window and partition.
"""
COLUMNS: Columns = {
    "DOWN": lambda note: f"{note['down']:.2f} s",
    "first commit": lambda note: f"{note['commits'][0]:.2f} s",
    "last commit": lambda note: f"{note['commits'][-1]:.2f} s",
    "exposed": lambda note: f"{note['exposed']:,}",
    "judged": lambda note: note["judged"] or "not judged",
}
WHY_LATE = (
    "Of the median {commit:.2f} s, {down:.2f} s pass until the verdict. In the rest all queries switch at once, on the"
    " cores that the clusters, the replicator and the producers are busy on as well."
)


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_automatic_failovers_lose_nothing_and_repeat_nothing(fault: Fault, tmp_path: Path) -> None:
    count = int(os.environ.get("AUTOMATIC", "10"))
    notes = Notes("automatic", origin())
    for number, seed in notes.left(count, fault=fault):
        notes.add(_play(seed, fault, tmp_path / str(number)))
        fewest = min(sum(note["fault"] == each for note in notes.all()) for each in FAULTS)
        notes.conclude(count, sections(notes.all()), count=fewest, unit="runs of each fault")
    assert problems_in([note for note in notes.all() if note["fault"] == fault]) == []


def _play(seed: int, fault: Fault, directory: Path) -> Note:
    drawn = Script.at_random(seed, fault=fault, base_port=free_base_port(), wait_warm=True)
    played = play_script(replace(drawn, automatic=True, resume="auto"), directory, print)
    kept = [operation for operation in played.operations if operation["plan"]["resume"] != "fresh"]
    commits = sorted(
        seconds
        for operation in kept
        if (seconds := played.fault_to_first_commit_seconds[operation["query"]]) is not None
    )
    assert played.fault_to_verdict_seconds is not None, (
        "every query has left, and no controller called the cluster DOWN"
    )
    return {
        "fault": fault,
        "seed": seed,
        "down": played.fault_to_verdict_seconds,
        "commits": commits,
        "exposed": max((row["exposed"] for row in played.verdict.values()), default=0),
        "judged": judged(played),
        "problems": list(judge(played)),
    }


def sections(notes: Sequence[Note]) -> list[Section]:
    """The report of these runs, a chapter for each fault."""
    found = [Section(texts=(ABOUT.strip(),))]
    for fault in FAULTS:
        mine = [note for note in notes if note["fault"] == fault]
        about = f"{len(mine)} {'run' if len(mine) == 1 else 'runs'}."
        found.append(replace(table(mine, COLUMNS, about=about, after=_sum_up(mine)), title=f"By {fault}"))
    return found


def _sum_up(notes: Sequence[Note]) -> list[str]:
    if not notes:
        return []
    down, commit = [note["down"] for note in notes], [note["commits"][0] for note in notes]
    median_reach, reach = COMMIT_SECONDS
    limit = DOWN_SECONDS[notes[0]["fault"]]
    kept = statistics.median(commit) <= median_reach and at95(commit) <= reach
    said = (
        f"Fault to verdict DOWN: {_figures(down)}; to reach: 95th percentile <= {limit:g} s:"
        f" {_word(at95(down) <= limit)}. Fault to first commit: {_figures(commit)}; to reach:"
        f" median <= {median_reach:g} s, 95th percentile <= {reach:g} s: {_word(kept)}."
    )
    late = WHY_LATE.format(down=statistics.median(down), commit=statistics.median(commit))
    return [said if kept else f"{said} {late}"]


def _figures(found: Sequence[float]) -> str:
    return f"median {statistics.median(found):.2f} s, 95th percentile {at95(found):.2f} s"


def _word(kept: bool) -> str:
    return "met" if kept else "**missed**"


def at95(found: Sequence[float]) -> float:
    return sorted(found)[min(len(found) - 1, round(0.95 * len(found)))]
