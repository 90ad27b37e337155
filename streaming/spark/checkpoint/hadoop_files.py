"""A checkpoint's files through Spark's own Hadoop file system: whatever scheme Spark can use, Tideover can.

Each question is few calls into the JVM: a directory comes back as two texts, a file is copied inside the JVM. An atomic
create is a draft renamed by ``FileContext`` without overwriting, as Spark's own logs do it. Hadoop's
``create(overwrite=False)`` is a check and then a create, and had two winners in 10 of 150 races. On a local disk even
that rename is a check and then a rename, so there the operating system's own exclusive link is used. On an object store
a rename is a copy: there the companion puts the object on the condition that there is none, and the store decides.
Azure Data Lake renames as HDFS does: its client sends ``If-None-Match: *`` with each rename (``AbfsDfsClient``).
Where none of these is known to hold, nothing is created.
"""

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import urlparse

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state.error_meanings import FILES, OURS, Meaning, meaning_of
from state.settings.checkpoint_schemes import (
    GOOGLE,
    GOOGLE_HINT,
    HINT,
    LAKE_HINT,
    LAKES,
    OBJECTS,
    STORE_HINT,
    scheme_refusal,
)
from state.settings.keys import Tideover
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import CheckpointFiles, LocalFiles
from streaming.spark.errors import (
    AccessDenied,
    CheckpointError,
    FileSystemError,
    FileVanished,
    NoSpace,
    UnsafeFileSystem,
)
from streaming.spark.jvm import JavaObject, has_class, java_context, java_view

_COPIES, _STORE_COPIES = 8, 32
"""At once; a store answers late, but many at a time."""
_OBJECTS = "tideover.StoredObject"
_UNREQUESTED = "fs.s3a.create.performance"
"""To create without looking first what is there: three requests for a copy instead of seven."""
_SIZE = re.compile(r"; isDirectory=false; length=(\d+)")
_BETWEEN_PATHS = "\0"
"""No path on any file system holds this character."""
_LAKE_CLIENTS = frozenset(
    f"org.apache.hadoop.fs.azurebfs.{name}" for name in ("AzureBlobFileSystem", "SecureAzureBlobFileSystem")
)
_HAS_FOLDERS = "fs.capability.paths.acls"
"""What Azure's client says it is able to do by the account's hierarchical namespace alone (``AzureBlobFileSystem``)."""
_GONE = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_TAKEN = "org.apache.hadoop.fs.FileAlreadyExistsException"


