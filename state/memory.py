"""A store that lives in one process: for tests, and for trying a decision out.

It fulfils the same contract suite as the SQL stores, so a test that passes on it says something about them. What SQL
guards by keys, conditions and triggers is guarded here by looking before writing, under one lock.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from state.automation import Acknowledgement, Pause
from state.errors import Conflict
from state.guards import (
    CLOCKS_APART,
    CONTROLLER,
    LEASE_TTLS_AHEAD,
    StepKey,
    check_adopted,
    check_answer,
    check_asked,
    check_believed,
    check_held,
    check_kept,
    check_pause,
    check_placed,
    check_pruned,
    check_reconciled,
    check_reported,
    joined_consents,
    placed_at,
    put_back,
    refuse_misplaced,
    refuse_other_answer,
    refuse_other_outcome,
    refuse_stale,
    refuse_stranger,
    term_step,
)
from state.kept import KeptPositions, KeptSightings
from state.kept_automation import KeptAutomation
from state.kept_timeline import KeptTimelines
from state.kept_upkeep import KeptHistory, KeptReadiness, oldest, prunable
from state.model import (
    RESIGNED,
    Assignment,
    Desired,
    EndSample,
    Event,
    Intent,
    IntentState,
    Lease,
    Operation,
    Phase,
    Position,
    QueryFact,
    Request,
    RunnerFact,
    RunState,
    Step,
    TopicPartition,
)
from state.plain import plain
from state.ports import Store
from state.sighting import Belief, Sighting
from state.timeline import Stretch
from state.upkeep import Disorder, Pruned, ReadinessFact, Replication


class MemoryStore(Store):
    """Thread-safe; ``clock`` is the store's own clock and must return aware datetimes in UTC."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._leases: dict[str, Lease] = {}
        self._requests: dict[str, Request] = {}
        self._assignments: dict[str, Assignment] = {}
        self._operations: dict[str, Operation] = {}
        self._steps: dict[StepKey, Step] = {}
        self._intents: dict[str, Intent] = {}
        self._runners: dict[str, RunnerFact] = {}
        self._query_facts: dict[str, QueryFact] = {}
        self._positions: defaultdict[str, KeptPositions] = defaultdict(KeptPositions)
        self._ends: dict[tuple[str, TopicPartition], EndSample] = {}
        self._timelines = KeptTimelines()
        self._automation = KeptAutomation()
        self._seen = KeptSightings()
        self._readiness = KeptReadiness()
        self._disorders: dict[str, Disorder] = {}
        self._history = KeptHistory()

    # -- leading ---------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        return self._clock()

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        with self._lock:
            now, stands = self._clock(), self._leases.get(name)
            ends = None if stands is None or stands.holder == holder else stands.expires_at
            if ends is not None and now < ends <= now + LEASE_TTLS_AHEAD * ttl:
                return None
            return self._grant(stands, name, holder, now + ttl)

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        with self._lock:
            stands = self._leases.get(name)
            if stands is None or stands.holder != dead_holder:
                return None
            return self._grant(stands, name, holder, self._clock() + ttl)

    def _grant(self, stands: Lease | None, name: str, holder: str, expires_at: datetime) -> Lease:
        term = 0 if stands is None else stands.term
        if stands is None or stands.holder != holder:
            term += term_step()
        lease = Lease(name=name, holder=holder, term=term, expires_at=expires_at)
        self._leases[name] = lease
        return lease

    def resign(self, lease: Lease) -> None:
        with self._lock:
            stands = self._leases.get(lease.name)
            if stands is not None and (stands.holder, stands.term) == (lease.holder, lease.term):
                self._leases[lease.name] = replace(stands, expires_at=RESIGNED)

    def leader(self, name: str) -> Lease | None:
        with self._lock:
            return self._leases.get(name)

    def _check_term(self, term: int) -> None:
        lease = self._leases.get(CONTROLLER)
        refuse_stale(term, lease.term if lease else None)

    # -- requests --------------------------------------------------------------------------------------------------
    def ask(self, request: Request, *, term: int | None = None) -> None:
        check_asked(request)
        with self._lock:
            if term is not None:
                self._check_term(term)
            self._requests.setdefault(request.id, request)

    def open_requests(self) -> Sequence[Request]:
        with self._lock:
            waiting = [r for r in self._requests.values() if r.operation is None and r.refused is None]
        return sorted(waiting, key=lambda r: (r.created_at, r.id))

    def request(self, request_id: str) -> Request | None:
        with self._lock:
            return self._requests.get(request_id)

    def answer(
        self,
        request_id: str,
        *,
        term: int,
        operation: str | None = None,
        refused: str | None = None,
        event: Event | None = None,
    ) -> None:
        check_answer(operation, refused)
        with self._lock:
            self._check_term(term)
            stands = self._requests.get(request_id)
            if stands is not None and stands.operation is None and stands.refused is None:
                self._requests[request_id] = replace(stands, operation=operation, refused=refused)
                if event is not None:
                    self._append(event)
            else:
                refuse_other_answer(request_id, stands, operation, refused)

    # -- assignments -----------------------------------------------------------------------------------------------
    def assignments(self) -> Sequence[Assignment]:
        with self._lock:
            return [self._assignments[query] for query in sorted(self._assignments)]

    def assignment(self, query: str) -> Assignment | None:
        with self._lock:
            return self._assignments.get(query)

    def adopt(self, assignment: Assignment) -> Assignment:
        check_adopted(assignment)
        with self._lock:
            return self._assignments.setdefault(
                assignment.query, replace(assignment, starting_offsets=plain(assignment.starting_offsets))
            )

    def hold(self, operation: Operation, *, from_epoch: int, term: int, step: Step, event: Event) -> Assignment | None:
        check_held(operation, from_epoch)
        with self._lock:
            self._check_term(term)
            stands = self._assignments.get(operation.query)
            if stands is None or stands.epoch != from_epoch or self._open_operation(operation.query) is not None:
                return None
            if operation.id in self._operations:
                raise Conflict(f"operation {operation.id} exists already")
            self._write(operation, [step], [event], [])
            held = replace(
                stands, epoch=operation.epoch, desired=Desired.HELD, operation=operation.id, changed_at=event.at
            )
            self._assignments[operation.query] = held
            return held

    def place(
        self,
        assignment: Assignment,
        *,
        operation: Operation,
        from_epoch: int,
        term: int,
        steps: Iterable[Step],
        event: Event,
    ) -> bool:
        check_placed(assignment, from_epoch)
        with self._lock:
            self._check_term(term)
            stands = self._assignments.get(assignment.query)
            if stands is None or stands.epoch != from_epoch:
                return False
            refuse_misplaced(stands, assignment)
            self._write(operation, steps, [event], [])
            self._assignments[assignment.query] = replace(
                assignment, starting_offsets=plain(assignment.starting_offsets)
            )
            return True

    def reconcile(
        self,
        assignment: Assignment,
        *,
        from_epoch: int | None,
        event: Event,
        operation: Operation | None = None,
        intents: Iterable[Intent] = (),
    ) -> bool:
        check_reconciled(assignment, from_epoch)
        with self._lock:
            stands, fact = self._assignments.get(assignment.query), self._query_facts.get(assignment.query)
            went_on = fact is not None and fact.epoch >= assignment.epoch
            if went_on or (stands.epoch if stands else None) != from_epoch:
                return False
            if stands is not None:
                refuse_misplaced(stands, replace(assignment, epoch=placed_at(assignment, from_epoch)))
            under_way = self._open_operation(assignment.query)
            if under_way is not None and (operation is None or operation.id != under_way):
                self._write(put_back(self._operations[under_way], event), [], [], [])
            if operation is not None:
                self._withdraw(operation, event.at)
                self._write(operation, [], [], intents)
            self._append(event)
            self._assignments[assignment.query] = replace(
                assignment, starting_offsets=plain(assignment.starting_offsets)
            )
            return True

    # -- operations ------------------------------------------------------------------------------------------------
    def operation(self, operation_id: str) -> Operation | None:
        with self._lock:
            return self._operations.get(operation_id)

    def operations(
        self, *, group: str | None = None, query: str | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Operation]:
        with self._lock:
            found = [
                operation
                for operation in self._operations.values()
                if (group is None or operation.group == group)
                and (query is None or operation.query == query)
                and (operation.is_open or not only_open)
            ]
        by = query is not None
        return sorted(found, key=lambda o: (o.epoch if by else 0, o.started_at, o.id), reverse=True)[:limit]

    def _open_operation(self, query: str) -> str | None:
        return next((o.id for o in self._operations.values() if o.query == query and o.is_open), None)

    def record(
        self,
        operation: Operation,
        *,
        term: int,
        steps: Iterable[Step] = (),
        events: Iterable[Event] = (),
        intents: Iterable[Intent] = (),
    ) -> None:
        with self._lock:
            self._check_term(term)
            self._write(operation, steps, events, intents)

    def _write(
        self, operation: Operation, steps: Iterable[Step], events: Iterable[Event], intents: Iterable[Intent]
    ) -> None:
        """Check everything, then write everything: what SQL does by rolling back."""
        steps = list(steps)
        stands = self._operations.get(operation.id)
        refuse_other_outcome(stands, operation)
        if stands is not None and operation.epoch < stands.epoch:
            raise Conflict(f"operation {operation.id} is at a later epoch than {operation.epoch}", hint="look again")
        if operation.is_open and self._open_operation(operation.query) not in {None, operation.id}:
            raise Conflict(f"another operation of {operation.query} is open")
        known = {(intent.operation, intent.name) for intent in self._intents.values()}
        fresh = [intent for intent in intents if (intent.operation, intent.name) not in known]
        owners = {step.operation for step in steps} | {intent.operation for intent in fresh}
        strangers = owners - {operation.id, *self._operations}
        if strangers or any(intent.id in self._intents for intent in fresh):
            raise Conflict
        plan, measured = plain(operation.plan), plain(operation.measured)
        consents = operation.consents if stands is None else stands.consents
        self._operations[operation.id] = replace(operation, plan=plan, measured=measured, consents=consents)
        self._steps.update(
            {(step.operation, step.sequence): replace(step, detail=plain(step.detail)) for step in steps}
        )
        if not operation.is_open:
            self._withdraw(operation, operation.ended_at or self._clock())
        for intent in fresh:
            self._intents[intent.id] = replace(intent, request=plain(intent.request), result=plain(intent.result))
        for event in events:
            self._append(event)

    def _withdraw(self, operation: Operation, at: datetime) -> None:
        for intent in list(self._intents.values()):
            if intent.operation == operation.id and intent.state is IntentState.PENDING:
                self._intents[intent.id] = replace(intent, state=IntentState.WITHDRAWN, ended_at=at)

    def consent(self, operation_id: str, consents: Iterable[str], *, term: int, event: Event) -> bool:
        with self._lock:
            self._check_term(term)
            stands = self._operations.get(operation_id)
            if stands is None or not stands.is_open:
                return False
            joined = joined_consents(stands.consents, consents)
            if joined != stands.consents:
                if stands.phase is Phase.ABORTED:
                    return False
                self._operations[operation_id] = replace(stands, consents=joined)
                self._append(event)
            return True

    def steps(self, operation_id: str) -> Sequence[Step]:
        with self._lock:
            return [self._steps[key] for key in sorted(self._steps) if key[0] == operation_id]

    # -- intents ---------------------------------------------------------------------------------------------------
    def intents(self, operation_id: str) -> Sequence[Intent]:
        return self._intents_where(lambda intent: intent.operation == operation_id)

    def pending_intents(self, runner: str) -> Sequence[Intent]:
        return self._intents_where(lambda intent: intent.runner == runner and intent.state is IntentState.PENDING)

    def _intents_where(self, wanted: Callable[[Intent], bool]) -> list[Intent]:
        with self._lock:
            return sorted(filter(wanted, self._intents.values()), key=lambda i: (i.created_at, i.id))

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        check_reported(intent)
        with self._lock:
            if term is not None:
                self._check_term(term)
            stands = self._intents.get(intent.id)
            if stands is None or stands.state is not IntentState.PENDING:
                return False
            result = plain(intent.result)
            self._intents[intent.id] = replace(stands, state=intent.state, result=result, ended_at=intent.ended_at)
            return True

    # -- facts -----------------------------------------------------------------------------------------------------
    def register(self, fact: RunnerFact) -> RunnerFact | None:
        with self._lock:
            stands = self._runners.get(fact.runner)
            if stands is not None and stands.instance != fact.instance:
                return stands
            now = self._clock()
            self._runners[fact.runner] = fact if fact.seen_at == now else replace(fact, seen_at=now)
            return None

    def unregister(self, runner: str, instance: str) -> None:
        with self._lock:
            stands = self._runners.get(runner)
            if stands is not None and stands.instance == instance:
                del self._runners[runner]

    def runners(self) -> Sequence[RunnerFact]:
        with self._lock:
            return [self._runners[runner] for runner in sorted(self._runners)]

    def report_query(self, fact: QueryFact) -> bool:
        with self._lock:
            stands = self._query_facts.get(fact.query)
            registered = self._runners.get(fact.runner)
            starts = fact.state is RunState.STARTING
            if starts and (registered is None or registered.instance != fact.instance):
                return False
            if stands is not None and (
                stands.epoch > fact.epoch
                or (stands.epoch == fact.epoch and stands.instance != fact.instance and not starts)
            ):
                return False
            known = None if stands is None else stands.offsets
            offsets = known if known == fact.offsets else plain(fact.offsets)  # the same again needs no other copy
            self._query_facts[fact.query] = replace(fact, offsets=offsets)
            return True

    def query_facts(self) -> Sequence[QueryFact]:
        with self._lock:
            return [self._query_facts[query] for query in sorted(self._query_facts)]

    def save_positions(self, positions: Iterable[Position]) -> None:
        with self._lock:
            of_query: defaultdict[str, list[Position]] = defaultdict(list)
            for position in positions:
                of_query[position.query].append(position)
            for query, saved in of_query.items():
                self._positions[query].save(saved)

    def positions(self, query: str, *, batch: int | None = None) -> Sequence[Position]:
        with self._lock:
            return self._positions[query].of(batch) if query in self._positions else []

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        with self._lock:
            for sample in samples:
                key = (sample.cluster, TopicPartition(sample.topic, sample.partition))
                stands = self._ends.get(key)
                to_come = self._clock() + CLOCKS_APART
                if stands is None or stands.sampled_at <= sample.sampled_at or stands.sampled_at > to_come:
                    self._ends[key] = sample

    def ends(self, cluster: str) -> dict[TopicPartition, EndSample]:
        with self._lock:
            return {key[1]: self._ends[key] for key in sorted(self._ends) if key[0] == cluster}

    # -- timelines -------------------------------------------------------------------------------------------------
    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        check_kept(keep)
        with self._lock:
            self._timelines.save(stretch, self._clock() - keep)

    def timeline(self, query: str, *, since: datetime | None = None) -> Sequence[Stretch]:
        with self._lock:
            return self._timelines.of(query, since)

    def timeline_at(self, query: str, time: datetime) -> Stretch | None:
        with self._lock:
            return self._timelines.at(query, time)

    def prune_timelines(self, before: datetime, *, limit: int, term: int) -> int:
        with self._lock:
            check_pruned(before, self._clock(), keep=1, limit=limit)
            self._check_term(term)
            return self._timelines.prune(before, limit)

    # -- automatic mode --------------------------------------------------------------------------------------------
    def pause(self, pause: Pause, *, event: Event) -> None:
        check_pause(pause)
        with self._lock:
            self._automation.pause(pause)
            self._append(event)

    def resume(self, scope: str, *, at: datetime, event: Event) -> Pause | None:
        with self._lock:
            ended = self._automation.resume(scope, at)
            if ended is not None:
                self._append(event)
            return ended

    def pauses(self) -> Sequence[Pause]:
        with self._lock:
            return self._automation.pauses()

    def acknowledge(self, given: Acknowledgement, *, event: Event) -> bool:
        with self._lock:
            operation = self._operations.get(given.operation)
            refuse_stranger(given, operation.query if operation else None)
            fresh = self._automation.acknowledge(given)
            if fresh:
                self._append(event)
            return fresh

    def acknowledgements(self, query: str) -> Sequence[Acknowledgement]:
        with self._lock:
            return self._automation.acknowledgements(query)

    # -- watching --------------------------------------------------------------------------------------------------
    def see(self, sightings: Iterable[Sighting]) -> None:
        with self._lock:
            self._seen.see(sightings, self._clock())

    def sightings(self, cluster: str | None = None) -> Sequence[Sighting]:
        with self._lock:
            return self._seen.of(cluster)

    def believe(self, belief: Belief, *, term: int, event: Event) -> bool:
        check_believed(belief, term)
        with self._lock:
            self._check_term(term)
            changed = self._seen.believe(belief)
            if changed:
                self._append(event)
            return changed

    def beliefs(self) -> Sequence[Belief]:
        with self._lock:
            return self._seen.beliefs()

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def keep_readiness(
        self, fact: ReadinessFact, *, term: int, event: Event, replication: Replication | None = None
    ) -> bool:
        with self._lock:
            self._check_term(term)
            changed = self._readiness.keep(fact, replication)
            if changed:
                self._append(event)
            return changed

    def readiness(self) -> Sequence[ReadinessFact]:
        with self._lock:
            return self._readiness.all()

    def replication(self, query: str) -> Replication | None:
        with self._lock:
            return self._readiness.replication(query)

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        with self._lock:
            self._check_term(term)
            self._disorders[disorder.query] = disorder

    def disorder(self, query: str) -> Disorder | None:
        with self._lock:
            return self._disorders.get(query)

    def prune(self, before: datetime, *, keep: int, limit: int, term: int) -> Pruned:
        with self._lock:
            check_pruned(before, self._clock(), keep=keep, limit=limit)
            self._check_term(term)
            in_use = {assignment.operation for assignment in self._assignments.values()}
            gone = prunable(self._operations.values(), before, keep=keep, limit=limit, in_use=in_use)
            for name in gone:
                del self._operations[name]
            self._steps = {key: step for key, step in self._steps.items() if key[0] in self._operations}
            self._intents = {key: each for key, each in self._intents.items() if each.operation in self._operations}
            self._automation.forget(gone)
            return Pruned(
                operations=len(gone),
                requests=self._prune_requests(before, limit),
                sightings=self._seen.prune(before, limit),
                readiness=self._readiness.prune(before, limit),
                disorders=self._prune_disorders(before, limit),
                events=self._history.prune(before, limit, self._operations.keys()),
            )

    def _prune_disorders(self, before: datetime, limit: int) -> int:
        gone = oldest(self._disorders, limit, lambda query: self._disorders[query].measured_at, before)
        for query in gone:
            del self._disorders[query]
        return len(gone)

    def _prune_requests(self, before: datetime, limit: int) -> int:
        over = [
            request.id
            for request in self._requests.values()
            if request.refused is not None
            or (request.operation is not None and request.operation not in self._operations)
        ]
        gone = oldest(over, limit, lambda request: self._requests[request].created_at, before)
        for request in gone:
            del self._requests[request]
        return len(gone)

    # -- history ---------------------------------------------------------------------------------------------------
    def note(self, event: Event, *, term: int | None = None) -> None:
        with self._lock:
            if term is not None:
                self._check_term(term)
            self._append(event)

    def _append(self, event: Event) -> None:
        self._history.append(event)

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        with self._lock:
            return self._history.of(query, operation, after, limit)

    def close(self) -> None:
        """Nothing to give back."""
