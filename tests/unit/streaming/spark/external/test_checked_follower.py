"""The first batches of an application behind a move are compared with the log that it should read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.model.entities import Assignment
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import OtherCluster
from streaming.spark.external.checked_follower import CheckedFollower, LogCheck
from tests.checkpoints import CheckpointFolder
from tests.memory_log import MemoryCluster


class Place:
    """A checkpoint with batch 0, and the log of west: its only partition has 100 to 200."""

    def __init__(self, folder: Path) -> None:
        self.folder = CheckpointFolder(folder)
        self.folder.commit(0, {"orders": {"0": 150}})
        self.west = MemoryCluster("west")
        self.west.create("orders")
        self.west.topics["orders"].partitions[0].begin = 100
        self.west.topics["orders"].partitions[0].end = 200
        self.stops = 0
        now = datetime(2026, 1, 1, tzinfo=UTC)
        row = Assignment.first("q", cluster="west", runner="tender", checkpoint=str(folder), now=now)
        check = LogCheck(row, lambda _: self.west, self.stop)
        self.follower = CheckedFollower(LocalFiles(), row, {"orders": ("orders",)}, check)

    def stop(self) -> None:
        self.stops += 1

    def ids(self) -> list[tuple[int, bool]]:
        return [(each.id, each.committed) for each in self.follower.poll()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.ids()
    return made


@pytest.mark.parametrize("end", [99, 201])
def test_an_end_that_the_log_cannot_have_stops_the_application(place: Place, end: int) -> None:
    place.folder.commit(1, {"orders": {"0": end}})
    with pytest.raises(
        OtherCluster, match=f"does not read west: in batch 1 orders-0 ends at {end}, and the log there has 100 to 200"
    ):
        place.ids()
    assert place.stops == 1


def test_a_batch_counts_only_once_the_cluster_has_answered(place: Place) -> None:
    place.folder.commit(1, {"orders": {"0": 160}})
    place.west.unreachable = True
    assert place.ids() == []
    place.west.unreachable = False
    assert place.ids() == [(1, False), (1, True)]


def test_later_batches_are_not_compared(place: Place) -> None:
    for batch in range(1, 4):
        place.folder.commit(batch, {"orders": {"0": 160 + batch}})
    assert len(place.ids()) == 6
    place.folder.commit(4, {"orders": {"0": 999}})
    assert (place.ids(), place.stops) == ([(4, False), (4, True)], 0)
