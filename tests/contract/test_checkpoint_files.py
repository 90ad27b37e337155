"""What every adapter of the file port promises: the same suite for the local one and for Hadoop's."""

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state.settings.keys import Tideover
from streaming.spark.checkpoint.files import CheckpointFiles, LocalFiles, join
from streaming.spark.errors import AccessDenied, FileSystemError, FileVanished, UnsafeCheckpoint, UnsafeFileSystem
from streaming.spark.runner.service import require_exclusive_create
from tests.jars import connector_jars, hadoop_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["local", pytest.param("hadoop", marks=pytest.mark.real)])
def files(request: pytest.FixtureRequest) -> Iterator[CheckpointFiles]:
    if request.param == "local":
        yield LocalFiles()
    else:
        yield request.getfixturevalue("hadoop_files")


@pytest.fixture(scope="module")
def hadoop_files() -> Iterator[CheckpointFiles]:
    from pyspark.sql import SparkSession

    from streaming.spark.checkpoint.hadoop_files import HadoopFiles

    conf = {"spark.ui.enabled": "false", "spark.jars": connector_jars()}
    session = SparkSession.builder.master("local[1]").config(map={**conf}).getOrCreate()
    yield HadoopFiles(session)
    session.stop()


@pytest.fixture
def default_on_oss(hadoop_files: CheckpointFiles) -> Iterator["SparkSession"]:
    """A session, while Hadoop's default file system is an object store."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    with hadoop_settings(session, {"fs.defaultFS": "oss://bucket"}):
        yield session


@pytest.fixture(params=["path", "uri"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that is there and empty, as a plain path and as a URI."""
    return str(tmp_path) if request.param == "path" else tmp_path.as_uri()


@pytest.mark.real
def test_a_file_of_hdfs_is_replaced_by_a_rename_over_it(hadoop_files: CheckpointFiles, tmp_path: Path) -> None:
    """The way that HDFS takes, here on a local disk: a reader who has the old file open reads it to its end."""
    from streaming.spark.checkpoint.hadoop_files import HadoopFiles

    assert isinstance(hadoop_files, HadoopFiles)
    path = tmp_path / "offsets" / "7"
    path.parent.mkdir()
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        hadoop_files._put_over(hadoop_files._path(str(path)), b"new one")
        assert (reader.read(), path.read_bytes()) == (b"old", b"new one")
    assert [each.name for each in path.parent.iterdir() if not each.name.endswith(".crc")] == ["7"]


def test_a_missing_directory_has_no_names_and_no_files(files: CheckpointFiles, folder: str) -> None:
    assert list(files.list_names(join(folder, "none"))) == []
    assert files.walk(join(folder, "none")) == {}
    assert not files.exists(join(folder, "none"))


def test_names_are_sorted_and_leave_checksum_files_out(files: CheckpointFiles, folder: str, tmp_path: Path) -> None:
    files.replace(join(folder, "b"), b"1")
    files.replace(join(folder, "a", "c"), b"22")
    (tmp_path / ".b.crc").touch()
    assert list(files.list_names(folder)) == ["a", "b"]


def test_a_tree_is_listed_with_sizes_and_relative_paths(files: CheckpointFiles, folder: str) -> None:
    files.replace(join(folder, "b"), b"1")
    files.replace(join(folder, "a", "c", "d"), b"22")
    files.make_dirs(join(folder, "empty"))
    files.replace(join(folder, "a", ".e.tmp"), b"333")
    assert dict(files.walk(folder)) == {"a/.e.tmp": 3, "a/c/d": 2, "b": 1}


@pytest.mark.parametrize("name", ["a;b", "a; isDirectory=true", "a; isDirectory=false; length=9", "a,b=ä (1)"])
def test_a_name_of_any_characters_is_listed(files: CheckpointFiles, tmp_path: Path, name: str) -> None:
    folder = str(tmp_path)
    for each in (f"{name}.x", join(name, f"{name}.x"), join("z", f"{name}.x")):
        files.replace(join(folder, each), b"four")
    files.replace(join(folder, "z", "zz"), b"")
    assert dict(files.walk(folder)) == {f"{name}.x": 4, f"{name}/{name}.x": 4, f"z/{name}.x": 4, "z/zz": 0}
    assert list(files.list_names(folder)) == sorted([f"{name}.x", name, "z"])


