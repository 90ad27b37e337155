"""What holds names of queries and people is its owner's alone, under the widest umask."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.facts.evidence.folder import write_once
from state.private_files import make_private_file, make_private_folder, private_writer
from state.store.sql.migrate import copy_store, open_store
from streaming.spark.tracking.spool import Spool
from tests.unit.streaming.spark.tracking.test_spool import KEPT


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_store_and_its_copy_are_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "deep" / "tideover.db"
    with closing(open_store(f"sqlite:///{file}")):
        found = {each.name: oct(mode(each)) for each in file.parent.iterdir()}
        assert found == dict.fromkeys(("tideover.db", "tideover.db-wal", "tideover.db-shm"), "0o600")
        copied = copy_store(f"sqlite:///{file}", "0001")
    assert copied is not None
    assert [oct(mode(each)) for each in (copied, file.parent, file.parent.parent)] == ["0o600", "0o700", "0o700"]


def test_a_store_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "tideover.db"
    with closing(open_store(f"sqlite:///{file}")):
        pass
    file.chmod(0o660)
    with closing(open_store(f"sqlite:///{file}")):
        assert oct(mode(file)) == "0o660"


def test_a_spool_is_private(tmp_path: Path) -> None:
    Spool(tmp_path / "state" / "east.spool").save(KEPT)
    assert [oct(mode(each)) for each in (tmp_path / "state" / "east.spool", tmp_path / "state")] == ["0o600", "0o700"]


def test_a_document_of_evidence_is_private(tmp_path: Path) -> None:
    write_once(tmp_path / "evidence" / "000001.json", "{}")
    assert oct(mode(tmp_path / "evidence" / "000001.json")) == "0o600"


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")
    with pytest.raises(FileExistsError), private_writer(tmp_path / "file", is_new=True):
        pass


def test_a_file_that_is_there_is_not_opened_so_that_locks_on_it_stay(tmp_path: Path) -> None:
    file = tmp_path / "tideover.db"
    make_private_file(file)
    with file.open("r+b") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        make_private_file(file)
        look = f"import fcntl; fcntl.lockf(open({str(file)!r}, 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        other = subprocess.run([sys.executable, "-c", look], capture_output=True, check=False)
        assert b"BlockingIOError" in other.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["tideover.db"]
