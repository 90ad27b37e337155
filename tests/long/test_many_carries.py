"""Thirty stories by kill and by freeze at random moments, three carries each: the report ``carries``.

``CARRIES=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i, and its fault alternates. Every
story is noted when it ends; the page holds all stories of one commit, so a run that is cut off loses nothing.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge, judged
from lab.ports import free_base_port
from lab.scenario import Fault, Script, Story
from reports.entries import entry
from reports.origin import origin
from tests.long.notes import Notes, broken_in, problems_in, tell_stories

pytestmark = pytest.mark.long

ABOUT = """
# Carries at random moments

Command: `{command}`, {sentence}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, a fault at a random
moment, `tideover failover --all` typed at a random moment after it. Delivered, lost and repeated are summed over the
three carried queries; exposed records were acknowledged and never came to the standby, the same ones for every query;
switch is the slowest of the three, from the decision to the first batch committed on the standby, without warming up in
half of the stories. Judged says by what the delivered records were told apart: by ids, or by so many sums of their
hashes, one for each window and partition.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")


def test_carries_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("CARRIES", "30"))
    notes = Notes("carries", origin())

    def script_of(number: int, seed: int) -> Script:
        warm = number % 4 < 2
        return Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=warm)

    tell_stories(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, page)
    assert problems_in(notes.all()) == []


def _note(story: Story) -> dict[str, Any]:
    carried = [query for query in story.verdict if story.operation(query)["plan"]["resume"] == "carry"]
    sums = {what: sum(story.verdict[query][what] for query in carried) for what in ("delivered", "lost", "duplicated")}
    return {
        **sums,
        "exposed": max(story.verdict[query]["exposed"] for query in carried),
        "judged": judged(story),
        "treatments": sorted({story.operation(query)["plan"]["uncommitted_batch"] for query in carried}),
        "switches": [story.operation(query)["measured"]["switch_seconds"] for query in carried],
        "problems": list(judge(story)),
    }


def _row(note: Mapping[str, Any]) -> str:
    begin = f"| {note['fault']} | {note['seed']} |"
    if "switches" not in note:
        return f"{begin} | | | | | | not judged | {'; '.join(note['problems'])} |"
    return (
        f"{begin} {note['delivered']:,} | {note['lost']} | {note['duplicated']} | {note['exposed']:,} |"
        f" {', '.join(note['treatments'])} | {max(note['switches']):.2f} s{'' if note['warm'] else ', cold'} |"
        f" {note['judged']} | {'; '.join(note['problems']) or 'kept'} |"
    )


def page(notes: Sequence[Mapping[str, Any]], command: str, sentence: str) -> str:
    """The page of these stories."""
    broken, full = broken_in(notes), entry("carries").stories or 0
    lines = [
        *ABOUT.format(command=command, sentence=sentence).strip().splitlines(),
        "",
        "| fault | seed | delivered | lost | repeated | exposed | batch N+1 | switch | judged | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *map(_row, notes),
        "",
        *(_switches("warmed up", [note for note in notes if note["warm"]])),
        *(_switches("cold", [note for note in notes if not note["warm"]])),
        f"{len(notes)} stories"
        + (f" of the {full} of a full report" if len(notes) < full else "")
        + f", {sum(len(note.get('switches', ())) for note in notes)} carries: "
        + (f"{broken} broke the promise." if broken else "every one kept the promise."),
    ]
    return "\n".join(lines)


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
