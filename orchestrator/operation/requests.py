"""A request becomes one operation, joins the open one, or is refused; ``new_requests`` writes them.

An operation carries its request's id, so that a handler that died after the hold and before the answer finds on its
return that the request was taken already. A verb moves a query once, however often it is retried.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from orchestrator.decide.gates import automatic, checks
from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.gates.gate import MOVE, Gate
from orchestrator.decide.move.left_behind import to_compare
from orchestrator.decide.move.plan import headline
from orchestrator.decide.move_facts import CUT_SHORT, MoveFacts
from orchestrator.decide.operation.post_commit import LANDING, calls_off, cuts_short, joins, stranded
from orchestrator.decide.operation.step import stays_text
from orchestrator.decide.operation.turns import THERE, Turn, too_late
from orchestrator.decide.phases import BEHIND_COMMIT, Trigger, move, watched
from orchestrator.facts.current import Turns, hosting_process, latest_fact, open_operation
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.measure import keep_counts
from orchestrator.lease import Leadership
from orchestrator.operation.pauses import automatic_facts_of
from state.errors import StoreError
from state.messages import Process
from state.model.automation import AUTOMATIC
from state.model.cluster_status import ClusterStatus, Verdict
from state.model.entities import Desired, Event, Operation, OperationKind, Phase, Request, Step
from state.model.measured import Measured
from state.settings.keys import Query
from state.store.controller_store import ControllerStore

log = structlog.get_logger()
ATTEMPTS = 5
"""How often a hold is tried when the assignment moves under it."""


class RequestHandler:
    """Takes requests for the one that leads."""

    def __init__(
        self,
        *,
        store: ControllerStore,
        queries: dict[str, Query],
        upstream: Mapping[str, Sequence[str]],
        gatherer: FactGatherer,
        lead: Leadership,
        is_ours: Callable[[Request], bool] = lambda request: True,
        companions: Callable[[str], Sequence[str]] = lambda query: (),
    ) -> None:
        """For one round of requests.

        ``is_ours`` says whether this process may judge a request by its own configuration and network. ``upstream``
        has by query those directly upstream of it, ``companions`` the others of its application.
        """
        self._companions = companions
        self._is_ours = is_ours
        self._store = store
        self._queries = queries
        self._turns = Turns(store, upstream, companions=companions)
        self._gatherer = gatherer
        self._lead = lead
        self._term = 0
        """The term of the request in hand, for all of its writes."""

    def take(self, request: Request, *, has_room: bool = True, waited: bool = False) -> str | None:
        """Answer a request: the id of its operation, or None when it was refused.

        Where the request has to wait for the end of another operation, that one's id is returned, so that it is seen
        to, and the request stays open. Take it again. Without room no query is stopped: a request that would begin an
        operation stays open, too, for None. So does one of others that more is needed for than the store: the process
        that made it judges it. And one whose query has to follow another one. ``waited`` says that there was no room
        before. Raises ``NotLeading`` and ``StaleTerm``.
        """
        self._term = self._lead.term
        request = self._store.request(request.id) or request  # as it is in this term: it was listed before
        if request.operation is not None or request.refused is not None:
            return request.operation
        for _ in range(ATTEMPTS):
            taken = self._store.operation(request.id)
            if taken is not None:
                return self._answered(request, taken)
            along = self._along(request)
            turn = self._turn(request, along)
            barred = self._barred(request, waited=waited, turn=turn)
            if barred is not None:
                self._refuse(request, barred)
                return None
            standing = open_operation(self._store, request.query)
            if self._is_left(request, standing, turn, has_room=has_room):
                return None
            if standing is not None and not joins(request, standing):
                return self._after(request, standing)
            if standing is not None and standing.phase is Phase.ABORTED:  # its end is not what this request is after
                return standing.id
            if standing is not None:
                if self._joined(request, standing):
                    return self._answered(request, standing)
                continue
            refused = self._refusal_of_all(request, along) if turn is None else turn.text
            if isinstance(refused, str):
                self._refuse(request, refused)
                return None
            opened = self._opened(request, refused, waited=waited or self._turns.follows(request))
            if opened is not None:
                return self._answered(request, opened)
        self._refuse(request, f"other commands keep moving {request.query}: run the command again")
        return None

    def _measure(self, request: Request, target: str) -> None:
        """What the last move left behind can be measured now, if its cluster is back, and the plan shall say it.

        The move does not depend on it. As a rule a controller has measured it already; then no cluster is read.
        """
        last = next(iter(self._store.operations(query=request.query, limit=1)), None)
        if last is None or last.source != target or not to_compare(last.plan)[1]:
            return
        try:
            keep_counts(
                (request.query,), self._store, self._gatherer.logs, term=lambda: self._term, at=self._store.now(),
                actor=request.actor,
            )  # fmt: skip
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the plan says that this was not measured
            log.warning("what the last move left behind is not measured", query=request.query, error=repr(error))

    def _is_left(self, request: Request, standing: Operation | None, turn: Turn | None, *, has_room: bool) -> bool:
        """Whether the request stays open for now: it is others' to judge, or would begin what has to wait."""
        if not self._is_ours(request):
            return standing is None or not joins(request, standing)
        if standing is not None or self._calls_off(request):
            return False
        return not (has_room or self.follows_companion(request)) if turn is None else not turn.never

    def follows_companion(self, request: Request) -> bool:
        """Whether another query of the same application is on its way already: this one has to follow at once."""
        under_way = (open_operation(self._store, name) for name in self._companions(request.query))
        return any(each is not None and request.target in {None, each.target} for each in under_way)

    def refuse(self, request: Request, text: str) -> None:
        """Refuse a request that cannot be judged, unless its operation has begun. Raises ``StaleTerm``."""
        begun = self._store.operation(request.id)
        if begun is None:
            self._refuse(request, text)
        else:
            self._answered(request, begun)

    def _turn(self, request: Request, along: Sequence[Request] | Turn) -> Turn | None:
        """A query that shall stay where it is follows no other. Those that move along begin together with it."""
        row = self._store.assignment(request.query)
        if row is None or row.cluster == request.target:
            return None
        if isinstance(along, Turn):
            return along
        turns = (self._turns.turn_of(each) for each in (request, *along))
        return next((turn for turn in turns if turn is not None), None)

    def _along(self, request: Request) -> Sequence[Request] | Turn:
        """What is requested of the other queries of the application, where it has not begun; written where it is not.

        One that will not move keeps this one where it is, too.
        """
        row, along = self._store.assignment(request.query), list[Request]()
        others = self._companions(request.query) if self._is_ours(request) else ()
        if not others or row is None or request.kind is OperationKind.REWIND or row.cluster == request.target:
            return along
        target = request.target or default_target(self._queries[request.query], row.cluster)
        known = {each.query: each for each in self._store.requests_of(request.group)}
        for name in others:
            is_moving = open_operation(self._store, name) is not None  # read first: one that ends now has placed it
            placed = self._store.assignment(name)
            if is_moving or (placed is not None and placed.cluster == target):
                continue
            each = known.get(name) or self._request_along(request, name, target)
            if each.refused is not None:
                return Turn(text=stays_text(request.query, name, each.refused), never=True)
            if each.operation is not None:
                return Turn(text=stays_text(request.query, name, f"operation {each.operation} has ended"), never=True)
            along.append(each)
        return along

    def _request_along(self, request: Request, name: str, target: str) -> Request:
        """What was requested of one query of an application is requested of all. Raises ``StaleTerm``."""
        made = replace(request, id=f"{request.id}-{name}", query=name, target=target)
        self._store.add_request(made, term=self._term)
        return made

    def _barred(self, request: Request, *, waited: bool, turn: Turn | None) -> str | None:
        """Why the request is turned down whatever else holds."""
        if request.query not in self._queries and self._is_ours(request):
            return f"query {request.query!r} is not declared"
        return too_late(request, waited=waited, turn=turn) if self._store.now() >= request.expires_at else None

    def _calls_off(self, request: Request) -> bool:
        """Whether the query shall stay where it is; an earlier request that has not begun is refused then."""
        held = self._store.assignment(request.query)
        if held is None or held.cluster != request.target or request.kind is OperationKind.REWIND:
            return False
        waiting, now = self._store.open_requests(), self._store.now()
        for each in waiting:
            of_before = each.created_at > now  # by a clock that was set back since
            earlier = of_before or (each.created_at, each.id) < (request.created_at, request.id)
            moves = each.target != request.target or each.kind is OperationKind.REWIND
            if earlier and each.query == request.query and moves:
                self._refuse(each, f"cancelled by {request.actor}: {request.query} stays on {request.target}")
        return True

    def _answered(self, request: Request, operation: Operation) -> str:
        self._store.answer(request.id, term=self._term, operation=operation.id)
        return operation.id

    def _joined(self, request: Request, standing: Operation) -> bool:
        """A second request of the same query joins; what it consents to counts from now on. False: it just closed.

        A person who requests what automatic mode has begun consents to the move: from then on a person wants it, too.
        """
        consents = request.consents
        if standing.actor == AUTOMATIC and request.actor != AUTOMATIC:
            consents = (MOVE, *consents)
        if cuts_short(request, standing):
            consents = (CUT_SHORT, *consents)
        if not consents:
            return True
        text = f"{request.actor} consents to {', '.join(consents)}"
        event = replace(self._event(request, "consent", text), operation=standing.id, epoch=standing.epoch)
        return self._store.consent(standing.id, consents, term=self._term, event=event)

    def _after(self, request: Request, standing: Operation) -> str | None:
        """Another aim than the open operation's: that one has to end first.

        That is waited for if it is stranded, or if the request itself calls it off, which its driver sees.
        """
        if calls_off(request, standing) and standing.phase not in BEHIND_COMMIT:
            return standing.id
        held = self._store.assignment(request.query)
        unreachable = self._gatherer.silence_of(standing) if standing.phase in LANDING else ""
        reason = stranded(standing, latest_fact(self._store, request.query), unreachable)
        if reason is not None and held is not None and held.desired is Desired.RUNNING:
            return standing.id
        aim = standing.parameters.get("to_time", standing.target)
        text = (
            f"operation {standing.id}, a {standing.kind.value} to {aim}, is open ({standing.phase.value}): "
            f"wait for its end (tideover show-op {standing.id}), or run its own verb with its target to join it"
        )
        self._refuse(request, text)
        return None

    def _refusal_of_all(self, request: Request, along: Sequence[Request] | Turn) -> str | MoveFacts:
        """The same for all queries of an application: none is stopped unless each may be moved."""
        found = self._refusal(request)
        for each in () if isinstance(found, str) or isinstance(along, Turn) else along:
            refused = self._refusal(each)
            if isinstance(refused, str) and not refused.startswith(THERE):
                return stays_text(request.query, each.query, refused)
        return found

    def _refusal(self, request: Request) -> str | MoveFacts:
        """Why the request is turned down before anything is stopped, or the facts on which it may continue."""
        query = self._queries[request.query]
        assignment = self._store.assignment(request.query)
        active = assignment.cluster if assignment else query.clusters[0]
        target = request.target or (active if request.kind is OperationKind.REWIND else default_target(query, active))
        if target not in query.clusters:
            return f"{request.query} may not run on {target}: its clusters are {', '.join(query.clusters)}"
        consents = frozenset(request.consents)
        facts = self._gatherer.before(
            request.kind,
            request.query,
            target,
            consents=consents,
            expect_active=request.expect_active,
            parameters=request.parameters,
        )
        if request.kind is OperationKind.REWIND:
            facts = self._gatherer.foresee_rewind(facts)
        # A runner may still be starting: the operation waits for it, and says so, instead of turning the operator away.
        refused = next(
            (gate for gate in self._judged(request, facts) if not gate.ok and gate.name != "runner-alive"), None
        )
        return facts if refused is None else f"{refused.name}: {refused.text}"

    def _judged(self, request: Request, facts: MoveFacts) -> tuple[Gate, ...]:
        """The gates, judged now; those of automatic mode too, where it made the request: much may have happened since
        it did.
        """
        if request.actor != AUTOMATIC:
            return checks.judge_move(facts)
        statuses = {status.cluster: status for status in self._store.cluster_statuses()}
        return automatic.judge_automatic(automatic_facts_of(self._store, facts, statuses=statuses, term=self._term))

    def _refuse(self, request: Request, text: str) -> None:
        self._store.answer(request.id, term=self._term, refused=text, event=self._event(request, "refused", text))

    def _opened(self, request: Request, facts: MoveFacts, *, waited: bool) -> Operation | None:
        assignment = facts.assignment
        if assignment is None:
            return None
        if facts.planned:
            self._measure(request, facts.target)
        at, status = self._store.now(), self._cluster_status(facts.source)
        before = watched(Phase.WATCHING, status.verdict if status is not None else Verdict.UNKNOWN)
        text = headline(request.kind, request.query, facts.source, facts.target, request.parameters)
        operation = Operation(
            id=request.id,
            group=request.group,
            kind=request.kind,
            query=request.query,
            source=facts.source,
            target=facts.target,
            epoch=assignment.epoch + 1,
            phase=move(before, Trigger.HELD),
            outcome=None,
            actor=request.actor,
            reason=request.reason,
            consents=request.consents,
            plan=None,
            measured=Measured(detect_seconds=status.detect_seconds if status is not None else None),
            sentence=text,
            started_at=at if waited else request.created_at,
            ended_at=None,
            parameters=request.parameters,
        )
        hosting = hosting_process(assignment, latest_fact(self._store, request.query), self._store.runners())
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

    def _cluster_status(self, cluster: str) -> ClusterStatus | None:
        return next((status for status in self._store.cluster_statuses() if status.cluster == cluster), None)

    def _event(self, request: Request, kind: str, text: str) -> Event:
        return event_of(request, kind, text, at=self._store.now())


def event_of(request: Request, kind: str, text: str, *, at: datetime) -> Event:
    """A line of history that says what became of a request; of no operation yet."""
    return Event(
        sequence=None,
        at=at,
        kind=kind,
        query=request.query,
        operation=None,
        epoch=None,
        actor=request.actor,
        text=text,
        detail={"request": request.id, "reason": request.reason},
    )


def hold_detail(epoch: int, hosting: Process | None) -> dict[str, object]:
    """What a hold records: the epoch that it took, and the process whose run has to be proven gone."""
    return {"epoch": epoch, "hosting": hosting.as_json() if hosting else None}
