"""Notes outlive their process: how long a start may take effect, and for which place it was."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import MalformedEntry
from streaming.spark.external.start_notes import STARTED, StartNotes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def notes(folder: Path, seconds: float = 0.0) -> StartNotes:
    return StartNotes(LocalFiles(), str(folder), lambda: NOW + timedelta(seconds=seconds))


def test_a_start_is_owed_until_its_time_is_over_or_it_is_settled(tmp_path: Path) -> None:
    assert (notes(tmp_path).owed(), notes(tmp_path).is_unsettled) == (None, False)
    notes(tmp_path).begin(300.0)
    assert notes(tmp_path, 299.0).owed() == (
        "a start was begun and not seen to run, and it may take effect until 12:05:00 UTC"
    )
    assert (notes(tmp_path, 300.0).owed(), notes(tmp_path, 300.0).is_unsettled) == (None, True)
    notes(tmp_path).settle()
    assert (notes(tmp_path).owed(), notes(tmp_path).is_unsettled) == (None, False)


def test_the_place_of_a_start_is_forgotten_and_an_unsettled_start_is_not(tmp_path: Path) -> None:
    notes(tmp_path).keep("2-op.1")
    notes(tmp_path).begin(300.0)
    assert (notes(tmp_path).has("2-op.1"), notes(tmp_path).has("3-op.1")) == (True, False)
    notes(tmp_path).forget()
    assert (notes(tmp_path).has("2-op.1"), notes(tmp_path).is_unsettled) == (False, True)


def test_a_note_that_cannot_be_read_is_owed(tmp_path: Path) -> None:
    (tmp_path / STARTED).mkdir()
    (tmp_path / STARTED / "begun").write_text("{")
    with pytest.raises(MalformedEntry, match="does not say until when"):
        notes(tmp_path).until()
    assert "cannot be read" in str(notes(tmp_path).owed())
