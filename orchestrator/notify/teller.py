"""Sends to each receiver on a thread of its own, while this process leads.

The history is the queue, and the store holds how much of it each receiver has got. So a new leader continues there, and
a receiver that does not answer costs nothing but its own thread. A notice is sent first and written down afterwards. If
a leader is killed between the two, the next one repeats that one notice, with the same incident and line. One that is
repeated is better than one that is lost.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

import structlog

from orchestrator.errors import NotLeading
from orchestrator.notify.incidents import Notice, notices_for, report_of
from orchestrator.rounds import Rounds, cursor_of, newest_line
from state.model.automation import NoticeCursor
from state.model.entities import Event
from state.settings.keys import NotifyTarget
from state.store.controller_store import ControllerStore

LOOK_SECONDS = 1.0
SEND_SECONDS = 20.0
"""A receiver that has not answered by then has failed; it gets no other before that try has ended."""
PAUSE_SECONDS = 5.0
"""After a try that failed; it doubles up to ``LONGEST_PAUSE_SECONDS``."""
LONGEST_PAUSE_SECONDS = 300.0
GIVE_UP = timedelta(days=1)
"""After so long without a try that went well a notice is tried once."""
BATCH = 1000
"""How many lines are read at once; of more, the newest."""
WRITE_LINES = 100
"""The cursor is not stored for fewer lines than this that said nothing: reading them again gives the same result."""

log = structlog.get_logger()


class Channel(Protocol):
    """One receiver."""

    def send(self, notice: Notice) -> str:
        """Send it, and return why that failed, or nothing."""


@dataclass
class _Try:
    """One notice on its way, on a thread that may hang."""

    notice: Notice
    thread: threading.Thread
    result: list[str] = field(default_factory=list)


class Teller:
    """Sends to one receiver; called by one thread."""

    def __init__(
        self,
        store: ControllerStore,
        target: NotifyTarget,
        channel: Channel,
        term: Callable[[], int | None],
        *,
        since: int,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        """``since`` is the line of the history after which a new receiver gets its notices."""
        self._store = store
        self._since = since
        self._target = target
        self._channel = channel
        self._term = term
        self._send_seconds = send_seconds
        self._cursor: NoticeCursor | None = None
        self._of_term: int | None = None
        self._written = 0
        """The line up to which the store knows."""
        self._pause = PAUSE_SECONDS
        self._under_way: _Try | None = None

    def turn(self) -> float:
        """Send what is new; returns after how many seconds to do so again. Raises ``StoreError``."""
        term = self._term()
        if term is None:
            self._cursor = None
            return LOOK_SECONDS
        if self._cursor is None or term != self._of_term:
            self._cursor = cursor_of(self._store, self._target.name, term, since=self._since)
            self._of_term = term
            self._written = self._cursor.sequence
        cursor = self._cursor
        events = self._store.history(after=cursor.sequence, limit=BATCH)
        if not events and self._under_way is None:
            return LOOK_SECONDS
        names = {event.operation for event in events if event.operation is not None}
        operations = {found.id: found for found in map(self._store.operation, names) if found is not None}
        reports = [report for event in events if (report := report_of(event, operations)) is not None]
        notices, known = notices_for(self._target, reports, cursor.incidents)
        for notice in notices:
            if not self._send_one(notice, term):
                return self._pause_now(events)
        self._passed(events, known)
        return LOOK_SECONDS

    def _send_one(self, notice: Notice, term: int) -> bool:
        """Send one and write that down; whether it was taken."""
        if self._term() != term:
            return False
        error, sent = self._send(notice)
        cursor = self._known()
        if not error:
            if cursor.failing_since is not None:
                log.info("a receiver takes notices again", target=self._target.name)
            self._pause = PAUSE_SECONDS
            self._keep(
                replace(
                    cursor, sequence=max(cursor.sequence, sent.sequence), incidents=sent.incidents,
                    told_at=self._store.now(), failing_since=None, error="",
                )
            )  # fmt: skip
            return sent == notice
        if cursor.failing_since is None:
            log.warning("a receiver does not take notices; it is tried again", target=self._target.name, error=error)
        since = cursor.failing_since or self._store.now()
        self._keep(replace(cursor, failures=cursor.failures + 1, failing_since=since, error=error))
        return False

    def _send(self, notice: Notice) -> tuple[str, Notice]:
        """Why it failed, or nothing; and the notice that was under way."""
        attempt = self._under_way
        if attempt is None:
            result: list[str] = []
            thread = threading.Thread(target=lambda: result.append(self._sent(notice)), daemon=True)
            attempt = self._under_way = _Try(notice, thread, result)
            thread.start()
        attempt.thread.join(self._send_seconds)
        if attempt.thread.is_alive():
            return f"no answer within {self._send_seconds:.0f} s", attempt.notice
        self._under_way = None
        return (attempt.result or ["it ended without an answer"])[0], attempt.notice

    def _sent(self, notice: Notice) -> str:
        try:
            return self._channel.send(notice)
        except Exception as why:  # noqa: BLE001 - whatever a receiver's library raises, it did not take it
            return f"{type(why).__name__}"

    def _pause_now(self, events: Sequence[Event]) -> float:
        cursor = self._known()
        if cursor.failing_since is None:
            return 0.0  # what was under way before was taken; the rest comes now
        if events and self._store.now() - cursor.failing_since > GIVE_UP and self._under_way is None:
            log.error("notices were given up", target=self._target.name, up_to_line=events[-1].sequence)
            self._keep(replace(cursor, sequence=events[-1].sequence or cursor.sequence))
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return pause

    def _passed(self, events: Sequence[Event], known: Mapping[str, str]) -> None:
        """All of these lines were sent, or need not be."""
        cursor = self._known()
        if not events:
            return
        last = events[-1].sequence or 0
        self._cursor = replace(cursor, sequence=max(cursor.sequence, last), incidents=known)
        if known != cursor.incidents or last - self._written >= WRITE_LINES:
            self._keep(self._cursor)

    def _known(self) -> NoticeCursor:
        if self._cursor is None:
            raise NotLeading
        return self._cursor

    def _keep(self, cursor: NoticeCursor) -> None:
        if self._of_term is None:
            raise NotLeading
        self._cursor = cursor
        self._store.keep_notice_cursor(cursor, term=self._of_term)
        self._written = cursor.sequence


class Notices:
    """All receivers of one controller."""

    def __init__(
        self,
        store: ControllerStore,
        targets: Sequence[NotifyTarget],
        channels: Mapping[str, Channel],
        term: Callable[[], int | None],
    ) -> None:
        """``channels`` are by the name of the target. Raises ``StoreError``.

        A new receiver gets what happens after this call, and not after the first turn of its thread. On a busy machine
        the verdicts of a cluster that is down are written before that turn.
        """
        since = newest_line(store)
        over, bug = threading.Event(), "a bug in Tideover; notices are tried again"
        tellers = {each.name: Teller(store, each, channels[each.name], term, since=since) for each in targets}
        self._rounds = [
            Rounds(f"notify:{name}", teller.turn, pause=LOOK_SECONDS, bug=bug, over=over)
            for name, teller in tellers.items()
        ]

    def begin(self) -> None:
        """Begin to send."""
        for each in self._rounds:
            each.begin()

    def close(self, grace: float = 5.0) -> None:
        """Begin no more notices, and wait so long at most for those that are under way."""
        for each in self._rounds:
            each.close(grace)
