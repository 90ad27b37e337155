"""A checkpoint that was moved becomes plain Spark's again, entry by entry, and can be broken off anywhere."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.checkpoint_folders import mapping_name
from state.model.entities import Assignment, Desired
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import MAPPINGS, RELEASED, Left, Move, Place, Placed, read_moves
from streaming.spark.checkpoint.read import EPOCHS, read_log_end
from streaming.spark.errors import Contradicted, HalfWritten, MalformedEntry, NoMapping
from streaming.spark.handback import (
    complete_rewrite,
    hand_back,
    plan_handback,
    require_not_released,
    rewrite_in_place,
)
from tests.checkpoints import CheckpointFolder

NAME = mapping_name(2, "op")
AT_EAST: dict[str, dict[str, int]]
AT_EAST, AT_WEST = {"orders": {"0": 20, "1": 20}}, {"orders": {"0": 37, "1": 43}}
LATER: dict[str, dict[str, int]] = {"orders": {"0": 50, "1": 50}}
FILES = LocalFiles()


class Crash(Exception):
    """The process is gone."""


class Failing(LocalFiles):
    """Files that fail at the so-manieth write or removal."""

    def __init__(self, after: int) -> None:
        self.left = after

    def _count(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1

    def create_atomically(self, path: str, content: bytes) -> bool:
        self._count()
        return super().create_atomically(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._count()
        super().replace(path, content)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._count()
        return super().delete(path, recursive=recursive)


@pytest.fixture
def row(tmp_path: Path) -> Assignment:
    return moved(tmp_path)


def moved(path: Path) -> Assignment:
    """The row of a query that read batches 0 and 1 on east, and batch 2 on west."""
    folder = CheckpointFolder(path)
    folder.commit(0, {"orders": {"0": 10, "1": 10}})
    folder.commit(1, AT_EAST)
    folder.commit(2, {**LATER, "@west": {"epoch": 2}})
    places: dict[str, tuple[Place, ...]] = {"0": (Place(there=AT_EAST, here=AT_WEST),)}
    move = Move(epoch=2, operation="op", left=Left(cluster="east", epoch=0), to="west", places=places)
    folder.write(f"{MAPPINGS}/{NAME}", move.content().decode())
    folder.write(f"{EPOCHS}/2-op.1", "fenced")
    return Assignment(
        query="q", epoch=2, placed_epoch=2, desired=Desired.RUNNING, cluster="west", runner="a",
        checkpoint=str(path), starting_offsets=None, operation="op", changed_at=datetime(2026, 1, 1, tzinfo=UTC),
        mapping=NAME,
    )  # fmt: skip


def lines(row: Assignment) -> dict[int, object]:
    folder = Path(row.checkpoint) / "offsets"
    return {int(path.name): json.loads(path.read_text().splitlines()[2]) for path in folder.iterdir()}


PLAIN = {0: {"orders": {"0": 10, "1": 10}}, 1: AT_WEST, 2: LATER}


def test_entries_get_the_offsets_of_the_cluster_that_the_query_reads(row: Assignment) -> None:
    before = Path(row.checkpoint, "offsets", "2").read_bytes()
    plan = plan_handback(FILES, row)
    assert (sorted(plan.new), plan.kept) == ([1, 2], (0,))
    hand_back(FILES, plan)
    assert lines(row) == PLAIN
    names = set(FILES.list_names(row.checkpoint))
    assert names == {"metadata", "offsets", "commits", RELEASED}
    assert Path(row.checkpoint, RELEASED, NAME, "offsets-2").read_bytes() == before


@pytest.mark.parametrize("declared_again", [False, True])
@pytest.mark.parametrize("after", range(10))
def test_a_release_that_was_broken_off_anywhere_is_completed_by_the_next(
    row: Assignment, after: int, declared_again: bool
) -> None:
    with pytest.raises(Crash):
        hand_back(Failing(after), plan_handback(FILES, row))
    if after:
        with pytest.raises(Contradicted, match="was handed back to plain Spark"):
            require_not_released(FILES, row)
        with pytest.raises(Contradicted, match="was broken off"):
            require_not_released(FILES, replace(row, mapping=None, cluster="east"))
    next_life = declared_again and after > 0
    hand_back(FILES, plan_handback(FILES, replace(row, mapping=None, cluster="east") if next_life else row))
    require_not_released(FILES, replace(row, mapping=None))
    assert lines(row) == PLAIN
    assert set(FILES.list_names(row.checkpoint)) == {"metadata", "offsets", "commits", RELEASED}


def test_a_second_release_changes_nothing(row: Assignment) -> None:
    hand_back(FILES, plan_handback(FILES, row))
    again = plan_handback(FILES, row)
    assert (again.is_done, again.new) == (True, {})
    hand_back(FILES, again)
    assert lines(row) == PLAIN


def test_a_query_that_was_never_moved_has_nothing_to_release(row: Assignment) -> None:
    assert plan_handback(FILES, replace(row, mapping=None)).is_done
    require_not_released(FILES, replace(row, mapping=None))


def test_an_entry_that_a_start_reads_and_no_mapping_knows_is_refused(row: Assignment) -> None:
    folder = CheckpointFolder(Path(row.checkpoint))
    folder.commit(1, {"orders": {"0": 19, "1": 20}})
    assert plan_handback(FILES, row).kept == (0, 1), "behind the newest commit none is read"
    folder.commit(2, {**LATER, "@west": {"epoch": 7}})
    with pytest.raises(NoMapping):
        plan_handback(FILES, row)


def test_a_checkpoint_that_an_operation_holds_is_refused(row: Assignment) -> None:
    Path(row.checkpoint, "offsets", "3").write_text("fenced by tideover: epoch 3, operation x: attempt 1 to move")
    with pytest.raises(HalfWritten, match="an operation holds the checkpoint"):
        plan_handback(FILES, row)


BACK = mapping_name(5, "back")
PLAIN_WEST = {"orders": {"0": 60, "1": 61}}
AGAIN_EAST = {"orders": {"0": 24, "1": 25}}


def between_runs(path: Path) -> Assignment:
    """The row of a query that was moved behind batch 1, before its application was started on west."""
    found = moved(path)
    for log in ("offsets", "commits"):
        (path / log / "2").unlink()
    return found


def moved_back(row: Assignment) -> Assignment:
    """Its row behind the move back, once plain Spark has read batch 2 on west."""
    folder = CheckpointFolder(Path(row.checkpoint))
    folder.commit(2, PLAIN_WEST)
    places: dict[str, tuple[Place, ...]] = {"0": (Place(there=PLAIN_WEST, here=AGAIN_EAST),)}
    move = Move(epoch=5, operation="back", left=Left(cluster="west", epoch=2), to="east", places=places)
    folder.write(f"{MAPPINGS}/{BACK}", move.content().decode())
    return replace(row, epoch=5, placed_epoch=5, cluster="east", operation="back", mapping=BACK)


def test_offsets_rewritten_in_place_are_read_as_those_of_the_new_cluster(tmp_path: Path) -> None:
    row = between_runs(tmp_path)
    assert rewrite_in_place(FILES, row) == 1
    assert lines(row)[1] == AT_WEST
    assert rewrite_in_place(FILES, row) == 1, "again"
    found = read_log_end(FILES, row.checkpoint, Placed.of(row))
    assert (found.batch, found.previous, found.last and json.loads(found.last.sources["0"] or "")) == (1, None, AT_WEST)
    CheckpointFolder(tmp_path).commit(2, PLAIN_WEST)
    rewrite_in_place(FILES, row)
    found = read_log_end(FILES, row.checkpoint, Placed.of(row))
    assert found.last is not None
    assert found.previous is not None
    assert json.loads(found.last.sources["0"] or "") == PLAIN_WEST
    assert json.loads(found.previous.sources["0"] or "") == AT_WEST
    with pytest.raises(Contradicted, match="was handed back"):
        require_not_released(FILES, row)


def test_the_next_move_begins_where_offsets_were_rewritten(tmp_path: Path) -> None:
    first = between_runs(tmp_path)
    rewrite_in_place(FILES, first)
    row = moved_back(first)
    assert read_moves(FILES, row.checkpoint, Placed.of(first)).epoch == 2
    assert [move.name for move in read_moves(FILES, row.checkpoint, Placed.of(row)).chain] == [BACK]
    rewrite_in_place(FILES, row)
    assert lines(row) == {0: {"orders": {"0": 10, "1": 10}}, 1: AT_WEST, 2: AGAIN_EAST}
    found = read_log_end(FILES, row.checkpoint, Placed.of(row))
    assert (found.previous, found.last and json.loads(found.last.sources["0"] or "")) == (None, AGAIN_EAST)
    hand_back(FILES, plan_handback(FILES, row))
    assert MAPPINGS not in FILES.list_names(row.checkpoint), "it can leave Tideover from there"
    assert lines(row)[2] == AGAIN_EAST


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("after", range(6))
def test_a_rewrite_that_was_broken_off_is_completed_before_the_next_move(
    tmp_path: Path, after: int, again: bool
) -> None:
    row = between_runs(tmp_path)
    if again:
        rewrite_in_place(FILES, row)
        row = moved_back(row)
    wanted = AGAIN_EAST if again else AT_WEST
    with pytest.raises(Crash):
        hand_back(Failing(after), plan_handback(FILES, row), keeps_mappings=True)
    complete_rewrite(FILES, row)
    found = read_log_end(FILES, row.checkpoint, Placed.of(row))
    assert (found.last and json.loads(found.last.sources["0"] or "")) == wanted
    if after:
        assert lines(row)[max(lines(row))] == wanted, "nothing was begun before the first write"


def test_a_query_that_is_declared_again_begins_on_the_cluster_of_its_release(row: Assignment) -> None:
    hand_back(FILES, plan_handback(FILES, row))
    require_not_released(FILES, replace(row, mapping=None))
    with pytest.raises(Contradicted, match="name west first among the clusters of q"):
        require_not_released(FILES, replace(row, mapping=None, cluster="east"))


def test_the_newest_of_two_releases_says_of_which_cluster_the_offsets_are(row: Assignment) -> None:
    first = move_to(row, left=Left(cluster="east", epoch=0), epoch=6, operation="op", there=AT_EAST, here=AT_WEST)
    hand_back(FILES, plan_handback(FILES, first))
    CheckpointFolder(Path(row.checkpoint)).commit(2, LATER)
    back = move_to(row, left=Left(cluster="west", epoch=0), epoch=2, operation="op2", there=LATER, here=AT_EAST)
    require_not_released(FILES, back)
    hand_back(FILES, plan_handback(FILES, back))
    require_not_released(FILES, replace(row, mapping=None, cluster="east"))
    with pytest.raises(Contradicted, match="name east first among the clusters of q"):
        require_not_released(FILES, replace(row, mapping=None, cluster="west"))
    assert plan_handback(FILES, replace(row, mapping=None, cluster="west")).cluster == "east"


def move_to(
    row: Assignment, *, left: Left, epoch: int, operation: str, there: dict[str, dict[str, int]],
    here: dict[str, dict[str, int]],
) -> Assignment:  # fmt: skip
    """The row behind a move from the other cluster; no other mapping is beside its checkpoint."""
    to = "west" if left.cluster == "east" else "east"
    move = Move(epoch=epoch, operation=operation, left=left, to=to, places={"0": (Place(there=there, here=here),)})
    folder = Path(row.checkpoint, MAPPINGS)
    FILES.delete(str(folder), recursive=True)
    FILES.create_atomically(str(folder / move.name), move.content())
    CheckpointFolder(Path(row.checkpoint)).commit(2, {**LATER, f"@{to}": {"epoch": epoch}})
    if left.cluster == "west":
        CheckpointFolder(Path(row.checkpoint)).commit(1, LATER)
    return replace(row, epoch=epoch, placed_epoch=epoch, cluster=to, mapping=move.name)


def test_entries_of_plain_spark_behind_a_broken_release_stay(row: Assignment) -> None:
    with pytest.raises(Crash):
        hand_back(Failing(9), plan_handback(FILES, row))
    assert lines(row) == PLAIN
    CheckpointFolder(Path(row.checkpoint)).commit(3, {"orders": {"0": 60, "1": 60}})
    hand_back(FILES, plan_handback(FILES, replace(row, mapping=None, cluster="east")))
    assert lines(row) == {**PLAIN, 3: {"orders": {"0": 60, "1": 60}}}


def test_an_entry_that_a_run_wrote_since_is_released_by_the_next(row: Assignment) -> None:
    hand_back(FILES, plan_handback(FILES, row))
    CheckpointFolder(Path(row.checkpoint)).commit(3, {"orders": {"0": 60, "1": 60}, "@west": {"epoch": 2}})
    again = plan_handback(FILES, row)
    assert not again.is_done
    hand_back(FILES, again)
    assert lines(row) == {**PLAIN, 3: {"orders": {"0": 60, "1": 60}}}
    assert plan_handback(FILES, row).is_done


def test_a_run_admitted_at_the_same_time_leaves_all_as_it_was(row: Assignment) -> None:
    def live() -> None:
        with pytest.raises(Contradicted):
            require_not_released(FILES, row)
        raise Crash

    before = lines(row)
    with pytest.raises(Crash):
        hand_back(FILES, plan_handback(FILES, row), live)
    require_not_released(FILES, row)
    assert (lines(row), FILES.list_names(str(Path(row.checkpoint, MAPPINGS)))) == (before, [NAME])


def test_an_entry_that_is_neither_old_nor_new_is_refused(row: Assignment) -> None:
    with pytest.raises(Crash):
        hand_back(Failing(6), plan_handback(FILES, row))
    CheckpointFolder(Path(row.checkpoint)).commit(2, {"orders": {"0": 70, "1": 70}})
    with pytest.raises(Contradicted, match="neither the entry that was to be released"):
        plan_handback(FILES, row)


def test_a_release_that_lost_its_first_file_is_refused(row: Assignment) -> None:
    hand_back(FILES, plan_handback(FILES, row))
    Path(row.checkpoint, RELEASED, NAME, "begun").unlink()
    with pytest.raises(MalformedEntry, match="does not say which release it is of"):
        require_not_released(FILES, replace(row, mapping=None))


def test_a_writer_that_froze_in_a_write_learns_of_the_next_move(row: Assignment) -> None:
    again, back = {"orders": {"0": 24, "1": 25}}, mapping_name(5, "back")

    class Frozen(LocalFiles):
        def replace(self, path: str, content: bytes) -> None:
            if path.endswith("/offsets/2"):
                rewrite_in_place(FILES, row)
                places: dict[str, tuple[Place, ...]] = {"0": (Place(there=LATER, here=again),)}
                move = Move(epoch=5, operation="back", left=Left(cluster="west", epoch=2), to="east", places=places)
                CheckpointFolder(Path(row.checkpoint)).write(f"{MAPPINGS}/{back}", move.content().decode())
                there = replace(row, epoch=5, placed_epoch=5, cluster="east", operation="back", mapping=back)
                rewrite_in_place(FILES, there)
            super().replace(path, content)

    with pytest.raises(Contradicted, match="were written for east while this process wrote those for west"):
        rewrite_in_place(Frozen(), row)


def test_each_entry_is_written_under_a_row_that_still_counts(row: Assignment) -> None:
    before, calls = lines(row), []

    def moved_behind_the_first() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise Crash

    with pytest.raises(Crash):
        rewrite_in_place(FILES, row, moved_behind_the_first)
    assert lines(row) == before


def test_a_beginning_that_is_refused_keeps_what_others_wrote_there(row: Assignment) -> None:
    journal = Path(row.checkpoint, RELEASED, NAME, "offsets-2")

    def written_in_between() -> None:
        journal.write_bytes(b"the old text")
        raise Crash

    with pytest.raises(Crash):
        rewrite_in_place(FILES, row, written_in_between)
    assert journal.read_bytes() == b"the old text"
