"""The stateful operators of a query, and the schemas of their state, as its checkpoint's state metadata names them.

``state/<id>/_metadata/metadata`` (v1) or ``state/<id>/_metadata/v2/<batch>`` holds the version and one JSON object.
Spark numbers the operators of a plan from the sink upwards, parents before children. (Seen with pyspark 4.2.0: in a
chain the operator next to the source has the highest id; below a join the left side is numbered before the right).
Spark before 4.0 writes no such metadata. Then the stores are counted from their folders, and the operators have no
name, so that nothing is believed of what they do.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from state.settings.checkpoint_schemes import scheme_of
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.errors import HalfWritten, MalformedEntry

UNNAMED = "unknown"
"""Name of an operator that a Spark before 4.0 keeps."""
_DEDUPLICATION = {"dedupe", "dedupeWithinWatermark"}
_GLOBAL_LIMIT = "globalLimit"
"""Runs in one partition, whatever number its metadata gives (``StreamingGlobalLimitExec``, ``AllTuples``)."""
_JOIN_STORES = {f"{side}-{store}" for side in ("left", "right") for store in ("keyToNumValues", "keyWithIndexToValue")}
"""The only stores with folders of their own before 4.0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """One stateful operator with its stores."""

    id: int
    name: str
    stores: Mapping[str, int]
    """Store name to its number of partitions."""

    @property
    def partitions(self) -> int:
        return max(self.stores.values(), default=0)

    @property
    def directories(self) -> frozenset[str]:
        """Where its stores keep their files, relative to ``state/``; the default store has no folder of its own."""
        return frozenset(
            f"{self.id}/{partition}" + ("" if name == "default" else f"/{name}")
            for name, count in self.stores.items()
            for partition in range(count)
        )


def parse_operator(content: bytes, where: str) -> Operator:
    """Read an operator's metadata. Raises ``MalformedEntry``."""
    try:
        version, _, text = content.decode().partition("\n")
        value = json.loads(text)
        stores = {str(store["storeName"]): int(store["numPartitions"]) for store in value["stateStoreInfo"]}
        info = value["operatorInfo"]
        name = str(info["operatorName"])
        stores = dict.fromkeys(stores, 1) if name == _GLOBAL_LIMIT else stores
        operator = Operator(id=int(info["operatorId"]), name=name, stores=stores)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedEntry(f"{where}: it is not the metadata of a stateful operator") from error
    if version not in {"v1", "v2"}:
        raise MalformedEntry(f"{where}: its version is {version[:100]!r}, and only v1 and v2 are supported")
    return operator


def read_operators(files: CheckpointFiles, checkpoint: str) -> tuple[Operator, ...]:
    """Every stateful operator of a checkpoint, by id; none for a stateless query."""
    state = join(checkpoint, "state")
    below = {int(name): files.list_names(join(state, name)) for name in files.list_names(state) if name.isdigit()}
    if below and not any("_metadata" in names for names in below.values()):
        return tuple(_count_stores(files, join(state, str(each)), each, below[each]) for each in sorted(below))
    return tuple(_read_operator(files, checkpoint, operator_id) for operator_id in sorted(below))


def deduplicates_ahead(operators: Sequence[Operator], sources: int) -> bool:
    """Whether every source is de-duplicated before anything else keeps state.

    Holds when at least as many de-duplications as sources have higher ids than every other operator. For one source
    that is a proof; two de-duplications in a row on one side of a join would be mistaken for one on each.
    """
    others = max((operator.id for operator in operators if operator.name not in _DEDUPLICATION), default=-1)
    ahead = [operator for operator in operators if operator.name in _DEDUPLICATION and operator.id > others]
    return bool(ahead) and len(ahead) >= sources


def _read_operator(files: CheckpointFiles, checkpoint: str, operator_id: int) -> Operator:
    folder = join(checkpoint, "state", str(operator_id), "_metadata")
    names = files.list_names(folder)
    if "metadata" in names:
        path = join(folder, "metadata")
    else:
        batches = [name for name in files.list_names(join(folder, "v2")) if name.isdigit()] if "v2" in names else []
        if not batches:
            raise HalfWritten(f"{folder}: the state of operator {operator_id} has no metadata")
        path = join(folder, "v2", max(batches, key=int))
    return parse_operator(files.read_bytes(path), path)


