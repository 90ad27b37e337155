"""Standby readiness: the gates of a failover, run all day long, and those that matter before anything is down. Pure.

A failover judges the place that it found. Readiness also judges how near that place is to being lost (retention),
whether the replicator keeps up, and whether times could decide if content did not. What cannot be measured is not
ready, and not refused either: it is unknown.

``next_samples`` says which queries are looked at next, ``readiness_fact`` as what an answer is remembered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.gates.loss import BY_TIME, comparable
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.places import most_seconds
from orchestrator.decide.replication_age import replication_json, replication_text, worst_of
from state.model.entities import RulesFound
from state.model.maintenance import ReadinessFact, ReplicationSample
from state.plain_text import amount, few
from state.settings.connection_estimate import ConnectionNeed
from streaming.cluster_log import TopicFacts
from streaming.probe.answers import ClusterAnswers
from streaming.registry.wire import Agreement, SchemaAnswers
from streaming.resume.truncation import Finding, truncation_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadinessFacts:
    """What a readiness check knows of one query."""

    facts: MoveFacts
    """As a plan gathers them, from what the runners last reported."""
    now: datetime
    replication: ReplicationSample | None
    """How old the standby's copies are; None where nothing is replicated."""
    topics: Mapping[str, TopicFacts]
    """The query's topics as the cluster in use describes them; empty when it does not answer."""
    answers: tuple[ClusterAnswers, ...] = ()
    """What both clusters answered to questions whose answers are known."""
    schemas: SchemaAnswers | None = None
    """What the schema ids in the newest records mean on both sides; None where it was not checked."""
    connections: ConnectionNeed | None = None
    """What a move of every query to that standby opens there; None where no limit is declared for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """The answer of one check."""

    query: str
    source: str
    target: str
    """Where the query would go."""
    gates: tuple[Gate, ...]
    replication: ReplicationSample | None
    exposure_records: int | None = None
    """Of all partitions together; None where it is unknown of one."""
    exposure_seconds: float | None = None
    """Of the partition where it is most, of those where it is known."""
    proven: int | None = None
    """Of how many partitions the resume offset is exact; None where it was not looked for. Alike ``partitions``."""
    partitions: int | None = None

    @property
    def ready(self) -> bool | None:
        """None: nothing refuses, but something could not be measured."""
        refused = [gate for gate in self.gates if not gate.ok]
        if not refused:
            return True
        return None if all(gate.measured == UNKNOWN for gate in refused) else False

    def as_json(self, now: datetime) -> dict[str, object]:
        """One element of what ``check -o json`` prints (``docs/programs.md``)."""
        gates = [gate.as_json() for gate in self.gates]
        replication = replication_json(self.replication, now)
        return {
            "query": self.query,
            "ready": self.ready,
            "gates": gates,
            "proven": self.proven,
            "partitions": self.partitions,
            "replication": replication,
        }


def retention_reach(given: ReadinessFacts) -> Gate | None:
    """T, the time up to which everything was read, must be younger than the oldest record that the standby keeps.

    A place that is proven by content needs no time; of another one, a time that is not known says nothing.
    """
    resolution = given.facts.resumes_at
    if resolution is None:
        return None
    oldest = resolution.earliest_timestamps or {}
    slack: dict[str, int] = {}
    unknown: list[str] = []
    for target in resolution.targets:
        name, kept = f"{target.target_topic}-{target.target_partition}", oldest.get(target.there)
        if kept is not None and target.timestamp_ms is not None:
            if target.is_proven and target.timestamp_ms < kept:
                continue  # the copy of the last record read is there, whatever the times say
            slack[name] = target.timestamp_ms - kept
        elif (target.begin or kept is not None) and not target.is_proven:
            unknown.append(name)
    least = min(slack, key=slack.__getitem__, default=None)
    bad = least is not None and slack[least] < 0
    return answer(
        "retention-reach",
        not bad and not unknown,
        UNKNOWN if unknown and not bad else "nothing deleted" if least is None else f"{slack[least] / 1000:.0f} s",
        "0 s",
        "the standby keeps records from before every position",
        f"{given.facts.target} has deleted records of {least} that were not read yet: its oldest record "
        "is newer than what was read last"
        if bad
        else f"it is unknown whether {given.facts.target} keeps records of {few(unknown)} that were not read yet",
    )


def replication_lag(given: ReadinessFacts) -> Gate | None:
    """By how much the newest record of the standby is older than that of the cluster in use.

    Of a standby that does not answer another gate speaks.
    """
    away = given.facts.standby is None or not given.facts.standby.reachable
    if away or given.replication is None or not given.replication.copies:
        return None
    copies, worst = given.replication.copies, worst_of(given.replication)
    missing = any(copy.is_missing for copy in copies)
    unknown = any(copy.age_ms is None and copy.records != 0 for copy in copies)
    seconds = (worst.age_ms or 0) / 1000 if worst is not None else 0.0
    limit = given.facts.policy.max_exposure.total_seconds()
    behind = missing or seconds > limit
    text = replication_text(given.replication, given.now)
    return answer(
        "replication-lag",
        not behind and not unknown,
        "no record" if missing else UNKNOWN if unknown and not behind else f"{seconds:.1f} s",
        f"{limit:g} s",
        text,
        f"{text}: check the replicator" if behind else text,
    )


def time_comparable(given: ReadinessFacts) -> Gate | None:
    """Where time may have to decide, both clusters must keep the time that the producer gave."""
    there = given.facts.standby.topics if given.facts.standby else None
    if there is None or given.facts.topics is None:
        return None
    needed = bool(BY_TIME & {method.value for method in given.facts.settings.methods})
    kinds = {f"{topic} on {given.facts.source}": given.topics.get(topic) for topic in given.facts.topics}
    kinds |= {f"{name} on {given.facts.target}": there.get(name) for name in given.facts.topics.values() if name}
    appended = [where for where, topic in kinds.items() if topic and topic.timestamp_type == "LogAppendTime"]
    unknown = [where for where, topic in kinds.items() if topic and topic.timestamp_type is None]
    return answer(
        "time-comparable",
        not needed or not appended,
        "not used" if not needed else "LogAppendTime" if appended else UNKNOWN if unknown else "CreateTime",
        "CreateTime where time may decide",
        comparable(few(unknown)) if needed else "no method of this query uses time",
        f"{few(appended)} uses LogAppendTime: its timestamps are not the producer's",
    )


def log_truncation(given: ReadinessFacts) -> Gate | None:
    """What was read must still be in the log that it was read from, wherever a failover would continue.

    That is judged in a move's own gate of this name, and a move may go well where this refuses: it needs attention.
    """
    standings, here = given.facts.standings, given.facts.source
    if standings is None:
        return None
    error = truncation_of(here, standings)
    unproven = sum(each.finding is Finding.UNPROVEN for each in standings)
    goes = {reset.goto for reset in given.facts.resets or ()}
    proven = f"; {given.facts.target} still holds them" if goes == {None} else ""
    return answer(
        "log-truncation",
        error is None,
        amount(len(error.divergent_offsets) if error else 0, "partition"),
        "0 partitions",
        f"{here} still holds what was read from it"
        + (f"; {amount(unproven, 'position')} cannot be verified" if unproven else ""),
        f"{error}: records that were read are gone there, after an unclean leader election or because the "
        "topic was recreated"
        f"{proven}",
    )


def answers_consistent(given: ReadinessFacts) -> Gate | None:
    """No answer of a cluster may contradict another one: a look-up that answers too late skips records in silence.

    Of a cluster that does not answer at all another gate speaks.
    """
    answered = [each for each in given.answers if not each.error]
    if not answered:
        return None
    found = [(each, contradiction) for each in answered for contradiction in each.contradictions]
    partitions = sum(each.partitions for each in answered)
    age = max(0.0, max((given.now - each.at).total_seconds() for each in answered))
    good = f"the answers for {amount(partitions, 'partition')} are correct, checked {age:.0f} s ago"
    if not partitions:
        good = "no record to check with yet"
    bad = ""
    if found:
        cluster, first = found[0]
        where = "" if first.partition is None else f" of {first.partition.topic}-{first.partition.partition}"
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        bad = (
            f"{cluster.cluster}: {first.broker}{where}: {first.text}{more}; checked {age:.0f} s ago; "
            "do not trust resume offsets that rest on its answers: repair or replace this broker"
        )
    return answer("answers-consistent", not found, f"{len(found)} contradictions", "0 contradictions", good, bad)


_WORST_FIRST = (Agreement.DIFFER, Agreement.UNKNOWN, Agreement.NOT_REQUESTED, Agreement.AGREE)


def schemas_agree(given: ReadinessFacts) -> Gate | None:
    """A schema id in a copied record must mean the same schema on the standby.

    Without a registry in the configuration nothing is compared, and that is said. A cluster that is away leaves what
    the check before said (``orchestrator.decide.gates.checked``).
    """
    findings = given.schemas.findings if given.schemas is not None and not given.schemas.error else ()
    if not findings:
        return None
    worst = min(findings, key=lambda each: _WORST_FIRST.index(each.agreement))
    measured = UNKNOWN if worst.agreement is Agreement.UNKNOWN else worst.agreement.value
    others = sum(each.agreement is worst.agreement for each in findings) - 1
    text = worst.text + (f", and {others} more" if others else "")
    return answer(
        "schemas-agree",
        worst.agreement in {Agreement.AGREE, Agreement.NOT_REQUESTED},
        measured,
        "agree",
        text,
        text
        if worst.agreement is Agreement.UNKNOWN
        else f"{text}: the query would decode records with another schema on {given.facts.target}; copy the schemas "
        "with their ids, or let the replicator rewrite ids and set routes[].rewrites_schema_ids",
    )


def checkpoint_kept(given: ReadinessFacts) -> Gate | None:
    """No rule of the checkpoint's bucket may delete its objects, or move them to where they cannot be read."""
    bucket = given.facts.fact.bucket if given.facts.fact is not None else None
    if bucket is None:
        return None
    return answer(
        "checkpoint-kept",
        bucket.found is RulesFound.NONE,
        UNKNOWN if bucket.found is RulesFound.UNKNOWN else bucket.found.value,
        "none",
        bucket.text,
        bucket.text
        if bucket.found is RulesFound.UNKNOWN
        else f"{bucket.text}: a start needs objects that were written long ago; leave the checkpoint out of the rule",
    )


