"""The root of every error Tideover raises on purpose.

It sits in the lowest layer so that each layer can grow its own branch without importing upwards. An error carries
two sentences, not one: what could not be done, and what the reader can do about it.
"""

from typing import ClassVar


class TideoverError(Exception):
    """Something could not be done, and the message says what."""

    kind: ClassVar[str] = "error"
    """One stable word for logs, metrics and JSON; each branch of the tree sets its own."""

    hint: str
    """The way out, as one sentence; empty when there is none to offer."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])
        self.hint = hint
