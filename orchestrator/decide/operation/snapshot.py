"""What one tick of an operation sees, and what it decides: frozen values on both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.decide.gates.automatic import Recheck
from orchestrator.decide.gates.checks import refusal
from orchestrator.decide.gates.gate import Gate, covers
from orchestrator.decide.gates.preconditions import choose_runner
from orchestrator.decide.phases import BEFORE_COMMIT, Trigger, move
from state.messages import NO_ANSWER, CheckpointReport, FenceReport, FenceRequest, PrepareRequest, Process, Proof
from state.model.entities import Assignment, Intent, IntentKind, IntentState, Operation, Phase, QueryFact, RunnerFact
from state.model.measured import Measured
from state.model.plan import Plan
from state.settings.keys import Query


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What resolving found out, for one checkpoint report."""

    report: CheckpointReport
    gates: tuple[Gate, ...]
    plan: Plan | None
    """None where the standby did not answer."""
    prepare: PrepareRequest | None
    """None while a gate refuses or the standby does not answer."""
    unreachable: str = ""
    """Why the standby could not be read; a retry can help."""
    consents: tuple[str, ...] = ()
    """What a person had consented to when the gates judged."""

    @property
    def refusal(self) -> Gate | None:
        return refusal(self.gates)


@dataclass(frozen=True, kw_only=True, slots=True)
class Companion:
    """Another query of the same application, which moves together with the operation's query or not at all."""

    query: str
    is_there: bool = False
    """Whether it is placed where the operation goes."""
    is_ready: bool = False
    """Whether nothing but the commit is missing."""
    stays: str = ""
    """Why it will not get there, in one sentence; empty while it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One operation as it is in the store, with the facts that bear on it."""

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
    """Before the commit: who requested that the query stays where it is."""
    cluster_down: str = ""
    """Of a rewind before the commit: why the cluster is believed down on which it stays."""
    second: Recheck | None = None
    """Of a move that no person requested, as long as the old run is not proven stopped: what automatic mode thinks now.
    """
    patient: bool = True
    """Whether there is still time to order again what failed."""
    catching_up: bool = False
    """Whether a planned move still waits for what the standby lacks."""
    unreachable: str = ""
    """Behind the commit: why the target cannot be read; empty while it answers, or was not read."""
    companions: tuple[Companion, ...] = ()
    """Before the commit."""
    awaited: bool = False
    """Another request of the query waits for the end of this operation."""
    late: frozenset[str] = frozenset()
    """Ids of intents whose answer need not be waited for any longer: a person may call the operation off."""
    overdue: frozenset[str] = frozenset()
    """Those whose answer is not waited for any longer: the runner is silent, or its file system hangs."""

    @property
    def is_bound(self) -> bool:
        """Whether a companion has passed the point of no return, and nothing but the commit is missing here.

        Companions commit one after the other, each once all the others are ready.
        """
        prepared = self.last(IntentKind.PREPARE) if self.operation.phase is Phase.PREPARING else None
        is_ready = prepared is not None and prepared.state is IntentState.DONE
        return is_ready and any(each.is_there for each in self.companions)

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
    def hanging(self) -> frozenset[str]:
        """Runners that leave their newest order unanswered for too long."""
        newest = {each.runner: each for each in self.intents}
        return frozenset(
            runner for runner, intent in newest.items() if intent.id in self.overdue or _had_no_answer(intent)
        )

    @property
    def hosted_by(self) -> Process | None:
        """The process that ran the query last, as it names itself by now."""
        return hosted_by(self.hosting, self.fact)

    @property
    def chosen_runner(self) -> RunnerFact | None:
        """Who shall act; one that does not answer gets the order only where there is no other."""
        answering = [fact for fact in self.alive if fact.runner not in self.hanging]
        return choose_runner(answering or self.alive, self.settings, self.assignment)

    @property
    def fenced(self) -> Intent | None:
        """The newest fence that was reported."""
        done = (each for each in reversed(self.of(IntentKind.FENCE)) if each.state is IntentState.DONE)
        return next(done, None)

    @property
    def proof(self) -> str | None:
        """The proof that the old run has stopped, or the operator's consent to go without; None for neither.

        A consent counts for the run that it was given for: the one that this fence was to prove stopped.
        """
        if self.fenced is None:
            return None
        report = FenceReport.of(self.fenced.result)
        if report.proof is not None:
            return report.proof.value
        in_doubt = FenceRequest.of(self.fenced.request).hosting
        return Proof.CONSENT.value if covers(self.operation.consents, in_doubt) else None

    @property
    def report(self) -> CheckpointReport | None:
        """The newest reading of the checkpoint, by fence or inspection."""
        return newest_report(self.intents)


