"""A plan without an operation: the same facts and gates, from what the runners last reported. Changes nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.automatic import VERDICT_VALID, default_target, standby_of
from orchestrator.decide.gates.readiness import Readiness, ReadinessFacts, judge_readiness
from orchestrator.decide.lookup_wants import newest_of, report_of_fact, since_placed
from orchestrator.decide.move.plan import plan_of
from orchestrator.decide.move_facts import PENDING, MoveFacts, StandbyAnswer
from orchestrator.decide.replication_age import counterparts, partitions_of, replication_of
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.source_cluster import DESCRIBE_SECONDS, has_patterns, stamps_of
from orchestrator.rounds import apart
from state.messages import CheckpointReport
from state.model.cluster_status import ClusterStatus
from state.model.entities import OperationKind, QueryFact, TopicPartition
from state.model.maintenance import ReplicationSample
from state.model.plan import Plan
from state.settings.connection_estimate import ConnectionNeed, connections_of_move, tasks_of
from state.settings.keys import Tideover
from state.settings.topics import all_topics_of
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock, Deadline
from streaming.cluster_log import Logs, TopicFacts
from streaming.errors import KafkaError
from streaming.probe.answers import ClusterAnswers
from streaming.probe.self_questions import SelfQuestions
from streaming.registry.questions import SchemaQuestions
from streaming.registry.wire import SchemaAnswers
from streaming.resolve.comparison import ages_since, replication_ages, validate
from streaming.resume.age import ReplicationAge
from streaming.resume.truncation import Standing


def plan_query(
    gatherer: FactGatherer,
    kind: OperationKind,
    query: str,
    target: str,
    *,
    consents: frozenset[str] = frozenset(),
    expect_active: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Plan:
    """The plan, ``refused`` when a gate refuses."""
    facts = forecast_facts(
        gatherer, kind, query, target, consents=consents, expect_active=expect_active, parameters=parameters
    )
    return plan_of(facts, checks.judge_move(facts))


def forecast_facts(
    gatherer: FactGatherer,
    kind: OperationKind,
    query: str,
    target: str,
    *,
    consents: frozenset[str] = frozenset(),
    expect_active: str | None = None,
    parameters: Mapping[str, object] | None = None,
    standings: tuple[Standing, ...] | None = None,
) -> MoveFacts:
    """Everything that can be known of a move before anything is stopped, places on the standby included.

    ``standings`` of the positions, where the cluster in use was read for them already.
    """
    facts = gatherer.before(kind, query, target, consents=consents, expect_active=expect_active, parameters=parameters)
    facts = replace(facts, fence=PENDING, standings=standings)
    movable = (facts.route is not None and facts.source != target) or facts.rewind is not None
    if movable and facts.assignment is not None and facts.standby is not None and facts.standby.reachable:
        report = _last_report(facts.fact, facts.assignment.checkpoint, facts.source)
        try:
            facts = gatherer.after(facts, report, stateful=facts.fact.stateful if facts.fact else None)
        except KafkaError as error:
            gone = StandbyAnswer(reachable=False, seconds=0.0, limit_seconds=DESCRIBE_SECONDS, error=str(error))
            facts = replace(facts, standby=gone)
    return facts


def check_queries(
    names: Sequence[str],
    *,
    store: ControllerStore,
    settings: Tideover,
    logs: Logs,
    clock: Clock,
    wrong: list[Exception] | None = None,
    questions: SelfQuestions | None = None,
    schemas: SchemaQuestions | None = None,
) -> Iterator[Readiness]:
    """Whether each of these queries could be failed over now, one after the other; changes nothing.

    The clusters in use are read once for all of them. One that does not answer, or is not declared any more, shows
    nothing about its topics, which is no reason against leaving it. Of several standbys the one is looked at to which
    the query would go. With ``wrong``, a query that cannot be checked is left out, and why is kept there. ``questions``
    remembers what clusters answered to questions whose answers are known, ``schemas`` what ids mean.
    """
    active: dict[str, str] = {}
    topics: dict[str, frozenset[str]] = {}
    for name in names:
        query, assignment = settings.queries[name], store.assignment(name)
        active[name] = assignment.cluster if assignment else query.clusters[0]
        read = all_topics_of(settings, query, active[name])
        topics[active[name]] = topics.get(active[name], frozenset()) | read
    described = _describe(logs, {cluster: names for cluster, names in topics.items() if cluster in settings.clusters})
    gatherer = FactGatherer(store=store, settings=settings, logs=logs, clock=clock)
    questions = questions or SelfQuestions(logs, clock.monotonic)
    schemas = schemas or SchemaQuestions(settings, logs, clock.monotonic)
    now = store.now()
    statuses = {each.cluster: each for each in store.cluster_statuses() if now - each.decided_at <= VERDICT_VALID}
    needs = _connection_needs(store, settings, statuses)
    for name in names:
        readiness = None
        with nullcontext() if wrong is None else apart(wrong):
            target = _standby_of(settings, name, active[name], statuses)
            standings = _standings(logs, store, name, active[name]) if active[name] in described else None
            facts = forecast_facts(gatherer, OperationKind.FAILOVER, name, target, standings=standings)
            facts = replace(facts, mirrors=None)  # which are stopped when a move is due, and not before
            known = described.get(active[name])
            if facts.times is not None and known is not None:
                stamps = {**facts.times.stamps, **stamps_of(known)}
                facts = replace(facts, times=replace(facts.times, stamps=stamps))
            replication = _replication(logs, store, facts, known)
            readiness = judge_readiness(
                ReadinessFacts(
                    facts=facts,
                    now=store.now(),
                    replication=replication,
                    topics=known or {},
                    answers=_answers(questions, store, facts, known),
                    schemas=_schemas(schemas, store, facts, known),
                    connections=needs.get(target),
                )
            )
        if readiness is not None:
            yield readiness


def _connection_needs(
    store: ControllerStore, settings: Tideover, statuses: Mapping[str, ClusterStatus]
) -> dict[str, ConnectionNeed]:
    """By cluster that limits connections: what a move of every query opens there, by partitions that were sampled."""
    limited = {name for name, cluster in settings.clusters.items() if cluster.connections_per_second is not None}
    if not limited:
        return {}
    active = {each.query: each.cluster for each in store.assignments()}
    tasks: dict[str, dict[str, int | None]] = {}
    sampled: dict[str, Counter[str]] = {}
    for name, query in settings.queries.items():
        here = active.get(name, query.clusters[0])
        target = _standby_of(settings, name, here, statuses)
        if target not in limited or target == here:
            continue
        if here not in sampled:
            sampled[here] = Counter(partition.topic for partition in store.ends(here))
        tasks.setdefault(target, {})[name] = tasks_of(settings, query, here, sampled[here])
    needs = {target: connections_of_move(settings, target, counts) for target, counts in tasks.items()}
    return {target: need for target, need in needs.items() if need is not None}


def _schemas(
    schemas: SchemaQuestions, store: ControllerStore, facts: MoveFacts, known: Mapping[str, TopicFacts] | None
) -> SchemaAnswers | None:
    """Read while both clusters answer: afterwards one of them cannot be read."""
    topics = {name: there for name, there in (facts.topics or {}).items() if there is not None}
    away = facts.standby is None or not facts.standby.reachable
    if known is None or away or facts.route is None or not topics:
        return None
    return schemas.of(facts.source, facts.target, topics, store.now)


def _answers(
    questions: SelfQuestions, store: ControllerStore, facts: MoveFacts, known: Mapping[str, TopicFacts] | None
) -> tuple[ClusterAnswers, ...]:
    """Of both clusters, as far as they answer at all."""
    answers: list[ClusterAnswers] = []
    if known is not None:
        answers.append(questions.of(facts.source, facts.topics or (), store.now))
    if facts.standby is not None and facts.standby.reachable and facts.source != facts.target:
        there = [name for name in (facts.topics or {}).values() if name is not None]
        answers.append(questions.of(facts.target, there, store.now))
    return tuple(answers)


def _standby_of(settings: Tideover, query: str, active: str, statuses: Mapping[str, ClusterStatus]) -> str:
    """Automatic mode passes over a standby that cannot take over; a verb that names none goes to the next."""
    declared = settings.queries[query]
    if settings.policy_of(query).automatic:
        return standby_of(declared, active, statuses)
    return default_target(declared, active)


def _replication(
    logs: Logs, store: ControllerStore, facts: MoveFacts, topics: Mapping[str, TopicFacts] | None
) -> ReplicationSample | None:
    """How old the standby's copies are; a few bounded questions to both clusters, or to the standby alone.

    A source that did not describe its topics is silent, and then counts as it was last sampled.
    """
    if facts.route is None:
        return None
    ends = store.ends(facts.source, topics=None if has_patterns(facts.settings) else frozenset(facts.topics or ()))
    copies = counterparts(facts, partitions_of(facts, topics or {}, ends))
    known = {key: copy for key, copy in copies.items() if not isinstance(copy, str)}
    deadline = Deadline.after(DESCRIBE_SECONDS)
    ages: Mapping[TopicPartition, ReplicationAge] | str
    try:
        if topics is not None:
            now_ms = int(store.now().timestamp() * 1000)
            ages = replication_ages(logs(facts.source), logs(facts.target), known, deadline, now_ms=now_ms)
        else:
            ages = ages_since(ends, logs(facts.target), known, deadline)
    except KafkaError as error:
        ages = str(error)
    found = replication_of(facts, copies, ages, ends, store.now(), live=topics is not None)
    return replace(found, stamps=stamps_of(topics or {}))


def _standings(logs: Logs, store: ControllerStore, query: str, cluster: str) -> tuple[Standing, ...] | None:
    """What became of the newest positions on the cluster in use; one bounded question of each kind."""
    newest = newest_of(since_placed(store.positions(query, rings=False), store.assignment(query)))
    try:
        return validate(logs(cluster), newest, timeout=DESCRIBE_SECONDS) if newest else None
    except KafkaError:
        return None


def _describe(logs: Logs, topics: Mapping[str, frozenset[str]]) -> dict[str, Mapping[str, TopicFacts]]:
    """Topics by cluster, one bounded question to each; a cluster that does not answer is left out."""
    described: dict[str, Mapping[str, TopicFacts]] = {}
    for cluster, names in topics.items():
        try:
            described[cluster] = logs(cluster).describe(sorted(names), timeout=DESCRIBE_SECONDS)
        except KafkaError:
            continue
    return described


def _last_report(fact: QueryFact | None, checkpoint: str, source: str) -> CheckpointReport:
    if fact is None or fact.cluster != source:
        return CheckpointReport(checkpoint=checkpoint, batch=None, offsets={})
    return report_of_fact(fact, checkpoint)
