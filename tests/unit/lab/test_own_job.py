"""The judge of the demo of an application: lost, repeated and counted records."""

from pathlib import Path

import pytest

from lab.own_job import count, page


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Three orders were acknowledged, one record is foreign, and both queries have every order once."""
    (tmp_path / "acked").mkdir()
    (tmp_path / "acked" / "p.ids").write_text("0 1 2\n1 1 2\n2 1 2\n9 1 -1\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "archive.txt").write_text("0 0\n0 1\n1 2\n")
    (tmp_path / "shop" / "totals.json").write_text('{"0": [2, 1], "1": [1, 2]}')
    return tmp_path


def test_every_record_once_is_exact(world: Path) -> None:
    found = count(world, world / "shop")
    assert found.is_exact
    assert page(found)[-1] == "verdict: every record counted once"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("archive.txt", "0 0\n0 1\n"),
        ("archive.txt", "0 0\n0 1\n1 2\n1 2\n"),
        ("totals.json", '{"0": [2, 1], "1": [2, 4]}'),
    ],
    ids=["lost", "repeated", "counted twice"],
)
def test_a_record_that_is_lost_or_repeated_is_found(file: str, text: str, world: Path) -> None:
    (world / "shop" / file).write_text(text)
    found = count(world, world / "shop")
    assert not found.is_exact
    assert page(found)[-1] == "verdict: records were lost or repeated"


def test_before_the_first_batch_every_record_is_missing(world: Path) -> None:
    (world / "shop" / "archive.txt").unlink()
    (world / "shop" / "totals.json").unlink()
    assert (count(world, world / "shop").lost, count(world, world / "shop").counted) == (3, 0)
