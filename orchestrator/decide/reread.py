"""What a plan keeps by partition of the standby, to be looked at as the query reads on there. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MOST_REMEMBERED = 4_096
"""Fingerprints that one list of a plan keeps with the operation, shared among its partitions."""

Plan = Mapping[str, Any]
Reached = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Source, topic, partition: how far the query has read."""


class Key(NamedTuple):
    """A partition of the standby as one source reads it."""

    source: str
    topic: str
    partition: int


def keyed(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Key, Mapping[str, Any]]]:
    """Kept rows, each with its partition."""
    return [(Key(row["source"], row["topic"], row["partition"]), row) for row in rows]


def read_until(reached: Reached, key: Key, row: Mapping[str, Any]) -> int:
    """How far the query has read a partition; where it says nothing, as far as somebody has looked."""
    until: int = reached.get(key.source, {}).get(key.topic, {}).get(str(key.partition), row["offset"])
    return until
