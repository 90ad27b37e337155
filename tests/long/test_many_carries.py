"""Thirty stories by kill and by freeze at random moments; writes ``docs/reports/carries.md``.

``CARRIES=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i, and its fault alternates. Every
story is noted in ``build/carries`` when it ends; the report holds all stories of one commit, so that they may be told
in several sittings, and a sitting that is cut off loses nothing.
"""

import json
import os
import platform
import random
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge
from lab.rehearsal import Fault, Script, Story, tell
from lab.stage import StoryFailed
from tests.ports import free_base_port

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "reports" / "carries.md"
ABOUT = """
# Carries at random moments

Command: `make test-long` (`CARRIES=n SEED=n` for a part of it), commit `{commit}`, {cores} cores, Python {python}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, a fault at a random
moment, `tideover failover --all` typed at a random moment after it. Delivered, lost and repeated are summed over the
three carried queries; switch is the slowest of them, from the decision to the first batch committed on the standby,
without warming up in half of the stories.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")


def test_thirty_carries_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("CARRIES", "30"))
    seed = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
    commit = commit_of(ROOT)
    failures: list[str] = []
    for number in range(count):
        fault = FAULTS[number % 2]
        script = Script.at_random(seed + number, fault=fault, base_port=free_base_port(), wait_warm=number % 4 < 2)
        directory = tmp_path / str(number)
        try:
            story = tell(script, directory, print)
        except StoryFailed as failure:
            note: dict[str, Any] = {"problems": [str(failure)]}
        else:
            note = _note(story)
        _keep(commit, {"fault": fault, "seed": seed + number, "warm": script.wait_warm, **note})
        failures += [f"seed {seed + number}: {problem}" for problem in note["problems"]]
        if not note["problems"]:
            shutil.rmtree(directory)
    _write(commit)
    assert failures == []


def _note(story: Story) -> dict[str, Any]:
    carried = [query for query in story.verdict if story.operation(query)["plan"]["resume"] == "carry"]
    sums = {what: sum(story.verdict[query][what] for query in carried) for what in ("delivered", "lost", "duplicated")}
    return {
        **sums,
        "treatments": sorted({story.operation(query)["plan"]["uncommitted_batch"] for query in carried}),
        "switches": [story.operation(query)["measured"]["switch_seconds"] for query in carried],
        "problems": list(judge(story)),
    }


def _keep(commit: str, note: Mapping[str, Any]) -> None:
    kept = _kept(commit)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")


def _kept(commit: str) -> Path:
    return ROOT / "build" / "carries" / f"{commit}.jsonl"


def commit_of(root: Path) -> str:
    """The short id of the commit in a checkout."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _row(note: Mapping[str, Any]) -> str:
    begin = f"| {note['fault']} | {note['seed']} |"
    if "switches" not in note:
        return f"{begin} | | | | | {'; '.join(note['problems'])} |"
    return (
        f"{begin} {note['delivered']:,} | {note['lost']} | {note['duplicated']} | {', '.join(note['treatments'])} |"
        f" {max(note['switches']):.2f} s{'' if note['warm'] else ', cold'} | {'; '.join(note['problems']) or 'kept'} |"
    )


def _write(commit: str) -> None:
    notes = [json.loads(line) for line in _kept(commit).read_text(encoding="utf-8").splitlines()]
    about = ABOUT.format(commit=commit, cores=os.cpu_count(), python=platform.python_version()).strip()
    broken = sum(1 for note in notes if note["problems"])
    lines = [
        *about.splitlines(),
        "",
        "| fault | seed | delivered | lost | repeated | batch N+1 | switch | verdict |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, notes),
        "",
        *(_switches("warmed up", [note for note in notes if note["warm"]])),
        *(_switches("cold", [note for note in notes if not note["warm"]])),
        f"{len(notes)} stories, {sum(len(note.get('switches', ())) for note in notes)} carries: "
        + (f"{broken} broke the promise." if broken else "every one kept the promise."),
    ]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _switches(what: str, notes: Sequence[Mapping[str, Any]]) -> list[str]:
    seconds = sorted(each for note in notes for each in note.get("switches", ()))
    if not seconds:
        return []
    return [
        (
            f"Switch time of {len(seconds)} carried queries, {what}, three or four at once:"
            f" median {statistics.median(seconds):.2f} s, largest {seconds[-1]:.2f} s."
        )
    ]
