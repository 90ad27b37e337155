"""Thirty runs by kill and by freeze at random moments, three carries each: the report ``carries``.

``CARRIES=n`` changes the count and ``SEED=n`` the first seed: run i uses seed + i, and its fault alternates. Every
run is noted when it ends; the report holds all runs of one commit, so an interruption loses nothing.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.demo import judge, judged
from lab.scenario import Fault, Played, Script
from reports.origin import origin
from reports.result import Section
from tests.long.notes import Columns, Note, Notes, largest, play, problems_in, table
from tests.ports import free_base_port

pytestmark = pytest.mark.long

ABOUT = """
Each run is a new world (two Kafka clusters, MirrorMaker 2), four queries, 2,000 records/s and a fault at a random
moment. `tideover failover --all` is typed at a random moment after it. Delivered, lost and repeated are summed over the
three carried queries. Exposed records were acknowledged and never came to the standby, the same ones for every query.
Switch is the slowest of the three, from the decision to the first batch committed on the standby; half of the runs do
not warm up. Judged shows how the delivered records were distinguished: by ids, or by so many sums of their hashes, one
for each window and partition.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")
COLUMNS: Columns = {
    "delivered": lambda note: f"{note['delivered']:,}",
    "lost": lambda note: str(note["lost"]),
    "repeated": lambda note: str(note["duplicated"]),
    "exposed": lambda note: f"{note['exposed']:,}",
    "batch N+1": lambda note: ", ".join(note["treatments"]),
    "switch": lambda note: f"{max(note['switches']):.2f} s{'' if note['warm'] else ', cold'}",
    "judged": lambda note: str(note["judged"]),
}


def test_carries_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("CARRIES", "30"))
    notes = Notes("carries", origin())

    def script_of(number: int, seed: int) -> Script:
        warm = number % 4 < 2
        return Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=warm)

    play(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, [section(notes.all())])
    assert problems_in(notes.all()) == []


def _note(played: Played) -> dict[str, Any]:
    carried = [query for query in played.verdict if played.operation(query)["plan"]["resume"] == "carry"]
    sums = {what: sum(played.verdict[query][what] for query in carried) for what in ("delivered", "lost", "duplicated")}
    return {
        **sums,
        "exposed": max(played.verdict[query]["exposed"] for query in carried),
        "judged": judged(played),
        "treatments": sorted({played.operation(query)["plan"]["uncommitted_batch"] for query in carried}),
        "switches": [played.operation(query)["measured"]["switch_seconds"] for query in carried],
        "problems": list(judge(played)),
    }


def section(notes: Sequence[Note]) -> Section:
    """The report of these runs."""
    after = [
        sentence
        for what, warm in (("warmed up", True), ("cold", False))
        for sentence in largest(
            f"Switch time of {{}} carried queries, {what}, three or four at once",
            (each for note in notes if note["warm"] is warm for each in note.get("switches", ())),
        )
    ]
    return table(notes, COLUMNS, about=ABOUT, after=after)
