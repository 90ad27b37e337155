"""What is under way now: what a runner reported last of one query, which process that was, which operations are open,
and whose turn it is to begin.

A drill is open beside whatever else is: it is in no operation's way, and found by its own name alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from orchestrator.decide.operation.snapshot import Companion, hosted_by
from orchestrator.decide.operation.turns import WAVE, Turn, Upstream, turn_behind, turn_in_wave, wave_of
from orchestrator.decide.phases import PLANNED
from state.messages import Process
from state.model.entities import (
    DRILLS,
    Assignment,
    Desired,
    IntentKind,
    IntentState,
    Operation,
    Phase,
    QueryFact,
    Request,
    RunnerFact,
    Step,
)
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore

_AT_MOST = 1_000_000
"""Far more than there can be: a query has one open move at most, and one drill."""

_LOOKED_BACK = 100
"""From how many of the last operations the time of a move is known."""


def open_operations(store: ControllerStore) -> list[Operation]:
    """Every open operation but drills, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_AT_MOST)))


def open_operation(store: ControllerStore, query: str) -> Operation | None:
    """The open operation of a query; None where it has none. A drill is none."""
    return next(iter(store.operations(query=query, only_open=True, limit=1)), None)


def moved_last(store: ControllerStore) -> Sequence[Operation]:
    """The last operations, by which the time of a move is estimated."""
    return store.operations(limit=_LOOKED_BACK)


def open_drills(store: ControllerStore) -> list[Operation]:
    """Every open drill, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_AT_MOST, kinds=DRILLS)))


def open_drill(store: ControllerStore, query: str) -> Operation | None:
    """The open drill of a query; None where it has none."""
    return next(iter(store.operations(query=query, only_open=True, limit=1, kinds=DRILLS)), None)


def companion_of(store: ControllerStore, name: str, operation: Operation) -> Companion:
    """How far another query of the same application is on its way to where an operation goes. Raises ``StoreError``.

    A request is answered by an operation, which places its query: read in this order, none of them is missed.
    """
    is_requested = any(each.query == name and each.target in {None, operation.target} for each in store.open_requests())
    found = open_operation(store, name)
    row = store.assignment(name)
    if found is not None and found.target != operation.target:
        return Companion(query=name, stays=f"operation {found.id} takes it to {found.target}")
    if row is not None and row.cluster == operation.target:
        return Companion(query=name, is_there=True)
    if found is not None and found.phase is Phase.ABORTED:
        return Companion(query=name, stays=f"operation {found.id}: {found.sentence}")
    if found is not None:
        return Companion(query=name, is_ready=found.phase is Phase.PREPARING and _is_prepared(store, found))
    return Companion(query=name) if is_requested else Companion(query=name, stays=_why_it_stays(store, name, operation))


def _is_prepared(store: ControllerStore, operation: Operation) -> bool:
    """Whether the newest order of this epoch to prepare was carried out."""
    own = [each for each in store.intents(operation.id) if each.kind is IntentKind.PREPARE]
    last = max((each for each in own if each.epoch == operation.epoch), key=lambda each: each.attempt, default=None)
    return last is not None and last.state is IntentState.DONE


def _why_it_stays(store: ControllerStore, name: str, operation: Operation) -> str:
    for each in store.requests_of(operation.group):
        if each.query == name and each.refused is not None:
            return each.refused
        ended = store.operation(each.operation) if each.query == name and each.operation is not None else None
        if ended is not None:
            return f"operation {ended.id} ({ended.outcome}): {ended.sentence}"
    return "nothing moves it"


FRESH_HEARTBEAT = timedelta(seconds=5)
"""A runner whose heart beat this recently, by the store's clock, is alive."""


def latest_fact(store: RunnerStore, query: str) -> QueryFact | None:
    """The newest report of a query; None before the first. Raises ``StoreError``.

    A caller that also reads the assignment reads it after this: else a move in between would look like an older store.
    """
    return next(iter(store.query_facts(query=query)), None)


def alive_runners(store: RunnerStore) -> tuple[RunnerFact, ...]:
    """Runners whose heartbeat is fresh, by the store's clock; one from a time to come is of the past."""
    now = store.now()
    return tuple(fact for fact in store.runners() if abs(now - fact.seen_at) <= FRESH_HEARTBEAT)


def hosting_process(assignment: Assignment, fact: QueryFact | None, runners: Iterable[RunnerFact]) -> Process | None:
    """The process that ran the query last, or may have.

    A runner to which the query was given without a word from it since, where the fact is another runner's of before,
    may have started it all the same.
    """
    if fact is None or (fact.epoch != assignment.epoch and fact.runner != assignment.runner):
        given = next((registered for registered in runners if registered.runner == assignment.runner), None)
        return Process.of_fact(given) if given is not None else None
    return Process.of_query(fact)


