"""Clearing what is over: by age, by query, and checkpoints that queries have left."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from state.model.entities import Assignment, Desired, Event, OperationKind
from state.model.maintenance import (
    CleanedFiles,
    FormerCheckpoint,
    PrunedRows,
    RememberedRows,
)
from state.model.pins import Pin
from state.settings.canonical import are_one_folder
from state.store.sql.database import Part, upsert, values_of
from state.store.sql.engine import translated
from state.store.sql.history import append
from state.store.sql.schema import (
    OPEN_MOVE,
    acknowledgements,
    assignments,
    cluster_statuses,
    disorders,
    ends,
    evidence,
    formers,
    found_places,
    history,
    intents,
    mappings,
    operations,
    pauses,
    pins,
    positions,
    probe_reports,
    query_facts,
    readiness,
    requests,
    retention,
    runners,
    schedules,
    standby_samples,
    steps,
    timelines,
)
from state.store.write_checks import PLACED, check_pruned, left_by, refuse_forgetting

_OF_AN_OPERATION = (acknowledgements, intents, steps)


class MaintenanceTables(Part):
    """Pruning in bounded rounds, the oldest rows first."""

    def prune(self, before: datetime, *, keep: int, limit: int, term: int) -> PrunedRows:
        with self._leading(term) as connection:
            return self._prune_round(connection, before, keep, limit)

    def prunable(self, before: datetime, *, keep: int, limit: int) -> PrunedRows:
        with self._writing() as connection:  # what goes with an operation is known only once that is gone
            found = self._prune_round(connection, before, keep, limit)
            connection.rollback()
            return found

    def _prune_round(self, connection: sa.Connection, before: datetime, keep: int, limit: int) -> PrunedRows:
        check_pruned(before, self._at(connection), keep=keep, limit=limit)
        self._move_on(connection, before)
        return PrunedRows(
            operations=_prune_operations(connection, before, keep, limit),
            requests=_prune(connection, requests, "created_at", before, limit, over=_is_over),
            probe_reports=_prune(connection, probe_reports, "seen_at", before, limit),
            readiness=_prune(connection, readiness, "sampled_at", before, limit),
            disorders=_prune(connection, disorders, "measured_at", before, limit),
            events=_prune(connection, history, "at", before, limit, over=_is_without_operation),
            runners=_prune(connection, runners, "seen_at", before, limit, over=_is_named_nowhere),
            reports=_prune(connection, query_facts, "reported_at", before, limit, over=_is_unassigned),
            positions=_prune_positions(connection, before, limit),
            ends=_prune(connection, ends, "sampled_at", before, limit, over=_is_unread),
            cluster_statuses=_prune(connection, cluster_statuses, "decided_at", before, limit),
            checkpoints=_prune(connection, formers, "cleaned_at", before, limit),
            schedules=_prune(connection, schedules, "created_at", before, limit, over=_has_ended(before)),
        )

    def _move_on(self, connection: sa.Connection, before: datetime) -> None:
        """Say from when on history is kept: the tables refuse to lose a line that is younger."""
        insert = self._insert(retention)
        later = retention.c.kept_from < insert.excluded.kept_from
        connection.execute(upsert(insert, retention, {"kind": "history", "kept_from": before}, later))


_WITHOUT_DOCUMENT = sa.update(evidence).where(evidence.c.document.is_not(None)).values(document=None)
"""The hash stays: the next document names it."""


def _prune_operations(connection: sa.Connection, before: datetime, keep: int, limit: int) -> int:
    newest_first = (operations.c.started_at.desc(), operations.c.id.desc())
    is_drill = operations.c.kind == OperationKind.DRILL
    kind = (operations.c.query, operations.c.phase.in_(sorted(PLACED)), is_drill)
    place = sa.func.row_number().over(partition_by=kind, order_by=newest_first).label("place")
    ranked = sa.select(operations.c.id, operations.c.started_at, operations.c.outcome, operations.c.ended_at, place)
    rows = ranked.subquery("rows")
    over = sa.and_(rows.c.outcome.is_not(None), sa.func.coalesce(rows.c.ended_at, rows.c.started_at) < before)
    in_use = sa.select(assignments.c.operation).where(assignments.c.operation.is_not(None))
    found = sa.select(rows.c.id).where(over, rows.c.place > keep, rows.c.id.not_in(in_use))
    gone = list(connection.execute(found.order_by(rows.c.started_at, rows.c.id).limit(limit)).scalars())
    if gone:
        for table in _OF_AN_OPERATION:
            connection.execute(sa.delete(table).where(table.c.operation.in_(gone)))
        connection.execute(sa.delete(operations).where(operations.c.id.in_(gone)))
        connection.execute(_WITHOUT_DOCUMENT.where(evidence.c.operation.in_(gone)))
    return len(gone)


def _prune(
    connection: sa.Connection,
    table: sa.Table,
    time: str,
    before: datetime,
    limit: int,
    *,
    over: Callable[[sa.FromClause], sa.ColumnElement[bool]] = lambda row: sa.true(),
) -> int:
    """Delete the oldest rows of before that time for which ``over`` holds."""
    old = table.alias("old")
    keys = [old.c[key.name] for key in table.primary_key.columns]
    found = sa.select(*keys).where(old.c[time] < before, over(old)).order_by(old.c[time], *keys).limit(limit)
    return connection.execute(sa.delete(table).where(sa.tuple_(*table.primary_key.columns).in_(found))).rowcount


def _prune_positions(connection: sa.Connection, before: datetime, limit: int) -> int:
    """Those of queries without an assignment: who writes positions clears his own query."""
    gone = 0
    for query in connection.execute(_UNASSIGNED).scalars().all():
        of_query = positions.alias("of_query")
        keys = [of_query.c[key.name] for key in positions.primary_key.columns]
        old = sa.select(*keys).where(of_query.c.query == query, of_query.c.tracked_at < before).limit(limit - gone)
        gone += connection.execute(
            sa.delete(positions).where(sa.tuple_(*positions.primary_key.columns).in_(old))
        ).rowcount
    return gone


_UNASSIGNED = sa.text(
    """
    WITH RECURSIVE known (query) AS (
        SELECT min(query) FROM positions
        UNION ALL
        SELECT (SELECT min(p.query) FROM positions AS p WHERE p.query > known.query)
        FROM known WHERE known.query IS NOT NULL
    )
    SELECT query FROM known WHERE query IS NOT NULL AND query NOT IN (SELECT a.query FROM assignments AS a)
    """
)
"""Walks from query to query by the key; ``SELECT DISTINCT`` would read every row."""


def _is_unassigned(row: sa.FromClause) -> sa.ColumnElement[bool]:
    return row.c.query.not_in(sa.select(assignments.c.query))


def _is_named_nowhere(runner: sa.FromClause) -> sa.ColumnElement[bool]:
    named = sa.union(sa.select(assignments.c.runner), sa.select(query_facts.c.runner))
    return runner.c.runner.not_in(named)


def _is_unread(end: sa.FromClause) -> sa.ColumnElement[bool]:
    names = ("cluster", "topic", "partition")
    read = sa.select(*(positions.c[name] for name in names)).distinct()
    return sa.tuple_(*(end.c[name] for name in names)).not_in(read)


def _is_over(request: sa.FromClause) -> sa.ColumnElement[bool]:
    answer = request.c.operation
    return sa.or_(request.c.refused.is_not(None), sa.and_(answer.is_not(None), _is_gone(answer)))


def _has_ended(before: datetime) -> Callable[[sa.FromClause], sa.ColumnElement[bool]]:
    return lambda row: sa.and_(row.c.next_at.is_(None), sa.func.coalesce(row.c.last_at, row.c.created_at) < before)


def _is_without_operation(event: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.or_(event.c.operation.is_(None), _is_gone(event.c.operation))


def _is_gone(operation: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.not_(sa.select(operations.c.id).where(operations.c.id == operation).exists())


_OF_A_QUERY = {
    "reports": query_facts.c.query,  # before the assignment, which stays while its query is reported
    "operations": operations.c.query,
    "assignments": assignments.c.query,
    "requests": requests.c.query,
    "positions": positions.c.query,
    "stretches": timelines.c.query,
    "readiness": readiness.c.query,
    "samples": standby_samples.c.query,
    "disorders": disorders.c.query,
    "pauses": pauses.c.scope,
    "checkpoints": formers.c.query,
    "places": found_places.c.query,
    "mappings": mappings.c.query,
}


class QueryForgetting(Part):
    """A query that is not declared any more."""

    def remembered(self, query: str) -> RememberedRows:
        with translated(), self._engines.read.connect() as connection:
            return RememberedRows(
                **{
                    name: connection.execute(
                        sa.select(sa.func.count()).select_from(column.table).where(column == query)
                    ).scalar_one()
                    for name, column in _OF_A_QUERY.items()
                }
            )

    def forget(self, query: str, *, reported_at: datetime | None, event: Event) -> RememberedRows:
        of_query = sa.select(operations.c.id).where(operations.c.query == query)
        with self._writing() as connection:
            held = sa.select(assignments.c.query).where(assignments.c.query == query).with_for_update()
            connection.execute(held)  # who would hold it now waits, and then finds nothing
            opened = connection.execute(of_query.where(operations.c.outcome.is_(None))).scalar()
            reports = sa.select(query_facts.c.reported_at).where(query_facts.c.query == query)
            refuse_forgetting(query, opened, reported_at, connection.execute(reports).scalar())
            for table in _OF_AN_OPERATION:
                connection.execute(sa.delete(table).where(table.c.operation.in_(of_query)))
            gone = {
                name: connection.execute(sa.delete(column.table).where(column == query)).rowcount
                for name, column in _OF_A_QUERY.items()
            }
            connection.execute(_WITHOUT_DOCUMENT.where(evidence.c.query == query))
            for row in connection.execute(sa.select(pins).with_for_update()).all():
                pin = Pin(**row._asdict())
                if pin.without(query) != pin:
                    rest = sa.update(pins).where(pins.c.cluster == pin.cluster)
                    connection.execute(rest.values(former=pin.without(query).former))
            append(connection, [event])
            return RememberedRows(**gone)


_IS_REQUESTED = sa.and_(formers.c.asked_at.is_not(None), formers.c.cleaned_at.is_(None), formers.c.refused.is_(None))


class FormerWriter(Part):
    """Keeps what is left, inside a transaction of the caller."""

    def _leave(self, connection: sa.Connection, before: sa.Row[Any] | None, wanted: Assignment, at: datetime) -> None:
        """``before``: the assignment as it was. What is in use again, in any spelling, is no former one."""
        left = left_by(Assignment(**before._asdict()), wanted, at) if before is not None else None
        if left is None and before is not None:
            return
        names = connection.scalars(sa.select(formers.c.checkpoint).where(formers.c.query == wanted.query)).all()
        again = [wanted.checkpoint] if left is None else [wanted.checkpoint, left.checkpoint]
        for name in [name for name in names if any(are_one_folder(name, each) for each in again)]:
            connection.execute(sa.delete(formers).where(_is(wanted.query, name)))
        if left is not None:
            connection.execute(upsert(self._insert(formers), formers, values_of(left)))


class FormerTable(Part):
    """Ordered, answered."""

    def formers(self, query: str | None = None) -> Sequence[FormerCheckpoint]:
        found = sa.select(formers).order_by(formers.c.query, formers.c.left_epoch, formers.c.checkpoint)
        return self._rows(FormerCheckpoint, found if query is None else found.where(formers.c.query == query))

    def request_cleaning(
        self, former: FormerCheckpoint, *, runner: str, epoch: int, event: Event, term: int | None = None
    ) -> bool:
        runs = sa.select(assignments.c.checkpoint).where(
            assignments.c.query == former.query,
            assignments.c.epoch == epoch,
            assignments.c.desired == Desired.RUNNING,
        )
        moves = sa.select(operations.c.id).where(operations.c.query == former.query, OPEN_MOVE)
        with self._writing() if term is None else self._leading(term) as connection:
            if connection.execute(runs.with_for_update()).first() is None or connection.execute(moves).first():
                return False
            statement = (
                sa.update(formers)
                .where(_is_as_seen(former), formers.c.cleaned_at.is_(None))
                .values(runner=runner, asked_at=self._at(connection), refused=None)
            )
            if connection.execute(statement).rowcount == 0:
                return False
            append(connection, [event])
            return True

    def to_clean(self, runner: str) -> Sequence[FormerCheckpoint]:
        found = sa.select(formers).where(formers.c.runner == runner, _IS_REQUESTED)
        return self._rows(FormerCheckpoint, found.order_by(formers.c.asked_at, formers.c.query, formers.c.checkpoint))

    def report_cleaned(self, former: FormerCheckpoint, outcome: CleanedFiles | str, *, event: Event) -> bool:
        with self._writing() as connection:
            cleaned = {} if isinstance(outcome, str) else {"cleaned_at": self._at(connection), **outcome._asdict()}
            values = cleaned or {"refused": outcome}
            if (
                connection.execute(sa.update(formers).where(_is_as_seen(former), _IS_REQUESTED).values(values)).rowcount
                == 0
            ):
                return False
            append(connection, [event])
            return True


def _is(query: str, checkpoint: str) -> sa.ColumnElement[bool]:
    return sa.and_(formers.c.query == query, formers.c.checkpoint == checkpoint)


def _is_as_seen(former: FormerCheckpoint) -> sa.ColumnElement[bool]:
    """Whether the row is as the caller saw it: neither left again nor ordered since."""
    return sa.and_(
        _is(former.query, former.checkpoint),
        formers.c.left_epoch == former.left_epoch,
        formers.c.asked_at.is_not_distinct_from(former.asked_at),
    )
