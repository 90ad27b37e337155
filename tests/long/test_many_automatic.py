"""Ten failovers that a controller decides, of each fault: the report ``automatic``.

``AUTOMATIC=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i. Every story is noted when it
ends, and the page holds all stories of one commit.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge, judged
from lab.ports import free_base_port
from lab.scenario import Fault, Script, tell
from reports.entries import entry
from reports.origin import origin
from tests.long.notes import FAULTS, Notes, broken_in, exposed_in, problems_in

pytestmark = pytest.mark.long

DOWN_SECONDS: dict[Fault, float] = {"kill": 2.0, "freeze": 3.0}
"""What the 95th percentile of the seconds to the verdict shall keep below."""
COMMIT_SECONDS = (3.0, 5.0)
"""The same of the first commit, median and 95th percentile: set for a kill, and a freeze is held to it, too."""
ABOUT = """
# Failovers that the controller decides

Command: `{command}`, {sentence}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, one controller with
`policy.automatic: true`, a fault at a random moment, and no operator. Seconds from the fault: to the verdict DOWN,
and to the first batch committed on the standby of the first and of the last of the three queries that keep their
state, all moved at once. Exposed records were acknowledged and never came to the standby. Judged says by what the
delivered records were told apart: by ids, or by so many sums of their hashes, one for each window and partition.
"""
WHY_LATE = (
    "Of the median {commit:.2f} s, {down:.2f} s pass until the verdict; in the rest all queries switch at once, on the"
    " cores that the clusters, the replicator and the producers are busy on as well."
)


@dataclass(frozen=True, kw_only=True)
class Told:
    """One story's figures."""

    fault: Fault
    seed: int
    down: float
    """Until the verdict DOWN."""
    commits: tuple[float, ...]
    exposed: int
    """Records that were acknowledged and never came to the standby."""
    judged: str
    """By what each query was judged."""
    problems: tuple[str, ...]


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_failovers_that_nobody_typed_lose_nothing_and_repeat_nothing(fault: Fault, tmp_path: Path) -> None:
    count = int(os.environ.get("AUTOMATIC", "10"))
    notes = Notes("automatic", origin())
    for number, seed in notes.left(count, fault=fault):
        notes.add(asdict(_tell(seed, fault, tmp_path / str(number))))
        _write(notes, count)
    assert problems_in([note for note in notes.all() if note["fault"] == fault]) == []


def _tell(seed: int, fault: Fault, directory: Path) -> Told:
    drawn = Script.at_random(seed, fault=fault, base_port=free_base_port(), wait_warm=True)
    story = tell(replace(drawn, automatic=True, resume="auto"), directory, print)
    kept = [operation for operation in story.operations if operation["plan"]["resume"] != "fresh"]
    commits = sorted(
        seconds
        for operation in kept
        if (seconds := story.fault_to_first_commit_seconds[operation["query"]]) is not None
    )
    assert story.fault_to_verdict_seconds is not None, "every query has left, and nobody called the cluster DOWN"
    return Told(
        fault=fault,
        seed=seed,
        down=story.fault_to_verdict_seconds,
        commits=tuple(commits),
        exposed=max((row["exposed"] for row in story.verdict.values()), default=0),
        judged=judged(story),
        problems=tuple(judge(story)),
    )


def _write(kept: Notes, count: int) -> None:
    notes = kept.all()
    fewest = min(sum(note["fault"] == fault for note in notes) for fault in FAULTS)
    command = kept.command(count)
    kept.write(
        page([_told(note) for note in notes], command, kept.on.sentence), command=command,
        judged=entry("automatic").judged, exposed=exposed_in(notes), stories=fewest,
        unit="stories of each fault", broken=broken_in(notes),
    )  # fmt: skip


def _told(note: Mapping[str, Any]) -> Told:
    return Told(**{**note, "commits": tuple(note["commits"]), "problems": tuple(note["problems"])})


def page(stories: Sequence[Told], command: str, sentence: str) -> str:
    """The page of these stories, a chapter for each fault."""
    lines = ABOUT.format(command=command, sentence=sentence).strip().splitlines()
    full = entry("automatic").stories or 0
    for fault in FAULTS:
        told = [each for each in stories if each.fault == fault]
        fewer = f" of the {full} of a full report" if len(told) < full else ""
        unit = "story" if len(told) == 1 else "stories"
        lines += ["", f"## By {fault}", "", f"{len(told)} {unit}{fewer}."]
        if told:
            lines += [
                "",
                "| fault | seed | DOWN | first commit | last commit | exposed | judged | verdict |",
                "|---|---|---|---|---|---|---|---|",
                *map(_row, told),
                "",
                _sum_up(told),
            ]
    return "\n".join(lines)


def _row(told: Told) -> str:
    return (
        f"| {told.fault} | {told.seed} | {told.down:.2f} s | {told.commits[0]:.2f} s | {told.commits[-1]:.2f} s |"
        f" {told.exposed:,} | {told.judged or 'not judged'} | {'; '.join(told.problems) or 'kept'} |"
    )


def _sum_up(told: Sequence[Told]) -> str:
    down, commit = [each.down for each in told], [each.commits[0] for each in told]
    median_reach, reach = COMMIT_SECONDS
    limit = DOWN_SECONDS[told[0].fault]
    kept = statistics.median(commit) <= median_reach and at95(commit) <= reach
    said = (
        f"Fault to verdict DOWN: {_figures(down)}; to reach: 95th percentile <= {limit:g} s:"
        f" {_word(at95(down) <= limit)}. Fault to first commit: {_figures(commit)}; to reach:"
        f" median <= {median_reach:g} s, 95th percentile <= {reach:g} s: {_word(kept)}."
    )
    return said if kept else f"{said} {WHY_LATE.format(down=statistics.median(down), commit=statistics.median(commit))}"


def _figures(found: Sequence[float]) -> str:
    return f"median {statistics.median(found):.2f} s, 95th percentile {at95(found):.2f} s"


def _word(kept: bool) -> str:
    return "met" if kept else "**missed**"


def at95(found: Sequence[float]) -> float:
    return sorted(found)[min(len(found) - 1, round(0.95 * len(found)))]
