"""The state machine of an operation: phases, events, and one table of moves.

Rules of the table. An operation is opened by its hold, so it starts in FENCING; WATCHING, SUSPECT and CONFIRMED come
before there is an operation: each verdict on the cluster leads to one of them, and from each a person may ask for a
move, automatic mode from CONFIRMED alone. Only what is not committed can be ABORTED: from STARTING on the point of no
return is passed, and the ways out are SETTLED, proven or not, and another runner, with which STARTING begins anew.
What a store that was put back takes for open is written as ABORTED by reconciling, wherever it stood.
BLOCKED waits for a condition or an operator, before the commit only. A pair that is not in the table is an
``IllegalMove``. Pause, cool-down, leadership and readiness are gates, not phases.

``docs/concepts.md`` shows the diagram made from this very table.
"""

from enum import StrEnum

from state.errors import TideoverError
from state.model import Phase
from state.sighting import WELL, Verdict


class Happening(StrEnum):
    """What moves an operation from phase to phase."""

    SEEN_WELL = "cluster answers"
    IN_DOUBT = "cluster in doubt"
    DOWN = "verdict down"
    HELD = "hold recorded"
    FENCED = "fence proven"
    UNPROVEN = "no fence evidence"
    NO_RUNNER = "no runner alive"
    UNBLOCKED = "condition holds again"
    RESOLVED = "gates passed"
    MOVED_ON = "checkpoint moved on"
    COMMITTED = "commit"
    STARTED = "runner starts"
    PROVEN = "first batch committed"
    UNVERIFIED = "standby gone or query failing"
    RUNNER_LOST = "runner silent, another alive"
    TAKEN_OVER = "lost run proven gone"
    GIVEN_UP = "refused or failed"
    RELEASED = "old run released"


class IllegalMove(TideoverError):
    """A phase met an event that its table does not know."""

    kind = "illegal-move"


FINAL = frozenset({Phase.SETTLED, Phase.ABORTED})
"""No move leads from these to another phase; ABORTED closes when the old run is released."""

TABLE: dict[tuple[Phase, Happening], Phase] = {
    (Phase.WATCHING, Happening.SEEN_WELL): Phase.WATCHING,
    (Phase.WATCHING, Happening.IN_DOUBT): Phase.SUSPECT,
    (Phase.WATCHING, Happening.DOWN): Phase.CONFIRMED,
    (Phase.WATCHING, Happening.HELD): Phase.FENCING,
    (Phase.SUSPECT, Happening.SEEN_WELL): Phase.WATCHING,
    (Phase.SUSPECT, Happening.IN_DOUBT): Phase.SUSPECT,
    (Phase.SUSPECT, Happening.DOWN): Phase.CONFIRMED,
    (Phase.SUSPECT, Happening.HELD): Phase.FENCING,
    (Phase.CONFIRMED, Happening.SEEN_WELL): Phase.WATCHING,
    (Phase.CONFIRMED, Happening.IN_DOUBT): Phase.SUSPECT,
    (Phase.CONFIRMED, Happening.DOWN): Phase.CONFIRMED,
    (Phase.CONFIRMED, Happening.HELD): Phase.FENCING,
    (Phase.FENCING, Happening.FENCED): Phase.RESOLVING,
    (Phase.FENCING, Happening.UNPROVEN): Phase.BLOCKED,
    (Phase.FENCING, Happening.NO_RUNNER): Phase.BLOCKED,
    (Phase.FENCING, Happening.GIVEN_UP): Phase.ABORTED,
    (Phase.BLOCKED, Happening.UNBLOCKED): Phase.FENCING,
    (Phase.BLOCKED, Happening.FENCED): Phase.RESOLVING,
    (Phase.BLOCKED, Happening.GIVEN_UP): Phase.ABORTED,
    (Phase.RESOLVING, Happening.RESOLVED): Phase.PREPARING,
    (Phase.RESOLVING, Happening.NO_RUNNER): Phase.BLOCKED,
    (Phase.RESOLVING, Happening.GIVEN_UP): Phase.ABORTED,
    (Phase.PREPARING, Happening.MOVED_ON): Phase.RESOLVING,
    (Phase.PREPARING, Happening.COMMITTED): Phase.STARTING,
    (Phase.PREPARING, Happening.NO_RUNNER): Phase.BLOCKED,
    (Phase.PREPARING, Happening.GIVEN_UP): Phase.ABORTED,
    (Phase.STARTING, Happening.STARTED): Phase.VERIFYING,
    (Phase.STARTING, Happening.RUNNER_LOST): Phase.STARTING,
    (Phase.STARTING, Happening.TAKEN_OVER): Phase.STARTING,
    (Phase.STARTING, Happening.UNVERIFIED): Phase.SETTLED,
    (Phase.VERIFYING, Happening.PROVEN): Phase.SETTLED,
    (Phase.VERIFYING, Happening.RUNNER_LOST): Phase.STARTING,
    (Phase.VERIFYING, Happening.UNVERIFIED): Phase.SETTLED,
    (Phase.ABORTED, Happening.RELEASED): Phase.ABORTED,
}

BEFORE_COMMIT = frozenset({Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING})
"""Where an operation can still be given up."""
BEHIND_COMMIT = frozenset({Phase.STARTING, Phase.VERIFYING, Phase.SETTLED})
"""Where an operation has placed its query."""


MEANING: dict[Phase, str] = {
    Phase.WATCHING: "there is no operation; the cluster answers",
    Phase.SUSPECT: "there is no operation; the cluster can be said to be neither well nor down",
    Phase.CONFIRMED: "there is no operation yet; the cluster is believed down",
    Phase.FENCING: "the query is held; the old run is stopped, and the evidence for that gathered",
    Phase.BLOCKED: "nothing proves that the old run is stopped, or no runner is alive: it waits",
    Phase.RESOLVING: "every partition's place on the standby is looked up, and the gates judge",
    Phase.PREPARING: "the checkpoint for the standby is made and read back; then comes the commit",
    Phase.STARTING: "committed: a runner starts the query on the standby",
    Phase.VERIFYING: "the query runs there; its first committed batch is waited for",
    Phase.SETTLED: "over behind the commit: `done`, or `failed` where no batch came in time",
    Phase.ABORTED: "over before the commit, or reconciled: the query stays where it was",
}
"""What each phase means, in one sentence."""


def move(phase: Phase, happening: Happening) -> Phase:
    """The next phase. Raises ``IllegalMove`` for a pair that the table does not list."""
    try:
        return TABLE[phase, happening]
    except KeyError:
        raise IllegalMove(f"{phase} does not know {happening.value!r}") from None


def watched(phase: Phase, verdict: Verdict) -> Phase:
    """The phase behind a verdict on the cluster, where there is no operation."""
    if verdict in WELL:
        return move(phase, Happening.SEEN_WELL)
    return move(phase, Happening.DOWN if verdict is Verdict.DOWN else Happening.IN_DOUBT)


def meanings() -> str:
    """The phases as a Markdown table."""
    return "".join(["| Phase | Meaning |\n|---|---|\n", *(f"| {phase} | {MEANING[phase]} |\n" for phase in Phase)])


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> WATCHING"]
    lines += [f"    {phase} --> {after}: {event.value}" for (phase, event), after in TABLE.items() if phase != after]
    lines += [f"    {phase} --> [*]" for phase in sorted(FINAL)]
    return "\n".join(lines) + "\n"
