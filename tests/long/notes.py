"""What stories ended with on one commit, a line each, so that a run that is cut off loses none and the next goes on."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.scenario import Script, Story, tell
from lab.stage import StoryFailed
from reports.entries import entry
from reports.origin import Origin, unchanged
from reports.stamp import Stamp, stamped

FAULTS = ("kill", "freeze")


class Notes:
    """The stories of one report on one commit. In a draft each run begins a new file."""

    def __init__(self, name: str, on: Origin) -> None:
        self.name = name
        self.on = on
        self._path = on.folder() / f"{name}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if on.changed:
            self._path.unlink(missing_ok=True)

    def add(self, note: Mapping[str, Any]) -> None:
        """A story has ended. Raises DirtyTree where files have changed since the start."""
        unchanged(self.on)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")

    def all(self) -> Sequence[Mapping[str, Any]]:
        """In the order in which they ended."""
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return [json.loads(line) for line in lines]

    def left(self, count: int, **same: Any) -> Iterator[tuple[int, int]]:
        """Number and seed of each story that is left of ``count``; those with the same values count as told.

        Story i uses the first seed + i, also where an earlier run began: that one drew it, or ``SEED`` gave it.
        """
        told = [note for note in self.all() if same.items() <= note.items()]
        first = self._first()
        yield from ((number, first + number) for number in range(len(told), count))

    def command(self, count: int) -> str:
        """What tells these stories again."""
        return f"SEED={self._first()} make reports ONLY={self.name} STORIES={count}"

    def _first(self) -> int:
        """The seed of story 0; the first note is of that story."""
        told = self.all()
        return int(told[0]["seed"] if told else os.environ.get("SEED", random.SystemRandom().randrange(10**6)))

    def conclude(self, count: int, page: Callable[[Sequence[Mapping[str, Any]], str, str], str]) -> None:
        """The page that is made of all stories, their command, and the sentence on where they were told."""
        notes, command = self.all(), self.command(count)
        self.write(
            page(notes, command, self.on.sentence), command=command, judged=entry(self.name).judged,
            exposed=exposed_in(notes), stories=len(notes), unit="stories", broken=broken_in(notes),
        )  # fmt: skip

    def write(self, body: str, **facts: Any) -> None:
        """The page of all stories, with its stamp."""
        write_page(self.on, self.name, body, **facts)


def tell_stories(
    notes: Notes,
    count: int,
    directory: Path,
    script_of: Callable[[int, int], Script],
    note_of: Callable[[Story], Mapping[str, Any]],
) -> None:
    """Tell the stories that are left, each by the script of its number and seed; the world of one that broke stays."""
    for number, seed in notes.left(count):
        script, place = script_of(number, seed), directory / str(number)
        try:
            note = note_of(tell(script, place, print))
        except StoryFailed as failure:
            note = {"problems": [str(failure)]}
        notes.add({"fault": script.fault, "seed": seed, "warm": script.wait_warm, **note})
        if not note["problems"]:
            shutil.rmtree(place)


def write_page(on: Origin, name: str, body: str, **facts: Any) -> Path:
    """A page with its stamp, in the folder of its commit."""
    unchanged(on)
    page = on.folder() / f"{name}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    told = Stamp(report=name, commits=(on.commit,), made=on.made, machine=on.machine, **facts)
    page.write_text(stamped(body, told), encoding="utf-8")
    return page


def exposed_in(notes: Sequence[Mapping[str, Any]]) -> str:
    """The most and the fewest exposed records of the stories that were judged."""
    found = sorted(note["exposed"] for note in notes if "exposed" in note)
    if not found:
        return "not counted"
    return f"{found[0]:,} to {found[-1]:,}" if found[0] != found[-1] else f"{found[0]:,}"


def problems_in(notes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What went wrong, each with the seed that repeats it."""
    return [f"seed {note['seed']}: {problem}" for note in notes for problem in note["problems"]]


def broken_in(notes: Sequence[Mapping[str, Any]]) -> int:
    """How many stories went wrong."""
    return sum(bool(note["problems"]) for note in notes)
