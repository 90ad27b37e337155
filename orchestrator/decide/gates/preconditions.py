"""Gates on the state before anything is stopped: assignment, route, runners, the standby, the position, the fence.

With them stand two answers that others need as well: which runner acts for a query, and whether the names of a move
lead to the clusters that have them.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.move_facts import PENDING, UNPROVEN, MoveFacts, NamedCluster
from orchestrator.decide.reconcile import is_put_back, lost_text, put_back_text, stranger
from orchestrator.decide.verdict import stale_after
from state.messages import CheckpointReport
from state.model.cluster_status import ProbeReport
from state.model.entities import Assignment, OperationKind, QueryFact, RunnerFact, RunState
from state.model.pins import Pin, elsewhere, strange
from state.settings.keys import Detection, Query


def choose_runner(alive: Iterable[RunnerFact], settings: Query, assignment: Assignment) -> RunnerFact | None:
    """The hosting runner if it is alive, else one that is not known to fail, else a warm one, else any as declared.

    None when none is alive.
    """
    order = {name: index for index, name in enumerate(settings.runners)}
    return min(
        alive,
        key=lambda fact: (
            fact.runner != assignment.runner,
            bool(fact.plans.get(assignment.query)),
            not fact.warm,
            order.get(fact.runner, len(order)),
        ),
        default=None,
    )


def store_current(facts: MoveFacts) -> Gate | None:
    if facts.fact is None:
        return None
    if facts.stranger is not None and not is_put_back(facts.assignment, facts.fact):
        return answer(
            "store-current",
            False,
            f"held by {facts.stranger}",
            "an operation that the store knows",
            "",
            lost_text(facts.query, stranger(facts.fact.checkpoint, facts.stranger)),
        )
    return answer(
        "store-current",
        not is_put_back(facts.assignment, facts.fact),
        f"epoch {facts.fact.epoch} runs",
        f"epoch {facts.assignment.epoch} {facts.assignment.desired}" if facts.assignment else "no assignment",
        "the store matches what runs",
        put_back_text(facts.assignment, facts.fact),
    )


def checkpoint_whole(facts: MoveFacts) -> Gate | None:
    """Says nothing while the runner has found nothing: it looks through the files every 30 s."""
    if facts.fact is None or facts.fact.contradicted is None:
        return None
    return answer(
        "checkpoint-whole",
        False,
        "files are missing",
        "every file that was there",
        "",
        f"{facts.fact.contradicted}: restore the files, or accept what lies there: "
        f"tideover reconcile {facts.query} --consent repeats",
    )


def assigned(facts: MoveFacts) -> Gate:
    ok = facts.assignment is not None
    return answer(
        "assigned",
        ok,
        f"epoch {facts.assignment.epoch}" if facts.assignment else "none",
        "an assignment",
        f"{facts.query} is assigned",
        f"{facts.query} has never run: start one of its runners ({', '.join(facts.settings.runners)}) first",
    )


def expect_active(facts: MoveFacts) -> Gate | None:
    if facts.expect_active is None or facts.assignment is None:
        return None
    here = facts.assignment.cluster
    return answer(
        "expect-active",
        here == facts.expect_active,
        here,
        facts.expect_active,
        f"{facts.query} is on {here}, as expected",
        f"{facts.query} is on {here}, not on {facts.expect_active}",
    )


def not_already_there(facts: MoveFacts) -> Gate | None:
    if facts.assignment is None:
        return None
    here = facts.assignment.cluster
    return answer(
        "not-already-there",
        here != facts.target,
        here,
        f"not {facts.target}",
        f"{facts.query} is on {here}",
        f"{facts.query} is already on {facts.target}",
    )


def no_operation_open(facts: MoveFacts) -> Gate:
    return answer(
        "no-operation-open",
        facts.open_operation is None,
        facts.open_operation or "none",
        "none",
        "no other operation of this query is open",
        f"operation {facts.open_operation} of this query is open: run its command again to join it, or "
        "wait for its end",
    )


def route_declared(facts: MoveFacts) -> Gate:
    named = facts.topics or {}
    unnamed = sorted(topic for topic, there in named.items() if there is None)
    copies = Counter(there for there in named.values() if there is not None)
    shared = sorted(topic for topic, there in named.items() if there is not None and copies[there] > 1)
    ok = facts.route is not None and not unnamed and not shared
    why = f"the route has no topic {', '.join(unnamed)}" if unnamed else "no route is declared"
    if shared:
        why = f"the copies of {', '.join(shared)} have one name, and one offset cannot be the resume offset of both"
    return answer(
        "route-declared",
        ok,
        "declared" if ok else "none",
        f"{facts.source} to {facts.target}",
        f"a route from {facts.source} to {facts.target} is declared",
        f"{why}: declare under routes how {facts.target} gets the records of {facts.source}",
    )


def moves_together(facts: MoveFacts) -> Gate | None:
    """The queries of one application are stopped, moved and started together.

    What else speaks against the move of one of them is in the plan of that one, and keeps all of them.
    """
    if not facts.companions or facts.kind is OperationKind.DRILL:
        return None
    names = ", ".join(facts.companions)
    elsewhere = {name: there for name, there in facts.companions.items() if there not in {None, facts.target}}
    where = " and ".join(f"{name} to {there}" for name, there in elsewhere.items())
    return answer(
        "moves-together",
        not elsewhere,
        where or names,
        f"all queries of the application to {facts.target}",
        f"{names} of the same application {'move' if len(facts.companions) > 1 else 'moves'} along, or none does",
        f"an open operation takes {where}, and queries of one application move together: wait for its end or cancel it",
    )


def runner_alive(facts: MoveFacts) -> Gate | None:
    if facts.runners is None:
        return None
    if not facts.runners and is_awaited(facts.settings, facts.fact):
        text = f"{facts.settings.attach} does not run now: a move is completed at its next start"
        return answer("runner-alive", True, "awaited", f"the next start of {facts.settings.attach}", text, "")
    names = ", ".join(fact.runner for fact in facts.runners)
    return answer(
        "runner-alive",
        bool(facts.runners),
        names or "none",
        "one of " + ", ".join(facts.settings.runners),
        f"alive: {names}",
        f"no runner of {facts.query} is alive: {to_start(facts.settings)}",
    )


def is_awaited(settings: Query, fact: QueryFact | None) -> bool:
    """Whether the query ended as its application wanted, and its next start is awaited: no runner of it is missing."""
    return settings.attach is not None and fact is not None and fact.state is RunState.AWAITED


def to_start(settings: Query) -> str:
    """What a person does where a runner of a query is missing."""
    if settings.attach is not None:
        return f"start the application {settings.attach} as you always do"
    return f"start one with tideover run --name {settings.runners[0]}"


def pipeline_fits(facts: MoveFacts) -> Gate | None:
    """Of a runner that hosts the query there is nothing to check: it runs with the code that it has.

    But for a run that is held in mid-batch and cannot continue in it: it is started again, so what its runner knows of
    such a start counts.
    """
    if facts.runners is None or facts.assignment is None:
        return None
    chosen = choose_runner(facts.runners, facts.settings, facts.assignment)
    trouble = chosen.plans.get(facts.query) if chosen is not None else None
    if chosen is None or trouble is None:
        return None
    if chosen.runner == facts.assignment.runner and not _starts_again(facts):
        return None
    return answer(
        "pipeline-fits",
        not trouble,
        "does not fit" if trouble else "fits",
        "starts from the checkpoint in use",
        f"runner {chosen.runner} has built and run the plan of {facts.query}",
        f"runner {chosen.runner} cannot take over {facts.query}: {trouble}; fix its code or settings and restart it",
    )


def _starts_again(facts: MoveFacts) -> bool:
    """Whether the run of a checkpoint that stays must be started again, because its batch cannot continue in it."""
    held = facts.report is not None and facts.report.planned is not None and facts.report.planned.held
    return held and facts.choice is not None and facts.choice.in_run is None


def standby_reachable(facts: MoveFacts) -> Gate | None:
    if facts.standby is None:
        return None
    return answer(
        "standby-reachable",
        facts.standby.reachable,
        f"{facts.standby.seconds * 1000:.0f} ms" if facts.standby.reachable else "no answer",
        f"{facts.standby.limit_seconds:g} s",
        f"{facts.target} answers",
        f"{facts.target} cannot be reached: {facts.standby.error}",
    )


def active_reachable(facts: MoveFacts) -> Gate | None:
    """A planned move leaves a cluster that is alive; from one that is gone there is the failover."""
    if facts.active is None or not facts.planned:
        return None
    return answer(
        "active-reachable",
        facts.active.reachable,
        f"{facts.active.seconds * 1000:.0f} ms" if facts.active.reachable else "no answer",
        f"{facts.active.limit_seconds:g} s",
        f"{facts.source} answers",
        f"{facts.source} cannot be reached: {facts.active.error}; use tideover failover {facts.query}",
    )


def replication_alive(facts: MoveFacts) -> Gate | None:
    """A planned move waits for the copies of what was read, which none would make (consent ``replication``)."""
    if facts.replicating is None or not facts.planned:
        return None
    found = facts.replicating
    consented = not found.proven and "replication" in facts.consents
    return answer(
        "replication-alive",
        found.proven or consented,
        found.measured,
        "proof that the replicator runs",
        f"{found.text}: consented to" if consented else found.text,
        f"{found.text}; {found.todo or _start_it(facts)}; --consent replication accepts it",
    )


def _start_it(facts: MoveFacts) -> str:
    """On the way home it is not the replicator that ran before: that one would copy the tail."""
    if facts.kind != OperationKind.FAILBACK:
        return "start the replicator"
    return f"start the replicator from {facts.source} to {facts.target}, after replication was reversed (failback.md)"


def one_direction(facts: MoveFacts) -> Gate | None:
    """Two replicators against each other that keep the names of topics copy every record round and round.

    MirrorMaker 2 knows a copy by its topic's prefix alone, which ``IdentityReplicationPolicy`` leaves out (KIP-382).
    """
    if facts.against is None or not facts.planned:
        return None
    running = facts.against.proven
    there = f"from {facts.target} to {facts.source}"
    return answer(
        "one-direction",
        not running or "repeats" in facts.consents,
        f"{facts.against.measured} {there}" if running else f"none {there}",
        "a replicator in one direction",
        "consent repeats is given" if running else f"no replicator runs {there}",
        f"{facts.against.text}: the replicator {there} runs, too, and both keep the names of topics, so records go "
        "round in circles; stop it, or --consent repeats accepts it",
    )


def topics_present(facts: MoveFacts) -> Gate | None:
    if facts.standby is None or facts.standby.topics is None or facts.topics is None:
        return None
    wanted = sorted({there for there in facts.topics.values() if there is not None})
    found = facts.standby.topics
    missing = [topic for topic in wanted if topic not in found or found[topic].error or not found[topic].partitions]
    return answer(
        "topics-present",
        not missing,
        f"{len(wanted) - len(missing)} of {len(wanted)}",
        f"{len(wanted)} topics",
        f"{facts.target} has every topic",
        f"{facts.target} has no topic {', '.join(missing)}",
    )


def partitions_present(facts: MoveFacts) -> Gate | None:
    if facts.standby is None or facts.standby.topics is None or facts.topics is None or facts.report is None:
        return None
    few: list[str] = []
    for topics in facts.report.offsets.values():
        for topic, partitions in topics.items():
            there = facts.topics.get(topic)
            described = facts.standby.topics.get(there) if there else None
            if described is None or not described.partitions:
                continue
            lacking = {int(number) for number in partitions} - set(described.partitions)
            if lacking:
                few.append(f"{there} has {len(described.partitions)} of {len(partitions)}")
    return answer(
        "partitions-present",
        not few or facts.fresh,
        "; ".join(few) or "all",
        "every partition of the checkpoint",
        "every partition of the checkpoint is there" if not few else "fewer partitions, which a fresh start allows",
        "; ".join(few) + " partitions: a checkpoint cannot be carried to fewer",
    )


def position_known(facts: MoveFacts) -> Gate | None:
    if facts.report is None:
        return None
    batch = facts.report.batch
    return answer(
        "position-known",
        (batch is not None or facts.fresh) and bool(facts.report.offsets),
        f"batch {batch}" if batch is not None else "no committed batch",
        "a committed batch",
        f"batch {batch} is the last one committed" if batch is not None else "nothing read yet since a fresh start",
        _no_position(facts, facts.report),
    )


def _no_position(facts: MoveFacts, report: CheckpointReport) -> str:
    """Why there is none, of a plan by what a runner reported, of an operation by the checkpoint itself."""
    if report.batch is not None:
        return (
            f"batch {report.batch} of {report.checkpoint} is committed, but its offsets name no partition of the "
            "declared sources: compare the sources of the configuration with those of the checkpoint"
        )
    if facts.operation is None:
        return (
            f"no runner has reported a committed batch of {facts.query} since it started: wait for its next batch, "
            "or start the runner"
        )
    return f"the checkpoint {report.checkpoint} holds no committed batch: there is no position to carry"


def fence(facts: MoveFacts) -> Gate | None:
    if facts.fence is None:
        return None
    return answer(
        "fence",
        facts.fence != UNPROVEN,
        facts.fence,
        "runner, process, application or consent",
        "the old run is proven stopped"
        if facts.fence != PENDING
        else "checked once the old run is stopped, before anything else",
        "nothing proves that the old run has stopped; --consent unfenced accepts the risk that two runs write",
    )


def named_cluster(
    cluster: str,
    configured: str | None,
    pins: Iterable[Pin],
    probe_reports: Iterable[ProbeReport],
    now: datetime,
    detection: Detection,
) -> NamedCluster:
    """Who has a name, and who answered the newest looks under it; looks of long ago say nothing of now."""
    limit = stale_after(detection)
    fresh = [each for each in probe_reports if each.cluster == cluster and abs(now - each.seen_at) <= limit]
    return NamedCluster(
        cluster=cluster,
        configured=configured,
        pin=next((pin for pin in pins if pin.cluster == cluster), None),
        seen={each.viewpoint: each.cluster_id for each in fresh if each.cluster_id is not None},
        alive_for=frozenset(each.viewpoint for each in fresh if each.fault is None),
    )


def cluster_identity(facts: MoveFacts) -> Gate | None:
    """No consent takes this upon itself: what was read would be looked for in records that are others.

    A cluster that cannot be reached, as one that is left because it died, does not count as another one. Neither does
    one that is left because its endpoint leads to another declared cluster; but nothing is moved to such a one. Between
    two clusters of one endpoint the runner must see the other one, too: the endpoint may turn later for it than for us.
    """
    if facts.names is None:
        return None
    clusters = [_with_answer(each, facts) for each in facts.names]
    unseen = _unseen_by_runner(clusters, facts)
    wrong = dict.fromkeys(
        f"{text} (seen by {who})"
        for each in clusters
        for who, seen in each.seen.items()
        if (text := _misled(each, seen, is_left=each.cluster == facts.source != facts.target)) is not None
    )
    if unseen and not wrong:
        return answer("cluster-identity", _may_wait_there(facts), UNKNOWN, "seen by its runner", unseen, unseen)
    return answer(
        "cluster-identity",
        not wrong,
        "; ".join(f"{each.cluster} {' and '.join(sorted(set(each.seen.values()))) or 'not seen'}" for each in clusters),
        "; ".join(f"{each.cluster} {each.expected or 'any'}" for each in clusters),
        _good(facts),
        "; ".join(wrong),
    )


def _unseen_by_runner(clusters: Iterable[NamedCluster], facts: MoveFacts) -> str:
    """Why a query may find its old cluster behind the endpoint of the new one; empty where nothing says so."""
    there = next((each for each in clusters if each.cluster == facts.target != facts.source), None)
    if there is None or facts.assignment is None or facts.source not in there.others.values():
        return ""
    chosen = choose_runner(facts.runners or (), facts.settings, facts.assignment)
    if chosen is None or f"runner:{chosen.runner}" in there.alive_for:
        return ""
    why = f"endpoint {there.endpoint} leads to {there.cluster} here, but runner {chosen.runner} has not seen it there"
    return f"{why}: {facts.query} would wait until it does; tideover failover {facts.query} moves it all the same"


def _may_wait_there(facts: MoveFacts) -> bool:
    """A person accepts it. Automatic mode does not begin so; a move that has begun is not taken back for it."""
    return facts.attended or facts.operation is not None


def _misled(known: NamedCluster, seen: str, *, is_left: bool) -> str | None:
    away = elsewhere(known.cluster, seen, known.endpoint, known.others)
    if away is not None:
        return None if is_left else away
    return strange(known.cluster, seen, known.configured, known.pin, known.endpoint)


def _with_answer(known: NamedCluster, facts: MoveFacts) -> NamedCluster:
    """With the target's own answer to this very question."""
    seen = facts.standby.stranger if facts.standby is not None and known.cluster == facts.target else None
    return known if seen is None else known.answered_by("this process", seen)


def _good(facts: MoveFacts) -> str:
    if facts.left is not None:
        return f"{facts.query} last ran on the former {facts.source}, cluster {facts.left.id}, which was replaced"
    if facts.source == facts.target:
        return f"{facts.source} has the expected cluster id"
    return f"{facts.source} and {facts.target} have the expected cluster ids"
