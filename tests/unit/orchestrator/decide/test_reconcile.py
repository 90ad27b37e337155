"""A row that is written by hand, or as files show: what of the old one it keeps."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orchestrator.decide.reconcile import older_than, place_text, repeats_text, taken_as_found, vouched
from state.model.entities import Assignment, Position, SeenCheckpoint
from state.model.found_places import FoundPlace
from tests.contract import samples

AT = datetime(2026, 12, 1, tzinfo=UTC)
STORED = samples.assignment(
    checkpoint="s3a://lost/revenue", cluster="west", mapping="2-move.1", epoch=3, placed_epoch=2, operation="move"
)


def found(checkpoint: str, mapping: str | None = "2-move.1", batch: int | None = None) -> FoundPlace:
    return FoundPlace(
        query=STORED.query, runner="a", instance="one", row_epoch=3, checkpoint=checkpoint, cluster="west",
        mapping=mapping, batch=batch, epoch=2, moved_by="move", held_by=None, held_epoch=None, found_at=AT,
        text=f"s3a://lost/revenue cannot be read, and {checkpoint} holds the newest batch",
    )  # fmt: skip


def taken(place: FoundPlace) -> Assignment:
    return taken_as_found(STORED, place, cluster="west", runner="a", reported_epoch=3, at=AT)


def test_a_copy_of_the_folder_keeps_what_was_tracked() -> None:
    now = taken(found("s3a://copy/revenue"))
    assert (now.checkpoint, now.mapping, now.epoch, now.placed_epoch) == ("s3a://copy/revenue", "2-move.1", 4, 2)
    assert now.operation is None


@pytest.mark.parametrize("place", [found("s3a://copy/revenue/epoch-3-op"), found("s3a://copy/revenue", "1-other.1")])
def test_another_place_than_a_copy_was_reached_later(place: FoundPlace) -> None:
    assert taken(place).placed_epoch == 3


def test_a_copy_is_not_called_a_restored_store() -> None:
    copy, moved = found("s3a://copy/revenue"), found("s3a://copy/revenue/epoch-3-op")
    why = older_than(STORED, copy, lambda _: True)
    assert why is not None
    assert why.endswith("In the store revenue is on west with mapping 2-move.1")
    assert "backup" not in place_text(STORED, why, copy)
    assert place_text(STORED, why, copy).endswith("tideover reconcile revenue")
    assert "restored from a backup" in place_text(STORED, why, moved)


def test_a_copy_that_a_person_names_keeps_its_mapping() -> None:
    now = vouched(STORED, cluster="west", checkpoint="s3a://copy/revenue", runner="b", at=AT, reported_epoch=5)
    assert (now.mapping, now.placed_epoch, now.epoch, now.runner) == ("2-move.1", 2, 6, "b")
    other = vouched(STORED, cluster="east", checkpoint="s3a://copy/revenue", runner="b", at=AT)
    assert (other.mapping, other.placed_epoch) == (None, 3)


SEEN = SeenCheckpoint("s3a://lost/revenue", 3, 14, 14, "id", True)


def ends(batch: int, *offsets: int, epoch: int = 3) -> list[Position]:
    return [
        samples.position(epoch=epoch, cluster="west", partition=number, batch=batch, offset=offset)
        for number, offset in enumerate(offsets)
    ]


@pytest.mark.parametrize(
    ("batch", "positions", "many"),
    [
        (12, ends(12, 100, 50) + ends(14, 160, 50), "batches 13 to 14 would run again: at most 60 records"),
        (13, ends(13, 100) + ends(14, 101), "batch 14 would run again: at most 1 record"),
        (12, ends(14, 160, 50), "batches 13 to 14 would run again: how many records is unknown"),
        (12, ends(12, 100) + ends(14, 160, 50), "batches 13 to 14 would run again: how many records is unknown"),
        (12, ends(12, 100, epoch=1) + ends(14, 160), "batches 13 to 14 would run again: how many records is unknown"),
        (12, ends(12, 200) + ends(14, 160), "batches 13 to 14 would run again: how many records is unknown"),
    ],
    ids=["two", "one", "not tracked", "a partition more", "of another place", "backwards"],
)
def test_an_older_copy_names_what_would_run_again(batch: int, positions: list[Position], many: str) -> None:
    place = found("s3a://copy/revenue", batch=batch)
    assert repeats_text(STORED, SEEN, place, positions) == f"of what was reported, {many}"


def test_nothing_runs_again_where_nothing_is_known_to_be_missing() -> None:
    known = ends(12, 100) + ends(14, 160)
    for batch in (14, 15, None):
        assert repeats_text(STORED, SEEN, found("s3a://copy/revenue", batch=batch), known) is None
    elsewhere = found("s3a://copy/revenue/epoch-3-op", batch=12)
    for place in (None, elsewhere, replace(found("s3a://copy/revenue", batch=12), row_epoch=2)):
        assert repeats_text(STORED, SEEN, place, known) is None
    assert repeats_text(STORED, None, found("s3a://copy/revenue", batch=12), known) is None