def _count_stores(files: CheckpointFiles, folder: str, operator_id: int, names: Sequence[str]) -> Operator:
    """An operator by its folders. Raises ``HalfWritten`` when its partitions are not all there, or differ."""
    partitions = sorted(int(name) for name in names if name.isdigit())
    kept = {frozenset(_JOIN_STORES & set(files.list_names(join(folder, str(each))))) for each in partitions}
    if len(kept) != 1 or partitions != list(range(len(partitions))):
        raise HalfWritten(f"{folder}: the state of operator {operator_id} has no metadata, and partitions are missing")
    stores = next(iter(kept)) or {"default"}
    return Operator(id=operator_id, name=UNNAMED, stores=dict.fromkeys(sorted(stores), len(partitions)))


_ENTRY = re.compile(r"(?P<operator>\d+)/_metadata/v2/(?P<batch>\d+)")
_SCHEMA = re.compile(r"(?P<operator>\d+)/_stateSchema/.+")
_PATH = re.compile(r"(?P<system>[A-Za-z][\w+.-]*:(?://[^/]*)?)?/.*?/?state/(?P<file>\d+/_stateSchema/[^/]+/[^/]+)")
_PATHS = ("stateSchemaFilePaths", "stateSchemaFilePath")
"""A list since Spark 4.0.0, one path before."""


@dataclass(frozen=True, slots=True)
class MovedMetadata:
    """An operator's metadata for another folder."""

    content: bytes
    schemas: frozenset[str]
    """The files that it names, relative to ``state/``."""


def newest_entries(paths: Iterable[str], batch: int) -> dict[str, str]:
    """By operator, the metadata (v2) that a batch goes by, of all paths below ``state/``.

    Raises ``HalfWritten`` when an operator has metadata of later batches only.
    """
    newest: dict[str, int | None] = {}
    for path in paths:
        match = _ENTRY.fullmatch(path)
        if match is not None:
            known, number = newest.setdefault(match["operator"], None), int(match["batch"])
            if number <= batch and (known is None or number > known):
                newest[match["operator"]] = number
    for operator, found in newest.items():
        if found is None:
            raise HalfWritten(f"state/{operator}/_metadata/v2 has no entry for batch {batch} or earlier")
    return {operator: f"{operator}/_metadata/v2/{number}" for operator, number in newest.items()}


def is_versioned_metadata(path: str) -> bool:
    """Whether a path below ``state/`` is metadata (v2) or a schema that such metadata names."""
    return _ENTRY.fullmatch(path) is not None or _SCHEMA.fullmatch(path) is not None


def move_metadata(content: bytes, where: str, target: str) -> MovedMetadata:
    """Let an operator's metadata name the same schemas below another checkpoint; the rest stays as Spark wrote it.

    Raises ``MalformedEntry`` when it names a file that is not of a checkpoint's state.

    ``state/<id>/_metadata/v2/<batch>`` names files of ``state/<id>/_stateSchema/``, the state schemas of
    ``transformWithState``, by absolute paths: where the checkpoint was when they were written. Spark passes over one
    that is not there (``StateSchemaCompatibilityChecker.readSchemaFiles``), and would then take any change of the
    state's schema. So in a carried checkpoint the paths are those of the new folder, and a schema that is missing is an
    error. Only the metadata that the carried batch goes by is taken along.
    """
    version, _, text = content.decode().partition("\n")
    try:
        value = json.loads(text)
        stores = [dict(store) for store in value["stateStoreInfo"]]
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedEntry(f"{where}: it is not the metadata of a stateful operator") from error
    schemas: set[str] = set()
    for store in stores:
        for key in _PATHS:
            named = store.get(key)
            if named is None:
                continue
            paths = named if isinstance(named, list) else [named]
            moved = [_moved(str(path), where, target) for path in paths]
            schemas |= {file for _, file in moved}
            store[key] = [path for path, _ in moved] if isinstance(named, list) else moved[0][0]
    written = json.dumps(value | {"stateStoreInfo": stores}, separators=(",", ":"), ensure_ascii=False)
    return MovedMetadata(f"{version}\n{written}".encode(), frozenset(schemas))


def _moved(path: str, where: str, target: str) -> tuple[str, str]:
    match = _PATH.fullmatch(path)
    if match is None:
        raise MalformedEntry(f"{where}: it names {path}, which is not a schema below a checkpoint's state")
    system = "" if scheme_of(target) else match["system"] or ""
    return f"{system}{target.rstrip('/')}/state/{match['file']}", match["file"]
