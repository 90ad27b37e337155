"""What can go wrong in the lab.

LabError
├── NoWorld          nothing was ever brought up in this directory
├── Refused          the request contradicts what is there; nothing was done
├── StartFailed      a process of the world did not come up; carries the end of its log
├── ClusterSilent    a cluster did not answer in time
├── NotDelivered     a cluster did not take every record that was written to it
├── NoSink           a query has written nothing yet
└── Unjudgeable      what shall be judged is not what the judge knows: nothing was judged
"""

from typing import ClassVar

from state.errors import TideoverError

ERROR = "error: "
"""How the line begins that says why a verb failed."""


class LabError(TideoverError):
    """The lab could not do what was requested."""

    kind = "lab"
    exit_code: ClassVar[int] = 2


class NoWorld(LabError):
    """There is no world in this directory."""

    kind = "no-world"


class Refused(LabError):
    """The request contradicts what is there, and nothing was done."""

    kind = "refused"
    exit_code = 1


class StartFailed(LabError):
    """A process of the world did not come up."""

    kind = "start-failed"


class ClusterSilent(LabError):
    """A cluster did not answer in time."""

    kind = "cluster-silent"


class NotDelivered(LabError):
    """A cluster did not take every record that was written to it."""

    kind = "not-delivered"


class NoSink(LabError):
    """A query has written nothing, though records were acknowledged."""

    kind = "no-sink"


class Unjudgeable(LabError):
    """The judge does not know what it shall judge, and judged nothing."""

    kind = "unjudgeable"
