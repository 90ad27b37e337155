"""A verb becomes request rows, and a request becomes one operation, joins the open one, or is refused.

An operation carries its request's id, so that a taker that died after the hold and before the answer finds on its
return that the request was taken already: a verb moves a query once, however often it is retried.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.circumstances import circumstances_of
from orchestrator.decide import automatic, gates
from orchestrator.decide.facts import Facts
from orchestrator.decide.gate import Gate
from orchestrator.decide.landing import LANDING, calls_off, joins, stranded
from orchestrator.decide.phases import BEHIND_COMMIT, Happening, move, watched
from orchestrator.decide.turn import too_late
from orchestrator.lease import Lead
from orchestrator.places import Places
from orchestrator.reported import fact_of, hosting_process
from state.automation import AUTOMATIC
from state.model import (
    Desired,
    Event,
    Operation,
    OperationKind,
    Phase,
    Request,
    Step,
)
from state.ports import Store
from state.protocol import Process
from state.settings import Query
from state.sighting import Belief, Verdict

ATTEMPTS = 5
"""How often a hold is tried when the assignment moves under it."""
TAKEN_WITHIN = timedelta(minutes=2)
"""How long a request may wait to be taken when nobody waits for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What an operator or a program wants, for one or several queries."""

    kind: OperationKind
    targets: Mapping[str, str | None]
    """Query to the cluster it shall run on; None leaves it to the taker. A verb that was typed names it: typed twice,
    it must not move the query on to the next cluster."""
    expect_active: str | None
    actor: str
    reason: str
    consents: tuple[str, ...]
    within: timedelta = TAKEN_WITHIN
    """How long it may wait to be taken: what was wished long ago may be the wrong thing to do now."""


def new_id(at: datetime) -> str:
    """A short id that sorts by time and can be said aloud: ``261121-083525-3fa9``."""
    return f"{at:%y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def ask(store: Store, wish: Wish, *, term: int | None = None) -> tuple[Request, ...]:
    """Write one request for each query, all of one group. A leader asks with its term, and raises ``StaleTerm``.

    Its time is the store's, for operations begin with it and are put in order by it: a host's clock may be wrong.
    """
    at = store.now()
    group = new_id(at)
    requests = tuple(
        Request(
            id=group if len(wish.targets) == 1 else f"{group}-{index:0{len(str(len(wish.targets)))}}",
            group=group,
            kind=wish.kind,
            query=query,
            target=target,
            expect_active=wish.expect_active,
            actor=wish.actor,
            reason=wish.reason,
            consents=wish.consents,
            created_at=at,
            expires_at=at + wish.within,
        )
        for index, (query, target) in enumerate(wish.targets.items(), start=1)
    )
    for request in requests:
        store.ask(request, term=term)
    return requests


def default_target(query: Query, active: str) -> str:
    """The next cluster in the query's order, beginning again after the last."""
    order = query.clusters
    return order[(order.index(active) + 1) % len(order)] if active in order else order[0]


