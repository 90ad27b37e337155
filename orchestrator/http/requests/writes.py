"""What may be requested: the request rows and the pauses of the verbs, by the same functions.

A move says from where (``expect_active``) and which plan was seen. What that plan decides is worked out again then: if
it is another by now, nothing is requested. The offsets of a query that runs are another each time and do not count.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.operation.turns import without_wave
from orchestrator.decide.times import instant, parse_end, parse_time
from orchestrator.errors import Refused, UnknownName, UsageError
from orchestrator.facts.current import open_operation, run_of
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from orchestrator.http.auth import Principal
from orchestrator.http.requests.bodies import (
    AckBody,
    CancelBody,
    DrillBody,
    MoveBody,
    PauseBody,
    PlanBody,
    ResumeBody,
    RewindBody,
    SeenBody,
)
from orchestrator.lease import is_led
from orchestrator.new_requests import RequestSpec, requests_of
from orchestrator.operation import pauses
from orchestrator.operation.cancellations import cancellation_of
from orchestrator.shapes import query_shapes, request_shapes
from state.errors import Conflict
from state.messages import Process
from state.model.automation import EVERY
from state.model.entities import OperationKind, Request
from state.model.plan import Plan
from state.settings.keys import Query, Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs


@dataclass(frozen=True, kw_only=True)
class Writes:
    """Each method is one path; several threads may call them. All of them raise ``StoreError``."""

    store: ControllerStore
    settings: Tideover
    logs: Logs
    clock: Clock

    def plan(self, requested: PlanBody) -> Mapping[str, object]:
        """The plan and its hash, as ``planned`` makes them."""
        plan, seen = self.planned(requested)
        return {"plan": plan.as_json(), "hash": seen}

    def planned(self, requested: PlanBody) -> tuple[Plan, str]:
        """The plan and its hash; changes nothing, and reads the clusters. Raises ``UnknownName``, ``UsageError``."""
        kind = OperationKind(requested.kind)
        if (kind is OperationKind.REWIND) is (requested.to_time is None):
            raise UsageError("a rewind needs to_time, and no other move takes it", hint="such as -15m")
        target, run = self.target(kind, requested.query, requested.to), run_of(self.store, requested.query)
        value = self._plan(kind, requested.query, target, requested.consents, self._parameters(requested.to_time))
        return value, _hash(value, requested.consents, run)

    def move(self, kind: OperationKind, requested: MoveBody, who: Principal, key: str | None) -> Mapping[str, object]:
        """Request a move. Raises ``Refused`` where the plan is another by now, or no controller leads."""
        return self._seen(kind, requested, self.target(kind, requested.query, requested.to), {}, who, key)

    def rewind(self, requested: RewindBody, who: Principal, key: str | None) -> Mapping[str, object]:
        """Request to read again what was read since a time. Raises ``Refused`` as ``move`` does."""
        target = self.target(OperationKind.REWIND, requested.query, None)
        return self._seen(OperationKind.REWIND, requested, target, self._parameters(requested.to_time), who, key)

    def _seen(
        self,
        kind: OperationKind,
        requested: SeenBody,
        target: str,
        parameters: Mapping[str, object],
        who: Principal,
        key: str | None,
    ) -> Mapping[str, object]:
        run = run_of(self.store, requested.query)
        spec = RequestSpec(
            kind=kind, targets={requested.query: target}, expect_active={requested.query: requested.expect_active},
            actor=actor_of(who), reason=requested.reason, consents=requested.consents, runs={requested.query: run},
            within=timedelta(seconds=requested.within_seconds), parameters=parameters,
        )  # fmt: skip
        if (earlier := self.earlier(spec, who, key)) is not None:
            return as_answer(earlier)
        self.check_led()
        self.check_seen(spec, expect_active=requested.expect_active, seen=requested.plan)
        return as_answer(self.write(spec, who, key))

    def check_seen(self, spec: RequestSpec, *, expect_active: str, seen: str | None) -> None:
        """Raises ``Refused`` unless the one query is where it was seen, and its plan still is the one of that hash.

        ``seen`` is None where no plan was looked at: then the gates alone decide.
        """
        (query, target), *_ = spec.targets.items()
        row = self.store.assignment(query)
        if row is not None and row.cluster != expect_active:
            raise Refused(f"{query} is on {row.cluster}, not on {expect_active}", hint=_AGAIN)
        if seen is not None:
            value = self._plan(spec.kind, query, str(target), spec.consents, without_wave(spec.parameters))
            if value.source != expect_active:
                raise Refused(f"{query} is on {value.source}, not on {expect_active}", hint=_AGAIN)
            if _hash(value, spec.consents, (spec.runs or {}).get(query)) != seen:
                raise Refused("the plan has changed since you saw it: nothing was requested", hint=_AGAIN)

    def drill(self, requested: DrillBody, who: Principal, key: str | None) -> Mapping[str, object]:
        """Request a rehearsal."""
        target = self.target(OperationKind.DRILL, requested.query, requested.to)
        row = self.store.assignment(requested.query)
        spec = RequestSpec(
            kind=OperationKind.DRILL, targets={requested.query: target},
            expect_active={requested.query: row.cluster} if row is not None else {},
            actor=actor_of(who), reason=requested.reason, consents=requested.consents, runs={},
            within=timedelta(seconds=requested.within_seconds),
        )  # fmt: skip
        earlier = self.earlier(spec, who, key)
        return as_answer(earlier if earlier is not None else self.write(spec, who, key))

    def cancel(self, requested: CancelBody, who: Principal, key: str | None) -> Mapping[str, object]:
        """Request to take back what is not committed. Raises ``Refused`` and ``UnknownName``."""
        if (earlier := self._earlier_cancellation(requested, who, key)) is not None:
            return as_answer(earlier)
        found = cancellation_of(self.store, self.settings, requested.id)
        if found is None:
            raise UnknownName("the store knows no such operation or request", hint="/api/operations lists operations")
        spec = RequestSpec(
            kind=found.kind, targets={found.query: found.source}, expect_active={found.query: found.source},
            actor=actor_of(who), reason=requested.reason, consents=(),
            within=timedelta(seconds=requested.within_seconds),
        )  # fmt: skip
        return as_answer(self.write(spec, who, key))

    def pause(self, requested: PauseBody, who: Principal) -> Sequence[object]:
        """Keep automatic failover from a query, or from all."""
        try:
            until = None if requested.until is None else parse_end(requested.until, self.store.now())
        except ValueError as error:
            raise UsageError(str(error)) from None
        made = pauses.pause(
            self.store, self._scope(requested.query), until=until, actor=actor_of(who), reason=requested.reason
        )  # fmt: skip
        return [query_shapes.pause_row(made)]

    def resume(self, requested: ResumeBody, who: Principal) -> Sequence[object]:
        """End a pause; nothing where there is none."""
        ended = pauses.resume(self.store, self._scope(requested.query), actor=actor_of(who), reason=requested.reason)
        return [] if ended is None else [query_shapes.pause_row(ended)]

    def acknowledge(self, requested: AckBody, who: Principal) -> Sequence[object]:
        """End a cool-down; nothing where there is none. Raises ``Refused`` while the query moves."""
        self._declared(requested.query)
        given = pauses.acknowledge(
            self.store, self.settings, requested.query, actor=actor_of(who), reason=requested.reason
        )  # fmt: skip
        return [] if given is None else [query_shapes.acknowledgement_row(given)]

    def request(self, request_id: str) -> Mapping[str, object]:
        """What became of a request. Raises ``UnknownName``."""
        found = self.store.request(request_id)
        if found is None:
            raise UnknownName("the store knows no such request", hint="the answer to a POST names it")
        return as_answer(found)

    def _declared(self, name: str) -> Query:
        if name not in self.settings.queries:
            raise UnknownName("no query of that name is declared", hint="/api/queries lists them")
        return self.settings.queries[name]

    def _scope(self, query: str | None) -> str:
        if query is not None:
            self._declared(query)
        return EVERY if query is None else query

    def target(self, kind: OperationKind, name: str, to: str | None) -> str:
        """Where to: as said, else where an open operation goes already, else home or the next of its clusters."""
        query = self._declared(name)
        home = query.clusters[0]
        if kind is OperationKind.FAILBACK and to not in {None, home}:
            raise UsageError(f"a failback goes to {home}", hint="switchover goes to any cluster")
        if kind is OperationKind.REWIND and to is not None:
            raise UsageError("a rewind stays on its cluster", hint="send no to")
        if to is not None and to not in query.clusters:
            raise UsageError(
                f"{name} may not run on that cluster", hint=f"its clusters are {', '.join(query.clusters)}"
            )
        if to is not None or kind is OperationKind.FAILBACK:
            return to or home
        under_way, row = open_operation(self.store, name), self.store.assignment(name)
        if kind is OperationKind.REWIND:
            return row.cluster if row is not None else home
        return under_way.target if under_way is not None else default_target(query, row.cluster if row else home)

    def _parameters(self, to_time: str | None) -> Mapping[str, object]:
        """What a rewind needs; a time before now goes by the store's clock, which stamped what is known of a query."""
        try:
            return {} if to_time is None else {"to_time": instant(parse_time(to_time, self.store.now()))}
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _plan(
        self, kind: OperationKind, query: str, target: str, consents: Sequence[str], parameters: Mapping[str, object]
    ) -> Plan:
        gatherer = FactGatherer(store=self.store, settings=self.settings, logs=self.logs, clock=self.clock)
        return plan_query(gatherer, kind, query, target, consents=frozenset(consents), parameters=parameters)

    def check_led(self) -> None:
        """Raises ``Refused`` where no controller leads."""
        if not is_led(self.store):
            raise Refused("no controller leads, so nothing would take the request", hint="start one and try again")

    def earlier(self, spec: RequestSpec, who: Principal, key: str | None) -> Request | None:
        """The request that the same key made before. Raises ``UsageError`` where it requested something else."""
        found = None if key is None else self.store.request(id_of(who, key))
        if found is None:
            return None
        (query, target), *_ = spec.targets.items()
        consents = tuple(each.partition(" ")[0] for each in found.consents)  # without the run of ``unfenced``
        requested = (spec.kind, query, target, spec.expect_active.get(query), spec.reason, tuple(spec.consents))
        before = (found.kind, found.query, found.target, found.expect_active, found.reason, consents)
        if (requested, spec.parameters) != (before, found.parameters):
            raise used_otherwise()
        return found

    def _earlier_cancellation(self, requested: CancelBody, who: Principal, key: str | None) -> Request | None:
        """As ``earlier``, also once what was taken back is over."""
        found = None if key is None else self.store.request(id_of(who, key))
        if found is None:
            return None
        named = self.store.operation(requested.id) or self.store.request(requested.id)
        if named is None or (named.query, requested.reason) != (found.query, found.reason):
            raise used_otherwise()
        return found

    def write(self, spec: RequestSpec, who: Principal, key: str | None, *, group: str | None = None) -> Request:
        """Write the request for one query. Raises ``Refused`` where no controller leads."""
        self.check_led()
        (request,) = requests_of(self.store, spec, name=None if key is None else id_of(who, key), group=group)
        try:
            self.store.add_request(request)
        except Conflict:  # the same key at the same time
            earlier = self.earlier(spec, who, key)
            if earlier is None:
                raise
            return earlier
        return request