class HadoopFiles:
    """``CheckpointFiles`` by the Hadoop file system of a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm = java_view(session)
        self._conf = java_context(session).hadoopConfiguration()
        self._local: dict[str, bool] = {}
        """Whether a path's scheme (none: that of the default file system) is a local disk."""

    def list_names(self, directory: str) -> Sequence[str]:
        with _translated(directory):
            path = self._path(directory)
            try:
                status = self._system(path).listStatus(path)
            except Py4JJavaError as error:
                if _class_of(error) in _GONE:
                    return []
                raise
            return sorted(_name(found) for found in self._paths(status) if found != str(path.toUri()))

    def walk(self, directory: str) -> Mapping[str, int]:
        """One listing of all that lies below, which an object store answers by the thousand.

        On a local disk Hadoop would read each file's permissions, and fail for a draft that Spark has renamed by then.
        """
        with _translated(directory):
            if self._is_local(directory):
                return LocalFiles().walk(directory)
            root = self._path(directory)
            system = self._system(root)
            prefix = str(system.makeQualified(root)).rstrip("/") + "/"
            try:
                below = self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(system.listFiles(root, True))
            except Py4JJavaError as error:
                if _class_of(error) in _GONE and not system.exists(root):
                    return {}
                raise
            return dict(sorted((text.removeprefix(prefix), size) for text, size in self._read(below.toArray())))

    def exists(self, path: str) -> bool:
        """Called ten times a second for each query: on a local disk without the JVM."""
        with _translated(path):
            if self._is_local(path):
                return LocalFiles().exists(path)
            target = self._path(path)
            return bool(self._system(target).exists(target))

    def is_link(self, path: str) -> bool:
        with _translated(path):
            if self._is_local(path):
                return LocalFiles().is_link(path)
            target = self._path(path)
            system = self._system(target)
            return bool(system.exists(target)) and bool(system.getFileLinkStatus(target).isSymlink())

    def size(self, path: str) -> int:
        with _translated(path):
            target = self._path(path)
            return int(self._system(target).getFileStatus(target).getLen())

    def read_bytes(self, path: str) -> bytes:
        with _translated(path):
            target = self._path(path)
            stream = self._system(target).open(target)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def create_atomically(self, path: str, content: bytes) -> bool:
        with _translated(path):
            refused = scheme_refusal(path, str(self._conf.get("fs.defaultFS", "file:///")))
            if refused is not None:
                raise UnsafeFileSystem(refused, hint=HINT)
            if self._is_local(path):
                return LocalFiles().create_atomically(path, content)
            target = self._path(path)
            scheme = str(self._system(target).getUri().getScheme())
            if scheme in LAKES:
                self._require_lake(path)
            elif scheme != "hdfs":
                return self._put_unless_taken(target, content)
            draft = self._draft_of(target)
            try:
                self._put(draft, content)
                return self._rename_unless_taken(draft, target, content)
            finally:
                self._system(draft).delete(draft, False)

    def replace(self, path: str, content: bytes) -> None:
        with _translated(path):
            if self._is_local(path):
                LocalFiles().replace(path, content)
                return
            target = self._path(path)
            if str(self._system(target).getUri().getScheme()) == "hdfs":
                self._put_over(target, content)
            else:
                self._put(target, content)  # on an object store it is there whole, or is the one of before

    def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
        pairs = list(pairs)
        stores = [target for _, target in pairs[:1] if self._is_store(self._path(target))]
        with ThreadPoolExecutor(_STORE_COPIES if stores else _COPIES, thread_name_prefix="copy") as pool:
            for _ in pool.map(self._copy_one, pairs):
                pass

    def copies_by_name(self, source: str, target: str) -> bool:
        return False

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        with _translated(path):
            target = self._path(path)
            return bool(self._system(target).delete(target, recursive))

    def rename(self, source: str, target: str) -> None:
        with _translated(source):
            old, new = self._path(source), self._path(target)
            system = self._system(old)
            system.getFileStatus(old)  # a missing source and a taken target must be distinguished
            if not system.rename(old, new):
                raise FileSystemError(f"{source} could not be renamed to {target}")

    def make_dirs(self, directory: str) -> None:
        with _translated(directory):
            path = self._path(directory)
            self._system(path).mkdirs(path)

    def free_space(self, directory: str) -> int | None:
        with _translated(directory):
            path = self._path(directory)
            system = self._system(path)
            while path.getParent() is not None and not system.exists(path):
                path = path.getParent()
            remaining = int(system.getStatus(path).getRemaining())
        # object stores answer with a round number that means nothing, as does a file system without an answer
        return None if remaining <= 0 or remaining >= 1 << 62 else remaining

    def _copy_one(self, pair: tuple[str, str]) -> None:
        with _translated(pair[0]):
            source, target = self._path(pair[0]), self._path(pair[1])
            content = self._system(source).open(source)
            copied = (
                self._system(target).createFile(target).overwrite(True).recursive().opt(_UNREQUESTED, "true").build()
            )
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(content, copied, self._conf, True)

    def _put(self, path: JavaObject, content: bytes) -> None:
        stream = self._system(path).create(path, True)
        try:
            stream.write(content)
        finally:
            stream.close()

    def _draft_of(self, target: JavaObject) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4()}.tmp")

    def _put_over(self, target: JavaObject, content: bytes) -> None:
        """A writer that dies leaves the file of before, which ``create`` would have emptied first.

        On HDFS a rename over a file is one step (``FSDirRenameOp.unprotectedRenameTo``).
        """
        draft = self._draft_of(target)
        try:
            self._put(draft, content)
            self._rename(draft, target, "OVERWRITE")
        finally:
            self._system(draft).delete(draft, False)

    def _rename(self, draft: JavaObject, target: JavaObject, option: str) -> None:
        options = self._class("Options$Rename").getEnumConstants()
        chosen = self._jvm.java.lang.reflect.Array.newInstance(options[0].getClass(), 1)
        chosen[0] = next(each for each in options if str(each.name()) == option)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(target.toUri(), self._conf)
        context.rename(draft, target, chosen)

    def why_no_lake(self, path: str) -> str:
        """Why a rename on Azure Data Lake is not known to be one step on a condition; empty where it is."""
        with _translated(path):
            target = self._path(path)
            lake = self._system(target)
            if lake.getClass().getName() not in _LAKE_CLIENTS:
                return f"its file system is {lake.getClass().getName()}"
            if not lake.hasPathCapability(target, _HAS_FOLDERS):
                return "its account has no hierarchical namespace, where a rename is one step"
            return ""

    def _require_lake(self, path: str) -> None:
        why = self.why_no_lake(path)
        if why:
            raise UnsafeFileSystem(f"{path} is where two drivers could both create it: {why}", hint=LAKE_HINT)

    def _put_unless_taken(self, target: JavaObject, content: bytes) -> bool:
        """Put an object whose name is free, as the companion does. Raises ``UnsafeFileSystem`` where that cannot be."""
        store = self._system(target)
        if not has_class(self._jvm, _OBJECTS):
            why = "the companion is not in this Spark"
        elif not self._jvm.tideover.StoredObject.isStore(store):
            why = f"its file system is {store.getClass().getName()}"
        else:
            why = str(self._jvm.tideover.StoredObject.whyNotExclusive(store, target))
        if why:
            hint = GOOGLE_HINT if str(target.toUri().getScheme()) == GOOGLE else STORE_HINT
            raise UnsafeFileSystem(f"{target.toString()} is where two drivers could both create it: {why}", hint=hint)
        return bool(self._jvm.tideover.StoredObject.create(store, target, content))

    def _rename_unless_taken(self, draft: JavaObject, target: JavaObject, content: bytes) -> bool:
        try:
            self._rename(draft, target, "NONE")
        except Py4JJavaError as error:
            if _class_of(error) == _TAKEN:
                return False
            won = self._won(draft, target, content)
            if won is None:
                raise
            return won
        return True

    def _won(self, draft: JavaObject, target: JavaObject, content: bytes) -> bool | None:
        """What became of a rename that has failed; None where that does not show.

        Azure's client does not say that another one was first: the draft is there still then. Where an answer was lost,
        it has sent the request again, and has found no draft any more. The client of HDFS may only report that the
        connection ended: without ``dfs.client.retry.policy.enabled`` it sends nothing again to a single NameNode. The
        draft has a name of its own, so no other writer moves it.
        """
        system = self._system(target)
        if not system.exists(target):
            return None
        if system.exists(draft):
            return False
        return True if self.read_bytes(str(target.toString())) == content else None

    def _paths(self, found: JavaObject) -> list[str]:
        """The path of each entry of an array of ``FileStatus``, which py4j wants to be of that very class."""
        status = self._jvm.java.lang.reflect.Array.newInstance(self._class("FileStatus"), len(found))
        self._jvm.java.lang.System.arraycopy(found, 0, status, 0, len(found))
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(status)
        text = str(self._jvm.scala.Predef.genericWrapArray(paths).mkString(_BETWEEN_PATHS))
        return text.split(_BETWEEN_PATHS) if text else []

    def _read(self, status: JavaObject) -> list[tuple[str, int]]:
        """Path and size of each file of a ``FileStatus[]``: what follows its path in Hadoop's text."""
        text = str(self._jvm.org.apache.commons.lang3.ArrayUtils.toString(status))
        return list(_read_sizes(self._paths(status), text))

    def _is_local(self, path: str) -> bool:
        scheme = urlparse(path).scheme
        if scheme not in self._local:
            own = self._system(self._path(path)).getUri().getScheme()
            self._local[scheme] = own == "file" and scheme in {"", "file"}
        return self._local[scheme]

    def _is_store(self, path: JavaObject) -> bool:
        return str(self._system(path).getUri().getScheme()) in OBJECTS

    def _class(self, name: str) -> JavaObject:
        return self._jvm.java.lang.Class.forName(f"org.apache.hadoop.fs.{name}")

    def _path(self, path: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: JavaObject) -> JavaObject:
        return path.getFileSystem(self._conf)


