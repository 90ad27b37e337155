"""Reversing replication of MirrorMaker 2: what was the target is copied from now on, behind what both clusters have.

MirrorMaker 2 begins a topic that it has never copied at its beginning. With names kept that would write everything a
second time behind what is there already. So its own memory is written first. Connect keeps, on the target, in the
compacted topic ``mm2-offsets.<source>.internal``, the last offset that was copied (``MirrorMakerConfig.workerConfig``,
``MirrorUtils.wrapPartition``; a task continues behind it, ``MirrorSourceTask.initializeConsumer``). Records that only
the new target has, a tail of a failover, stay before all that is copied there.

MirrorMaker also remembers, in ``mm2-configs.<source>.internal``, that it has copied in the old direction. Its worker of
that direction is needed for the heartbeats, and before it learns that the direction is off now it starts the connector
as it was. Measured in the lab, a tail of 118 records was copied in that moment. So that topic is deleted.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from replication_tool.common import Begin, begins
from replication_tool.errors import Refused
from replication_tool.producer import Record, Writer
from streaming.cluster_log import ClusterLog

Say = Callable[[str], None]
WhereNone = Literal["refuse", "copy", "skip"]
"""What to do with a partition of which both clusters have records, and none in common."""

_CONNECTOR = "MirrorSourceConnector"
_LEFT_OUT = re.compile(r"mm2.*\.internal|.*\.checkpoints\.internal|.*heartbeats|.*\.replica|__.*")
_OFFSET_PARTITIONS = 25
"""What Connect makes such a topic with (``offset.storage.partitions``)."""
_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two clusters."""

    name: str
    alias: str
    """What MirrorMaker calls it."""
    log: ClusterLog
    writer: Writer


def reverse(
    source: Side, target: Side, say: Say, *, only: Sequence[str] = (), where_none: WhereNone = "refuse",
    dry_run: bool = False,
) -> None:  # fmt: skip
    """Prepare a MirrorMaker 2 that does not run to copy from ``source``, which was its target.

    Everything is read before anything is written. Raises Refused, WriteFailed, ClusterUnreachable, CredentialRefused.
    """
    found = {topic: begins(source.log, target.log, topic) for topic in topics(source, target, only)}
    offsets = {
        topic: {
            partition: _decided(topic, partition, each, source, target, where_none) for partition, each in of.items()
        }
        for topic, of in found.items()
    }
    for topic, by_partition in offsets.items():
        places = ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(by_partition.items()))
        say(f"{topic} is copied from {source.name} behind the last record that both have: {places}")
    if dry_run:
        say("nothing was written: this was a dry run")
        return
    _remember(source, target, offsets)
    _forget_direction(source, target)
    say(f"start MirrorMaker now, with {source.alias}->{target.alias} enabled and the other direction off")


def topics(source: Side, target: Side, only: Sequence[str]) -> list[str]:
    """The topics that both clusters have under one name and MirrorMaker may copy. Raises Refused."""
    both = set(source.log.names(timeout=_SECONDS)) & set(target.log.names(timeout=_SECONDS))
    missing = [topic for topic in only if topic not in both]
    if missing:
        raise Refused(f"{', '.join(missing)}: not a topic of both {source.name} and {target.name}")
    found = sorted(topic for topic in both if (topic in only if only else may_be_copied(topic)))
    if not found:
        raise Refused(f"{source.name} and {target.name} have no topic of one name, so there is nothing to reverse")
    return found


def may_be_copied(topic: str) -> bool:
    """Whether MirrorMaker copies a topic when all are wanted: not its own, and none that it takes for a copy.

    Up to Kafka 3.9 it leaves out whatever ends in ``.internal`` (``DefaultTopicFilter``), since 4.0 a user's topic may
    have such a name (KIP-1074). Where one is left out, an offset too many does no harm.
    """
    return not _LEFT_OUT.fullmatch(topic)


def _decided(
    topic: str, partition: int, found: Begin, source: Side, target: Side, where_none: WhereNone
) -> int:  # fmt: skip
    if found.offset is not None:
        return found.offset
    if where_none == "refuse":
        raise Refused(
            f"{topic}/{partition}: {source.name} has records up to {found.end:,} and {target.name} up to"
            f" {found.copies:,}, and not one is on both; nothing was written",
            hint="--where-none copy copies all of such a partition, --where-none skip only what is written from now on",
        )
    return 0 if where_none == "copy" else found.end


def _remember(source: Side, target: Side, offsets: Mapping[str, Mapping[int, int]]) -> None:
    """Write where the reversed replicator begins, as it would have written it itself."""
    name = f"mm2-offsets.{source.alias}.internal"
    is_new = not target.writer.has(name)
    if is_new:
        target.writer.create_compacted(name, _OFFSET_PARTITIONS)
    target.writer.write(_records(name, source.alias, offsets, is_new=is_new))


def _records(name: str, alias: str, offsets: Mapping[str, Mapping[int, int]], *, is_new: bool) -> Iterator[Record]:
    for topic, by_partition in offsets.items():
        for partition, offset in by_partition.items():
            at = {"cluster": alias, "partition": partition, "topic": topic}
            key = json.dumps([_CONNECTOR, at], separators=(",", ":")).encode()
            if offset:
                yield Record(name, key, json.dumps({"offset": offset - 1}, separators=(",", ":")).encode())
            elif not is_new:  # an earlier way back may have left an offset there
                yield Record(name, key, None)


def _forget_direction(source: Side, target: Side) -> None:
    """Delete what MirrorMaker remembers of its connectors in the old direction; it makes the topic again."""
    name = f"mm2-configs.{target.alias}.internal"
    if source.writer.has(name):
        source.writer.delete(name)
