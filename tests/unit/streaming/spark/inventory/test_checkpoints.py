"""Every checkpoint below a folder is found, and read or refused by name."""

from pathlib import Path

from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import RELEASED
from streaming.spark.handback import hand_back, plan_handback
from streaming.spark.inventory.checkpoints import find_checkpoints, read_found
from tests.checkpoints import CheckpointFolder
from tests.unit.streaming.spark.test_handback import NAME, moved


def test_checkpoints_are_found_at_any_depth_with_topics_and_state(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path / "b" / "deep" / "totals", stores=["delta"]).commit(0)
    CheckpointFolder(tmp_path / "a").commit(3)
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    first, second = find_checkpoints(str(tmp_path))
    assert (first.path, first.batch, first.operators) == (str(tmp_path / "a"), 3, ())
    assert (second.path, second.operators) == (str(tmp_path / "b" / "deep" / "totals"), ("stateStoreSave",))
    assert first.sources == (("orders",),)


def test_a_source_that_is_not_kafkas_is_counted(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path).commit(0, {"logOffset": 3})
    found = read_found(str(tmp_path))
    assert (found.sources, found.other_sources) == ((), 1)


def test_a_damaged_checkpoint_is_found_and_its_trouble_named(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path / "c").commit(0)
    (tmp_path / "c" / "offsets" / "0").write_text("v9\n{}")
    (found,) = find_checkpoints(str(tmp_path))
    assert found.trouble is not None
    assert "v9" in found.trouble
    (tmp_path / "c" / "metadata").unlink()
    (found,) = find_checkpoints(str(tmp_path))
    assert found.trouble is not None


def test_a_release_is_found_with_its_cluster_and_one_broken_off_is_trouble(tmp_path: Path) -> None:
    row = moved(tmp_path)
    assert read_found(str(tmp_path)).moved_to == "west"
    hand_back(LocalFiles(), plan_handback(LocalFiles(), row))
    found = read_found(str(tmp_path))
    assert (found.moved_to, found.released_on, found.trouble) == (None, "west", None)
    (tmp_path / RELEASED / NAME / "done").unlink()
    assert "was broken off" in (read_found(str(tmp_path)).trouble or "")
