"""Finds the checkpoints below a folder, and reads what they show: query id, topics, positions, state."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from state.errors import TideoverError
from streaming.spark.checkpoint.files import LocalFiles, join
from streaming.spark.checkpoint.log_text import OffsetEntry, parse_kafka_offsets, parse_query_id
from streaming.spark.checkpoint.mapping import read_moves
from streaming.spark.checkpoint.operators import UNNAMED, read_operators
from streaming.spark.checkpoint.read import read_log_end
from streaming.spark.handback import released_on

_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundCheckpoint:
    """One checkpoint; what could not be read is in ``trouble``, and nothing is assumed of it."""

    path: str
    query_id: str | None = None
    batch: int | None = None
    """The newest committed batch."""
    sources: tuple[tuple[str, ...], ...] = ()
    """Of each Kafka source its topics, in plan order, by their names on the cluster that it reads."""
    other_sources: int = 0
    """Sources that are not Kafka's, or have no offset yet."""
    operators: tuple[str, ...] = ()
    """Names of the stateful operators; ``unknown`` where Spark before 4.0 wrote none."""
    moved_to: str | None = None
    """The cluster to which Tideover has moved it, in place."""
    released_on: str | None = None
    """The cluster of its offsets, where Tideover has handed it back to plain Spark."""
    trouble: str | None = None


def find_checkpoints(root: str) -> Iterator[FoundCheckpoint]:
    """Every checkpoint at or below a local folder, by path. Links are not followed. Raises ``OSError``."""

    def refuse(error: OSError) -> None:
        raise error

    for folder, below, names in os.walk(root, onerror=refuse):
        below.sort()
        if {"offsets", "commits"} & set(below) and ("metadata" in names or {"offsets", "commits"} <= set(below)):
            below.clear()
            yield read_found(folder)
        elif _SINK_LOG in below:
            below.clear()  # the output of a file sink


def read_found(path: str) -> FoundCheckpoint:
    """Read one; never raises for what is in it."""
    files = LocalFiles()
    query_id: str | None = None
    try:
        where = join(path, "metadata")
        query_id = parse_query_id(files.read_bytes(where), where)
        end = read_log_end(files, path)
        entry = end.last or end.planned
        moves = read_moves(files, path, None)
        released = released_on(files, path)
        operators = tuple(each.name or UNNAMED for each in read_operators(files, path))
    except TideoverError as error:
        return FoundCheckpoint(path=path, query_id=query_id, trouble=str(error))
    sources, others = _sources(entry)
    return FoundCheckpoint(
        path=path,
        query_id=query_id,
        batch=end.batch,
        sources=sources,
        other_sources=others,
        operators=operators,
        moved_to=moves.chain[-1].to if moves.chain else None,
        released_on=released,
    )


def _sources(entry: OffsetEntry | None) -> tuple[tuple[tuple[str, ...], ...], int]:
    texts = [] if entry is None else list(entry.sources.values())
    offsets = [None if text is None else parse_kafka_offsets(text) for text in texts]
    found = tuple(tuple(sorted(each)) for each in offsets if each is not None)
    return found, len(texts) - len(found)
