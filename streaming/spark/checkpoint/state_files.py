"""Which files of a checkpoint a moved query continues with: its state's, and its sources'."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from posixpath import basename, dirname

from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import OffsetEntry, parse_kafka_offsets
from streaming.spark.errors import HalfWritten, MalformedEntry

StateIds = Mapping[str, list[list[str]]]

_VERSIONED = re.compile(r"(?P<version>\d+)(?:_(?P<id>[^.]+))?\.(?P<kind>delta|snapshot|changelog|zip)(?P<sum>\.crc)?")
_SHARED = {"SSTs", "logs"}


@dataclass(frozen=True, slots=True)
class _Versioned:
    path: str
    version: int
    unique_id: str | None
    is_full: bool
    is_checksum: bool


def select_state(paths: Iterable[str], version: int, ids: StateIds, expected: Set[str]) -> frozenset[str]:
    """The files that a version of the state needs, of all those below ``state/`` (paths relative to it).

    ``ids`` are the unique ids of that version, empty for checkpoint format 1; ``expected`` are the folders of all
    stores. What RocksDB shares between versions (``SSTs/``, ``logs/``) is not among them: ``shared_files`` reads it
    from the archives that were chosen. Raises ``HalfWritten`` when a store lacks the version.

    State after batch N has version N + 1. A store keeps full versions (``V.snapshot`` of the HDFS-backed store,
    ``V.zip`` with ``SSTs/`` and ``logs/`` of RocksDB) and increments (``V.delta``, ``V.changelog``). A version is the
    newest full one at or below it and every increment after that. Checkpoint format 2 puts a unique id behind the
    version, ``V_<id>.changelog``; the commit log names the id, so that left-overs of an aborted attempt can be
    recognised.
    """
    stores: dict[str, list[_Versioned]] = {}
    chosen: set[str] = set()
    for path in paths:
        found = _versioned(path)
        if found is not None:
            stores.setdefault(dirname(path), []).append(found)
        elif not basename(path).startswith(".") and basename(dirname(path)) not in _SHARED:
            chosen.add(path)
    missing = sorted(expected - stores.keys())
    if missing:
        raise HalfWritten(f"state/{missing[0]} holds no state at all")
    for folder, held in stores.items():
        chosen |= _chain(folder, held, version, _ids_of(folder, ids))
    return frozenset(chosen)


def shared_files(archive_metadata: bytes, where: str) -> frozenset[str]:
    """The files that one RocksDB archive refers to, relative to its folder, from the archive's ``metadata``."""
    try:
        value = json.loads(archive_metadata.decode().partition("\n")[2])
        tables = {f"SSTs/{file['dfsSstFileName']}" for file in value.get("sstFiles") or ()}
        logs = {f"logs/{file['dfsLogFileName']}" for file in value.get("logFiles") or ()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedEntry(f"{where}: its metadata is not RocksDB's") from error
    return frozenset(tables | logs)


def next_state_ids(paths: Iterable[str], version: int, ids: StateIds) -> StateIds:
    """The unique ids of ``version``, read from the files, for a commit entry that Spark did not get to write.

    ``ids`` are those of the version before, which show the order of the stores. Raises ``HalfWritten`` when a store
    has no file of that version, or files of several attempts.
    """
    by_folder: dict[str, list[_Versioned]] = {}
    for path in paths:
        found = _versioned(path)
        if found is not None:
            by_folder.setdefault(dirname(path), []).append(found)
    successor: dict[str | None, str | None] = {}
    for folder, held in by_folder.items():
        before = {file.unique_id for file in held if file.version == version - 1}
        after = {file.unique_id for file in held if file.version == version}
        if len(after) != 1:
            raise HalfWritten(f"state/{folder} holds {len(after)} attempts at version {version}")
        successor |= dict.fromkeys(before, after.pop())
    try:
        return {
            operator: [[str(successor[unique_id]) for unique_id in stores] for stores in partitions]
            for operator, partitions in ids.items()
        }
    except KeyError as error:
        raise HalfWritten(f"state of version {version - 1} lacks the files of {error.args[0]}") from error


def _versioned(path: str) -> _Versioned | None:
    match = _VERSIONED.fullmatch(basename(path))
    if match is None or "_metadata" in path.split("/"):
        return None
    full = match["kind"] in {"snapshot", "zip"}
    return _Versioned(path, int(match["version"]), match["id"], full, match["sum"] is not None)


def _ids_of(folder: str, ids: StateIds) -> frozenset[str]:
    """The unique ids of one partition's stores."""
    operator, partition, *_ = folder.split("/")
    partitions = ids.get(operator, [])
    return frozenset(partitions[int(partition)]) if int(partition) < len(partitions) else frozenset()


def _chain(folder: str, held: Sequence[_Versioned], version: int, ids: frozenset[str]) -> set[str]:
    """Full version and increments up to ``version``, in one store's folder."""
    usable = [
        file
        for file in held
        if file.version < version or (file.version == version and (not ids or file.unique_id in ids))
    ]
    increments = {file.version: file for file in usable if not file.is_full and not file.is_checksum}
    full = {file.version for file in usable if file.is_full and not file.is_checksum and _is_certain(file, usable, ids)}
    for base in [*sorted(full, reverse=True), 0]:
        if increments.keys() >= set(range(base + 1, version + 1)):
            return {
                file.path for file in usable if file.version > base or (file.version == base and (ids or file.is_full))
            }
    newest = max(full, default=0)
    gone = next(each for each in range(newest + 1, version + 1) if each not in increments)
    kinds = [file.path.rpartition(".")[2] for file in held if not file.is_full and not file.is_checksum]
    raise HalfWritten(f"state/{folder} lacks files of version {version}: {gone}.{(kinds or ['delta'])[0]} is missing")


def _is_certain(file: _Versioned, usable: Iterable[_Versioned], ids: frozenset[str]) -> bool:
    """Whether a full version surely belongs to the line of the committed one: no second attempt wrote that version."""
    return not ids or len({other.unique_id for other in usable if other.version == file.version}) == 1


SOURCES = "sources"
_COMPACT = ".compact"


def select_sources(files: CheckpointFiles, checkpoint: str, entries: Iterable[OffsetEntry]) -> Mapping[str, int]:
    """The files below ``sources/`` to take over, with their sizes, by path relative to the checkpoint.

    ``entries`` are those of the new log. Raises ``HalfWritten`` when a file source's log lacks what they refer to.

    Spark gives each source of a plan a folder there, counted by plan order or named. A file source lists in it which
    files belong to which of its offsets, a rate source keeps its start. A source that is not moved needs its folder;
    without it a file source fails at its first batch (``batch 59 doesn't exist``), a rate source counts from 0. Kafka's
    source keeps the offsets of its very first start, which are read no more and are of the old cluster: those are left
    behind.
    """
    found = files.walk(join(checkpoint, SOURCES))
    folders: dict[str, dict[str, int]] = {}
    for path, size in found.items():
        folder, _, name = path.partition("/")
        if not name.rpartition("/")[2].startswith("."):
            folders.setdefault(folder, {})[name] = size
    kept = {
        folder: held
        for folder, held in folders.items()
        if not (set(held) == {"0"} and _is_kafkas(files.read_bytes(join(checkpoint, SOURCES, folder, "0"))))
    }
    _check_logs(kept, entries, checkpoint)
    return {f"{SOURCES}/{folder}/{name}": size for folder, held in kept.items() for name, size in held.items()}


def file_log_offset(text: str | None) -> int | None:
    """The newest entry of its log that a file source's offset refers to; None for any other source's offset."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    offset = value.get("logOffset") if isinstance(value, dict) and len(value) == 1 else None
    return offset if type(offset) is int else None


def _is_kafkas(content: bytes) -> bool:
    """Whether this is what ``KafkaSourceInitialOffsetWriter`` writes: a zero byte, ``v1``, offsets."""
    version, _, text = content.removeprefix(b"\0").decode(errors="replace").partition("\n")
    return version == "v1" and (text == "{}" or parse_kafka_offsets(text) is not None)


def _check_logs(folders: Mapping[str, Mapping[str, int]], entries: Iterable[OffsetEntry], checkpoint: str) -> None:
    """Every offset of a file source has a folder whose log is whole up to it. Folders need not be counted as lines are,
    for a source that is read twice has two lines."""
    reached = [end for held in folders.values() if (end := _log_end(held)) is not None]
    for entry in entries:
        for key, text in entry.sources.items():
            needed = file_log_offset(text)
            if needed is not None and not any(end >= needed for end in reached):
                raise HalfWritten(
                    f"{checkpoint}: source {key} is at entry {needed} of its list of files, "
                    f"and no folder below {SOURCES}/ holds that list"
                )


def _log_end(held: Iterable[str]) -> int | None:
    """The newest entry of a file source's log that lacks none since its newest compacted one; else None."""
    names = set(held)
    compacted = [int(name.removesuffix(_COMPACT)) for name in names if name.removesuffix(_COMPACT).isdigit()
                 and name.endswith(_COMPACT)]  # fmt: skip
    single = {int(name) for name in names if name.isdigit()}
    start, end = max(compacted, default=-1), max([*single, *compacted], default=-1)
    return end if single >= set(range(start + 1, end + 1)) else None
