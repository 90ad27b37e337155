"""Thirty stories there and back, by kill and by freeze at random moments: the report ``returns``.

``RETURNS=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i, and its fault alternates. Every
story is noted when it ends; the page holds all stories of one commit, so a run that is cut off loses nothing.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge
from lab.ports import free_base_port
from lab.scenario import Fault, Script, Story
from reports.entries import entry
from reports.origin import origin
from tests.long.notes import Notes, broken_in, problems_in, tell_stories

pytestmark = pytest.mark.long

ABOUT = """
# There and back

Command: `{command}`, {sentence}.
Each story is a new world under 2,000 records/s: the primary is killed or frozen at a random moment, four queries fail
over, the primary comes up again, replication is turned round behind the last record that both clusters have, and the
three carried queries go home with `tideover failback` under the same load. Tail: records that only the primary had,
listed by `tideover show-op ID --tail`; the verdict takes that list by its word, so a record too many or too few in it
would be a loss. Delivered, lost and repeated are summed over the three queries, at home; pause is the slowest of the
three, from the decision to the first batch committed at home.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")


def test_queries_that_go_there_and_back_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("RETURNS", "30"))
    notes = Notes("returns", origin())

    def script_of(number: int, seed: int) -> Script:
        drawn = Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=False)
        return replace(drawn, returns=True)

    tell_stories(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, page)
    assert problems_in(notes.all()) == []


def _note(story: Story) -> dict[str, Any]:
    assert story.home is not None
    verdict = story.home.verdict
    return {
        **{what: sum(row[what] for row in verdict.values()) for what in ("delivered", "lost", "duplicated")},
        "exposed": max(row["exposed"] for row in verdict.values()),
        "tail": len(story.home.tail["records"]),
        "judged": "; ".join(sorted({str(row["judged"]) for row in verdict.values()})),
        "switches": [operation["measured"].get("switch_seconds") for operation in story.home.operations],
        "problems": list(judge(story)),
    }


def _row(note: Mapping[str, Any]) -> str:
    begin = f"| {note['fault']} | {note['seed']} |"
    if "tail" not in note:
        return f"{begin} | | | | | not judged | {'; '.join(note['problems'])} |"
    pauses = [each for each in note["switches"] if each is not None]
    return (
        f"{begin} {note['delivered']:,} | {note['lost']} | {note['duplicated']} | {note['tail']:,} |"
        f" {f'{max(pauses):.2f} s' if pauses else ''} | {note['judged']} | {'; '.join(note['problems']) or 'kept'} |"
    )


def page(notes: Sequence[Mapping[str, Any]], command: str, sentence: str) -> str:
    """The page of these stories."""
    broken, full = broken_in(notes), entry("returns").stories or 0
    pauses = sorted(each for note in notes for each in note.get("switches", ()) if each is not None)
    lines = [
        *ABOUT.format(command=command, sentence=sentence).strip().splitlines(),
        "",
        "| fault | seed | delivered | lost | repeated | tail | pause | judged | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(_row, notes),
        "",
    ]
    if pauses:
        lines.append(
            f"Pause of {len(pauses)} queries on the way home, three at once: median {statistics.median(pauses):.2f} s,"
            f" largest {pauses[-1]:.2f} s."
        )
    lines.append(
        f"{len(notes)} stories"
        + (f" of the {full} of a full report: " if len(notes) < full else ": ")
        + (f"{broken} broke the promise." if broken else "every one kept the promise.")
    )
    return "\n".join(lines)
