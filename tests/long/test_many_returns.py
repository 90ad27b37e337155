"""Thirty runs there and back, by kill and by freeze at random moments: the report ``returns``.

``RETURNS=n`` changes the count and ``SEED=n`` the first seed: run i uses seed + i, and its fault alternates. Every
run is noted when it ends; the report holds all runs of one commit, so an
interruption loses nothing.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge
from lab.scenario import Fault, Played, Script
from reports.origin import origin
from reports.result import Section
from tests.long.notes import Columns, Note, Notes, largest, play, problems_in, table
from tests.ports import free_base_port

pytestmark = pytest.mark.long

ABOUT = """
Each run is a new world under 2,000 records/s. The primary is killed or frozen at a random moment, and four queries fail
over. The primary comes up again, and replication is reversed behind the last record that both clusters have. The three
carried queries go back with `tideover failback` under the same load. Tail: records that only the primary had, listed by
`tideover show-op ID --tail`. The verdict takes that list as it is, so a record too many or too few in it would be a
loss. Delivered, lost and repeated are summed over the three queries, on the primary in the end. Pause is the slowest of
the three, from the decision to the first batch committed on the primary.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")
COLUMNS: Columns = {
    "delivered": lambda note: f"{note['delivered']:,}",
    "lost": lambda note: str(note["lost"]),
    "repeated": lambda note: str(note["duplicated"]),
    "tail": lambda note: f"{note['tail']:,}",
    "pause": lambda note: f"{max(_pauses([note]), default=0.0):.2f} s" if _pauses([note]) else "-",
    "judged": lambda note: str(note["judged"]),
}


def test_queries_that_go_there_and_back_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("RETURNS", "30"))
    notes = Notes("returns", origin())

    def script_of(number: int, seed: int) -> Script:
        drawn = Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=False)
        return replace(drawn, returns=True)

    play(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, [section(notes.all())])
    assert problems_in(notes.all()) == []


def _note(played: Played) -> dict[str, Any]:
    assert played.home is not None
    verdict = played.home.verdict
    return {
        **{what: sum(row[what] for row in verdict.values()) for what in ("delivered", "lost", "duplicated")},
        "exposed": max(row["exposed"] for row in verdict.values()),
        "tail": len(played.home.tail["records"]),
        "judged": "; ".join(sorted({str(row["judged"]) for row in verdict.values()})),
        "switches": [operation["measured"].get("switch_seconds") for operation in played.home.operations],
        "problems": list(judge(played)),
    }


def section(notes: Sequence[Note]) -> Section:
    """The report of these runs."""
    pauses = largest("Pause of {} queries on the way back, three at once", _pauses(notes))
    return table(notes, COLUMNS, about=ABOUT, after=pauses)


def _pauses(notes: Sequence[Note]) -> list[float]:
    return [each for note in notes for each in note.get("switches", ()) if each is not None]
