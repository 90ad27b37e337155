"""Timelines: one row a stretch, written about once a minute and query."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from state.guards import KEPT_STRETCHES, check_kept, check_pruned
from state.sql.database import Part, upsert, values_of
from state.sql.schema import timelines
from state.timeline import Stretch

_NEWEST_FIRST = (timelines.c.begin.desc(), timelines.c.epoch.desc(), timelines.c.cluster.desc())


class Timelines(Part):
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
