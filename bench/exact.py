"""The exact place of 500 partitions on one real broker, found by content.

Two topics on one broker take the part of two clusters: the old one, and its copy behind foreign records, so that no
offset agrees. Several records share each millisecond, so a time cannot name a place. The tracker's own reader reads
what is remembered from the old topic; its time is a row of its own. The resolver looks up all partitions at once:
topics, ends, begins, times, records. *warm*: by a client that is connected; *cold*: from making it on. *From the
store*: as an operation does it. It begins at the rows of a query whose last twelve batches are tracked with all that
is remembered, and ends at the offsets at which it resumes.

Every place is checked against the one that was written: one too late or inexact fails the measurement. No other tool
finds it. Beside it is a look-up by time alone, with the records that it would repeat.
"""

import gc
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from bench.broker import broker, make_topics, writing
from bench.errors import BenchError
from bench.librdkafka_lookup import TheirLookup
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from bench.tracking import adopt
from orchestrator.facts.gather import FactGatherer
from state.messages import CheckpointReport
from state.model.entities import OperationKind, Position, TopicPartition
from state.model.fingerprints import LIMIT, Fingerprints
from state.settings.keys import Cluster, MethodName, Tideover
from state.store.sql.migrate import open_store
from state.store.write_checks import KEPT_BATCHES
from streaming.clocks import SystemClock
from streaming.cluster_log import ClusterLog
from streaming.kafka.link import Link
from streaming.last_records import LastRecords, read_last_records
from streaming.resolve.resolver import resolve
from streaming.resume.model import Resolution, Rules, Want

NAME = QUERY = SOURCE = "exact"
HERE, THERE = "here", "there"
OLD, NEW = "exact-old", "exact-new"
PARTITIONS = 500
RECORDS = 400
FOREIGN = 37
ROUNDS = 9
TIMES = 4.0
"""To reach, of the time that librdkafka takes for one look-up by time of the same partitions."""
STORED = "from the store to the offsets"
LOOKED_UP, READ, DECIDED = "the topic, ends, begins and times", "the records around each place", "deciding"
_BASE_MS = 1_700_000_000_000
_PER_MS = 5
_PER_BATCH = 4
_SECONDS = 60.0
RULES = Rules(methods=(MethodName.EXACT, MethodName.TIMESTAMP), buffer_ms=0)


def measure(setting: Setting) -> list[Row]:
    """Take all samples in turns. Raises BenchError when a place is not the exact one."""
    chance = random.Random(7)
    positions = {TopicPartition(OLD, number): chance.randint(300, RECORDS) for number in range(PARTITIONS)}
    milliseconds: dict[str, list[float]] = {}
    parts: list[dict[str, float]] = []
    setting.say(f"one broker, {PARTITIONS} partitions of {RECORDS} records, twice")
    with broker(setting) as bootstrap:
        make_topics(bootstrap, {OLD: PARTITIONS, NEW: PARTITIONS})
        _fill(bootstrap)
        setting.say(f"{ROUNDS} rounds: tails, resume offsets, look-ups by time")
        cluster = Cluster(bootstrap=(bootstrap,))
        with Link(cluster, name="bench") as link:
            tails = _tails(link, positions)
            wants = _wants(positions, tails)
            tracked = _Tracked(setting.directory / "exact", bootstrap, link, positions, tails)
            times = {TopicPartition(NEW, want.partition): want.timestamp_ms or 0 for want in wants}
            theirs = TheirLookup(bootstrap)
            clients: dict[str, Callable[[], object]] = {
                "tails": lambda: _tails(link, positions),
                STORED: tracked.places,
                "warm": lambda: _places(link, wants),
                "parts": lambda: parts.append(_parts(link, wants)),
                "cold": lambda: _cold(cluster, wants),
                "time": lambda: theirs.request_each(times),
            }
            for request in clients.values():
                request()
            for _ in range(ROUNDS):
                for name, request in clients.items():
                    milliseconds.setdefault(name, []).append(_took(request))
            repeats = sum(
                positions[TopicPartition(OLD, key.partition)] + FOREIGN - offset
                for key, offset in theirs.request_each(times).items()
            )
            theirs.close()
            tracked.close()
    return _rows(milliseconds, parts, repeats)


