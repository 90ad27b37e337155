"""Test runs of queries that move by ``resume: switch``, at random moments: the report ``switches``.

``SWITCHES=n`` changes the count and ``SEED=n`` the first seed: run i uses seed + i. Its fault alternates, in every
second pair the driver dies with the cluster, and in every second four the queries go home. Every run is noted when
it ends; the report holds all runs of one commit, so an
interruption loses nothing.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
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
moment. `tideover failover --all` is typed at a random moment after it. Three queries have `resume: switch`: they
continue from the checkpoint that they had. In half of the runs their driver dies with the cluster, and a standby runner
continues. In half of them they go back, after the primary came up and replication was reversed. Delivered, lost and
repeated are summed over the three queries, and over both ways. Exposed records were acknowledged and never came to the
standby. Switch is the slowest of the three, from the decision to the first batch committed on the standby. Judged shows
how the delivered records were distinguished on the standby.
"""
FAULTS: tuple[Fault, ...] = ("kill", "freeze")
COLUMNS: Columns = {
    "driver": lambda note: str(note["driver"]),
    "way": lambda note: "there and back" if note["home"] else "there",
    "delivered": lambda note: f"{note['delivered']:,}",
    "lost": lambda note: str(note["lost"]),
    "repeated": lambda note: str(note["duplicated"]),
    "exposed": lambda note: f"{note['exposed']:,}",
    "switch": lambda note: f"{max(note['switches']):.2f} s",
    "judged": lambda note: str(note["judged"]),
}


def test_switches_at_random_moments_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("SWITCHES", "30"))
    notes = Notes("switches", origin())

    def script_of(number: int, seed: int) -> Script:
        drawn = Script.at_random(seed, fault=FAULTS[number % 2], base_port=free_base_port(), wait_warm=True)
        return replace(drawn, resume="switch", loses_driver=number % 4 >= 2, returns=number % 8 >= 4)

    play(notes, count, tmp_path, script_of, _note)
    notes.conclude(count, [section(notes.all())])
    assert problems_in(notes.all()) == []


def _note(played: Played) -> dict[str, Any]:
    moved = [query for query in played.verdict if played.operation(query)["plan"]["resume"] != "fresh"]
    ways = {played.operation(query)["plan"]["resume"] for query in moved}
    verdicts = [played.verdict[query] for query in moved]
    verdicts += played.home.verdict.values() if played.home is not None else ()
    return {
        **{what: sum(row[what] for row in verdicts) for what in ("delivered", "lost", "duplicated")},
        "exposed": max(played.verdict[query]["exposed"] for query in moved),
        "judged": judged(played),
        "driver": "lost" if played.script.loses_driver else "lives",
        "home": played.home is not None,
        "switches": [played.operation(query)["measured"]["switch_seconds"] for query in moved],
        "problems": [*judge(played), *(f"a query moved by {way}" for way in ways - {"switch"})],
    }


def section(notes: Sequence[Note]) -> Section:
    """The report of these runs."""
    seconds = (each for note in notes for each in note.get("switches", ()))
    after = largest("Switch time of {} queries, three or four at once", seconds)
    return table(notes, COLUMNS, about=ABOUT, after=after)
