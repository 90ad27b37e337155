"""What is new in the history, for all who follow it; a verb that only looks loads this and no logger."""

from collections.abc import Callable, Sequence

from state.model.entities import Event

BATCH = 100_000
"""Events that are read at once, the newest of them if there are more."""

Read = Callable[[int, int], Sequence[Event]]
"""Events after a sequence number, the newest this many."""


class HistoryTail:
    """What is new in the history since it was read last, for all who follow it; a store that was restored is noticed.

    A sequence number alone does not do: once the store is restored from an older copy, what comes has the numbers of
    lines that were shown already. So the last line shown is read again each time. Another line under its number, or
    none while it is too young to be pruned, is the sign of a restored store. What was written after that line's time is
    new then. A line that is gone for its age is no sign of anything.

    ``restored`` is called with the last line shown once the store has lost it. ``is_kept`` says whether a line is too
    young to have been pruned; it is called only for a line that is gone.
    """

    def __init__(self, read: Read, *, restored: Callable[[Event], None], is_kept: Callable[[Event], bool]) -> None:
        self._read = read
        self._restored = restored
        self._is_kept = is_kept
        self._shown: Event | None = None

    def begin(self, newest: int) -> Sequence[Event]:
        """The newest this many; what comes behind them is new. Raises ``StoreError``."""
        return self._show(self._read(0, newest))

    def news(self) -> Sequence[Event]:
        """What was written since. Raises ``StoreError``."""
        shown = self._shown
        if shown is None or shown.sequence is None:
            return self._show(self._read(0, BATCH))
        events = self._read(shown.sequence - 1, BATCH)
        if events and events[0].sequence == shown.sequence:
            return self._show(events[1:]) if _is_same(events[0], shown) else self._begin_again(shown)
        if events or not self._is_kept(shown):  # pruned, or left out of more than can be read at once
            return self._show(events)
        return self._begin_again(shown)

    def _begin_again(self, lost: Event) -> Sequence[Event]:
        events = self._read(0, BATCH)
        self._shown = None
        self._restored(lost)
        self._show(events)
        return [event for event in events if event.at > lost.at]

    def _show(self, events: Sequence[Event]) -> Sequence[Event]:
        if events:
            self._shown = events[-1]
        return events


def _is_same(event: Event, other: Event) -> bool:
    return (event.sequence, event.at, event.kind, event.text) == (other.sequence, other.at, other.kind, other.text)
