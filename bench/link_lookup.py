"""Our own look-up by time, in the shape in which the others are measured too."""

from collections.abc import Mapping, Sequence

from bench.errors import BenchError
from state.model.entities import TopicPartition
from state.settings.keys import Cluster
from streaming.kafka.link import Link

_SECONDS = 60.0


class OurLookup:
    """A ``Link`` and nothing else: connects at its first question, keeps connections and leaders until closed."""

    def __init__(self, bootstrap: str) -> None:
        self._link = Link(Cluster(bootstrap=tuple(bootstrap.split(","))), name="bench")

    def request(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Offsets per partition. Raises BenchError when a partition has an error or no record."""
        looked = self._link.offsets(dict.fromkeys(partitions, time_ms), timeout=_SECONDS)
        answers = {partition: each.offset for partition, each in looked.items() if each.offset is not None}
        if len(answers) < len(partitions):
            first = next(partition for partition in partitions if partition not in answers)
            raise BenchError(f"{len(partitions) - len(answers)} partitions have no answer, first {first}")
        return answers

    def close(self) -> None:
        self._link.close()
