"""The append-only history, and the timelines."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from state.model.entities import Event
from state.model.timeline import Stretch
from state.store.sql.database import Part, newest_last, upsert, values_of
from state.store.sql.schema import history, timelines
from state.store.write_checks import KEPT_STRETCHES, check_kept, check_pruned

_APPENDED = sa.insert(history).inline()
_ORDER_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtext('tideover.history'))")


def append(connection: sa.Connection, events: Iterable[Event]) -> None:
    """Append within the caller's transaction.

    Writers take turns on PostgreSQL: sequence numbers are drawn before the commit, so a follower that saw 8 could miss
    a 7 that commits later. On SQLite they take turns anyway.
    """
    rows = [values_of(event) for event in events]
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(_ORDER_LOCK)
    for row in rows:
        del row["sequence"]
        connection.execute(_APPENDED, row)


class HistoryTable(Part):
    """Events, numbered in the order in which they became visible."""

    def note(self, event: Event, *, term: int | None = None) -> None:
        with self._writing() if term is None else self._leading(term) as connection:
            append(connection, [event])

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        asked = {"query": query, "operation": operation}
        narrowed = {name: value for name, value in asked.items() if value is not None}
        return newest_last(self._rows(Event, _newest(*narrowed), {"after": after, "most": limit, **narrowed}))


@cache
def _newest(*narrowed: str) -> sa.Select[Any]:
    """What is asked for again and again by everybody who follows the history, made once."""
    found = sa.select(history).where(history.c.sequence > sa.bindparam("after"))
    for name in narrowed:
        found = found.where(history.c[name] == sa.bindparam(name))
    return found.order_by(history.c.sequence.desc()).limit(sa.bindparam("most", type_=sa.Integer()))


_NEWEST_FIRST = (timelines.c.begin.desc(), timelines.c.epoch.desc(), timelines.c.cluster.desc())


class TimelineTable(Part):
    """A few rows a day and query, each of them large."""

    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        check_kept(keep)
        insert = self._insert(timelines)
        further = timelines.c.until <= insert.excluded.until
        of_query = timelines.c.query == stretch.query
        with self._writing() as connection:
            connection.execute(upsert(insert, timelines, values_of(stretch), further))
            now = self._at(connection)
            connection.execute(sa.delete(timelines).where(of_query, timelines.c.until < now - keep))
            keys = sa.tuple_(*timelines.primary_key.columns)
            over = sa.select(*timelines.primary_key.columns).where(of_query).order_by(*_NEWEST_FIRST)
            connection.execute(sa.delete(timelines).where(keys.in_(over.limit(_ALL).offset(KEPT_STRETCHES))))

    def timeline(self, query: str, *, since: datetime | None = None) -> Sequence[Stretch]:
        reaches = sa.true() if since is None else timelines.c.until >= since
        order = (timelines.c.epoch, timelines.c.begin, timelines.c.cluster)
        return self._rows(Stretch, sa.select(timelines).where(timelines.c.query == query, reaches).order_by(*order))

    def timeline_at(self, query: str, time: datetime) -> Stretch | None:
        begun = sa.select(timelines).where(timelines.c.query == query, timelines.c.begin <= time)
        order = (timelines.c.epoch.desc(), timelines.c.begin.desc(), timelines.c.cluster.desc())
        return self._row(Stretch, begun.order_by(*order).limit(1))

    def prune_timelines(self, before: datetime, *, limit: int, term: int) -> int:
        with self._leading(term) as connection:
            now = self._at(connection)
            check_pruned(before, now, keep=1, limit=limit)
            keys = timelines.primary_key.columns
            old = sa.select(*keys).where(timelines.c.until < before).order_by(timelines.c.until, *keys).limit(limit)
            return connection.execute(sa.delete(timelines).where(sa.tuple_(*keys).in_(old))).rowcount


_ALL = 1 << 31
"""SQLite takes no offset without a limit."""
