"""The lease: one row, one statement, the database's clock."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from state.guards import LEASE_TTLS_AHEAD, term_step
from state.model import RESIGNED, Lease
from state.sql.columns import Instant
from state.sql.database import Part
from state.sql.engine import translated
from state.sql.schema import leases


class Leading(Part):
    """Who leads, and since which term."""

    def now(self) -> datetime:
        if self._engines.dialect == "sqlite":
            return datetime.now(UTC)
        with translated(), self._engines.read.connect() as connection:
            return connection.execute(sa.select(self._clock())).scalar_one()

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        with self._writing() as connection:
            step = term_step()
            insert = self._insert(leases).values(name=name, holder=holder, term=step, expires_at=self._in(ttl))
            changed = sa.case((leases.c.holder == insert.excluded.holder, 0), else_=step)
            statement = insert.on_conflict_do_update(
                index_elements=["name"],
                set_={
                    "holder": insert.excluded.holder,
                    "term": leases.c.term + changed,
                    "expires_at": insert.excluded.expires_at,
                },
                where=sa.or_(
                    leases.c.expires_at <= self._clock(),
                    leases.c.expires_at > self._in(LEASE_TTLS_AHEAD * ttl),
                    leases.c.holder == insert.excluded.holder,
                ),
            )
            row = connection.execute(statement.returning(*leases.c)).first()
        return Lease(**row._asdict()) if row else None

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        with self._writing() as connection:
            changed = sa.case((leases.c.holder == holder, 0), else_=term_step())
            statement = (
                sa.update(leases)
                .where(leases.c.name == name, leases.c.holder == dead_holder)
                .values(holder=holder, term=leases.c.term + changed, expires_at=self._in(ttl))
            )
            row = connection.execute(statement.returning(*leases.c)).first()
        return Lease(**row._asdict()) if row else None

    def resign(self, lease: Lease) -> None:
        with self._writing() as connection:
            ours = sa.and_(leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.term == lease.term)
            connection.execute(sa.update(leases).where(ours).values(expires_at=RESIGNED))

    def leader(self, name: str) -> Lease | None:
        return self._row(Lease, sa.select(leases).where(leases.c.name == name))

    def _in(self, ttl: timedelta) -> sa.ColumnElement[datetime]:
        """The store's clock plus ``ttl``."""
        if self._engines.dialect == "sqlite":
            return sa.literal(datetime.now(UTC) + ttl, Instant())
        return sa.type_coerce(sa.func.clock_timestamp() + sa.literal(ttl, sa.Interval()), Instant())
