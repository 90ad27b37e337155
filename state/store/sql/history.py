"""What is kept by time: the history and who got which part of it, the chain of evidence, the timelines, what is
scheduled.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from state.errors import Conflict
from state.model.automation import NoticeCursor, Schedule
from state.model.entities import Event, Operation, Request
from state.model.evidence import Evidence, announcement, sealed
from state.model.timeline import Stretch
from state.store.sql.database import Part, newest_last, upsert, values_of
from state.store.sql.schema import evidence, history, notice_cursors, operations, requests, schedules, timelines
from state.store.write_checks import KEPT_STRETCHES, check_closed, check_kept, check_pruned, check_request

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
        self,
        *,
        query: str | None = None,
        operation: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        after: int = 0,
        limit: int = 200,
    ) -> Sequence[Event]:
        columns = {"query": query, "operation": operation, "kind": kind, "since": since}
        narrowed = {name: value for name, value in columns.items() if value is not None}
        return newest_last(self._rows(Event, _newest(*narrowed), {"after": after, "most": limit, **narrowed}))


@cache
def _newest(*narrowed: str) -> sa.Select[Any]:
    """The statement that every reader of the history repeats, made once."""
    found = sa.select(history).where(history.c.sequence > sa.bindparam("after"))
    for name in narrowed:
        if name == "since":
            found = found.where(history.c.at >= sa.bindparam(name, type_=history.c.at.type))
        else:
            found = found.where(history.c[name] == sa.bindparam(name))
    return found.order_by(history.c.sequence.desc()).limit(sa.bindparam("most", type_=sa.Integer()))


class NoticeTable(Part):
    """One row for each receiver of notices."""

    def notice_cursors(self) -> Sequence[NoticeCursor]:
        return self._rows(NoticeCursor, _CURSORS)

    def keep_notice_cursor(self, cursor: NoticeCursor, *, term: int) -> None:
        with self._leading(term) as connection:
            connection.execute(upsert(self._insert(notice_cursors), notice_cursors, values_of(cursor)))


_CURSORS = sa.select(notice_cursors).order_by(notice_cursors.c.target)

_CHAIN_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtext('tideover.evidence'))")
_LAST = sa.select(evidence).order_by(evidence.c.sequence.desc()).limit(1)
_OF = sa.select(evidence).where(evidence.c.operation == sa.bindparam("of"))
_CLOSED = (
    sa.select(operations)
    .where(operations.c.outcome.is_not(None))
    .where(~sa.exists().where(evidence.c.operation == operations.c.id))
    .order_by(operations.c.ended_at, operations.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer()))
)


class EvidenceTable(Part):
    """One link for each closed operation; a document goes with its operation, the link stays."""

    def without_evidence(self, *, limit: int) -> Sequence[Operation]:
        return self._rows(Operation, _CLOSED, {"most": limit})

    def keep_evidence(
        self, operation: Operation, facts: Mapping[str, object], *, term: int, actor: str
    ) -> Evidence | None:
        check_closed(operation)
        with self._leading(term) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(_CHAIN_LOCK)
            stored = sa.select(operations.c.id).where(
                operations.c.id == operation.id, operations.c.outcome.is_not(None)
            )
            if connection.execute(stored).first() is None or connection.execute(_OF, {"of": operation.id}).first():
                return None
            row = connection.execute(_LAST).first()
            last = Evidence(**row._asdict()) if row is not None else None
            kept = sealed(
                facts, operation=operation.id, query=operation.query, last=last, at=self._at(connection)
            )  # fmt: skip
            connection.execute(sa.insert(evidence).values(**values_of(kept)))
            append(connection, [announcement(kept, epoch=operation.epoch, actor=actor)])
            return kept

    def evidence(self, operation_id: str) -> Evidence | None:
        return self._row(Evidence, _OF, {"of": operation_id})

    def evidence_after(self, sequence: int, *, limit: int) -> Sequence[Evidence]:
        found = sa.select(evidence).where(evidence.c.sequence > sequence)
        return self._rows(Evidence, found.order_by(evidence.c.sequence).limit(limit))


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


class ScheduleTable(Part):
    """What shall be requested later."""

    def add_schedule(self, schedule: Schedule, *, event: Event) -> None:
        with self._writing() as connection:
            insert = self._insert(schedules).values(**values_of(schedule)).on_conflict_do_nothing(index_elements=["id"])
            if connection.execute(insert.returning(schedules.c.id)).first() is not None:
                append(connection, [event])
                return
            row = connection.execute(sa.select(schedules).where(schedules.c.id == schedule.id)).one()
            if Schedule(**row._asdict()) != schedule:
                raise Conflict(f"another schedule has the id {schedule.id}")

    def schedules(self) -> Sequence[Schedule]:
        over = schedules.c.next_at.is_(None)
        order = (over, schedules.c.next_at, schedules.c.last_at.desc(), schedules.c.id)
        return self._rows(Schedule, sa.select(schedules).order_by(*order))

    def fire(
        self, schedule: Schedule, *, next_at: datetime | None, outcome: str, requested: Sequence[Request], event: Event,
        term: int,
    ) -> bool:  # fmt: skip
        due = sa.and_(schedules.c.id == schedule.id, schedules.c.next_at == schedule.next_at)
        change = sa.update(schedules).where(due)
        with self._leading(term) as connection:
            values = {"next_at": next_at, "last_at": schedule.next_at, "last_outcome": outcome}
            if connection.execute(change.values(**values)).rowcount == 0:
                return False
            for request in requested:
                check_request(request)
                connection.execute(self._insert(requests).values(**values_of(request)))
            append(connection, [event])
            return True

    def cancel_schedule(self, schedule_id: str, *, actor: str, event: Event) -> bool:
        stored = sa.and_(schedules.c.id == schedule_id, schedules.c.next_at.is_not(None))
        with self._writing() as connection:
            change = sa.update(schedules).where(stored).values(next_at=None, cancelled_by=actor)
            if connection.execute(change).rowcount == 0:
                return False
            append(connection, [event])
            return True
