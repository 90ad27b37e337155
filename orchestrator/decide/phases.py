"""The state machine of an operation: phases, events, and one table of moves.

Rules of the table. An operation is opened by its hold, so it starts in FENCING; WATCHING, SUSPECT and CONFIRMED come
before there is an operation. Each verdict on the cluster leads to one of them, and from each a person may request a
move, automatic mode from CONFIRMED alone. Only what is not committed can be ABORTED. From STARTING on the point of no
return is passed, and the ways out are SETTLED, proven or not, and another runner, with which STARTING begins again.
What a store that was put back takes for open is written as ABORTED by reconciling, in whatever phase it was. BLOCKED
waits for a condition or an operator, before the commit only. A pair that is not in the table is an ``IllegalMove``.
Pause, cool-down, leadership and readiness are gates, not phases.

``docs/concepts.md`` shows the diagram made from this very table.
"""

from enum import StrEnum

from state.errors import TideoverError
from state.model.cluster_status import GONE, WELL, Verdict
from state.model.entities import OperationKind, Phase


class Trigger(StrEnum):
    """What moves an operation from phase to phase."""

    SEEN_WELL = "cluster answers"
    IN_DOUBT = "cluster in doubt"
    DOWN = "verdict down"
    HELD = "hold recorded"
    FENCED = "fence proven"
    UNPROVEN = "no fence proof"
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

TABLE: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.WATCHING, Trigger.SEEN_WELL): Phase.WATCHING,
    (Phase.WATCHING, Trigger.IN_DOUBT): Phase.SUSPECT,
    (Phase.WATCHING, Trigger.DOWN): Phase.CONFIRMED,
    (Phase.WATCHING, Trigger.HELD): Phase.FENCING,
    (Phase.SUSPECT, Trigger.SEEN_WELL): Phase.WATCHING,
    (Phase.SUSPECT, Trigger.IN_DOUBT): Phase.SUSPECT,
    (Phase.SUSPECT, Trigger.DOWN): Phase.CONFIRMED,
    (Phase.SUSPECT, Trigger.HELD): Phase.FENCING,
    (Phase.CONFIRMED, Trigger.SEEN_WELL): Phase.WATCHING,
    (Phase.CONFIRMED, Trigger.IN_DOUBT): Phase.SUSPECT,
    (Phase.CONFIRMED, Trigger.DOWN): Phase.CONFIRMED,
    (Phase.CONFIRMED, Trigger.HELD): Phase.FENCING,
    (Phase.FENCING, Trigger.FENCED): Phase.RESOLVING,
    (Phase.FENCING, Trigger.UNPROVEN): Phase.BLOCKED,
    (Phase.FENCING, Trigger.NO_RUNNER): Phase.BLOCKED,
    (Phase.FENCING, Trigger.GIVEN_UP): Phase.ABORTED,
    (Phase.BLOCKED, Trigger.UNBLOCKED): Phase.FENCING,
    (Phase.BLOCKED, Trigger.FENCED): Phase.RESOLVING,
    (Phase.BLOCKED, Trigger.GIVEN_UP): Phase.ABORTED,
    (Phase.RESOLVING, Trigger.RESOLVED): Phase.PREPARING,
    (Phase.RESOLVING, Trigger.NO_RUNNER): Phase.BLOCKED,
    (Phase.RESOLVING, Trigger.GIVEN_UP): Phase.ABORTED,
    (Phase.PREPARING, Trigger.MOVED_ON): Phase.RESOLVING,
    (Phase.PREPARING, Trigger.COMMITTED): Phase.STARTING,
    (Phase.PREPARING, Trigger.NO_RUNNER): Phase.BLOCKED,
    (Phase.PREPARING, Trigger.GIVEN_UP): Phase.ABORTED,
    (Phase.STARTING, Trigger.STARTED): Phase.VERIFYING,
    (Phase.STARTING, Trigger.RUNNER_LOST): Phase.STARTING,
    (Phase.STARTING, Trigger.TAKEN_OVER): Phase.STARTING,
    (Phase.STARTING, Trigger.UNVERIFIED): Phase.SETTLED,
    (Phase.VERIFYING, Trigger.PROVEN): Phase.SETTLED,
    (Phase.VERIFYING, Trigger.RUNNER_LOST): Phase.STARTING,
    (Phase.VERIFYING, Trigger.UNVERIFIED): Phase.SETTLED,
    (Phase.ABORTED, Trigger.RELEASED): Phase.ABORTED,
}

BEFORE_COMMIT = frozenset({Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING})
"""Where an operation can still be given up."""
UNFENCED = frozenset({Phase.FENCING, Phase.BLOCKED})
"""Where nothing has been made of the proof that the old run is stopped, if there is one."""
BEHIND_COMMIT = frozenset({Phase.STARTING, Phase.VERIFYING, Phase.SETTLED})
"""Where an operation has placed its query."""

PLANNED = frozenset({OperationKind.SWITCHOVER, OperationKind.FAILBACK})
"""Kinds that do the same to a query that goes to the same cluster, while both clusters are alive."""


MEANING: dict[Phase, str] = {
    Phase.WATCHING: "no operation; the cluster answers",
    Phase.SUSPECT: "no operation; the cluster is neither clearly well nor clearly down",
    Phase.CONFIRMED: "no operation yet; the verdict on the cluster is DOWN or NOT_HERE",
    Phase.FENCING: "the query is on hold; the old run is being stopped, and the proof of that collected",
    Phase.BLOCKED: "waiting: nothing proves that the old run has stopped, or no runner is alive",
    Phase.RESOLVING: "the resume offset of every partition is looked up on the standby, and the gates are checked",
    Phase.PREPARING: "the checkpoint for the standby is written and read back; the commit follows",
    Phase.STARTING: "committed: a runner is starting the query on the standby",
    Phase.VERIFYING: "the query runs on the standby; waiting for its first committed batch",
    Phase.SETTLED: "ended after the commit: `done`, or `failed` if no batch was committed in time",
    Phase.ABORTED: "ended before the commit, or reconciled: the query stays where it was",
}
"""What each phase means, in one sentence."""


def move(phase: Phase, trigger: Trigger) -> Phase:
    """The next phase. Raises ``IllegalMove`` for a pair that the table does not list."""
    try:
        return TABLE[phase, trigger]
    except KeyError:
        raise IllegalMove(f"{phase} does not know {trigger.value!r}") from None


def watched(phase: Phase, verdict: Verdict) -> Phase:
    """The phase behind a verdict on the cluster, where there is no operation."""
    if verdict in WELL:
        return move(phase, Trigger.SEEN_WELL)
    return move(phase, Trigger.DOWN if verdict in GONE else Trigger.IN_DOUBT)


def meanings() -> str:
    """The phases as a Markdown table."""
    return "".join(["| Phase | Meaning |\n|---|---|\n", *(f"| {phase} | {MEANING[phase]} |\n" for phase in Phase)])


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> WATCHING"]
    lines += [f"    {phase} --> {after}: {event.value}" for (phase, event), after in TABLE.items() if phase != after]
    lines += [f"    {phase} --> [*]" for phase in sorted(FINAL)]
    return "\n".join(lines) + "\n"
