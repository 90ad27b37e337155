"""One tick of a drill: look, decide, record. A move never waits for a drill; the drill looks for moves, and ends."""

from dataclasses import replace

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.preconditions import choose_runner
from orchestrator.decide.lookup_wants import since_placed
from orchestrator.decide.move.plan import plan_of, prepare_request
from orchestrator.decide.move_facts import PENDING, StandbyAnswer
from orchestrator.decide.operation.drill import (
    DrillDecision,
    DrillFindings,
    DrillSnapshot,
    cancels,
    report_of_batch,
    step,
)
from orchestrator.errors import UnknownName
from orchestrator.facts.current import alive_runners
from orchestrator.facts.source_cluster import DESCRIBE_SECONDS
from orchestrator.operation.drill_requests import moving
from orchestrator.operation.drive import Driver
from state.checkpoint_folders import drill_folder
from state.errors import TideoverError
from state.model.entities import DRILLS, Assignment, Event, Intent, Operation, Phase
from streaming.errors import KafkaError

POLL_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 0.5


class DrillDriver(Driver):
    """Drives one drill; make one for each."""

    def report_failure(self, operation_id: str, error: TideoverError) -> bool:
        """Close a drill that cannot be driven on; nothing waits for it. Returns False: it has no other way to go.

        Raises ``NotLeading`` and ``StoreError``.
        """
        term, drill = self._lead.term, self._store.operation(operation_id)
        if drill is not None and drill.is_open:
            text = f"cannot continue: {error}"
            self._write(drill, DrillDecision(phase=Phase.ABORTED, sentence=text, outcome="failed"), term)
        return False

    def _tick(self, operation: Operation, *, term: int) -> float:
        decision = step(self._look(operation), self._store.now())
        self._write(operation, decision, term)
        if decision.outcome is not None or decision.phase is not operation.phase:
            return 0.0
        return LOOK_AGAIN_SECONDS if operation.phase is Phase.RESOLVING else POLL_SECONDS

    def _look(self, drill: Operation) -> DrillSnapshot:
        declared = self._settings.queries.get(drill.query)
        if declared is None:
            raise UnknownName(f"query {drill.query!r} is not declared any more")
        row, in_the_way = self._store.assignment(drill.query), moving(self._store, drill.query)
        actors = (each.actor for each in self._store.open_requests(kinds=DRILLS) if cancels(each, drill))
        alive = alive_runners(self._store)
        eligible = [each for each in alive if each.runner in declared.runners]
        chosen = choose_runner(eligible, declared, row) if row is not None else None
        cancelled_by = next(actors, None)
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
        intents = [decision.order] if decision.order is not None else []
        self._store.record(changed, term=term, steps=decision.steps, events=[event], intents=intents)
