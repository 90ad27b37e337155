"""What the steps of the schema are made of: columns, checks and indexes."""

from typing import Any

import sqlalchemy as sa
from alembic import op

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TEXT, BIG, NUMBER = sa.Text(), sa.BigInteger(), sa.Integer()
REAL: sa.Double[float] = sa.Double()
FLAG, BYTES, JSON = sa.Boolean(), sa.LargeBinary(), sa.JSON()
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


def need(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def may(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def one_of(table: str, column: str, *words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_known")


def create_index(name: str, table: str, columns: list[str], where: str = "", *, unique: bool = False) -> None:
    condition = sa.text(where) if where else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
