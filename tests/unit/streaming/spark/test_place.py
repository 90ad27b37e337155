"""Where a query is, as its files show it to a runner whose store may be older than they are."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.messages import ReleaseRequest
from state.model.entities import Assignment
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.log_fence import kept_by, plant, planted_by, planted_epochs, release, require_unmoved
from streaming.spark.checkpoint.log_text import Fence, with_mark
from streaming.spark.checkpoint.mapping import MAPPINGS, Placed, all_moves
from streaming.spark.place import Folder, MoveFile, Place, copied_row, find_place, place_of
from tests.checkpoints import CheckpointFolder, orders
from tests.contract import samples
from tests.unit.streaming.spark.checkpoint.test_mapping import (
    EAST,
    FILES,
    SHIFT,
    SOURCES,
    checkpoint,
    held,
    moved,
    request,
    returned,
)

__all__ = ["checkpoint"]  # the fixture, which pytest finds by its name


def row(folder: CheckpointFolder, **changes: Any) -> Assignment:
    """As the first one: on east, where the checkpoint began."""
    first = samples.assignment(checkpoint=str(folder.path), cluster="east", mapping=None, operation=None)
    return replace(first, **changes)


def place(folder: CheckpointFolder, **changes: Any) -> Place:
    return find_place(FILES, str(folder.path), row(folder, **changes))


def committed_on_west(folder: CheckpointFolder, batch: int) -> None:
    """A batch that the companion's source read on west, where the query came by epoch 2."""
    folder.commit(batch)
    path = folder.path / "offsets" / str(batch)
    lines = path.read_text().splitlines()
    ends = {topic: {number: int(end) for number, end in each.items()} for topic, each in orders(batch, SHIFT).items()}
    path.write_text("\n".join([*lines[:-1], with_mark(ends, ("west", 2))]))


def test_a_checkpoint_that_no_move_touched_is_where_the_row_says(checkpoint: CheckpointFolder) -> None:
    found = place(checkpoint)
    assert (found.checkpoint, found.cluster, found.mapping, found.held_by) == (str(checkpoint.path), "east", None, None)
    assert place(checkpoint, checkpoint=f"{checkpoint.path}/epoch-9-lost").cluster is None, "no file names it"


def test_a_row_finds_its_folder_under_another_scheme_of_its_store() -> None:
    move = MoveFile(name="2-move.1", epoch=2, operation="move", left=Placed("east", 0), to="west", leads_on=False)
    folders = [Folder(path="s3a://bucket/cp", moves=(move,))]
    stored = samples.assignment(checkpoint="s3://bucket/cp/", cluster="west", mapping="2-move.1", operation=None)
    assert (place_of(folders, stored).cluster, place_of(folders, stored).mapping) == ("west", "2-move.1")
    lost = place_of([replace(folders[0], moves=())], stored)
    assert lost.text == "mapping 2-move.1, by which the query came to west, is missing beside s3a://bucket/cp"


