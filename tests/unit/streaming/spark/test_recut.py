"""A planned batch gets smaller ends, and no process that was frozen in between changes what another one runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.messages import CheckpointReport, Planned, SinkState
from state.settings.keys import Sink
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_text import parse_kafka_offsets, parse_offset_entry
from streaming.spark.checkpoint.mapping import Left, Move, Place, Placed
from streaming.spark.checkpoint.read import newest_commit
from streaming.spark.errors import MovedOn
from streaming.spark.recut import (
    CUTS,
    Cut,
    UnfinishedBatch,
    cut_to,
    forget_cuts,
    objection,
    read_unfinished,
    restore_entry,
    write_cut,
)
from tests.checkpoints import CheckpointFolder, orders

FILES = LocalFiles()
HOME = Placed("east", 0)


class Lost(Exception):
    """The row does not want the run of this process any more."""


def nothing() -> None:
    pass


def lost() -> None:
    raise Lost


def planned(folder: Path) -> CheckpointFolder:
    """Batch 0 is committed, and batch 1 has 90 records of one partition and 30 of the other."""
    checkpoint = CheckpointFolder(folder)
    checkpoint.commit(0)
    checkpoint.plan(1, {"orders": {"0": 100, "1": 50}})
    return checkpoint


def unfinished_of(folder: Path, placed: Placed = HOME) -> UnfinishedBatch | None:
    return read_unfinished(FILES, str(folder), placed, newest_commit(FILES, str(folder)))


def cut_of(folder: Path, limit: int = 40, placed: Placed = HOME) -> Cut:
    unfinished = unfinished_of(folder, placed)
    assert unfinished is not None
    cut = cut_to(unfinished, limit)
    assert cut is not None
    return cut


def ends(content: bytes | str, source: str = "0") -> object:
    text = content if isinstance(content, bytes) else content.encode()
    return json.loads(parse_offset_entry(text, "entry").sources[source] or "null")


def test_each_partition_keeps_its_share_of_the_smaller_batch(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path)
    cut = cut_of(tmp_path)
    assert (cut.batch, cut.records, cut.kept) == (1, 120, 40)
    assert ends(cut.content) == {"orders": {"0": 10 + 30, "1": 20 + 10}}
    assert cut.former == checkpoint.text("offsets/1").encode()
    assert cut.content.splitlines()[:2] == cut.former.splitlines()[:2], "its watermark and settings stay"


@pytest.mark.parametrize("limit", [120, 1000])
def test_a_batch_within_the_limit_is_not_cut(tmp_path: Path, limit: int) -> None:
    planned(tmp_path)
    unfinished = unfinished_of(tmp_path)
    assert unfinished is not None
    assert cut_to(unfinished, limit) is None


def test_without_a_planned_batch_there_is_nothing_to_cut(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(tmp_path)
    assert unfinished_of(tmp_path) is None
    checkpoint.commit(0)
    assert unfinished_of(tmp_path) is None


def test_a_first_batch_begins_where_its_source_file_says(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(tmp_path)
    checkpoint.plan(0, {"orders": {"0": 1000, "1": 500}})
    checkpoint.write("sources/0/0", '\0v1\n{"orders":{"0":900,"1":500}}')
    cut = cut_of(tmp_path, limit=10)
    assert (cut.batch, cut.records, ends(cut.content)) == (0, 100, {"orders": {"0": 910, "1": 500}})


def test_a_source_whose_begin_is_unknown_keeps_its_end(tmp_path: Path) -> None:
    """Neither a file source nor a partition that appears in this very batch is touched."""
    checkpoint = CheckpointFolder(tmp_path)
    checkpoint.commit(0, orders(0), {"logOffset": 3}, None)
    more = {"orders": {"0": 110, "1": 20, "2": 70}}
    checkpoint.plan(1, more, {"logOffset": 9}, {"letters": {"0": 5000}})
    cut = cut_of(tmp_path)
    assert ends(cut.content) == {"orders": {"0": 50, "1": 20, "2": 70}}
    assert ends(cut.content, "1") == {"logOffset": 9}
    assert ends(cut.content, "2") == {"letters": {"0": 5000}}
    assert (cut.records, cut.kept) == (100, 40)


def test_smaller_ends_carry_the_mark_of_the_cluster_of_now(tmp_path: Path) -> None:
    """Batch 1 was planned on east, its query moved to west, and the batch is read there from 1010 to 1100."""
    checkpoint = planned(tmp_path)
    begin = Place(there=orders(0), here=orders(0, 1000))
    end = Place(there={"orders": {"0": 100, "1": 50}}, here={"orders": {"0": 1100, "1": 1050}})
    move = Move(epoch=2, operation="op", left=Left(cluster="east", epoch=0), to="west", places={"0": (begin, end)})
    checkpoint.write(f"_tideover_mappings/{move.name}", move.content().decode())
    cut = cut_of(tmp_path, placed=Placed("west", 2))
    assert ends(cut.content) == {"orders": {"0": 1040, "1": 1030}, "@west": {"epoch": 2}}


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 500), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) > 0),
    limit=st.integers(1, 600),
)
def test_a_cut_is_within_its_limit_and_never_empty(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    checkpoint = CheckpointFolder(folder)
    checkpoint.commit(0, {"t": {str(number): 7 for number in range(len(sizes))}})
    checkpoint.plan(1, {"t": {str(number): 7 + size for number, size in enumerate(sizes)}})
    unfinished = unfinished_of(folder)
    assert unfinished is not None
    cut = cut_to(unfinished, limit)
    if sum(sizes) <= limit:
        assert cut is None
        return
    assert cut is not None
    offsets = parse_kafka_offsets(parse_offset_entry(cut.content, "entry").sources["0"] or "")
    assert offsets is not None
    kept = [offsets["t"][str(number)] - 7 for number in range(len(sizes))]
    assert all(0 <= part <= size for part, size in zip(kept, sizes, strict=True))
    assert 1 <= sum(kept) == cut.kept <= limit
    assert cut.records == sum(sizes)


SINKS = {
    SinkState.HAS_NOT: None,
    SinkState.HAS: "delta has that batch already",
    SinkState.FORGOT: "delta no longer remembers the batches of that time",
    SinkState.UNKNOWN: "it is unknown whether delta has any of that batch",
}


@pytest.mark.parametrize("state", SINKS)
@pytest.mark.parametrize("sink", Sink)
def test_only_a_sink_without_the_batch_or_by_key_takes_a_smaller_one(state: SinkState, sink: Sink) -> None:
    report = CheckpointReport(
        checkpoint="/c", batch=0, offsets={}, operators=(), log_version=1, sink_format="delta",
        planned=Planned(batch=1, offsets={}, sink=state),
    )  # fmt: skip
    assert objection(report, sink) == (None if sink is Sink.KEYED else SINKS[state])


# -- the entry -------------------------------------------------------------------------------------------------------
def test_the_entry_gets_the_smaller_ends_and_nothing_else_changes(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path)
    before, cut = checkpoint.files(), cut_of(tmp_path)
    write_cut(FILES, str(tmp_path), cut, 1, nothing)
    assert checkpoint.files() == before | {"offsets/1": cut.content.decode()}
    assert unfinished_of(tmp_path) is not None
    with pytest.raises(MovedOn, match="offsets/1 has changed"):
        write_cut(FILES, str(tmp_path), cut, 1, nothing)
    forget_cuts(FILES, str(tmp_path))
    assert checkpoint.files() == before | {"offsets/1": cut.content.decode()}


@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_lost_its_row_leaves_the_entry_as_it_was(tmp_path: Path, number: int) -> None:
    checkpoint = planned(tmp_path)
    before, checks = checkpoint.text("offsets/1"), iter([nothing] * (number - 1) + [lost])
    with pytest.raises(Lost):
        write_cut(FILES, str(tmp_path), cut_of(tmp_path), 1, lambda: next(checks)())
    assert checkpoint.text("offsets/1") == before
    assert (f"{CUTS}/1" in checkpoint.files()) == (number == 2), "only what was begun can be taken back"


def thawed(folder: Path, between: Callable[[], None]) -> None:
    """A cut that is frozen after it took the entry away; its row was still good when it looked."""
    checks = iter([nothing, between])
    write_cut(FILES, str(folder), cut_of(folder), 1, lambda: next(checks)())


def test_a_frozen_cut_does_not_change_what_another_start_put_back(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path)
    before = checkpoint.text("offsets/1")

    def start() -> None:
        assert restore_entry(FILES, str(tmp_path)) == 1
        forget_cuts(FILES, str(tmp_path))

    with pytest.raises(MovedOn, match="another process has written"):
        thawed(tmp_path, start)
    assert checkpoint.text("offsets/1") == before


def test_a_frozen_cut_puts_back_the_entry_of_a_batch_that_was_committed(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path)
    before = checkpoint.text("offsets/1")
    with pytest.raises(MovedOn, match=r"batch 1 of .* has been committed"):
        thawed(tmp_path, lambda: checkpoint.write("commits/1", 'v1\n{"nextBatchWatermarkMs":0}'))
    assert checkpoint.text("offsets/1") == before


def break_off(folder: Path) -> None:
    """The process died after it had taken the entry away."""
    with pytest.raises(KeyboardInterrupt):
        write_cut(_Dying(), str(folder), cut_of(folder), 1, nothing)


class _Dying(LocalFiles):
    deleted = False

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self.deleted = super().delete(path, recursive=recursive)
        return self.deleted

    def create_atomically(self, path: str, content: bytes) -> bool:
        if self.deleted:
            raise KeyboardInterrupt
        return super().create_atomically(path, content)


def test_a_cut_that_was_broken_off_is_taken_back_by_the_next_start(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path)
    before = checkpoint.files()
    break_off(tmp_path)
    assert "offsets/1" not in checkpoint.files()
    assert restore_entry(FILES, str(tmp_path)) == 1
    assert restore_entry(FILES, str(tmp_path)) is None
    forget_cuts(FILES, str(tmp_path))
    assert checkpoint.files() == before


def test_the_entry_of_a_committed_batch_is_never_put_back(tmp_path: Path) -> None:
    """It is not known with which ends it was committed, so a start refuses it in words."""
    checkpoint = planned(tmp_path)
    break_off(tmp_path)
    checkpoint.write("commits/1", 'v1\n{"nextBatchWatermarkMs":0}')
    assert restore_entry(FILES, str(tmp_path)) is None
    assert f"{CUTS}/1" in checkpoint.files()
    assert "offsets/1" not in checkpoint.files()
