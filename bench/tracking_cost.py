"""What one batch's tracking costs, at 4 to 3,500 partitions: the tracker alone, on one real broker.

No Spark takes part: the tracker gets batches as a checkpoint reports them, each after records were written to
every partition. A sample is the processor time of the tracker's threads (its own, and its connection's) from the word
of a batch until the store has the batch's positions. So a sample of the cluster's ends is in it where one was due. The
tracker rests between its looks as long as it takes to stay within its share of a core. Every batch here waits for that:
no two are read together.
"""

import threading
import time
from datetime import UTC, datetime

from bench.broker import broker, make_topics, writing
from bench.errors import BenchError
from bench.report import Row
from bench.samples import Spread
from bench.setting import Setting
from bench.tracking import ThreadClock, adopt
from state.settings.keys import Cluster, Timeline
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from streaming.kafka.link import Link
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.tracker import Tracker

NAME = "tracking-cost"
COUNTS = (4, 100, 300, 1_000, 3_500)
"""Partitions."""
LIMIT_MS = {300: 35.0}
BATCH_RECORDS = 2_000
"""Of all partitions together, and at least one of each."""
BATCHES = 10
_WARM_BATCHES = 3
_REST_SECONDS = 1.1
"""Longer than the tracker rests at most."""
_STORED_SECONDS = 60.0
_LOOK_SECONDS = 0.01


def measure(setting: Setting) -> list[Row]:
    """Take all samples of one partition count after the other."""
    rows = []
    with broker(setting) as bootstrap:
        make_topics(bootstrap, {_topic(count): count for count in COUNTS})
        for count in COUNTS:
            setting.say(f"{count:,} partitions, {BATCHES} batches")
            rows.append(_row(count, _taken(setting, bootstrap, count)))
    return rows


def _taken(setting: Setting, bootstrap: str, count: int) -> list[float]:
    """Milliseconds of each batch, those that warm up left out."""
    folder = setting.directory / str(count)
    folder.mkdir(parents=True, exist_ok=True)
    subject = Subject("bench", 1, "bench", str(folder / "checkpoint"))
    before = {thread.ident for thread in threading.enumerate()}
    store = open_store(f"sqlite:///{folder / 'positions.db'}")
    adopt(store, subject.checkpoint)
    with Link(Cluster(bootstrap=(bootstrap,)), name="bench") as link:
        tracker = Tracker(lambda _: link, store, folder / "spool", lambda: datetime.now(UTC), lambda _: Timeline())
        spent, ends, milliseconds = ThreadClock(before), [0] * count, []
        try:
            for number in range(_WARM_BATCHES + BATCHES):
                _write(bootstrap, count, ends)
                time.sleep(_REST_SECONDS)
                began = spent()
                _notify(tracker, subject, number, ends)
                _await_stored(store, subject, number)
                milliseconds.append((spent() - began) * 1000)
        finally:
            tracker.close(5.0)
            store.close()
    return milliseconds[_WARM_BATCHES:]


def _write(bootstrap: str, count: int, ends: list[int]) -> None:
    """The records of one batch, for all partitions in turn; ``ends`` moves on with them."""
    with writing(bootstrap) as put:
        for number in range(max(BATCH_RECORDS, count)):
            partition = number % count
            put(_topic(count), partition, b"%096d" % ends[partition])
            ends[partition] += 1


def _notify(tracker: Tracker, subject: Subject, number: int, ends: list[int]) -> None:
    offsets = {"orders": {_topic(len(ends)): {str(partition): end for partition, end in enumerate(ends)}}}
    for committed in (False, True):
        tracker.see(subject, Batch(id=number, offsets=offsets, committed=committed, planned_after=time.monotonic()))
    tracker.count(subject, number, {"orders": max(BATCH_RECORDS, len(ends))})


def _await_stored(store: ControllerStore, subject: Subject, number: int) -> None:
    """Until the positions of the batch can be read, with the records before each end."""
    deadline = time.monotonic() + _STORED_SECONDS
    while store.tracked_batch(subject.query) != number:
        if time.monotonic() > deadline:
            raise BenchError(f"batch {number} was not stored within {_STORED_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
    bare = [each for each in store.positions(subject.query, batch=number) if not each.ring]
    if bare:
        raise BenchError(f"{len(bare)} positions of batch {number} have no records, first {bare[0]}")


def _topic(count: int) -> str:
    return f"cost-{count}"


def _row(count: int, milliseconds: list[float]) -> Row:
    each = max(BATCH_RECORDS, count) / count
    return Row(
        measurement=NAME, what=f"tracking, {count:,} partitions: processor time of a batch", unit="ms",
        ours=Spread.of(milliseconds), limit=LIMIT_MS.get(count),
        note=f"{each:g} new records in each partition, read back, hashed and stored in SQLite.",
    )  # fmt: skip
