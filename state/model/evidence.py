"""The evidence of operations: one document each, in a chain in which each names the hash of the one before it. Pure.

A document is canonical JSON: keys sorted, no blanks, ASCII, no NaN. Its SHA-256 is that of these very bytes, so
``sha256sum`` of an exported file prints it. The chain's rows stay for ever; a document may go with its operation, and
its hash and place still prove that there was one, and link its neighbours.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from state.model.entities import Event

SHAPE = 1
"""The version of a document's keys."""
BEFORE_ALL = "0" * 64
"""What the first document names in place of a hash."""
KEPT = "evidence"
"""The kind of the line of history that announces a document and its hash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One link of the chain."""

    sequence: int
    """From 1 on, without a gap."""
    operation: str
    query: str
    sha256: str
    """Of the document, in hexadecimal."""
    previous: str
    """The hash of the document before it; ``BEFORE_ALL`` for the first."""
    written_at: datetime
    document: str | None
    """Canonical JSON; None once retention has deleted it with its operation."""


class Flaw(NamedTuple):
    """One thing that is wrong with the chain."""

    sequence: int
    operation: str | None
    """None where that is not known any more."""
    text: str


def canonical(value: object) -> str:
    """The one text of a JSON value. Raises ``ValueError`` for what JSON cannot say, ``TypeError`` for other objects."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def sha256_of(document: str) -> str:
    """The hash of a document's text."""
    return hashlib.sha256(document.encode()).hexdigest()


def sealed(facts: Mapping[str, object], *, operation: str, query: str, last: Evidence | None, at: datetime) -> Evidence:
    """The next link: the facts with their place in the chain behind ``last``, and the hash of both."""
    sequence, previous = (last.sequence + 1, last.sha256) if last is not None else (1, BEFORE_ALL)
    document = canonical({**facts, "shape": SHAPE, "sequence": sequence, "previous": previous})
    return Evidence(
        sequence=sequence,
        operation=operation,
        query=query,
        sha256=sha256_of(document),
        previous=previous,
        written_at=at,
        document=document,
    )


def announcement(kept: Evidence, *, epoch: int | None, actor: str) -> Event:
    """The line of history of a link: the history is append-only, so a chain that was cut short shows there."""
    return Event(
        sequence=None,
        at=kept.written_at,
        kind=KEPT,
        query=kept.query,
        operation=kept.operation,
        epoch=epoch,
        actor=actor,
        text=f"evidence {kept.sequence} of operation {kept.operation} is kept, sha256 {kept.sha256[:12]}",
        detail={"sequence": kept.sequence, "sha256": kept.sha256},
    )


class Chain:
    """Checks a chain link by link, in their order, so that a long one need not be in memory as a whole."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.links = 0
        self.documents = 0
        self._last: tuple[int, str] = (0, BEFORE_ALL)
        self._hashes: dict[int, str] = {}

    def add(self, rows: Iterable[Evidence]) -> None:
        """Check the next links; their flaws are added to those found."""
        for row in rows:
            self.links += 1
            self.documents += row.document is not None
            number, sha256 = self._last
            if row.sequence != number + 1:
                self._missing(number + 1, row.sequence - 1)
            elif row.previous != sha256:
                self._say(row, f"names a different predecessor than document {number}")
            if (wrong := wrong_in(row)) is not None:
                self._say(row, wrong)
            self._last = row.sequence, row.sha256
            self._hashes[row.sequence] = row.sha256

    def end(self, announced: Iterable[Event]) -> list[Flaw]:
        """Compare with the lines of history that are still kept, and return all that was found, in order."""
        for event in announced:
            sequence, sha256 = event.detail.get("sequence"), event.detail.get("sha256")
            if not isinstance(sequence, int):
                continue
            if sequence not in self._hashes:
                if sequence > self._last[0]:
                    self.flaws.append(Flaw(sequence, event.operation, "is missing: the history says that it was kept"))
            elif self._hashes[sequence] != sha256:
                self.flaws.append(Flaw(sequence, event.operation, "has another hash than the history says"))
        self.flaws.sort(key=lambda flaw: flaw.sequence)
        return self.flaws

    def _missing(self, first: int, last: int) -> None:
        if first > last:
            self.flaws.append(Flaw(last + 1, None, "appears twice or out of order"))
        for sequence in range(first, min(last, first + 99) + 1):
            self.flaws.append(Flaw(sequence, None, "is missing"))

    def _say(self, row: Evidence, text: str) -> None:
        self.flaws.append(Flaw(row.sequence, row.operation, text))


def wrong_in(row: Evidence) -> str | None:
    """What is wrong with one link alone; None if nothing is, or its document is gone."""
    if row.document is None:
        return None
    if sha256_of(row.document) != row.sha256:
        return "was changed: its hash is another one"
    try:
        said = json.loads(row.document)
        place = (said["sequence"], said["previous"], said["operation"]["id"])
    except (ValueError, TypeError, KeyError):
        return "cannot be read"
    kept = (row.sequence, row.previous, row.operation)
    return None if place == kept else "is not at the place in the chain that it names"