class Taker:
    """Takes requests for the one that leads."""

    def __init__(self, *, store: Store, queries: dict[str, Query], places: Places, lead: Lead) -> None:
        self._store = store
        self._queries = queries
        self._places = places
        self._lead = lead
        self._term = 0
        """The term of the request in hand, for all of its writes."""

    def take(self, request: Request, *, has_room: bool = True, waited: bool = False) -> str | None:
        """Answer a request: the id of its operation, or None when it was refused.

        Where the request has to wait for the end of another operation, that one's id is returned, so that it is seen
        to, and the request stays open: take it again. Without room no query is stopped: a request that would begin an
        operation stays open, too, for None. ``waited`` says that this happened to it before. Raises ``NotLeading`` and
        ``StaleTerm``.
        """
        self._term = self._lead.term
        request = self._store.request(request.id) or request  # as it stands in this term: it was listed before
        if request.operation is not None or request.refused is not None:
            return request.operation
        for _ in range(ATTEMPTS):
            taken = self._store.operation(request.id)
            if taken is not None:
                return self._answered(request, taken)
            barred = self._barred(request, waited=waited)
            if barred is not None:
                self._refuse(request, barred)
                return None
            standing = next(iter(self._store.operations(query=request.query, only_open=True, limit=1)), None)
            if standing is not None and not joins(request, standing):
                return self._after(request, standing)
            if standing is not None and _comes_late(request, standing):
                return standing.id
            if standing is not None:
                if self._joined(request, standing):
                    return self._answered(request, standing)
                continue
            if not has_room and not self._calls_off(request):
                return None
            refused = self._refusal(request)
            if isinstance(refused, str):
                self._refuse(request, refused)
                return None
            opened = self._opened(request, refused, waited=waited)
            if opened is not None:
                return self._answered(request, opened)
        self._refuse(request, f"{request.query} is being moved by others again and again")
        return None

    def _barred(self, request: Request, *, waited: bool) -> str | None:
        """Why the request is turned down whatever else holds."""
        if request.query not in self._queries:
            return f"query {request.query!r} is not declared"
        return too_late(request, waited=waited) if self._store.now() >= request.expires_at else None

    def _calls_off(self, request: Request) -> bool:
        """Whether the query shall stay where it is; what was asked for earlier and has not begun is refused then."""
        held = self._store.assignment(request.query)
        if held is None or held.cluster != request.target:
            return False
        waiting, now = self._store.open_requests(), self._store.now()
        for each in waiting:
            of_before = each.created_at > now  # by a clock that was set back since
            earlier = of_before or (each.created_at, each.id) < (request.created_at, request.id)
            if earlier and (each.query, each.kind) == (request.query, request.kind) and each.target != request.target:
                self._refuse(each, f"called off by {request.actor}: {request.query} stays on {request.target}")
        return True

    def _answered(self, request: Request, operation: Operation) -> str:
        self._store.answer(request.id, term=self._term, operation=operation.id)
        return operation.id

    def _joined(self, request: Request, standing: Operation) -> bool:
        """A second request of the same query joins; what it consents to counts from now on. False: it just closed."""
        if not request.consents:
            return True
        text = f"{request.actor} consents to {', '.join(request.consents)}"
        event = replace(self._event(request, "consent", text), operation=standing.id, epoch=standing.epoch)
        return self._store.consent(standing.id, request.consents, term=self._term, event=event)

    def _after(self, request: Request, standing: Operation) -> str | None:
        """Another aim than the open operation's: that one has to end first.

        That is waited for if it is stranded, or if the request itself calls it off, which its driver sees.
        """
        if calls_off(request, standing) and standing.phase not in BEHIND_COMMIT:
            return standing.id
        held = self._store.assignment(request.query)
        unreachable = self._places.silence_of(standing) if standing.phase in LANDING else ""
        reason = stranded(standing, fact_of(self._store, request.query), unreachable)
        if reason is not None and held is not None and held.desired is Desired.RUNNING:
            return standing.id
        text = (
            f"operation {standing.id}, a {standing.kind.value} to {standing.target}, is open ({standing.phase.value}): "
            f"wait for its end (tideover show-op {standing.id}), or join it with its own verb and target"
        )
        self._refuse(request, text)
        return None

    def _refusal(self, request: Request) -> str | Facts:
        """Why the request is turned down before anything is stopped, or the facts on which it may go on."""
        query = self._queries[request.query]
        assignment = self._store.assignment(request.query)
        target = request.target or default_target(query, assignment.cluster if assignment else query.clusters[0])
        if target not in query.clusters:
            return f"{request.query} may not run on {target}: its clusters are {', '.join(query.clusters)}"
        consents = frozenset(request.consents)
        facts = self._places.before(
            request.kind, request.query, target, consents=consents, expect_active=request.expect_active
        )
        # A runner may still be starting: the operation waits for it, and says so, instead of turning the operator away.
        refused = next(
            (gate for gate in self._judged(request, facts) if not gate.ok and gate.name != "runner-alive"), None
        )
        return facts if refused is None else f"{refused.name}: {refused.text}"

    def _judged(self, request: Request, facts: Facts) -> tuple[Gate, ...]:
        """The gates, asked now; those of automatic mode too, where it asked: much may have happened since it did."""
        if request.actor != AUTOMATIC:
            return gates.judge(facts)
        beliefs = {belief.cluster: belief for belief in self._store.beliefs()}
        return automatic.judge(circumstances_of(self._store, facts, beliefs=beliefs, term=self._term))

    def _refuse(self, request: Request, text: str) -> None:
        self._store.answer(request.id, term=self._term, refused=text, event=self._event(request, "refused", text))

    def _opened(self, request: Request, facts: Facts, *, waited: bool) -> Operation | None:
        assignment = facts.assignment
        if assignment is None:
            return None
        at, belief = self._store.now(), self._belief(facts.source)
        before = watched(Phase.WATCHING, belief.verdict if belief is not None else Verdict.UNKNOWN)
        text = f"{request.kind.value} of {request.query} from {facts.source} to {facts.target}"
        operation = Operation(
            id=request.id,
            group=request.group,
            kind=request.kind,
            query=request.query,
            source=facts.source,
            target=facts.target,
            epoch=assignment.epoch + 1,
            phase=move(before, Happening.HELD),
            outcome=None,
            actor=request.actor,
            reason=request.reason,
            consents=request.consents,
            plan=None,
            measured={"detect_seconds": belief.detect_seconds if belief is not None else None},
            sentence=text,
            started_at=at if waited else request.created_at,
            ended_at=None,
        )
        hosting = hosting_process(assignment, fact_of(self._store, request.query), self._store.runners())
        held = Step(
            operation=operation.id,
            sequence=1,
            name="hold",
            started_at=at,
            ended_at=at,
            outcome="done",
            detail=hold_detail(operation.epoch, hosting),
        )
        event = replace(self._event(request, "hold", text), operation=operation.id, epoch=operation.epoch)
        taken = self._store.hold(operation, from_epoch=assignment.epoch, term=self._term, step=held, event=event)
        return operation if taken is not None else None

    def _belief(self, cluster: str) -> Belief | None:
        return next((belief for belief in self._store.beliefs() if belief.cluster == cluster), None)

    def _event(self, request: Request, kind: str, text: str) -> Event:
        return Event(
            sequence=None,
            at=self._store.now(),
            kind=kind,
            query=request.query,
            operation=None,
            epoch=None,
            actor=request.actor,
            text=text,
            detail={"request": request.id, "reason": request.reason},
        )


def _comes_late(request: Request, standing: Operation) -> bool:
    """Whether it consents to more than an operation on its way back was judged by: that would do nothing there."""
    return standing.phase is Phase.ABORTED and not set(request.consents) <= set(standing.consents)


def hold_detail(epoch: int, hosting: Process | None) -> dict[str, object]:
    """What a hold records: the epoch that it took, and the process whose run has to be proven gone."""
    return {"epoch": epoch, "hosting": hosting.as_json() if hosting else None}


def standing_of(store: Store, requests: Sequence[Request]) -> tuple[Request, ...]:
    """The requests as they stand now."""
    return tuple(store.request(request.id) or request for request in requests)
