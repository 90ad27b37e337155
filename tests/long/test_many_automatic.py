"""Ten failovers that nobody typed, of each fault; writes ``docs/reports/automatic.md``.

``AUTOMATIC=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i.
"""

import os
import platform
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.demo import judge
from lab.rehearsal import Fault, Script, tell
from tests.long.test_many_carries import ROOT, commit_of
from tests.ports import free_base_port

pytestmark = pytest.mark.long

REPORT = ROOT / "docs" / "reports" / "automatic.md"
DOWN_SECONDS: dict[Fault, float] = {"kill": 2.0, "freeze": 3.0}
"""What the 95th percentile of the seconds to the verdict shall keep below."""
COMMIT_SECONDS = (3.0, 5.0)
"""The same of the first commit, median and 95th percentile: set for a kill, and a freeze is held to it, too."""
TITLE = "# Failovers that nobody typed"
ABOUT = """
## By {fault}

Command: `SEED={seed} AUTOMATIC={count} make test-long`, commit `{commit}`, {cores} cores, Python {python}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, one controller with
`policy.automatic: true`, a fault at a random moment, and nobody at the keyboard. Seconds from the fault: to the
verdict DOWN, and to the first batch committed on the standby of the first and of the last of the three carried
queries, all moved at once.
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
    problems: tuple[str, ...]


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_failovers_that_nobody_typed_lose_nothing_and_repeat_nothing(fault: Fault, tmp_path: Path) -> None:
    count = int(os.environ.get("AUTOMATIC", "10"))
    seed = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
    told = [_tell(seed + number, fault, tmp_path / str(number)) for number in range(count)]
    _append(told, seed, fault)
    assert [f"seed {each.seed}: {problem}" for each in told for problem in each.problems] == []


def _tell(seed: int, fault: Fault, directory: Path) -> Told:
    drawn = Script.at_random(seed, fault=fault, base_port=free_base_port(), wait_warm=True)
    story = tell(replace(drawn, automatic=True), directory, print)
    carried = [operation for operation in story.operations if operation["plan"]["resume"] == "carry"]
    commits = sorted(
        seconds
        for operation in carried
        if (seconds := story.fault_to_first_commit_seconds[operation["query"]]) is not None
    )
    assert story.fault_to_verdict_seconds is not None, "every query has left, and nobody called the cluster DOWN"
    return Told(
        fault=fault,
        seed=seed,
        down=story.fault_to_verdict_seconds,
        commits=tuple(commits),
        problems=tuple(judge(story)),
    )


def _append(told: Sequence[Told], seed: int, fault: Fault) -> None:
    about = ABOUT.format(
        seed=seed, count=len(told), commit=commit_of(ROOT), cores=os.cpu_count(), python=platform.python_version(),
        fault=fault,
    )  # fmt: skip
    is_first = fault == "kill"
    lines = [
        *([TITLE] if is_first else []), "", *about.strip().splitlines(), "",
        "| fault | seed | DOWN | first commit | last commit | verdict |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each.fault} | {each.seed} | {each.down:.2f} s | {each.commits[0]:.2f} s | {each.commits[-1]:.2f} s |"
            f" {'; '.join(each.problems) or 'kept'} |"
            for each in told
        ),
        "", _sum_up(told), "",
    ]  # fmt: skip
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    with REPORT.open("w" if is_first else "a", encoding="utf-8") as file:
        file.write("\n".join(lines))


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