def _took(request: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    request()
    return (time.perf_counter() - started) * 1000


def _tails(link: Link, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, LastRecords]:
    tails = read_last_records(link, positions, count=LIMIT, timeout=_SECONDS)
    short = [key for key, tail in tails.items() if tail.error is not None or len(tail.records) < LIMIT]
    if short:
        raise BenchError(f"{len(short)} partitions could not be read back, first {short[0]}: {tails[short[0]].error}")
    return tails


def _wants(positions: Mapping[TopicPartition, int], tails: Mapping[TopicPartition, LastRecords]) -> list[Want]:
    return [
        Want(
            source=SOURCE,
            topic=OLD,
            partition=key.partition,
            target_topic=NEW,
            offset=position,
            ring=tails[key].records,
            ring_offset=position,
            dense=None,
            begin_known=0,
            timestamp_ms=tails[key].records.newest_timestamp,
        )
        for key, position in positions.items()
    ]


def _places(log: ClusterLog, wants: Sequence[Want]) -> None:
    """Resolve, and require of each partition the one right answer."""
    _require_exact(resolve(log, wants, RULES, old_ends={}, now=datetime.now(UTC), timeout=_SECONDS))


def _require_exact(found: Resolution | None) -> None:
    targets = () if found is None else found.targets
    wrong = [each for each in targets if each.target_offset != each.offset + FOREIGN or not each.exact]
    if wrong or len(targets) != PARTITIONS:
        raise BenchError(f"{len(wrong)} of {len(targets)} resume offsets are not exact, first {wrong[:1]}")


class _Tracked:
    """The rows of one query in a store of its own, and the operation's way from them to offsets."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        link: Link,
        positions: Mapping[TopicPartition, int],
        tails: Mapping[TopicPartition, LastRecords],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._link = link
        self._settings = _settings(folder, bootstrap)
        self._store = open_store(self._settings.store.get_secret_value())
        self._report = CheckpointReport(
            checkpoint=str(folder / "checkpoint"),
            batch=KEPT_BATCHES - 1,
            offsets={SOURCE: {OLD: {str(key.partition): offset for key, offset in positions.items()}}},
        )
        adopt(self._store, self._report.checkpoint, query=QUERY, cluster=HERE)
        for batch in range(KEPT_BATCHES):
            behind = (KEPT_BATCHES - 1 - batch) * _PER_BATCH
            rows = (_row(key, batch, offset - behind, tails[key].records) for key, offset in positions.items())
            self._store.save_positions(rows)

    def places(self) -> None:
        """Look up, as a failover from a cluster that is gone, and require of each partition the one right answer."""
        gatherer = FactGatherer(store=self._store, settings=self._settings, logs=self._log, clock=SystemClock())
        facts = gatherer.before(OperationKind.FAILOVER, QUERY, THERE)
        _require_exact(gatherer.after(replace(facts, standings=()), self._report, stateful=False).resolution)

    def close(self) -> None:
        self._store.close()

    def _log(self, cluster: str) -> Link:
        return self._link


def _settings(folder: Path, bootstrap: str) -> Tideover:
    query = {
        "pipeline": "bench.exact:none", "sources": {SOURCE: {"topics": [OLD]}}, "clusters": [HERE, THERE],
        "runners": [QUERY], "checkpoint": str(folder / "checkpoint"), "sink": "keyed",
        "methods": list(RULES.methods), "buffer": "0s",
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": f"sqlite:///{folder / 'tideover.db'}",
            "clusters": {name: {"bootstrap": [bootstrap]} for name in (HERE, THERE)},
            "routes": [{"from": HERE, "to": THERE, "topics": {OLD: NEW}}],
            "runners": {QUERY: {"site": "bench"}},
            "queries": {QUERY: query},
        }
    )


def _row(key: TopicPartition, batch: int, offset: int, remembered: Fingerprints) -> Position:
    ring = remembered.before(offset)
    return Position(
        query=QUERY, epoch=1, cluster=HERE, source=SOURCE, topic=key.topic, partition=key.partition, batch=batch,
        offset=offset, timestamp_ms=ring.newest_timestamp, leader_epoch=0, topic_id=None, ring=ring, dense=True,
        tracked_at=datetime.now(UTC),
    )  # fmt: skip


class _Timed:
    """A log, and how long was waited for its answers, by kind of request."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self.seconds: dict[str, float] = defaultdict(float)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(*questions: Any, **more: Any) -> Any:
            began = time.perf_counter()
            answer = getattr(self._log, name)(*questions, **more)
            self.seconds[name] += time.perf_counter() - began
            return answer

        return request


def _parts(link: Link, wants: Sequence[Want]) -> dict[str, float]:
    """Milliseconds of one look-up, warm, by what they went into."""
    log = _Timed(link)
    whole = _took(lambda: _places(cast(ClusterLog, log), wants))
    requested, read = (
        1000 * sum(log.seconds[name] for name in names) for names in (("describe", "offsets"), ("fetch",))
    )
    return {LOOKED_UP: requested, READ: read, DECIDED: whole - requested - read}


def _cold(cluster: Cluster, wants: Sequence[Want]) -> None:
    with Link(cluster, name="bench") as link:
        _places(link, wants)


def _fill(bootstrap: str) -> None:
    with writing(bootstrap) as put:
        for partition in range(PARTITIONS):
            for number in range(FOREIGN):
                put(NEW, partition, b"foreign %d" % number, _BASE_MS - 1_000)
            for number in range(RECORDS):
                value = b"record %d of %d, " % (number, partition) + b"x" * 60
                for topic in (OLD, NEW):
                    put(topic, partition, value, _BASE_MS + number // _PER_MS)


def _rows(milliseconds: Mapping[str, Sequence[float]], parts: Sequence[Mapping[str, float]], repeats: int) -> list[Row]:
    by_time = Other(
        name=f"confluent-kafka offsets_for_times at T, repeating {repeats:,} records",
        spread=Spread.of(milliseconds["time"]),
    )
    note = (
        f"{RECORDS} records a partition, {_PER_MS} a millisecond, on one broker on loopback; all rounds of questions."
        f" Reach: {TIMES:g} times the look-up by time beside it."
    )
    return [
        *(
            Row(
                measurement=NAME,
                what=f"exact place of {PARTITIONS} partitions, {what}",
                unit="ms",
                ours=Spread.of(milliseconds[name]),
                limit=multiple(TIMES, by_time.spread),
                others=(by_time,),
                note=note,
            )
            for name, what in ((STORED, STORED), ("warm", "the look-up alone"), ("cold", "the look-up alone, cold"))
        ),
        *(
            Row(
                measurement=NAME,
                what=f"of the look-up alone: {part}",
                unit="ms",
                ours=Spread.of(each[part] for each in parts[1:]),  # the first warms up
            )
            for part in (LOOKED_UP, READ, DECIDED)
        ),
        Row(
            measurement=NAME,
            what=f"reading back {LIMIT} records of {PARTITIONS} partitions",
            unit="ms",
            ours=Spread.of(milliseconds["tails"]),
            note="What would be remembered, all of it at once; a runner reads up to 32 a partition and batch.",
        ),
    ]
