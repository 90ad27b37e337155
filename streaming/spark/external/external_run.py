"""A run of which only the commands of its application and its checkpoint are known."""

import threading
import uuid
from datetime import timedelta
from typing import Any

from streaming.spark.external.application_commands import Status
from streaming.spark.external.application_state import ApplicationState
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.query_run import Run


class ExternalRun(Run):
    """Of one query. It has no query of Spark's here, so it cannot be held, and is stopped with its application."""

    def __init__(self, state: ApplicationState) -> None:
        self.news = None
        self.run_id = str(uuid.uuid4())
        self.query_id = ""
        self._state = state
        self._gate = CallbackGate()
        self._stopping = threading.Lock()
        self._reported = False
        self._kept_in_batch = False

    def look(self) -> Status:
        """Whether its application runs, now."""
        return self._state.look()

    def leave(self) -> None:
        """Order no further stop: another run is looked after from here on."""
        self._state.leave()

    @property
    def is_active(self) -> bool:
        """Whether it runs, or may run."""
        return self._state.is_active

    def error(self) -> str | None:
        return None if self.is_active else self._state.ended_because

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
        return self._state.unrest()

    def _stop(self) -> None:
        self._state.stop()
