"""What runs ended with on one commit, a line each, so that an interruption loses none; and the report of them all."""

import json
import os
import random
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.scenario import Played, Script, play_script
from lab.stage import ScenarioFailed
from reports.entries import entry
from reports.origin import Origin, unchanged
from reports.result import Result, Section, write

FAULTS = ("kill", "freeze")
Note = Mapping[str, Any]
"""What one run ended with: at least its ``seed`` and its ``problems``."""
Columns = Mapping[str, Callable[[Note], str]]


class Notes:
    """The runs of one report on one commit. In a draft each begins a new file."""

    def __init__(self, name: str, on: Origin) -> None:
        self.name = name
        self.on = on
        self._path = on.folder() / f"{name}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if on.changed:
            self._path.unlink(missing_ok=True)

    def add(self, note: Note) -> None:
        """A run has ended. Raises DirtyTree where files have changed since the start."""
        unchanged(self.on)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")

    def all(self) -> Sequence[Note]:
        """In the order in which they ended."""
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return [json.loads(line) for line in lines]

    def left(self, count: int, **same: Any) -> Iterator[tuple[int, int]]:
        """Number and seed of each run that is left of ``count``; those with the same values count as done.

        Run i uses the first seed + i, also where an earlier process began: that one drew it, or ``SEED`` gave it.
        """
        done = [note for note in self.all() if same.items() <= note.items()]
        first = self._first()
        yield from ((number, first + number) for number in range(len(done), count))

    def _first(self) -> int:
        """The seed of run 0; the first note is of that run."""
        notes = self.all()
        return int(notes[0]["seed"] if notes else os.environ.get("SEED", random.SystemRandom().randrange(10**6)))

    def conclude(self, planned: int, sections: Sequence[Section], **facts: Any) -> Path:
        """Write the report of all runs, and the command that makes them again; ``facts`` replace those of the notes."""
        notes = self.all()
        own = {
            "count": len(notes),
            "wrong": sum(bool(each["problems"]) for each in notes),
            "exposed": exposed_in(notes),
        }
        command = f"SEED={self._first()} make reports ONLY={self.name} RUNS={planned}"
        return conclude(self.on, self.name, sections, command=command, data={"runs": notes}, **{**own, **facts})


def play(
    notes: Notes, count: int, directory: Path, script_of: Callable[[int, int], Script],
    note_of: Callable[[Played], Note],
) -> None:  # fmt: skip
    """Play the runs that are left, each by the script of its number and seed; the world of one that broke stays."""
    for number, seed in notes.left(count):
        script, place = script_of(number, seed), directory / str(number)
        try:
            note = note_of(play_script(script, place, print))
        except ScenarioFailed as failure:
            note = {"problems": [str(failure)]}
        notes.add({"fault": script.fault, "seed": seed, "warm": script.wait_warm, **note})
        if not note["problems"]:
            shutil.rmtree(place)


def conclude(on: Origin, name: str, sections: Sequence[Section], **facts: Any) -> Path:
    """Write the result of a report, and its page, into the folder of its commit; returns the page."""
    unchanged(on)
    made = entry(name)
    result = Result(
        report=name, title=made.title, commits=(on.commit,), made=on.made, machine=on.machine, judged=made.judged,
        sections=tuple(sections), **{"unit": made.unit, **facts},
    )  # fmt: skip
    return write(result, on.folder() / made.result)


def table(notes: Sequence[Note], columns: Columns, *, about: str, after: Sequence[str] = ()) -> Section:
    """A row for each run; a run that broke has no figures to show."""
    every: Columns = {"fault": _named("fault"), "seed": _named("seed"), **columns, "verdict": _verdict}
    return Section(
        texts=(about.strip(),), columns=tuple(every), after=tuple(after),
        rows=tuple(tuple(_cell(of, note) for of in every.values()) for note in notes),
    )  # fmt: skip


def _named(key: str) -> Callable[[Note], str]:
    return lambda note: str(note[key])


def _verdict(note: Note) -> str:
    return "; ".join(note["problems"]) or "kept"


def _cell(of: Callable[[Note], str], note: Note) -> str:
    try:
        return of(note)
    except KeyError:  # it came to no figures
        return "-"


def largest(what: str, seconds: Iterable[float]) -> list[str]:
    """Median and largest of these, in a sentence; none where nothing was measured."""
    found = sorted(seconds)
    if not found:
        return []
    return [f"{what.format(len(found))}: median {statistics.median(found):.2f} s, largest {found[-1]:.2f} s."]


def exposed_in(notes: Sequence[Note]) -> str:
    """The most and the fewest exposed records of the runs that were judged."""
    found = sorted(note["exposed"] for note in notes if "exposed" in note)
    if not found:
        return "not counted"
    return f"{found[0]:,} to {found[-1]:,}" if found[0] != found[-1] else f"{found[0]:,}"


def problems_in(notes: Sequence[Note]) -> list[str]:
    """What went wrong, each with the seed that repeats it."""
    return [f"seed {note['seed']}: {problem}" for note in notes for problem in note["problems"]]