_LEAST_PATIENCE_SECONDS = 60.0


def connections(given: ReadinessFacts) -> Gate | None:
    """A cluster that limits connections takes them one by one, and a run waits for its own no longer than it waits
    for a cluster that is silent (``policy.outage_patience``).
    """
    need = given.connections
    if need is None:
        return None
    limit = max(_LEAST_PATIENCE_SECONDS, given.facts.policy.outage_patience.total_seconds())
    if need.connections is None or need.seconds is None:
        text = f"the partitions of {few(list(need.unknown))} are not known"
        return answer("connections", False, UNKNOWN, f"{limit:g} s", "", text)
    text = (
        f"a move of {need.queries} queries opens about {need.connections} connections to {need.cluster}, which takes "
        f"{need.per_second} in a second; one start opens {need.largest} at most"
    )
    fix = "raise the limit of the cluster and connections_per_second, or move the queries in waves"
    return answer("connections", need.seconds <= limit, f"{need.seconds:.1f} s", f"{limit:g} s", text, f"{text}: {fix}")


READINESS_GATES: tuple[Callable[[ReadinessFacts], Gate | None], ...] = (
    retention_reach,
    replication_lag,
    time_comparable,
    log_truncation,
    answers_consistent,
    schemas_agree,
    checkpoint_kept,
    connections,
)


