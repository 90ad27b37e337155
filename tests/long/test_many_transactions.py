"""Kafka's own producers, with transactions that abort: kill and freeze, behind a replicator of either isolation.

The report ``transactions``. ``TRANSACTIONS=n`` changes the count and ``SEED=n`` the first seed: run i uses seed + i;
fault and replicator alternate. Every run is noted when it ends, and the report holds all runs of one commit.
"""

import os
import shutil
from pathlib import Path
from typing import Literal

import pytest

from reports.origin import origin
from tests.long.notes import Columns, Notes, problems_in, table
from tests.transactions import Isolation, Plot, judged, play_plot

pytestmark = pytest.mark.long

FAULTS: tuple[Literal["kill", "freeze"], ...] = ("kill", "freeze")
REPLICATORS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")

ABOUT = """
Each run is a new world (two Kafka clusters, MirrorMaker 2). Kafka's own tools write to the primary, in transactions
that commit and abort and outside of them. Four queries read the topic, append and stateful, `read_uncommitted` and
`read_committed`. The primary is killed or frozen among open transactions, and all queries move. The replicator reads
with one of the two isolations. Delivered counts the rows of the two append queries. Every value is counted in the
standby's log and in the sinks; the lab's verifier takes no part. What was acknowledged and not copied is not counted.
"""
COLUMNS: Columns = {
    "replicator reads": lambda note: f"`{note['replicator']}`",
    "messages per transaction": lambda note: str(note["size"]),
    "delivered": lambda note: f"{note['delivered']:,}",
}


def test_faults_among_transactions_lose_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("TRANSACTIONS", "8"))
    notes = Notes("transactions", origin())
    for number, seed in notes.left(count):
        fault, replicator = FAULTS[number % 2], REPLICATORS[number // 2 % 2]
        plot = Plot.at_random(seed, fault=fault, replicator=replicator)
        print(f"seed {seed}: {plot}")
        directory = tmp_path / str(number)
        directory.mkdir()
        played = play_plot(plot, directory)
        problems = judged(played)
        delivered = sum(rows.total() for epochs in played.rows.values() for rows in epochs.values())
        notes.add(
            {"seed": seed, "fault": fault, "replicator": replicator, "size": plot.size, "delivered": delivered,
             "problems": problems}
        )  # fmt: skip
        notes.conclude(count, [table(notes.all(), COLUMNS, about=ABOUT)])
        if not problems:
            shutil.rmtree(directory)
    assert problems_in(notes.all()) == []
