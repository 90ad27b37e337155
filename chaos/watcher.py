"""Watches the environment by `tideover watch -o json`, from inside of it: one line for every change."""

import json
import subprocess
import threading
import time
from collections.abc import Callable

from chaos.docker import Environment
from chaos.errors import DockerFailed, ScenarioFailed
from chaos.faults import Observation

TOOLS = "verifier"
"""The service that verbs are typed in."""

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_ONE_LOOK = "timeout 30 tideover watch --interval 250ms -o json | head -n 1"


class Watcher:
    """Collects every situation that was printed; one for an environment, for what it starts there outlives it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._sights: list[Observation] = []
        self.reconnects: list[float] = []
        """Unix times at which the watch ended; it is started again then, with the whole situation."""
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> "Watcher":
        return self

    def begin(self) -> None:
        """Watch from now on, once the environment is there."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._process is not None:
            self._process.kill()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def mark(self) -> int:
        """Where we are, for ``since``."""
        return len(self._sights)

    def since(self, mark: int) -> list[Observation]:
        """What was seen since a mark, and the situation at it."""
        return self._sights[max(0, mark - 1) :]

    def look(self) -> Observation | None:
        """How things are now, read again; None where that cannot be read, as while the store is away.

        The watch ends once its reader has gone, so this leaves no process behind.
        """
        try:
            reported = self._environment.execute(TOOLS, "sh", "-c", _ONE_LOOK, check=False)[1]
        except DockerFailed:
            return None
        return _read(reported)

    def await_sight(
        self,
        holds: Callable[[Observation], bool],
        seconds: float,
        what: str,
        *,
        afresh: Callable[[Observation], bool] | None = None,
    ) -> Observation:
        """Wait until the newest situation is as wanted. Raises StoryFailed.

        Only changes are printed, and nothing while the store is away, so the newest situation may be one of long ago.
        ``afresh`` must hold, too, of one that was read since this waiting began; that one is returned then.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._thread.is_alive():  # else the newest situation would stand for ever
                raise ScenarioFailed(f"the watch has ended, so it is unknown whether this happened: {what}")
            if self._sights and holds(newest := self._sights[-1]):
                if afresh is None:
                    return newest
                if (seen := self.look()) is not None and afresh(seen):
                    return seen
            time.sleep(_LOOK_SECONDS)
        raise ScenarioFailed(f"this did not happen within {seconds:g} s: {what}")

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._process = self._environment.stream(TOOLS, "tideover", "watch", "-o", "json")
            except DockerFailed:
                self._over.wait(_AGAIN_SECONDS)
                continue
            with self._process as process:
                for line in process.stdout or ():
                    if (sight := _read(line)) is not None:
                        self._sights.append(sight)
            if self._sights and not self._over.is_set():  # before the store is there, it ends again and again
                self.reconnects.append(time.time())
            self._over.wait(_AGAIN_SECONDS)


def _read(line: str) -> Observation | None:
    """A situation; nothing where the verb says what is wrong instead, as before the store is there."""
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return Observation(answer) if isinstance(answer, dict) and "clusters" in answer else None
