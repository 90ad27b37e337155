"""A checkpoint of which files are missing: refused, or continued exactly as it would have been.

Each subset of the files of a checkpoint is deleted, of one that began here and of one that a move brought here, with a
batch under way and without. ``resumed`` says what Spark makes of the rest, and knows nothing of the rule that is
tested.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from state.model.entities import Assignment, Operation, OperationKind, SeenCheckpoint, are_accepted
from state.model.plan import Plan
from streaming.spark.checkpoint.files import CheckpointFiles, LocalFiles
from streaming.spark.checkpoint.log_fence import Mark
from streaming.spark.checkpoint.log_text import Fence, fence_sentence, parse_offset_entry
from streaming.spark.checkpoint.mapping import Left, Move, Place, Placed, write_move
from streaming.spark.checkpoint.read import require_whole
from streaming.spark.errors import CheckpointError, Contradicted, FileVanished
from streaming.spark.known_files import (
    FoundFiles,
    KnownFiles,
    contradiction,
    find_files,
    known_files,
    require_state,
)
from tests.checkpoints import CheckpointFolder, orders
from tests.contract import samples

QUERY_ID = "57794937-f4ce-472a-b26b-f64f1b7a6766"
WEST = {"@west": {"epoch": 2}}
WHERE = "/c"


class FilesInMemory:
    """What a checkpoint holds, by path below its folder; reads alone."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def list_names(self, directory: str) -> Sequence[str]:
        below = _below(directory)
        return sorted({name[len(below) :].split("/")[0] for name in self.texts if name.startswith(below)})

    def exists(self, path: str) -> bool:
        return _below(path)[:-1] in self.texts

    def read_bytes(self, path: str) -> bytes:
        name = _below(path)[:-1]
        if name not in self.texts:
            raise FileVanished(f"{path} is not there")
        return self.texts[name].encode()


def _below(path: str) -> str:
    name = path.removeprefix(WHERE).strip("/")
    return f"{name}/" if name else ""


class Resumed(NamedTuple):
    """What Spark does first from a checkpoint."""

    query_id: str
    batch: int
    start: str
    """Where the batch begins: the offsets of the one before, or what was kept of the first look at the cluster."""
    end: str | None
    """Where it ends; None where it is planned again."""


def resumed(texts: Mapping[str, str]) -> Resumed | None:
    """What Spark 3.5.7 and 4.2.0 make of the files; None where a start ends with an error.

    A missing ``metadata`` is written with a new id. The newest entry of the offset log counts, needs the one before
    it, and its batch runs again unless the commit log names it. Batch 0 begins where ``sources/0/0`` says, which is
    made where it is missing. A missing version of the state is an error.
    """

    def newest(log: str) -> int | None:
        return max((int(name.partition("/")[2]) for name in texts if name.startswith(f"{log}/")), default=None)

    def end_of(batch: int) -> str | None:
        text = texts.get(f"offsets/{batch}")
        return None if text is None else parse_offset_entry(text.encode(), "").sources["0"]

    query_id = json.loads(texts["metadata"])["id"] if "metadata" in texts else "new"
    begins = texts.get("sources/0/0", "asked again")
    planned, committed = newest("offsets"), newest("commits")
    if planned is None:
        return Resumed(query_id, 0, begins, None)
    if planned > 0 and end_of(planned - 1) is None:
        return None
    runs_again = committed is None or committed < planned
    batch = planned if runs_again else planned + 1
    if batch > 0 and not all(f"state/0/{number}/{batch}.delta" in texts for number in (0, 1)):
        return None
    start = begins if batch == 0 else end_of(batch - 1)
    return Resumed(query_id, batch, str(start), end_of(batch) if runs_again else None)


class Case(NamedTuple):
    """A checkpoint as a query left it."""

    name: str
    moved: bool
    committed: int | None
    planned: int


CASES = (
    Case("the first batch is under way", False, None, 0),
    Case("the first batch is committed", False, 0, 0),
    Case("a later batch is committed", False, 2, 2),
    Case("a later batch is under way", False, 1, 2),
    Case("moved here, and nothing read since", True, 1, 1),
    Case("moved here, and a batch is committed since", True, 2, 2),
    Case("moved here, and a batch is under way since", True, 1, 2),
)
KINDS = ("metadata", "sources", "state", "offsets", "commits", "_tideover_mappings", "_tideover_epochs")


