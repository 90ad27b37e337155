"""A query of real Spark whose checkpoint loses files, before a move and after it, wherever the checkpoint lies.

Each case is a copy of one checkpoint without some of its files. A start either is refused, by the rules that a runner
queries before each start, or by Spark itself in words; or the query continues as if nothing had been deleted: no batch
runs again, and its sink has every record once.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from state.model.entities import Assignment, SeenCheckpoint
from streaming.spark.authority import restore_mappings
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.log_text import parse_query_id
from streaming.spark.checkpoint.mapping import MAPPINGS, Placed
from streaming.spark.checkpoint.read import batch_ids, newest_commit, require_whole
from streaming.spark.errors import CheckpointError
from streaming.spark.known_files import find_files, require_known
from streaming.spark.query.kafka_options import SWITCHING, switching_options
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.streams import Ledger, Move, read

REFUSED, SPARK_REFUSES, CONTINUES = "refused", "Spark refuses", "continues"
LIMIT = 16
"""Records of a batch, from both partitions."""
QUERY = "revenue"
NEWEST, BEFORE, ONE = "newest", "before", "a file"
"""Stand for the newest batch of a log, for the one before it, and for the newest version of one state store."""

KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": ((), CONTINUES),
    "metadata": (("metadata",), REFUSED),
    "offsets": (("offsets",), REFUSED),
    "commits": (("commits",), REFUSED),
    "both logs": (("offsets", "commits"), REFUSED),
    "the logs and metadata": (("offsets", "commits", "metadata"), REFUSED),
    "the newest offsets": (("offsets/newest",), REFUSED),
    "the newest commit": (("commits/newest",), REFUSED),
    "the newest batch": (("offsets/newest", "commits/newest"), REFUSED),
    "the state": (("state",), REFUSED),
    "everything": (("",), REFUSED),
    "everything of Tideover": ((MAPPINGS, "_tideover_epochs"), CONTINUES),
    "the sources": (("sources",), CONTINUES),
    "the commit before": (("commits/before",), CONTINUES),
    "the offsets before": (("offsets/before",), SPARK_REFUSES),
    "a file of the state": (("state/a file",), SPARK_REFUSES),
}
UNREAD = frozenset({"a file of the state"})
"""Kinds that a start needs only once there is something to read."""


@dataclass
class Losing(Move):
    """One query on its way from east to west, and copies of its checkpoint that lack files."""

    base: str = ""
    """The folder of its checkpoints, of any scheme."""
    sink: Ledger = field(default_factory=Ledger)
    copies: int = 0

    @property
    def old(self) -> str:
        return join(self.base, "checkpoint")

    def at(self, cluster: str) -> Assignment:
        """The row of the query while it is there."""
        move = {"mapping": "2-move.1", "epoch": 2, "placed_epoch": 2} if cluster == "west" else {"mapping": None}
        return samples.assignment(query=QUERY, cluster=cluster, checkpoint=self.old, **move)

    def run(self, row: Assignment, sink: Ledger) -> StreamingQuery:
        """Run the query until it has read everything. Raises what it ends with."""
        side = self.east if row.cluster == "east" else self.west
        ours = switching_options(row.cluster, Placed.of(row).epoch, timedelta())
        records = read(self.session, side, self.topic, source=SWITCHING, maxOffsetsPerTrigger=str(LIMIT), **ours)
        writer = sink.writer(records).trigger(availableNow=True).option("checkpointLocation", row.checkpoint)
        query = writer.start()
        query.awaitTermination(120)
        return query

    def known(self, row: Assignment) -> MemoryStore:
        """A store that knows what a runner reported of the whole checkpoint, and the mappings beside it."""
        store, files = MemoryStore(lambda: datetime.now(UTC)), self.files
        seen = SeenCheckpoint(
            row.checkpoint,
            row.epoch,
            batch_ids(files, row.checkpoint, "offsets")[-1],
            newest_commit(files, row.checkpoint),
            parse_query_id(files.read_bytes(join(row.checkpoint, "metadata")), "metadata"),
            find_files(files, row.checkpoint).has_state,
        )
        store.report_query(samples.fact(query=QUERY, checkpoint=row.checkpoint, seen=seen))
        for name in files.list_names(join(row.checkpoint, MAPPINGS)):
            store.keep_mapping(QUERY, name, files.read_bytes(join(row.checkpoint, MAPPINGS, name)).decode())
        return store

    def without(self, row: Assignment, gone: Collection[str]) -> tuple[Assignment, MemoryStore]:
        """A copy of the checkpoint without some files, and a store that knew the copy whole."""
        self.copies += 1
        copy = replace(row, checkpoint=join(self.base, f"copy-{self.copies}"))
        names = self.files.walk(row.checkpoint)
        self.files.copy((join(row.checkpoint, name), join(copy.checkpoint, name)) for name in names)
        store = self.known(copy)
        for path in (path for each in gone for path in self._paths(copy.checkpoint, each)):
            if self.files.exists(path):
                self.files.delete(path, recursive=True)
        return copy, store

    def _paths(self, checkpoint: str, name: str) -> list[str]:
        folder, _, which = name.partition("/")
        if which == ONE:
            version = 1 + batch_ids(self.files, checkpoint, "commits")[-1]
            names = self.files.walk(join(checkpoint, folder))
            one = min(each for each in names if f"/{version}." in each).rpartition(".")[0]
            # Both the delta and the snapshot, which Spark's maintenance writes after a minute: either is enough for it.
            return [join(checkpoint, folder, each) for each in names if each.startswith(f"{one}.")]
        if which not in {NEWEST, BEFORE}:
            return [join(checkpoint, name) if name else checkpoint]
        return [join(checkpoint, folder, str(batch_ids(self.files, checkpoint, folder)[-1 if which == NEWEST else -2]))]

    def start(self, row: Assignment, store: MemoryStore) -> tuple[str, str, Ledger]:
        """What became of a start, as a runner makes it, with the sentence of a refusal and what the sink got."""
        sink = Ledger(rows=dict(self.sink.rows))
        try:
            restore_mappings(self.files, row, store)
            require_whole(self.files, row.checkpoint, Placed.of(row))
            require_known(self.files, row, store)
        except CheckpointError as error:
            return REFUSED, str(error), sink
        try:
            self.run(row, sink)
        except StreamingQueryException as error:
            return SPARK_REFUSES, str(error), sink
        return CONTINUES, "", sink


def began(move: Losing, first: int, end: int) -> None:
    """Two runs at home: of the first one Spark 4.2.0 cannot replay a batch by log v2."""
    for written in (first, end):
        move.east.extend(move.topic, written)
        move.run(move.at("east"), move.sink)


def moved(move: Losing, end: int) -> None:
    """The batch in flight ends in an error, behind which the query goes to west and reads the rest."""
    move.east.extend(move.topic, end)
    move.sink.failing = "after"
    try:
        move.run(move.at("east"), move.sink)
    except StreamingQueryException:
        move.sink.failing = None
    assert move.sink.failing is None, "the run was to end with an error"
    move.switch()
    move.run(move.at("west"), move.sink)


def judged(
    move: Losing, cluster: str, end: int, kinds: Collection[str], report: Callable[[str], None]
) -> Iterator[str]:
    """Start from a copy for each kind; what is wrong, one sentence each. ``end``: the ids that lie on the cluster."""
    row = move.at(cluster)
    committed = newest_commit(move.files, row.checkpoint)
    assert committed is not None
    for kind in kinds:
        gone, expected = KINDS[kind]
        copy, store = move.without(row, gone)
        became, said, sink = move.start(copy, store)
        report(f"{cluster}, {kind}: {became} {said[:160]}")
        waits = became == CONTINUES and not sink.batches and kind in UNREAD
        if became != expected and not waits:
            yield f"{kind}: {became}, not {expected}: {said}"
        if became == CONTINUES and sink.rows != Ledger.truth(end):
            yield f"{kind}: the sink does not hold every record once"
        if became == CONTINUES and any(batch <= committed for batch in sink.batches):
            yield f"{kind}: of batches {sink.batches} some had run before"
        if became != CONTINUES and sink.batches:
            yield f"{kind}: {became}, but the sink got batches {sink.batches}"
