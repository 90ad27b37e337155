"""Planted entries hold a checkpoint for one operation, whatever happens in the meantime, and go without a trace."""

from pathlib import Path

import pytest

from state.messages import ReleaseRequest
from streaming.spark.authority import Authority
from streaming.spark.checkpoint import log_fence as planting
from streaming.spark.checkpoint.files import CheckpointFiles, LocalFiles
from streaming.spark.checkpoint.log_fence import Mark, claim, holder, plant_epoch, planted_by, planted_epochs, release
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.errors import AlreadyRun, HeldByStranger, MovedOn, Outrun
from tests.checkpoints import CheckpointFolder

FILES = LocalFiles()


def plant(files: CheckpointFiles, checkpoint: str, *, operation: str, epoch: int) -> tuple[int, ...]:
    """For an operation of a store that knows every other one."""
    return planting.plant(files, checkpoint, operation=operation, epoch=epoch, knows=lambda _: True)


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFolder:
    folder = CheckpointFolder(tmp_path / "checkpoint")
    for batch in range(3):
        folder.commit(batch)
    return folder


def request(folder: CheckpointFolder, operation: str = "move", prepared: str | None = None) -> ReleaseRequest:
    return ReleaseRequest(checkpoint=str(folder.path), planted=(), prepared=prepared, operation=operation)


def test_the_next_two_batches_are_held_and_say_by_whom(checkpoint: CheckpointFolder) -> None:
    assert plant(FILES, str(checkpoint.path), operation="move", epoch=2) == (3, 4)
    assert checkpoint.text("offsets/3").startswith("fenced by tideover: epoch 2, operation move:")
    assert checkpoint.text("offsets/3") == checkpoint.text("offsets/4")


def test_planting_again_changes_nothing(checkpoint: CheckpointFolder) -> None:
    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    before = checkpoint.files()
    assert plant(FILES, str(checkpoint.path), operation="move", epoch=2) == (3, 4)
    assert checkpoint.files() == before


