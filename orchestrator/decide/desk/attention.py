"""What is wrong, since when, and what to do: the first thing that the page shows. Pure.

A hundred queries on one dead cluster are one thing that is wrong, not a hundred: what has the same cause is shown once,
with the queries that it concerns. Whatever needs a hand now comes before what should be looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.desk.status import SAMPLE_STANDS, SILENT, QueryStatus, Status
from orchestrator.decide.move.plan import headline
from orchestrator.decide.operation.snapshot import is_stuck
from state.model.cluster_status import WELL, ClusterStatus, Verdict
from state.model.entities import Desired, Phase, RunState
from state.settings.keys import Tideover

SILENT_FOR = timedelta(seconds=60)
"""A query whose progress is older than this, and than three of its triggers, has stopped."""
NAMED = 3
"""How many queries of one concern are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concern:
    """One thing that needs attention."""

    urgent: bool
    """Whether it needs a hand now; else it should be looked at."""
    what: str
    since: datetime | None
    """None where that is unknown."""
    todo: str
    anchor: str
    """Of the runbook's heading."""
    queries: tuple[str, ...] = ()
    operation: str | None = None


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


def concerns_of(status: Status, settings: Tideover) -> tuple[Concern, ...]:
    """All of them, the most urgent first; none where everything is as it should be."""
    found = [
        *_leadership(status),
        *_operations(status),
        *_clusters(status),
        *_told_together(trouble for query in status.queries for trouble in _troubles(query, status, settings)),
    ]
    return tuple(sorted(found, key=lambda each: not each.urgent))


def _leadership(status: Status) -> Iterator[Concern]:
    if status.leader is None:
        yield Concern(
            urgent=True,
            what="No controller leads: nothing is watched and nothing is decided",
            since=None,
            todo="Start one: tideover control. Queries run on.",
            anchor="no-controller-leads",
        )


def _operations(status: Status) -> Iterator[Concern]:
    for each in status.operations:
        name = headline(each.kind, each.query, each.source, each.target, each.parameters)
        if each.phase is Phase.BLOCKED:
            todo, anchor = "Prove that the old run has stopped.", "blocked-nothing-proves-that-the-old-run-has-stopped"
        elif is_stuck(each):
            todo = "Read the sentence; what it names has to answer again."
            anchor = "a-storage-or-a-runner-does-not-answer-during-a-move"
        else:
            continue
        yield Concern(
            urgent=True,
            what=f"The {name} waits: {each.sentence}",
            since=each.started_at,
            todo=todo,
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
    Verdict.DEGRADED: (False, "It answers, and a part of it does not: look at its brokers.", "a-cluster-is-gone"),
}


def _clusters(status: Status) -> Iterator[Concern]:
    for name, believed in status.clusters.items():
        there = tuple(query.query for query in status.queries if query.cluster == name)
        if believed is None or status.is_stale(believed):
            if status.leader is not None:
                yield Concern(
                    urgent=False,
                    what=f"{name} has no verdict: no controller has judged it lately",
                    since=None if believed is None else believed.decided_at,
                    todo="A controller that has only begun needs a few seconds; else read its log.",
                    anchor="no-controller-leads",
                    queries=there,
                )
        elif believed.verdict is not Verdict.UP:
            yield _of_cluster(name, believed, there)


def _of_cluster(name: str, believed: ClusterStatus, there: tuple[str, ...]) -> Concern:
    urgent, todo, anchor = _TODO[believed.verdict]
    what = f"{name} is {believed.verdict.value}" + (f": {believed.reasons[0]}" if believed.reasons else "")
    if believed.verdict is Verdict.DOWN and not there:
        urgent, todo = False, "No query is there: nothing has to be moved."
    return Concern(urgent=urgent, what=what, since=believed.since, todo=todo, anchor=anchor, queries=there)


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
        todo = "Start one of its runners: tideover run"
        return _trouble("never-run", name, False, "waiting for its first start", None, todo, "a-gate-refuses")
    if query.state == Desired.HELD:
        todo = "See what its history says, then tideover reconcile."
        anchor = "the-store-was-restored-from-an-older-backup"
        return _trouble("held", name, True, "on hold, and no operation is open", query.progressed_at, todo, anchor)
    if query.error is not None or query.state == RunState.FAILED:
        first = (query.error or "").partition("\n")[0]
        what = f"failing on {query.cluster}: {first}"
        todo = "Read the whole error; the runner tries again."
        return _trouble(f"failed {first}", name, True, what, query.progressed_at, todo, "read-the-error-of-a-query")
    if query.state == SILENT and _is_believed_well(query, status):
        todo = "See whether its runner reaches the cluster: another observer does."
        what = f"waiting for {query.cluster}, which does not answer it"
        since = query.report.silent_since if query.report is not None else None
        return _trouble(f"unanswered {query.cluster}", name, True, what, since, todo, "a-cluster-is-gone")
    if _is_silent(query, status, settings):
        todo = "See whether its runner lives, and start it again if it does not."
        what = f"without progress on {query.cluster}"
        return _trouble(f"silent {query.cluster}", name, True, what, query.progressed_at, todo, "a-runner-dies")
    return None


def _is_silent(query: QueryStatus, status: Status, settings: Tideover) -> bool:
    """Of a cluster that is in doubt, the cluster itself is shown. One that has ended as it should makes no progress."""
    if not _is_believed_well(query, status) or query.state in {RunState.FINISHED, RunState.AWAITED}:
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
    if status.at - fact.sampled_at > SAMPLE_STANDS:
        todo = "The leading controller checks each minute: read its log."
        what = "without a readiness check for more than 5 minutes"
        return _trouble("unchecked", query.query, False, what, fact.sampled_at, todo, _READY)
    gate = next((gate for gate in fact.gates if not gate["ok"]), None)
    if fact.ready or gate is None:
        return None
    could = "not ready to fail over" if fact.ready is False else "not known to be ready to fail over"
    what = f"{could} to {fact.target}: {gate['name']}: {gate['text']}"
    anchor = "a-gate-refuses" if fact.ready is False else _READY
    todo = f"Look up {gate['name']} in the runbook."
    return _trouble(f"{fact.ready} {gate['name']} {fact.target}", query.query, False, what, fact.since, todo, anchor)


_READY = "every-day-is-the-standby-ready"


def _trouble(
    cause: str, query: str, urgent: bool, what: str, since: datetime | None, todo: str, anchor: str
) -> _Trouble:  # fmt: skip
    return _Trouble(cause=cause, query=query, urgent=urgent, what=what, since=since, todo=todo, anchor=anchor)


def _told_together(troubles: Iterable[_Trouble]) -> Iterator[Concern]:
    causes: dict[str, list[_Trouble]] = {}
    for each in troubles:
        causes.setdefault(each.cause, []).append(each)
    for alike in causes.values():
        first, names = alike[0], [each.query for each in alike]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        verb = "is" if len(names) == 1 else "are"
        yield Concern(
            urgent=first.urgent,
            what=f"{', '.join(names[:NAMED])}{more} {verb} {first.what}",
            since=min((each.since for each in alike if each.since is not None), default=None),
            todo=first.todo,
            anchor=first.anchor,
            queries=tuple(names),
        )
