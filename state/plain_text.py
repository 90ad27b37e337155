"""What a person wrote, as one line that changes nothing around it: in a terminal, in a log, on a page."""

from collections.abc import Sequence

LONGEST = 500
"""Letters of a reason: the verbs and the API take no more."""


def plain(text: str) -> str:
    """The text without letters that a reader cannot see.

    Such letters move a terminal's cursor (ESC, C1), begin a forged line of a log (newline, U+2028) or reverse the
    rest of a line (U+202E). Each kind of space becomes a space. Every other one becomes U+FFFD, which shows its place.
    """
    return "".join(letter if letter.isprintable() else _instead_of(letter) for letter in text)


def _instead_of(letter: str) -> str:
    return " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"


def amount(count: int, noun: str) -> str:
    """A count with its noun: ``1 record``, ``2 records``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def few(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: ``a, b, c and 4 more``."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"