def test_a_planned_batch_is_left_alone_and_those_after_it_are_held(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    planned = checkpoint.text("offsets/3")
    assert plant(FILES, str(checkpoint.path), operation="move", epoch=2) == (4, 5)
    assert checkpoint.text("offsets/3") == planned


def test_a_checkpoint_that_never_ran_is_held_from_its_first_batch(tmp_path: Path) -> None:
    assert plant(FILES, str(tmp_path / "none"), operation="move", epoch=2) == (0, 1)


def test_a_batch_committed_while_planting_moves_the_fence_on(checkpoint: CheckpointFolder) -> None:
    class Racing(LocalFiles):
        """The running query plans and commits batch 3 right before the first entry is planted."""

        def create_atomically(self, path: str, content: bytes) -> bool:
            if path.endswith("offsets/3") and not self.exists(path):
                checkpoint.commit(3)
                checkpoint.plan(4)
            return super().create_atomically(path, content)

    assert plant(Racing(), str(checkpoint.path), operation="move", epoch=2) == (5, 6)


class Overtaking(LocalFiles):
    """A running query plans each of its batches right before that entry is planted, until ``last``."""

    def __init__(self, folder: CheckpointFolder, last: int, ahead: int = 1) -> None:
        self.folder, self.last, self.ahead = folder, last, ahead
        self.tried = 0

    def create_atomically(self, path: str, content: bytes) -> bool:
        batch = int(Path(path).name)
        self.tried += 1
        if batch <= self.last and not self.exists(path):
            for each in range(batch, batch + self.ahead):
                self.folder.commit(each)
            self.folder.plan(batch + self.ahead)
        return super().create_atomically(path, content)


def test_a_fence_behind_a_fast_run_goes_to_its_newest_commit(checkpoint: CheckpointFolder) -> None:
    files = Overtaking(checkpoint, last=100, ahead=30)
    first, second = plant(files, str(checkpoint.path), operation="move", epoch=2)
    assert (first > 100, second) == (True, first + 1)
    assert files.tried < 20


def test_a_fence_that_a_run_outruns_ends_with_a_sentence(checkpoint: CheckpointFolder) -> None:
    files = Overtaking(checkpoint, last=200)
    with pytest.raises(Outrun, match="a run planned each batch before it could be held"):
        plant(files, str(checkpoint.path), operation="move", epoch=2)
    assert files.tried == 50
    assert planted_by(FILES, str(checkpoint.path), "move") == ()


def test_many_planned_batches_of_no_run_are_no_run_that_is_faster(checkpoint: CheckpointFolder) -> None:
    for batch in range(3, 83):
        checkpoint.plan(batch)
    assert plant(FILES, str(checkpoint.path), operation="move", epoch=2) == (83, 84)


def test_an_older_operations_entries_are_taken_over_and_a_newer_ones_are_not(checkpoint: CheckpointFolder) -> None:
    plant(FILES, str(checkpoint.path), operation="old", epoch=2)
    assert plant(FILES, str(checkpoint.path), operation="move", epoch=3) == (3, 4)
    assert planted_by(FILES, str(checkpoint.path), "old") == ()
    with pytest.raises(MovedOn, match="epoch 3"):
        plant(FILES, str(checkpoint.path), operation="old", epoch=2)


@pytest.mark.parametrize("epoch", [2, 4], ids=["the same epoch", "a later epoch"])
def test_a_hold_of_an_operation_unknown_to_the_store_is_not_taken_over(
    checkpoint: CheckpointFolder, epoch: int
) -> None:
    checkpoint.plan(3)
    plant(FILES, str(checkpoint.path), operation="lost", epoch=2)
    before = checkpoint.files()
    with pytest.raises(HeldByStranger, match="held by operation lost of epoch 2, which this store does not know"):
        planting.plant(FILES, str(checkpoint.path), operation="move", epoch=epoch, knows=lambda name: name != "lost")
    assert checkpoint.files() == before


def test_an_operation_takes_its_own_entries_over_whatever_the_store_knows(checkpoint: CheckpointFolder) -> None:
    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    again = planting.plant(FILES, str(checkpoint.path), operation="move", epoch=3, knows=lambda _: False)
    assert again == (3, 4)
    assert checkpoint.text("offsets/3").startswith("fenced by tideover: epoch 3, operation move:")


def test_the_holder_of_a_checkpoint_is_known_until_it_is_released(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    assert holder(FILES, str(checkpoint.path)) is None
    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    assert holder(FILES, str(checkpoint.path)) == Fence(2, "move")
    release(FILES, request(checkpoint))
    assert holder(FILES, str(checkpoint.path)) is None
    assert holder(FILES, str(checkpoint.path / "nowhere")) is None


def test_an_epoch_goes_with_the_operation_that_planted_it(checkpoint: CheckpointFolder) -> None:
    before, path = checkpoint.files(), str(checkpoint.path)
    for _ in range(2):
        plant_epoch(FILES, path, Fence(10, "other"))
        plant_epoch(FILES, path, Fence(9, "move"))
    assert planted_epochs(FILES, path) == (Fence(9, "move"), Fence(10, "other"))
    release(FILES, request(checkpoint))
    assert planted_epochs(FILES, path) == (Fence(10, "other"),)
    release(FILES, request(checkpoint, "other"))
    assert checkpoint.files() == before


def test_a_fence_ends_the_run_of_every_process(checkpoint: CheckpointFolder) -> None:
    """Each run needs its own file: so it is over even where the planted epoch is deleted afterwards."""
    checkpoint.write("_tideover_epochs/run-of-a-driver", "")
    authority = Authority(FILES, str(checkpoint.path), Fence(9, "move"), lambda: None)
    authority.plant_epoch(is_held=True)
    assert FILES.list_names(f"{checkpoint.path}/_tideover_epochs") == ["9-move.1", "run-of-a-driver"]
    authority.plant_epoch()
    assert FILES.list_names(f"{checkpoint.path}/_tideover_epochs") == ["9-move.1"]


def test_names_that_no_fence_made_are_no_epochs(checkpoint: CheckpointFolder) -> None:
    for name in ("x-move", "9", "9-", "9-move", "run-9-move.1", ".9-move.1.f00.tmp"):
        checkpoint.write(f"_tideover_epochs/{name}", "")
    assert planted_epochs(FILES, str(checkpoint.path)) == ()


def test_releasing_leaves_the_checkpoint_as_it_was(checkpoint: CheckpointFolder) -> None:
    before = checkpoint.files()
    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    (checkpoint.path / "offsets" / ".3.crc").touch()
    assert release(FILES, request(checkpoint)) == (3, 4)
    assert checkpoint.files() == before
    assert release(FILES, request(checkpoint)) == ()


def test_releasing_frees_the_batch_that_a_start_needs_last(checkpoint: CheckpointFolder) -> None:
    freed = []

    class Watching(LocalFiles):
        def delete(self, path: str, *, recursive: bool = False) -> bool:
            freed.append(path.rpartition("/")[2])
            return super().delete(path, recursive=recursive)

    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    release(Watching(), request(checkpoint))
    assert freed == ["4", "3"]


def test_releasing_takes_nothing_that_others_planted_or_planned(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    plant(FILES, str(checkpoint.path), operation="other", epoch=2)
    before = checkpoint.files()
    assert release(FILES, request(checkpoint)) == ()
    assert checkpoint.files() == before


def test_releasing_removes_its_entries_and_keeps_a_folder_of_others(
    checkpoint: CheckpointFolder, tmp_path: Path
) -> None:
    foreign = tmp_path / "taken"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    assert release(FILES, request(checkpoint, prepared=str(foreign))) == (3, 4)
    assert (foreign / "notes.txt").exists()


def test_releasing_is_refused_when_what_it_prepared_has_been_run(checkpoint: CheckpointFolder, tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    claim(FILES, str(prepared), Mark(operation="move", epoch=2, newest_offsets=2, newest_commit=2))
    (prepared / "offsets").mkdir()
    (prepared / "offsets" / "3").write_text("v1")
    planted = plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    with pytest.raises(AlreadyRun):
        release(FILES, request(checkpoint, prepared=str(prepared)))
    assert planted_by(FILES, str(checkpoint.path), "move") == planted


def test_releasing_is_refused_when_what_was_to_begin_afresh_has_been_run(
    checkpoint: CheckpointFolder, tmp_path: Path
) -> None:
    fresh = request(checkpoint, prepared=str(tmp_path / "fresh")).model_copy(update={"fresh": True})
    planted = plant(FILES, str(checkpoint.path), operation="move", epoch=2)
    CheckpointFolder(tmp_path / "fresh").commit(0)
    with pytest.raises(AlreadyRun, match=r"a query has used .*/fresh since operation move chose it"):
        release(FILES, fresh)
    assert planted_by(FILES, str(checkpoint.path), "move") == planted
    assert release(FILES, fresh.model_copy(update={"prepared": str(tmp_path / "none")})) == planted


def test_a_lost_operation_that_went_nowhere_is_undone(checkpoint: CheckpointFolder, tmp_path: Path) -> None:
    plant(FILES, str(checkpoint.path), operation="lost", epoch=4)
    for name in ("epoch-4-lost", "epoch-4-lost-2", "epoch-2-earlier"):
        claim(FILES, str(tmp_path / name), Mark(operation=name.split("-")[2], epoch=4))
    CheckpointFolder(tmp_path / "epoch-2-earlier").commit(0)
    lost = request(checkpoint, "lost").model_copy(update={"below": str(tmp_path)})
    assert release(FILES, lost) == (3, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "epoch-2-earlier"]


@pytest.mark.parametrize("name", ["epoch-4-lost", "epoch-4-lost-2", "epoch-6-later"])
@pytest.mark.parametrize("prepared", [True, False])
def test_a_lost_fence_stays_once_the_query_used_its_checkpoint(
    checkpoint: CheckpointFolder, tmp_path: Path, name: str, prepared: bool
) -> None:
    """Also where a fresh start had nothing prepared, and where only a later move is left to show it."""
    planted = plant(FILES, str(checkpoint.path), operation="lost", epoch=4)
    if prepared:
        claim(FILES, str(tmp_path / name), Mark(operation=name.split("-")[2], epoch=4))
    CheckpointFolder(tmp_path / name).commit(0)
    with pytest.raises(AlreadyRun, match=f"the query has used .*/{name} since"):
        release(FILES, request(checkpoint, "lost").model_copy(update={"below": str(tmp_path)}))
    assert planted_by(FILES, str(checkpoint.path), "lost") == planted
