"""Whether an application runs, as its ``status`` says, and its stop: one for all queries of it in this process."""

import threading
import time

from streaming.spark.errors import CheckpointError, CommandFailed
from streaming.spark.external.application_commands import ApplicationCommands, Status
from streaming.spark.external.start_notes import StartNotes
from streaming.spark.hosting import logger_about

STATUS_SECONDS = 1.0
"""How often an application that is only watched is looked at."""
STOP_AGAIN_SECONDS = 5.0
LOOK_SECONDS = 0.2


class Stops:
    """When an application was ordered to stop last: two of its queries order it once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: float | None = None

    def is_due(self) -> bool:
        """Whether it is to be ordered now; then the caller does it."""
        with self._lock:
            now = time.monotonic()
            is_due = self._last is None or now - self._last >= STOP_AGAIN_SECONDS
            self._last = now if is_due else self._last
            return is_due

    def forget(self) -> None:
        """What is ordered next is another start of it."""
        with self._lock:
            self._last = None


class ApplicationState:
    """Of one start of an application, or of what may run of earlier ones.

    Once it was seen to have ended it has ended for good: what runs later is another one, which its stop must not meet.
    While a start may still take effect, ``status`` proves no end of an application that was not seen to run. What runs
    with another identity than before is another start of it, but not while it is stopped: then all of it has to end.
    """

    def __init__(
        self,
        commands: ApplicationCommands,
        notes: StartNotes,
        stops: Stops | None = None,
        *,
        compares_identities: bool = False,
        identity: str | None = None,
    ) -> None:
        """``compares_identities``: to know starts of the application apart; ``identity``: of the one that is meant."""
        self.commands = commands
        self.ended_because = "the application has ended, and its own log says why"
        self._compares_identities = compares_identities
        self._identity = identity
        self._notes = notes
        self._stops = Stops() if stops is None else stops
        self._ran = False
        self._left = threading.Event()
        self._looking = threading.Lock()
        self._seen = Status(True, "")
        self._seen_at = time.monotonic()

    def look(self) -> Status:
        """Whether it runs, now."""
        with self._looking:
            return self._look()

    def _look(self) -> Status:
        if self._seen.runs is not False:
            said = self.commands.status()
            self._ran = self._ran or said.runs is True
            is_over = said.runs is False or self._is_another(said)
            self._seen, self._seen_at = self._ended() if is_over else said, time.monotonic()
        return self._seen

    def _is_another(self, said: Status) -> bool:
        if said.identity is None or not self._compares_identities:
            return False
        known, self._identity = self._identity, said.identity
        if known in {None, said.identity}:
            return False
        self.ended_because = (
            f"the application was started again, and not by Tideover: it was {known}, and {said.identity} runs now"
        )
        return True

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

    def leave(self) -> None:
        """Order no further stop: another one is looked after from here on."""
        self._left.set()

    @property
    def is_active(self) -> bool:
        """Whether it runs, or may run; a look of a moment ago counts."""
        if time.monotonic() - self._seen_at >= STATUS_SECONDS:
            self.look()
        return self._seen.runs is not False

    def unrest(self) -> str | None:
        """What could still write, in one sentence; None once ``status`` says that it has ended."""
        if not self._looking.acquire(timeout=LOOK_SECONDS):
            return "its application is being stopped"
        try:
            seen = self._look()
        finally:
            self._looking.release()
        if seen.runs is None:
            return seen.text
        return "its application still runs" if seen.runs else None

    def stop(self) -> None:
        """Until it has ended: a command that fails, or that has no effect for a while, is run again."""
        self._compares_identities = False
        while self._stop_once():
            again_at = time.monotonic() + STOP_AGAIN_SECONDS
            while time.monotonic() < again_at:
                if self.look().runs is False or self._left.wait(LOOK_SECONDS):
                    return

    def _stop_once(self) -> bool:
        """Look and stop in one: it is never stopped once it was seen to have ended. False where it was."""
        with self._looking:
            if self._look().runs is False or self._left.is_set():
                return False
            if self._stops.is_due():
                try:
                    self.commands.stop()
                except CommandFailed as error:
                    logger_about({"query": self.commands.values["query"]}).warning("not stopped yet", error=str(error))
            return True
