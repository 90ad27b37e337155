"""Opening a store: its schema is made or brought up to date first, by one process at a time.

A program meets a newer schema when it was rolled back, or when two versions share a store. It refuses then: what it
does not know it could not keep. Alembic is imported only when there is something to do, because it costs a quarter of
a second, and a command line pays that at every call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from state.errors import SchemaNewer, SchemaOlder
from state.ports import Store
from state.sql.engine import PATIENCE, Engines, Tell, make_engines, translated
from state.sql.schema import VERSION_TABLE
from state.sql.store import SqlStore

HEAD = "0001"
"""The version that this program writes; a test holds it to the newest file of ``state.migrations``."""

_VERSION = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")
_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext('tideover.schema'))")


def open_store(url: str | Tell, patience: timedelta = PATIENCE) -> Store:
    """Open the store behind a SQLAlchemy URL. A call waits at most about ``patience`` for a lock or a connection.

    A server that stands still takes up to three times that, and a second, to be found out. A URL whose password may
    change is given by what tells it, and is asked for anew by each new connection.

    Raises ``StoreUnavailable``, ``SchemaNewer``, ``SchemaOlder``, or ``StoreError`` for a URL that means nothing.
    """
    engines = make_engines(url, patience)
    try:
        with translated():
            _bring_up_to_date(engines)
    except BaseException:
        engines.dispose()
        raise
    return SqlStore(engines)


def _bring_up_to_date(engines: Engines) -> None:
    with engines.read.connect() as connection:
        if schema_version(connection) == HEAD:
            return
    with building(engines) as connection:
        version = schema_version(connection)
        if version != HEAD:
            _upgrade(connection, version)


@contextmanager
def building(engines: Engines) -> Iterator[sa.Connection]:
    """A transaction that keeps every other builder out until its end; on SQLite each writing one does."""
    with engines.write.begin() as connection:
        if engines.dialect == "postgresql":
            connection.execute(_ONE_AT_A_TIME)
        yield connection


def schema_version(connection: sa.Connection) -> str | None:
    """The version that stands in the database; None when there is no store in it yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_VERSION).scalar()


def _upgrade(connection: sa.Connection, version: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "state:migrations")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise SchemaNewer(
            f"the store has schema {version}, and this version of Tideover knows up to {HEAD}",
            hint="run the newer version of Tideover that wrote the store, or name another store",
        )
    try:
        command.upgrade(config, "head")
    except sa.exc.ProgrammingError as error:
        raise SchemaOlder(
            f"the store has schema {version or 'none'}, and this user may not bring it to {HEAD}: {error.orig}",
            hint="open the store once as a user who may create tables",
        ) from error