def test_a_link_is_known_from_what_it_leads_to(files: CheckpointFiles, folder: str, tmp_path: Path) -> None:
    files.replace(join(folder, "there", "x"), b"1")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    found = [files.is_link(join(folder, name)) for name in ("link", "broken", "there", "link/x", "none")]
    assert found == [True, True, False, False, False]


def test_bytes_come_back_as_they_were_written(files: CheckpointFiles, folder: str) -> None:
    content = bytes(range(256)) * 40
    files.replace(join(folder, "x"), content)
    assert files.read_bytes(join(folder, "x")) == content
    assert files.size(join(folder, "x")) == len(content)
    files.replace(join(folder, "x"), b"")
    assert files.read_bytes(join(folder, "x")) == b""


def test_a_replaced_file_is_readable_whatever_checksum_was_beside_it(
    files: CheckpointFiles, folder: str, tmp_path: Path
) -> None:
    files.replace(join(folder, "x"), b"first")
    (tmp_path / ".x.crc").write_bytes(b"crc\0\0\0\2\0stale")
    files.replace(join(folder, "x"), b"second")
    assert files.read_bytes(join(folder, "x")) == b"second"
    assert not (tmp_path / ".x.crc").exists() or (tmp_path / ".x.crc").read_bytes() != b"crc\0\0\0\2\0stale"


def test_an_atomic_create_refuses_a_taken_name_and_leaves_nothing_beside(
    files: CheckpointFiles, folder: str, tmp_path: Path
) -> None:
    assert files.create_atomically(join(folder, "sub", "x"), b"first")
    assert not files.create_atomically(join(folder, "sub", "x"), b"second")
    assert files.read_bytes(join(folder, "sub", "x")) == b"first"
    assert {name for name in os.listdir(tmp_path / "sub") if name not in {"x", ".x.crc"}} == set()  # noqa: PTH208 - the port hides what is looked for


def test_neither_of_two_copies_sees_what_becomes_of_the_other(files: CheckpointFiles, folder: str) -> None:
    """As a checkpoint's files are treated: replaced whole, and deleted."""
    one, two, three = (join(folder, name) for name in ("one", "two", "three"))
    files.replace(one, b"as it was")
    files.copy([(one, two), (one, three)])
    files.replace(one, b"written again")
    files.delete(two)
    assert (files.read_bytes(one), files.read_bytes(three)) == (b"written again", b"as it was")
    files.copy([(one, three)])
    assert files.read_bytes(three) == b"written again"


def test_a_local_copy_is_another_name_of_the_same_file(tmp_path: Path) -> None:
    files, old, new = LocalFiles(), tmp_path / "old", tmp_path / "sub" / "new"
    old.write_bytes(b"5 GB of state")
    assert files.copies_by_name(str(tmp_path), str(new.parent))
    files.copy([(str(old), str(new))])
    assert new.samefile(old)


def test_a_file_system_without_second_names_gets_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"state")
    LocalFiles().copy([(str(old), str(new))])
    assert new.read_bytes() == b"state"
    assert not new.samefile(old)