def hosting_of(steps: Sequence[Step]) -> Process | None:
    """The process that ran a query when its last hold was taken, as the hold recorded it."""
    hold = next((step for step in reversed(steps) if step.name == "hold"), None)
    hosting = hold.detail.get("hosting") if hold is not None else None
    return Process.of(hosting) if hosting is not None else None


def run_of(store: ControllerStore, query: str) -> Process | None:
    """The run of a query that a move has to prove stopped, as it can be seen now; None where it never ran.

    Raises ``StoreError``. While an operation is open it is the run that its fence is about.
    """
    fact, assignment = latest_fact(store, query), store.assignment(query)
    under_way = open_operation(store, query)
    if assignment is None:
        return None
    if under_way is not None and assignment.desired is Desired.HELD:
        return hosted_by(hosting_of(store.steps(under_way.id)), fact)
    return hosting_process(assignment, fact, store.runners())


class Turns:
    """Whose turn it is, by what is in the store alone, so that each leader comes to the same.

    For one round: what was read is kept, and what ends in between is seen in the next one. Raises ``StoreError``.
    """

    def __init__(
        self,
        store: ControllerStore,
        upstream: Mapping[str, Sequence[str]],
        groups: Mapping[str, Sequence[Request]] | None = None,
        companions: Callable[[str], Sequence[str]] = lambda query: (),
    ) -> None:
        """``upstream`` has by query those directly upstream of it, ``companions`` those of the same application.

        ``groups`` has the requests of those groups that are not written yet, or not all of them: what the caller adds
        to one of these later counts from then on.
        """
        self._store = store
        self._upstream = upstream
        self._companions = companions
        self._unwritten = groups or {}
        self._groups: dict[str, Sequence[Request]] = {}
        self._operations: dict[str, Operation | None] = {}

    def turn_of(self, request: Request) -> Turn | None:
        """Why a request that is not answered yet does not begin, as far as other queries show.

        One that did not go counts before all that are waited for.
        """
        request = next((each for each in self._group(request) if each.id == request.id), request)
        turns = (self._in_wave(request), turn_behind(request, self._upstream_of(request)))
        found = [turn for turn in turns if turn is not None]
        return next((turn for turn in found if turn.never), found[0] if found else None)

    def follows(self, request: Request) -> bool:
        """Whether its query ran on until another one had moved: it was not away since its move was requested."""
        before = self._before(request)
        return wave_of(request.parameters) > 1 or any(each.query in before for each in self._group(request))

    def _in_wave(self, request: Request) -> Turn | None:
        if wave_of(request.parameters) == 1:
            return None
        return turn_in_wave(request, ((each, self._operation_of(each)) for each in self._group(request)))

    def _upstream_of(self, request: Request) -> Iterator[Upstream]:
        before = self._before(request)
        requests = {each.query: each for each in self._group(request)} if before else {}
        for query in before:
            yield self._upstream_query(query, requests.get(query))

    def _upstream_query(self, query: str, request: Request | None) -> Upstream:
        if request is not None and request.operation is not None:
            operation = self._operation_of(request)
        else:
            standing = open_operation(self._store, query) if request is None else None
            operation = standing if standing is not None and standing.source != standing.target else None
        row = self._store.assignment(query)
        return Upstream(query=query, cluster=row.cluster if row else None, request=request, operation=operation)

    def _before(self, request: Request) -> Sequence[str]:
        return self._upstream.get(request.query, ()) if request.kind in PLANNED else ()

    def _group(self, request: Request) -> Sequence[Request]:
        if request.group in self._unwritten:
            return self._waved(self._unwritten[request.group])
        if request.group not in self._groups:
            self._groups[request.group] = self._waved(self._store.requests_of(request.group))
        return self._groups[request.group]

    def _waved(self, requests: Sequence[Request]) -> Sequence[Request]:
        """The queries of one application move in the first of their waves."""
        waves = {each.query: wave_of(each.parameters) for each in requests}

        def first(query: str) -> int:
            return min(waves[each] for each in (query, *self._companions(query)) if each in waves)

        return [
            each if first(each.query) == wave_of(each.parameters)
            else replace(each, parameters={**each.parameters, WAVE: first(each.query)})
            for each in requests
        ]  # fmt: skip

    def _operation_of(self, request: Request) -> Operation | None:
        if request.operation is None:
            return None
        if request.operation not in self._operations:
            self._operations[request.operation] = self._store.operation(request.operation)
        return self._operations[request.operation]
