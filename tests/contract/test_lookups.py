"""Known cases of Kafka's own tests for its look-ups, tried on the cluster in memory.

``LogSegmentTest`` (time index), ``LogOffsetTest``, ``ListOffsetsIntegrationTest``, ``GetOffsetShellTest``,
``PlaintextAdminIntegrationTest`` (deletion), ``TransactionsTest`` and ``ListOffsetsRequestTest`` (another leader): the
table is ``tests.lookups``; ``tests/real/test_lookups.py`` puts it to real brokers.
"""

import pytest

from tests.lookups import CASES, Case, Commit, Delete, Elect, Write, follow
from tests.memory_log import MemoryCluster


class MemoryWriter:
    """Writes to a topic of the cluster in memory; its clock advances by one from batch to batch."""

    def __init__(self, cluster: MemoryCluster, case: Case) -> None:
        self._cluster = cluster
        self._case = case
        self._open: dict[str, int] = {}
        self._clock_ms = 0
        cluster.create(case.name, case.partitions, append_time=case.append_time)

    def take(self, step: Write | Commit | Delete | Elect) -> None:
        for partition in range(self._case.partitions):
            match step:
                case Write(times, together, by):
                    self._write(partition, times, by, together=together)
                case Commit(by):
                    self._cluster.skip(self._case.name, partition)
                    self._open.pop(by)
                case Delete(before):
                    self._cluster.retain(self._case.name, partition, before)
                case Elect():
                    self._cluster.elect(self._case.name, partition)
            self._cluster.partition(self._case.name, partition).stable = min(self._open.values(), default=None)

    def _write(self, partition: int, times: tuple[int, ...], by: str, *, together: bool) -> None:
        for number, time_ms in enumerate(times):
            self._clock_ms += not (together and number)
            stamp = self._clock_ms if self._case.append_time else time_ms
            offset = self._cluster.append(self._case.name, partition, stamp, b"")
            if by:
                self._open.setdefault(by, offset)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cluster_in_memory_answers_as_kafkas_own_tests_expect(case: Case) -> None:
    cluster = MemoryCluster()
    follow(case, cluster, MemoryWriter(cluster, case))
