"""The text of a checkpoint's log entries, taken apart and put together again, and which line is of which source. Pure.

What Tideover does not mean to change is kept as Spark wrote it, byte for byte. Line 2 of an offset entry carries the
query's pinned settings and grows with every version of Spark. Read off the entries that pyspark 4.2.0 writes:

``offsets/N`` v1: ``v1``, a JSON object, then one line per source in plan order, ``-`` for one without an offset yet.
``offsets/N`` v2: ``v2``, a JSON object, then ``name:offset`` lines in no order; without names of
their own the sources are ``0``, ``1``.
``commits/N`` v1 to v3: the version, then a JSON object with ``nextBatchWatermarkMs`` (v2 adds ``stateUniqueIds``).
``metadata``: a JSON object with the query's ``id``.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from streaming.spark.errors import AmbiguousSources, MalformedEntry

TopicOffsets = Mapping[str, Mapping[str, int]]
"""Of one source, as in its JSON: topic, partition (as text), next offset to read."""

_MARK, _EPOCH = "@", "epoch"
"""Offsets of a cluster to which a query moved on the same checkpoint say so (``SwitchOffset.java``). Beside the topics
it has ``"@west":{"epoch":3}``. No topic has such a name, and Spark's Kafka source does not parse it.
"""
_FENCE = re.compile(
    r"fenced by tideover: epoch (?P<epoch>\d+), operation (?P<operation>\S+):(?: attempt (?P<attempt>\d+))?"
)


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One entry of the offset log: the end of a planned batch."""

    version: int
    metadata: str
    """Line 2 as it is."""
    sources: Mapping[str, str | None]
    """Source key to its offset's text, in the order of the file; None without an offset."""
    ending: str = ""
    """A line feed behind the last source, as earlier versions may have left one."""

    @property
    def watermark_ms(self) -> int:
        """The watermark that the batch runs under; 0 when it has none."""
        return _integer(_object(self.metadata).get("batchWatermarkMs", 0), "batchWatermarkMs")

    @property
    def planned_at_ms(self) -> int:
        """When Spark planned the batch, by the driver's clock."""
        return _integer(_object(self.metadata).get("batchTimestampMs"), "batchTimestampMs")

    @property
    def state_provider(self) -> str | None:
        """``hdfs`` or ``rocksdb``, another provider's class name, or None when the entry pins none."""
        conf = _object(self.metadata).get("conf")
        provider = conf.get("spark.sql.streaming.stateStore.providerClass") if isinstance(conf, dict) else None
        if not isinstance(provider, str):
            return None
        known = {"HDFSBackedStateStoreProvider": "hdfs", "RocksDBStateStoreProvider": "rocksdb"}
        return known.get(provider.rpartition(".")[2], provider)

    def at_watermark(self, watermark_ms: int) -> "OffsetEntry":
        """The same entry under another watermark; untouched when it is that already."""
        if watermark_ms == self.watermark_ms:
            return self
        return replace(self, metadata=_compact(_object(self.metadata) | {"batchWatermarkMs": watermark_ms}))

    def moved_to(self, offsets: Mapping[str, TopicOffsets]) -> "OffsetEntry":
        """The same entry with some sources' offsets exchanged; keys are those of ``sources``."""
        texts = {key: format_kafka_offsets(value) for key, value in offsets.items()}
        return replace(self, sources={key: texts.get(key, text) for key, text in self.sources.items()})


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One entry of the commit log."""

    version: int
    metadata: str
    """Line 2 as it is."""

    @property
    def next_watermark_ms(self) -> int:
        """The watermark of the batch after this one; 0 when the query has none."""
        return _integer(_object(self.metadata).get("nextBatchWatermarkMs", 0), "nextBatchWatermarkMs")

    @property
    def state_ids(self) -> Mapping[str, list[list[str]]]:
        """Checkpoint format 2: operator to partition to store to the unique id of its state; else empty."""
        ids = _object(self.metadata).get("stateUniqueIds")
        return ids if isinstance(ids, dict) else {}

    def at_watermark(self, watermark_ms: int) -> "CommitEntry":
        """The same entry with another watermark for the next batch; untouched when it is that already."""
        if watermark_ms == self.next_watermark_ms:
            return self
        return replace(self, metadata=_compact(_object(self.metadata) | {"nextBatchWatermarkMs": watermark_ms}))

    def with_state_ids(self, ids: Mapping[str, list[list[str]]]) -> "CommitEntry":
        """The same entry naming other state files."""
        return replace(self, metadata=_compact(_object(self.metadata) | {"stateUniqueIds": dict(ids)}))


@dataclass(frozen=True, slots=True)
class Fence:
    """Whose planted entry it is: of which request of which operation, under which epoch."""

    epoch: int
    operation: str
    attempt: int = 1
    """Which request of the operation planted it."""

    @property
    def order(self) -> tuple[int, int]:
        """By which of two that are of one operation the later one is known."""
        return self.epoch, self.attempt


def parse_offset_entry(content: bytes, where: str) -> OffsetEntry:
    """Read ``offsets/N``; ``where`` names it in the error. Raises ``MalformedEntry``, also for a planted entry."""
    version, metadata, lines = _split(content, where, newest=2)
    ending = "\n" if lines and not lines[-1] else ""
    lines = lines[:-1] if ending else lines
    if version == 1:
        sources = {str(index): line for index, line in enumerate(lines)}
    else:
        named = [line.partition(":") for line in lines]
        if not all(separator for _, separator, _ in named):
            raise MalformedEntry(f"{where}: a source's line has no name in front of its offset")
        sources = {name: text for name, _, text in named}
        if len(sources) != len(named):
            raise MalformedEntry(f"{where}: two lines carry the same source name")
    if not sources:
        raise MalformedEntry(f"{where}: it names no source")
    return OffsetEntry(version, metadata, {key: None if text == "-" else text for key, text in sources.items()}, ending)


def format_offset_entry(entry: OffsetEntry) -> bytes:
    """Write ``offsets/N`` as Spark does, without a newline at its end unless it was read with one."""
    texts = {key: "-" if text is None else text for key, text in entry.sources.items()}
    lines = [f"{key}:{text}" for key, text in texts.items()] if entry.version == 2 else list(texts.values())
    return ("\n".join([f"v{entry.version}", entry.metadata, *lines]) + entry.ending).encode()


def parse_commit_entry(content: bytes, where: str) -> CommitEntry:
    """Read ``commits/N``. Raises ``MalformedEntry``."""
    version, metadata, lines = _split(content, where, newest=3)
    if lines:
        raise MalformedEntry(f"{where}: it has more than two lines")
    return CommitEntry(version, metadata)


def format_commit_entry(entry: CommitEntry) -> bytes:
    """Write ``commits/N`` as Spark does."""
    return f"v{entry.version}\n{entry.metadata}".encode()


def parse_query_id(content: bytes, where: str) -> str:
    """Read the query's id out of ``metadata``. Raises ``MalformedEntry``."""
    query_id = _object(_text(content, where), where).get("id")
    if not isinstance(query_id, str):
        raise MalformedEntry(f"{where}: it holds no query id")
    return query_id


