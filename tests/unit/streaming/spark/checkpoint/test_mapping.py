"""A query that keeps its checkpoint continues by a mapping beside it, and nothing else of it is touched."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.messages import Offsets, PrepareReport, PrepareRequest, ReleaseRequest, UncommittedBatch
from streaming.spark.checkpoint import log_fence
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.log_fence import (
    kept_by,
    plant,
    plant_epoch,
    planted_epochs,
    release,
    require_unmoved,
    unplant,
)
from streaming.spark.checkpoint.log_text import Fence, parse_offset_entry, read_mark, with_mark
from streaming.spark.checkpoint.mapping import (
    MAPPINGS,
    Left,
    Move,
    Placed,
    all_moves,
    chain_of,
    chain_with,
    read_moves,
)
from streaming.spark.checkpoint.read import read_checkpoint, read_log_end
from streaming.spark.checkpoint.retained import read_retained, retained_since
from streaming.spark.errors import (
    AlreadyRun,
    Contradicted,
    HalfWritten,
    HeldByStranger,
    MalformedEntry,
    MovedOn,
    NoMapping,
    TargetTaken,
    WrongCluster,
)
from tests.checkpoints import PLANNED_MS, CheckpointFolder, offset_text, orders

FILES = LocalFiles()
SOURCES = {"orders": ["orders"]}
EAST, WEST, HOME = Placed("east", 0), Placed("west", 2), Placed("east", 4)
SHIFT, BACK = 900, 50
NONE, REPLAN, PROMOTE, BRIDGE = UncommittedBatch


def marked(offsets: dict[str, dict[str, int]], cluster: str, epoch: int) -> dict[str, dict[str, int]]:
    return {**offsets, f"@{cluster}": {"epoch": epoch}}


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFolder:
    """Batch 2 is committed, and operation ``move`` holds it."""
    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta",))
    for batch in range(3):
        folder.commit(batch)
    return folder


def held(folder: CheckpointFolder, operation: str = "move", epoch: int = 2) -> CheckpointFolder:
    plant(FILES, str(folder.path), operation=operation, epoch=epoch, knows=lambda _: True)
    plant_epoch(FILES, str(folder.path), Fence(epoch, operation))
    return folder


def request(folder: CheckpointFolder, treatment: UncommittedBatch = NONE, **changes: Any) -> PrepareRequest:
    requested = PrepareRequest(
        checkpoint=str(folder.path), target=str(folder.path), operation="move", epoch=2, resume="switch",
        cluster="west", batch=2, offsets={"orders": orders(2)}, target_offsets={"orders": orders(2, SHIFT)},
        treatment=treatment,
    )  # fmt: skip
    return requested.model_copy(update=changes)


def moved(folder: CheckpointFolder, treatment: UncommittedBatch = NONE, **changes: Any) -> PrepareReport:
    """Held, mapped and let go, as a committed move does."""
    held(folder)
    report = prepare(FILES, request(folder, treatment, **changes), SOURCES, placed=EAST)
    unplant(FILES, str(folder.path), "move")
    return report


def returned(folder: CheckpointFolder, batch: int) -> None:
    """Operation ``home`` takes the query back to east behind a batch that it has read on west."""
    held(folder, "home", 4)
    home = request(
        folder, operation="home", epoch=4, cluster="east", batch=batch, offsets={"orders": orders(batch, SHIFT)},
        target_offsets={"orders": orders(batch, BACK)},
    )  # fmt: skip
    prepare(FILES, home, SOURCES, placed=WEST)
    unplant(FILES, str(folder.path), "home")


def offsets_at(folder: CheckpointFolder, placed: Placed) -> tuple[Offsets, Offsets | None]:
    """The ends of the last committed batch and of the planned one, as a report shows them."""
    report = read_checkpoint(FILES, str(folder.path), SOURCES, placed=placed)
    return report.offsets, None if report.planned is None else report.planned.offsets


def test_a_mark_is_what_the_companion_writes_and_reads() -> None:
    text = '{"orders":{"0":5,"1":7},"@west":{"epoch":3}}'
    assert with_mark({"orders": {"1": 7, "0": 5}}, ("west", 3)) == text
    assert read_mark(text) == (3, {"orders": {"0": 5, "1": 7}}, '{"orders":{"0":5,"1":7}}')
    assert read_mark('{"orders": {"0":5}}') == (0, {"orders": {"0": 5}}, '{"orders": {"0":5}}')
    assert read_mark('{"@west":{"epoch":3}}') == (3, {}, "{}")
    for strange in ('{"logOffset":3}', "7", '{"@west":{"epoch":"3"}}', '{"@west":{"epoch":3},"@x":{"epoch":4}}'):
        assert read_mark(strange) is None


def test_a_move_writes_one_file_and_touches_nothing_else(checkpoint: CheckpointFolder) -> None:
    before = held(checkpoint).files()
    report = prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    after = checkpoint.files()
    (name,) = after.keys() - before.keys()
    assert name == f"{MAPPINGS}/2-move.1"
    assert {path: text for path, text in after.items() if path != name} == before
    assert json.loads(after[name]) == {
        "version": 1, "epoch": 2, "operation": "move", "attempt": 1, "left": {"cluster": "east", "epoch": 0},
        "to": "west", "places": {"0": [{"there": orders(2), "here": orders(2, SHIFT)}]},
    }  # fmt: skip
    assert (report.checkpoint, report.data_batch, report.files) == (str(checkpoint.path), 3, 1)
    assert report.bytes == len(after[name])


TREATED = [
    (REPLAN, orders(2, SHIFT), orders(3, SHIFT), (orders(2, SHIFT), orders(3, SHIFT)), 3),
    (PROMOTE, orders(3, SHIFT), None, (orders(3, SHIFT), orders(3, SHIFT)), 4),
    (BRIDGE, orders(2, SHIFT), None, (orders(2, SHIFT), orders(2, SHIFT)), 4),
]


@pytest.mark.parametrize(("treatment", "target", "planned", "ends", "data_batch"), TREATED)
def test_both_ends_of_the_batch_in_flight_lead_where_its_treatment_says(
    checkpoint: CheckpointFolder,
    treatment: UncommittedBatch,
    target: dict[str, dict[str, int]],
    planned: dict[str, dict[str, int]] | None,
    ends: tuple[object, object],
    data_batch: int,
) -> None:
    checkpoint.plan(3)
    more = None if planned is None else {"orders": planned}
    report = moved(checkpoint, treatment, target_offsets={"orders": target}, planned_target_offsets=more)
    assert report.data_batch == data_batch
    assert offsets_at(checkpoint, WEST) == ({"orders": ends[0]}, {"orders": ends[1]})
    assert offsets_at(checkpoint, EAST) == ({"orders": orders(2)}, {"orders": orders(3)}), "before the commit"
    follower = Follower(FILES, str(checkpoint.path), SOURCES, WEST)
    assert follower.data_batch == data_batch
    assert [dict(batch.offsets) for batch in follower.poll()] == [{"orders": ends[0]}, {"orders": ends[1]}]


@pytest.mark.parametrize("treatment", [REPLAN, PROMOTE, BRIDGE])
def test_a_batch_that_was_never_planned_has_no_treatment(
    checkpoint: CheckpointFolder, treatment: UncommittedBatch
) -> None:
    with pytest.raises(MovedOn, match="batch 3 is not planned"):
        prepare(FILES, request(held(checkpoint), treatment), SOURCES, placed=EAST)
    assert all_moves(FILES, str(checkpoint.path)) == []


def test_an_entry_of_each_cluster_is_read_in_the_offsets_of_the_last(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    checkpoint.commit(3, marked(orders(3, SHIFT), "west", 2))
    assert offsets_at(checkpoint, WEST) == ({"orders": orders(3, SHIFT)}, None)
    returned(checkpoint, 3)
    assert offsets_at(checkpoint, HOME) == ({"orders": orders(3, BACK)}, None)
    assert read_log_end(FILES, str(checkpoint.path), HOME).previous is None, "of batch 2 nothing is known on east"
    checkpoint.commit(4, marked(orders(4, BACK), "east", 4))
    assert offsets_at(checkpoint, HOME) == ({"orders": orders(4, BACK)}, None)
    with pytest.raises(NoMapping, match="no mapping leads from there"):
        read_log_end(FILES, str(checkpoint.path), WEST)


def test_two_moves_without_a_batch_between_them_lead_on(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    returned(checkpoint, 2)
    assert offsets_at(checkpoint, HOME) == ({"orders": orders(2, BACK)}, None)


def test_an_offset_that_no_move_names_is_refused(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    entry = parse_offset_entry(offset_text(orders(1), {"logOffset": 4}).encode(), "offsets/1")
    moves = read_moves(FILES, str(checkpoint.path), WEST)
    with pytest.raises(NoMapping, match="operation move found no resume offset on west"):
        moves.on_active(entry, "offsets/1")
    known = parse_offset_entry(offset_text(orders(2), {"logOffset": 4}, None).encode(), "offsets/2")
    assert dict(moves.on_active(known, "offsets/2").sources) == {
        "0": with_mark(orders(2, SHIFT), None), "1": '{"logOffset":4}', "2": None,
    }  # fmt: skip


def test_a_batch_of_the_cluster_that_was_left_is_nothing_to_go_back_to(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    path = str(checkpoint.path)
    for batch in (3, 4):
        checkpoint.plan(batch, marked(orders(batch, SHIFT), "west", 2))
        later = offset_text(marked(orders(batch, SHIFT), "west", 2), planned_ms=PLANNED_MS + batch)
        checkpoint.write(f"offsets/{batch}", later)
        checkpoint.keep_state(batch + 1)
        checkpoint.write(f"commits/{batch}", checkpoint.text("commits/2"))
    found = read_retained(FILES, path, SOURCES, PLANNED_MS + 3, WEST)
    assert (found.oldest_ms, found.batch and found.batch.batch) == (PLANNED_MS, 3), "batch 2 is where it came"
    assert retained_since(FILES, path, WEST) == PLANNED_MS


def test_writing_the_same_again_changes_nothing(checkpoint: CheckpointFolder) -> None:
    first = prepare(FILES, request(held(checkpoint)), SOURCES, placed=EAST)
    before = checkpoint.files()
    again = prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    assert checkpoint.files() == before
    assert again.model_copy(update={"seconds": 0.0}) == first.model_copy(update={"seconds": 0.0})


def test_a_later_request_counts_and_an_earlier_one_comes_too_late(checkpoint: CheckpointFolder) -> None:
    prepare(FILES, request(held(checkpoint)), SOURCES, placed=EAST)
    later = request(checkpoint, attempt=2, target_offsets={"orders": orders(2, SHIFT + 1)})
    prepare(FILES, later, SOURCES, placed=EAST)
    with pytest.raises(TargetTaken, match="a later request of operation move"):
        prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    assert [move.attempt for move in all_moves(FILES, str(checkpoint.path))] == [1, 2]
    (move,) = read_moves(FILES, str(checkpoint.path), WEST).chain
    assert move.attempt == 2


def test_a_thawed_attempt_takes_only_its_own_mapping_back(
    checkpoint: CheckpointFolder,
) -> None:
    """It was frozen between writing its mapping and the check behind it; the later one was committed since."""

    class Frozen(LocalFiles):
        def create_atomically(self, path: str, content: bytes) -> bool:
            made = super().create_atomically(path, content)
            prepare(FILES, request(checkpoint, attempt=2), SOURCES, placed=EAST)
            unplant(FILES, str(checkpoint.path), "move")
            return made

    with pytest.raises((AlreadyRun, TargetTaken)):
        prepare(Frozen(), request(held(checkpoint)), SOURCES, placed=EAST)
    assert [move.name for move in all_moves(FILES, str(checkpoint.path))] == ["2-move.2"]
    assert offsets_at(checkpoint, WEST) == ({"orders": orders(2, SHIFT)}, None)


def test_only_what_an_operation_holds_may_it_map(checkpoint: CheckpointFolder) -> None:
    with pytest.raises(MovedOn, match="does not hold"):
        prepare(FILES, request(checkpoint), SOURCES, placed=EAST)
    assert all_moves(FILES, str(checkpoint.path)) == []
    moved(checkpoint)
    with pytest.raises(AlreadyRun, match="operation move has moved"):
        prepare(FILES, request(checkpoint), SOURCES, placed=EAST)


def test_a_mapping_that_comes_after_the_release_is_not_left(
    checkpoint: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that hung writes it when no one requests it any more."""

    class Late(LocalFiles):
        def create_atomically(self, path: str, content: bytes) -> bool:
            release(FILES, undo(checkpoint))
            return super().create_atomically(path, content)

    with pytest.raises(AlreadyRun):
        prepare(Late(), request(held(checkpoint)), SOURCES, placed=EAST)
    assert all_moves(FILES, str(checkpoint.path)) == []


