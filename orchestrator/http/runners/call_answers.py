"""Answers the calls of runners: by the token's scope, from the store, one call at a time."""

import functools
import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.http.runners.call_scope import RULES, CallScope
from state.errors import NotAllowed
from state.model.entities import Intent
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.remote.runner_calls import CALLS, WAIT_SECONDS
from state.store.wakeups import Wakeups

_GAP_SECONDS = 0.02
"""Between two looks for a change: SQLite wakes for everything that is written."""
_LOOK_SECONDS = 1.0


@dataclass
class RunnerCalls:
    """All of one server. ``close`` ends what waits."""

    store: ControllerStore
    settings: Tideover
    scope: type[CallScope] = CallScope
    """What a token may do."""
    _wakeups: Wakeups | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Let everything go that waits."""
        self._over.set()
        with self._lock:
            if self._wakeups is not None:
                self._wakeups.close()

    def answer(self, runner: str, name: str, body: bytes) -> bytes:
        """The answer to one call. Raises ``NotAllowed``, ``UsageError`` and ``StoreError``; nothing is done then."""
        call, rule = CALLS[name], RULES[name]
        scope = self.scope(self.settings, runner, functools.cache(self.store.assignments), self.store.operation)
        try:
            sent = call.read(body)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{name}: {error}", hint="install the same version of Tideover on runner and controller"
            ) from None
        refused = rule.refusal(scope, sent)
        if refused is not None:
            raise NotAllowed(refused)
        try:
            found = self._done(scope, name, sent)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
        hidden = rule.hidden(scope, found)
        if hidden is not None:
            raise NotAllowed(hidden)
        return call.write_result(rule.shown(scope, found))

    def _done(self, scope: CallScope, name: str, sent: Mapping[str, Any]) -> Any:
        if name == "await_change":
            return self._await_change(scope, sent["mark"], sent["seconds"])
        if name == "report" and not self._is_own(scope, sent["intent"]):
            return False
        return getattr(self.store, name)(**sent)

    def _is_own(self, scope: CallScope, answer: Intent) -> bool:
        """Whether the intent under an answer's id is this runner's: an id could be that of another one's."""
        return any(
            each.id == answer.id and each.runner == scope.runner for each in self.store.intents(answer.operation)
        )

    def _await_change(self, scope: CallScope, mark: str, seconds: float) -> str:
        """A mark of what the runner obeys, as soon as it is not ``mark``, and at the latest after ``seconds``."""
        wakeups, until = self._heard(), time.monotonic() + min(max(0.0, seconds), WAIT_SECONDS)
        while True:
            woken = wakeups.count
            now = self._mark(scope)
            left = until - time.monotonic()
            if now != mark or left <= 0 or self._over.is_set():
                return now
            wakeups.wait(woken, min(left, _LOOK_SECONDS))
            self._over.wait(_GAP_SECONDS)

    def _mark(self, scope: CallScope) -> str:
        rows = [row for row in self.store.assignments() if scope.has_row(row)]
        orders = [each.id for each in self.store.pending_intents(scope.runner)]
        return hashlib.sha256(repr((rows, orders)).encode()).hexdigest()

    def _heard(self) -> Wakeups:
        """Made for the first runner that waits."""
        with self._lock:
            if self._wakeups is None:
                self._wakeups = self.store.wakeups()
            return self._wakeups
