"""The stateful operators of a query, as its checkpoint's state metadata names them.

``state/<id>/_metadata/metadata`` (v1) or ``state/<id>/_metadata/v2/<batch>`` holds the version and one JSON object.
Spark numbers the operators of a plan from the sink upwards, parents before children (seen with pyspark 4.2.0: in a
chain the operator next to the source has the highest id; below a join the left side is numbered before the right).
Spark before 4.0 writes no such metadata: then the stores are counted from their folders, and the operators have no
name, so that nothing is believed of what they do.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streaming.spark.errors import HalfWritten, MalformedEntry
from streaming.spark.filesystem import CheckpointFiles, join

UNNAMED = "unknown"
"""Name of an operator that a Spark before 4.0 keeps."""
_DEDUPLICATION = {"dedupe", "dedupeWithinWatermark"}
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
        operator = Operator(id=int(info["operatorId"]), name=str(info["operatorName"]), stores=stores)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedEntry(f"{where}: it is not the metadata of a stateful operator") from error
    if version not in {"v1", "v2"}:
        raise MalformedEntry(f"{where}: its version is {version[:100]!r}, and only v1 and v2 are known")
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