def test_a_batch_committed_during_a_move_takes_the_mapping_back(checkpoint: CheckpointFolder) -> None:
    class Racing(LocalFiles):
        def create_atomically(self, path: str, content: bytes) -> bool:
            checkpoint.commit(3)
            return super().create_atomically(path, content)

    checkpoint.plan(3)
    held(checkpoint)
    with pytest.raises(MovedOn, match="at batch 3"):
        prepare(Racing(), request(checkpoint, BRIDGE), SOURCES, placed=EAST)
    assert all_moves(FILES, str(checkpoint.path)) == []


CASES = json.loads((Path(__file__).parents[4] / "cases" / "mappings.json").read_text())


@pytest.mark.parametrize("reported", CASES, ids=[each["name"] for each in CASES])
def test_the_moves_that_lead_to_a_place_are_the_ones_of_the_shared_cases(reported: dict[str, Any]) -> None:
    """The rule that the companion applies too, by the same cases (``MappingsTest.java``)."""
    found = [Move.model_validate(each) for each in reported["found"]]
    placed = Placed(reported["cluster"], reported["placed"])
    if "refused" in reported:
        with pytest.raises((WrongCluster, HalfWritten), match=reported["refused"]):
            chain_of(found, placed, "it")
        return
    moves = chain_of(found, placed, "it")
    assert [[move.epoch, move.attempt] for move in moves.chain] == reported["chain"]
    for text, wanted in reported["at"]:
        entry = replace(parse_offset_entry(offset_text({}).encode(), "it"), sources={"0": text})
        if wanted is None:
            with pytest.raises(NoMapping):
                moves.on_active(entry, "it")
        else:
            assert json.loads(moves.on_active(entry, "it").sources["0"] or "") == wanted


