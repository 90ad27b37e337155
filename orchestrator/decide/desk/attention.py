"""What is wrong, since when, and what to do: the first thing that the page shows. Pure.

A hundred queries on one dead cluster are one thing that is wrong, not a hundred: what has the same cause is shown once,
with the queries that it concerns. What queries report because a cluster is in doubt are details of that cluster.
Whatever needs action now comes before what should be looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.desk.readiness_sampling import COULD
from orchestrator.decide.desk.status import SAMPLE_VALID, SILENT, QueryStatus, Status
from orchestrator.decide.gates.preconditions import to_start
from orchestrator.decide.move.plan import headline
from orchestrator.decide.operation.snapshot import awaits_start, is_stuck
from state.model.cluster_status import GONE, WELL, ClusterStatus, Verdict
from state.model.entities import COMPLETE, Desired, OperationKind, Phase, RunState
from state.plain_text import few
from state.settings.keys import Tideover

SILENT_FOR = timedelta(seconds=60)
"""A query whose progress is older than this, and than three of its triggers, has stopped."""
NAMED = 3
"""How many queries of one concern are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concern:
    """One thing that needs attention."""

    urgent: bool
    """Whether it needs action now; else it should be looked at."""
    what: str
    """The headline: a few words."""
    since: datetime | None
    """None where that is unknown."""
    todo: str
    anchor: str
    """Of the runbook's heading."""
    details: tuple[str, ...] = ()
    """Why, and what queries report because of it: sentences that are read on demand."""
    command: str = ""
    """What to type; empty where no command helps."""
    plan: OperationKind | None = None
    """The move that can be planned for all of ``queries`` at once."""
    queries: tuple[str, ...] = ()
    operation: str | None = None

    @property
    def affected(self) -> str:
        """How many queries it is about, in words; empty for none."""
        if not self.queries:
            return ""
        count, one = len(self.queries), len(self.queries) == 1
        if self.plan is not None:
            return f"{count} {'query waits' if one else 'queries wait'}"
        return f"{count} {'query' if one else 'queries'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Away:
    """Queries that could go home: the first of their clusters is up, and they run elsewhere."""

    home: str
    queries: tuple[str, ...]
    since: datetime | None
    """When the first of them left; None where that is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trouble:
    """What is wrong with one query; those with the same cause are shown together."""

    cause: str
    query: str
    urgent: bool
    what: str
    """Without the query's name: what they are or do."""
    since: datetime | None
    todo: str
    anchor: str
    why: str = ""
    """In a sentence, where there is more to read than ``what`` says."""
    verbs: tuple[str, str] = ("is ", "are ")
    """Before ``what``, of one query and of several."""
    command: str = ""
    cluster: str | None = None
    """The cluster that it comes from, if that one is in doubt."""


def concerns_of(status: Status, settings: Tideover) -> tuple[Concern, ...]:
    """All of them, the most urgent first; none where everything is as it should be."""
    troubles = [trouble for query in status.queries for trouble in _troubles(query, status, settings)]
    found = [
        *_leadership(status),
        *_operations(status),
        *_clusters(status, settings, troubles),
        *_shown_together(each for each in troubles if each.cluster is None),
    ]
    return tuple(sorted(found, key=lambda each: not each.urgent))


def away_of(status: Status) -> tuple[Away, ...]:
    """By cluster that is up, the queries whose home it is and that run elsewhere."""
    found: dict[str, list[QueryStatus]] = {}
    for query in status.queries:
        believed = status.clusters.get(query.home or "")
        is_up = believed is not None and not status.is_stale(believed) and believed.verdict is Verdict.UP
        if query.is_away and query.operation is None and is_up:
            found.setdefault(query.home or "", []).append(query)
    return tuple(
        Away(
            home=home,
            queries=tuple(each.query for each in queries),
            since=min((each.away_since for each in queries if each.away_since is not None), default=None),
        )
        for home, queries in found.items()
    )


def _leadership(status: Status) -> Iterator[Concern]:
    if status.leader is None:
        yield Concern(
            urgent=True,
            what="No controller leads: nothing is watched and nothing is decided",
            since=None,
            todo="Start one. Queries run on.",
            command="tideover control",
            anchor="no-controller-leads",
        )


