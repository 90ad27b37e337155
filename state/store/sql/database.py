"""What every part of the SQL store shares: transactions, the term's guard, and rows as nouns."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from state.store.sql.columns import Instant
from state.store.sql.engine import Engines, translated
from state.store.sql.schema import leases
from state.store.write_checks import CONTROLLER, refuse_stale


class Noun(Protocol):
    """A frozen dataclass of ``state.model.entities``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Of = TypeVar("Of", bound=Noun)
Insert = postgresql.Insert | sqlite.Insert

_TERM = sa.select(leases.c.term).where(leases.c.name == CONTROLLER).with_for_update(read=True)


class Part:
    """A part of the store; all parts share one pair of engines."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """One transaction that holds the write lock from its start (SQLite) or takes row locks (PostgreSQL)."""
        with translated(), self._engines.write.begin() as connection:
            yield connection

    @contextmanager
    def _leading(self, term: int) -> Iterator[sa.Connection]:
        """One transaction of the controller that leads.

        The lease row stays locked for sharing until the end: checking alone would let a takeover slip in between the
        check and the write on PostgreSQL. Raises ``StaleTerm``.
        """
        with self._writing() as connection:
            refuse_stale(term, connection.execute(_TERM).scalar())
            yield connection

    def _rows(
        self, noun: Callable[..., Of], statement: sa.Select[Any], values: Mapping[str, object] | None = None
    ) -> list[Of]:
        """What a statement selects with these values, as nouns whose fields are its columns."""
        with translated(), self._engines.read.connect() as connection:
            rows = connection.execute(statement, values)
            names = tuple(rows.keys())
            return [noun(**dict(zip(names, row, strict=True))) for row in rows]

    def _row(self, noun: type[Of], statement: sa.Select[Any], values: Mapping[str, object] | None = None) -> Of | None:
        """The first row, or nothing."""
        found = self._rows(noun, statement, values)
        return found[0] if found else None

    def _insert(self, table: sa.Table) -> Insert:
        """An insert that knows ``ON CONFLICT``."""
        return insert_into(self._engines.dialect, table)

    def _at(self, connection: sa.Connection) -> datetime:
        """The store's clock within a transaction; on SQLite, where all processes share a host, it is the host's."""
        if self._engines.dialect == "sqlite":
            return self._engines.clock()
        return connection.execute(sa.select(self._clock())).scalar_one()

    def _clock(self) -> sa.ColumnElement[datetime]:
        """The store's clock as SQL. On SQLite it is read here, so call this inside the transaction, after any wait."""
        if self._engines.dialect == "sqlite":
            return sa.literal(self._engines.clock(), Instant())
        return sa.func.clock_timestamp(type_=Instant())


def insert_into(dialect: str, table: sa.Table) -> Insert:
    """An insert that knows ``ON CONFLICT``, of ``sqlite`` or ``postgresql``."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def values_of(noun: Noun) -> dict[str, Any]:
    """A noun's fields by name, not copied."""
    return {field.name: getattr(noun, field.name) for field in fields(noun)}


def upsert(
    insert: Insert,
    table: sa.Table,
    values: Mapping[str, Any],
    where: sa.ColumnElement[bool] | None = None,
) -> Insert:
    """Insert one row, or change the one with its key where the condition holds."""
    return changing(insert.values(**values), table, values.keys(), where)


def changing(
    insert: Insert,
    table: sa.Table,
    names: Collection[str],
    where: sa.ColumnElement[bool] | None = None,
    *,
    unless_null: Collection[str] = (),
) -> Insert:
    """Of the stored row with the same key, change these columns where the condition holds; never the key.

    Those of ``unless_null`` keep their value where the new one is null.
    """
    keys = [column.name for column in table.primary_key.columns]
    changes: dict[str, Any] = {
        column.name: insert.excluded[column.name] for column in table.c if column.name in {*names} - {*keys}
    }
    changes |= {name: sa.func.coalesce(insert.excluded[name], table.c[name]) for name in unless_null}
    return insert.on_conflict_do_update(index_elements=keys, set_=changes, where=where)


def newest_last(rows: Sequence[Of]) -> list[Of]:
    """Turn round what was selected newest first."""
    return list(reversed(rows))
