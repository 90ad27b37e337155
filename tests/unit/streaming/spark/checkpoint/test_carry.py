"""A carried checkpoint holds what the standby's query needs and nothing else, or nothing is left of it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from state.messages import Offsets, PrepareReport, PrepareRequest, ReleaseRequest, UncommittedBatch
from streaming.spark.checkpoint import carry
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import plant, release
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.errors import (
    AlreadyRun,
    EmptyCheckpoint,
    FileVanished,
    HalfWritten,
    MalformedEntry,
    MovedOn,
    NoSpace,
    TargetTaken,
)
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
    treatment: UncommittedBatch = UncommittedBatch.NONE,
    *,
    resume: str = "carry",
    operation: str = "move",
    batch: int | None = 2,
    back_to: int | None = None,
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
        back_to=back_to,
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


def test_each_line_of_a_source_that_is_read_twice_gets_its_own_place(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint")
    for batch in range(2):
        folder.commit(batch)
    folder.write("offsets/1", offset_text(orders(1), orders(2)))
    here = {"orders": orders(1), "orders#2": orders(2)}
    there = {"orders": orders(1, SHIFT), "orders#2": orders(2, SHIFT)}
    prepare(FILES, request(folder, batch=1, offsets=here, target_offsets=there), SOURCES)
    lines = made(folder)["offsets/1"].splitlines()[2:]
    assert [json.loads(line) for line in lines] == [orders(1, SHIFT), orders(2, SHIFT)]


def test_a_copy_can_be_stopped_before_each_few_files(checkpoint: CheckpointFolder) -> None:
    class SteppedAside(Exception):
        """It may not continue."""

    def step_aside() -> None:
        raise SteppedAside

    with pytest.raises(SteppedAside):
        prepare(FILES, request(checkpoint), SOURCES, aside=step_aside)
    assert not list((checkpoint.path.parent / "epoch-2-move").rglob("*.delta"))


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
    report = prepare(FILES, request(checkpoint, UncommittedBatch.REPLAN, planned_target_offsets=planned), SOURCES)
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
    report = prepare(FILES, request(checkpoint, UncommittedBatch.PROMOTE, target_offsets=target), SOURCES)
    files = made(checkpoint)
    assert report.data_batch == 4
    assert files["offsets/3"] == offset_text(orders(3, SHIFT), watermark_ms=9)
    assert files["offsets/2"] == offset_text(orders(3, SHIFT))
    assert files["commits/3"] == commit_text(9)
    assert state(checkpoint, "delta") == {"1.delta", "2.delta", "3.delta", "4.delta"}


def test_promote_without_the_state_after_the_planned_batch_is_refused(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    with pytest.raises(HalfWritten, match="version 4"):
        prepare(FILES, request(checkpoint, UncommittedBatch.PROMOTE), SOURCES)


@pytest.mark.parametrize("is_planned", [True, False])
def test_bridge_puts_an_empty_batch_in_the_place(checkpoint: CheckpointFolder, is_planned: bool) -> None:
    if is_planned:
        checkpoint.plan(3)
    report = prepare(FILES, request(checkpoint, UncommittedBatch.BRIDGE), SOURCES)
    assert report.data_batch == 4
    assert made(checkpoint)["offsets/3"] == offset_text(orders(2, SHIFT), watermark_ms=7)


def test_a_bridge_never_turns_the_watermark_back(checkpoint: CheckpointFolder) -> None:
    checkpoint.watermark_ms = 50
    checkpoint.plan(2)
    prepare(FILES, request(checkpoint, UncommittedBatch.BRIDGE), SOURCES)
    assert made(checkpoint)["offsets/3"] == offset_text(orders(2, SHIFT), watermark_ms=50)


def test_only_the_state_of_n_is_taken_and_no_draft(checkpoint: CheckpointFolder) -> None:
    checkpoint.keep_state(4)
    checkpoint.write("state/0/0/.5.delta.0a1b.tmp", "half")
    checkpoint.write("state/0/0/2.snapshot", "state 2")
    checkpoint.write("sources/0/0", '\0v1\n{"orders":{"0":0,"1":0}}')
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


def test_a_rewind_takes_the_entries_and_the_state_of_its_batch(checkpoint: CheckpointFolder) -> None:
    prepare(FILES, request(checkpoint, back_to=1), SOURCES)
    assert set(made(checkpoint)) == {"metadata", "offsets/0", "offsets/1", "commits/1"}
    assert state(checkpoint, "changelog") == {"1.changelog", "2.changelog"}


def test_a_checkpoint_at_its_first_batch_has_no_entry_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoint", version=2, stores=("delta",))
    folder.commit(0)
    prepare(FILES, request(folder, batch=0, offsets={"orders": orders(0)}), SOURCES)
    assert set(made(folder)) == {"metadata", "offsets/0", "commits/0"}
    assert state(folder, "delta") == {"1.delta"}
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
    moved = request(folder, UncommittedBatch.REPLAN, offsets=both, planned_target_offsets=planned)
    prepare(FILES, moved, sources)
    files = made(folder)
    clicks = [orders(batch, topic="clicks") for batch in range(4)]
    assert files["offsets/3"] == offset_text(clicks[3], orders(3, SHIFT), version=version)
    assert files["offsets/2"] == offset_text(clicks[2], orders(2, SHIFT), version=version)
    assert files["offsets/1"] == offset_text(clicks[1], orders(2, SHIFT), version=version)


def mixed(tmp_path: Path, **sources: dict[str, str]) -> CheckpointFolder:
    """A query that reads a file source, ``orders`` and a rate source, with what Spark keeps of each."""
    folder = CheckpointFolder(tmp_path / "checkpoint")
    for batch in range(3):
        folder.commit(batch, {"logOffset": batch}, orders(batch), 7 * batch)
    kept = {
        "0": {str(entry): f'v1\n{{"path":"file:///in/{entry}","timestamp":1,"batchId":{entry}}}' for entry in range(4)},
        "1": {"0": '\0v1\n{"orders":{"0":0,"1":0}}'},
        "2": {"0": "v1\n1700000000000"},
    }
    for name, held in (kept | sources).items():
        for entry, text in held.items():
            folder.write(f"sources/{name}/{entry}", text)
    return folder


def kept_of(folder: CheckpointFolder, source: str = "") -> set[str]:
    """What the new checkpoint has below ``sources/``."""
    return {name for name in made(folder) if name.startswith(f"sources/{source}")}


def test_files_of_sources_that_stay_are_taken_along(tmp_path: Path) -> None:
    folder = mixed(tmp_path)
    folder.write("sources/0/.4.5a0c.tmp", "half")
    prepare(FILES, request(folder), SOURCES)
    files = made(folder)
    assert kept_of(folder) == {*(f"sources/0/{entry}" for entry in range(4)), "sources/2/0"}
    assert all(files[name] == folder.text(name) for name in kept_of(folder))
    moved = json.dumps(orders(2, SHIFT), separators=(",", ":"))
    assert files["offsets/2"].splitlines()[2:] == ['{"logOffset":2}', moved, "14"]


@pytest.mark.parametrize(
    "held",
    [{}, {"0": "", "1": ""}, {"0": "", "2": ""}, {"1.compact": ""}, {"0.compact": "", "2": ""}],
    ids=["none", "too short", "a gap", "compacted and too short", "a gap behind the compacted"],
)
def test_a_list_of_files_with_gaps_is_refused_before_anything_is_made(tmp_path: Path, held: dict[str, str]) -> None:
    folder = mixed(tmp_path, **{"0": held})
    with pytest.raises(HalfWritten, match=r"source 0 is at entry \d of its list of files"):
        prepare(FILES, request(folder), SOURCES)
    assert not (folder.path.parent / "epoch-2-move").exists()


def test_a_compacted_list_of_files_represents_what_it_replaced(tmp_path: Path) -> None:
    folder = mixed(tmp_path, **{"0": {"1.compact": "", "2": "", "3": ""}})
    prepare(FILES, request(folder), SOURCES)
    assert kept_of(folder, "0") == {"sources/0/1.compact", "sources/0/2", "sources/0/3"}


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
        {"treatment": UncommittedBatch.REPLAN},
        {"treatment": UncommittedBatch.PROMOTE},
    ],
)
def test_a_checkpoint_that_is_not_where_it_was_resolved_is_refused(
    checkpoint: CheckpointFolder, changes: dict[str, Any]
) -> None:
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
        prepare(FILES, request(folder, UncommittedBatch.BRIDGE, batch=None, offsets={}), SOURCES)


def test_leftovers_of_the_same_operation_are_replaced(checkpoint: CheckpointFolder) -> None:
    target = Path(prepare(FILES, request(checkpoint), SOURCES).checkpoint)
    (target / "offsets" / "2").unlink()
    (target / "state" / "0" / "0" / "junk").touch()
    prepare(FILES, request(checkpoint), SOURCES)
    assert (target / "offsets" / "2").exists()
    assert not (target / "state" / "0" / "0" / "junk").exists()


def test_a_foreign_folder_is_left_as_it_is(checkpoint: CheckpointFolder) -> None:
    target = prepare(FILES, request(checkpoint, operation="other"), SOURCES).checkpoint
    before = FILES.walk(target)
    with pytest.raises(TargetTaken):
        prepare(FILES, request(checkpoint), SOURCES)
    assert FILES.walk(target) == before


@pytest.mark.parametrize("treatment", [UncommittedBatch.NONE, UncommittedBatch.BRIDGE])
def test_a_prepared_checkpoint_that_has_been_run_is_never_removed(
    checkpoint: CheckpointFolder, treatment: UncommittedBatch
) -> None:
    target = prepare(FILES, request(checkpoint, treatment), SOURCES).checkpoint
    (Path(target) / "commits" / "3").touch()
    undo = ReleaseRequest(checkpoint=str(checkpoint.path), planted=(), prepared=target, operation="move")
    for attempt in (lambda: prepare(FILES, request(checkpoint, treatment), SOURCES), lambda: release(FILES, undo)):
        with pytest.raises(TargetTaken):
            attempt()
    assert (Path(target) / "commits" / "3").exists()


def test_a_file_purged_while_copying_restarts_the_copy(checkpoint: CheckpointFolder) -> None:
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


def test_a_full_disk_is_reported_before_a_byte_is_written(checkpoint: CheckpointFolder) -> None:
    class Full(LocalFiles):
        def free_space(self, directory: str) -> int:
            return 100

    with pytest.raises(NoSpace, match="100 are free"):
        prepare(Full(), request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


@pytest.mark.parametrize("full_at", ["copy", "replace", "create_atomically"])
def test_a_disk_that_fills_up_leaves_no_partial_checkpoint(
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
def test_a_file_that_the_file_system_lost_is_noticed(checkpoint: CheckpointFolder, name: str) -> None:
    class Losing(LocalFiles):
        def walk(self, directory: str) -> dict[str, int]:
            path = Path(directory) / name
            if path.exists() and "epoch-2" in directory:
                path.write_text("")
            return dict(super().walk(directory))

    with pytest.raises(HalfWritten):
        prepare(Losing(), request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


@pytest.mark.parametrize("kind", ["offset", "commit"])
def test_an_entry_that_is_written_otherwise_than_it_was_meant_is_noticed(
    checkpoint: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    written = getattr(carry, f"format_{kind}_entry")
    monkeypatch.setattr(carry, f"format_{kind}_entry", lambda entry: written(entry).replace(b"7", b"8"))
    with pytest.raises(MalformedEntry, match=f"{kind}s/[0-9]+ does not read back as it was written"):
        prepare(FILES, request(checkpoint), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_batch_that_is_committed_during_the_copy_is_noticed(checkpoint: CheckpointFolder) -> None:
    class Unstoppable(LocalFiles):
        """The old run commits the batch that it had in flight."""

        def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
            super().copy(pairs)
            checkpoint.commit(3)

    checkpoint.plan(3)
    planned = {"orders": orders(3, SHIFT)}
    with pytest.raises(MovedOn, match="resume offsets were found for batch 2, but the checkpoint is at batch 3"):
        prepare(Unstoppable(), request(checkpoint, UncommittedBatch.REPLAN, planned_target_offsets=planned), SOURCES)
    assert not (checkpoint.path.parent / "epoch-2-move").exists()


def test_a_fresh_start_is_refused_after_a_later_committed_batch(checkpoint: CheckpointFolder) -> None:
    checkpoint.commit(3)
    with pytest.raises(MovedOn):
        prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)


def test_a_fresh_start_without_a_commit_moves_on_from_its_start_offsets(tmp_path: Path) -> None:
    started = CheckpointFolder(tmp_path / "checkpoint")
    plant(FILES, str(started.path), operation="move", epoch=2, knows=lambda _: True)
    requested = request(started, resume="fresh", batch=None)
    assert prepare(FILES, requested, SOURCES).data_batch == 0
    started.commit(0)
    with pytest.raises(MovedOn):
        prepare(FILES, requested, SOURCES)


def test_fresh_needs_nothing_but_a_new_folder(checkpoint: CheckpointFolder) -> None:
    report = prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)
    assert report == PrepareReport(checkpoint=report.checkpoint, data_batch=0, files=0, bytes=0, seconds=0)
    assert not Path(report.checkpoint).exists()
    CheckpointFolder(Path(report.checkpoint))
    with pytest.raises(AlreadyRun):
        prepare(FILES, request(checkpoint, resume="fresh"), SOURCES)


def remembering(tmp_path: Path, paths: object, entries: Iterable[int] = (0,)) -> CheckpointFolder:
    """A ``transformWithState`` with one schema, whose metadata names it as Spark does."""
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("changelog",), names=("transformWithStateExec",))
    for batch in range(3):
        folder.commit(batch)
    (folder.path / "state/0/_metadata/metadata").unlink()
    folder.write("state/0/_stateSchema/default/0_6b12", "v3\nschema")
    for batch in entries:
        store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": paths}
        info = {"operatorId": 0, "operatorName": "transformWithStateExec"}
        value = {"operatorInfo": info, "stateStoreInfo": [store], "operatorPropertiesJson": "{}"}
        folder.write(f"state/0/_metadata/v2/{batch}", "v2\n" + json.dumps(value, separators=(",", ":")))
    return folder


@pytest.mark.parametrize(
    ("system", "moved_to"), [("file:", "file:"), ("hdfs://names:8020", "hdfs://names:8020"), ("", "")]
)
def test_schemas_that_metadata_names_by_paths_are_those_of_the_new_folder(
    tmp_path: Path, system: str, moved_to: str
) -> None:
    old = f"{system}{tmp_path}/checkpoint"
    folder = remembering(tmp_path, [f"{old}/state/0/_stateSchema/default/0_6b12"], (0, 2, 3))
    folder.write("state/0/_stateSchema/default/3_0c4f", "of a batch that was never committed")
    target = prepare(FILES, request(folder), SOURCES).checkpoint
    kept = {path for path in FILES.walk(f"{target}/state") if "_metadata/v2" in path or "_stateSchema" in path}
    assert kept == {"0/_metadata/v2/2", "0/_stateSchema/default/0_6b12"}
    assert (Path(target) / "state/0/_metadata/v2/2").read_text() == folder.text("state/0/_metadata/v2/2").replace(
        old, f"{moved_to}{target}"
    )


def test_a_schema_that_is_not_there_is_never_passed_over(tmp_path: Path) -> None:
    named = [f"file:/old/state/0/_stateSchema/default/{name}" for name in ("0_6b12", "1_77aa")]
    with pytest.raises(HalfWritten, match="state/0/_stateSchema/default/1_77aa is missing, although"):
        prepare(FILES, request(remembering(tmp_path, named)), SOURCES)
    assert not (tmp_path / "epoch-2-move").exists()


@pytest.mark.parametrize(
    ("paths", "entries", "error"),
    [
        (["file:/elsewhere/0_6b12"], (0,), MalformedEntry),
        (["file:/old/state/0/_stateSchema/default/0_6b12"], (3,), HalfWritten),
    ],
)
def test_metadata_that_cannot_be_moved_is_refused_by_name(
    tmp_path: Path, paths: list[str], entries: tuple[int, ...], error: type[Exception]
) -> None:
    with pytest.raises(error, match="_metadata/v2"):
        prepare(FILES, request(remembering(tmp_path, paths, entries)), SOURCES)
    assert not (tmp_path / "epoch-2-move").exists()
