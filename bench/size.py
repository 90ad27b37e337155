"""A hundred queries leave a dead cluster at once: 10,000 partitions on real brokers, with PostgreSQL and a controller.

Two brokers, each a cluster, and a topic of ``PARTITIONS`` partitions for each query on both; the standby's records lie
behind ``FOREIGN`` foreign records. Four runner processes host the queries; their Spark is simulated
(``bench.simulated_spark``), since a hundred real queries do not fit two cores. The rest is the product's: what is
tracked, watched, looked up, judged and written to PostgreSQL.

A round for each size: a fresh store and fresh runners, then the primary freezes, and automatic failover moves all of
its queries. Counted from the verdict DOWN to each query's first commit on the standby; the half second that a batch
takes there is in the figure. What the database did comes from its own statistics, from the freeze until all have moved.
Each place is checked: one that is not exact, a query that stays, or an attempt that is refused fails the measurement.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg
import yaml

from bench import environment
from bench.broker import make_topics, writing
from bench.errors import BenchError
from bench.report import Row
from bench.samples import Spread
from bench.setting import Setting
from lab import cluster, faults, postgres
from lab.postgres import Postgres
from lab.stage import Stage, stage
from lab.world import PRIMARY, STANDBY, Options, World
from state.model.cluster_status import Verdict
from state.model.entities import Operation, RunState
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store

NAME = "size"
SIZES = (25, 50, 100)
PARTITIONS = 100
RUNNERS = ("a", "b", "c", "d")
RECORDS = 40
FOREIGN = 7
_LEFT_SECONDS = 120.0
_SETTLE_SECONDS = 300.0
_REST_SECONDS = 15.0
_END_SECONDS = 60.0
_NOTE = f"{PARTITIONS} partitions a query, all places exact, four runners whose Spark is simulated; the primary froze."
_PORT = 29
"""Of PostgreSQL, above the base port."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """One round; seconds."""

    queries: int
    down: float
    """From the freeze to the verdict."""
    first_commits: Sequence[float]
    """Of each query, from the verdict to its first commit on the standby, in ascending order."""
    transactions: float
    """Of the database, for each move."""
    processor: float
    """Of the controller, for each move."""
    megabytes: float
    """Resident memory of the controller in the end."""
    resting: "Resting"


@dataclass(frozen=True, kw_only=True)
class Resting:
    """While nothing moves: the queries read nothing new, and each reports once a second that it lives."""

    transactions: float
    """Of the database, a second."""
    processor: float
    """Of the controller, as a share of one core."""


def measure(setting: Setting) -> list[Row]:
    """Take one round of each size. Raises BenchError where a query is not moved exactly at the first attempt."""
    programs = postgres.programs()
    if programs is None:
        raise BenchError("PostgreSQL's initdb and pg_ctl were not found: install the package postgresql")
    rounds: list[Moved] = []
    with _clusters(setting) as world, postgres.running_postgres(programs, setting.base_port + _PORT) as server:
        for size in SIZES:
            with stage(setting.directory / f"of-{size}", setting.say) as on:
                rounds.append(_round(setting, world, server, on, size))
            setting.say(
                f"{size} queries: DOWN after {rounds[-1].down:.2f} s, first commits {rounds[-1].first_commits[0]:.2f} "
                f"to {rounds[-1].first_commits[-1]:.2f} s after, {rounds[-1].transactions:.0f} transactions a move"
            )
    return _rows(rounds)


@contextmanager
def _clusters(setting: Setting) -> Iterator[World]:
    """Both brokers, with all topics and records."""
    world = World(directory=setting.directory, options=Options(base_port=setting.base_port))
    parts = [*world.parts(PRIMARY), *world.parts(STANDBY)]
    topics = {_topic(number): PARTITIONS for number in range(max(SIZES))}
    begun_ms = int(time.time() * 1000) - 60_000
    try:
        cluster.start(world, parts, setting.say)
        for name in (PRIMARY, STANDBY):
            setting.say(f"{len(topics)} topics of {PARTITIONS} partitions on {name}")
            for topic in topics:  # one after the other: all at once take longer than a broker may
                make_topics(world.bootstrap(name)[0], {topic: PARTITIONS})
            _fill(world.bootstrap(name)[0], topics, begun_ms, foreign=FOREIGN if name == STANDBY else 0)
        yield world
    finally:
        world.end(parts, _END_SECONDS)


def _topic(number: int) -> str:
    return f"records-{number:03}"


def _fill(bootstrap: str, topics: Mapping[str, int], begun_ms: int, *, foreign: int) -> None:
    for topic, partitions in topics.items():  # each is there before the next is written
        with writing(bootstrap) as put:
            for partition in range(partitions):
                for number in range(foreign):
                    put(topic, partition, b"foreign %d" % number, begun_ms - 1000)
                for number in range(RECORDS):
                    put(topic, partition, b"%d of %d in %s" % (number, partition, topic.encode()), begun_ms + number)


def _round(setting: Setting, world: World, server: Postgres, on: Stage, size: int) -> Moved:
    url = server.new_store()
    on.world.mkdir(parents=True, exist_ok=True)
    on.config.write_text(yaml.safe_dump(_configuration(world, on, url, size), sort_keys=False), encoding="utf-8")
    store = open_store(url)
    try:
        for name in RUNNERS:
            on.start(f"runner-{name}", "bench.simulated_spark", "-c", str(on.config), "--name", name)
        controller = on.start_controller()
        _await(setting, "all run, and what they read is in the store", lambda: _are_tracked(store, size))
        resting = _rest(server, controller.pid)
        return _strike(setting, world, server, store, controller.pid, size, resting)
    finally:
        store.close()


def _rest(server: Postgres, controller: int) -> Resting:
    time.sleep(_REST_SECONDS)  # what came with the start is over
    transactions, spent, began = _transactions(server), environment.spent_seconds(controller), time.monotonic()
    time.sleep(_REST_SECONDS)
    transactions, spent = _transactions(server) - transactions, environment.spent_seconds(controller) - spent
    seconds = time.monotonic() - began
    return Resting(transactions=transactions / seconds, processor=spent / seconds)


def _strike(
    setting: Setting,
    world: World,
    server: Postgres,
    store: ControllerStore,
    controller: int,
    size: int,
    resting: Resting,
) -> Moved:
    """Freeze the primary, wait until all have moved, and thaw it."""
    transactions, spent = _transactions(server), environment.spent_seconds(controller)
    struck_at = time.time()
    faults.freeze(world, PRIMARY, setting.say)
    try:
        _await(setting, "all have moved", lambda: len(_closed(store, size)) >= size)
        done = _closed(store, size)
    finally:
        faults.thaw(world, PRIMARY, setting.say)
    wrong = [each for each in done if each.outcome != "done" or not _is_exact(each)]
    if wrong or len(done) != size or {row.cluster for row in store.assignments()} != {STANDBY}:
        raise BenchError(f"{len(wrong)} of {len(done)} operations are not as expected, first: {_sentence(wrong[:1])}")
    down = next(
        event.at.timestamp() for event in store.history(limit=10_000)
        if event.kind == "verdict" and event.text.startswith(f"{PRIMARY} is DOWN")
    )  # fmt: skip
    commits = sorted(datetime.fromisoformat(str(each.measured.first_commit_at)).timestamp() - down for each in done)
    return Moved(
        queries=size, down=down - struck_at, first_commits=commits,
        transactions=(_transactions(server) - transactions) / size,
        processor=(environment.spent_seconds(controller) - spent) / size, megabytes=environment.megabytes(controller),
        resting=resting,
    )  # fmt: skip


def _are_tracked(store: ControllerStore, size: int) -> bool:
    running = [fact.query for fact in store.query_facts() if fact.state is RunState.RUNNING and fact.batch is not None]
    judged = {status.cluster for status in store.cluster_statuses() if status.verdict is Verdict.UP}
    return (
        len(running) == size
        and judged == {PRIMARY, STANDBY}
        and all(store.tracked_batch(query) is not None for query in running)
    )


def _closed(store: ControllerStore, size: int) -> Sequence[Operation]:
    return [each for each in store.operations(limit=4 * size) if not each.is_open]


def _is_exact(operation: Operation) -> bool:
    """Whether each partition resumes right behind the copy of the last record that was read."""
    rows = operation.plan.partitions if operation.plan is not None else ()
    right = [row.method == "exact" and row.target_offset == (row.offset or 0) + FOREIGN for row in rows]
    return len(right) == PARTITIONS and all(right)


def _sentence(operations: Sequence[Operation]) -> str:
    return "; ".join(f"{each.id} of {each.query}: {each.outcome}, {each.sentence}" for each in operations) or "none"


def _await(setting: Setting, what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchError(f"not within {_SETTLE_SECONDS:g} s: {what}; see {setting.directory}")
        time.sleep(0.5)


def _configuration(world: World, on: Stage, url: str, size: int) -> Mapping[str, object]:
    names = [f"q{number:03}" for number in range(size)]
    return {
        "store": url,
        "clusters": {name: {"bootstrap": list(world.bootstrap(name))} for name in (PRIMARY, STANDBY)},
        "routes": [{"from": PRIMARY, "to": STANDBY, "topics": "identity"}],
        "runners": {name: {} for name in RUNNERS},
        "policy": {"automatic": True},
        "queries": {
            name: {
                "pipeline": "examples.orders:archive",
                "sources": {"records": {"topics": [_topic(number)]}},
                "clusters": [PRIMARY, STANDBY],
                "runners": [RUNNERS[number % len(RUNNERS)]],
                "checkpoint": str(on.directory / "checkpoints" / name),
                "sink": "keyed",
            }
            for number, name in enumerate(names)
        },
    }


def _transactions(server: Postgres) -> int:
    """Of all databases, by the server's own statistics, which are a second behind at most."""
    time.sleep(1.0)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True) as connection:
        row = connection.execute("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database").fetchone()
    return int(row[0]) if row else 0


def _rows(rounds: Sequence[Moved]) -> list[Row]:
    rows = []
    for each in rounds:
        for what, unit, taken in (
            ("verdict DOWN to the first commits", "s", each.first_commits),
            ("transactions of the database for each move", "", (each.transactions,)),
            ("controller: processor time for each move", "ms", (each.processor * 1000,)),
            ("controller: memory", "MB", (each.megabytes,)),
            ("at rest: transactions of the database a second", "", (each.resting.transactions,)),
            ("at rest: controller, of one core", "%", (each.resting.processor * 100,)),
        ):
            rows.append(
                Row(
                    measurement=NAME,
                    what=f"{each.queries} queries: {what}",
                    unit=unit,
                    ours=Spread.of(taken),
                    note=_NOTE,
                )
            )
    return rows
