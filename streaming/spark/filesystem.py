"""The port through which a checkpoint's files are touched, whatever scheme they live on.

Paths are text: absolute paths or URIs, joined with ``/``. ``streaming.spark.hadoop.HadoopFiles`` fulfils it through
Spark's own Hadoop file system, so that what Spark can reach, Tideover can carry; ``streaming.spark.local.LocalFiles``
does without Spark. Both keep Hadoop's checksum side files (``.name.crc``) out of sight and right: a stale one makes
the next reader fail.

Errors: ``FileVanished`` (not there), ``NoSpace`` (full), ``AccessDenied``, ``FileSystemError`` (anything else).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


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

    def size(self, path: str) -> int:
        """Bytes of a file. Raises ``FileVanished``."""

    def read_bytes(self, path: str) -> bytes:
        """The whole content. Raises ``FileVanished``."""

    def create_atomically(self, path: str, content: bytes) -> bool:
        """Make a file that is complete as soon as it is seen; False if the name is taken. Of several racing for one
        name exactly one wins. Makes the directory."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a file, there or not. Makes the directory; not atomic."""

    def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Copy files, each ``(source, target)``; makes directories. Raises ``FileVanished`` when a source is gone."""

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file, or with ``recursive`` a tree; False when it was not there."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name. Raises ``FileVanished``."""

    def make_dirs(self, directory: str) -> None:
        """Make a directory and those above it."""

    def free_space(self, directory: str) -> int | None:
        """Bytes that can still be written there; None where the file system cannot tell."""
