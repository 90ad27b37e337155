"""Column types that turn what a database keeps into ``state.model.entities``, the same on both databases.

Plain JSON, as every store keeps it: what goes in as a mapping or a tuple comes back as a dict or a list. A sample of
replication is one value, packed, so that 3,500 partitions are one write of some 50 kB.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from itertools import starmap
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from state.errors import Damaged
from state.model.column_uses import Column, ColumnUse, ColumnUses
from state.model.entities import BucketRules, Fingerprint, RulesFound, SeenCheckpoint
from state.model.fingerprints import Fingerprints
from state.model.maintenance import PartitionCopy, ReplicationSample, TopicDisorder
from state.model.measured import BatchRows, Measured, RowCounts
from state.model.pins import Placement
from state.model.plan import Plan


def dumps(value: object) -> str:
    """Compact JSON text; mappings of any type are objects. Raises ``TypeError`` for what JSON does not know."""
    return json.dumps(value, default=_known, separators=(",", ":"))


def _known(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} is not JSON: {value!r}")


_SHAPE = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pack(replication: ReplicationSample) -> bytes:
    """As few bytes."""
    rows = [list(copy) for copy in replication.copies]
    latencies = {topic: list(samples) for topic, samples in replication.latencies.items()}
    at = (replication.sampled_at - _EPOCH) // timedelta(microseconds=1)
    shape = [_SHAPE, replication.source, replication.target, at, rows, latencies, dict(replication.stamps)]
    return zlib.compress(json.dumps(shape, separators=(",", ":")).encode())


def unpack(packed: bytes) -> ReplicationSample:
    """What was packed. Raises ``Damaged``."""
    try:
        shape, source, target, at, rows, latencies, stamps = json.loads(zlib.decompress(packed))
        if shape != _SHAPE:
            raise Damaged(f"a sample of replication has the shape {shape}; this program reads {_SHAPE}")
        return ReplicationSample(
            source=source,
            target=target,
            sampled_at=_EPOCH + timedelta(microseconds=at),
            copies=tuple(starmap(PartitionCopy, rows)),
            latencies={topic: tuple(samples) for topic, samples in latencies.items()},
            stamps=dict(stamps),
        )
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise Damaged(f"a sample of replication cannot be read: {error}") from error


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


class Uses(TypeDecorator[ColumnUses]):
    """Where a plan uses columns of a cluster, kept as a JSON array of arrays; null where it was not read."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: ColumnUses | None, dialect: Dialect) -> Any:
        return None if value is None else [list(each) for each in value]

    def process_result_value(self, value: Any, dialect: Dialect) -> ColumnUses | None:
        return None if value is None else tuple(ColumnUse(*each)._replace(column=Column(each[1])) for each in value)


class Rows(TypeDecorator[RowCounts]):
    """What went through a run, kept as a JSON array; null while it has read nothing."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: RowCounts | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(json.dumps(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> RowCounts | None:
        if value is None:
            return None
        batches, read, written, dropped, first, recent = value
        newest = tuple(BatchRows(*each) for each in recent)
        return RowCounts(batches, read, written, dropped, None if first is None else BatchRows(*first), newest)


class Seen(TypeDecorator[SeenCheckpoint]):
    """What was seen of a checkpoint, kept as a JSON array; null where nothing was."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: SeenCheckpoint | None, dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> SeenCheckpoint | None:
        return None if value is None else SeenCheckpoint(*value)


class Bucket(TypeDecorator[BucketRules]):
    """What a bucket's rules do with a checkpoint, kept as a JSON array; null where nothing was read."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: BucketRules | None, dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> BucketRules | None:
        return None if value is None else BucketRules(RulesFound(value[0]), value[1])


class Planned(TypeDecorator[Plan]):
    """The plan of an operation, kept as its JSON object; null while it has none."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: Plan | None, dialect: Dialect) -> Any:
        return None if value is None else value.as_json()

    def process_result_value(self, value: Any, dialect: Dialect) -> Plan | None:
        return None if value is None else Plan.of(value)


class Measures(TypeDecorator[Measured]):
    """What was measured of an operation, kept as its JSON object."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Measured | None, dialect: Dialect) -> Any:
        return None if value is None else value.as_json()

    def process_result_value(self, value: Any, dialect: Dialect) -> Measured:
        return Measured.of(value)


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
