"""A sample of replication as one value, packed, so that 3,500 partitions are one write of some 50 kB.

Plain JSON, as every store keeps it: what goes in as a mapping or a tuple comes back as a dict or a list.
"""

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import starmap

from state.errors import Damaged
from state.model.maintenance import PartitionCopy, ReplicationSample


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
    shape = [_SHAPE, replication.source, replication.target, at, rows, latencies]
    return zlib.compress(json.dumps(shape, separators=(",", ":")).encode())


def unpack(packed: bytes) -> ReplicationSample:
    """What was packed. Raises ``Damaged``."""
    try:
        shape, source, target, at, rows, latencies = json.loads(zlib.decompress(packed))
        if shape != _SHAPE:
            raise Damaged(f"a sample of replication has the shape {shape}; this program reads {_SHAPE}")
        return ReplicationSample(
            source=source,
            target=target,
            sampled_at=_EPOCH + timedelta(microseconds=at),
            copies=tuple(starmap(PartitionCopy, rows)),
            latencies={topic: tuple(samples) for topic, samples in latencies.items()},
        )
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise Damaged(f"a sample of replication cannot be read: {error}") from error
