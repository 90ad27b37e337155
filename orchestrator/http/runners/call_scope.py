"""What the token of a runner may send and see: the table of rules, one for each call.

A runner speaks for itself, and of the queries that the controller's configuration lets it run. It also speaks of those
that the store places with it, as the configuration of the controller may be newer or older. A rule looks at what is
sent, and returns the sentence of a refusal; of an answer it takes away what is of other runners. Nothing is refused by
silence: a runner takes an operation that is not found for one that never was. Pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from state.model.entities import Assignment, EndSample, Event, Intent, Operation, Position, QueryFact, RunnerFact
from state.model.found_places import FoundPlace
from state.settings.keys import Query, Tideover
from state.settings.topics import all_topics_of, pattern_of

TAKE_OVER = "take-over"
"""Of the name of a lost process: confirmed by a person at the start of the next one, who is the event's actor."""
_KINDS = frozenset({"adopted", "cleaned", "not-cleaned", "drill", "batch-cut", "batch-not-cut"})
"""What a runner writes into the history of its queries: each is a fact that no other process knows."""


@dataclass(frozen=True, slots=True)
class CallScope:
    """Of one runner."""

    settings: Tideover
    runner: str
    rows: Callable[[], Iterable[Assignment]] = field(default=tuple)
    """All of the store."""
    operation: Callable[[str], Operation | None] = lambda _: None
    """The one of that id in the store."""

    def has_query(self, name: str) -> bool:
        """Whether this runner may run it, or does."""
        declared = self.settings.queries.get(name)
        if declared is not None and self.runner in declared.runners:
            return True
        return any(row.query == name for row in self._placed())

    def has_row(self, row: Assignment) -> bool:
        """Whether this runner obeys it."""
        return row.runner == self.runner or self.has_query(row.query)

    def query(self, name: str) -> str | None:
        """Why it may not speak of a query; None where it may."""
        return None if self.has_query(name) else f"{self._token} does not include query {name}"

    def itself(self, name: str) -> str | None:
        """Why it may not speak for a runner; None for itself."""
        return None if name == self.runner else f"{self._token} does not include runner {name}"

    def cluster(self, name: str) -> str | None:
        """Why it may not speak of a cluster; None where one of its queries may read it."""
        if any(name in query.clusters for query in self._queries()):
            return None
        outputs = {query.output.cluster for query in self._queries() if query.output is not None}
        if name in outputs or any(row.cluster == name for row in self._placed()):
            return None
        return f"{self._token} does not include cluster {name}"

    def topic(self, cluster: str, name: str) -> str | None:
        """Why it may not speak of a topic; None where one of its queries may read it."""
        if any(cluster in each.clusters and self._reads(each, cluster, name) for each in self._queries()):
            return None
        if any(row.cluster == cluster and row.query not in self.settings.queries for row in self._placed()):
            return None  # the topics of a query that the configuration does not name are not known here
        return f"{self._token} does not include topic {name} of {cluster}"

    def observer(self, name: str) -> str | None:
        """Why it may not report what an observer saw; None for itself."""
        return None if name == f"runner:{self.runner}" else f"{self._token} does not report as {name}"

    def event(self, event: Event) -> str | None:
        """Why it may not write a line of history; None where it is its own."""
        if event.kind == TAKE_OVER and event.query is None and event.operation is None:
            return self.itself(str((event.detail or {}).get("runner")))
        if event.actor != f"runner {self.runner}":
            return f"{self._token} does not write the history of {event.actor}"
        if event.query is None or event.kind not in _KINDS:
            return f"{self._token} does not write a {event.kind} of {event.query or 'no query'}"
        found = None if event.operation is None else self.operation(event.operation)
        if event.operation is not None and (found is None or found.query != event.query):  # it becomes its evidence
            return f"{self._token} does not write the history of operation {event.operation} for {event.query}"
        return self.query(event.query)

    @property
    def _token(self) -> str:
        return f"the token of runner {self.runner}"

    def _placed(self) -> Iterable[Assignment]:
        return (row for row in self.rows() if row.runner == self.runner)

    def _queries(self) -> Iterable[Query]:
        return (query for query in self.settings.queries.values() if self.runner in query.runners)

    def _reads(self, query: Query, cluster: str, topic: str) -> bool:
        if topic in all_topics_of(self.settings, query, cluster):
            return True
        patterns = (pattern_of(self.settings, query, source, cluster) for source in query.sources.values())
        return any(each is not None and re.fullmatch(each, topic) for each in patterns)