def test_of_those_who_race_for_a_name_exactly_one_wins(files: CheckpointFiles, folder: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for attempt in range(20):
            path = join(folder, str(attempt))
            contents = [f"{attempt} {racer}".encode() * 50 for racer in range(8)]
            won = list(pool.map(lambda content, path=path: files.create_atomically(path, content), contents))
            assert sum(won) == 1
            assert files.read_bytes(path) == contents[won.index(True)]


@pytest.mark.real
@pytest.mark.parametrize("path", ["oss://bucket/x", "viewfs://all/x", "/by-default/x"])
def test_nothing_is_created_where_two_could_win(
    hadoop_files: CheckpointFiles, default_on_oss: "SparkSession", path: str
) -> None:
    with pytest.raises(UnsafeFileSystem, match="two drivers could both create one entry"):
        hadoop_files.create_atomically(path, b"mine")


@pytest.mark.real
def test_a_runner_refuses_a_default_file_system_where_two_could_win(default_on_oss: "SparkSession") -> None:
    query = {"pipeline": "a:b", "sources": {"o": {"topics": ["o"]}}, "clusters": ["east", "west"], "runners": ["a"]}
    settings = Tideover.model_validate({
        "store": "sqlite:///x.db",
        "clusters": {name: {"bootstrap": [f"{name}:9092"]} for name in ("east", "west")},
        "routes": [{"from": "east", "to": "west"}],
        "runners": {"a": {}, "b": {}},
        "queries": {"revenue": {**query, "checkpoint": "/var/revenue"}},
    })  # fmt: skip
    require_exclusive_create(default_on_oss, settings, "b", Path("/"))
    with pytest.raises(UnsafeCheckpoint, match=r"queries.revenue.checkpoint: /var/revenue is on oss, by fs.defaultFS"):
        require_exclusive_create(default_on_oss, settings, "a", Path("/"))


def test_many_files_are_copied_over_what_was_there(files: CheckpointFiles, folder: str) -> None:
    for index in range(30):
        files.replace(join(folder, "from", str(index)), f"text {index}".encode())
    files.replace(join(folder, "to", "3"), b"old and longer than the new one")
    files.copy((join(folder, "from", str(index)), join(folder, "to", str(index))) for index in range(30))
    assert [files.read_bytes(join(folder, "to", str(index))) for index in range(30)] == [
        f"text {index}".encode() for index in range(30)
    ]


def test_a_vanished_file_raises_file_vanished(files: CheckpointFiles, folder: str) -> None:
    with pytest.raises(FileVanished):
        files.read_bytes(join(folder, "none"))
    with pytest.raises(FileVanished):
        files.size(join(folder, "none"))
    with pytest.raises(FileVanished):
        files.copy([(join(folder, "none"), join(folder, "to"))])
    with pytest.raises(FileVanished):
        files.rename(join(folder, "none"), join(folder, "to"))


def test_deleting_removes_the_checksum_too_and_reports_a_missing_file(
    files: CheckpointFiles, folder: str, tmp_path: Path
) -> None:
    files.replace(join(folder, "x"), b"1")
    files.replace(join(folder, "d", "y"), b"1")
    assert files.delete(join(folder, "x"))
    assert not files.delete(join(folder, "x"))
    assert files.delete(join(folder, "d"), recursive=True)
    assert list(tmp_path.iterdir()) == []


def test_a_renamed_file_is_readable_under_its_new_name_only(files: CheckpointFiles, folder: str) -> None:
    files.replace(join(folder, "x"), b"1")
    files.rename(join(folder, "x"), join(folder, "y"))
    assert list(files.list_names(folder)) == ["y"]
    assert files.read_bytes(join(folder, "y")) == b"1"


def test_free_space_is_known_for_a_folder_that_does_not_exist_yet(files: CheckpointFiles, folder: str) -> None:
    free = files.free_space(join(folder, "to", "be", "made"))
    assert free is not None
    assert free > 0


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, AccessDenied), (errno.EPERM, AccessDenied), (errno.EIO, FileSystemError)]
)
def test_errors_that_no_retry_can_heal_have_their_own_kind(
    number: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(kind, match=os.strerror(number)) as raised:
        LocalFiles().read_bytes("/anywhere")
    assert type(raised.value) is kind


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_created_file_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A power cut leaves a whole file or none, and a name that was there when the call returned stays."""
    reported: list[str] = []
    sync, link, rename = os.fsync, os.link, os.replace

    def named(_source: object, target: object, *_: object, **__: object) -> None:
        reported.append(f"name {Path(str(target)).name}")

    def synced(descriptor: int) -> None:
        found = Path(f"/proc/self/fd/{descriptor}").readlink()
        reported.append("folder" if found.is_dir() else f"content of {found.stat().st_size} bytes")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", lambda *given, **more: (named(*given), link(*given, **more)))
    monkeypatch.setattr(os, "replace", lambda *given, **more: (named(*given), rename(*given, **more)))
    target = tmp_path / "_tideover_mappings" / "2-op.1"
    if verb == "create":
        assert LocalFiles().create_atomically(str(target), b"four")
    else:
        LocalFiles().replace(str(target), b"four")
    assert reported == ["content of 4 bytes", "name 2-op.1", "folder", "folder"]
    assert target.read_bytes() == b"four"
