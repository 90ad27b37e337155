"""What can go wrong in the orchestrator, and the exit code by which a program knows it.

TideoverError
├── UsageError         a verb was called in a way that cannot be meant              exit 2
├── ConfigError        the configuration has mistakes, all of them listed           exit 2
├── UnknownName        no such query, cluster or operation                          exit 2
├── Refused            a gate turned the verb down before anything was changed      exit 1
├── NotLeading         the lease was lost, or another process holds it                exit 3
├── NoEvidence         an operation has no document of evidence, or not any more   exit 3
├── OutcomeUnknown     the time to wait was up; the operation stays open            exit 3
├── IllegalMove        a phase met an event that its table does not know            exit 2
└── OperationFailed    an operation ended without reaching its aim                  exit 2
Every other branch (store, cluster, runner) is a failure: exit 2. ``run`` and ``control``, which a service manager
starts, end with 78 on a ``ConfigError`` or an ``UnknownName``: a restart cannot mend either.
"""

from collections.abc import Sequence
from enum import IntEnum

from orchestrator.decide.phases import IllegalMove
from state.errors import TideoverError
from state.model.entities import Request

__all__ = [
    "READINESS",
    "ConfigError",
    "ExitCode",
    "IllegalMove",
    "NoEvidence",
    "NotLeading",
    "OperationFailed",
    "OutcomeUnknown",
    "Refused",
    "UnknownName",
    "UsageError",
    "exit_code",
]


class ExitCode(IntEnum):
    """What a verb's exit code says. ``MISCONFIGURED`` is ``EX_CONFIG`` of BSD's ``sysexits.h``, which systemd knows."""

    DONE = 0
    REFUSED = 1
    FAILED = 2
    UNKNOWN = 3
    MISCONFIGURED = 78


READINESS = {True: ExitCode.DONE, False: ExitCode.REFUSED, None: ExitCode.UNKNOWN}
"""Of a verb that looks whether something is ready; None: it is not known."""


class OrchestratorError(TideoverError):
    """The orchestrator could not do what was requested."""

    exit_code: ExitCode = ExitCode.FAILED


class UsageError(OrchestratorError):
    """The command line does not make sense as it is."""

    kind = "usage"


class ConfigError(OrchestratorError):
    """The configuration cannot be used."""

    kind = "config"

    def __init__(self, message: str = "", *, hint: str = "", mistakes: Sequence[str] = ()) -> None:
        super().__init__("\n".join([message, *(f"  {mistake}" for mistake in mistakes)]), hint=hint)
        self.mistakes = tuple(mistakes)


class UnknownName(OrchestratorError):
    """Nothing has that name."""

    kind = "unknown-name"


class Refused(OrchestratorError):
    """A gate refused; nothing was changed."""

    kind = "refused"
    exit_code = ExitCode.REFUSED


class NotLeading(OrchestratorError):
    """Another process leads."""

    kind = "not-leading"
    exit_code = ExitCode.UNKNOWN


class NoEvidence(OrchestratorError):
    """There is no evidence of the operation, so nothing can be said of it."""

    kind = "no-evidence"
    exit_code = ExitCode.UNKNOWN


class OutcomeUnknown(OrchestratorError):
    """The time to wait is up; the operation stays open and can be joined."""

    kind = "outcome-unknown"
    exit_code = ExitCode.UNKNOWN

    def __init__(self, message: str = "", *, hint: str = "", requested: Sequence[Request] = ()) -> None:
        super().__init__(message, hint=hint)
        self.requested = tuple(requested)
        """The requests whose outcome is unknown, as far as it is known that they were written."""


class OperationFailed(OrchestratorError):
    """The operation ended without reaching its aim."""

    kind = "operation-failed"


def exit_code(error: TideoverError) -> ExitCode:
    """The exit code of a verb that ended with this error."""
    return error.exit_code if isinstance(error, OrchestratorError) else ExitCode.FAILED
