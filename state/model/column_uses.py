"""Which columns of a Kafka source a query uses whose values belong to one cluster, and where.

A record has the same key and value on every cluster. Its offset, topic, partition and timestamp may differ, and so may
the headers, where a replicator adds some. A query whose logic uses such a column means something else after a move.
"""

from enum import StrEnum
from typing import NamedTuple


class Column(StrEnum):
    """A column of Spark's Kafka source that another cluster may fill in another way."""

    OFFSET = "offset"
    PARTITION = "partition"
    TOPIC = "topic"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TYPE = "timestampType"
    HEADERS = "headers"


TIMES = frozenset({Column.TIMESTAMP, Column.TIMESTAMP_TYPE})


class ColumnUse(NamedTuple):
    """One column of one source at one place of a query's plan."""

    source: str
    """As the configuration names it; of a query that is not hosted, the topics that it subscribes to."""
    column: Column
    operator: str
    """In the words of Spark's API: ``filter``, ``dropDuplicates``, ``groupBy``, ``join``, ``foreachBatch``."""
    is_logic: bool
    """True: the plan shows that the result depends on the column. False: the column reaches a function or a sink, and
    the plan does not show what that does with it."""
    delay_ms: int | None = None
    """Of ``withWatermark``: how late a record may be."""


ColumnUses = tuple[ColumnUse, ...]
