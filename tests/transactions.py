"""A test run by Kafka's own producers: transactions that commit and abort, a primary that dies among them.

Four queries read the topic, append and stateful, read_uncommitted and read_committed. What was acknowledged and copied
is known from the tools' own lines, what was delivered from the sinks, and the two are compared here by plain counting;
nothing of the lab's judge takes part.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lab import cluster, mirror, topics
from lab.world import CLUSTERS, REPLICATOR, Options, World
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.read import batch_ids
from tests.contract.samples import plan_of
from tests.kafka_tools import Copier, Producer
from tests.ports import free_base_port
from tests.real.pipelines import kept
from tests.scene import Stage
from tests.streams import Cluster
from tests.topics import read_whole
from tests.waiting import PROCESS_SECONDS

Isolation = Literal["read_uncommitted", "read_committed"]
NUMBERS, COPIED = "numbers", "copied"
PARTITIONS = 2
TRANSACTIONS = 1500
"""So many each copier may make; more than it gets to."""
BEFORE, AFTER = 7, 9
"""Prefixes of what is produced without transactions on the primary, and on the standby after the move."""
LAST = 200
"""Messages of the latter."""
_FOREIGN = "foreign"
_QUERIES = {
    "rows_all": ("attempts_by_batch", "read_uncommitted"),
    "rows_committed": ("attempts_by_batch", "read_committed"),
    "counts_all": ("counts_by_value", "read_uncommitted"),
    "counts_committed": ("counts_by_value", "read_committed"),
}


class Attempt(NamedTuple):
    """One sending of one value; sent again after an abort, it has another time."""

    partition: int
    at: int
    value: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    """What shall happen."""

    fault: Literal["kill", "freeze"]
    replicator: Isolation
    size: int
    """Messages per transaction."""
    calm_seconds: float
    decide_seconds: float

    @classmethod
    def at_random(cls, seed: int, *, fault: Literal["kill", "freeze"], replicator: Isolation) -> "Plot":
        draw = random.Random(seed)
        return cls(
            fault=fault,
            replicator=replicator,
            size=draw.choice([3, 20, 60]),
            calm_seconds=draw.uniform(2.0, 5.0),
            decide_seconds=draw.uniform(0.3, 2.0),
        )


@dataclass
class Played:
    """What came of it: the truth by the tools, the sinks, the standby's log, and the operations."""

    plot: Plot
    numbers: Mapping[int, list[str]] = field(default_factory=dict)
    """By partition, in order: what there was to copy."""
    committed: Mapping[int, int] = field(default_factory=dict)
    """By partition: how many of them are known to be committed."""
    plain: Mapping[int, set[str]] = field(default_factory=dict)
    """By partition: values acknowledged on the primary outside of transactions."""
    last: Mapping[int, set[str]] = field(default_factory=dict)
    """By partition: values acknowledged on the standby after the move."""
    rows: Mapping[str, Mapping[int, Counter[Attempt]]] = field(default_factory=dict)
    """By append query and epoch: what its sink was given."""
    counts: Mapping[str, Mapping[tuple[int, str], int]] = field(default_factory=dict)
    """By stateful query: the last count of each value."""
    standby: Counter[Attempt] = field(default_factory=Counter)
    """What the standby holds."""
    operations: Mapping[str, Any] = field(default_factory=dict)


def play_plot(plot: Plot, folder: Path) -> Played:
    """Play it once, from two empty clusters to what the sinks hold when all is read."""
    played, tools = Played(plot), []
    with _opened(plot, folder) as stage:
        east, west = (stage.clusters[name].bootstrap for name in CLUSTERS)
        source = Producer.start(folder / "numbers.json", east, NUMBERS, most=PARTITIONS * TRANSACTIONS * plot.size)
        assert source.tool.process.wait(PROCESS_SECONDS) == 0
        acked = source.acknowledged()
        played.numbers = {number: [acked[number][at] for at in sorted(acked[number])] for number in range(PARTITIONS)}
        stage.run()
        stage.until("all queries run", lambda: len(_running(stage)) == len(_QUERIES))
        plain = Producer.start(folder / "plain.json", east, COPIED, rate=150, prefix=BEFORE)
        copiers = {
            number: Copier.start(folder / f"copier-{number}.json", east, NUMBERS, COPIED, number, size=plot.size)
            for number in range(PARTITIONS)
        }
        tools = [plain.tool, *(copier.tool for copier in copiers.values())]
        try:
            stage.until("both copiers commit", lambda: all(each.committed() >= plot.size for each in copiers.values()))
            stage.until("an aborted attempt is read", lambda: _has_read_aborted(folder / "rows_all"))
            time.sleep(plot.calm_seconds)
            assert all(each.tool.process.poll() is None for each in copiers.values()), "they are to die in the middle"
            stage.until(
                "what was read last is remembered", lambda: all(_is_remembered(stage, each) for each in _QUERIES)
            )
            (stage.kill if plot.fault == "kill" else stage.freeze)(CLUSTERS[0])
            time.sleep(plot.decide_seconds)
            said = stage.failover("--all", "west").end()
        finally:
            for tool in tools:
                tool.end()
        assert said.code == 0, said
        played.operations = said.operations
        played.committed = {number: copier.committed() for number, copier in copiers.items()}
        played.plain = {number: set(values.values()) for number, values in plain.acknowledged().items()}
        after = Producer.start(folder / "after.json", west, COPIED, most=LAST, prefix=AFTER)
        assert after.tool.process.wait(PROCESS_SECONDS) == 0
        played.last = {number: set(values.values()) for number, values in after.acknowledged().items()}
        assert sum(map(len, played.last.values())) == LAST
        stage.until("the queries have read the last messages", lambda: _has_read(stage, LAST))
        played.rows = {name: _rows(folder / name) for name in _QUERIES if name.startswith("rows")}
        played.counts = {name: _counts(folder / name) for name in _QUERIES if name.startswith("counts")}
        played.standby = _read(west)
        played.operations = {name: stage.operations(name)[0] for name in _QUERIES}
    return played


