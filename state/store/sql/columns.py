"""Column types that turn what a database keeps into ``state.model.entities``, the same on both databases."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from state.model.entities import Fingerprint
from state.model.fingerprints import Fingerprints
from state.model.maintenance import TopicDisorder
from state.model.pins import Placement

Member = TypeVar("Member", bound=StrEnum)

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text that sorts by code point on both databases, as Python does."""

Big = sa.BigInteger()
Json = sa.JSON(none_as_null=True)


class Instant(TypeDecorator[datetime]):
    """An aware time in UTC, to the microsecond; on SQLite text of fixed width, so that it sorts and compares."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return None if value is None else bind_instant(value, dialect.name)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return datetime.fromisoformat(value) if dialect.name == "sqlite" else value.astimezone(UTC)


def bind_instant(value: datetime, dialect: str) -> str | datetime:
    """The time as the driver of a dialect takes it. Raises ``ValueError`` for a naive time."""
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value.astimezone(UTC).isoformat(timespec="microseconds") if dialect == "sqlite" else value


class Word(TypeDecorator[Member]):
    """A member of an enumeration, kept as its value."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, words: type[Member]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: Member | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> Member | None:
        return None if value is None else self.words(value)


class Words(TypeDecorator[tuple[str, ...]]):
    """A tuple of words, kept as a JSON array."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> Any:
        return list(value or ())

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...]:
        return tuple(value)


class Objects(TypeDecorator[tuple[Mapping[str, object], ...]]):
    """A tuple of JSON objects, kept as a JSON array."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[Mapping[str, object], ...] | None, dialect: Dialect) -> Any:
        return list(value or ())

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[Mapping[str, object], ...]:
        return tuple(value)


class Instants(TypeDecorator[tuple[datetime, ...]]):
    """A tuple of aware times in UTC, kept as a JSON array."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[datetime, ...] | None, dialect: Dialect) -> Any:
        return [bind_instant(each, "sqlite") for each in value or ()]

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[datetime, ...]:
        return tuple(map(datetime.fromisoformat, value))


class Disorders(TypeDecorator[tuple[TopicDisorder, ...]]):
    """What was measured of some topics, kept as a JSON array of arrays."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[TopicDisorder, ...] | None, dialect: Dialect) -> Any:
        return [list(each) for each in value or ()]

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[TopicDisorder, ...]:
        return tuple(TopicDisorder(*each) for each in value)


class Placements(TypeDecorator[tuple[Placement, ...]]):
    """Where queries were placed, kept as a JSON array of arrays."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[Placement, ...] | None, dialect: Dialect) -> Any:
        return [list(each) for each in value or ()]

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[Placement, ...]:
        return tuple(Placement(*each) for each in value)


class Packed(TypeDecorator[Fingerprints]):
    """A ring of fingerprints, kept as it lies in memory."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Sequence[Fingerprint] | None, dialect: Dialect) -> bytes:
        return Fingerprints.of(value or ()).to_bytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> Fingerprints:
        return Fingerprints.from_bytes(bytes(value))
