"""A carried checkpoint holds what the standby's query needs and nothing else, or nothing is left of it."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from state.protocol import Offsets, PrepareReport, PrepareRequest, ReleaseRequest, Treatment
from streaming.spark.carry import prepare
from streaming.spark.checkpoint import read_checkpoint
from streaming.spark.errors import (
    AlreadyRun,
    EmptyCheckpoint,
    FileVanished,
    HalfWritten,
    MovedOn,
    NoSpace,
    TargetTaken,
)
from streaming.spark.local import LocalFiles
from streaming.spark.plant import plant, release
from tests.checkpoints import CheckpointFolder, commit_text, offset_text, orders

FILES = LocalFiles()
SOURCES = {"orders": ["orders"]}
SHIFT = 900


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFolder:
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta", "changelog"))
    for batch in range(3):
        folder.commit(batch, next_watermark_ms=7)
    return folder


def request(
    folder: CheckpointFolder,
    treatment: Treatment = Treatment.NONE,
    *,
    resume: str = "carry",
    operation: str = "move",
    batch: int | None = 2,
    offsets: Offsets | None = None,
    target_offsets: Offsets | None = None,
    planned_target_offsets: Offsets | None = None,
) -> PrepareRequest:
    return PrepareRequest(
        checkpoint=str(folder.path),
        target=str(folder.path.parent / "epoch-2-move"),
        operation=operation,
        epoch=2,
        resume=resume,
        batch=batch,
        offsets={"orders": orders(2)} if offsets is None else offsets,
        target_offsets={"orders": orders(2, SHIFT)} if target_offsets is None else target_offsets,
        treatment=treatment,
        planned_target_offsets=planned_target_offsets,
    )


def made(folder: CheckpointFolder) -> dict[str, str]:
    """The new checkpoint's files without its state and Tideover's mark."""
    root = folder.path.parent / "epoch-2-move"
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
    return {name: text for name, text in texts.items() if not name.startswith("state/") and name != "_tideover"}


def state(folder: CheckpointFolder, kind: str) -> set[str]:
    """The new checkpoint's state files of one kind in the first partition."""
    return {path.name for path in (folder.path.parent / "epoch-2-move" / "state").glob(f"*/0/*.{kind}")}


def test_a_batch_that_was_never_planned_leaves_the_log_at_n(checkpoint: CheckpointFolder) -> None:
    plant(FILES, str(checkpoint.path), operation="move", epoch=2, knows=lambda _: True)
    before = checkpoint.files()
    report = prepare(FILES, request(checkpoint), SOURCES)
    files = made(checkpoint)
    assert report.data_batch == 3
    assert set(files) == {"metadata", "offsets/1", "offsets/2", "commits/2"}
    assert files["offsets/2"] == offset_text(orders(2, SHIFT)) == files["offsets/1"]
    assert files["commits/2"] == checkpoint.text("commits/2")
    assert json.loads(files["metadata"])["id"] != json.loads(checkpoint.text("metadata"))["id"]
    assert checkpoint.files() == before


def test_replan_gives_the_planned_batch_the_standbys_range(checkpoint: CheckpointFolder) -> None:
    checkpoint.watermark_ms = 5
    checkpoint.plan(3)
    planned = {"orders": orders(3, SHIFT)}
    report = prepare(FILES, request(checkpoint, Treatment.REPLAN, planned_target_offsets=planned), SOURCES)
    files = made(checkpoint)
    assert report.data_batch == 3
    assert files["offsets/3"] == offset_text(orders(3, SHIFT), watermark_ms=5)
    assert files["offsets/2"] == offset_text(orders(2, SHIFT))
    assert "commits/3" not in files


def test_promote_takes_the_planned_batch_as_committed(checkpoint: CheckpointFolder) -> None:
    checkpoint.watermark_ms = 9
    checkpoint.plan(3)
    checkpoint.keep_state(4)
    target = {"orders": orders(3, SHIFT)}
    report = prepare(FILES, request(checkpoint, Treatment.PROMOTE, target_offsets=target), SOURCES)
    files = made(checkpoint)
    assert report.data_batch == 4
    assert files["offsets/3"] == offset_text(orders(3, SHIFT), watermark_ms=9)
    assert files["offsets/2"] == offset_text(orders(3, SHIFT))
    assert files["commits/3"] == commit_text(9)
    assert state(checkpoint, "delta") == {"1.delta", "2.delta", "3.delta", "4.delta"}


