"""What runners and controllers report, of themselves, of queries, of their standbys and of clusters."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningInsert

from state.model.cluster_status import ClusterStatus, ProbeReport
from state.model.entities import Assignment, Event, Operation, QueryFact, RunnerFact, RunState
from state.model.found_places import FoundPlace
from state.model.maintenance import Disorder, ReadinessFact, ReplicationSample, StandbySample
from state.model.pins import Pin
from state.store.sql.columns import Instant, pack, unpack
from state.store.sql.database import Insert, Part, changing, insert_into, upsert, values_of
from state.store.sql.engine import translated
from state.store.sql.history import append
from state.store.sql.schema import (
    OPEN_MOVE,
    assignments,
    cluster_statuses,
    disorders,
    found_places,
    history,
    mappings,
    operations,
    pins,
    probe_reports,
    query_facts,
    readiness,
    runners,
    standby_samples,
)
from state.store.write_checks import check_believed, check_pruned, refuse_moving

FAILED_KIND = "query-failed"
"""Of a line of history: a run ended, or could not begin."""

_NEWEST_LINE = (
    sa.select(history.c.kind, history.c.detail)
    .where(history.c.query == sa.bindparam("query"))
    .order_by(history.c.sequence.desc())
    .limit(1)
)
_REGISTERED = sa.select(runners.c.instance).where(runners.c.runner == sa.bindparam("runner")).with_for_update(read=True)
"""Locked until the end, so that no other process takes the name over between the look and the write."""


class ReportTables(Part):
    """One row a runner, one row a query."""

    def register(self, fact: RunnerFact) -> RunnerFact | None:
        with self._writing() as connection:
            values = values_of(fact) | {"seen_at": self._at(connection)}
            if connection.execute(_registering(self._engines.dialect), values).first() is not None:
                return None
            stored = connection.execute(sa.select(runners).where(runners.c.runner == fact.runner)).one()
            return RunnerFact(**stored._asdict())

    def unregister(self, runner: str, instance: str) -> None:
        with self._writing() as connection:
            ours = sa.and_(runners.c.runner == runner, runners.c.instance == instance)
            connection.execute(sa.delete(runners).where(ours))

    def runners(self) -> Sequence[RunnerFact]:
        return self._rows(RunnerFact, sa.select(runners).order_by(runners.c.runner))

    def report_query(self, fact: QueryFact) -> bool:
        with self._writing() as connection:
            starts = fact.state is RunState.STARTING
            if starts and connection.execute(_REGISTERED, {"runner": fact.runner}).scalar() != fact.instance:
                return False
            taken = connection.execute(_reporting(self._engines.dialect, starts), values_of(fact)).first() is not None
            if taken and fact.state is RunState.FAILED and fact.error:
                self._note_failure(connection, fact, fact.error)
            return taken

    def _note_failure(self, connection: sa.Connection, fact: QueryFact, error: str) -> None:
        """A line of history, unless the newest line about the query is this very failure: restarts repeat it."""
        newest = connection.execute(_NEWEST_LINE, {"query": fact.query}).first()
        if newest is not None and (newest.kind, newest.detail.get("error")) == (FAILED_KIND, error):
            return
        failed = Event(
            sequence=None, at=self._at(connection), kind=FAILED_KIND, query=fact.query, operation=None,
            epoch=fact.epoch, actor=f"runner:{fact.runner}", text=f"{fact.query} failed: {error}",
            detail={"error": error, "cluster": fact.cluster, "batch": fact.batch},
        )  # fmt: skip
        append(connection, [failed])

    def query_facts(self, *, query: str | None = None) -> Sequence[QueryFact]:
        found = sa.select(query_facts).order_by(query_facts.c.query)
        return self._rows(QueryFact, found if query is None else found.where(query_facts.c.query == query))

    def forget_seen(self, query: str) -> None:
        with self._writing() as connection:
            connection.execute(sa.update(query_facts).where(query_facts.c.query == query).values(seen=None))


class PlaceTable(Part):
    """One row a query."""

    def report_place(self, found: FoundPlace) -> None:
        with self._writing() as connection:
            connection.execute(upsert(self._insert(found_places), found_places, values_of(found)))

    def found_place(self, query: str) -> FoundPlace | None:
        found = sa.select(found_places).where(found_places.c.query == query)
        return next(iter(self._rows(FoundPlace, found)), None)

    def keep_mapping(self, query: str, name: str, content: str) -> None:
        with self._writing() as connection:
            insert = self._insert(mappings).values(query=query, name=name, content=content)
            connection.execute(insert.on_conflict_do_nothing(index_elements=["query", "name"]))

    def mappings(self, query: str) -> Mapping[str, str]:
        kept = sa.select(mappings.c.name, mappings.c.content).where(mappings.c.query == query)
        with translated(), self._engines.read.connect() as connection:
            return {row.name: row.content for row in connection.execute(kept.order_by(mappings.c.name))}


@cache
def _registering(dialect: str) -> ReturningInsert[tuple[str]]:
    """The upsert of a runner; the row of another instance stays."""
    insert = insert_into(dialect, runners)
    ours = runners.c.instance == insert.excluded.instance
    return changing(insert, runners, runners.c.keys(), ours).returning(runners.c.runner)


@cache
def _reporting(dialect: str, starts: bool) -> ReturningInsert[tuple[str]]:
    """The upsert of a report; of its epoch only one that starts takes the query over from another instance.

    But the process that has the runner's name is no late one. Where the row names another instance of that runner, the
    store was restored from before that process began, and will never see it start.
    """
    insert = insert_into(dialect, query_facts)
    same = query_facts.c.epoch == insert.excluded.epoch
    if not starts:
        named = sa.select(runners.c.instance).where(runners.c.runner == insert.excluded.runner).scalar_subquery()
        is_named = sa.and_(query_facts.c.runner == insert.excluded.runner, insert.excluded.instance == named)
        same = sa.and_(same, sa.or_(query_facts.c.instance == insert.excluded.instance, is_named))
    newer = sa.or_(query_facts.c.epoch < insert.excluded.epoch, same)
    changed = changing(insert, query_facts, query_facts.c.keys(), newer, unless_null=("columns", "seen", "sink"))
    return changed.returning(query_facts.c.query)


_EVERY_PIN = sa.select(pins).order_by(pins.c.cluster)
"""Made once: it runs all the time."""


class PinTable(Part):
    """One row a name."""

    def pin(self, pin: Pin, *, event: Event) -> Pin:
        with self._writing() as connection:
            insert = self._insert(pins).values(**values_of(pin)).on_conflict_do_nothing(index_elements=["cluster"])
            if connection.execute(insert.returning(pins.c.cluster)).first() is not None:
                append(connection, [event])
                return pin
            stored = connection.execute(sa.select(pins).where(pins.c.cluster == pin.cluster)).one()
            return Pin(**stored._asdict())

    def replace_pin(self, cluster: str, *, former: str, new: str, event: Event) -> Pin | None:
        with self._writing() as connection:
            stored = connection.execute(sa.select(pins).where(pins.c.cluster == cluster).with_for_update()).first()
            if stored is None or stored.id != former:
                return None
            moving = connection.execute(sa.select(operations).where(OPEN_MOVE))
            refuse_moving(cluster, (Operation(**row._asdict()) for row in moving))
            placed = connection.execute(sa.select(assignments).order_by(assignments.c.query))
            pin = Pin(**stored._asdict()).replaced(new, event.at, (Assignment(**row._asdict()) for row in placed))
            connection.execute(sa.update(pins).where(pins.c.cluster == cluster).values(**values_of(pin)))
            append(connection, [event])
            return pin

    def pins(self) -> Sequence[Pin]:
        return self._rows(Pin, _EVERY_PIN)


# Statements are made once: they run all the time, and making one costs more than running it.
_ALL = sa.select(probe_reports).order_by(probe_reports.c.cluster, probe_reports.c.viewpoint)
_OF_CLUSTER = _ALL.where(probe_reports.c.cluster == sa.bindparam("of"))
_BELIEVED = sa.select(cluster_statuses).order_by(cluster_statuses.c.cluster)
_STANDING = sa.select(cluster_statuses.c.verdict, cluster_statuses.c.since).where(
    cluster_statuses.c.cluster == sa.bindparam("believed")
)


class ProbeTables(Part):
    """One row an observer, one row a verdict."""

    def save_probe_reports(self, seen: Iterable[ProbeReport]) -> None:
        ordered = sorted(seen, key=lambda each: (each.cluster, each.viewpoint))  # rows are locked in one order
        if not ordered:
            return
        with self._writing() as connection:
            now = self._at(connection)
            rows = [values_of(probe_report) | {"store_now": now} for probe_report in ordered]
            connection.execute(_newer_only(self._engines.dialect), rows)

    def probe_reports(self, cluster: str | None = None) -> Sequence[ProbeReport]:
        return self._rows(ProbeReport, *((_ALL,) if cluster is None else (_OF_CLUSTER, {"of": cluster})))

    def record_status(self, status: ClusterStatus, *, term: int, event: Event) -> bool:
        check_believed(status, term)
        with self._leading(term) as connection:
            stored = connection.execute(_STANDING, {"believed": status.cluster}).first()
            same = stored is not None and stored.verdict is status.verdict
            values = values_of(status) | ({"since": stored.since} if stored and same else {})
            connection.execute(_newest(self._engines.dialect), values)
            if not same:
                append(connection, [event])
            return not same

    def cluster_statuses(self) -> Sequence[ClusterStatus]:
        return self._rows(ClusterStatus, _BELIEVED)


@cache
def _newer_only(dialect: str) -> Insert:
    """The upsert of a probe report; what is newer stays, unless it claims to come from the future."""
    insert = insert_into(dialect, probe_reports)
    from_the_future = probe_reports.c.seen_at > sa.bindparam("store_now", type_=Instant())
    newer = sa.or_(probe_reports.c.seen_at <= insert.excluded.seen_at, from_the_future)
    return changing(insert, probe_reports, probe_reports.c.keys(), newer)


@cache
def _newest(dialect: str) -> Insert:
    """The upsert of a cluster status."""
    return changing(insert_into(dialect, cluster_statuses), cluster_statuses, cluster_statuses.c.keys())


class ReadinessTables(Part):
    """One row of readiness and one of disorder a query, and a row a sample."""

    def keep_readiness(
        self,
        fact: ReadinessFact,
        *,
        term: int,
        event: Event,
        replication: ReplicationSample | None = None,
        sample: StandbySample | None = None,
    ) -> bool:
        with self._leading(term) as connection:
            stored = connection.execute(
                sa.select(readiness.c.ready, readiness.c.since).where(readiness.c.query == fact.query)
            ).first()
            same = stored is not None and stored.ready is fact.ready
            packed = pack(replication) if replication is not None else None
            kept = {"since": stored.since} if stored and same else {}
            values = values_of(fact) | kept | {"replication": packed}
            connection.execute(upsert(self._insert(readiness), readiness, values))
            if sample is not None:
                connection.execute(upsert(self._insert(standby_samples), standby_samples, values_of(sample)))
            if not same:
                append(connection, [event])
            return not same

    def readiness(self, *, query: str | None = None) -> Sequence[ReadinessFact]:
        found = sa.select(*_FACT).order_by(readiness.c.query)
        return self._rows(ReadinessFact, found if query is None else found.where(readiness.c.query == query))

    def replication(self, query: str) -> ReplicationSample | None:
        kept = sa.select(readiness.c.replication).where(readiness.c.query == query)
        with translated(), self._engines.read.connect() as connection:
            packed = connection.execute(kept).scalar()
        return unpack(packed) if packed is not None else None

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        with self._leading(term) as connection:
            connection.execute(upsert(self._insert(disorders), disorders, values_of(disorder)))

    def disorder(self, query: str) -> Disorder | None:
        return self._row(Disorder, sa.select(disorders).where(disorders.c.query == query))

    def standby_samples(self, query: str, *, since: datetime | None = None) -> Sequence[StandbySample]:
        kept = sa.select(standby_samples).where(standby_samples.c.query == query)
        if since is not None:
            kept = kept.where(standby_samples.c.sampled_at >= since)
        return self._rows(StandbySample, kept.order_by(standby_samples.c.sampled_at))

    def prune_standby_samples(self, before: datetime, *, limit: int, term: int) -> int:
        keys = list(standby_samples.primary_key.columns)
        with self._leading(term) as connection:
            check_pruned(before, self._at(connection), keep=1, limit=limit)
            old = sa.select(*keys).where(standby_samples.c.sampled_at < before).limit(limit)
            gone = sa.delete(standby_samples).where(sa.tuple_(*keys).in_(old))
            return connection.execute(gone).rowcount


_FACT = [column for column in readiness.c if column.name != "replication"]
"""Read every second by who looks on; the sample of replication beside it is large, and has a statement of its own."""