def _had_no_answer(intent: Intent) -> bool:
    return intent.state is IntentState.FAILED and (intent.result or {}).get("kind") == NO_ANSWER


def hosted_by(hosting: Process | None, fact: QueryFact | None) -> Process | None:
    """The process that ran a held query last: as its hold recorded it, or as it names itself by now.

    Read behind the hold, a fact is the last word: a runner that may start the query says so before it looks at the row.
    So a start that saw the row of before the hold was announced before this. And a runner that stopped the query
    because of the hold has said so since.
    """
    if fact is not None and (hosting is None or fact.runner == hosting.runner):
        return Process.of_query(fact)
    return hosting


def newest_report(intents: Sequence[Intent]) -> CheckpointReport | None:
    """The newest reading of the old checkpoint, by fence or inspection; what a takeover fenced is another one.

    An inspection follows every fence of its epoch, and each kind counts its askings. Times are no measure here: where
    the store's clock is set back, an earlier order would give the newest reading for as long as it was set back by.
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
    """The standby may be read ahead of need: the result is used only if the position turns out to be the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Give a runner an order; an older order that no runner will answer is withdrawn."""

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
    """Behind the commit: hold the query again under the next epoch, so that its lost run can be fenced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Land:
    """End a takeover: give the query to a runner where it is placed."""

    runner: str
    outcome: str | None = None
    """With one, the operation closes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """Close with what was measured, leaving the query where it is placed."""

    measured: Measured
    outcome: str = "done"


Act = Wait | Order | Resolve | Commit | GoBack | TakeOver | Land | Settle


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The next move of one operation."""

    phase: Phase
    sentence: str
    act: Act = Wait()
    trigger: Trigger | None = None
    """What moves the phase; None to stay."""
    ending: str | None = None
    """With GIVEN_UP: the outcome the operation will have, ``refused`` or ``failed``."""
    plan: Plan | None = None
    detail: Mapping[str, object] | None = None
    """Facts of the step that this move completes."""


TRIES = 3
_BEGINS = "cannot continue: "


def failures_of(operation: Operation) -> int:
    """How often driving the operation on has failed so far."""
    return operation.measured.failures or 0


AWAITS = "awaits the next start of "


def awaits_start(operation: Operation) -> bool:
    """Whether an open operation is completed by the next start of an application that runs now and then."""
    return operation.is_open and operation.sentence.startswith(AWAITS)


def is_stuck(operation: Operation) -> bool:
    """Whether the last try to drive an open operation on failed."""
    return operation.is_open and operation.sentence.startswith(_BEGINS)


def cannot_go_on(operation: Operation, error: str) -> Decision:
    """What to record of another failure, already counted: the error as it is, or the way back.

    An error like that, a defect or a configuration that does not know what the operation is about, says nothing of the
    query, and comes again as a rule. So the operation says it, and before its commit it is given up after a few times,
    which takes a way of its own. What it has stopped runs on then.
    """
    text = f"{_BEGINS}{error}"
    if operation.phase not in BEFORE_COMMIT or failures_of(operation) < TRIES:
        return Decision(phase=operation.phase, sentence=text)
    text = f"given up after {TRIES} tries: {error}"
    return Decision(
        phase=move(operation.phase, Trigger.GIVEN_UP),
        sentence=text,
        trigger=Trigger.GIVEN_UP,
        ending="failed",
        detail={"outcome": "failed", "text": text},
    )
