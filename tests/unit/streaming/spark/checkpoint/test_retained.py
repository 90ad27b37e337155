"""To which batch a checkpoint can go back, and what a checkpoint that went back holds."""

import json
from pathlib import Path

import pytest

from state.messages import PrepareRequest, Retained, RetainedBatch
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import plant
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.checkpoint.retained import read_retained, retained_since, with_retained
from streaming.spark.errors import FileVanished, HalfWritten, MovedOn
from tests.checkpoints import CheckpointFolder, commit_text, offset_text, orders

FILES = LocalFiles()
SOURCES = {"orders": ["orders"]}
NEWEST = 9


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFolder:
    """Batches 0 to 9, planned a second apart from second 0 on; one store has a snapshot of version 5."""
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta", "changelog"))
    for batch in range(NEWEST + 1):
        folder.commit(batch, next_watermark_ms=batch * 100)
        text = offset_text(orders(batch), planned_ms=batch * 1000, watermark_ms=max(0, batch - 1) * 100)
        folder.write(f"offsets/{batch}", text)
    for partition in (0, 1):
        folder.write(f"state/0/{partition}/5.snapshot", "all of 5")
    return folder


def purge(folder: CheckpointFolder, before: int) -> None:
    """What Spark does with batches that it no longer retains."""
    for batch in range(before):
        (folder.path / f"offsets/{batch}").unlink(missing_ok=True)
        (folder.path / f"commits/{batch}").unlink(missing_ok=True)


def found(folder: CheckpointFolder, to_time_ms: int) -> Retained:
    return read_retained(FILES, str(folder.path), SOURCES, to_time_ms)


@pytest.mark.parametrize(("to_time_ms", "batch"), [(4_000, 4), (4_999, 4), (3_999, 3), (0, 0), (99_000, NEWEST)])
def test_the_newest_batch_planned_at_or_before_the_time_is_taken(
    checkpoint: CheckpointFolder, to_time_ms: int, batch: int
) -> None:
    chosen = found(checkpoint, to_time_ms).batch
    assert chosen == RetainedBatch(
        batch=batch, planned_at_ms=batch * 1000, offsets={"orders": orders(batch)},
        watermark_ms=max(0, batch - 1) * 100,
    )  # fmt: skip


def test_before_every_retained_batch_there_is_none(checkpoint: CheckpointFolder) -> None:
    purge(checkpoint, 3)
    assert found(checkpoint, 2_999) == Retained(oldest_ms=3_000)
    assert retained_since(FILES, str(checkpoint.path)) == 3_000


def test_a_batch_counts_only_with_both_of_its_entries(checkpoint: CheckpointFolder) -> None:
    (checkpoint.path / "commits" / "4").unlink()
    chosen = found(checkpoint, 4_500).batch
    assert chosen is not None
    assert chosen.batch == 3


def test_a_batch_whose_state_is_purged_is_no_way_back(checkpoint: CheckpointFolder) -> None:
    for version in range(1, 4):
        (checkpoint.path / f"state/1/1/{version}.changelog").unlink()
    assert found(checkpoint, 99_000) == Retained()  # that store keeps no full version to begin with
    for partition in (0, 1):
        checkpoint.write(f"state/1/{partition}/3.snapshot", "all of 3")
    (checkpoint.path / "state/0/0/1.delta").unlink()
    assert found(checkpoint, 3_999) == Retained(oldest_ms=4_000)
    chosen = found(checkpoint, 4_000).batch
    assert chosen is not None
    assert chosen.batch == 4


def test_only_a_query_with_state_has_a_limit_of_how_far_back(tmp_path: Path, checkpoint: CheckpointFolder) -> None:
    stateless = CheckpointFolder(tmp_path / "other")
    stateless.commit(0)
    for folder, reported in ((stateless, False), (checkpoint, True)):
        report = read_checkpoint(FILES, str(folder.path), SOURCES)
        assert (with_retained(FILES, report, SOURCES, 4_000).retained is not None) is reported
        assert with_retained(FILES, report, SOURCES, None).retained is None


def test_an_empty_checkpoint_reaches_nowhere(tmp_path: Path) -> None:
    assert retained_since(FILES, str(tmp_path)) is None
    assert read_retained(FILES, str(tmp_path), SOURCES, 1) == Retained()


def request(folder: CheckpointFolder, back_to: int, **changes: object) -> PrepareRequest:
    values: dict[str, object] = {
        "checkpoint": str(folder.path), "target": str(folder.path.parent / "epoch-2-back"), "operation": "back",
        "epoch": 2, "resume": "carry", "batch": NEWEST, "offsets": {"orders": orders(NEWEST)},
        "target_offsets": {"orders": orders(back_to)}, "back_to": back_to,
    }  # fmt: skip
    return PrepareRequest.of(values | changes)


def names(folder: CheckpointFolder, below: str) -> set[str]:
    root = folder.path.parent / "epoch-2-back" / below
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_checkpoint_that_went_back_holds_nothing_of_later_batches(
    checkpoint: CheckpointFolder,
) -> None:
    plant(FILES, str(checkpoint.path), operation="back", epoch=2, knows=lambda _: True)
    report = prepare(FILES, request(checkpoint, 6), SOURCES)
    assert report.data_batch == 7
    assert names(checkpoint, "offsets") == {"5", "6"}
    assert names(checkpoint, "commits") == {"6"}
    assert names(checkpoint, "state/0/0") >= {"5.snapshot", "6.delta", "7.delta"}
    assert not names(checkpoint, "state/0/0") & {"4.delta", "8.delta", "9.delta", "10.delta"}
    assert names(checkpoint, "state/1/1") == {f"{version}.changelog" for version in range(1, 8)}
    made = checkpoint.path.parent / "epoch-2-back"
    assert (made / "commits/6").read_text() == commit_text(600)
    _, metadata, line = (made / "offsets/6").read_text().splitlines()
    assert json.loads(line) == orders(6)
    assert json.loads(metadata)["batchWatermarkMs"] == 500
    assert read_checkpoint(FILES, str(made), SOURCES).batch == 6
    assert len(checkpoint.files()) == 10 + 10 + 2 + 1 + 2 + 2 + 2 * 2 * 10 + 2, "the old one is whole, with its fence"


def test_a_batch_that_is_committed_during_the_read_is_noticed(checkpoint: CheckpointFolder) -> None:
    with pytest.raises(MovedOn):
        prepare(FILES, request(checkpoint, 6, batch=NEWEST - 1), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-back").exists()


def test_a_batch_that_is_gone_leaves_nothing_behind(checkpoint: CheckpointFolder) -> None:
    purge(checkpoint, 7)
    with pytest.raises(FileVanished):
        prepare(FILES, request(checkpoint, 6), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-back").exists()


def test_state_that_is_not_whole_is_not_carried(checkpoint: CheckpointFolder) -> None:
    (checkpoint.path / "state/1/0/7.changelog").unlink()
    with pytest.raises(HalfWritten, match="lacks files of version 7"):
        prepare(FILES, request(checkpoint, 6), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-back").exists()
