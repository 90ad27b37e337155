"""Asking the standby: the edge between deciding and the clusters. It gathers facts; gates and plans are pure.

The same gathering serves ``plan`` (from what runners last reported) and an operation (from the checkpoint after its
fence), so that a plan shows what the operation would do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.clock import Clock
from orchestrator.decide.facts import Facts, Standby
from orchestrator.decide.treatment import choose_fresh, choose_treatment
from orchestrator.decide.wants import since_move, standby_topic, wants_of
from state.model import Operation, OperationKind, Phase, RunnerFact
from state.ports import Store
from state.protocol import CheckpointReport
from state.settings import Query, Tideover
from streaming.errors import ClusterUnreachable, KafkaError
from streaming.log import Log
from streaming.resolver import resolve
from streaming.resume.model import Resolution, Rules, Target, Want

Logs = Callable[[str], Log]
"""A way to look at a cluster by its name."""

DESCRIBE_SECONDS = 2.0
STANDBY_SECONDS = 3.0
"""How long an answer about topics stands."""
RESOLVE_SECONDS = 5.0
FRESH_HEARTBEAT = timedelta(seconds=5)
DEFAULT_BUFFER = timedelta(minutes=15)
"""Stands in for ``buffer: measured`` as long as nothing was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What was asked ahead of need, and the answer."""

    target: str
    wants: tuple[Want, ...]
    resolution: Resolution


class Places:
    """Gathers facts for one operation or one plan; not shared between threads."""

    def __init__(self, *, store: Store, settings: Tideover, logs: Logs, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._logs = logs
        self._clock = clock
        self._ahead: _Asked | None = None
        self._standby: tuple[str, float, Standby] | None = None

    def alive(self, query: str) -> tuple[RunnerFact, ...]:
        """Eligible runners whose heartbeat is fresh, by the store's clock."""
        eligible = self._settings.queries[query].runners
        fresh = self._store.now() - FRESH_HEARTBEAT
        return tuple(fact for fact in self._store.runners() if fact.runner in eligible and fact.seen_at >= fresh)

    def before(
        self,
        kind: OperationKind,
        query: str,
        target: str,
        *,
        consents: frozenset[str] = frozenset(),
        expect_active: str | None = None,
        look: bool = True,
    ) -> Facts:
        """Facts that need no checkpoint: for the look before anything is stopped. ``look`` asks the standby too."""
        settings = self._settings.queries[query]
        assignment = self._store.assignment(query)
        source = assignment.cluster if assignment else settings.clusters[0]
        route = self._settings.route(source, target)
        names = {topic for declared in settings.sources.values() for topic in declared.topics}
        open_now = next(iter(self._store.operations(query=query, only_open=True, limit=1)), None)
        facts = Facts(
            kind=kind,
            query=query,
            settings=settings,
            policy=self._settings.policy_of(query),
            source=source,
            target=target,
            expect_active=expect_active,
            consents=consents,
            route=route,
            assignment=assignment,
            open_operation=open_now.id if open_now else None,
            runners=self.alive(query),
            topics={name: standby_topic(route, name) if route else None for name in sorted(names)},
            epoch=assignment.epoch + 1 if assignment else None,
        )
        return replace(facts, standby=self.standby(facts)) if look and route and source != target else facts

    def standby(self, facts: Facts) -> Standby:
        """One bounded question to the standby about the topics; an answer of a moment ago stands."""
        started = self._clock.monotonic()
        wanted = sorted({there for there in (facts.topics or {}).values() if there is not None})
        if self._standby is not None:
            target, asked, answer = self._standby
            if target == facts.target and started - asked < STANDBY_SECONDS and set(wanted) <= set(answer.topics or {}):
                return answer
        limit = DESCRIBE_SECONDS
        try:
            described = self._logs(facts.target).describe(wanted, timeout=limit)
        except KafkaError as error:
            seconds = self._clock.monotonic() - started
            return Standby(reachable=False, seconds=seconds, limit_seconds=limit, error=str(error))
        seconds = self._clock.monotonic() - started
        answer = Standby(reachable=True, seconds=seconds, limit_seconds=limit, topics=dict(described))
        self._standby = (facts.target, started, answer)
        return answer

    def after(self, facts: Facts, report: CheckpointReport, *, stateful: bool | None = None) -> Facts:
        """The facts completed from a checkpoint report. Raises ``KafkaError``."""
        topics = {topic: None for by_topic in report.offsets.values() for topic in by_topic}
        if facts.route is None:
            return replace(facts, report=report, topics={**topics, **(facts.topics or {})})
        named = {topic: standby_topic(facts.route, topic) for topic in sorted({*topics, *(facts.topics or {})})}
        facts = replace(facts, report=report, topics=named, stateful=report.stateful if stateful is None else stateful)
        if facts.standby is None or set(named) - set(facts.standby.topics or {}):
            facts = replace(facts, standby=self.standby(facts))
        if facts.standby is not None and not facts.standby.reachable:
            raise ClusterUnreachable(facts.standby.error)
        if None in named.values() or report.batch is None:
            return facts
        resolution, planned = self._resolve(facts, report)
        choice = choose_fresh(report) if facts.fresh else choose_treatment(report, resolution, planned)
        return replace(facts, resolution=resolution, planned_resolution=planned, choice=choice)

    def look_ahead(self, facts: Facts, report: CheckpointReport) -> None:
        """Resolve before the fence is done; used afterwards only if the position is the same and every place exact."""
        if facts.route is None or self._ahead is not None:
            return
        try:
            self.standby(facts)
            wants = self._wants(facts, report)
            self._ahead = _Asked(target=facts.target, wants=wants, resolution=self._ask(facts, wants))
        except KafkaError:
            return

    def _resolve(self, facts: Facts, report: CheckpointReport) -> tuple[Resolution, Resolution | None]:
        wants = self._wants(facts, report)
        ahead = self._ahead
        if report.planned is None or facts.fresh:
            if ahead and (ahead.target, ahead.wants) == (facts.target, wants) and _all_exact(ahead.resolution):
                return ahead.resolution, None
            return self._ask(facts, wants), None
        planned = self._wants(facts, report.model_copy(update={"offsets": report.planned.offsets}))
        both = self._ask(facts, tuple(dict.fromkeys(wants + planned)))
        return _part(both, wants), _part(both, planned)

    def _wants(self, facts: Facts, report: CheckpointReport) -> tuple[Want, ...]:
        if facts.route is None:
            raise ValueError(f"no route from {facts.source} to {facts.target}")
        last = last_move(self._store, facts.query)
        positions = since_move(self._store.positions(facts.query), *moved(self._store, last))
        return wants_of(report.offsets, positions=positions, ends=self._store.ends(facts.source), route=facts.route)

    def _ask(self, facts: Facts, wants: Sequence[Want]) -> Resolution:
        return resolve(
            self._logs(facts.target),
            wants,
            rules_of(facts.settings, facts.policy.on_no_match),
            old_ends=self._store.ends(facts.source),
            now=self._clock.now(),
            timeout=RESOLVE_SECONDS,
        )


