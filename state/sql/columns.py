"""Column types that turn what a database keeps into the nouns of ``state.model``, the same on both databases."""

import struct
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from state.model import Fingerprint

Member = TypeVar("Member", bound=StrEnum)

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text that sorts by code point on both databases, as Python does."""

Big = sa.BigInteger()
Json = sa.JSON(none_as_null=True)

DIGEST_BYTES = 16
_HEADER = struct.Struct("<Bq")
_NARROW, _WIDE = 1, 2


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


class Ring(TypeDecorator[tuple[Fingerprint, ...]]):
    """A ring of fingerprints, kept as ``pack_ring`` writes it."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[Fingerprint, ...] | None, dialect: Dialect) -> bytes:
        return pack_ring(value or ())

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[Fingerprint, ...]:
        return unpack_ring(value)


@cache
def _layout(version: int, length: int) -> struct.Struct:
    return struct.Struct(f"<{length}{'I' if version == _NARROW else 'Q'}{length}q")


def pack_ring(ring: tuple[Fingerprint, ...]) -> bytes:
    """28 bytes a fingerprint: all distances from the first offset, all timestamps, all digests.

    A distance takes 8 bytes instead of 4 when one is 2**32 or more. Column by column, because that is three times as
    fast as record by record. Raises ``ValueError`` when an offset lies before the first, or a digest is not 16 bytes.
    """
    if not ring:
        return b""
    offsets, timestamps, digests = zip(*ring, strict=True)
    base = offsets[0]
    distances = [offset - base for offset in offsets]
    if min(distances) < 0 or set(map(len, digests)) != {DIGEST_BYTES}:
        raise ValueError("a ring holds ascending offsets and digests of 16 bytes")
    version = _NARROW if max(distances) < 2**32 else _WIDE
    numbers = _layout(version, len(ring)).pack(*distances, *timestamps)
    return b"".join((_HEADER.pack(version, base), numbers, *digests))


def unpack_ring(packed: bytes) -> tuple[Fingerprint, ...]:
    """The ring as it was packed."""
    if not packed:
        return ()
    version, base = _HEADER.unpack_from(packed)
    length = (len(packed) - _HEADER.size) // (_layout(version, 1).size + DIGEST_BYTES)
    layout = _layout(version, length)
    numbers = layout.unpack_from(packed, _HEADER.size)
    offsets = [base + distance for distance in numbers[:length]]
    starts = range(_HEADER.size + layout.size, len(packed), DIGEST_BYTES)
    digests = [packed[start : start + DIGEST_BYTES] for start in starts]
    return tuple(map(Fingerprint, offsets, numbers[length:], digests))
