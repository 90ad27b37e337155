"""Requests of drills: answered beside those of moves.

A drill needs no hold and no turn, so its requests have a handler of their own. A move never waits for a drill, joins it
or is refused because of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.facts.current import open_drill, open_operation
from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import Leadership
from orchestrator.operation.requests import event_of
from state.model.entities import DRILLS, Operation, Phase, Request, Step
from state.model.measured import NOTHING
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore

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
            measured=NOTHING,
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
    request = next((each for each in store.open_requests() if each.query == query), None)
    return f"{request.actor} requests a {request.kind.value} of {query}" if request is not None else None
