"""The stores of a checkpoint that a Spark before 4.0 wrote are counted from its folders."""

from pathlib import Path

import pytest

from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.operators import UNNAMED, deduplicates_ahead, read_operators
from streaming.spark.errors import HalfWritten


def keep(checkpoint: Path, *paths: str) -> None:
    for each in paths:
        path = checkpoint / "state" / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("state")


def test_an_aggregation_has_one_store_for_each_partition(tmp_path: Path) -> None:
    keep(tmp_path, "0/0/1.delta", "0/1/1.delta", "0/0/_metadata/schema")
    (operator,) = read_operators(LocalFiles(), str(tmp_path))
    assert (operator.name, dict(operator.stores)) == (UNNAMED, {"default": 2})
    assert operator.directories == {"0/0", "0/1"}


def test_a_join_has_four(tmp_path: Path) -> None:
    stores = [f"{side}-{kind}" for side in ("left", "right") for kind in ("keyToNumValues", "keyWithIndexToValue")]
    keep(tmp_path, *(f"0/{partition}/{store}/1.delta" for partition in (0, 1) for store in stores))
    (operator,) = read_operators(LocalFiles(), str(tmp_path))
    assert dict(operator.stores) == dict.fromkeys(stores, 2)


def test_nothing_is_believed_of_what_an_unnamed_operator_does(tmp_path: Path) -> None:
    keep(tmp_path, "0/0/1.delta", "1/0/1.delta")
    assert deduplicates_ahead(read_operators(LocalFiles(), str(tmp_path)), 1) is False


@pytest.mark.parametrize(
    "paths",
    [
        ("0/0/1.delta", "0/2/1.delta"),
        ("0/0/left-keyToNumValues/1.delta", "0/1/1.delta"),
    ],
)
def test_partitions_that_are_missing_or_differ_are_named(tmp_path: Path, paths: tuple[str, ...]) -> None:
    keep(tmp_path, *paths)
    with pytest.raises(HalfWritten, match="operator 0"):
        read_operators(LocalFiles(), str(tmp_path))


def test_one_operator_with_metadata_means_that_the_other_lost_its_own(tmp_path: Path) -> None:
    keep(tmp_path, "0/0/1.delta", "1/0/1.delta", "1/_metadata/other")
    with pytest.raises(HalfWritten, match="operator 0"):
        read_operators(LocalFiles(), str(tmp_path))
