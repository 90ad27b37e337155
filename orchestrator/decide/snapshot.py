"""What one tick of an operation sees, and what it decides: frozen values on both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.decide.gate import Gate
from orchestrator.decide.gates import refusal
from orchestrator.decide.phases import Happening
from state.model import Assignment, Intent, IntentKind, IntentState, Operation, Phase, QueryFact, RunnerFact
from state.protocol import CheckpointReport, FenceReport, PrepareRequest, Process
from state.settings import Query


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What resolving found out, for one checkpoint report."""

    report: CheckpointReport
    gates: tuple[Gate, ...]
    plan: Mapping[str, object]
    prepare: PrepareRequest | None
    """None while a gate refuses or the standby does not answer."""
    unreachable: str = ""
    """Why the standby could not be asked; asking again can help."""
    consents: tuple[str, ...] = ()
    """What somebody had consented to when the gates judged."""

    @property
    def refusal(self) -> Gate | None:
        return refusal(self.gates)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One operation as it stands in the store, with the facts that bear on it."""

    operation: Operation
    settings: Query
    assignment: Assignment
    intents: tuple[Intent, ...]
    """Oldest first."""
    alive: tuple[RunnerFact, ...]
    """Eligible runners with a fresh heartbeat."""
    fact: QueryFact | None
    hosting: Process | None
    """The process that ran the query when the last hold was taken."""
    findings: Findings | None = None
    ending: str | None = None
    """Of an operation that was given up: the outcome it ends with once the old run is released."""
    reason: str = ""
    """Of an operation that was given up: why, in one sentence."""
    called_off_by: str | None = None
    """Before the commit: who asked for the query to stay where it is."""
    patient: bool = True
    """Whether there is still time to ask again for what failed."""
    unreachable: str = ""
    """Behind the commit: why the target cannot be asked; empty while it answers, or was not asked."""
    awaited: bool = False
    """Another request of the query waits for the end of this operation."""

    def of(self, kind: IntentKind) -> tuple[Intent, ...]:
        """Intents of one kind, oldest first, of the operation's present epoch."""
        found = (each for each in self.intents if each.kind is kind and each.epoch == self.operation.epoch)
        return tuple(sorted(found, key=lambda each: each.attempt))

    def last(self, kind: IntentKind) -> Intent | None:
        """The newest intent of one kind."""
        return next(reversed(self.of(kind)), None)

    def is_alive(self, runner: str) -> bool:
        return any(fact.runner == runner for fact in self.alive)

    @property
    def hosted_by(self) -> Process | None:
        """The process that ran the query last, as it names itself by now.

        Read behind the hold, a fact is the last word: whoever may start the query says so before it looks at the row,
        so that a start which saw the row of before the hold was announced before this. And a runner that stopped the
        query because of the hold has said so since.
        """
        if self.fact is not None and (self.hosting is None or self.fact.runner == self.hosting.runner):
            return Process.of_query(self.fact)
        return self.hosting

    @property
    def chosen_runner(self) -> RunnerFact | None:
        """Who shall act: the hosting runner if it is alive, else a warm one, else any in the order declared."""
        order = {name: index for index, name in enumerate(self.settings.runners)}
        hosting = self.assignment.runner
        return min(
            self.alive,
            key=lambda fact: (fact.runner != hosting, not fact.warm, order.get(fact.runner, len(order))),
            default=None,
        )

    @property
    def fence(self) -> FenceReport | None:
        """The newest fence that was reported."""
        return next(
            (
                FenceReport.of(intent.result)
                for intent in reversed(self.of(IntentKind.FENCE))
                if intent.state is IntentState.DONE
            ),
            None,
        )

    @property
    def proof(self) -> str | None:
        """The evidence that the old run has stopped, or the operator's consent to go without; None for neither."""
        if self.fence is None:
            return None
        if self.fence.evidence is not None:
            return self.fence.evidence.value
        return "consent" if "unfenced" in self.operation.consents else None

    @property
    def report(self) -> CheckpointReport | None:
        """The newest reading of the checkpoint, by fence or inspection."""
        return newest_report(self.intents)


def newest_report(intents: Sequence[Intent]) -> CheckpointReport | None:
    """The newest reading of the old checkpoint, by fence or inspection; what a takeover fenced is another one.

    An inspection follows every fence of its epoch, and each kind counts its askings. Times are no measure here: where
    the store's clock is set back, what was asked before would be the newest reading for as long as it was set back by.
    """
    epoch = next((each.epoch for each in intents if each.kind is IntentKind.PREPARE), None)

    def newest(kind: IntentKind) -> Intent | None:
        done = (each for each in intents if each.kind is kind and each.state is IntentState.DONE)
        return max((each for each in done if epoch in {None, each.epoch}), key=lambda each: each.attempt, default=None)

    if inspected := newest(IntentKind.INSPECT):
        return CheckpointReport.of(inspected.result)
    fenced = newest(IntentKind.FENCE)
    return FenceReport.of(fenced.result).checkpoint if fenced else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Nothing to do yet."""

    ahead: bool = False
    """The standby may be asked ahead of need: the result is used only if the position turns out to be the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """Ask a runner for something; an older asking that nobody will answer is withdrawn."""

    name: str
    kind: IntentKind
    runner: str
    request: Mapping[str, object]
    withdraw: tuple[str, ...] = ()
    """Ids of pending intents that this one replaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolve:
    """Find the places on the standby for this report."""

    report: CheckpointReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """Pass the point of no return: place the query as it was prepared."""

    request: PrepareRequest
    data_batch: int
    runner: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoBack:
    """Leave the query where it is placed, under the next epoch, and close."""

    outcome: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TakeOver:
    """Behind the commit: hold the query anew under the next epoch, so that its lost run can be fenced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Land:
    """End a takeover: give the query to a runner where it is placed."""

    runner: str
    outcome: str | None = None
    """With one, the operation closes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """Close with what was measured, leaving the query where it is placed."""

    measured: Mapping[str, object]
    outcome: str = "done"


Act = Wait | Ask | Resolve | Commit | GoBack | TakeOver | Land | Settle


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The next move of one operation."""

    phase: Phase
    sentence: str
    act: Act = Wait()
    happening: Happening | None = None
    """What moves the phase; None to stay."""
    ending: str | None = None
    """With GIVEN_UP: the outcome the operation will have, ``refused`` or ``failed``."""
    plan: Mapping[str, object] | None = None
    detail: Mapping[str, object] | None = None
    """Facts of the step that this move completes."""
