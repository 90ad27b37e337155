"""Readiness as it was last sampled, and the pruning of what is over."""

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from state.guards import PLACED, check_pruned
from state.model import Event
from state.replication import pack, unpack
from state.sql.database import Part, upsert, values_of
from state.sql.engine import translated
from state.sql.history import append
from state.sql.schema import (
    acknowledgements,
    assignments,
    disorders,
    history,
    intents,
    operations,
    readiness,
    requests,
    retention,
    sightings,
    steps,
)
from state.upkeep import Disorder, Pruned, ReadinessFact, Replication

_OF_AN_OPERATION = (acknowledgements, intents, steps)


class Upkeep(Part):
    """One row of readiness a query; pruning in bounded rounds, the oldest rows first."""

    def keep_readiness(
        self, fact: ReadinessFact, *, term: int, event: Event, replication: Replication | None = None
    ) -> bool:
        with self._leading(term) as connection:
            stands = connection.execute(
                sa.select(_READINESS.c.ready, _READINESS.c.since).where(_READINESS.c.query == fact.query)
            ).first()
            same = stands is not None and stands.ready is fact.ready
            packed = pack(replication) if replication is not None else None
            kept = {"since": stands.since} if stands and same else {}
            values = values_of(fact) | kept | {"replication": packed}
            connection.execute(upsert(self._insert(_READINESS), _READINESS, values))
            if not same:
                append(connection, [event])
            return not same

    def readiness(self) -> Sequence[ReadinessFact]:
        return self._rows(ReadinessFact, sa.select(*_FACT).order_by(readiness.c.query))

    def replication(self, query: str) -> Replication | None:
        kept = sa.select(readiness.c.replication).where(readiness.c.query == query)
        with translated(), self._engines.read.connect() as connection:
            packed = connection.execute(kept).scalar()
        return unpack(packed) if packed is not None else None

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        with self._leading(term) as connection:
            connection.execute(upsert(self._insert(disorders), disorders, values_of(disorder)))

    def disorder(self, query: str) -> Disorder | None:
        return self._row(Disorder, sa.select(disorders).where(disorders.c.query == query))

    def prune(self, before: datetime, *, keep: int, limit: int, term: int) -> Pruned:
        with self._leading(term) as connection:
            now = self._at(connection)
            check_pruned(before, now, keep=keep, limit=limit)
            self._move_on(connection, before)
            return Pruned(
                operations=_prune_operations(connection, before, keep, limit),
                requests=_prune(connection, requests, "created_at", before, limit, over=_is_over),
                sightings=_prune(connection, sightings, "seen_at", before, limit),
                readiness=_prune(connection, readiness, "sampled_at", before, limit),
                disorders=_prune(connection, disorders, "measured_at", before, limit),
                events=_prune(connection, history, "at", before, limit, over=_stands_alone),
            )

    def _move_on(self, connection: sa.Connection, before: datetime) -> None:
        """Say from when on history is kept: the tables refuse to lose a line that is younger."""
        insert = self._insert(retention)
        later = retention.c.kept_from < insert.excluded.kept_from
        connection.execute(upsert(insert, retention, {"kind": "history", "kept_from": before}, later))


_READINESS = readiness
_FACT = [column for column in readiness.c if column.name != "replication"]
"""Read every second by who looks on; the sample of replication beside it is large, and asked for by itself."""


def _prune_operations(connection: sa.Connection, before: datetime, keep: int, limit: int) -> int:
    newest_first = (operations.c.started_at.desc(), operations.c.id.desc())
    kind = (operations.c.query, operations.c.phase.in_(sorted(PLACED)))
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


def _is_over(request: sa.FromClause) -> sa.ColumnElement[bool]:
    answer = request.c.operation
    return sa.or_(request.c.refused.is_not(None), sa.and_(answer.is_not(None), _is_gone(answer)))


def _stands_alone(event: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.or_(event.c.operation.is_(None), _is_gone(event.c.operation))


def _is_gone(operation: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.not_(sa.select(operations.c.id).where(operations.c.id == operation).exists())
