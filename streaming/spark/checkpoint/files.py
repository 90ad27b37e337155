"""The port through which a checkpoint's files are touched, whatever scheme they live on; and plain local files behind
it.

Paths are text: absolute paths or URIs, joined with ``/``. ``streaming.spark.checkpoint.hadoop_files.HadoopFiles``
fulfils it through Spark's own Hadoop file system, so that what Spark can reach, Tideover can carry. ``LocalFiles`` does
without Spark, for plain paths and ``file:`` URIs. Both keep Hadoop's checksum side files (``.name.crc``) out of sight
and right: a stale one makes the next reader fail.

Errors: ``FileVanished`` (not there), ``NoSpace`` (full), ``AccessDenied``, ``FileSystemError`` (anything else).
"""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlparse

from streaming.spark.errors import AccessDenied, FileSystemError, FileVanished, NoSpace


def join(directory: str, *names: str) -> str:
    """Path of a file below a directory."""
    return "/".join([directory.rstrip("/"), *names])


class CheckpointFiles(Protocol):
    """A few verbs on files; every one may raise ``FileSystemError``."""

    def list_names(self, directory: str) -> Sequence[str]:
        """Names in a directory, sorted; empty when it does not exist."""

    def walk(self, directory: str) -> Mapping[str, int]:
        """Every file below a directory, as path relative to it, with its size in bytes; empty when there is none."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a symbolic link; False when nothing is there."""

    def size(self, path: str) -> int:
        """Bytes of a file. Raises ``FileVanished``."""

    def read_bytes(self, path: str) -> bytes:
        """The whole content. Raises ``FileVanished``."""

    def create_atomically(self, path: str, content: bytes) -> bool:
        """Make a file that is complete as soon as it is seen, and stays so through a power cut; False if the name is
        taken. Of several racing for one name exactly one wins. Makes the directory."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a file, there or not; the name is never without a file. Makes the directory."""

    def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Copy files, each ``(source, target)``; makes directories. Raises ``FileVanished`` when a source is gone.

        On a local disk a copy is another name of the same file where that can be. Spark writes a file of its state once
        and deletes it later. So neither checkpoint sees what becomes of the other, and five gigabytes take no time.
        """

    def copies_by_name(self, source: str, target: str) -> bool:
        """Whether copies between these folders are such names, which take no room."""

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file, or with ``recursive`` a tree; False when it was not there."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name. Raises ``FileVanished``."""

    def make_dirs(self, directory: str) -> None:
        """Make a directory and those above it."""

    def free_space(self, directory: str) -> int | None:
        """Bytes that can still be written there; None where the file system does not know."""


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


class LocalFiles:
    """``CheckpointFiles`` by the standard library; leaves no checksum side files, and removes stale ones."""

    def list_names(self, directory: str) -> Sequence[str]:
        folder = _path(directory)
        with _translated(directory):
            return (
                sorted(entry.name for entry in folder.iterdir() if not _is_checksum(entry)) if folder.is_dir() else []
            )

    def walk(self, directory: str) -> Mapping[str, int]:
        root = _path(directory)
        with _translated(directory):
            found: dict[str, int] = {}
            for folder, _, names in os.walk(root, onerror=_raise_unless_gone):
                for path in (Path(folder, name) for name in names):
                    with contextlib.suppress(FileNotFoundError):  # Spark renames its drafts during this look
                        if path.is_file() and not _is_checksum(path):
                            found[path.relative_to(root).as_posix()] = path.stat().st_size
            return dict(sorted(found.items()))

    def exists(self, path: str) -> bool:
        return _path(path).exists()

    def is_link(self, path: str) -> bool:
        return _path(path).is_symlink()

    def size(self, path: str) -> int:
        with _translated(path):
            return _path(path).stat().st_size

    def read_bytes(self, path: str) -> bytes:
        with _translated(path):
            return _path(path).read_bytes()

    def create_atomically(self, path: str, content: bytes) -> bool:
        target = _path(path)
        with _translated(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.{uuid.uuid4()}.tmp")
            try:
                _write_durably(draft, content)
                os.link(draft, target)  # refuses an existing name, and shows only complete content
            except FileExistsError:
                if not draft.samefile(target):  # ours, where a share linked it and its answer was lost
                    return False
            finally:
                draft.unlink(missing_ok=True)
            _checksum_of(target).unlink(missing_ok=True)
            _keep_names(target.parent)
        return True

    def replace(self, path: str, content: bytes) -> None:
        target = _path(path)
        with _translated(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            _checksum_of(target).unlink(missing_ok=True)
            draft = target.with_name(f".{target.name}.{uuid.uuid4()}.tmp")
            try:
                _write_durably(draft, content)
                draft.replace(target)  # it may be another name of a file of another checkpoint: that one stays
            finally:
                draft.unlink(missing_ok=True)
            _keep_names(target.parent)

    def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
        for source, target in pairs:
            with _translated(source):
                _path(target).parent.mkdir(parents=True, exist_ok=True)
                _checksum_of(_path(target)).unlink(missing_ok=True)
                _copy(_path(source), _path(target))

    def copies_by_name(self, source: str, target: str) -> bool:
        with _translated(source):
            return _above(source).stat().st_dev == _above(target).stat().st_dev

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        target = _path(path)
        with _translated(path):
            if target.is_dir():
                shutil.rmtree(target) if recursive else target.rmdir()
                return True
            _checksum_of(target).unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                target.unlink()
                return True
        return False

    def rename(self, source: str, target: str) -> None:
        with _translated(source):
            _path(source).rename(_path(target))
            with contextlib.suppress(FileNotFoundError):
                _checksum_of(_path(source)).rename(_checksum_of(_path(target)))

    def make_dirs(self, directory: str) -> None:
        with _translated(directory):
            _path(directory).mkdir(parents=True, exist_ok=True)

    def free_space(self, directory: str) -> int | None:
        with _translated(directory):
            return shutil.disk_usage(_above(directory)).free


def _write_durably(path: Path, content: bytes) -> None:
    """Write a file whose content is on the disk before its name is."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _keep_names(folder: Path) -> None:
    """Bring the names in a folder to the disk; those of the folders above as well, which may be new."""
    for each in (folder, folder.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _above(directory: str) -> Path:
    """The folder, or what is there of the way to it."""
    folder = _path(directory)
    while not folder.exists():
        folder = folder.parent
    return folder


def _copy(source: Path, target: Path) -> None:
    """By name, or by content where the file system knows no second names, or another one is meant."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _path(path: str) -> Path:
    return Path(unquote(urlparse(path).path) if path.startswith("file:") else path)


def _checksum_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _is_checksum(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".crc")


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileVanished(f"{error.filename or path} is not there") from error
    except PermissionError as error:
        raise AccessDenied(f"{error.filename or path}: {error.strerror or error}") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpace(f"no space left for {path}") from error
        raise FileSystemError(f"{path}: {error.strerror or error}") from error
