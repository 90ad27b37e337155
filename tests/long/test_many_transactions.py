"""Kafka's own producers, with transactions that abort: kill and freeze, behind a replicator of either isolation.

The report ``transactions``. ``TRANSACTIONS=n`` changes the count and ``SEED=n`` the first seed: story i uses seed + i;
fault and replicator alternate. Every story is noted when it ends, and the page holds all stories of one commit.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from reports.entries import entry
from reports.origin import origin
from tests.long.notes import Notes, broken_in, problems_in
from tests.transactions import Isolation, Plot, judged, tell

pytestmark = pytest.mark.long

FAULTS: tuple[Literal["kill", "freeze"], ...] = ("kill", "freeze")
REPLICATORS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")

ABOUT = """
# Kill and freeze among aborted transactions

Command: `{command}`, {sentence}.
Each story is a new world (two Kafka clusters, MirrorMaker 2). Kafka's own tools write to the primary, in transactions
that commit and abort and outside of them; four queries read the topic, append and stateful, `read_uncommitted` and
`read_committed`. The primary is killed or frozen among open transactions, and all queries are moved. The replicator
reads with one of the two isolations. Delivered counts the rows of the two append queries. Every value is counted in the
standby's log and in the sinks; the lab's verifier takes no part. What was acknowledged and not copied is not counted.
"""


def test_faults_among_transactions_lose_and_repeat_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("TRANSACTIONS", "8"))
    notes = Notes("transactions", origin())
    for number, seed in notes.left(count):
        fault, replicator = FAULTS[number % 2], REPLICATORS[number // 2 % 2]
        plot = Plot.at_random(seed, fault=fault, replicator=replicator)
        print(f"seed {seed}: {plot}")
        directory = tmp_path / str(number)
        directory.mkdir()
        told = tell(plot, directory)
        problems = judged(told)
        delivered = sum(rows.total() for epochs in told.rows.values() for rows in epochs.values())
        notes.add(
            {"seed": seed, "fault": fault, "replicator": replicator, "size": plot.size, "delivered": delivered,
             "problems": problems}
        )  # fmt: skip
        _write(notes, count)
        if not problems:
            shutil.rmtree(directory)
    assert problems_in(notes.all()) == []


def _write(kept: Notes, count: int) -> None:
    notes, command = kept.all(), kept.command(count)
    kept.write(
        page(notes, command, kept.on.sentence), command=command, judged=entry("transactions").judged,
        exposed="not counted", stories=len(notes), unit="stories", broken=broken_in(notes),
    )  # fmt: skip


def page(notes: Sequence[Mapping[str, Any]], command: str, sentence: str) -> str:
    """The page of these stories."""
    full = entry("transactions").stories or 0
    lines = [
        *ABOUT.format(command=command, sentence=sentence).strip().splitlines(),
        "",
        "| fault | seed | replicator reads | messages per transaction | delivered | verdict |",
        "|---|---|---|---|---|---|",
        *(
            f"| {note['fault']} | {note['seed']} | `{note['replicator']}` | {note['size']} | {note['delivered']:,} |"
            f" {'; '.join(note['problems']) or 'kept'} |"
            for note in notes
        ),
        "",
        f"{len(notes)} stories" + (f" of the {full} of a full report." if len(notes) < full else "."),
    ]
    return "\n".join(lines)
