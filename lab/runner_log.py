"""What a runner's log says on its way up, and what of it a person who waits should see.

To follow a file costs nothing; a look by a command is a process of its own, and takes a second of a core from what it
waits for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

UP, STARTED, WARM = "runner is up", "query started", "warmed up"
_LINE = re.compile(r"\S+Z \[\w+ *\] (?P<event>\S+(?: \S+)*)(?P<rest>.*)")
_VALUE = re.compile(r"(\w+)=('[^']*'|\([^)]*\)|\{[^}]*\}|\S+)")


@dataclass(frozen=True)
class Entry:
    """One line: what happened, and the values that stand behind it."""

    event: str
    values: Mapping[str, str]


class RunnerLog:
    """The log of a runner, read as it grows; what an earlier process of its name has left there is not read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = path.stat().st_size if path.exists() else 0
        self._began = ""
        """A line that has no end yet."""
        self.said: set[str] = set()
        """Every event that has been read."""

    def news(self) -> list[Entry]:
        """What has been written since the last time; what Spark writes there is left out."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._at)
            read = file.read()
        self._at += len(read)
        *lines, self._began = (self._began + read.decode(errors="replace")).split("\n")
        news = [entry for line in lines if (entry := parsed(line)) is not None]
        self.said |= {entry.event for entry in news}
        return news


def parsed(line: str) -> Entry | None:
    """A line of the product's log; None for a line of Spark's."""
    found = _LINE.match(line)
    return None if found is None else Entry(found["event"], dict(_VALUE.findall(found["rest"])))


def in_words(entries: Sequence[Entry]) -> list[str]:
    """What these lines mean to a person who waits for the queries, in their order; most of them mean nothing."""
    lines_found: list[str] = []
    started = [entry.values["query"] for entry in entries if entry.event == STARTED]
    for entry in entries:
        if entry.event == UP:
            lines_found.append(f"runner {entry.values['runner']} is up, with Spark {entry.values['spark']}")
        elif entry.event == STARTED and entry.values["query"] == started[-1]:
            lines_found.append(f"started on {entry.values['cluster']}: {', '.join(started)}")
        elif entry.event == WARM:
            read = " and ".join(re.findall(r"\d+", entry.values["records"]))
            lines_found.append(
                f"warmed up, in {entry.values['seconds']} s: a throw-away query with state read {read} records of the "
                "standby, stopped in between, as in a move"
            )
    return lines_found
