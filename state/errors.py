"""The root of every error Tideover raises on purpose.

It sits in the lowest layer so that each layer can grow its own branch without importing upwards. An error carries
two sentences, not one: what could not be done, and what the reader can do about it.

TideoverError
└── StoreError            the store refused
    ├── StoreUnavailable  out of reach or locked. Only here can retrying help.
    ├── StaleTerm         another controller leads
    ├── RowRefused        the store is well, and one row cannot be written or read
    │   ├── Conflict      contradicts what is stored
    │   ├── Damaged       what is kept there cannot be read
    │   └── NotAllowed    belongs to another runner
    ├── SchemaNewer       written by a newer program
    └── SchemaOlder       older, or none yet
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


class StoreError(TideoverError):
    """The store refused a request or could not do it."""

    kind = "store"


class StoreUnavailable(StoreError):
    """The store cannot be reached right now, or is locked; retrying can help."""

    kind = "store-unavailable"


class StaleTerm(StoreError):
    """Another controller leads: this write came with a term that is over, and nothing was written."""

    kind = "stale-term"


class RowRefused(StoreError):
    """The store is well, but this one row cannot be written or read.

    Of all errors of the store only this one says nothing of other rows: a loop over queries continues with the next
    one. Every other error of the store ends the round.
    """

    kind = "row-refused"


class Conflict(RowRefused):
    """The write contradicts what the store holds, and nothing was written."""

    kind = "conflict"


class Damaged(RowRefused):
    """What is kept in the store is damaged and cannot be read."""

    kind = "damaged"


class NotAllowed(RowRefused):
    """The token of this runner does not allow that, and nothing was read or written."""

    kind = "not-allowed"


class SchemaNewer(StoreError):
    """The store was written by a newer version of Tideover."""

    kind = "schema-newer"


class SchemaOlder(StoreError):
    """The store's schema is older than this version of Tideover, or there is none yet."""

    kind = "schema-older"