def rules_of(query: Query, on_no_match: str) -> Rules:
    """How places are looked for, as the query's settings say."""
    buffer = DEFAULT_BUFFER if query.buffer == "measured" else query.buffer
    isolation = {source.options.get("kafka.isolation.level") for source in query.sources.values()}
    return Rules(
        methods=query.methods,
        buffer_ms=round(buffer.total_seconds() * 1000),
        on_no_match=on_no_match,
        read_committed="read_committed" in isolation,
    )


def last_move(store: Store, query: str) -> Operation | None:
    """The newest operation that passed its point of no return."""
    past = {Phase.STARTING, Phase.VERIFYING, Phase.SETTLED}
    return next((operation for operation in store.operations(query=query) if operation.phase in past), None)


def moved(store: Store, operation: Operation | None) -> tuple[datetime | None, int | None]:
    """When that move was committed, and its first batch with data."""
    if operation is None:
        return None, None
    batch = (operation.plan or {}).get("data_batch")
    commit = next((step for step in store.steps(operation.id) if step.name == "commit"), None)
    return (commit.started_at if commit else operation.started_at), batch if isinstance(batch, int) else None


def _all_exact(resolution: Resolution) -> bool:
    return all(target.exact for target in resolution.targets)


def _part(both: Resolution, wants: Sequence[Want]) -> Resolution:
    """Of one answer to two questions, the targets that belong to one of them."""
    keys = {(want.source, want.topic, want.partition, want.offset) for want in wants}
    targets = tuple(target for target in both.targets if _key(target) in keys)
    return replace(both, targets=targets)


def _key(target: Target) -> tuple[str, str, int, int]:
    return target.source, target.topic, target.partition, target.offset