def _read_sizes(paths: Iterable[str], text: str) -> Iterator[tuple[str, int]]:
    """Each path with its size. The paths are known, so whatever characters they have, none is mistaken for a mark of
    the text. Raises ``FileSystemError`` when the text is not what Hadoop's ``FileStatus`` prints."""
    end = 0
    for path in paths:
        start = text.find(f"path={path}; isDirectory=", end)
        match = None if start < 0 else _SIZE.match(text, start + len(f"path={path}"))
        if match is None:
            raise FileSystemError(f"{path} is listed by Hadoop without its size")
        yield path, int(match[1])
        end = match.end()


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _class_of(error: Py4JJavaError) -> str:
    return cast(str, error.java_exception.getClass().getName())


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn Java's errors into ours."""
    try:
        yield
    except CheckpointError:
        raise
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        found = meaning_of(text, FILES)
        if found is not None and found.meaning is Meaning.FULL:
            raise NoSpace(f"no space left for {path}") from error
        if found is not None and found.meaning in OURS:
            raise AccessDenied(f"{path}: {text}", hint=found.sentence) from error
        if _class_of(error) in _GONE:
            raise FileVanished(f"{path} is not there: {text}") from error
        raise FileSystemError(f"{path}: {text}", hint="" if found is None else found.sentence) from error
    except (Py4JError, PySparkException) as error:
        raise FileSystemError(f"{path}: {error}") from error