Sent = Mapping[str, Any]
Refusal = str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """Of one call."""

    refusal: Callable[[CallScope, Sent], Refusal] = lambda scope, sent: None
    """The sentence by which what is sent is refused; None where it is taken."""
    shown: Callable[[CallScope, Any], Any] = lambda scope, found: found
    """What the runner sees of the answer. Raises nothing: what it must not see is refused by ``hidden``."""
    hidden: Callable[[CallScope, Any], Refusal] = lambda scope, found: None
    """The sentence in place of an answer that belongs to another runner."""


def _first(refusals: Iterable[Refusal]) -> Refusal:
    return next((each for each in refusals if each is not None), None)


def _own_query(scope: CallScope, sent: Sent) -> Refusal:
    return scope.query(sent["query"])


def _own_runner(scope: CallScope, sent: Sent) -> Refusal:
    return scope.itself(sent["runner"])


def _adopted(scope: CallScope, sent: Sent) -> Refusal:
    row: Assignment = sent["assignment"]
    return scope.query(row.query) or scope.itself(row.runner) or scope.cluster(row.cluster)


def _reported(scope: CallScope, sent: Sent) -> Refusal:
    intent: Intent = sent["intent"]
    return scope.itself(intent.runner)


def _registered(scope: CallScope, sent: Sent) -> Refusal:
    fact: RunnerFact = sent["fact"]
    return scope.itself(fact.runner)


def _query_reported(scope: CallScope, sent: Sent) -> Refusal:
    fact: QueryFact = sent["fact"]
    return scope.query(fact.query) or scope.itself(fact.runner) or scope.cluster(fact.cluster)


def _named_query(scope: CallScope, sent: Sent) -> Refusal:
    return None if sent["query"] is None else scope.query(sent["query"])


def _place(scope: CallScope, sent: Sent) -> Refusal:
    found: FoundPlace = sent["found"]
    return scope.query(found.query) or scope.itself(found.runner)


def _positions(scope: CallScope, sent: Sent) -> Refusal:
    rows: list[Position] = sent["positions"]
    queries, clusters = {each.query for each in rows}, {each.cluster for each in rows}
    return _first(map(scope.query, sorted(queries))) or _first(map(scope.cluster, sorted(clusters)))


def _ends(scope: CallScope, sent: Sent) -> Refusal:
    rows: list[EndSample] = sent["samples"]
    named = {(each.cluster, each.topic) for each in rows}
    return _first(scope.topic(cluster, topic) for cluster, topic in sorted(named))


def _stretch(scope: CallScope, sent: Sent) -> Refusal:
    return scope.query(sent["stretch"].query) or scope.cluster(sent["stretch"].cluster)


def _probes(scope: CallScope, sent: Sent) -> Refusal:
    observers, clusters = {each.viewpoint for each in sent["seen"]}, {each.cluster for each in sent["seen"]}
    return _first(map(scope.observer, sorted(observers))) or _first(map(scope.cluster, sorted(clusters)))


def _cleaned(scope: CallScope, sent: Sent) -> Refusal:
    former = sent["former"]
    return scope.query(former.query) or scope.itself(str(former.runner)) or scope.event(sent["event"])


def _noted(scope: CallScope, sent: Sent) -> Refusal:
    return scope.event(sent["event"])


def _own_queries(scope: CallScope, found: Iterable[Any]) -> list[Any]:
    return [each for each in found if scope.has_query(each.query)]


def _own_operation(scope: CallScope, found: Operation | None) -> Refusal:
    return None if found is None else scope.query(found.query)


RULES: Mapping[str, Rule] = {
    "now": Rule(),
    "await_change": Rule(),
    "assignments": Rule(shown=lambda scope, found: [each for each in found if scope.has_row(each)]),
    "assignment": Rule(_own_query),
    "adopt": Rule(_adopted),
    "operation": Rule(hidden=_own_operation),
    "pending_intents": Rule(_own_runner),
    "report": Rule(_reported),
    "register": Rule(_registered),
    "unregister": Rule(_own_runner),
    "runners": Rule(shown=lambda scope, found: [each for each in found if scope.itself(each.runner) is None]),
    "report_query": Rule(_query_reported),
    "query_facts": Rule(_named_query, shown=_own_queries),
    "readiness": Rule(_named_query, shown=_own_queries),
    "report_place": Rule(_place),
    "found_place": Rule(_own_query),
    "keep_mapping": Rule(_own_query),
    "mappings": Rule(_own_query),
    "save_positions": Rule(_positions),
    "save_ends": Rule(_ends),
    "save_timeline": Rule(_stretch),
    "save_probe_reports": Rule(_probes),
    "pins": Rule(shown=lambda scope, found: [each for each in found if scope.cluster(each.cluster) is None]),
    "to_clean": Rule(_own_runner, shown=_own_queries),
    "report_cleaned": Rule(_cleaned),
    "note": Rule(_noted),
}
"""By name of the call; a call that is not here is refused."""
