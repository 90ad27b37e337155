"""Every checkpoint below a folder is found, and read or refused by name."""

from pathlib import Path

from streaming.spark.inventory.checkpoints import find_checkpoints, read_found
from tests.checkpoints import CheckpointFolder


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