def format_query_id(query_id: str) -> bytes:
    """Write ``metadata``."""
    return _compact({"id": query_id}).encode()


def parse_kafka_offsets(text: str) -> TopicOffsets | None:
    """Read one source's offset; None when it is not of the Kafka source's shape."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    if not all(isinstance(partitions, dict) and partitions for partitions in value.values()):
        return None
    pairs = [pair for partitions in value.values() for pair in partitions.items()]
    if not all(partition.isdigit() and type(offset) is int for partition, offset in pairs):
        return None
    return value


def format_kafka_offsets(offsets: TopicOffsets) -> str:
    """Write one source's offset: topics and partitions in their order, as Spark's Kafka source does."""
    return _compact(
        {
            topic: {partition: offsets[topic][partition] for partition in sorted(offsets[topic], key=int)}
            for topic in sorted(offsets)
        }
    )


def read_mark(text: str) -> tuple[int, TopicOffsets, str] | None:
    """The epoch under which a query came to the cluster of these offsets, the offsets, and their text without the mark.

    The epoch is 0, and the text stays as it is, where there is no mark; None when it is no Kafka source's offset.
    """
    if f'"{_MARK}' not in text:
        offsets = parse_kafka_offsets(text)
        return None if offsets is None else (0, offsets, text)
    try:
        value = json.loads(text)
    except ValueError:
        return None
    marks = [name for name in value if name.startswith(_MARK)] if isinstance(value, dict) else []
    mark = value.pop(marks[0]) if len(marks) == 1 else None
    epoch = mark.get(_EPOCH) if isinstance(mark, dict) else None
    plain = _compact(value)
    offsets = {} if plain == "{}" else parse_kafka_offsets(plain)
    return None if type(epoch) is not int or offsets is None else (epoch, offsets, plain)


def without_mark(offsets: Mapping[str, object]) -> dict[str, object]:
    """One source's offset, parsed, as Spark's Kafka source would write it."""
    return {topic: partitions for topic, partitions in offsets.items() if not topic.startswith(_MARK)}


def with_mark(offsets: TopicOffsets, mark: tuple[str, int] | None) -> str:
    """One source's offset as text; with a cluster and an epoch marked as theirs."""
    text = format_kafka_offsets(offsets)
    if mark is None:
        return text
    cluster, epoch = mark
    return _compact({**json.loads(text), f"{_MARK}{cluster}": {_EPOCH: epoch}})


