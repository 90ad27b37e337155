"""One gate's answer, and an operator's consents, which pass one.

Most consents accept what a move costs. ``unfenced`` takes upon itself what one run may still do, so it is recorded with
the run that its giver saw, and counts for that run alone. The next run that nothing proves stopped may be alive, and
wants a word of its own. ``move`` is given by a person who requests a move that automatic mode has begun already.
"""

from collections.abc import Iterable

from state.messages import Process
from state.model.automation import AUTOMATIC
from state.model.entities import Operation
from state.model.plan import Gate as Gate

UNKNOWN = "unknown"
"""What a gate has measured when it could not measure."""


def answer(name: str, ok: bool, measured: object, limit: object, good: str, bad: str) -> Gate:
    return Gate(name=name, ok=ok, measured=str(measured), limit=str(limit), text=good if ok else bad)


UNFENCED = "unfenced"
MOVE = "move"


def is_attended(operation: Operation) -> bool:
    """Whether a person requested a move, at first or when it had begun: what is unknown is that person's risk then."""
    return operation.actor != AUTOMATIC or MOVE in operation.consents


def unfenced_consent(run: Process | None) -> str:
    """The consent to continue although nothing proves that this run has stopped, as it is recorded."""
    return UNFENCED if run is None else f"{UNFENCED} ({run_name(run)})"


def run_name(run: Process) -> str:
    """A run by what distinguishes it from every other one."""
    epoch = "no epoch yet" if run.epoch is None else f"epoch {run.epoch}"
    return f"runner {run.runner} on {run.host}, {epoch}, instance {run.instance}"


def bind_consents(consents: Iterable[str], run: Process | None) -> tuple[str, ...]:
    """Consents as they were typed, with the run that ``unfenced`` was given for."""
    return tuple(unfenced_consent(run) if consent == UNFENCED else consent for consent in consents)


def covers(consents: Iterable[str], run: Process | None) -> bool:
    """Whether a person has consented to continue without proof that this very run has stopped."""
    return unfenced_consent(run) in consents


def is_for_another_run(consents: Iterable[str], run: Process | None) -> bool:
    """Whether ``unfenced`` was given, and for another run only."""
    given = [consent for consent in consents if consent.startswith(UNFENCED)]
    return bool(given) and unfenced_consent(run) not in given
