"""Reads MirrorMaker 2's offset-syncs topic on the standby: its newest records, all in the one partition it writes to.

The binary form is that of ``org.apache.kafka.connect.mirror.OffsetSync``, without a version in front: the key is the
old topic's name (two bytes of length, UTF-8) and partition (four bytes), the value the old offset and the standby's
(eight bytes each), all big-endian. With ``offset-syncs.topic.location=target`` the topic lies on the standby and is
called ``mm2-offset-syncs.<source's alias>.internal``; by default it lies on the source, and is of no use once that is
gone.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping

from state.model import TopicPartition
from streaming.deadline import Deadline
from streaming.errors import KafkaError
from streaming.log import Entries, Entry, Log, Spec
from streaming.lookup import ask
from streaming.resume import notes
from streaming.resume.syncs import Sync, Syncs

MOST_RECORDS = 100_000
"""So many of the newest are read."""
MOST_SECONDS = 1.5
"""How long reading may take, of the time that the whole answer has."""
_FIRST_BYTES = 1 << 20
_TRIES = 3
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")


def read_syncs(log: Log, topic: str, deadline: Deadline) -> Mapping[TopicPartition, Syncs] | str:
    """Return the syncs by old topic and partition, or in one sentence why they could not be had.

    Half a topic would hide that the standby was made anew, so it counts as nothing. Never raises for the cluster's
    sake: without syncs there are other methods.
    """
    try:
        known = _known(log, topic, deadline.soonest(min(MOST_SECONDS, deadline.remaining / 2)))
    except KafkaError as error:
        known = str(error)
    return f"{topic}: {known}" if isinstance(known, str) else known


def _known(log: Log, topic: str, deadline: Deadline) -> Mapping[TopicPartition, Syncs] | str:
    key = TopicPartition(topic, 0)
    ends = ask(log, [(key, Spec.LATEST), (key, Spec.EARLIEST)], deadline)
    begin, end = ends[key, Spec.EARLIEST], ends[key, Spec.LATEST]
    if begin.offset is None or end.offset is None:
        error = begin.error or end.error
        return notes.failed(error) if error is not None else "its ends are not told"
    first = max(begin.offset, end.offset - MOST_RECORDS)
    records = _read(log, key, first, end.offset, deadline)
    if isinstance(records, str):
        return records
    written: dict[TopicPartition, list[Sync]] = defaultdict(list)
    for record in records:
        parsed = parse(record)
        if parsed is None:
            return f"the record at offset {record.offset} is no offset sync of MirrorMaker 2"
        written[parsed[0]].append(parsed[1])
    return {partition: Syncs.of(syncs) for partition, syncs in written.items()}


def parse(record: Entry) -> tuple[TopicPartition, Sync] | None:
    """Return one offset sync, or None where the record is none."""
    key, value = record.key, record.value
    if key is None or value is None or len(key) < _LENGTH.size or len(value) != _OFFSETS.size:
        return None
    (length,) = _LENGTH.unpack_from(key)
    if length < 0 or len(key) != _LENGTH.size + length + _PARTITION.size:
        return None
    (partition,) = _PARTITION.unpack_from(key, _LENGTH.size + length)
    upstream, downstream = _OFFSETS.unpack(value)
    if min(partition, upstream, downstream) < 0:
        return None
    try:
        name = key[_LENGTH.size : _LENGTH.size + length].decode()
    except UnicodeDecodeError:
        return None
    return TopicPartition(name, partition), Sync(upstream, downstream)


def _read(log: Log, key: TopicPartition, first: int, end: int, deadline: Deadline) -> list[Entry] | str:
    """The records from ``first`` up to ``end``, or why not."""
    records: list[Entry] = []
    size, failures = _FIRST_BYTES, 0
    while first < end:
        if deadline.passed:
            return "the deadline passed before its end was read"
        got = log.entries(key, (first, size), timeout=deadline.remaining)
        if got.error is not None and not got.error.retriable:
            return notes.failed(got.error)
        failures = failures + 1 if _is_stuck(got, first) else 0
        if failures >= _TRIES:
            return "its end cannot be read" if got.error is None else notes.failed(got.error)
        size = max(size, got.needs_bytes)
        first = max(first, got.next_offset)
        records += (record for record in got.records if record.offset < end)
    return records


def _is_stuck(got: Entries, first: int) -> bool:
    return got.error is not None or (got.next_offset <= first and not got.needs_bytes)