def _operations(status: Status) -> Iterator[Concern]:
    for each in status.operations:
        name = headline(each.kind, each.query, each.source, each.target, each.parameters)
        if awaits_start(each):
            todo = "Nothing. The next start of the application completes the move."
            anchor = "blocked-nothing-proves-that-the-old-run-has-stopped"
        elif each.phase is Phase.BLOCKED:
            todo, anchor = "Prove that the old run has stopped.", "blocked-nothing-proves-that-the-old-run-has-stopped"
        elif is_stuck(each):
            todo = "Read the details; what they name has to answer again."
            anchor = "the-storage-or-a-runner-does-not-answer-during-a-move"
        else:
            continue
        yield Concern(
            urgent=not awaits_start(each),
            what=f"The {name} waits",
            since=each.started_at,
            details=(each.sentence,),
            todo=todo,
            command=f"tideover show-op {each.id}",
            anchor=anchor,
            queries=(each.query,),
            operation=each.id,
        )


_TODO = {
    Verdict.DOWN: (True, "Plan a failover of the queries there.", "a-cluster-is-gone"),
    Verdict.SUSPECT: (False, "The verdict follows within seconds.", "a-cluster-is-gone"),
    Verdict.UNREACHABLE_FROM_HERE: (
        False,
        "Others still see it: look at the network of the controller.",
        "a-cluster-is-gone",
    ),
    Verdict.UNKNOWN: (False, "Nothing is decided until more is known.", "a-cluster-is-gone"),
    Verdict.CONFIG_ERROR: (
        True,
        "Correct the names or credentials of this cluster: it is never left because of them.",
        "a-name-leads-to-another-cluster",
    ),
    Verdict.NOT_HERE: (True, "Plan a failover of the queries there to where the endpoint leads.", "a-cluster-is-gone"),
    Verdict.DEGRADED: (False, "It answers, and a part of it does not: look at its brokers.", "a-cluster-is-gone"),
}


def _clusters(status: Status, settings: Tideover, troubles: Sequence[_Trouble]) -> Iterator[Concern]:
    for name, believed in status.clusters.items():
        there = tuple(query.query for query in status.queries if query.cluster == name)
        if believed is None or status.is_stale(believed):
            if status.leader is not None:
                yield Concern(
                    urgent=False,
                    what=f"{name} has no verdict",
                    since=None if believed is None else believed.decided_at,
                    details=("No controller has judged it lately.",),
                    todo="A controller that has only begun needs a few seconds; else read its log.",
                    anchor="no-controller-leads",
                    queries=there,
                )
        elif believed.verdict is not Verdict.UP and (there or believed.verdict is not Verdict.NOT_HERE):
            moving = {each.query for each in status.operations}
            waiting = tuple(each for each in there if each not in moving and each in settings.queries)
            yield _of_cluster(name, believed, waiting, [each for each in troubles if each.cluster == name])


def _of_cluster(
    name: str, believed: ClusterStatus, there: tuple[str, ...], reported: Sequence[_Trouble]
) -> Concern:  # fmt: skip
    """``there`` are the queries that run there and are not being moved."""
    urgent, todo, anchor = _TODO[believed.verdict]
    is_left = believed.verdict in GONE and bool(there)
    if believed.verdict in GONE and not there:
        urgent, todo = False, "No query waits there: nothing has to be moved."
        if believed.verdict is Verdict.DOWN:
            todo += " Keep the replicator stopped, and let the producers write to the standby."
    reports = [": ".join([each.what, *each.details]) for each in _shown_together(reported)]
    command = f"tideover plan failover --all --expect-active {name}" if is_left else ""
    return Concern(
        urgent=urgent or any(each.urgent for each in reported),
        what=f"{name} is {believed.verdict.value}",
        since=believed.since,
        todo=todo,
        anchor=anchor,
        details=(*believed.reasons, *reports),
        command="tideover config check" if believed.verdict is Verdict.CONFIG_ERROR else command,
        plan=OperationKind.FAILOVER if is_left else None,
        queries=there,
    )


def _in_doubt(cluster: str | None, status: Status) -> str | None:
    """The cluster itself, if it has a verdict of now that is not a good one."""
    believed = status.clusters.get(cluster or "")
    is_doubted = believed is not None and not status.is_stale(believed) and believed.verdict not in WELL
    return cluster if is_doubted else None


def _troubles(query: QueryStatus, status: Status, settings: Tideover) -> Iterator[_Trouble]:
    if query.operation is not None:
        return  # which is shown on its own, and says more
    if (of_run := _trouble_of_run(query, status, settings)) is not None:
        yield of_run
    if query.state != "never-run" and (unready := _trouble_of_standby(query, status)) is not None:
        yield unready