def judge_readiness(given: ReadinessFacts) -> Readiness:
    """Every gate of a failover that can be judged without one, and those of readiness; these win by name.

    There is no person to accept an unknown risk, so it is judged as automatic mode will have to.
    """
    facts = replace(given.facts, attended=False, checked=_kept(given))
    own = tuple(gate for check in READINESS_GATES if (gate := check(given)) is not None)
    names = {gate.name for gate in own}
    common = tuple(gate for gate in checks.judge_move(facts) if gate.name not in names)
    targets = facts.resumes_at.targets if facts.resumes_at is not None else ()
    records = [target.exposure_records for target in targets]
    known = [count for count in records if count is not None]
    return Readiness(
        query=facts.query,
        source=facts.source,
        target=facts.target,
        gates=common + own,
        replication=given.replication,
        exposure_records=sum(known) if known and len(known) == len(records) else None,
        exposure_seconds=most_seconds(targets),
        proven=sum(target.exact for target in targets) if targets else None,
        partitions=len(targets) or None,
    )


def _kept(given: ReadinessFacts) -> ReadinessFact | None:
    """The check before, without what this one checked again: a cluster that is away leaves it as it was."""
    before = given.facts.checked
    renewed = {"answers-consistent"} if any(not each.error for each in given.answers) else set()
    renewed |= {"schemas-agree"} if given.schemas is not None and not given.schemas.error else set()
    return before and replace(before, gates=tuple(each for each in before.gates if each["name"] not in renewed))
