"""The reset table of the KIP-320 draft: where a reader goes that cannot go on where it stood.

Kafka shipped ``latest``, ``earliest`` and ``none`` (``auto.offset.reset``) and left ``closest`` out; here all four are
the words of ``policy.on_no_match``, where ``fail`` is Kafka's ``none``. The table is data, so that it can be read and
tested beside the document; what a row means for one log is in ``resolved``.
"""

from collections.abc import Mapping
from enum import StrEnum


class Situation(StrEnum):
    """Why a reader cannot go on where it stood: the columns of the table."""

    INITIAL = "nothing was read yet"
    TOO_LOW = "the log begins after the position"
    KNOWN = "the log was cut, and where is known"
    UNKNOWN = "the log was cut, and where is not known"


class Goto(StrEnum):
    """Where the table sends a reader."""

    BEGIN = "log start offset"
    END = "log end offset"
    DIVERGENCE = "truncation offset"
    TIME = "by timestamp, else log end offset"
    NOWHERE = "nowhere: a person decides"


_COLUMNS = (Situation.INITIAL, Situation.TOO_LOW, Situation.KNOWN, Situation.UNKNOWN)
_ROWS: Mapping[str, tuple[Goto, Goto, Goto, Goto]] = {
    "latest": (Goto.END, Goto.END, Goto.DIVERGENCE, Goto.END),
    "earliest": (Goto.BEGIN, Goto.BEGIN, Goto.DIVERGENCE, Goto.BEGIN),
    "closest": (Goto.BEGIN, Goto.BEGIN, Goto.DIVERGENCE, Goto.TIME),
    "fail": (Goto.NOWHERE, Goto.NOWHERE, Goto.NOWHERE, Goto.NOWHERE),
}
TABLE: Mapping[tuple[str, Situation], Goto] = {
    (policy, situation): goto for policy, row in _ROWS.items() for situation, goto in zip(_COLUMNS, row, strict=True)
}
"""By policy and situation."""


def resolved(
    goto: Goto, *, begin: int, end: int, divergence: int | None = None, by_time: int | None = None
) -> int | None:
    """The offset that a row of the table means in a log of ``[begin, end]``, clamped to it; None: nowhere.

    ``divergence`` is needed where the table says so; without ``by_time`` the closest is the end, as where the message
    format has no timestamps.
    """
    wanted = {Goto.BEGIN: begin, Goto.END: end, Goto.DIVERGENCE: divergence, Goto.NOWHERE: None}
    offset = (end if by_time is None else by_time) if goto is Goto.TIME else wanted[goto]
    return None if offset is None else min(max(offset, begin), end)
