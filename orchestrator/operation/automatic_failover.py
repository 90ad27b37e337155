"""Automatic mode's hand: requests the failovers that policy allows, in the words of a person's request.

What it writes is a request like any other, under the name ``auto`` and the leader's term. The controller that takes it
judges by the same gates again, for it may have waited for its turn; from there on nothing differs. All queries that may
leave what is down share a group, also where there are too many to be judged in one round. A query that may not move is
reported once, with the gate that keeps it, and again only when another gate does.

No query waits for another one: whatever is wrong with the rows or the request of one is raised when all others are
judged. Only a store that is away, or another leader, ends the round.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import cached_property

from orchestrator.decide.gates import automatic
from orchestrator.decide.gates.gate import Gate
from orchestrator.facts.current import open_operation
from orchestrator.facts.gather import FactGatherer
from orchestrator.new_requests import RequestSpec, requests_of
from orchestrator.operation.pauses import automatic_facts_of
from orchestrator.rounds import TimedRound, apart
from state.model.automation import AUTOMATIC
from state.model.cluster_status import GONE, ClusterStatus
from state.model.entities import Event, OperationKind, Request
from state.settings.keys import Tideover
from state.settings.topics import chains_of
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock

_WAITED_FOR = "runner-alive"
"""A runner may still be starting, or be the warm one that takes over: the operation waits for it, and says so."""
_TURN_WITHIN = timedelta(hours=1)
"""How long a request may wait while others are moved; another request in between would say nothing new."""


class AutomaticFailover:
    """Looks at every query whose cluster is down, for the process that leads; returns soon."""

    def __init__(self, *, store: ControllerStore, settings: Tideover, gatherer: FactGatherer, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._gatherer = gatherer
        self._round = TimedRound(clock)
        self._reported: dict[str, str] = {}
        self._group: str | None = None
        """Of the requests for what is down now."""

    def submit(self, statuses: Mapping[str, ClusterStatus], *, term: int) -> Sequence[Request]:
        """Write the requests that every gate allows. Raises ``StoreError``.

        What is wrong with one query is raised when the requests of all others are written.
        """
        down = {cluster for cluster, status in statuses.items() if status.verdict in GONE}
        if not down:
            self._reported.clear()
            self._group = None
            return ()
        there = [each.query for each in self._store.assignments() if each.cluster in down]
        wanted = [query for query in self._in_order if query in there]
        self._reported = {query: gate for query, gate in self._reported.items() if query in there}
        targets: dict[str, str | None] = {}
        wrong: list[Exception] = []
        for query in self._round.through(wanted, key=str):
            with apart(wrong):
                if query not in targets:
                    targets |= self._targets_with(query, wanted, statuses, term)
        requested = self._request(targets, statuses, down, wrong, term=term) if targets else ()
        if wrong:
            raise wrong[0]
        return requested

    def _targets_with(
        self, query: str, wanted: Sequence[str], statuses: Mapping[str, ClusterStatus], term: int
    ) -> dict[str, str | None]:
        """Where a query goes, with those of its application; empty unless each of them may be moved."""
        along = [each for each in self._settings.companions(query) if each in wanted]
        found: dict[str, str | None] = {}
        for each in (query, *along):
            if not self._may_be_requested(each):
                return {}
            target, refused = self._judged(each, statuses, term)
            if refused is not None:
                self._report(query, refused, term)
                return {}
            found[each] = target
        return found

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        """Upstream queries begin first where not all begin at once; none waits for another."""
        return chains_of(self._settings).in_order(self._settings.queries)

    def _request(
        self,
        targets: Mapping[str, str | None],
        statuses: Mapping[str, ClusterStatus],
        down: AbstractSet[str],
        wrong: list[Exception],
        *,
        term: int,
    ) -> Sequence[Request]:
        lost = sorted({statuses[cluster].reasons[0] for cluster in down})
        spec = RequestSpec(
            kind=OperationKind.FAILOVER, targets=targets, expect_active={}, actor=AUTOMATIC,
            reason=f"{', '.join(sorted(down))} is gone: {'; '.join(lost)}", consents=(), within=_TURN_WITHIN,
        )  # fmt: skip
        requests, written = requests_of(self._store, spec, group=self._group), list[Request]()
        self._group = requests[0].group
        for request in requests:
            with apart(wrong):
                self._store.add_request(request, term=term)
                written.append(request)
        return written

    def _may_be_requested(self, query: str) -> bool:
        """Policy lets it, and nothing is under way or requested already."""
        if not self._settings.policy_of(query).automatic:
            return False
        if any(request.query == query for request in self._store.open_requests()):
            return False
        return open_operation(self._store, query) is None

    def _judged(self, query: str, statuses: Mapping[str, ClusterStatus], term: int) -> tuple[str, Gate | None]:
        """Where the query would go, and the first gate that refuses. The standby is read last, if all else passes."""
        assignment = self._store.assignment(query)
        settings = self._settings.queries[query]
        active = assignment.cluster if assignment else settings.clusters[0]
        target = automatic.standby_of(settings, active, statuses)
        refused: Gate | None = None
        for look in (False, True):
            facts = self._gatherer.before(OperationKind.FAILOVER, query, target, look=look)
            given = automatic_facts_of(self._store, facts, statuses=statuses, term=term)
            refused = _refusal(automatic.judge_automatic(given))
            if refused is not None:
                break
        return target, refused

    def _report(self, query: str, gate: Gate, term: int) -> None:
        if self._reported.get(query) == gate.name:
            return
        event = Event(
            sequence=None, at=self._store.now(), kind="not-moved", query=query, operation=None, epoch=None,
            actor=AUTOMATIC, text=f"{query} is not moved: {gate.name}: {gate.text}", detail=gate.as_json(),
        )  # fmt: skip
        self._store.note(event, term=term)
        self._reported[query] = gate.name


def _refusal(gates: Iterable[Gate]) -> Gate | None:
    return next((gate for gate in gates if not gate.ok and gate.name != _WAITED_FOR), None)
