"""Cleaning a checkpoint that was left: what goes, what stays, and what no death on the way can spoil."""

from pathlib import Path

import pytest

from state.messages import PrepareRequest, ReleaseRequest
from state.model.maintenance import CleanedFiles
from streaming.spark.checkpoint import log_fence as planting
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import Mark, claim, has_been_run, holder, release
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.read import CLEANED, read_checkpoint
from streaming.spark.errors import AlreadyRun, CleanedAway, HeldByStranger, LinkedElsewhere, NotFenced
from streaming.spark.runner.cleaning import clean
from tests.checkpoints import CheckpointFolder

FILES = LocalFiles()
STAYS = [CLEANED, "commits/3", "metadata", "offsets/3", "offsets/4", "offsets/5"]
FENCE = Fence(2, "move")
CHANGES = 10
"""A mark, two trees, and what is old in two logs."""


@pytest.fixture
def left(tmp_path: Path) -> CheckpointFolder:
    """The checkpoint of a query with state, fenced by the move that left it; later ones lie in its folder."""
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=["delta"])
    for batch in range(4):
        folder.commit(batch)
    folder.write("sources/0/0", "begin")
    folder.write("offsets/.4.draft.tmp", "half an entry")
    plant(folder)
    return folder


def plant(folder: CheckpointFolder, operation: str = "move", *, knows: bool = True) -> None:
    planting.plant(FILES, str(folder.path), operation=operation, epoch=2, knows=lambda _: knows)


def test_state_and_old_entries_go_and_the_last_batch_and_the_fence_stay(left: CheckpointFolder) -> None:
    before = left.files()
    found = clean(FILES, str(left.path))
    after = left.files()
    assert sorted(after) == STAYS
    assert after.items() - before.items() == {(CLEANED, after[CLEANED])}
    gone = before.keys() - after.keys()
    assert found == CleanedFiles(len(gone), sum(len(before[name].encode()) for name in gone))
    assert holder(FILES, str(left.path)) == FENCE


def test_cleaning_does_not_touch_what_lies_beside_the_checkpoint(left: CheckpointFolder) -> None:
    for name in ("epoch-2-move/metadata", "epoch-2-move/state/0/0/1.delta", "notes.txt", "_tideover"):
        left.write(name, "somebody else's")
    clean(FILES, str(left.path))
    assert left.text("epoch-2-move/state/0/0/1.delta") == left.text("notes.txt") == "somebody else's"
    assert len(left.files()) == len(STAYS) + 4


def test_cleaned_once_more_it_answers_the_same(left: CheckpointFolder) -> None:
    first, after = clean(FILES, str(left.path)), left.files()
    assert clean(FILES, str(left.path)) == first
    assert left.files() == after
    assert clean(FILES, str(left.path / "none")) == CleanedFiles(0, 0)


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Mortal(LocalFiles):
    """A process that is killed in the middle of its n-th change of a file."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def create_atomically(self, path: str, content: bytes) -> bool:
        self._change()
        return super().create_atomically(path, content)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        if recursive and self.left == 1:  # half of the tree is gone by then
            for name in list(self.walk(path))[::2]:
                super().delete(f"{path}/{name}")
        self._change()
        return super().delete(path, recursive=recursive)

    def _change(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


@pytest.mark.parametrize("changes", range(1, CHANGES + 1))
def test_a_cleaning_killed_at_any_change_stays_fenced_and_continues(left: CheckpointFolder, changes: int) -> None:
    whole = left.files()
    with pytest.raises(Killed):
        clean(Mortal(changes), str(left.path))
    assert holder(FILES, str(left.path)) == FENCE
    if left.files() != whole:
        with pytest.raises(CleanedAway):
            read_checkpoint(FILES, str(left.path), {"orders": ["orders"]})
    found = clean(FILES, str(left.path))
    assert sorted(left.files()) == STAYS
    assert found.files == len(whole) - len(STAYS) + 1, "as there were before the first of them"


def test_there_are_no_more_changes(left: CheckpointFolder) -> None:
    files = Mortal(CHANGES + 1)
    clean(files, str(left.path))
    assert files.left == 1


# -- refused ---------------------------------------------------------------------------------------------------------
def test_a_checkpoint_that_no_fence_holds_is_not_cleaned(tmp_path: Path) -> None:
    running = CheckpointFolder(tmp_path / "checkpoint", stores=["delta"])
    running.commit(0)
    before = running.files()
    for planned in (False, True):
        if planned:
            running.plan(1)
            before = running.files()
        with pytest.raises(NotFenced, match="a query may be using it"):
            clean(FILES, str(running.path))
        assert running.files() == before


@pytest.mark.parametrize("name", ["", "state", "sources", "offsets", "commits"])
def test_a_link_is_not_followed(left: CheckpointFolder, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    linked = left.path / name if name else left.path
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere)
    before = left.files()
    with pytest.raises(LinkedElsewhere, match="is a link"):
        clean(FILES, f"{left.path}/")
    assert left.files() == before
    assert any(elsewhere.rglob("*"))


# -- a store that was put back ---------------------------------------------------------------------------------------
def test_a_store_that_lost_the_move_still_finds_who_holds_it(left: CheckpointFolder) -> None:
    clean(FILES, str(left.path))
    with pytest.raises(HeldByStranger, match="operation move of epoch 2"):
        plant(left, "another", knows=False)
    assert sorted(left.files()) == STAYS


def test_an_operation_that_came_back_with_an_old_copy_takes_no_fence_away(left: CheckpointFolder) -> None:
    """Neither its own, when it is given up, nor an older one, which it would take over first."""
    clean(FILES, str(left.path))
    after = left.files()
    with pytest.raises(CleanedAway):
        plant(left, "another")
    for operation in ("move", "another"):
        request = ReleaseRequest(checkpoint=str(left.path), planted=(4, 5), prepared=None, operation=operation)
        with pytest.raises(AlreadyRun, match="the query continued from another checkpoint"):
            release(FILES, request)
    assert left.files() == after


def test_nothing_is_carried_from_it_and_nothing_read(left: CheckpointFolder) -> None:
    clean(FILES, str(left.path))
    request = PrepareRequest(
        checkpoint=str(left.path), target=str(left.path / "epoch-3-another"), operation="another", epoch=3,
        resume="carry", batch=3, offsets={}, target_offsets={},
    )  # fmt: skip
    for use in (
        lambda: prepare(FILES, request, {"orders": ["orders"]}),
        lambda: read_checkpoint(FILES, str(left.path), {"orders": ["orders"]}),
    ):
        with pytest.raises(CleanedAway, match="its state has been deleted"):
            use()
    assert "epoch-3-another" not in FILES.list_names(str(left.path))


def test_one_that_a_move_made_counts_as_run_still(tmp_path: Path) -> None:
    made = CheckpointFolder(tmp_path / "epoch-2-move")
    (made.path / "metadata").unlink()
    claim(FILES, str(made.path), Mark(operation="move", epoch=2, newest_offsets=1, newest_commit=1))
    made.write("metadata", "{}")
    for batch in range(3):
        made.commit(batch)
    plant(made, "next")
    assert has_been_run(FILES, str(made.path))
    clean(FILES, str(made.path))
    assert has_been_run(FILES, str(made.path))