_OWN_FILE_SYSTEM = {"spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl", MANAGER}
"""Settings by which a configuration says itself how local files are reached: then neither ours nor plain files are."""


def keeps_local_checkpoints(settings: Tideover, runner: str) -> bool:
    """Whether a runner has its driver, its tasks and all checkpoints of its queries on one host, as plain files.

    Not where the configuration names a file system or a checkpoint manager of its own for them.
    """
    if names_own_files(settings, runner):
        return False
    schemes = {urlparse(query.checkpoint).scheme for query in settings.queries.values() if runner in query.runners}
    return settings.spark.master.startswith("local") and schemes <= {"", "file"}


def names_own_files(settings: Tideover, runner: str) -> bool:
    """Whether the configuration says itself how the checkpoints of a runner's queries are reached."""
    queries = [query for query in settings.queries.values() if runner in query.runners]
    return bool(_OWN_FILE_SYSTEM & (settings.spark.conf.keys() | {key for query in queries for key in query.spark}))


def local_disk_conf(jars: Iterable[Path]) -> dict[str, str]:
    """Session settings for local checkpoints, beside Spark's older manager; none where the jar is not among ``jars``.

    The launcher looks for the file system before it adds ``spark.jars``, hence the class path.

    Where Hadoop's native library is missing, as in every pyspark from a package registry, Hadoop's local file system
    starts a process for each ``chmod`` and ``readlink``. That is 95 a second with four queries, and most of a small
    batch's time. A local file system that calls Java instead, and Spark's checkpoint manager on Hadoop's older
    ``FileSystem`` interface, start none. That manager looks before it renames, where the usual one renames without
    overwriting. The companion's, which uses it for all else, makes log entries by a link instead. Without the companion
    a planted entry could be overwritten in the microsecond between, and a fence reads the log again after the run is
    proven quiet.
    """
    jar = next((jar for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs")), None)
    if jar is None:
        return {}
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }


def checkpoint_files(session: SparkSession, *, local: bool) -> CheckpointFiles:
    """The runner's way to its checkpoints: plain files where they are local, else Spark's Hadoop file system."""
    default = java_context(session).hadoopConfiguration().get("fs.defaultFS", "file:///")
    return LocalFiles() if local and str(default).startswith("file:") else HadoopFiles(session)
