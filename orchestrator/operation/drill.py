"""Drills: taken from their requests, and driven to their end beside whatever else is under way.

A drill needs no hold and no turn, so it has a taker and a driver of its own, and shares nothing with those of moves but
the rows. A move never waits for it, joins it or is refused because of it; the drill looks for moves, and ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.gates.preconditions import choose_runner
from orchestrator.decide.lookup_wants import since_placed
from orchestrator.decide.move.plan import plan_of, prepare_request
from orchestrator.decide.move_facts import PENDING, MoveFacts, StandbyAnswer
from orchestrator.decide.operation.drill import (
    DrillDecision,
    DrillFindings,
    DrillSnapshot,
    cancels,
    report_of_batch,
    step,
)
from orchestrator.errors import UnknownName
from orchestrator.facts.current import alive_runners, open_drill, open_operation
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.source_cluster import DESCRIBE_SECONDS
from orchestrator.lease import Leadership
from orchestrator.operation.requests import event_of
from state.checkpoint_folders import drill_folder
from state.errors import StoreUnavailable, TideoverError
from state.model.entities import DRILLS, Assignment, Event, Intent, Operation, Phase, Request, Step
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs
from streaming.errors import KafkaError

POLL_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 0.5
STORE_PAUSE_SECONDS = 0.5
AT_ONCE = 1
"""Drills that a leader has open side by side: each is some load on a driver and on the standby."""


@dataclass(kw_only=True)
class DrillTaker:
    """Answers requests of drills for the one that leads."""

    store: ControllerStore
    settings: Tideover
    gatherer: FactGatherer
    lead: Leadership
    is_ours: Callable[[Request], bool]

    def take(self, request: Request, *, has_room: bool) -> str | None:
        """The id of its drill; None when it was refused, or has to wait for room and stays open.

        Raises ``NotLeading``, ``StaleTerm`` and ``Conflict``, when another drill of the query has just begun.
        """
        term = self.lead.term
        request = self.store.request(request.id) or request
        if request.operation is not None or request.refused is not None:
            return request.operation
        taken = self.store.operation(request.id)
        if taken is not None:
            return self._answered(request, taken, term)
        standing, row = open_drill(self.store, request.query), self.store.assignment(request.query)
        if row is not None and request.target == row.cluster:
            return self._taken_back(request, standing, term)
        if not self.is_ours(request):
            return None
        if standing is not None and request.target in {None, standing.target}:
            return self._answered(request, standing, term)
        refused = self._refusal(request, standing)
        if isinstance(refused, str):
            self._refuse(request, refused, term)
            return None
        return self._opened(request, refused, term).id if has_room else None

    def _taken_back(self, request: Request, standing: Operation | None, term: int) -> str | None:
        """It names the cluster on which the query is: the drills of that query end, and those that wait do not begin.

        Its driver sees the request, so this one stays open until then.
        """
        for other in self.store.open_requests(kinds=DRILLS):
            if other.query == request.query and other.target != request.target:
                self._refuse(other, f"cancelled by {request.actor}", term)
        if standing is None:
            self._refuse(request, f"not-already-there: {request.query} is on {request.target}", term)
        return standing.id if standing is not None else None

    def _refusal(self, request: Request, standing: Operation | None) -> str | MoveFacts:
        """Why nothing is begun, or the facts to begin with."""
        query = self.settings.queries.get(request.query)
        if query is None:
            return f"query {request.query!r} is not declared"
        if self.store.now() >= request.expires_at:
            return "it expired before its turn came: one drill runs at a time; run the command again"
        if standing is not None:
            return f"drill {standing.id} of {request.query} on {standing.target} is open: wait for it, or cancel it"
        in_the_way = moving(self.store, request.query)
        if in_the_way is not None:
            return in_the_way
        row = self.store.assignment(request.query)
        target = request.target or default_target(query, row.cluster if row else query.clusters[0])
        if target not in query.clusters:
            return f"{request.query} may not run on {target}: its clusters are {', '.join(query.clusters)}"
        facts = self.gatherer.before(
            request.kind,
            request.query,
            target,
            consents=frozenset(request.consents),
            expect_active=request.expect_active,
        )
        refused = checks.refusal(checks.judge_move(facts))
        return facts if refused is None else f"{refused.name}: {refused.text}"

    def _opened(self, request: Request, facts: MoveFacts, term: int) -> Operation:
        """The drill, recorded. The gates have seen to it that the query is assigned."""
        assert facts.assignment is not None
        at = self.store.now()
        text = f"drill of {request.query}: a failover from {facts.source} to {facts.target} is rehearsed"
        drill = Operation(
            id=request.id,
            group=request.group,
            kind=request.kind,
            query=request.query,
            source=facts.source,
            target=facts.target,
            epoch=facts.assignment.epoch,
            phase=Phase.RESOLVING,
            outcome=None,
            actor=request.actor,
            reason=request.reason,
            consents=request.consents,
            plan=None,
            measured={},
            sentence=text,
            started_at=at,
            ended_at=None,
        )
        begun = Step(operation=drill.id, sequence=1, name="resolve", started_at=at)
        event = replace(event_of(request, "drill", text, at=at), operation=drill.id, epoch=drill.epoch)
        self.store.record(drill, term=term, steps=[begun], events=[event])
        self._answered(request, drill, term)
        return drill

    def _answered(self, request: Request, drill: Operation, term: int) -> str:
        self.store.answer(request.id, term=term, operation=drill.id)
        return drill.id

    def refuse(self, request: Request, text: str) -> None:
        """Refuse a request that cannot be judged. Raises ``StaleTerm``."""
        if self.store.operation(request.id) is None:
            self._refuse(request, text, self.lead.term)

    def _refuse(self, request: Request, text: str, term: int) -> None:
        event = event_of(request, "refused", text, at=self.store.now())
        self.store.answer(request.id, term=term, refused=text, event=event)


def moving(store: ControllerStore, query: str) -> str | None:
    """The move of a query that is open or requested, in one sentence. Raises ``StoreError``."""
    opened = open_operation(store, query)
    if opened is not None:
        return f"operation {opened.id}, a {opened.kind.value} of {query} to {opened.target}, is open"
    asked = next((each for each in store.open_requests() if each.query == query), None)
    return f"{asked.actor} requests a {asked.kind.value} of {query}" if asked is not None else None


class DrillDriver:
    """Drives drills, one at a time; make one for each thread."""

    def __init__(
        self, *, store: ControllerStore, settings: Tideover, logs: Logs, clock: Clock, lead: Leadership, actor: str
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lead = lead
        self._actor = actor
        self._gatherer = FactGatherer(store=store, settings=settings, logs=logs, clock=clock)

    def drive(self, operation_id: str, *, going_on: Callable[[], bool] = lambda: True) -> Operation:
        """Drive until the drill is closed or ``going_on`` says no; returns it as it is then.

        Raises ``NotLeading`` or ``StaleTerm`` when another process leads: that one continues.
        """
        while True:
            try:
                term = self._lead.term
                drill = self._store.operation(operation_id)
                if drill is None:
                    raise UnknownName(f"the store knows no operation {operation_id!r}")
                structlog.contextvars.bind_contextvars(operation=drill.id, epoch=drill.epoch)
                if not drill.is_open or not going_on():
                    return drill
                pause = self._tick(drill, term)
            except StoreUnavailable:
                if not going_on():
                    raise
                pause = STORE_PAUSE_SECONDS
            if pause:
                self._clock.wait(pause)

    def tell_failure(self, operation_id: str, error: TideoverError) -> bool:
        """Close a drill that cannot be driven on; nothing waits for it. Returns False: it has no other way to go.

        Raises ``NotLeading`` and ``StoreError``.
        """
        term, drill = self._lead.term, self._store.operation(operation_id)
        if drill is not None and drill.is_open:
            text = f"cannot continue: {error}"
            self._write(drill, DrillDecision(phase=Phase.ABORTED, sentence=text, outcome="failed"), term)
        return False

    def _tick(self, drill: Operation, term: int) -> float:
        """One look, one decision, one record; returns how long to wait before the next."""
        snapshot = self._look(drill)
        decision = step(snapshot, self._store.now())
        self._write(drill, decision, term)
        if decision.outcome is not None or decision.phase is not drill.phase:
            return 0.0
        return LOOK_AGAIN_SECONDS if drill.phase is Phase.RESOLVING else POLL_SECONDS

    def _look(self, drill: Operation) -> DrillSnapshot:
        declared = self._settings.queries.get(drill.query)
        if declared is None:
            raise UnknownName(f"query {drill.query!r} is not declared any more")
        row, in_the_way = self._store.assignment(drill.query), moving(self._store, drill.query)
        asked = (each.actor for each in self._store.open_requests(kinds=DRILLS) if cancels(each, drill))
        alive = alive_runners(self._store)
        eligible = [each for each in alive if each.runner in declared.runners]
        chosen = choose_runner(eligible, declared, row) if row is not None else None
        cancelled_by = next(asked, None)
        resolving = drill.phase is Phase.RESOLVING and row is not None and not in_the_way and not cancelled_by
        return DrillSnapshot(
            operation=drill,
            steps=tuple(self._store.steps(drill.id)),
            assignment=row,
            in_the_way=in_the_way,
            cancelled_by=cancelled_by,
            chosen=chosen.runner if chosen is not None else None,
            alive=frozenset(each.runner for each in alive),
            intent=self._intent(drill),
            findings=self._resolve(drill, row) if resolving and row is not None else None,
        )

    def _intent(self, drill: Operation) -> Intent | None:
        return next(iter(self._store.intents(drill.id)), None)

    def _resolve(self, drill: Operation, row: Assignment) -> DrillFindings:
        """As a failover would, from the newest batch; the cluster in use gets no request."""
        facts = self._gatherer.before(drill.kind, drill.query, drill.target, consents=frozenset(drill.consents))
        facts = replace(facts, fence=PENDING, standings=(), operation=drill.id, epoch=drill.epoch)
        report = report_of_batch(facts.fact, since_placed(self._store.positions(drill.query, rings=False), row), row)
        if facts.standby is not None and facts.standby.reachable:
            try:
                facts = self._gatherer.after(facts, report, stateful=facts.fact.stateful if facts.fact else None)
            except KafkaError as error:
                gone = StandbyAnswer(reachable=False, seconds=0.0, limit_seconds=DESCRIBE_SECONDS, error=str(error))
                facts = replace(facts, standby=gone)
        gates = checks.judge_move(facts)
        plan = replace(plan_of(facts, gates), followed=None, awaited=(), output=None)  # a move alone is measured
        target = drill_folder(facts.settings.checkpoint, drill.id)
        ready = checks.refusal(gates) is None and facts.resumes_at is not None
        return DrillFindings(
            gates=gates, plan=plan, prepare=prepare_request(facts, target_folder=target) if ready else None
        )

    def _write(self, drill: Operation, decision: DrillDecision, term: int) -> None:
        """Record what changed; a tick that changes nothing writes nothing."""
        at = self._store.now()
        changed = replace(
            drill,
            phase=decision.phase,
            sentence=decision.sentence,
            plan=decision.plan if decision.plan is not None else drill.plan,
            measured=decision.measured if decision.measured is not None else drill.measured,
            outcome=decision.outcome,
            ended_at=at if decision.outcome is not None else None,
        )
        if changed == drill:
            return
        event = Event(
            sequence=None,
            at=at,
            kind="drill",
            query=drill.query,
            operation=drill.id,
            epoch=drill.epoch,
            actor=self._actor,
            text=decision.sentence if decision.outcome is None else f"{decision.outcome}: {decision.sentence}",
        )
        asked = [decision.ask] if decision.ask is not None else []
        self._store.record(changed, term=term, steps=decision.steps, events=[event], intents=asked)
