"""Lines of the history as the desk lists them: all lines of one operation are one row. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from state.model.entities import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRow:
    """One line, and the earlier lines of the same operation."""

    event: Event
    """The newest of them."""
    earlier: tuple[Event, ...]
    """Newest first."""


def folded(events: Iterable[Event]) -> list[HistoryRow]:
    """``events``, oldest first, as rows, newest first."""
    heads: dict[object, list[Event]] = {}
    for event in reversed(list(events)):
        heads.setdefault(event.operation or (event.sequence, id(event)), []).append(event)
    return [HistoryRow(event=lines[0], earlier=tuple(lines[1:])) for lines in heads.values()]


def unfolded(events: Iterable[Event]) -> list[HistoryRow]:
    """Each line as a row of its own, newest first."""
    return [HistoryRow(event=event, earlier=()) for event in reversed(list(events))]
