"""Files with secrets are there as a whole, private, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from orchestrator.config.secret_files import secret_files
from orchestrator.errors import UsageError


def test_files_are_private_and_stay_if_the_block_ends_well(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    before = os.umask(0)
    try:
        for _ in range(2):  # again: a file that has the text already is left as it is
            with secret_files(folder, {"east.password": "hidden"}):
                pass
    finally:
        os.umask(before)
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("east.password", "hidden")]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.iterdir())] == [0o700, 0o600]


def test_after_an_error_only_what_was_there_before_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    with pytest.raises(KeyError), secret_files(folder, {"east.password": "hidden"}):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    (folder / "east.password").write_text("hidden")
    with pytest.raises(KeyError), secret_files(folder, {"east.password": "hidden", "west.password": "hidden"}):
        raise KeyError
    assert [each.name for each in folder.iterdir()] == ["east.password"]


def test_a_file_with_another_secret_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "east.password").write_text("older")
    both = {"a.password": "hidden", "east.password": "hidden"}
    with pytest.raises(UsageError, match=r"east.password is there already"), secret_files(tmp_path, both):
        pytest.fail("the block may not begin")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("east.password", "older")]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"), secret_files(tmp_path / "a" / "secrets", {"x": "hidden"}):
        pytest.fail("the block may not begin")
    (tmp_path / "secrets").touch()
    with (
        pytest.raises(UsageError, match="cannot be written") as refused,
        secret_files(tmp_path / "secrets", {"x": "y"}),
    ):
        pytest.fail("the block may not begin")
    assert refused.value.hint
