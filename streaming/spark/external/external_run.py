"""A run of which only the commands of its application and its checkpoint are known."""

import threading
import time
import uuid
from datetime import timedelta
from typing import Any

from streaming.spark.errors import CheckpointError, CommandFailed
from streaming.spark.external.application_commands import ApplicationCommands, Status
from streaming.spark.external.start_notes import StartNotes
from streaming.spark.hosting import logger_about
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.query_run import Run

_STATUS_SECONDS = 1.0
"""How often a run that is only watched is looked at."""
_STOP_AGAIN_SECONDS = 5.0
_LOOK_SECONDS = 0.2


class ExternalRun(Run):
    """It has no query of Spark's here, so it cannot be held, and is stopped by its command.

    Once it was seen to have ended it has ended for good: what runs later is another run, which its stop must not meet.
    While a start may still take effect, ``status`` proves no end of a run that was not seen to run.
    """

    def __init__(self, commands: ApplicationCommands, notes: StartNotes) -> None:
        self.news = None
        self.run_id = str(uuid.uuid4())
        self.query_id = ""
        self._commands = commands
        self._notes = notes
        self._ran = False
        self._left = threading.Event()
        self._gate = CallbackGate()
        self._stopping = threading.Lock()
        self._reported = False
        self._kept_in_batch = False
        self._looking = threading.Lock()
        self._seen = Status(True, "")
        self._seen_at = time.monotonic()

    def look(self) -> Status:
        """Whether it runs, now."""
        with self._looking:
            return self._look()

    def _look(self) -> Status:
        if self._seen.runs is not False:
            said = self._commands.status()
            self._ran = self._ran or said.runs is True
            self._seen, self._seen_at = self._ended() if said.runs is False else said, time.monotonic()
        return self._seen

    def _ended(self) -> Status:
        """What an end is worth: one that others could take for no end later, by a note that stayed, is none."""
        owed = None if self._ran else self._notes.owed()
        if owed is not None:
            return Status(None, owed)
        try:
            self._notes.forget()
        except CheckpointError as error:
            return Status(None, f"the notes of its starts cannot be removed: {error}")
        return Status(False, "")

    @property
    def has_run(self) -> bool:
        """Whether it was seen to run."""
        return self._ran

    def leave(self) -> None:
        """Order no further stop: another run is looked after from here on."""
        self._left.set()

    @property
    def is_active(self) -> bool:
        """Whether it runs, or may run."""
        if time.monotonic() - self._seen_at >= _STATUS_SECONDS:
            self.look()
        return self._seen.runs is not False

    def error(self) -> str | None:
        return None if self.is_active else "the application has ended, and its own log says why"

    def trace(self) -> str | None:
        return None

    def progress(self) -> list[dict[str, Any]]:
        return []

    def last_progress(self) -> dict[str, Any] | None:
        return None

    @property
    def is_waiting(self) -> bool:
        """Only commits show that it goes forward."""
        return False

    def silence(self) -> timedelta | None:
        return None

    def pin(self, cluster: str, known: str) -> None:
        """Nothing in its driver listens."""

    def unrest(self) -> str | None:
        """What could still write, in one sentence; None once ``status`` says that it has ended."""
        if not self._looking.acquire(timeout=_LOOK_SECONDS):
            return "its application is being stopped"
        try:
            seen = self._look()
        finally:
            self._looking.release()
        if seen.runs is None:
            return seen.text
        return "its application still runs" if seen.runs else None

    def _stop(self) -> None:
        """Until it has ended: a command that fails, or that has no effect for a while, is run again."""
        while self._stop_once():
            again_at = time.monotonic() + _STOP_AGAIN_SECONDS
            while time.monotonic() < again_at:
                if self.look().runs is False or self._left.wait(_LOOK_SECONDS):
                    return

    def _stop_once(self) -> bool:
        """Look and stop in one: it is never stopped once it was seen to have ended. False where it was."""
        with self._looking:
            if self._look().runs is False or self._left.is_set():
                return False
            try:
                self._commands.stop()
            except CommandFailed as error:
                logger_about({"query": self._commands.values["query"]}).warning("not stopped yet", error=str(error))
            return True
