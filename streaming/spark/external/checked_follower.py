"""Compares the first batches of an application behind a move with the log of the cluster that it should read.

Nothing in the application says which cluster it reads. Offsets that this log cannot have are of another one. Offsets
that it can have prove nothing, so this finds a wrong start, and never confirms a right one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from state.messages import Offsets
from state.model.entities import Assignment, TopicPartition
from streaming.cluster_log import ClusterLog, Spec
from streaming.errors import KafkaError
from streaming.spark.checkpoint.batch_news import PublishedEntry
from streaming.spark.checkpoint.files import CheckpointFiles
from streaming.spark.checkpoint.follower import Batch, Follower
from streaming.spark.checkpoint.log_text import Declared
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.errors import OtherCluster

_BATCHES = 3
"""How many are compared."""
_SECONDS = 3.0


def outside_of_log(log: ClusterLog, offsets: Offsets) -> str | None:
    """Which end of a batch is not in a log, in one sentence; None where each is. Raises ``KafkaError``."""
    ends = {
        TopicPartition(topic, int(partition)): end
        for topics in offsets.values()
        for topic, partitions in topics.items()
        for partition, end in partitions.items()
    }
    begins = log.offsets(dict.fromkeys(ends, Spec.EARLIEST), timeout=_SECONDS)
    newest = log.offsets(dict.fromkeys(ends, Spec.LATEST), timeout=_SECONDS)
    for place, end in ends.items():
        low, high = begins[place].offset, newest[place].offset
        if low is None or high is None:
            raise KafkaError(f"the ends of {place.topic}-{place.partition} are not known")
        if not low <= end <= high:
            return f"{place.topic}-{place.partition} ends at {end}, and the log there has {low} to {high}"
    return None


@dataclass(frozen=True, slots=True)
class LogCheck:
    """Of one run behind a move."""

    row: Assignment
    log_of: Callable[[str], ClusterLog]
    stop: Callable[[], None]
    """Orders the application to stop."""

    def passes(self, batch: Batch) -> bool:
        """Whether a batch can be of the row's cluster; False while it does not answer. Raises ``OtherCluster``."""
        try:
            why = outside_of_log(self.log_of(self.row.cluster), batch.offsets)
        except KafkaError:
            return False
        if why is not None:
            self.stop()
            raise OtherCluster(
                f"the application of {self.row.query} does not read {self.row.cluster}: in batch {batch.id} {why}"
            )
        return True


class CheckedFollower(Follower):
    """Passes on a batch once it was compared, for as long as batches are."""

    def __init__(
        self, files: CheckpointFiles, row: Assignment, declared: Declared, check: LogCheck | None = None
    ) -> None:
        super().__init__(files, row.checkpoint, declared, Placed.of(row))
        self._check = check
        self._compared: set[int] = set()
        self._kept: list[Batch] = []

    def poll(self, published: Sequence[PublishedEntry] | None = None) -> list[Batch]:
        """Raises ``OtherCluster`` as well."""
        self._kept += super().poll(published)
        passed: list[Batch] = []
        while self._kept and self._passes(self._kept[0]):
            passed.append(self._kept.pop(0))
        return passed

    def _passes(self, batch: Batch) -> bool:
        is_first = batch.id >= self.data_batch and len(self._compared) < _BATCHES and batch.id not in self._compared
        if self._check is None or not is_first or not batch.offsets:
            return True
        if not self._check.passes(batch):
            return False
        self._compared.add(batch.id)
        return True