def _trouble_of_run(query: QueryStatus, status: Status, settings: Tideover) -> _Trouble | None:
    name = query.query
    if query.state == "never-run":
        todo, command = _start_of(name, settings)
        return _Trouble(
            cause=f"never-run {todo}", query=name, urgent=False, what="waiting for its first start", since=None,
            todo=todo, command=command, anchor="a-gate-refuses",
        )  # fmt: skip
    if query.state == Desired.HELD:
        return _Trouble(
            cause="held", query=name, urgent=True, what="on hold, and no operation is open", since=query.progressed_at,
            todo="See what its history says, then reconcile it.", command=f"tideover reconcile {name}",
            anchor="the-store-was-restored-from-an-older-backup",
        )  # fmt: skip
    show = f"tideover show {name}"
    if query.error is not None or query.state == RunState.FAILED:
        first = (query.error or "").partition("\n")[0]
        return _Trouble(
            cause=f"failed {first}", query=name, urgent=True, what=f"failing on {query.cluster}",
            why=first or "Its runner reported no error text.", since=query.progressed_at,
            todo="Read the whole error; the runner tries again.", command=show, anchor="read-the-error-of-a-query",
            cluster=_in_doubt(query.cluster, status),
        )  # fmt: skip
    if query.state == SILENT and _is_believed_well(query, status):
        return _Trouble(
            cause=f"unanswered {query.cluster}", query=name, urgent=True,
            what=f"waiting for {query.cluster}, which does not answer it", why=query.silent,
            since=query.report.silent_since if query.report is not None else None,
            todo="See whether its runner reaches the cluster: another observer does.", command=show,
            anchor="a-cluster-is-gone",
        )  # fmt: skip
    if _is_silent(query, status, settings):
        return _Trouble(
            cause=f"silent {query.cluster}", query=name, urgent=True, what=f"without progress on {query.cluster}",
            since=query.progressed_at, todo="See whether its runner lives, and start it again if it does not.",
            command=show, anchor="a-runner-dies",
        )  # fmt: skip
    return None


def _start_of(query: str, settings: Tideover) -> tuple[str, str]:
    """What to do, and what to type for it: nothing for an application, which is started as it always is."""
    declared = settings.queries.get(query)
    if declared is not None and declared.attach is not None:
        text = to_start(declared)
        return f"{text[0].upper()}{text[1:]}.", ""
    runner = next(iter(declared.runners), None) if declared is not None else None
    return "Start one of its runners.", f"tideover run --name {runner}" if runner is not None else ""


def _is_silent(query: QueryStatus, status: Status, settings: Tideover) -> bool:
    """Of a cluster that is in doubt, the cluster itself is shown. One that has ended as it should makes no progress."""
    if not _is_believed_well(query, status) or query.state in COMPLETE:
        return False
    declared = settings.queries.get(query.query)
    longest = max(SILENT_FOR, 3 * declared.trigger) if declared is not None else SILENT_FOR
    return query.progressed_at is None or status.at - query.progressed_at > longest


def _is_believed_well(query: QueryStatus, status: Status) -> bool:
    believed = status.clusters.get(query.cluster or "")
    return believed is None or status.is_stale(believed) or believed.verdict in WELL


def _trouble_of_standby(query: QueryStatus, status: Status) -> _Trouble | None:
    fact = query.readiness
    if fact is None:
        return None  # no controller has looked yet
    check = f"tideover check {query.query}"
    if status.at - fact.sampled_at > SAMPLE_VALID:
        return _Trouble(
            cause="unchecked", query=query.query, urgent=False,
            what="without a readiness check for more than 5 minutes", since=fact.sampled_at,
            todo="The leading controller checks each minute: read its log.", command=check, anchor=_READY,
        )  # fmt: skip
    gate = next((gate for gate in fact.gates if not gate["ok"]), None)
    if fact.ready or gate is None:
        return None
    return _Trouble(
        cause=f"{fact.ready} {gate['name']} {fact.target}", query=query.query, urgent=False,
        verbs=("", ""), what=f"{COULD[fact.ready]} to {fact.target}: {gate['name']}", why=str(gate["text"]),
        since=fact.since,
        todo=f"Look up {gate['name']} in the runbook.", command=check,
        anchor="a-gate-refuses" if fact.ready is False else _READY,
        cluster=_in_doubt(fact.target, status) or _in_doubt(query.cluster, status),
    )  # fmt: skip


_READY = "every-day-is-the-standby-ready"


def _shown_together(troubles: Iterable[_Trouble]) -> Iterator[Concern]:
    causes: dict[str, list[_Trouble]] = {}
    for each in troubles:
        causes.setdefault(each.cause, []).append(each)
    for alike in causes.values():
        first, names = alike[0], [each.query for each in alike]
        verb = first.verbs[len(names) > 1]
        yield Concern(
            urgent=first.urgent,
            what=f"{few(names, NAMED)} {verb}{first.what}",
            since=min((each.since for each in alike if each.since is not None), default=None),
            todo=first.todo,
            anchor=first.anchor,
            details=(first.why,) if first.why else (),
            command=first.command,
            queries=tuple(names),
        )
