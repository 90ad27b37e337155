"""Gives a batch that Spark planned and did not commit smaller ends.

Spark runs a planned batch as its entry of the offset log says, whatever a limit says now. A batch that is too large
for its driver ends each run of the query, for ever. As long as no sink has any of it, nothing speaks against other
ends: the batch keeps its id, and what is cut off comes in the batches behind it. State stays as it is, for the batch
begins at the version that the batch before it left, and writes the next one whole.

One file beside the checkpoint, ``_tideover_cut/<batch>``, holds both contents of the entry while the cut is made. It is
there before the entry is touched, and gone before a run begins. The entry is taken away and created again, never
replaced: creating is what only one process can do. A runner that thaws in between finds the name taken, or puts back
what was there. Once the smaller entry is there it stays: a run may have read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, ValidationError

from state.messages import CheckpointReport, SinkState
from state.settings.keys import Sink
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import (
    OffsetEntry,
    TopicOffsets,
    format_offset_entry,
    parse_kafka_offsets,
    parse_offset_entry,
    read_mark,
    with_mark,
)
from streaming.spark.checkpoint.mapping import HOME, Placed, read_moves
from streaming.spark.checkpoint.read import newest_commit, read_log_end
from streaming.spark.errors import EmptyCheckpoint, FileVanished, MalformedEntry, MovedOn, NotACheckpoint

CUTS = "_tideover_cut"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedBatch:
    """A batch that is planned and not committed, in the offsets of the cluster on which its query is placed."""

    batch: int
    content: bytes
    """Of its entry in the offset log."""
    entry: OffsetEntry
    begins: Mapping[str, TopicOffsets]
    """By the source's key, where the batch begins; a source is left out where that is not known."""
    mark: tuple[str, int] | None
    """What offsets of that cluster carry in the log: its name, and the epoch under which the query came there."""

    @property
    def is_counted(self) -> bool:
        """Whether it is known of each Kafka partition where the batch begins."""
        ends = ((key, _offsets(self.entry, key)) for key in self.entry.sources)
        return all(
            partition in self.begins.get(key, {}).get(topic, {})
            for key, topics in ends
            for topic, partitions in (topics or {}).items()
            for partition in partitions
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """Other ends for a planned batch."""

    batch: int
    records: int
    """Of its Kafka sources as it was planned, in offsets."""
    kept: int
    """The same with the smaller ends."""
    former: bytes
    content: bytes
    """Its entry before and after."""


def read_unfinished(
    files: CheckpointFiles, checkpoint: str, placed: Placed, newest: int | None
) -> UnfinishedBatch | None:
    """The batch behind the newest committed one, with which the next run begins; None where none is planned.

    Raises what ``read_log_end`` raises.
    """
    if not files.exists(_entry(checkpoint, 0 if newest is None else newest + 1)):
        return None
    try:
        end = read_log_end(files, checkpoint, placed)
    except (EmptyCheckpoint, NotACheckpoint):
        return None
    if end.planned is None:
        return None
    batch = 0 if end.batch is None else end.batch + 1
    epoch = read_moves(files, checkpoint, placed).epoch
    keys = list(end.planned.sources)
    found = {key: _begin(files, checkpoint, key) if end.last is None else _offsets(end.last, key) for key in keys}
    return UnfinishedBatch(
        batch=batch,
        content=files.read_bytes(_entry(checkpoint, batch)),
        entry=end.planned,
        begins={key: begin for key, begin in found.items() if begin is not None},
        mark=None if epoch == HOME else (placed.cluster, epoch),
    )


def _offsets(entry: OffsetEntry, key: str) -> TopicOffsets | None:
    text = entry.sources.get(key)
    return None if text is None else parse_kafka_offsets(text)


def _begin(files: CheckpointFiles, checkpoint: str, key: str) -> TopicOffsets | None:
    """Where batch 0 of a source begins, as Spark's Kafka source keeps it: a zero byte, ``v1``, and the offsets."""
    try:
        text = files.read_bytes(join(checkpoint, "sources", key, "0")).decode().lstrip("\0")
    except (FileVanished, UnicodeDecodeError):
        return None
    version, _, offsets = text.partition("\n")
    marked = read_mark(offsets.strip()) if version == "v1" else None
    return None if marked is None else marked[1]


def cut_to(unfinished: UnfinishedBatch, limit: int) -> Cut | None:
    """The batch with at most ``limit`` records of each Kafka source; None where it has no more than that.

    Each partition keeps its share, as with Spark's own ``maxOffsetsPerTrigger``. A partition of which it is not known
    where the batch begins keeps its end, and what is no Kafka source's stays.
    """
    texts = dict(parse_offset_entry(unfinished.content, f"offsets/{unfinished.batch}").sources)
    records = kept = 0
    for key, text in unfinished.entry.sources.items():
        ends = None if text is None else parse_kafka_offsets(text)
        begins = unfinished.begins.get(key)
        if ends is None or begins is None:
            continue
        sizes = _sizes(begins, ends)
        total, shares = sum(sizes.values()), _shares(sizes, limit)
        records, kept = records + total, kept + sum(shares.values())
        if total > limit:
            texts[key] = with_mark(_ended(begins, ends, shares), unfinished.mark)
    if kept == records:
        return None
    return Cut(
        batch=unfinished.batch,
        records=records,
        kept=kept,
        former=unfinished.content,
        content=format_offset_entry(replace(unfinished.entry, sources=texts)),
    )


Partition = tuple[str, str]


def _sizes(begins: TopicOffsets, ends: TopicOffsets) -> dict[Partition, int]:
    """How many offsets the batch has of each partition of which it is known where it begins."""
    return {
        (topic, partition): max(0, end - begins[topic][partition])
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
        if partition in begins.get(topic, {})
    }


def _shares(sizes: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """At most ``limit`` in all, by size; at least one, so that the batch gets on."""
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {key: size * limit // total for key, size in sizes.items()}
    if not any(shares.values()):
        shares[max(sizes, key=lambda key: sizes[key])] = 1
    return shares


def _ended(begins: TopicOffsets, ends: TopicOffsets, shares: Mapping[Partition, int]) -> TopicOffsets:
    return {
        topic: {
            partition: begins[topic][partition] + shares[topic, partition] if (topic, partition) in shares else end
            for partition, end in partitions.items()
        }
        for topic, partitions in ends.items()
    }


def objection(report: CheckpointReport, sink: Sink) -> str | None:
    """Why a planned batch must keep its ends, because of what its sink may have; None where nothing speaks against it.

    A sink that knows batches would drop the smaller one as the one that it has. Another one would get the records
    twice. A sink that overwrites by key gets them again without harm.
    """
    if report.planned is None or report.planned.sink is SinkState.HAS_NOT or sink is Sink.KEYED:
        return None
    name = report.sink_format or "its sink"
    if report.planned.sink is SinkState.HAS:
        return f"{name} has that batch already"
    if report.planned.sink is SinkState.FORGOT:
        return f"{name} no longer remembers the batches of that time"
    return f"it is unknown whether {name} has any of that batch"


class _Cutting(BaseModel):
    """The content of the file beside the checkpoint."""

    model_config = ConfigDict(frozen=True)

    batch: int
    epoch: int
    former: str
    content: str


def write_cut(files: CheckpointFiles, checkpoint: str, cut: Cut, epoch: int, still: Callable[[], None]) -> None:
    """Give the batch its smaller ends; doing it again changes nothing.

    ``still`` raises where the row does not want a run of this process any more: then the entry is what it was. Raises
    ``MovedOn`` where another process has written the entry, or committed the batch.
    """
    path, entry = _cutting(checkpoint, cut.batch), _entry(checkpoint, cut.batch)
    cutting = _Cutting(batch=cut.batch, epoch=epoch, former=cut.former.decode(), content=cut.content.decode())
    files.create_atomically(path, cutting.model_dump_json().encode())
    try:
        still()
        if files.read_bytes(entry) != cut.former:
            raise MovedOn(f"{entry} has changed")
    except BaseException:
        files.delete(path)  # what was not begun is not to be taken back
        raise
    files.delete(entry)
    try:
        still()
        newest = newest_commit(files, checkpoint)
        if newest is not None and newest >= cut.batch:
            raise MovedOn(f"batch {cut.batch} of {checkpoint} has been committed")
        if not files.create_atomically(entry, cut.content) and files.read_bytes(entry) != cut.content:
            raise MovedOn(f"another process has written {entry}")
    except BaseException:
        files.create_atomically(entry, cut.former)  # unless the name is taken: then that is what the next run reads
        raise
    files.delete(path)  # from here on the smaller ends count, for whichever process starts the query


def broken_off(files: CheckpointFiles, checkpoint: str) -> tuple[str, ...]:
    """The files of cuts that are under way, or were broken off: none, as a rule."""
    return tuple(files.list_names(join(checkpoint, CUTS)))


def restore_entry(files: CheckpointFiles, checkpoint: str) -> int | None:
    """Put back the entry of a batch whose cut was broken off between taking it away and creating it; its id.

    None where there is nothing to put back. Of a committed batch it is not known which ends it had, so that one stays
    as it is: a start refuses it in words. Raises ``MalformedEntry``.
    """
    names = broken_off(files, checkpoint)
    newest = newest_commit(files, checkpoint) if names else None
    batch = 0 if newest is None else newest + 1
    if str(batch) not in names or files.exists(_entry(checkpoint, batch)):
        return None
    path = _cutting(checkpoint, batch)
    try:
        cutting = _Cutting.model_validate_json(files.read_bytes(path))
    except ValidationError as error:
        raise MalformedEntry(f"{path} holds no entry: {error.errors()[0]['msg']}") from error
    return batch if files.create_atomically(_entry(checkpoint, batch), cutting.former.encode()) else None


def forget_cuts(files: CheckpointFiles, checkpoint: str) -> None:
    """Take away what broken-off cuts left: before a run begins, so that it is never taken for one under way."""
    for name in broken_off(files, checkpoint):
        files.delete(join(checkpoint, CUTS, name))


def _cutting(checkpoint: str, batch: int) -> str:
    return join(checkpoint, CUTS, str(batch))


def _entry(checkpoint: str, batch: int) -> str:
    return join(checkpoint, "offsets", str(batch))
