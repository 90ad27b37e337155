"""Stories of queries that move by ``resume: switch``, at random moments: the report ``switches``.

``SWITCHES=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i. Its fault alternates, in every
second pair the driver dies with the cluster, and in every second four the queries go home. Every story is noted when
it ends; the page holds all stories of one commit, so a run that is cut off loses nothing.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
# Switches at random moments

Command: `{command}`, {sentence}.
Each story is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s, a fault at a random
moment, `tideover failover --all` typed at a random moment after it. Three queries have `resume: switch`: they go on
from the very checkpoint that they had. In half of the stories their driver dies with the cluster, and another one that
has stood by goes on; in half of them they go home, after the primary came up and replication was turned round.
Delivered, lost and repeated are summed over the three queries, and over both ways; exposed records were acknowledged
and never came to the standby; switch is the slowest of the three, from the decision to the first batch committed on the
standby. Judged says by what the delivered records were told apart on the standby.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")


def test_switches_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("SWITCHES", "30"))
    notes = Notes("switches", origin())

    def script_of(number: int, seed: int) -> Script:
        drawn = Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=True)
        return replace(drawn, resume="switch", loses_driver=number % 4 >= 2, returns=number % 8 >= 4)

    tell_stories(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, page)
    assert problems_in(notes.all()) == []


def _note(story: Story) -> dict[str, Any]:
    moved = [query for query in story.verdict if story.operation(query)["plan"]["resume"] != "fresh"]
    ways = {story.operation(query)["plan"]["resume"] for query in moved}
    verdicts = [story.verdict[query] for query in moved]
    verdicts += story.home.verdict.values() if story.home is not None else ()
    return {
        **{what: sum(row[what] for row in verdicts) for what in ("delivered", "lost", "duplicated")},
        "exposed": max(story.verdict[query]["exposed"] for query in moved),
        "judged": judged(story),
        "driver": "lost" if story.script.loses_driver else "lives",
        "home": story.home is not None,
        "switches": [story.operation(query)["measured"]["switch_seconds"] for query in moved],
        "problems": [*judge(story), *(f"a query moved by {way}" for way in ways - {"switch"})],
    }


def _row(note: Mapping[str, Any]) -> str:
    begin = f"| {note['fault']} | {note['seed']} |"
    if "switches" not in note:
        return f"{begin} | | | | | | | not judged | {'; '.join(note['problems'])} |"
    return (
        f"{begin} {note['driver']} | {'there and back' if note['home'] else 'there'} | {note['delivered']:,} |"
        f" {note['lost']} | {note['duplicated']} | {note['exposed']:,} | {max(note['switches']):.2f} s |"
        f" {note['judged']} | {'; '.join(note['problems']) or 'kept'} |"
    )


def page(notes: Sequence[Mapping[str, Any]], command: str, sentence: str) -> str:
    """The page of these stories."""
    broken, full = broken_in(notes), entry("switches").stories or 0
    seconds = sorted(each for note in notes for each in note.get("switches", ()))
    lines = [
        *ABOUT.format(command=command, sentence=sentence).strip().splitlines(),
        "",
        "| fault | seed | driver | way | delivered | lost | repeated | exposed | switch | judged | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *map(_row, notes),
        "",
    ]
    if seconds:
        lines.append(
            f"Switch time of {len(seconds)} queries, three or four at once: median {statistics.median(seconds):.2f} s,"
            f" largest {seconds[-1]:.2f} s."
        )
    lines.append(
        f"{len(notes)} stories"
        + (f" of the {full} of a full report: " if len(notes) < full else ": ")
        + (f"{broken} broke the promise." if broken else "every one kept the promise.")
    )
    return "\n".join(lines)