def fence_sentence(fence: Fence) -> bytes:
    """What a planted entry says: not a version, so that Spark refuses it and shows the sentence."""
    return (
        f"fenced by tideover: epoch {fence.epoch}, operation {fence.operation}: attempt {fence.attempt} to move this "
        "checkpoint to another Kafka cluster; do not start it and do not delete this file"
    ).encode()


def parse_fence(content: bytes) -> Fence | None:
    """Whose planted entry this is; None when it is not a planted one."""
    match = _FENCE.match(content.decode(errors="replace"))
    return Fence(int(match["epoch"]), match["operation"], int(match["attempt"] or 1)) if match else None


def _split(content: bytes, where: str, *, newest: int) -> tuple[int, str, list[str]]:
    version, *rest = _text(content, where).split("\n")
    if not re.fullmatch(r"v[1-9]", version) or int(version[1:]) > newest:
        raise MalformedEntry(f"{where}: its version is {version[:100]!r}, and only v1 to v{newest} are supported")
    if not rest:
        raise MalformedEntry(f"{where}: nothing follows its version")
    _object(rest[0], where)
    return int(version[1:]), rest[0], rest[1:]


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise MalformedEntry(f"{where}: it is not text") from error


def _object(text: str, where: str = "entry") -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MalformedEntry(f"{where}: {text[:60]!r} is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedEntry(f"{where}: {text[:60]!r} is not a JSON object")
    return value


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise MalformedEntry(f"{name} is {value!r}, not a number")
    return value


def _compact(value: Mapping[str, object] | TopicOffsets) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


Declared = Mapping[str, Collection[str]]
"""Source name to its topics, in the order of declaration and by their names on the active cluster. A source that
subscribes by a pattern has none here, and may read any topic."""


def bind_sources(entries: Iterable[OffsetEntry], declared: Declared) -> Mapping[str, str]:
    """Map each source's key in the entry to its declared name, with ``#2`` and so on behind it when read again.

    Several entries of one log may be given: a source that was still without an offset in one is known by another.
    Raises ``AmbiguousSources`` when that cannot be decided.

    A v1 entry knows its sources by their place in the plan only, which the order of declaration usually is but need not
    be. ``join(b, a)`` turns it round. So what the offsets say comes first: the topics that a line reads. The order
    decides only between lines with the same topics, and a guess is never made.

    A source that a query reads twice, in a self-join or a union with itself, has a line for each time. Spark requests
    the end of each on its own: the lines may differ by what was produced in between. So each has a name and a place of
    its own: ``orders``, then ``orders#2``, in plan order.
    """
    topics = _topics(entries)
    lines = [key for key in topics if topics[key] != set() or key in declared]
    choices = {key: _choices(key, topics[key], declared) for key in lines}
    bound = {key: names[0] for key, names in choices.items() if len(names) == 1}
    if {name for key, name in bound.items() if topics[key] or key in declared} == set(declared):
        # What has no offset yet is another source then, such as a folder without a file.
        lines = [key for key in lines if topics[key] or key in declared]
    while any(key not in bound for key in lines):
        bound |= _certain(choices, bound) or _by_order(choices, bound)
    unread = [name for name in declared if name not in bound.values()]
    if unread:
        raise AmbiguousSources(
            f"no source of the checkpoint reads {', '.join(unread)}, which the configuration declares",
            hint="the configuration's sources must be those that the query was started with",
        )
    return _numbered({key: bound[key] for key in lines})


def declared_name(name: str) -> str:
    """The declared source behind a bound one: ``orders`` for ``orders#2``."""
    return name.partition("#")[0]


def _numbered(bound: Mapping[str, str]) -> dict[str, str]:
    """The names in plan order, numbered where one comes again."""
    times: Counter[str] = Counter()
    found: dict[str, str] = {}
    for key, name in bound.items():
        times[name] += 1
        found[key] = name if times[name] == 1 else f"{name}#{times[name]}"
    return found


def source_offsets(entry: OffsetEntry, bound: Mapping[str, str]) -> dict[str, dict[str, dict[str, int]]]:
    """The offsets of an entry below the names of their sources; a source without an offset yet is left out."""
    return {
        name: {topic: dict(partitions) for topic, partitions in offsets.items()}
        for key, name in bound.items()
        if (offsets := _kafka(entry, key)) is not None
    }


def _kafka(entry: OffsetEntry, key: str) -> TopicOffsets | None:
    text = entry.sources.get(key)
    return None if text is None else parse_kafka_offsets(text)


def _topics(entries: Iterable[OffsetEntry]) -> Mapping[str, set[str] | None]:
    """Topics by source key, in plan order: None while unknown, empty for a source that is not Kafka's.

    Kafka's source writes ``{}`` while its pattern matches no topic.
    """
    found: dict[str, set[str] | None] = {}
    for entry in entries:
        for key, text in entry.sources.items():
            if text is None or text == "{}":
                found.setdefault(key, None)
            else:
                found[key] = (found.get(key) or set()) | set(parse_kafka_offsets(text) or {})
    return dict(
        sorted(found.items(), key=lambda item: (not item[0].isdigit(), int(item[0]) if item[0].isdigit() else 0))
    )


def _choices(key: str, topics: set[str] | None, declared: Declared) -> list[str]:
    if key in declared:
        return [key]
    if topics is None:
        return list(declared)
    named = [name for name, own in declared.items() if own and topics <= set(own)]
    names = named or [name for name, own in declared.items() if not own]
    if not names:
        raise AmbiguousSources(
            f"source {key} of the checkpoint reads {', '.join(sorted(topics))}, but no declared source does",
            hint="declare each source with the topics that it reads on its active cluster",
        )
    return names


def _certain(choices: Mapping[str, list[str]], bound: Mapping[str, str]) -> dict[str, str]:
    """One line that has a single name left, or none."""
    taken = set(bound.values())
    for key, names in choices.items():
        if key in bound:
            continue
        left = [name for name in names if name not in taken]
        if len(left) == 1:
            return {key: left[0]}
    return {}


def _by_order(choices: Mapping[str, list[str]], bound: Mapping[str, str]) -> dict[str, str]:
    """The order of declaration, for as many lines that look alike as there are sources that they could be."""
    taken = set(bound.values())
    alike: dict[tuple[str, ...], list[str]] = {}
    for key, names in choices.items():
        if key not in bound:
            alike.setdefault(tuple(name for name in names if name not in taken), []).append(key)
    for group, keys in alike.items():
        if len(group) == len(keys) and all(key.isdigit() for key in keys):
            return dict(zip(keys, group, strict=True))
    raise AmbiguousSources(
        f"sources {', '.join(key for key in choices if key not in bound)} of the checkpoint cannot be distinguished",
        hint="give the declared sources topics that differ",
    )
