"""The exact place of 500 partitions on one real broker, found by content.

Two topics on one broker stand for the two clusters: the old one, and its copy behind records of somebody else, so that
no offset agrees. Several records share each millisecond, so a time cannot name a place. What is remembered is read from
the old topic by the tracker's own reader (its time is a row of its own) and the resolver is asked for all partitions
at once: topics, ends, begins, times, records. *warm*: by a client that is connected; *cold*: from making it on.

Every place is checked against the one that was written: one too late or inexact fails the measurement. No one else
finds it; beside it stands a look-up by time alone, with the records that it would repeat.
"""

import gc
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from bench.broker import broker, make_topics, writing
from bench.errors import BenchError
from bench.librdkafka_lookup import TheirLookup
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from state.model.entities import TopicPartition
from state.model.fingerprints import LIMIT
from state.settings.keys import Cluster, MethodName
from streaming.cluster_log import ClusterLog
from streaming.kafka.last_records import LastRecords, read_last_records
from streaming.kafka.link import Link
from streaming.resolve.resolver import resolve
from streaming.resume.model import Rules, Want

NAME = "exact"
OLD, NEW = "exact-old", "exact-new"
PARTITIONS = 500
RECORDS = 400
FOREIGN = 37
ROUNDS = 9
TIMES = 4.0
"""To reach, of the time that librdkafka takes for one look-up by time of the same partitions."""
ASKED, READ, DECIDED = "the topic, ends, begins and times", "the records around each place", "deciding"
_BASE_MS = 1_700_000_000_000
_PER_MS = 5
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
        setting.say(f"{ROUNDS} rounds: tails, places, look-ups by time")
        cluster = Cluster(bootstrap=(bootstrap,))
        with Link(cluster, name="bench") as link:
            tails = _tails(link, positions)
            wants = _wants(positions, tails)
            times = {TopicPartition(NEW, want.partition): want.timestamp_ms or 0 for want in wants}
            theirs = TheirLookup(bootstrap)
            clients: dict[str, Callable[[], object]] = {
                "tails": lambda: _tails(link, positions),
                "warm": lambda: _places(link, wants),
                "parts": lambda: parts.append(_parts(link, wants)),
                "cold": lambda: _cold(cluster, wants),
                "time": lambda: theirs.ask_each(times),
            }
            for ask in clients.values():
                ask()
            for _ in range(ROUNDS):
                for name, ask in clients.items():
                    milliseconds.setdefault(name, []).append(_took(ask))
            repeats = sum(
                positions[TopicPartition(OLD, key.partition)] + FOREIGN - offset
                for key, offset in theirs.ask_each(times).items()
            )
            theirs.close()
    return _rows(milliseconds, parts, repeats)


def _took(ask: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    ask()
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
            source="bench",
            topic=OLD,
            partition=key.partition,
            target_topic=NEW,
            offset=position,
            ring=tuple(tails[key].records),
            ring_offset=position,
            dense=None,
            begin_known=0,
            timestamp_ms=tails[key].records.newest_timestamp,
        )
        for key, position in positions.items()
    ]


def _places(log: ClusterLog, wants: Sequence[Want]) -> None:
    """Resolve, and require of each partition the one right answer."""
    found = resolve(log, wants, RULES, old_ends={}, now=datetime.now(UTC), timeout=_SECONDS)
    wrong = [each for each in found.targets if each.target_offset != each.offset + FOREIGN or not each.exact]
    if wrong or len(found.targets) != len(wants):
        raise BenchError(f"{len(wrong)} places are not exact, first {wrong[:1]}")


class _Timed:
    """A log, and how long was waited for its answers, by what was asked."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self.seconds: dict[str, float] = defaultdict(float)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*questions: Any, **more: Any) -> Any:
            began = time.perf_counter()
            answer = getattr(self._log, name)(*questions, **more)
            self.seconds[name] += time.perf_counter() - began
            return answer

        return ask


def _parts(link: Link, wants: Sequence[Want]) -> dict[str, float]:
    """Milliseconds of one look-up, warm, by what they went into."""
    log = _Timed(link)
    whole = _took(lambda: _places(cast(ClusterLog, log), wants))
    asked, read = (1000 * sum(log.seconds[name] for name in names) for names in (("describe", "offsets"), ("fetch",)))
    return {ASKED: asked, READ: read, DECIDED: whole - asked - read}


def _cold(cluster: Cluster, wants: Sequence[Want]) -> None:
    with Link(cluster, name="bench") as link:
        _places(link, wants)


def _fill(bootstrap: str) -> None:
    with writing(bootstrap) as put:
        for partition in range(PARTITIONS):
            for number in range(FOREIGN):
                put(NEW, partition, b"somebody else's %d" % number, _BASE_MS - 1_000)
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
                what=f"exact place of {PARTITIONS} partitions, {state}",
                unit="ms",
                ours=Spread.of(milliseconds[state]),
                limit=multiple(TIMES, by_time.spread),
                others=(by_time,),
                note=note,
            )
            for state in ("warm", "cold")
        ),
        *(
            Row(
                measurement=NAME,
                what=f"of these, warm: {part}",
                unit="ms",
                ours=Spread.of(each[part] for each in parts[1:]),  # the first warms up
            )
            for part in (ASKED, READ, DECIDED)
        ),
        Row(
            measurement=NAME,
            what=f"reading back {LIMIT} records of {PARTITIONS} partitions",
            unit="ms",
            ours=Spread.of(milliseconds["tails"]),
            note="What would be remembered, all of it at once; a runner reads up to 32 a partition and batch.",
        ),
    ]