def _has_read_aborted(sink: Path) -> bool:
    """Whether a query was given a number twice: once of a transaction that aborted, and once of its next attempt."""
    given = Counter(
        (each.partition, each.value) for rows in _rows(sink).values() for each in rows if each.value.isdigit()
    )
    return any(times > 1 for times in given.values())


def _is_remembered(stage: Stage, query: str) -> bool:
    """Whether the records before the newest commit are in the store, and those of a batch in flight, which may commit.

    A cluster that dies before they were read leaves a gap that cannot be counted over among transactions: its records
    are read again, as the plan forecasts. That is no fault of the place, which this test run is about.
    """
    checkpoint = str(stage.folder / "checkpoints" / query)
    newest = {batch_ids(LocalFiles(), checkpoint, log)[-1] for log in ("commits", "offsets")}
    ends = [each for batch in newest for each in stage.store.positions(query, batch=batch)]
    return len(ends) == PARTITIONS * len(newest) and all(each.ring for each in ends)


def judged(played: Played) -> list[str]:
    """What was lost, or repeated, or other than forecast: one sentence each."""
    found = [*_judged_standby(played)]
    for name, (_, isolation) in _QUERIES.items():
        if name in played.rows:
            found += [f"{name}: {each}" for each in _judged_rows(played, name, isolation == "read_committed")]
        found += [f"{name}: {each}" for each in _judged_plan(played, name)]
    for name, rows in (("counts_all", "rows_all"), ("counts_committed", "rows_committed")):
        found += [f"{name}: {each}" for each in _judged_counts(played, name, rows)]
    return found


def _judged_standby(played: Played) -> Iterator[str]:
    """What the replicator copied: aborted attempts only if it reads read_uncommitted."""
    copies = Counter((each.partition, each.value) for each in played.standby.elements() if each.value.isdigit())
    attempted = sum(count > 1 for count in copies.values())
    if played.plot.replicator == "read_committed" and attempted:
        yield f"the standby holds {attempted} numbers more than once: aborted attempts arrived"
    if played.plot.replicator == "read_uncommitted" and not attempted:
        yield "the standby holds no aborted attempt: this story shows nothing"


def _judged_rows(played: Played, name: str, committed: bool) -> Iterator[str]:
    delivered = sum(played.rows[name].values(), Counter[Attempt]())
    twice = {each: times for each, times in delivered.items() if times > 1}
    if twice:
        yield f"{sum(twice.values()) - len(twice)} repeated: {_some(twice)}"
    clean = committed and played.plot.replicator == "read_committed"
    if not committed or clean:
        lost = played.standby.keys() - delivered.keys()
        if lost:
            yield f"{len(lost)} that the standby holds were not delivered: {_some(lost)}"
    here = {(each.partition, each.value) for each in played.standby}
    given = Counter((each.partition, each.value) for each in delivered)
    for number in range(PARTITIONS):
        certain = [*played.numbers[number][: played.committed[number]], *played.plain.get(number, ())]
        lost_values = [value for value in certain if (number, value) in here and not given[number, value]]
        if lost_values:
            yield f"{len(lost_values)} acknowledged values of partition {number} lost: {lost_values[:3]}"
        unread = [value for value in played.last.get(number, ()) if given[number, value] != 1]
        if unread:
            yield f"{len(unread)} values sent after the move came not once: {unread[:3]}"
        east = played.rows[name].get(1, Counter()) if not clean else delivered
        if committed:
            yield from _judged_copies(played, number, [each for each in east.elements() if each.partition == number])


def _judged_copies(played: Played, number: int, given: list[Attempt]) -> Iterator[str]:
    """A read_committed query is given the copied numbers once each, in the order of the source, without a hole."""
    values = sorted(int(each.value) for each in given if each.value.isdigit())
    expected = [int(value) for value in played.numbers[number][: len(values)]]
    if values != sorted(expected):
        yield f"partition {number}: the {len(values)} copies are not the first {len(values)} numbers, once each"
    most = played.committed[number] + played.plot.size
    if len(values) > most:
        yield f"partition {number}: {len(values)} copies, at most {most} were committed"