def test_promote_without_the_state_after_the_planned_batch_is_refused(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    with pytest.raises(HalfWritten, match="version 4"):
        prepare(FILES, request(checkpoint, Treatment.PROMOTE), SOURCES)


@pytest.mark.parametrize("is_planned", [True, False])
def test_bridge_puts_an_empty_batch_in_the_place(checkpoint: CheckpointFolder, is_planned: bool) -> None:
    if is_planned:
        checkpoint.plan(3)
    report = prepare(FILES, request(checkpoint, Treatment.BRIDGE), SOURCES)
    assert report.data_batch == 4
    assert made(checkpoint)["offsets/3"] == offset_text(orders(2, SHIFT), watermark_ms=7)


def test_a_bridge_never_turns_the_watermark_back(checkpoint: CheckpointFolder) -> None:
    checkpoint.watermark_ms = 50
    checkpoint.plan(2)
    prepare(FILES, request(checkpoint, Treatment.BRIDGE), SOURCES)
    assert made(checkpoint)["offsets/3"] == offset_text(orders(2, SHIFT), watermark_ms=50)


def test_only_the_state_of_n_is_taken_and_no_draft(checkpoint: CheckpointFolder) -> None:
    checkpoint.keep_state(4)
    checkpoint.write("state/0/0/.5.delta.0a1b.tmp", "half")
    checkpoint.write("state/0/0/2.snapshot", "state 2")
    checkpoint.write("sources/0/0", "v1")
    report = prepare(FILES, request(checkpoint), SOURCES)
    assert state(checkpoint, "delta") == {"3.delta"}  # of operator 0, from its snapshot on
    assert state(checkpoint, "snapshot") == {"2.snapshot"}
    assert state(checkpoint, "changelog") == {"1.changelog", "2.changelog", "3.changelog"}
    assert not (checkpoint.path.parent / "epoch-2-move" / "sources").exists()
    assert report.files == len(list(FILES.walk(report.checkpoint)))
    assert report.bytes == sum(FILES.walk(report.checkpoint).values())


def test_a_purged_entry_before_n_is_made_from_n(checkpoint: CheckpointFolder) -> None:
    (checkpoint.path / "offsets" / "1").unlink()
    prepare(FILES, request(checkpoint), SOURCES)
    assert made(checkpoint)["offsets/1"] == made(checkpoint)["offsets/2"]


def test_a_checkpoint_at_its_first_batch_has_no_entry_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint", version=2)
    folder.commit(0)
    prepare(FILES, request(folder, batch=0, offsets={"orders": orders(0)}), SOURCES)
    assert set(made(folder)) == {"metadata", "offsets/0", "commits/0"}
    assert made(folder)["offsets/0"] == offset_text(orders(2, SHIFT), version=2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_source_that_does_not_move_stays_where_it_was(tmp_path: Path, version: int) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint", version=version)
    for batch in range(3):
        folder.commit(batch, orders(batch, topic="clicks"), orders(batch))
    folder.plan(3, orders(3, topic="clicks"), orders(3))
    both = {"orders": orders(2), "clicks": orders(2, topic="clicks")}
    planned = {"orders": orders(3, SHIFT)}
    sources = {"orders": ["orders"], "clicks": ["clicks"]}
    moved = request(folder, Treatment.REPLAN, offsets=both, planned_target_offsets=planned)
    prepare(FILES, moved, sources)
    files = made(folder)
    clicks = [orders(batch, topic="clicks") for batch in range(4)]
    assert files["offsets/3"] == offset_text(clicks[3], orders(3, SHIFT), version=version)
    assert files["offsets/2"] == offset_text(clicks[2], orders(2, SHIFT), version=version)
    assert files["offsets/1"] == offset_text(clicks[1], orders(2, SHIFT), version=version)


def test_a_renamed_topic_is_carried_by_its_standby_name_and_read_by_it(checkpoint: CheckpointFolder) -> None:
    renamed = orders(2, SHIFT, topic="east.orders")
    report = prepare(FILES, request(checkpoint, target_offsets={"orders": renamed}), SOURCES)
    assert read_checkpoint(FILES, report.checkpoint, {"orders": ["east.orders"]}).offsets == {"orders": renamed}


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 1},
        {"batch": None},
        {"offsets": {"orders": orders(1)}},
        {"offsets": {"other": orders(2)}},
        {"target_offsets": {"other": orders(2)}},
        {"treatment": Treatment.REPLAN},
        {"treatment": Treatment.PROMOTE},
    ],
)
def test_a_checkpoint_that_is_not_where_it_was_resolved_is_refused(checkpoint: CheckpointFolder, changes: dict) -> None:
    with pytest.raises(MovedOn):
        prepare(FILES, request(checkpoint, **changes), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_batch_planned_since_the_decision_is_noticed(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    with pytest.raises(MovedOn):
        prepare(FILES, request(checkpoint), SOURCES)


def test_a_query_that_never_committed_cannot_be_carried(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint")
    folder.plan(0)
    with pytest.raises(EmptyCheckpoint):
        prepare(FILES, request(folder, Treatment.BRIDGE, batch=None, offsets={}), SOURCES)


def test_leftovers_of_the_same_operation_are_replaced(checkpoint: CheckpointFolder) -> None:
    target = Path(prepare(FILES, request(checkpoint), SOURCES).checkpoint)
    (target / "offsets" / "2").unlink()
    (target / "state" / "0" / "0" / "junk").touch()
    prepare(FILES, request(checkpoint), SOURCES)
    assert (target / "offsets" / "2").exists()
    assert not (target / "state" / "0" / "0" / "junk").exists()


def test_a_folder_of_somebody_else_is_left_as_it_is(checkpoint: CheckpointFolder) -> None:
    target = prepare(FILES, request(checkpoint, operation="other"), SOURCES).checkpoint
    before = FILES.walk(target)
    with pytest.raises(TargetTaken):
        prepare(FILES, request(checkpoint), SOURCES)
    assert FILES.walk(target) == before


@pytest.mark.parametrize("treatment", [Treatment.NONE, Treatment.BRIDGE])
def test_a_prepared_checkpoint_that_has_been_run_is_never_removed(
    checkpoint: CheckpointFolder, treatment: Treatment
) -> None:
    target = prepare(FILES, request(checkpoint, treatment), SOURCES).checkpoint
    (Path(target) / "commits" / "3").touch()
    undo = ReleaseRequest(checkpoint=str(checkpoint.path), planted=(), prepared=target, operation="move")
    for attempt in (lambda: prepare(FILES, request(checkpoint, treatment), SOURCES), lambda: release(FILES, undo)):
        with pytest.raises(TargetTaken):
            attempt()
    assert (Path(target) / "commits" / "3").exists()


def test_a_file_purged_while_copying_starts_the_copy_anew(checkpoint: CheckpointFolder) -> None:
    class Compacting(LocalFiles):
        """While the first copy is under way, maintenance writes a snapshot and purges what it replaces."""

        done = False

        def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
            if not self.done:
                self.done = True
                for partition in (0, 1):
                    folder = checkpoint.path / "state" / "0" / str(partition)
                    (folder / "3.snapshot").write_text("state 3")
                    (folder / "1.delta").unlink()
            super().copy(pairs)

    report = prepare(Compacting(), request(checkpoint), SOURCES)
    assert state(checkpoint, "snapshot") == {"3.snapshot"}
    assert state(checkpoint, "delta") == set()
    assert report.data_batch == 3


def test_files_that_keep_vanishing_end_the_attempt_without_leftovers(checkpoint: CheckpointFolder) -> None:
    class Vanishing(LocalFiles):
        def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
            super().copy(list(pairs)[:3])
            raise FileVanished

    with pytest.raises(FileVanished):
        prepare(Vanishing(), request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_full_disk_is_told_before_a_byte_is_written(checkpoint: CheckpointFolder) -> None:
    class Full(LocalFiles):
        def free_space(self, directory: str) -> int:
            return 100

    with pytest.raises(NoSpace, match="100 are free"):
        prepare(Full(), request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


@pytest.mark.parametrize("full_at", ["copy", "replace", "create_atomically"])
def test_a_disk_that_fills_up_meanwhile_leaves_no_partial_checkpoint(
    checkpoint: CheckpointFolder, full_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = checkpoint.files()

    def full(*_: object) -> None:
        raise NoSpace

    monkeypatch.setattr(LocalFiles, full_at, full)
    with pytest.raises(NoSpace):
        prepare(FILES, request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()
    assert checkpoint.files() == before


@pytest.mark.parametrize("name", ["offsets/2", "state/0/1/2.delta"])
def test_what_the_file_system_did_not_keep_is_noticed(checkpoint: CheckpointFolder, name: str) -> None:
    class Losing(LocalFiles):
        def walk(self, directory: str) -> dict[str, int]:
            path = Path(directory) / name
            if path.exists() and "epoch-2" in directory:
                path.write_text("")
            return dict(super().walk(directory))

    with pytest.raises(HalfWritten):
        prepare(Losing(), request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_batch_that_is_committed_during_the_copy_is_noticed(checkpoint: CheckpointFolder) -> None:
    class Unstoppable(LocalFiles):
        """The old run commits the batch that it had in flight."""

        def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
            super().copy(pairs)
            checkpoint.commit(3)

    checkpoint.plan(3)
    planned = {"orders": orders(3, SHIFT)}
    with pytest.raises(MovedOn, match="batch 2 was resolved, and the checkpoint is at 3"):
        prepare(Unstoppable(), request(checkpoint, Treatment.REPLAN, planned_target_offsets=planned), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_fresh_start_is_not_begun_before_a_batch_that_was_committed_meanwhile(checkpoint: CheckpointFolder) -> None:
    checkpoint.commit(3)
    with pytest.raises(MovedOn):
        prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)


def test_a_fresh_start_that_committed_nothing_is_moved_on_from_where_it_was_told_to_start(tmp_path: Path) -> None:
    started = CheckpointFolder(tmp_path / "checkpoint")
    plant(FILES, str(started.path), operation="move", epoch=2, knows=lambda _: True)
    asked = request(started, resume="fresh", batch=None)
    assert prepare(FILES, asked, SOURCES).data_batch == 0
    started.commit(0)
    with pytest.raises(MovedOn):
        prepare(FILES, asked, SOURCES)


def test_fresh_needs_nothing_but_a_new_folder(checkpoint: CheckpointFolder) -> None:
    report = prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)
    assert report == PrepareReport(checkpoint=report.checkpoint, data_batch=0, files=0, bytes=0, seconds=0)
    assert not Path(report.checkpoint).exists()
    CheckpointFolder(Path(report.checkpoint))
    with pytest.raises(AlreadyRun):
        prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)