def built(folder: Path, case: Case) -> dict[str, str]:
    checkpoint = CheckpointFolder(folder, stores=("delta",))
    checkpoint.write("sources/0/0", "0v1\n" + json.dumps({"orders": {"0": 0, "1": 0}}))
    checkpoint.write("_tideover_epochs/run-1", "")
    for batch in range(case.planned + 1):
        ends = cast(Any, {**orders(batch), **(WEST if case.moved and batch > 1 else {})})
        if case.committed is not None and batch <= case.committed:
            checkpoint.commit(batch, ends)
        else:
            checkpoint.plan(batch, ends)
    if case.moved:
        place = Place(there=cast(Any, orders(1)), here=cast(Any, orders(1)))
        move = Move(epoch=2, operation="op", left=Left(cluster="east", epoch=0), to="west", places={"0": (place,)})
        write_move(LocalFiles(), str(folder), move, lambda: None)
    return checkpoint.files()


def subsets(texts: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Of what a person, a rule or a copy leaves out: folders, the newest two entries of each log, one file of state."""
    found = [kind for kind in KINDS if any(name == kind or name.startswith(f"{kind}/") for name in texts)]
    for log in ("offsets", "commits"):
        found += sorted((name for name in texts if name.startswith(f"{log}/")), key=lambda name: int(name[8:]))[-2:]
    found += sorted(name for name in texts if name.endswith(".delta"))[-1:]
    return chain.from_iterable(combinations(found, count) for count in range(len(found) + 1))


def without(texts: Mapping[str, str], gone: Sequence[str]) -> dict[str, str]:
    return {
        name: text
        for name, text in texts.items()
        if not any(name == each or name.startswith(f"{each}/") for each in gone)
    }


def row_of(case: Case) -> Assignment:
    place = {"mapping": "2-op.1", "cluster": "west", "epoch": 2} if case.moved else {"mapping": None}
    return samples.assignment(checkpoint=WHERE, **place)


def seen_of(case: Case, **more: Any) -> SeenCheckpoint:
    return SeenCheckpoint(WHERE, row_of(case).epoch, case.planned, case.committed, QUERY_ID, True)._replace(**more)


def refusal(
    texts: Mapping[str, str], row: Assignment, seen: SeenCheckpoint | None, operation: Operation | None = None
) -> str | None:
    """What a start says against the files; None where it begins."""
    files = cast(CheckpointFiles, FilesInMemory(texts))
    try:
        require_whole(files, WHERE, Placed.of(row))
        found = find_files(files, WHERE)
    except CheckpointError as error:
        return str(error)
    return contradiction(WHERE, found, known_files(row, seen, operation))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_start_without_some_files_is_refused_or_continues_right(tmp_path: Path, case: Case) -> None:
    texts = built(tmp_path, case)
    expected = resumed(texts)
    assert expected is not None
    tried = refusals = 0
    for gone in subsets(texts):
        left = without(texts, gone)
        said = refusal(left, row_of(case), seen_of(case))
        if said is None:
            assert resumed(left) in {None, expected}, f"without {', '.join(gone)}"
        tried, refusals = tried + 1, refusals + (said is not None)
    print(f"{case.name}: {tried} subsets, {refusals} refused")
    assert refusal(texts, row_of(case), seen_of(case)) is None
    assert 0 < refusals < tried


@pytest.mark.parametrize("stateful", [True, False])
def test_a_start_from_a_copy_without_some_files_is_refused_or_right(tmp_path: Path, stateful: bool) -> None:
    """A move made it, and no run has reported anything of it: its operation knows the batch behind which it left."""
    checkpoint = CheckpointFolder(tmp_path, stores=("delta",) if stateful else ())
    checkpoint.write("_tideover", Mark(operation="op", epoch=2, newest_offsets=3, newest_commit=3).model_dump_json())
    for batch in (2, 3):
        checkpoint.commit(batch)
    texts = checkpoint.files()
    if not stateful:
        texts |= {f"state/0/{number}/{batch}.delta": "" for number in (0, 1) for batch in (3, 4)}
    expected = resumed(texts)
    assert expected is not None
    row = samples.assignment(checkpoint=WHERE, epoch=2, mapping=None, operation="op")
    operation = samples.operation(id="op", plan=Plan(batch=3, resume="carry"))
    for gone in (*subsets(texts), tuple(name for name in texts if name != "_tideover"), tuple(texts)):
        left = without(texts, gone)
        if refusal(left, row, None, operation) is None:
            assert resumed(left) in {None, expected}, f"without {', '.join(gone)}"
    assert refusal(texts, row, None, operation) is None


ONE_MISSING = {
    "commits/2": "its run of epoch 1 reported that batch 2 is committed, but the newest is commits/1",
    "commits": "offsets/1 exists, but the newest committed batch is none",
    "offsets/2": "batch 2 is committed, but offsets/2 is missing",
    "metadata": "it has batch logs, but no file metadata",
    "state": "its run of epoch 1 reported that the query keeps state, but the folder state is missing",
}


@pytest.mark.parametrize("gone", ONE_MISSING)
def test_a_missing_file_is_named(tmp_path: Path, gone: str) -> None:
    case = CASES[2]
    said = refusal(without(built(tmp_path, case), [gone]), row_of(case), seen_of(case))
    assert said is not None
    assert ONE_MISSING[gone] in said


def test_an_empty_folder_is_new_only_where_the_store_knows_no_batch() -> None:
    case = CASES[1]
    assert refusal({}, row_of(case), None) is None
    said = refusal({}, row_of(case), seen_of(case))
    assert said == "/c: its run of epoch 1 reported that batch 0 is committed, but no batch is committed"


def test_a_folder_with_state_or_mappings_and_no_logs_is_no_new_query(tmp_path: Path) -> None:
    texts = built(tmp_path, CASES[5])
    bare = without(texts, ["metadata", "offsets", "commits", "_tideover_mappings"])
    assert "holds state, but no metadata and no batch" in str(refusal(bare, row_of(CASES[1]), None))
    bare = without(texts, ["metadata", "offsets", "commits", "state"])
    assert "holds _tideover_mappings, but no metadata and no batch" in str(refusal(bare, row_of(CASES[1]), None))


def test_a_person_may_accept_a_folder_without_logs_once(tmp_path: Path) -> None:
    """After a move the mapping is restored into it; else no command would lead out of there."""
    texts = without(built(tmp_path, CASES[5]), ["metadata", "offsets", "commits", "state"])
    found = find_files(cast(CheckpointFiles, FilesInMemory(texts)), WHERE)
    accepted = samples.assignment(checkpoint=WHERE, epoch=5, operation=None)
    for seen, expected in ((None, True), (seen_of(CASES[5], epoch=4), True), (seen_of(CASES[5], epoch=5), False)):
        assert are_accepted(accepted, seen) is expected
        said = contradiction(WHERE, found, known_files(accepted, seen, None), accepted=are_accepted(accepted, seen))
        assert (said is None) is expected
    assert not are_accepted(samples.assignment(checkpoint=WHERE, epoch=5, operation="op"), None)
    assert not are_accepted(samples.assignment(checkpoint=WHERE, epoch=1, operation=None), None)


def test_a_batch_that_was_planned_and_is_gone_would_hold_other_records(tmp_path: Path) -> None:
    case = CASES[3]
    said = refusal(without(built(tmp_path, case), ["offsets/2"]), row_of(case), seen_of(case))
    assert said == "/c: its run of epoch 1 reported that batch 2 is planned, but the newest is offsets/1"


def test_the_planted_entries_of_a_fence_are_no_batches(tmp_path: Path) -> None:
    case = CASES[2]
    texts = built(tmp_path, case) | {"offsets/3": fence_sentence(Fence(2, "op")).decode()}
    assert find_files(cast(CheckpointFiles, FilesInMemory(texts)), WHERE).planned == 2


def test_another_query_in_the_same_folder_is_named(tmp_path: Path) -> None:
    case = CASES[2]
    texts = built(tmp_path, case) | {"metadata": '{"id":"8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2"}'}
    said = refusal(texts, row_of(case), seen_of(case))
    assert said is not None
    assert said.endswith(f"it is of query {QUERY_ID}, but metadata names 8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2")


OLD = FoundFiles(query_id=QUERY_ID, planned=1, committed=1)


def test_batches_of_another_folder_say_nothing_of_this_one() -> None:
    row = row_of(CASES[2])
    assert known_files(row, seen_of(CASES[2], checkpoint="/c/epoch-2-op"), None) == ()
    assert len(known_files(row, seen_of(CASES[2], checkpoint="file:/c/"), None)) == 1


def test_a_copy_must_hold_what_was_seen_until_it_is_accepted() -> None:
    """A person has named the place by ``reconcile``, and has not looked at its files."""
    row = samples.assignment(checkpoint="s3a://copy/c", epoch=5, operation=None)
    seen = seen_of(CASES[2], checkpoint="s3a://lost/c", epoch=4)
    assert len(known_files(row, seen, None)) == 1
    assert not are_accepted(row, seen)
    assert are_accepted(row, None), "reconcile --consent repeats forgets what was seen"
    assert known_files(samples.assignment(checkpoint="s3a://copy/c/epoch-5-op", epoch=5), seen, None) == ()


def test_a_batch_without_its_state_is_named_with_the_newest_whole_one(tmp_path: Path) -> None:
    """The objects of a copied bucket arrive in any order."""
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta", "changelog"))
    for batch in range(4):
        folder.commit(batch)
    row = samples.assignment(checkpoint=str(folder.path), mapping=None, operation=None)
    require_state(LocalFiles(), row)
    (folder.path / "state/1/0/4.changelog").unlink()
    said = "batch 3 is committed, but state/1/0 lacks files of version 4: 4.changelog is missing; the newest with all"
    with pytest.raises(Contradicted, match=f"{said} of its state is 2$"):
        require_state(LocalFiles(), row)
    (folder.path / "commits/3").unlink()
    require_state(LocalFiles(), row)
    for path in (folder.path / "state/0/0").glob("*.delta"):
        path.unlink()
    with pytest.raises(Contradicted, match="state/0/0 holds no state at all; no older one has all of its state"):
        require_state(LocalFiles(), row)


def test_after_a_reconcile_only_what_was_seen_since_counts() -> None:
    """A person looked at the files then. A row that a move wrote, or gave back, was looked at by no one."""
    row = samples.assignment(checkpoint=WHERE, epoch=5, operation=None)
    assert known_files(row, seen_of(CASES[2], epoch=4), None) == ()
    assert len(known_files(row, seen_of(CASES[2], epoch=5), None)) == 1
    moved = samples.assignment(checkpoint=WHERE, epoch=5, operation="op")
    assert len(known_files(moved, seen_of(CASES[2], epoch=4), None)) == 1


@pytest.mark.parametrize(
    ("plan", "kind", "least"),
    [
        ({"batch": 7, "resume": "switch"}, OperationKind.FAILOVER, 7),
        ({"batch": 7, "resume": "carry"}, OperationKind.FAILBACK, 7),
        ({"batch": 7, "resume": "carry"}, OperationKind.REWIND, 0),
        ({"batch": 7, "resume": "fresh"}, OperationKind.FAILOVER, None),
        ({"batch": None, "resume": "carry"}, OperationKind.FAILOVER, None),
        (None, OperationKind.FAILOVER, None),
    ],
)
def test_a_move_knows_the_batch_behind_which_it_left_its_query(
    plan: dict[str, object] | None, kind: OperationKind, least: int | None
) -> None:
    operation = samples.operation(id="op", plan=None if plan is None else Plan.of(plan), kind=kind)
    known = known_files(samples.assignment(operation="op"), None, operation)
    assert [each.committed for each in known] == ([] if least is None else [least])
    said = contradiction(WHERE, FoundFiles(), known)
    assert (said is None) == (least is None)


def test_files_that_are_newer_than_what_the_store_knows_contradict_nothing() -> None:
    newer = KnownFiles(by="its run of epoch 1 reported that", planned=1, committed=0, query_id=None)
    assert contradiction(WHERE, OLD, (newer,)) is None
