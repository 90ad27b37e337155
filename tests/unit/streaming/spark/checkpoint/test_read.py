"""A checkpoint is reported as it is, and what is none is named for what it is."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from state.messages import SinkMemory, SinkState
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import plant
from streaming.spark.checkpoint.log_text import Fence, fence_sentence
from streaming.spark.checkpoint.read import read_checkpoint, sink_state
from streaming.spark.errors import CheckpointError, FileVanished, HalfWritten
from tests.checkpoints import CheckpointFolder, orders

FILES = LocalFiles()
SOURCES = {"orders": ["orders"]}


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFolder:
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta", "delta"))
    for batch in range(3):
        folder.commit(batch)
    return folder


def test_a_committed_checkpoint_gives_its_batch_offsets_and_state(checkpoint: CheckpointFolder) -> None:
    report = read_checkpoint(FILES, str(checkpoint.path), SOURCES)
    assert (report.batch, report.offsets, report.planned) == (2, {"orders": orders(2)}, None)
    assert [(one.id, one.name, one.partitions) for one in report.operators] == [
        (0, "stateStoreSave", 2),
        (1, "dedupeWithinWatermark", 2),
    ]
    assert (report.stateful, report.deduplicates_ahead, report.state_provider) == (True, True, "hdfs")
    assert (report.log_version, report.sink_memory) == (1, SinkMemory.UNKNOWN)


def test_a_planned_batch_is_read_with_its_end(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    planned = read_checkpoint(FILES, str(checkpoint.path), SOURCES).planned
    assert planned is not None
    assert (planned.batch, planned.offsets, planned.sink) == (3, {"orders": orders(3)}, SinkState.UNKNOWN)


def test_a_planted_entry_is_not_a_planned_batch(checkpoint: CheckpointFolder) -> None:
    plant(FILES, str(checkpoint.path), operation="move", epoch=2, knows=lambda _: True)
    assert read_checkpoint(FILES, str(checkpoint.path), SOURCES).planned is None


def test_the_file_sink_shows_whether_it_has_the_planned_batch(checkpoint: CheckpointFolder, tmp_path: Path) -> None:
    checkpoint.plan(3)
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for names, known in (([], SinkState.HAS_NOT), (["1", "2"], SinkState.HAS_NOT), (["2.compact", "3"], SinkState.HAS)):
        for name in names:
            (log / name).touch()
        report = read_checkpoint(FILES, str(checkpoint.path), SOURCES, file_sink=str(tmp_path / "out"))
        assert report.sink_memory is SinkMemory.BATCH
        assert report.planned is not None
        assert report.planned.sink is known
    (log / "9.compact").touch()
    assert sink_state(FILES, str(tmp_path / "out"), 9) is SinkState.HAS


def test_a_query_that_never_committed_has_no_batch(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint")
    assert read_checkpoint(FILES, str(folder.path), SOURCES).batch is None
    folder.plan(0)
    report = read_checkpoint(FILES, str(folder.path), SOURCES)
    assert report.batch is None
    assert report.planned is not None
    assert report.planned.batch == 0


def _without(name: str) -> Callable[[CheckpointFolder], None]:
    return lambda folder: (folder.path / name).unlink()


def _with(name: str, text: str) -> Callable[[CheckpointFolder], None]:
    return lambda folder: folder.write(name, text)


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (_without("metadata"), "unreadable"),
        (_without("offsets/2"), "unreadable"),
        (_without("state/1/_metadata/metadata"), "unreadable"),
        (_with("metadata", ""), "unreadable"),
        (_with("offsets/2", "v1"), "unreadable"),
        (_with("offsets/3", ""), "unreadable"),
        (_with("commits/2", "v1\n"), "unreadable"),
        (_with("offsets/2", 'v1\n{}\n{"other":{"0":1}}'), "unreadable"),
    ],
)
def test_a_half_written_or_foreign_entry_is_refused(
    checkpoint: CheckpointFolder, break_it: Callable[[CheckpointFolder], None], kind: str
) -> None:
    break_it(checkpoint)
    with pytest.raises(CheckpointError) as raised:
        read_checkpoint(FILES, str(checkpoint.path), SOURCES)
    assert raised.value.kind == kind


def test_a_missing_an_empty_and_a_foreign_folder_differ(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "part-0.parquet").touch()
    kinds = {}
    for name in ("missing", "empty", "foreign"):
        with pytest.raises(CheckpointError) as raised:
            read_checkpoint(FILES, str(tmp_path / name), SOURCES)
        kinds[name] = raised.value.kind
    assert kinds == {"missing": "empty", "empty": "empty", "foreign": "not-a-checkpoint"}


def test_a_file_purged_under_the_reader_is_looked_for_again(checkpoint: CheckpointFolder) -> None:
    class Purging(LocalFiles):
        left = 1

        def read_bytes(self, path: str) -> bytes:
            if path.endswith("offsets/1") and self.left:
                self.left -= 1
                raise FileVanished(path)
            return super().read_bytes(path)

    assert read_checkpoint(Purging(), str(checkpoint.path), SOURCES).batch == 2


@pytest.mark.parametrize(("planned", "read"), [(2, False), (3, True)])
def test_sources_that_are_not_kafkas_are_counted_and_seen_to_be_read(tmp_path: Path, planned: int, read: bool) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint")
    for batch in range(3):
        folder.commit(batch, {"logOffset": batch}, orders(batch), None)
    folder.plan(3, {"logOffset": planned}, orders(3), None)
    report = read_checkpoint(FILES, str(folder.path), SOURCES)
    assert report.offsets == {"orders": orders(2)}
    assert report.planned is not None
    assert (report.other_sources, report.planned.others_read) == (2, read)


def test_a_log_behind_a_gap_is_refused_and_planted_entries_are_no_gap(
    checkpoint: CheckpointFolder,
) -> None:
    for batch in (3, 4):
        checkpoint.write(f"offsets/{batch}", fence_sentence(Fence(2, "move")).decode())
    assert read_checkpoint(FILES, str(checkpoint.path), SOURCES).batch == 2
    checkpoint.plan(5)
    with pytest.raises(HalfWritten, match="offsets/5 exists, but the newest committed batch is 2"):
        read_checkpoint(FILES, str(checkpoint.path), SOURCES)


def test_a_query_that_commits_while_it_is_read_has_no_gap(checkpoint: CheckpointFolder) -> None:
    class GoingOn(LocalFiles):
        """Two batches are planned and one is committed between the listings of the two logs."""

        done = False

        def list_names(self, directory: str) -> Sequence[str]:
            names = super().list_names(directory)
            if directory.endswith("commits") and not self.done:
                self.done = True
                checkpoint.commit(3)
                checkpoint.plan(4)
            return names

    report = read_checkpoint(GoingOn(), str(checkpoint.path), SOURCES)
    assert (report.batch, report.planned and report.planned.batch) == (3, 4)
