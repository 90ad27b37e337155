"""One tick of a move: look, decide, record, act.

Nothing is done that was not recorded first, and each act can be done twice. Intents have names of their own, a commit
is conditional on the epoch, and what was chosen is in the recorded request. So an executor may die after any
write; the next one reads the same rows, decides the same, and continues.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.automatic import Recheck, recheck
from orchestrator.decide.gates.copies import WAITED_FOR
from orchestrator.decide.gates.gate import is_attended
from orchestrator.decide.lookup_wants import report_of_fact
from orchestrator.decide.move.plan import plan_of, prepare_request
from orchestrator.decide.move_facts import UNPROVEN
from orchestrator.decide.operation.intents import ANSWER_WITHIN, is_mapped
from orchestrator.decide.operation.post_commit import LANDING, calls_off, joins
from orchestrator.decide.operation.snapshot import (
    Commit,
    Companion,
    Decision,
    Findings,
    GoBack,
    Land,
    Order,
    Resolve,
    Settle,
    Snapshot,
    TakeOver,
    Wait,
    cannot_go_on,
    failures_of,
)
from orchestrator.decide.operation.step import goes_on, step
from orchestrator.decide.phases import BEFORE_COMMIT, UNFENCED
from orchestrator.errors import UnknownName
from orchestrator.facts.current import companion_of, hosting_of, hosting_process, latest_fact
from orchestrator.operation.drive import POLL_SECONDS, Driver
from orchestrator.operation.journal import Journal
from orchestrator.operation.pauses import automatic_facts_of
from orchestrator.operation.requests import hold_detail
from state.checkpoint_folders import folder, mapping_name
from state.errors import TideoverError
from state.messages import NO_ANSWER, WITHDRAWN, CheckpointReport, Failure
from state.model.cluster_status import GONE
from state.model.entities import Assignment, Desired, Intent, IntentKind, IntentState, Operation, OperationKind
from state.model.plan import Plan
from state.settings.keys import Resume
from streaming.errors import KafkaError

UNREACHABLE_PAUSE_SECONDS = 0.5
CATCH_UP_PAUSE_SECONDS = 0.2
PATIENCE = ANSWER_WITHIN
"""How long a step may fail for a reason that can pass, before it is given up."""
THINK_SECONDS = 0.25
DOUBT = timedelta(seconds=2)
"""How long a start on the standby may take before the standby is checked."""


class Executor(Driver):
    """Drives one move; make one for each."""

    _findings: Findings | None = None
    _thought: tuple[int, float, Recheck] | None = None
    """The term, when on the monotonic clock, and what was thought."""
    _now: datetime
    """At the beginning of this tick, on the store's clock: what one leader wrote, the next one counts from."""
    _term = 0
    """The term of this tick, for all of its writes."""

    def report_failure(self, operation_id: str, error: TideoverError) -> bool:
        """Write down why an operation cannot be driven on, where list, watch and history show it; once for each reason.

        Before the commit it is given up when that has happened often enough. What the configuration does not declare is
        waited for: it may be declared again. Returns whether it was given up, and has another way to go now. Raises
        ``NotLeading`` and ``StoreError``.
        """
        term, at = self._lead.term, self._store.now()
        operation = self._store.operation(operation_id)
        if operation is None or not operation.is_open:
            return False
        failed = failures_of(operation) + (not isinstance(error, UnknownName))
        counted = replace(operation, measured=replace(operation.measured, failures=failed))
        decision = cannot_go_on(counted, str(error))
        journal = Journal(self._store, counted, decision, at=at, actor=self._actor)
        if decision.trigger is None and decision.sentence == operation.sentence:
            self._store.record(counted, term=term)
        else:
            journal.write(term=term)
        return decision.trigger is not None

    def _tick(self, operation: Operation, *, term: int) -> float:
        """One look, one decision, one act; returns how long to wait before the next.

        ``term`` is that in which the operation was read: a process that froze behind that, and leads again, has seen
        what another leader has moved on since.
        """
        if term != self._term:
            self._findings, self._term = None, term
        with self._alone(operation.query):
            snapshot, decision = self._decide(operation)
        act = decision.act
        if isinstance(act, Resolve):
            return self._resolve(snapshot, act.report)
        if isinstance(act, Wait) and act.ahead:
            self._look_ahead(snapshot)
        return 0.0 if decision.trigger else POLL_SECONDS

    def _decide(self, operation: Operation) -> tuple[Snapshot, Decision]:
        """Look, decide and record; of the queries of one application, one at a time."""
        self._now = self._store.now()
        snapshot = self._look(operation)
        decision = step(snapshot, self._now)
        act = decision.act
        journal = Journal(self._store, snapshot.operation, decision, at=self._now, actor=self._actor)
        if isinstance(act, Commit):
            self._commit(snapshot, act, journal)
        elif isinstance(act, GoBack):
            self._go_back(snapshot, act, journal)
        elif isinstance(act, TakeOver):
            self._take_over(snapshot, journal)
        elif isinstance(act, Land):
            self._land(snapshot, act, journal)
        elif isinstance(act, Settle):
            journal.close(term=self._term, outcome=act.outcome, measured=act.measured)
        else:
            intents = [self._intent(snapshot, act)] if isinstance(act, Order) else []
            if isinstance(act, Order):
                self._withdraw(snapshot, act)
            journal.write(term=self._term, intents=intents)
        return snapshot, decision

    # -- looking ---------------------------------------------------------------------------------------------------
    def _look(self, operation: Operation) -> Snapshot:
        settings = self._settings.queries.get(operation.query)
        fact = latest_fact(self._store, operation.query)
        assignment = self._store.assignment(operation.query)  # after the fact: no report is newer than the row then
        if settings is None or assignment is None:
            raise UnknownName(f"query {operation.query!r} of operation {operation.id} is not declared here")
        steps = self._store.steps(operation.id)
        abort = next((s for s in reversed(steps) if "outcome" in s.detail), None)
        since = steps[-1].started_at if steps and steps[-1].ended_at is None else operation.started_at
        waited = abs(self._now - since)  # where the store's clock was set back, it is too long rather than for ever
        doubtful = operation.phase in LANDING and waited >= DOUBT
        return Snapshot(
            operation=operation,
            settings=settings,
            assignment=assignment,
            intents=tuple(self._store.intents(operation.id)),
            alive=self._gatherer.alive(operation.query),
            fact=fact,
            hosting=hosting_of(steps),
            findings=self._findings,
            ending=str(abort.detail["outcome"]) if abort else None,
            reason=str(abort.detail.get("text", "")) if abort else "",
            called_off_by=self._called_off_by(operation) if operation.phase in BEFORE_COMMIT else None,
            cluster_down=self._cluster_down(operation) if operation.phase in BEFORE_COMMIT else "",
            second=self._second(operation) if operation.phase in UNFENCED and not is_attended(operation) else None,
            companions=self._companions(operation) if operation.phase in BEFORE_COMMIT else (),
            patient=waited < PATIENCE,
            catching_up=waited < self._settings.policy_of(operation.query).catch_up,
            unreachable=self._gatherer.silence_of(operation) if doubtful else "",
            awaited=doubtful
            and any(
                request.query == operation.query and not joins(request, operation)
                for request in self._store.open_requests()
            ),
        )

    def _companions(self, operation: Operation) -> tuple[Companion, ...]:
        others = self._settings.companions(operation.query)
        return tuple(companion_of(self._store, name, operation) for name in others)

    def _called_off_by(self, operation: Operation) -> str | None:
        return next((each.actor for each in self._store.open_requests() if calls_off(each, operation)), None)

    def _cluster_down(self, operation: Operation) -> str:
        """Of a rewind: why its cluster is believed down, for then the query may have to leave it."""
        if operation.kind is not OperationKind.REWIND:
            return ""
        down = (each for each in self._store.cluster_statuses() if each.verdict in GONE)
        return next(
            (", ".join(each.reasons[:1]) or each.verdict.value for each in down if each.cluster == operation.target), ""
        )

    def _second(self, operation: Operation) -> Recheck:
        """What automatic mode thinks of its own move now; what the move itself needs is judged behind the fence.

        An operation may wait for hours, and is looked at often: what was read a moment ago counts.
        """
        now = self._clock.monotonic()
        if self._thought is not None and self._thought[0] == self._term and now - self._thought[1] < THINK_SECONDS:
            return self._thought[2]
        facts = self._gatherer.before(operation.kind, operation.query, operation.target, look=False)
        facts = replace(facts, source=operation.source)
        statuses = {status.cluster: status for status in self._store.cluster_statuses()}
        second = recheck(automatic_facts_of(self._store, facts, statuses=statuses, term=self._term))
        self._thought = (self._term, now, second)
        return second

    # -- acting ----------------------------------------------------------------------------------------------------
    def _intent(self, snapshot: Snapshot, order: Order) -> Intent:
        return Intent(
            id=f"{snapshot.operation.id}/{order.name}",
            operation=snapshot.operation.id,
            name=order.name,
            kind=order.kind,
            query=snapshot.operation.query,
            runner=order.runner,
            epoch=snapshot.operation.epoch,
            request=order.request,
            state=IntentState.PENDING,
            result=None,
            created_at=self._now,
            ended_at=None,
        )

    def _withdraw(self, snapshot: Snapshot, order: Order) -> None:
        """A runner that died with an intent shall not find it when it is back: another one has taken over.

        What it reports of it later, having been frozen or held up, is not taken.
        """
        for intent in snapshot.intents:
            if intent.id in order.withdraw:
                kind = NO_ANSWER if snapshot.is_alive(intent.runner) else WITHDRAWN
                reason = Failure(kind=kind, text=f"runner {order.runner} got the order instead").as_json()
                failed = replace(intent, state=IntentState.FAILED, result=reason, ended_at=self._now)
                self._store.report(failed, term=self._term)

    def _resolve(self, snapshot: Snapshot, report: CheckpointReport) -> float:
        operation = snapshot.operation
        facts = self._gatherer.before(
            operation.kind,
            operation.query,
            operation.target,
            consents=frozenset(operation.consents),
            look=False,
            parameters=operation.parameters,
        )
        facts = replace(
            facts,
            source=operation.source,
            route=self._settings.route(operation.source, operation.target),
            open_operation=None,
            runners=facts.runners or None,  # none alive is waited for, not refused: the old run is stopped already
            operation=operation.id,
            epoch=operation.epoch,
            fence=snapshot.proof or UNPROVEN,
            attended=is_attended(operation),
        )
        try:
            facts = self._gatherer.after(facts, report)
        except KafkaError as error:
            self._findings = Findings(
                report=report, gates=(), plan=None, prepare=None, unreachable=str(error), consents=operation.consents
            )
            return UNREACHABLE_PAUSE_SECONDS
        judged = checks.judge_move(facts)
        ready = checks.refusal(judged) is None
        attempt = len(snapshot.of(IntentKind.PREPARE)) + 1
        target = folder(snapshot.settings.checkpoint, operation.epoch, operation.id, attempt)
        self._findings = Findings(
            report=report,
            gates=judged,
            plan=plan_of(facts, judged),
            prepare=prepare_request(facts, target_folder=target, attempt=attempt) if ready else None,
            consents=operation.consents,
        )
        refused = self._findings.refusal
        return CATCH_UP_PAUSE_SECONDS if refused is not None and refused.name in WAITED_FOR else 0.0

    def _look_ahead(self, snapshot: Snapshot) -> None:
        """While the fence is under way, resolve from what the runner last reported: it is mostly still true."""
        if snapshot.fact is None or snapshot.fact.cluster != snapshot.operation.source:
            return
        if snapshot.operation.kind is OperationKind.REWIND:
            return
        report = report_of_fact(snapshot.fact, snapshot.assignment.checkpoint)
        if report.batch is None:
            return
        operation = snapshot.operation
        facts = self._gatherer.before(operation.kind, operation.query, operation.target, look=False)
        self._gatherer.look_ahead(facts, report)

    def _commit(self, snapshot: Snapshot, commit: Commit, journal: Journal) -> None:
        request = commit.request
        fresh = request.resume == Resume.FRESH
        assignment = Assignment(
            query=snapshot.operation.query,
            epoch=snapshot.operation.epoch,
            placed_epoch=snapshot.operation.epoch,
            desired=Desired.RUNNING,
            cluster=snapshot.operation.target,
            runner=commit.runner,
            checkpoint=request.target,
            starting_offsets=request.target_offsets if fresh else None,
            operation=snapshot.operation.id,
            changed_at=self._now,
            mapping=mapping_name(request.epoch, request.operation, request.attempt) if is_mapped(request) else None,
        )
        plan = replace(snapshot.operation.plan or Plan(), data_batch=commit.data_batch)
        mark = ("commit", {"checkpoint": assignment.checkpoint, "epoch": assignment.epoch})
        journal.place(assignment, from_epoch=snapshot.operation.epoch, term=self._term, mark=mark, plan=plan)

    def _take_over(self, snapshot: Snapshot, journal: Journal) -> None:
        """Hold the query again, where it is placed: no runner may start it before the lost run is proven gone."""
        assignment = replace(
            snapshot.assignment,
            epoch=snapshot.operation.epoch + 1,
            desired=Desired.HELD,
            operation=snapshot.operation.id,
            changed_at=self._now,
        )
        hosting = hosting_process(snapshot.assignment, snapshot.fact, self._store.runners())
        mark = ("hold", hold_detail(assignment.epoch, hosting))
        journal.place(assignment, from_epoch=snapshot.operation.epoch, term=self._term, mark=mark)

    def _land(self, snapshot: Snapshot, land: Land, journal: Journal) -> None:
        assignment = replace(snapshot.assignment, desired=Desired.RUNNING, runner=land.runner, changed_at=self._now)
        epoch = snapshot.operation.epoch
        journal.place(assignment, from_epoch=epoch, term=self._term, outcome=land.outcome)

    def _go_back(self, snapshot: Snapshot, back: GoBack, journal: Journal) -> None:
        # Without proof that the old run is quiet, the query stays with the runner that may still be running it.
        is_quiet = snapshot.proof is not None and not goes_on(snapshot)
        runner = snapshot.chosen_runner if is_quiet else None
        assignment = replace(
            snapshot.assignment,
            epoch=snapshot.operation.epoch + 1,
            desired=Desired.RUNNING,
            runner=runner.runner if runner else snapshot.assignment.runner,
            operation=snapshot.operation.id,
            changed_at=self._now,
        )
        journal.place(assignment, from_epoch=snapshot.operation.epoch, term=self._term, outcome=back.outcome)
