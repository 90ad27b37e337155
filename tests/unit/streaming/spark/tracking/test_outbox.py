"""What becomes of positions and samples while the store is away, also for the process after this one."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.model.entities import Assignment, Desired, EndSample, Position
from state.store.sql.schema import assignments
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.outbox import Outbox
from streaming.spark.tracking.spool import Spool
from streaming.spark.tracking.track import RunProgress
from tests.fragile_store import FragileStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = Subject("revenue", 1, "east", "/checkpoints/revenue")
SAMPLE = EndSample(
    cluster="east",
    topic="orders",
    partition=0,
    begin=0,
    end=120,
    newest_timestamp_ms=None,
    leader_epoch=None,
    topic_id=None,
    sampled_at=NOW,
)
ROW = Assignment.first("revenue", cluster="east", runner="a", checkpoint=SUBJECT.checkpoint, now=NOW)


def world(folder: Path) -> tuple[FragileStore, Outbox]:
    store = FragileStore(lambda: NOW)
    store.adopt(ROW)
    return store, outbox(store, folder)


def outbox(store: FragileStore, folder: Path) -> Outbox:
    return Outbox(store, Spool(folder / "east.spool"), "east")


def positions(number: int) -> list[Position]:
    """Of one committed batch."""
    progress = RunProgress(SUBJECT)
    offsets = {"orders": {"orders": {"0": number * 10}}}
    progress.see(Batch(id=number, offsets=offsets, committed=True, planned_after=0.0))
    return progress.positions(NOW, {}, {})


def test_positions_of_an_outage_reach_the_store_through_a_new_process(tmp_path: Path) -> None:
    store, first = world(tmp_path)
    store.away = True
    first.send(positions(4))
    first.send_ends([SAMPLE])
    second = outbox(store, tmp_path)
    second.load()
    second.flush()
    assert list(store.positions("revenue")) == []
    store.away = False
    second.flush()
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    assert [each.end for each in store.ends("east").values()] == [120]
    assert not (tmp_path / "east.spool").exists()


def test_waiting_positions_are_stored_before_new_ones(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    store.away = True
    known.send(positions(4))
    store.away = False
    known.send(positions(5))
    assert list(store.positions("revenue")) == []
    known.flush()
    assert [each.batch for each in store.positions("revenue")] == [4, 5]


MOVED = replace(ROW, epoch=2, placed_epoch=2, cluster="west", checkpoint="/checkpoints/revenue/epoch-2-op")
HELD = replace(ROW, epoch=2, desired=Desired.HELD)
ABORTED = replace(ROW, epoch=3)


@pytest.mark.parametrize(
    ("row", "kept"), [(MOVED, []), (replace(MOVED, cluster="east"), []), (HELD, [4]), (ABORTED, [4])]
)
@pytest.mark.parametrize("away", [False, True])
def test_positions_of_a_place_that_is_not_in_use_any_more_are_dropped(
    tmp_path: Path, row: Assignment, kept: list[int], away: bool
) -> None:
    store, known = world(tmp_path)
    store.away = away
    if away:
        known.send(positions(4))
    store.force(assignments, row)
    store.away = False
    if not away:
        known.send(positions(4))
    known.flush()
    assert [each.batch for each in store.positions("revenue")] == kept
    assert not (tmp_path / "east.spool").exists()


def test_a_full_disk_does_not_stop_the_tracking(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store, known = world(tmp_path / "file")
    store.away = True
    known.send(positions(4))
    assert not known.is_empty


def test_a_spool_that_cannot_be_removed_is_removed_by_a_later_flush(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    store.away = True
    known.send(positions(4))
    store.away = False
    spool = tmp_path / "east.spool"
    spool.unlink()
    spool.mkdir()  # no file can be removed there
    known.flush()
    assert known.is_empty
    assert [each.batch for each in store.positions("revenue")] == [4]
    spool.rmdir()
    spool.write_text("what is left")
    known.flush()
    assert not spool.exists()
