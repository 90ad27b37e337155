"""Thirty stories by kill and by freeze at random moments; writes ``docs/reports/carries.md``.

``CARRIES=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i, and its fault alternates.
"""

import os
import platform
import random
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.demo import judge
from lab.rehearsal import Fault, Script, Story, StoryFailed, tell
from tests.ports import free_base_port

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "reports" / "carries.md"
ABOUT = """
# Carries at random moments

Command: `SEED={seed} CARRIES={count} make test-long`, commit `{commit}`, {cores} cores, Python {python}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, a fault at a random
moment, `tideover failover --all` typed at a random moment after it. Delivered, lost and repeated are summed over the
three carried queries; switch is the slowest of them, from the decision to the first batch committed on the standby,
without warming up in half of the stories.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")


def test_thirty_carries_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("CARRIES", "30"))
    seed = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
    rows: list[str] = []
    failures: list[str] = []
    told: list[Story] = []
    for number in range(count):
        fault = FAULTS[number % 2]
        script = Script.at_random(seed + number, fault=fault, base_port=free_base_port(), wait_warm=number % 4 < 2)
        directory = tmp_path / str(number)
        try:
            story = tell(script, directory, print)
        except StoryFailed as failure:
            failures.append(f"{number} (seed {seed + number}): {failure}")
            rows.append(f"| {number} | {fault} | {seed + number} | the story broke | | | | | |")
            continue
        told.append(story)
        problems = judge(story)
        failures += [f"{number} (seed {seed + number}): {problem}" for problem in problems]
        rows.append(_row(number, seed + number, story, problems))
        if not problems:
            shutil.rmtree(directory)
    _write(rows, told, failures, seed)
    assert failures == []
    assert len(told) == count


def _row(number: int, seed: int, story: Story, problems: Sequence[str]) -> str:
    carried = [query for query in story.verdict if story.operation(query)["plan"]["resume"] == "carry"]
    treatments = ", ".join(sorted({story.operation(query)["plan"]["uncommitted_batch"] for query in carried}))
    lost = sum(story.verdict[query]["lost"] for query in carried)
    repeated = sum(story.verdict[query]["duplicated"] for query in carried)
    delivered = sum(story.verdict[query]["delivered"] for query in carried)
    switch = max(story.operation(query)["measured"]["switch_seconds"] for query in carried)
    outcome = "kept" if not problems else "; ".join(problems)
    return (
        f"| {number} | {story.script.fault} | {seed} | {delivered:,} | {lost} | {repeated} | {treatments} |"
        f" {switch:.2f} s | {outcome} |"
    )


def _write(rows: Sequence[str], told: Sequence[Story], failures: Sequence[str], seed: int) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    switches = sorted(
        operation["measured"]["switch_seconds"]
        for story in told
        for operation in story.operations
        if operation["plan"]["resume"] == "carry"
    )
    lines = [
        *ABOUT.format(seed=seed, count=len(rows), commit=commit, cores=os.cpu_count(), python=platform.python_version())
        .strip()
        .splitlines(),
        "",
        "| story | fault | seed | delivered | lost | repeated | batch N+1 | switch | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    if switches:
        lines.append(
            f"Switch time of {len(switches)} carried queries: median {statistics.median(switches):.2f} s,"
            f" largest {switches[-1]:.2f} s."
        )
    lines.append("Every story kept the promise." if not failures else f"{len(failures)} problems.")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")
