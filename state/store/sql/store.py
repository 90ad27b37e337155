"""The whole store: its parts side by side, its lease, and the schema that it needs."""

from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningInsert

from state.errors import SchemaNewer, SchemaOlder
from state.model.entities import RESIGNED, Lease
from state.store.controller_store import ControllerStore
from state.store.sql.columns import Instant
from state.store.sql.database import Part, insert_into
from state.store.sql.engine import listen, translated
from state.store.sql.history import EvidenceTable, HistoryTable, NoticeTable, ScheduleTable, TimelineTable
from state.store.sql.maintenance import FormerTable, MaintenanceTables, QueryForgetting
from state.store.sql.operations import AssignmentTable, AutomationTables, IntentTable, OperationTables, RequestTable
from state.store.sql.positions import PositionTables
from state.store.sql.reports import PinTable, PlaceTable, ProbeTables, ReadinessTables, ReportTables
from state.store.sql.schema import VERSION_TABLE, leases
from state.store.wakeups import Wakeups
from state.store.write_checks import LEASE_TTLS_AHEAD, term_step

HEAD = "0001"
"""The version that this program writes; a test holds it to the newest file of ``state.migrations``."""

_VERSION = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")


def schema_version(connection: sa.Connection) -> str | None:
    """The version of the schema in the database; None when there is no store in it yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_VERSION).scalar()


def refuse_upgraded(connection: sa.Connection) -> None:
    """Raise ``SchemaNewer`` or ``SchemaOlder`` where the store is not the one any more that was opened."""
    refuse_other_schema(connection.execute(_VERSION).scalar())


def refuse_other_schema(found: str | None) -> None:
    """Raise ``SchemaOlder`` or ``SchemaNewer`` unless the schema is the one that this program knows."""
    if found == HEAD:
        return
    if found is None:
        raise SchemaOlder(
            "the database holds no store of Tideover yet",
            hint="check that the key store names the right database, then create it: tideover store upgrade",
        )
    if found > HEAD:
        raise SchemaNewer(
            f"the store has schema {found}, and this version of Tideover knows up to {HEAD}",
            hint="install the newer version of Tideover that upgraded the store, or name another store",
        )
    raise SchemaOlder(
        f"the store has schema {found}, and this version of Tideover needs {HEAD}",
        hint="stop the controllers, back the store up, then: tideover store upgrade",
    )


class LeaseTable(Part):
    """Who leads, and since which term."""

    def now(self) -> datetime:
        if self._engines.dialect == "sqlite":
            return self._engines.clock()
        with translated(), self._engines.read.connect() as connection:
            return connection.execute(sa.select(self._clock())).scalar_one()

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        with self._writing() as connection:
            values: dict[str, object] = {"lease": name, "by": holder, "step": term_step()}
            values |= self._ahead(now=timedelta(0), ends=ttl, far=LEASE_TTLS_AHEAD * ttl)
            row = connection.execute(_taking(self._engines.dialect), values).first()
            refuse_upgraded(connection)  # last: an upgrade holds the lease until it commits
        return Lease(**row._asdict()) if row else None

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        with self._writing() as connection:
            changed = sa.case((leases.c.holder == holder, 0), else_=term_step())
            statement = (
                sa.update(leases)
                .where(leases.c.name == name, leases.c.holder == dead_holder)
                .values(holder=holder, term=leases.c.term + changed, expires_at=_ahead(self._engines.dialect, "ends"))
            )
            row = connection.execute(statement.returning(*leases.c), self._ahead(ends=ttl)).first()
            refuse_upgraded(connection)
        return Lease(**row._asdict()) if row else None

    def resign(self, lease: Lease) -> None:
        with self._writing() as connection:
            ours = sa.and_(leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.term == lease.term)
            connection.execute(sa.update(leases).where(ours).values(expires_at=RESIGNED))

    def leader(self, name: str) -> Lease | None:
        return self._row(Lease, _LED, {"lease": name})

    def _ahead(self, **lengths: timedelta) -> dict[str, object]:
        """Values for what ``_ahead`` binds. Call this inside the transaction, after any wait: SQLite's clock is read
        here.
        """
        if self._engines.dialect != "sqlite":
            return dict(lengths)
        now = self._engines.clock()
        return {name: now + length for name, length in lengths.items()}


def _ahead(dialect: str, name: str) -> sa.ColumnElement[datetime]:
    """A length ahead of the store's clock, bound under this name; on SQLite what is bound is the time itself."""
    if dialect == "sqlite":
        return sa.bindparam(name, type_=Instant())
    return sa.type_coerce(sa.func.clock_timestamp() + sa.bindparam(name, type_=sa.Interval()), Instant())


@cache
def _taking(dialect: str) -> ReturningInsert[Any]:
    """The upsert of a lease that is free, over, or its holder's."""
    now, ends, far = (_ahead(dialect, name) for name in ("now", "ends", "far"))
    step = sa.bindparam("step", type_=sa.BigInteger())
    insert = insert_into(dialect, leases).values(
        name=sa.bindparam("lease"), holder=sa.bindparam("by"), term=step, expires_at=ends
    )
    changed = sa.case((leases.c.holder == insert.excluded.holder, 0), else_=step)
    free = sa.or_(leases.c.expires_at <= now, leases.c.expires_at > far)
    return insert.on_conflict_do_update(
        index_elements=["name"],
        set_={
            "holder": insert.excluded.holder,
            "term": leases.c.term + changed,
            "expires_at": insert.excluded.expires_at,
        },
        where=sa.or_(free, leases.c.holder == insert.excluded.holder),
    ).returning(*leases.c)


_LED = sa.select(leases).where(leases.c.name == sa.bindparam("lease"))


class SqlStore(
    LeaseTable,
    RequestTable,
    ScheduleTable,
    AssignmentTable,
    OperationTables,
    IntentTable,
    ReportTables,
    PositionTables,
    TimelineTable,
    AutomationTables,
    ProbeTables,
    PinTable,
    MaintenanceTables,
    ReadinessTables,
    FormerTable,
    PlaceTable,
    QueryForgetting,
    HistoryTable,
    EvidenceTable,
    NoticeTable,
    ControllerStore,
):
    """A store in SQLite or PostgreSQL; ``state.store.sql.migrate.open_store`` opens one."""

    @property
    def schema(self) -> str:
        return HEAD

    def wakeups(self) -> Wakeups:
        return Wakeups(partial(listen, self._engines))

    def close(self) -> None:
        self._engines.dispose()
