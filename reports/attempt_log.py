"""What was begun and what ended on one commit: a line each, written before and after a report is made.

It lies in the folder of the commit, so a run of another commit finds nothing done.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of one report; ``problem`` is None while it runs, and for ever if it was interrupted."""

    report: str
    stories: int | None
    begun: str
    seconds: float | None = None
    problem: str | None = None
    """Empty: it ended well."""


class AttemptLog:
    """The attempts of one commit."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal.jsonl"

    def write(self, attempt: Attempt) -> None:
        """Append a line: before an attempt begins, and again when it has ended."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(attempt)) + "\n")

    def attempts(self, report: str) -> Sequence[Attempt]:
        """Of one report, in order, each as it was written last. A last line that was cut off counts as not written."""
        found: dict[str, Attempt] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []:
            try:
                told = Attempt(**json.loads(line))
            except ValueError:
                continue
            if told.report == report:
                found[told.begun] = told
        return list(found.values())

    def is_done(self, report: str, stories: int | None) -> bool:
        """Whether the last attempt ended well with as many stories."""
        told = self.attempts(report)
        return bool(told) and told[-1].problem == "" and told[-1].stories == stories

    def failures(self, report: str) -> int:
        """How many attempts ended with a problem."""
        return sum(bool(each.problem) for each in self.attempts(report))