def _judged_counts(played: Played, name: str, rows: str) -> Iterator[str]:
    """State counts what its query was given: on the standby that is what was read there, so no more and no less."""
    plain = {(number, value) for known in (played.plain, played.last) for number in known for value in known[number]}
    here = {(each.partition, each.value) for each in played.standby}
    wrong = {each: played.counts[name].get(each, 0) for each in plain & here if played.counts[name].get(each, 0) != 1}
    if wrong:
        yield f"{len(wrong)} values are not counted once: {_some(wrong)}"
    if name.endswith("committed") and played.plot.replicator == "read_committed":
        odd = {each: count for each, count in played.counts[name].items() if count != 1}
        if odd:
            yield f"{len(odd)} committed values counted more than once: {_some(odd)}"
    most = max(played.counts[name].values(), default=0)
    if not most:
        yield "nothing was counted"


def _judged_plan(played: Played, name: str) -> Iterator[str]:
    operation = played.operations[name]
    totals = plan_of(operation)["totals"]
    measured = operation.measured.replay_records
    if totals["replay_records"] != 0:
        notes = [row["note"] for row in plan_of(operation)["partitions"]]
        yield f"forecast to repeat {totals['replay_records']}: {notes}"
    if measured:
        yield f"measured {measured} repeated, which the sink does not show"
    for row in plan_of(operation)["partitions"]:
        if row["method"] != "exact":
            yield f"not found by content: {row}"


def _some(found: Any) -> list[Any]:
    return sorted(found)[:3]


@contextmanager
def _opened(plot: Plot, folder: Path) -> Iterator[Stage]:
    world = World(directory=folder / "world", options=Options(base_port=free_base_port(), isolation=plot.replicator))
    world.directory.mkdir()
    url = f"sqlite:///{folder / 'tideover.db'}"
    store = open_store(url)
    clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
    stage = Stage(folder, store, _settings(world, folder, url), clusters, world=world)
    parts = [*(part for name in CLUSTERS for part in world.parts(name)), REPLICATOR]
    try:
        cluster.start(world, parts[:-1], print)
        topics.create(world.bootstrap("east"), NUMBERS, PARTITIONS, 1)
        for name in CLUSTERS:
            topics.create(world.bootstrap(name), COPIED, PARTITIONS, 1)
        topics.put_foreign(world.bootstrap("west"), COPIED, lambda partition: 11 + 6 * partition, aged=True)
        mirror.start(world, print)
        mirror.await_replicating(world, COPIED)
        yield stage
    finally:
        stage.close()
        store.close()
        world.end(parts, 0.0)


def _settings(world: World, folder: Path, url: str) -> dict[str, Any]:
    east, west = CLUSTERS

    def query(name: str, pipeline: str, isolation: str) -> dict[str, Any]:
        options = {"kafka.isolation.level": isolation} if isolation == "read_committed" else {}
        return {
            "pipeline": f"tests.real.pipelines:{pipeline}",
            "settings": {"sink": str(folder / name)},
            "sources": {"copied": {"topics": [COPIED], "options": options}},
            "clusters": [east, west],
            "runners": ["a"],
            "checkpoint": str(folder / "checkpoints" / name),
            "trigger": "2s",  # beside a load a look at the records takes seconds: what was read last is behind else
            "sink": "batch-id",
        }

    return {
        "store": url,
        "clusters": {name: {"bootstrap": world.bootstrap(name)} for name in CLUSTERS},
        "routes": [{"from": east, "to": west}],
        "runners": {"a": {}},
        "policy": {"max_exposure": "1h"},  # how far the standby lags goes by how slow the machine is
        "spark": {"master": "local[16]", "conf": {"spark.sql.shuffle.partitions": 1}},
        "queries": {name: query(name, *how) for name, how in _QUERIES.items()},
    }


def _running(stage: Stage) -> list[str]:
    return [fact.query for fact in stage.store.query_facts() if fact.batch is not None]


def _has_read(stage: Stage, count: int) -> bool:
    """Whether every query was given every message that was sent after the move."""
    wanted = f"{AFTER}."
    return all(
        len({row[-1 if name.startswith("rows") else 1] for each in kept(stage.folder / name) for row in each["rows"]
             if str(row[-1 if name.startswith("rows") else 1]).startswith(wanted)}) == count
        for name in _QUERIES
    )  # fmt: skip


def _is_ours(value: str) -> bool:
    return not value.startswith("{")


def _rows(folder: Path) -> dict[int, Counter[Attempt]]:
    found: dict[int, Counter[Attempt]] = {}
    for each in kept(folder):
        rows = (Attempt(*row) for row in each["rows"])
        found.setdefault(int(each["epoch"]), Counter()).update(row for row in rows if _is_ours(row.value))
    return found


def _counts(folder: Path) -> dict[tuple[int, str], int]:
    rows = [row for each in kept(folder) for row in each["rows"]]
    return {(partition, value): count for partition, value, count in rows if _is_ours(value)}


def _read(bootstrap: str) -> Counter[Attempt]:
    """All that the standby's topic holds, by another client than the product's."""
    read = (Attempt(partition, at, value.decode()) for partition, at, _, value in read_whole(bootstrap, COPIED))
    return Counter(each for each in read if _is_ours(each.value))
