"""Notes beside a checkpoint: for which place its application was started from here, and whether a start is unsettled.

They outlive the process that writes them. A start that was begun and not seen to have taken effect may still do so, and
until then its application has not ended, whatever ``status`` says.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from state.model.entities import Assignment
from state.settings.keys import Tideover
from state.store.runner_store import RunnerStore
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.errors import CheckpointError, FileVanished, MalformedEntry
from streaming.spark.hosting import absolute

STARTED = "_tideover_started"
"""The folder of the notes; Spark passes over it."""
EFFECT_SECONDS = 300.0
"""How long after its command a start may take until ``status`` says that the application runs."""
_BEGUN, _IDENTITY = "begun", "identity"


class StartNotes:
    """Of one checkpoint."""

    def __init__(self, files: CheckpointFiles, checkpoint: str, now: Callable[[], datetime]) -> None:
        self._files = files
        self._folder = join(checkpoint, STARTED)
        self._now = now

    def begin(self, seconds: float) -> None:
        """A start is about to run, or has run: for so long it may take effect. Raises ``CheckpointError``."""
        until = self._now() + timedelta(seconds=seconds)
        self._files.replace(join(self._folder, _BEGUN), json.dumps({"until": until.isoformat()}).encode())

    def keep(self, place: str) -> None:
        """The application was started from here for a place, by the name of its mapping. Raises ``CheckpointError``."""
        self._files.create_atomically(join(self._folder, place), b"")

    def identify(self, identity: str) -> None:
        """What was started from here is this, as its ``status`` names it. Raises ``CheckpointError``."""
        self._files.replace(join(self._folder, _IDENTITY), identity.encode())

    def identity(self) -> str | None:
        """The same, where it was named. Raises ``CheckpointError``."""
        try:
            return self._files.read_bytes(join(self._folder, _IDENTITY)).decode()
        except FileVanished:
            return None

    def settle(self) -> None:
        """The start has taken effect, or never will. Raises ``CheckpointError``."""
        self._files.delete(join(self._folder, _BEGUN))

    def forget(self) -> None:
        """Nothing runs that was started from here. Raises ``CheckpointError``."""
        for name in self._files.list_names(self._folder):
            if name != _BEGUN:
                self._files.delete(join(self._folder, name))

    def has(self, place: str) -> bool:
        """Whether what runs was started from here for a place. Raises ``CheckpointError``."""
        return place in self._files.list_names(self._folder)

    @property
    def is_unsettled(self) -> bool:
        """Whether a start was begun of which the effect was not seen. Raises ``CheckpointError``."""
        return _BEGUN in self._files.list_names(self._folder)

    def until(self) -> datetime | None:
        """Until when a start may still take effect; None where none was begun. Raises ``CheckpointError``."""
        path = join(self._folder, _BEGUN)
        try:
            return datetime.fromisoformat(json.loads(self._files.read_bytes(path))["until"])
        except FileVanished:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedEntry(f"{path} does not say until when a start may take effect") from error

    def owed(self) -> str | None:
        """Why ``status`` proves no end yet, in one sentence; None where it does."""
        try:
            until = self.until()
        except CheckpointError as error:
            return f"the notes of its starts cannot be read: {error}"
        if until is None or self._now() >= until:
            return None
        return f"a start was begun and not seen to run, and it may take effect until {until:%H:%M:%S} UTC"


def notes_checkpoint(settings: Tideover, row: Assignment, store: RunnerStore, base: Path) -> str:
    """The checkpoint beside which the starts of an application are noted: that of its first query.

    Raises ``StoreError``.
    """
    others = settings.companions(row.query)
    first = next(name for name in settings.queries if name in {row.query, *others})
    if first == row.query:
        return row.checkpoint
    known = store.assignment(first)
    return known.checkpoint if known is not None else absolute(settings.queries[first].checkpoint, base)
