"""Reading on the standby what a query has read there since its move, in order to find among it what it read before."""

from collections.abc import Mapping, Sequence

from orchestrator.decide.reread import Key, Reached
from orchestrator.reported import fact_of
from state.model import Operation, TopicPartition
from state.ports import Store
from streaming.log import Log, LogRecord
from streaming.ranges import read_ranges

MOST_READ = 200_000
"""Records of a partition that one look reads at most."""
READ_SECONDS = 5.0


def reached_by(operation: Operation, store: Store) -> Reached | None:
    """How far the query has read since this move; None where it has moved on, or has said nothing yet."""
    fact = fact_of(store, operation.query)
    return None if fact is None or fact.epoch != operation.epoch else fact.offsets


def read_again(log: Log, ranges: Mapping[Key, tuple[int, int]]) -> dict[Key, tuple[int, Sequence[LogRecord]]]:
    """The records of each range with its end; what could not be read whole is left out. Raises ``KafkaError``."""
    asked = {TopicPartition(key.topic, key.partition): between for key, between in ranges.items()}
    found = read_ranges(log, asked, limit=MOST_READ, timeout=READ_SECONDS)
    return {
        key: (last, records)
        for key, (_, last) in ranges.items()
        if (records := found[TopicPartition(key.topic, key.partition)]) is not None
    }
