"""Opening a store, and making or upgrading its schema, by one process at a time.

Opening changes no schema that is there: a newer `tideover list` must not upgrade production under older processes. Only
``upgrade_store`` does, in one transaction, which takes the lease away from the leading controller. A program that meets
another schema than its own refuses: what it does not know it could not keep.

A new SQLite file is made on opening, because a configuration that names one wants one there. An empty PostgreSQL
database is not: it may be the wrong one, or one whose backup is being restored right now. A runner that found a new
store there would begin every query on its first cluster, wherever it had moved to since.

Alembic is imported only when there is something to do, because it costs a quarter of a second, and a command line
pays that at every call.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from state.errors import Conflict, SchemaOlder
from state.model.entities import RESIGNED
from state.private_files import make_private_file
from state.store.controller_store import ControllerStore
from state.store.sql.engine import PATIENCE, Engines, GiveUrl, make_engines, translated
from state.store.sql.schema import leases, operations
from state.store.sql.store import HEAD, SqlStore, refuse_other_schema, schema_version
from state.store.write_checks import term_step

if TYPE_CHECKING:
    from alembic.config import Config

UPGRADE_PATIENCE = timedelta(minutes=1)
"""How long an upgrade may wait for those who write."""

UPGRADER = "tideover store upgrade"
"""Who has the lease after an upgrade, given up at once."""

_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext('tideover.schema'))")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """The schema of a store, and what this program would do to it."""

    found: str | None
    """None: the database holds no store."""
    known: str
    steps: tuple[str, ...] = ()
    """One sentence for each version up to ``known``, in their order."""

    @property
    def is_current(self) -> bool:
        return self.found == self.known


def open_store(url: str | GiveUrl, patience: timedelta = PATIENCE) -> ControllerStore:
    """Open the store behind a SQLAlchemy URL. A call waits at most about ``patience`` for a lock or a connection.

    A frozen server is noticed after up to three times that, and a second. A URL whose password may change is given as a
    function, which each new connection calls. An SQLite file that is new or empty becomes a store.

    Raises ``StoreUnavailable``, ``SchemaNewer``, ``SchemaOlder``, or ``StoreError`` for a URL that means nothing.
    """
    engines = make_engines(url, patience)
    try:
        with translated():
            with engines.read.connect() as connection:
                found = schema_version(connection)
                is_empty = found is None and not sa.inspect(connection).get_table_names()
            if is_empty and engines.dialect == "sqlite":
                found = build(engines).known
            refuse_other_schema(found)
    except BaseException:
        engines.dispose()
        raise
    return SqlStore(engines)


def schema_of(url: str | GiveUrl, patience: timedelta = PATIENCE) -> Schema:
    """What is there and what an upgrade would do; changes nothing. Raises ``StoreError``."""
    engines = make_engines(url, patience)
    try:
        with translated(), engines.read.connect() as connection:
            found = schema_version(connection)
            return Schema(found=found, known=HEAD, steps=_steps(found))
    finally:
        engines.dispose()


def upgrade_store(url: str | GiveUrl, *, rehearse: bool = False, patience: timedelta = UPGRADE_PATIENCE) -> Schema:
    """Bring the schema to ``HEAD``, or make it, in one transaction; returns what was found before.

    The leading controller loses the lease with it. ``rehearse`` does everything and rolls back. Raises
    ``StoreUnavailable``, ``SchemaNewer``, ``SchemaOlder`` (this user may not), and ``Conflict`` while an operation is
    open: the next version may not know how to continue it.
    """
    engines = make_engines(url, patience)
    try:
        with translated():
            return build(engines, rehearse=rehearse)
    finally:
        engines.dispose()


def copy_store(url: str | GiveUrl, found: str) -> Path | None:
    """Copy an SQLite store of version ``found`` to a file beside it, and return that; None on PostgreSQL.

    A copy of the same name, of an upgrade that did not come about, is replaced.
    """
    engines = make_engines(url)
    try:
        if engines.dialect != "sqlite":
            return None
        source = Path(str(engines.write.url.database))
    finally:
        engines.dispose()
    target = source.with_name(f"{source.name}.schema-{found}")
    draft = target.with_name(f"{target.name}.part")
    draft.unlink(missing_ok=True)
    make_private_file(draft)
    with closing(sqlite3.connect(source)) as store, closing(sqlite3.connect(draft)) as copy:
        store.backup(copy)
    draft.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return target


@contextmanager
def building(engines: Engines) -> Iterator[sa.Connection]:
    """A transaction that keeps every other builder out until its end; on SQLite each writing one does."""
    with engines.write.begin() as connection:
        if engines.dialect == "postgresql":
            connection.execute(_ONE_AT_A_TIME)
        yield connection


def build(engines: Engines, *, rehearse: bool = False) -> Schema:
    """Bring the schema to ``HEAD``; returns what was found before."""
    with building(engines) as connection:
        found = schema_version(connection)
        schema = Schema(found=found, known=HEAD, steps=_steps(found))
        if found == HEAD:
            return schema
        if found is not None:
            _refuse_open_operations(connection)
        _upgrade(connection, found)
        taken = sa.update(leases).values(holder=UPGRADER, term=leases.c.term + term_step(), expires_at=RESIGNED)
        connection.execute(taken)
        if rehearse:
            connection.rollback()
        return schema


def _refuse_open_operations(connection: sa.Connection) -> None:
    opened = sa.select(operations.c.id, operations.c.query).where(operations.c.outcome.is_(None))
    names = ", ".join(f"{row.id} of {row.query}" for row in connection.execute(opened.order_by(operations.c.id)))
    if names:
        raise Conflict(
            f"an upgrade needs all operations closed, and these are open: {names}",
            hint="let the version that began them finish them (tideover list), or cancel them",
        )


def _steps(found: str | None) -> tuple[str, ...]:
    """What leads from ``found`` to ``HEAD``, in order. Raises ``SchemaNewer``."""
    if found == HEAD:
        return ()
    if found is not None and found > HEAD:
        refuse_other_schema(found)
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    todo = [script for script in scripts if found is None or script.revision > found]
    return tuple(f"{script.revision}: {script.doc.partition(chr(10))[0]}" for script in reversed(todo))


def _config(connection: sa.Connection | None = None) -> "Config":
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "state.store:migrations")
    return config


def _upgrade(connection: sa.Connection, found: str | None) -> None:
    from alembic import command

    try:
        command.upgrade(_config(connection), "head")
    except sa.exc.ProgrammingError as error:
        raise SchemaOlder(
            f"the store has schema {found or 'none'}, and this user may not upgrade it to {HEAD}: {error.orig}",
            hint="run tideover store upgrade as a user who may create tables",
        ) from error
