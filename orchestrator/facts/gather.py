"""The facts of a move, from the store, the runners' reports and the clusters; gates and plans that judge them are pure.

The same gathering serves ``plan`` (from what runners last reported) and an operation (from the checkpoint after its
fence), so that a plan shows what the operation would do.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.decide.gates.preconditions import cluster_identity, named_cluster
from orchestrator.decide.lookup_wants import report_of_fact, standby_topic, topics_by_pattern
from orchestrator.decide.move_facts import (
    MirrorAnswer,
    MoveFacts,
    NamedCluster,
    StandbyAnswer,
)
from orchestrator.decide.places import nothing_later
from orchestrator.decide.reconcile import held_by
from orchestrator.decide.uncommitted_batch import choose_fresh, choose_treatment
from orchestrator.facts.current import alive_runners, latest_fact, open_operation
from orchestrator.facts.resume_offsets import RESOLVE_SECONDS, STANDBY_SECONDS, ResumeOffsets
from orchestrator.facts.rewind import with_rewound, with_time
from orchestrator.facts.source_cluster import (
    DESCRIBE_SECONDS,
    STILL_WITHIN_SECONDS,
    event_times,
    query_replicator,
)
from state.messages import CheckpointReport
from state.model.entities import MOVES, Operation, OperationKind, RunnerFact, TopicPartition
from state.model.maintenance import ReadinessFact
from state.settings.canonical import are_one_folder
from state.settings.keys import Resume, Route, Tideover
from state.settings.topics import all_topics_of
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs
from streaming.errors import ClusterUnreachable, KafkaError, ServiceTrouble, WrongCluster
from streaming.probe.mirrors import MirrorQuestions
from streaming.resume.model import Resolution

SILENCE_SECONDS = 0.5
"""How long it counts that there was none: a hundred queries need not wait for a dead standby one after the other."""


class FactGatherer:
    """Gathers facts for one operation or one plan; not shared between threads."""

    def __init__(self, *, store: ControllerStore, settings: Tideover, logs: Logs, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self.logs = logs
        self._clock = clock
        self._offsets = ResumeOffsets(store, settings, logs, clock)
        self._questions = MirrorQuestions(clock.monotonic)
        self._stopped: dict[tuple[str, str], datetime] = {}
        """By cluster and topic, since when the replicator is known to append nothing there any more."""
        self._standby: tuple[str, float, StandbyAnswer] | None = None
        self._silences: dict[str, tuple[float, str]] = {}

    def alive(self, query: str) -> tuple[RunnerFact, ...]:
        """Eligible runners that are alive."""
        eligible = self._settings.queries[query].runners
        return tuple(fact for fact in alive_runners(self._store) if fact.runner in eligible)

    def before(
        self,
        kind: OperationKind,
        query: str,
        target: str,
        *,
        consents: frozenset[str] = frozenset(),
        expect_active: str | None = None,
        look: bool = True,
        parameters: Mapping[str, object] | None = None,
    ) -> MoveFacts:
        """Facts that need no checkpoint: for the look before anything is stopped. ``look`` reads the standby too.

        ``parameters`` are those of the kind. Raises ``ValueError`` where a rewind's name no time.
        """
        settings = self._settings.queries[query]
        fact = latest_fact(self._store, query)
        assignment = self._store.assignment(query)  # after the fact: else a move in between looks like an older store
        source = assignment.cluster if assignment else settings.clusters[0]
        route = self._settings.route(source, target)
        names = all_topics_of(self._settings, settings, source)
        if look and fact is not None and fact.cluster == source:
            names |= topics_by_pattern(settings, fact.offsets) or frozenset()
        holder = held_by(assignment, fact)
        open_now = open_operation(self._store, query)
        facts = MoveFacts(
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
            fact=fact,
            stranger=holder if holder is not None and self._store.operation(holder) is None else None,
            open_operation=open_now.id if open_now else None,
            companions=self._companions(query),
            runners=self.alive(query),
            topics={name: standby_topic(route, name) if route else None for name in sorted(names)},
            epoch=assignment.epoch + 1 if assignment else None,
        )
        if kind is OperationKind.REWIND:
            return self._before_rewind(facts, parameters or {}, look=look)
        if not look or route is None or source == target:
            return facts
        facts = replace(facts, names=self._names(facts), standby=self.standby(facts))
        facts = replace(facts, mirrors=self._mirrors(facts))
        facts = replace(facts, times=event_times(self._store, facts), checked=self._checked(query, target))
        return self._of_both_sides(facts) if facts.planned else facts

    def _companions(self, query: str) -> dict[str, str | None]:
        others = {name: open_operation(self._store, name) for name in self._settings.companions(query)}
        return {name: None if each is None else each.target for name, each in others.items()}

    def _checked(self, query: str, target: str) -> ReadinessFact | None:
        found = self._store.readiness(query=query)
        return next((each for each in found if each.target == target), None)

    def _before_rewind(self, facts: MoveFacts, parameters: Mapping[str, object], *, look: bool) -> MoveFacts:
        """A rewind stays on its cluster, and topics have the names that they have there."""
        facts = with_time(facts, parameters, self._store.now())
        if not look or facts.source != facts.target:
            return facts
        return replace(facts, names=self._names(facts), standby=self.standby(facts))

    def foresee_rewind(self, facts: MoveFacts) -> MoveFacts:
        """What a rewind would find if the query stopped now, so that it is refused before that."""
        fact, row = facts.fact, facts.assignment
        if fact is None or row is None or not are_one_folder(fact.checkpoint, row.checkpoint) or fact.batch is None:
            return facts
        if facts.standby is None or not facts.standby.reachable:
            return facts
        with suppress(KafkaError):
            return self._after_rewind(facts, report_of_fact(fact, row.checkpoint))
        return facts

    def _after_rewind(self, facts: MoveFacts, report: CheckpointReport) -> MoveFacts:
        """Where the query continues in time; read while it runs, by the timeline."""
        topics = {topic: topic for by_topic in report.offsets.values() for topic in by_topic}
        facts = replace(facts, topics={**(facts.topics or {}), **topics}, names=self._names(facts))
        facts = replace(facts, report=report, standby=self.standby(facts))
        refused, rewind = cluster_identity(facts), facts.rewind
        if rewind is None or (refused is not None and not refused.ok):
            return facts
        if facts.standby is not None and not facts.standby.reachable:
            raise ClusterUnreachable(facts.standby.error)
        if facts.operation is not None:
            facts = replace(facts, stateful=report.stateful)
        then, foreseen = datetime.fromtimestamp(rewind.to_time_ms / 1000, UTC), facts.operation is None
        return with_rewound(
            self.logs(facts.target),
            facts,
            report,
            stretch=self._store.timeline_at(facts.query, then) if foreseen and facts.stateful else None,
            tracked=self._offsets.tracked(facts) if foreseen and facts.stateful else (),
            now=self._clock.now(),
            timeout=RESOLVE_SECONDS,
        )

    def _of_both_sides(self, facts: MoveFacts) -> MoveFacts:
        """A planned move needs both clusters, and a replicator between them."""
        active = self._describe(facts.source, facts.topics or {})
        if facts.standby is None or not facts.standby.reachable:
            return replace(facts, active=active)
        if facts.route is None or not active.reachable:
            return replace(facts, active=active)
        now, back = self._store.now(), self._settings.route(facts.target, facts.source)
        against = None
        if back is not None and _keeps_names(facts.route, facts.topics) and _keeps_names(back, facts.topics):
            log = self.logs(facts.source)
            against = query_replicator(log, back, now, within_seconds=STILL_WITHIN_SECONDS)
        replicating = query_replicator(self.logs(facts.target), facts.route, now)
        return replace(facts, active=active, replicating=replicating, against=against)

    def _names(self, facts: MoveFacts) -> tuple[NamedCluster, ...]:
        """Who has the names of both clusters, and who answers under them, by what everybody saw a moment ago."""
        pins, probe_reports, now = self._store.pins(), self._store.probe_reports(), self._store.now()
        return tuple(
            self._behind_endpoint(
                named_cluster(cluster, self._configured_id(cluster), pins, probe_reports, now, self._settings.detection)
            )
            for cluster in dict.fromkeys((facts.source, facts.target))
        )

    def _configured_id(self, cluster: str) -> str | None:
        declared = self._settings.clusters.get(cluster)
        return declared.id if declared is not None else None

    def _behind_endpoint(self, known: NamedCluster) -> NamedCluster:
        declared = self._settings.clusters.get(known.cluster)
        if declared is None or declared.endpoint is None:
            return known
        return replace(known, endpoint=declared.endpoint, others=self._settings.behind_endpoint(known.cluster))

    def _mirrors(self, facts: MoveFacts) -> MirrorAnswer | None:
        """What the replicator says of the copies; None where it reports nothing, or nothing moves there."""
        if facts.route is None or facts.route.replicator is None or facts.kind not in MOVES:
            return None
        topics = {there for there in (facts.topics or {}).values() if there is not None}
        try:
            states = self._questions.request(facts.route.replicator, topics)
        except ServiceTrouble as trouble:
            return MirrorAnswer(error=str(trouble))
        if states is None:
            return None
        if not topics or _reads_unknown(facts):
            return MirrorAnswer(error=f"which topics {facts.query} reads is not known yet")
        stopped = {topic: state for topic, state in states.items() if state.is_stopped}
        for topic in states:
            if topic in stopped:
                self._stopped.setdefault((facts.target, topic), self._clock.now())
            else:
                self._stopped.pop((facts.target, topic), None)
        return MirrorAnswer(
            stopped=tuple(stopped),
            running={topic: state.word for topic, state in states.items() if topic not in stopped},
            ends={
                TopicPartition(topic, partition): end
                for topic, state in stopped.items()
                for partition, end in state.ends.items()
            },
        )

    def standby(self, facts: MoveFacts) -> StandbyAnswer:
        """One bounded question to the standby about the topics; an answer of a moment ago counts."""
        started = self._clock.monotonic()
        wanted = sorted({there for there in (facts.topics or {}).values() if there is not None})
        if self._standby is not None:
            target, looked_at, answer = self._standby
            if (
                target == facts.target
                and started - looked_at < STANDBY_SECONDS
                and set(wanted) <= set(answer.topics or {})
            ):
                return answer
        limit = DESCRIBE_SECONDS
        silent, why = self._silences.get(facts.target, (-SILENCE_SECONDS, ""))
        if why and started - silent < SILENCE_SECONDS:
            return StandbyAnswer(reachable=False, seconds=limit, limit_seconds=limit, error=why)
        answer = self._describe(facts.target, wanted)
        if answer.reachable:
            self._standby = (facts.target, started, answer)
        elif answer.stranger is None:
            self._silences[facts.target] = (self._clock.monotonic(), answer.error)
        return answer

    def _describe(self, cluster: str, topics: Iterable[str]) -> StandbyAnswer:
        """One bounded question to a cluster about topics."""
        started, limit = self._clock.monotonic(), DESCRIBE_SECONDS
        error, stranger, described = "", None, None
        try:
            described = dict(self.logs(cluster).describe(sorted(topics), timeout=limit))
        except KafkaError as failure:
            error, stranger = str(failure), failure.seen if isinstance(failure, WrongCluster) else None
        return StandbyAnswer(
            reachable=described is not None,
            seconds=self._clock.monotonic() - started,
            limit_seconds=limit,
            error=error,
            topics=described,
            stranger=stranger,
        )

    def silence_of(self, operation: Operation) -> str:
        """Why the target of a committed operation does not answer, in one bounded question; empty when it does.

        An answer of a moment ago counts, so that a call in every tick costs nothing.
        """
        if operation.target not in self._settings.clusters:
            return "it is no longer declared"
        looked_at, answer = self._silences.get(operation.target, (-STANDBY_SECONDS, ""))
        if self._clock.monotonic() - looked_at < STANDBY_SECONDS:
            return answer
        topics = sorted(all_topics_of(self._settings, self._settings.queries[operation.query], operation.target))
        answer = ""
        try:
            self.logs(operation.target).describe(topics, timeout=DESCRIBE_SECONDS)
        except KafkaError as error:
            answer = str(error)
        self._silences[operation.target] = (self._clock.monotonic(), answer)
        return answer

    def after(self, facts: MoveFacts, report: CheckpointReport, *, stateful: bool | None = None) -> MoveFacts:
        """The facts completed from a checkpoint report. Raises ``KafkaError``.

        A fresh start that has committed nothing is where it was ordered to start.
        """
        if facts.kind is OperationKind.REWIND:
            return self._after_rewind(facts, report)
        arrived = self._offsets.arrived(facts)
        if facts.fresh and report.batch is None and arrived is not None:
            report = report.model_copy(update={"offsets": arrived.reached})
        topics = {topic: None for by_topic in report.offsets.values() for topic in by_topic}
        if facts.route is None:
            return replace(facts, report=report, topics={**topics, **(facts.topics or {})})
        called = {topic: standby_topic(facts.route, topic) for topic in sorted({*topics, *(facts.topics or {})})}
        facts = replace(facts, report=report, topics=called, stateful=report.stateful if stateful is None else stateful)
        facts = replace(facts, names=self._names(facts), times=event_times(self._store, facts))
        facts = replace(facts, mirrors=self._mirrors(facts))
        if facts.standby is None or set(called) - set(facts.standby.topics or {}):
            facts = replace(facts, standby=self.standby(facts))
        refused = cluster_identity(facts)
        if refused is not None and not refused.ok:
            return facts
        if facts.standby is not None and not facts.standby.reachable:
            raise ClusterUnreachable(facts.standby.error)
        if None in called.values() or not report.offsets:
            return facts
        facts, resolution, planned = self._offsets.resolve(
            replace(facts, departure=self._offsets.departed(facts)), report
        )
        sink = facts.settings.sink
        keeps = facts.resume is Resume.SWITCH
        choice = (
            choose_fresh(report)
            if facts.fresh
            else choose_treatment(report, resolution, planned, sink, keeps_query_id=keeps)
        )
        if not facts.planned:  # a planned move waits for what is lacking, or is refused
            resolution = self._behind_mirrors(facts, resolution)
            planned = None if planned is None else self._behind_mirrors(facts, planned)
        facts = replace(facts, resolution=resolution, planned_resolution=planned, choice=choice)
        return self._offsets.of_output(facts)

    def _behind_mirrors(self, facts: MoveFacts, resolution: Resolution) -> Resolution:
        """Nothing comes later to a topic whose mirror was stopped before its end was looked up."""
        mirrors, seen = facts.mirrors, resolution.looked_up_at
        stopped = () if mirrors is None else mirrors.stopped
        return nothing_later(resolution, {each for each in stopped if self._stopped[facts.target, each] <= seen})

    def look_ahead(self, facts: MoveFacts, report: CheckpointReport) -> None:
        """Resolve before the fence is done; used afterwards only if the position is the same and every place exact."""
        if facts.route is None or self._offsets.is_ahead():
            return
        with suppress(KafkaError):
            self.standby(facts)
            self._offsets.look_ahead(replace(facts, names=self._names(facts)), report)


def _reads_unknown(facts: MoveFacts) -> bool:
    """Whether a source subscribes by a pattern, and no report of the cluster in use names what it reads."""
    here = facts.fact if facts.fact is not None and facts.fact.cluster == facts.source else None
    offsets = facts.report.offsets if facts.report is not None else here.offsets if here is not None else None
    return topics_by_pattern(facts.settings, offsets) is None


def _keeps_names(route: Route, topics: Iterable[str] | None) -> bool:
    return all(standby_topic(route, topic) == topic for topic in topics or ())
