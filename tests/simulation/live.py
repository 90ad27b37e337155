"""A world in which records are produced, copied, read and delivered, and which keeps account of each of them.

East is written to and copied to west; two drivers run the queries. At every moment the rules of ``rules.py`` are
checked, and ``broken`` lists what did not keep them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from state.settings.keys import Tideover
from tests.simulation.clusters import digest_of
from tests.simulation.control import Site
from tests.simulation.driver import Driver, Run
from tests.simulation.rules import Rules
from tests.simulation.sink import Sink
from tests.simulation.stores import AwayStore
from tests.simulation.world import World, settings

HEARTBEATS = "east.heartbeats"
ROUTES = [
    {"from": "east", "to": "west", "heartbeats": HEARTBEATS},
    {"from": "west", "to": "east"},
]


def live_settings(*, groups: Mapping[str, Any] | None = None, **changes: Any) -> Tideover:
    """Automatic mode is on, and the replicator's heartbeats are read."""
    changes.setdefault("policy", {"automatic": True})
    return settings(groups={"routes": ROUTES, **(groups or {})}, **changes)


class Account(NamedTuple):
    """What became of the records below a query's position."""

    lost: int
    repeated: int


@dataclass(kw_only=True)
class Replicator:
    """Copies what was produced on one cluster to another, in its order, and shows that it lives."""

    world: "LiveWorld"
    source: str
    target: str
    alive: bool = True
    behind_seconds: float = 0.0
    heartbeat_delay: float = 0.0
    """Seconds that a heartbeat is on its way."""
    clock_ahead: float = 0.0
    """Of the clock that stamps heartbeats."""
    _on_their_way: list[tuple[float, int]] = field(default_factory=list)
    """When each heartbeat arrives, and its time."""
    copied: dict[int, int] = field(default_factory=dict)
    """By partition, the next offset of the source to copy."""

    def live(self) -> None:
        """Copy what is there."""
        source, target = self.world.clusters[self.source], self.world.clusters[self.target]
        if not (self.alive and source.lives and target.lives):
            return
        old_ms = round((self.world.clock.store_now().timestamp() - self.behind_seconds) * 1000)
        for tp, end in source.ends("orders").items():
            start = self.copied.get(tp.partition, 0)
            if start == end:
                continue
            for record in source.between("orders", tp.partition, start, end):
                if self.world.origin.get(record.digest) != self.source:
                    continue
                if self.behind_seconds and record.timestamp_ms > old_ms:
                    break
                target.append("orders", tp.partition, record.timestamp_ms, record.digest)
                self.copied[tp.partition] = record.offset + 1
        if self.target == "west":
            clock = self.world.clock
            stamped = round((clock.store_now().timestamp() + self.clock_ahead) * 1000)
            self._on_their_way.append((clock.passed + self.heartbeat_delay, stamped))

    def deliver(self) -> None:
        """Let the heartbeats arrive that are due."""
        target = self.world.clusters[self.target]
        due = self.alive and target.lives
        while due and self._on_their_way and self._on_their_way[0][0] <= self.world.clock.passed:
            target.append(HEARTBEATS, 0, self._on_their_way.pop(0)[1], bytes(16))


class LiveWorld(World):
    """Two drivers, producers, a replicator, a sink, and a checker of the rules all the time."""

    def __init__(
        self,
        tideover: Tideover | None = None,
        *,
        hosts: Mapping[str, str] | None = None,
        rate: float = 1.0,
        partitions: int = 2,
    ) -> None:
        self._hosts = hosts or {"a": "host-one", "b": "host-one"}
        self.rate = rate
        """Records a second to each partition."""
        super().__init__(tideover or live_settings(), partitions=partitions)

    def _staff(self) -> None:
        self.sink, self.processes, self.rules = Sink(), cast("dict[str, Driver]", {}), Rules(self)
        self.produces_to, self.produced, self._due = "east", 0, self.clock.passed
        logs = [self.clusters["east"].records("orders", number) for number in self.partitions]
        self.origin = {record.digest: "east" for log in logs for record in log}
        self.clusters["west"].create(HEARTBEATS)
        self.replicator = Replicator(
            world=self, source="east", target="west", copied=dict.fromkeys(self.partitions, 110)
        )
        for query in self.settings.queries:
            self.sink.take(query, 7, [record.digest for log in logs for record in log[:100]])
        self.drivers: dict[str, Driver] = {}
        for name, host in self._hosts.items():
            self.start(name, host)
        self.clock.lives += [self._produce, self.rules.check]

    @property
    def broken(self) -> list[str]:
        """What broke a rule, and when."""
        return self.rules.broken

    # -- acting ----------------------------------------------------------------------------------------------------
    def start(self, name: str, host: str | None = None) -> Driver:
        """Start a process of a runner; an earlier one of its name is left to its fate."""
        driver = Driver(
            world=self, name=name, host=host or self._hosts[name], checkpoints=self.checkpoints, sink=self.sink,
            processes=self.processes, store=AwayStore(self.store),
        )  # fmt: skip
        self.drivers[name] = driver
        self.clock.lives.append(driver.live)
        return driver

    def run_of(self, query: str) -> Run | None:
        """The one run of a query that continues."""
        return next((run for each in self.processes.values() for run in each.goes_on if run.row.query == query), None)

    def account(self, query: str = "revenue") -> Account:
        """What was lost of the records that lie before the query's place, and what came more than once."""
        row = self.store.assignment(query)
        assert row is not None
        checkpoint, delivered = self.checkpoints[row.checkpoint], self.sink.delivered(query)
        read = [
            record.digest
            for number, end in checkpoint.offsets["orders"]["orders"].items()
            for record in self.clusters[row.cluster].between("orders", int(number), 0, end)
            if record.digest in self.origin
        ]
        lost = sum(1 for digest in read if digest not in delivered)
        return Account(lost=lost, repeated=delivered.total() - len(delivered))

    def lag(self, query: str = "revenue") -> int:
        """Records that the query has still to read."""
        row = self.store.assignment(query)
        assert row is not None
        read = self.checkpoints[row.checkpoint].offsets["orders"]["orders"]
        return sum(
            end - read.get(str(tp.partition), 0) for tp, end in self.clusters[row.cluster].ends("orders").items()
        )

    # -- continuing --------------------------------------------------------------------------------------------------
    def _produce(self) -> None:
        if self.clock.passed >= self._due:
            self._produce_second()
        self.replicator.deliver()

    def _produce_second(self) -> None:
        self._due = self.clock.passed + 1.0
        cluster = self.clusters[self.produces_to]
        if cluster.lives and self.rate:
            for number in cluster.topics["orders"].partitions:
                for _ in range(round(self.rate)):
                    self.produced += 1
                    key = f"new-{self.produced}"
                    self.origin[digest_of(key)] = self.produces_to
                    cluster.write("orders", number, key, round(self.clock.store_now().timestamp() * 1000))
        self.replicator.live()


def lose_site(world: LiveWorld, *, cluster: str, runner: str, site: Site | None = None) -> None:
    """Everything of one place is gone at once."""
    world.clusters[cluster].reachable = False
    world.drivers[runner].kill()
    if site is not None:
        site.frozen = True
