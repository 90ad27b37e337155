"""What can go wrong here.

TideoverError
├── Refused      nothing was written, and the message says why
└── WriteFailed  a cluster did not take what was written, or only a part of it
"""

from state.errors import TideoverError


class Refused(TideoverError):
    """Nothing was written."""

    kind = "refused"


class WriteFailed(TideoverError):
    """A cluster did not take what was written."""

    kind = "write-failed"
