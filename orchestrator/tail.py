"""What is new in the history since it was read last, for all who follow it; a store that was put back is noticed.

A sequence number alone does not do: once the store is put back to an older copy, what comes has numbers of lines that
were told already. So the line that was told last is read again each time, and where it is gone, the new end counts.
"""

from collections.abc import Callable, Sequence

from state.model import Event

BATCH = 100_000
"""Events that are read at once, the newest of them if there are more."""

Read = Callable[[int, int], Sequence[Event]]
"""Events after a sequence number, the newest so many."""


class Tail:
    """Reads on from where it was; ``put_back`` is told the last number told and the one where the history ends now."""

    def __init__(self, read: Read, *, put_back: Callable[[int, int], None]) -> None:
        self._read = read
        self._put_back = put_back
        self._told = 0

    def begin(self, newest: int) -> Sequence[Event]:
        """The newest so many; what comes behind them is new. Raises ``StoreError``."""
        events = self._read(0, newest)
        self._told = (events[-1].sequence or 0) if events else 0
        return events

    def news(self) -> Sequence[Event]:
        """What came since; nothing where the history was put back. Raises ``StoreError``."""
        told = self._told
        events = self._read(told - 1, BATCH)
        if told and not (events and events[0].sequence == told):
            self.begin(1)
            if self._told != told:
                self._put_back(told, self._told)
            return ()
        new = [event for event in events if event.sequence != told]
        if new:
            self._told = new[-1].sequence or told
        return new