def _hash(plan: Plan, consents: Sequence[str], run: Process | None) -> str:
    """Of what a plan decides, and of the run that ``unfenced`` would be given for."""
    decided = {
        "kind": plan.kind,
        "query": plan.query,
        "from": plan.source,
        "to": plan.target,
        "epoch": plan.epoch,
        "resume": plan.resume,
        "refused": plan.refused,
        "gates": [[gate.name, gate.ok] for gate in plan.gates],
        "partitions": [[row.source, row.topic, row.partition, row.target_topic, row.method] for row in plan.partitions],
        "back_to": plan.rewind.to_time if plan.rewind is not None else None,
        "consents": sorted(consents),
        "run": run.as_json() if run is not None else None,
    }
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()


_AGAIN = "request the plan again: POST /api/plan"


def actor_of(who: Principal) -> str:
    """The name in the history. It has a host like a person's, so that no token can be named like automatic mode."""
    return f"{who.name}@http"


def used_otherwise() -> UsageError:
    """The refusal of a key that came with another request before."""
    return UsageError("this Idempotency-Key was used for something else", hint="send another one")


def id_of(who: Principal, key: str) -> str:
    """A request's id that the same token and key always make; it does not sort by time, as others do."""
    return f"key-{hashlib.sha256(f'{who.name}:{key}'.encode()).hexdigest()[:24]}"


def as_answer(request: Request) -> Mapping[str, object]:
    """What a path says of a request."""
    return {
        "request": request.id,
        "query": request.query,
        **{name: value for name, value in request_shapes.request_row(request).items() if name != "id"},
        "operation": request.operation,
        "refused": request.refused,
    }