def test_a_committed_switch_is_shown_by_its_mapping_before_it_has_read(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    found = place(checkpoint)
    assert (found.cluster, found.mapping, found.moved_by, found.epoch) == ("west", "2-move.1", "move", 2)
    assert found.held_by is None
    assert found.text == f"mapping 2-move.1 beside {checkpoint.path} leads to west"


def test_a_switch_whose_entries_are_still_there_has_moved_nothing(checkpoint: CheckpointFolder) -> None:
    held(checkpoint)
    prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    found = place(checkpoint)
    assert (found.cluster, found.mapping, found.held_by) == ("east", None, Fence(2, "move"))
    by_row = place(checkpoint, cluster="west", mapping="2-move.1", epoch=2, placed_epoch=2)
    assert (by_row.cluster, by_row.mapping) == ("west", "2-move.1"), "but for a row that says that it was committed"


def test_a_switch_there_and_back_is_shown_by_the_newest_mapping(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    committed_on_west(checkpoint, 3)
    assert place(checkpoint).mapping == "2-move.1"
    returned(checkpoint, 3)
    found = place(checkpoint)
    assert (found.cluster, found.mapping, found.epoch) == ("east", "4-home.1", 4)


def test_a_mapping_left_by_an_abort_leads_nowhere_after_new_batches(
    checkpoint: CheckpointFolder,
) -> None:
    moved(checkpoint)
    checkpoint.commit(3)  # on east still: its end carries no mark
    found = place(checkpoint)
    assert (found.cluster, found.mapping) == ("east", None)
    assert found.epoch == 2, "an epoch that was taken is not taken again"


def test_a_late_fence_of_a_committed_switch_is_shown_beside_its_place(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    committed_on_west(checkpoint, 3)
    plant(FILES, str(checkpoint.path), operation="move", epoch=2, knows=lambda _: True)
    found = place(checkpoint)
    assert (found.cluster, found.mapping, found.held_by) == ("west", "2-move.1", Fence(2, "move"))


def test_a_mapping_that_cannot_be_read_is_said_and_nothing_else(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    (checkpoint.path / MAPPINGS / "2-move.1").write_text("{}")
    found = place(checkpoint)
    assert found.checkpoint is None
    assert "2-move.1 is not a mapping" in found.text


# -- carried ---------------------------------------------------------------------------------------------------------
def carried(folder: CheckpointFolder) -> CheckpointFolder:
    """Operation ``move`` made a checkpoint for west, with its mark, below the first one."""
    held(folder)
    target = folder.path / "epoch-2-move"
    prepare(FILES, request(folder, target=str(target), resume="carry"), SOURCES, placed=EAST)
    return CheckpointFolder(target, stores=("delta",))


def test_a_checkpoint_that_was_made_and_not_run_has_moved_nothing(checkpoint: CheckpointFolder) -> None:
    target = carried(checkpoint)
    found = place(checkpoint)
    assert (found.checkpoint, found.cluster, found.held_by) == (str(checkpoint.path), "east", Fence(2, "move"))
    by_row = place(checkpoint, checkpoint=str(target.path), cluster="west", epoch=2, placed_epoch=2)
    assert (by_row.checkpoint, by_row.cluster, by_row.held_by) == (str(target.path), "west", None)


def test_the_newest_checkpoint_that_was_run_is_in_use(
    checkpoint: CheckpointFolder,
) -> None:
    target = carried(checkpoint)
    target.commit(3)
    found = place(checkpoint)
    assert (found.checkpoint, found.cluster, found.moved_by) == (str(target.path), "west", "move")
    assert (found.mapping, found.held_by, found.epoch) == (None, None, 2)


# -- taken back ------------------------------------------------------------------------------------------------------
def undo(folder: CheckpointFolder, operation: str, keeps: str | None) -> None:
    release(
        FILES,
        ReleaseRequest(
            checkpoint=str(folder.path), planted=(), prepared=None, operation=operation, mapped=True, reconciled=True,
            keeps=keeps,
        ),
    )  # fmt: skip


def test_mappings_to_the_place_stay_when_their_operation_is_undone(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    committed_on_west(checkpoint, 3)
    returned(checkpoint, 3)
    plant(FILES, str(checkpoint.path), operation="move", epoch=2, knows=lambda _: True)
    undo(checkpoint, "move", keeps="4-home.1")
    assert planted_by(FILES, str(checkpoint.path), "move") == ()
    assert [each.name for each in all_moves(FILES, str(checkpoint.path))] == ["2-move.1", "4-home.1"]
    assert [each.operation for each in planted_epochs(FILES, str(checkpoint.path))] == ["move", "home"]


def test_a_mapping_of_a_move_that_was_not_committed_goes_when_it_is_undone(checkpoint: CheckpointFolder) -> None:
    held(checkpoint)
    prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    undo(checkpoint, "move", keeps=None)
    assert (place(checkpoint).cluster, place(checkpoint).held_by) == ("east", None)
    assert all_moves(FILES, str(checkpoint.path)) == []


@pytest.mark.parametrize(("mapping", "starts"), [(None, False), ("2-move.1", False), ("4-home.1", True)])
def test_a_row_starts_only_by_the_mapping_that_brought_its_query_there(
    checkpoint: CheckpointFolder, mapping: str | None, starts: bool
) -> None:
    """A store from before failover and failback, or from between them: cluster and folder are the same."""
    moved(checkpoint)
    committed_on_west(checkpoint, 3)
    returned(checkpoint, 3)
    placed = Placed.of(row(checkpoint, mapping=mapping, epoch=9, placed_epoch=9))
    where = str(checkpoint.path)
    assert (kept_by(FILES, where, placed.epoch) is None) == starts
    if starts:
        require_unmoved(FILES, where, placed=placed.epoch, operation=None, knows=lambda _: False)


def test_a_folder_elsewhere_is_found_beside_the_configured_one(checkpoint: CheckpointFolder, tmp_path: Path) -> None:
    moved(checkpoint)
    found = find_place(FILES, str(tmp_path / "configured"), row(checkpoint))
    assert (found.checkpoint, found.cluster) == (str(checkpoint.path), "west")


def test_the_configured_folder_counts_where_that_of_the_row_is_lost(
    checkpoint: CheckpointFolder, tmp_path: Path
) -> None:
    moved(checkpoint)
    copy, west = tmp_path / "copy", row(checkpoint, cluster="west", mapping="2-move.1", epoch=2)
    shutil.copytree(checkpoint.path, copy)
    there = find_place(FILES, str(copy), west)
    assert (there.checkpoint, there.mapping) == (str(checkpoint.path), "2-move.1"), "the copy may be older"
    shutil.rmtree(checkpoint.path)
    found = find_place(FILES, str(copy), west)
    assert (found.checkpoint, found.cluster, found.mapping) == (str(copy), "west", "2-move.1")
    assert found.text.startswith(f"{checkpoint.path} is empty or does not exist, and mapping 2-move.1 beside {copy}")
    FILES.delete(f"{copy}/{MAPPINGS}", recursive=True)
    assert find_place(FILES, str(copy), west).checkpoint is None, "a runner writes it there first"


def test_a_copy_of_the_folder_of_a_move_lies_below_the_configured_one(
    checkpoint: CheckpointFolder, tmp_path: Path
) -> None:
    shutil.copytree(checkpoint.path, tmp_path / "copy" / "epoch-2-op")
    carried = row(checkpoint, checkpoint=str(tmp_path / "lost" / "epoch-2-op"))
    copied = copied_row(FILES, str(tmp_path / "copy"), carried)
    assert copied is not None
    assert copied.row.checkpoint == str(tmp_path / "copy" / "epoch-2-op")
    assert copied_row(FILES, str(tmp_path / "other"), carried) is None


def test_a_mapping_that_was_deleted_is_no_move_that_the_store_lost(checkpoint: CheckpointFolder) -> None:
    """Else reconcile would take the first cluster for the place, or a person could name it without the mapping."""
    moved(checkpoint)
    west = {"cluster": "west", "mapping": "2-move.1", "epoch": 2}
    assert place(checkpoint, **west).mapping == "2-move.1"
    FILES.delete(f"{checkpoint.path}/{MAPPINGS}", recursive=True)
    found = place(checkpoint, **west)
    assert (found.checkpoint, found.cluster) == (None, None)
    said = f"mapping 2-move.1, by which the query came to west, is missing beside {checkpoint.path}"
    assert found.text == said
    assert place(checkpoint).cluster == "east", "an older store, and nothing was read on west yet"
    committed_on_west(checkpoint, 3)
    found = place(checkpoint)
    assert (found.checkpoint, found.cluster) == (None, None)
    assert found.text.startswith("the mapping of epoch 2, under which its newest batch was read, is missing")