# -- the way back ----------------------------------------------------------------------------------------------------
def undo(folder: CheckpointFolder, operation: str = "move") -> ReleaseRequest:
    return ReleaseRequest(checkpoint=str(folder.path), planted=(), prepared=None, operation=operation, mapped=True)


def test_an_abort_leaves_the_checkpoint_as_it_was(checkpoint: CheckpointFolder) -> None:
    checkpoint.plan(3)
    before = checkpoint.files()
    held(checkpoint)
    prepare(FILES, request(checkpoint, BRIDGE), SOURCES, placed=EAST)
    assert release(FILES, undo(checkpoint)) == (4, 5)
    assert checkpoint.files() == before
    assert release(FILES, undo(checkpoint)) == (), "again"


@pytest.mark.parametrize("crash", ["before the entries", "before the epoch"])
def test_a_release_that_was_interrupted_is_finished(
    checkpoint: CheckpointFolder, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = checkpoint.files()
    held(checkpoint)
    prepare(FILES, request(checkpoint), SOURCES, placed=EAST)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(log_fence, "unplant" if crash == "before the entries" else "planted_epochs", die)
        with pytest.raises(KeyboardInterrupt):
            release(FILES, undo(checkpoint))
    release(FILES, undo(checkpoint))
    assert checkpoint.files() == before


def test_a_mapping_of_a_committed_move_is_not_taken_away(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    before = checkpoint.files()
    with pytest.raises(AlreadyRun, match=r"continued from .* on west"):
        release(FILES, undo(checkpoint))
    assert checkpoint.files() == before


def test_a_takeover_behind_the_commit_leaves_every_epoch(checkpoint: CheckpointFolder) -> None:
    """The runner was lost that was to start the query: the same operation fences it once more, with the next epoch.

    That epoch holds the lost run, which may be frozen; only the entries are in the way of the next one.
    """
    moved(checkpoint)
    held(checkpoint, epoch=3)
    taken_over = undo(checkpoint).model_copy(update={"mapped": False, "committed": True, "epoch": 3})
    assert release(FILES, taken_over) == (3, 4)
    assert planted_epochs(FILES, str(checkpoint.path)) == (Fence(2, "move"), Fence(3, "move"))


def test_a_release_leaves_what_its_operation_planted_under_a_later_epoch(checkpoint: CheckpointFolder) -> None:
    """It thaws behind another takeover of the same operation."""
    moved(checkpoint)
    held(checkpoint, epoch=4)
    late = undo(checkpoint).model_copy(update={"mapped": False, "committed": True, "epoch": 3})
    assert release(FILES, late) == ()
    assert kept_by(FILES, str(checkpoint.path), 2) == Fence(4, "move")


def test_the_entries_go_and_the_epoch_stays_where_the_query_continues(checkpoint: CheckpointFolder) -> None:
    held(checkpoint)
    assert unplant(FILES, str(checkpoint.path), "move") == (3, 4)
    assert unplant(FILES, str(checkpoint.path), "move") == ()
    assert planted_epochs(FILES, str(checkpoint.path)) == (Fence(2, "move"),)


# -- a store that was put back ---------------------------------------------------------------------------------------
def test_a_move_that_the_store_does_not_know_is_reported(checkpoint: CheckpointFolder) -> None:
    path = str(checkpoint.path)

    def required(placed: int, known: str = "", operation: str | None = None) -> None:
        require_unmoved(FILES, path, placed=placed, operation=operation, knows=known.__contains__)

    required(1)
    moved(checkpoint)
    assert kept_by(FILES, path, 1) == Fence(2, "move")
    assert kept_by(FILES, path, 2) is None
    required(2)
    required(1, "move")  # it was given up, and could not take its mapping away
    with pytest.raises(HeldByStranger, match=r"moved to west by operation move of epoch 2, which this store"):
        required(1)
    with pytest.raises(AlreadyRun, match=r"continues from .* on west since operation move"):
        required(1, "move", "move")
    held(checkpoint)
    required(1, "move", "move")


def test_a_mapping_of_an_operation_that_was_given_up_leads_nowhere(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    held(checkpoint, "other", 3)
    other = request(
        checkpoint, operation="other", epoch=3, cluster="north", offsets={"orders": orders(2, SHIFT)},
        target_offsets={"orders": orders(2, 7)},
    )  # fmt: skip
    prepare(FILES, other, SOURCES, placed=WEST)
    unplant(FILES, str(checkpoint.path), "other")
    assert offsets_at(checkpoint, WEST) == ({"orders": orders(2, SHIFT)}, None)
    returned(checkpoint, 2)
    assert [move.operation for move in read_moves(FILES, str(checkpoint.path), HOME).chain] == ["move", "home"]


def test_a_mapping_that_is_missing_or_broken_is_an_error(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    returned(checkpoint, 2)
    first = checkpoint.path / MAPPINGS / "2-move.1"
    first.write_text('{"version":9}')
    with pytest.raises(MalformedEntry, match=r"2-move\.1 is not a mapping"):
        read_log_end(FILES, str(checkpoint.path), HOME)
    first.unlink()
    with pytest.raises(
        HalfWritten, match="left west of epoch 2, and _tideover_mappings has no mapping that leads there"
    ):
        read_log_end(FILES, str(checkpoint.path), HOME)


def test_a_carry_takes_a_switched_query_back_to_sparks_own_offsets(checkpoint: CheckpointFolder) -> None:
    moved(checkpoint)
    checkpoint.commit(3, marked(orders(3, SHIFT), "west", 2))
    target = checkpoint.path.parent / "epoch-4-back"
    back = request(
        checkpoint, operation="back", epoch=4, resume="carry", target=str(target), cluster="east", batch=3,
        offsets={"orders": orders(3, SHIFT)}, target_offsets={"orders": orders(3, BACK)},
    )  # fmt: skip
    prepare(FILES, back, SOURCES, placed=WEST)
    made = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert not any(name.startswith(MAPPINGS) for name in made)
    assert "@" not in (target / "offsets" / "3").read_text() + (target / "offsets" / "2").read_text()
    assert read_checkpoint(FILES, str(target), SOURCES, placed=EAST).offsets == {"orders": orders(3, BACK)}


def named(epoch: int, left: tuple[str, int], to: str, attempt: int = 1) -> Move:
    origin = Left(cluster=left[0], epoch=left[1])
    return Move(epoch=epoch, operation=f"op{epoch}", attempt=attempt, left=origin, to=to, places={"0": ()})


OUT, BACK_HOME = named(2, ("east", 0), "west"), named(4, ("west", 2), "east")


@pytest.mark.parametrize(
    ("found", "kept"),
    [([OUT, BACK_HOME], []), ([OUT], [BACK_HOME]), ([BACK_HOME], [OUT]), ([], [OUT, BACK_HOME])],
)
def test_links_that_are_missing_are_those_that_the_store_kept(found: list[Move], kept: list[Move]) -> None:
    chain = chain_with(found, kept, "4-op4.1", HOME, "it").chain
    assert chain == (OUT, BACK_HOME)


def test_a_later_attempt_that_was_not_committed_does_not_count() -> None:
    late = named(4, ("west", 2), "east", attempt=2)
    assert chain_with([OUT], [BACK_HOME, late], "4-op4.1", HOME, "it").chain == (OUT, BACK_HOME)
    with pytest.raises(Contradicted, match=r"came here by mapping 4-op4\.1, but _tideover_mappings has 4-op4\.2"):
        chain_with([OUT, late], [BACK_HOME], "4-op4.1", HOME, "it")


def test_a_missing_mapping_of_the_chain_is_refused() -> None:
    with pytest.raises(HalfWritten, match="by a mapping of epoch 4"):
        chain_with([OUT], [], "4-op4.1", HOME, "it")
    with pytest.raises(HalfWritten, match="no mapping that leads there"):
        chain_with([], [BACK_HOME], "4-op4.1", HOME, "it")


def test_a_file_that_differs_from_what_was_kept_of_it_is_refused() -> None:
    other = BACK_HOME.model_copy(update={"places": {"1": ()}})
    with pytest.raises(Contradicted, match=r"it/_tideover_mappings/4-op4\.1 says something else"):
        chain_with([OUT, other], [BACK_HOME], "4-op4.1", HOME, "it")
    unused = named(3, ("east", 0), "north")
    assert chain_with([OUT, BACK_HOME, unused], [OUT, unused.model_copy(update={"to": "south"})], "4-op4.1", HOME, "it")
