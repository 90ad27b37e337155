"""Writing a decision down: phase, sentence, steps and one line of history, in one transaction with what it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from orchestrator.decide.operation.snapshot import Decision
from orchestrator.decide.phases import Trigger
from state.errors import Conflict
from state.model.entities import Assignment, Event, Intent, Operation, Phase, Step
from state.model.measured import Measured
from state.model.plan import Plan
from state.store.controller_store import ControllerStore

STEP_OF = {
    Phase.FENCING: "fence",
    Phase.BLOCKED: "wait",
    Phase.RESOLVING: "resolve",
    Phase.PREPARING: "prepare",
    Phase.STARTING: "start",
    Phase.VERIFYING: "verify",
    Phase.ABORTED: "release",
}
"""The step that a phase is at work on."""

_NOT_DONE = frozenset({Trigger.GIVEN_UP, Trigger.UNPROVEN, Trigger.NO_RUNNER, Trigger.RUNNER_LOST, Trigger.UNVERIFIED})
_BEGINS = {Trigger.RUNNER_LOST: "takeover", Trigger.TAKEN_OVER: "start"}
"""The step that begins with a happening which leads to STARTING from STARTING, too."""
_WORDS = {**_BEGINS, Trigger.UNVERIFIED: "unverified"}
"""The word of the line of history, where it is not that of the phase's step."""


class Journal:
    """One decision of one operation, about to be recorded."""

    def __init__(
        self, store: ControllerStore, operation: Operation, decision: Decision, *, at: datetime, actor: str
    ) -> None:
        self._store = store
        self._before = operation
        self._decision = decision
        self._at = at
        self._actor = actor
        self._operation = replace(
            operation,
            phase=decision.phase,
            sentence=decision.sentence,
            plan=decision.plan if decision.plan is not None else operation.plan,
        )

    def write(self, *, term: int, intents: Sequence[Intent] = ()) -> None:
        """Record what changed; a tick that changes nothing writes nothing."""
        if self._operation == self._before and not intents and self._decision.trigger is None:
            return
        self._store.record(
            self._operation,
            term=term,
            steps=self._steps(),
            events=[self._event()],
            intents=intents,
        )

    def close(self, *, term: int, outcome: str, measured: Measured) -> None:
        """Record the end."""
        closed = replace(self._operation, outcome=outcome, measured=measured, ended_at=self._at)
        self._store.record(closed, term=term, steps=self._steps(), events=[self._event()])

    def place(
        self,
        assignment: Assignment,
        *,
        from_epoch: int,
        term: int,
        mark: tuple[str, Mapping[str, object]] | None = None,
        plan: Plan | None = None,
        outcome: str | None = None,
    ) -> None:
        """Record what changes the assignment, together with it: a commit, a way back, a takeover.

        ``mark`` is a step of its own, name and detail; with an outcome the operation is closed. Raises ``Conflict``
        when the assignment has an epoch that this operation does not know of.
        """
        operation = replace(self._operation, plan=plan if plan is not None else self._operation.plan)
        if outcome is not None:
            operation = replace(operation, outcome=outcome, ended_at=self._at)
        else:
            operation = replace(operation, epoch=assignment.epoch)
        done = self._store.place(
            assignment,
            operation=operation,
            from_epoch=from_epoch,
            term=term,
            steps=self._steps(mark),
            event=self._event(epoch=assignment.epoch),
        )
        if not done:
            raise Conflict(
                f"the assignment of {assignment.query} is no longer at epoch {from_epoch}",
                hint="the store may have been restored or edited: nothing was changed",
            )

    def _steps(self, mark: tuple[str, Mapping[str, object]] | None = None) -> list[Step]:
        """The step at work is completed, what changes the assignment is one of its own, and the next one is opened."""
        trigger = self._decision.trigger
        steps = list(self._store.steps(self._before.id))
        at_work = bool(steps) and steps[-1].ended_at is None
        written: list[Step] = []
        if trigger is None:
            return [] if at_work else [self._open_step(len(steps) + 1, STEP_OF[self._decision.phase])]
        if at_work:
            ended = "failed" if trigger in _NOT_DONE else "done"
            if self._decision.ending == "refused":
                ended = "refused"
            last = replace(steps[-1], ended_at=self._at, outcome=ended, detail=dict(self._decision.detail or {}))
            written.append(last)
        sequence = len(steps) + 1
        if mark is not None:
            written.append(self._done_step(sequence, *mark))
            sequence += 1
        if trigger in _BEGINS:
            written.append(self._open_step(sequence, _BEGINS[trigger]))
        elif self._decision.phase != self._before.phase and self._decision.phase is not Phase.SETTLED:
            written.append(self._open_step(sequence, STEP_OF[self._decision.phase]))
        return written

    def _open_step(self, sequence: int, name: str) -> Step:
        return Step(operation=self._before.id, sequence=sequence, name=name, started_at=self._at)

    def _done_step(self, sequence: int, name: str, detail: Mapping[str, object]) -> Step:
        return Step(
            operation=self._before.id,
            sequence=sequence,
            name=name,
            started_at=self._at,
            ended_at=self._at,
            outcome="done",
            detail=dict(detail),
        )

    def _event(self, *, epoch: int | None = None) -> Event:
        trigger = self._decision.trigger
        word = _WORDS.get(trigger) if trigger is not None else None
        return Event(
            sequence=None,
            at=self._at,
            kind=word or STEP_OF.get(self._decision.phase, "settled"),
            query=self._before.query,
            operation=self._before.id,
            epoch=self._before.epoch if epoch is None else epoch,
            actor=self._actor,
            text=self._decision.sentence,
            detail=dict(self._decision.detail or {}),
        )
