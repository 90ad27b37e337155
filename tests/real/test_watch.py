"""The watch on real clusters: killed, frozen, limping, seen by others only, and back again.

How long each verdict took is printed; what is asserted is the order of verdicts and a generous bound, because a busy
machine says nothing about the watch.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from orchestrator.config import load
from orchestrator.observe import Observer
from orchestrator.watching import Watching
from state.guards import CONTROLLER
from state.model import TopicPartition
from state.ports import Store
from state.settings import Cluster, Tideover
from state.sighting import Belief, Verdict
from state.sql.migrate import open_store
from streaming.eyes import OpenEye, eyes_on
from streaming.kafka.chart import Memory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.log import Spec
from streaming.spark.ends import EndSampler
from tests.fakecluster import silent_server
from tests.world import RunningWorld, running_world

pytestmark = pytest.mark.real

BOUND_SECONDS = 30.0
TICK_SECONDS = 0.1


class Controller:
    """The watch of one controller, ticked by the test, with every verdict on the way noted."""

    def __init__(self, settings: Tideover, store: Store, eyes: Mapping[str, OpenEye] | None = None) -> None:
        lease = store.lead(CONTROLLER, "one", timedelta(minutes=10))
        assert lease is not None
        self.store, self.term = store, lease.term
        links = {name: Link(cluster, name=name) for name, cluster in settings.clusters.items()}
        self.observer = Observer(
            settings, name="one", instance="1", eyes=eyes or eyes_on(settings), open_log=lambda name: links[name]
        )
        self.watching = Watching(store, settings, self.observer, actor="controller one")

    def until(self, cluster: str, condition: Callable[[Belief], bool], seconds: float = BOUND_SECONDS) -> list[Verdict]:
        """Tick until the belief is so; the verdicts on the way, without repeats."""
        seen: list[Verdict] = []
        deadline = time.monotonic() + seconds
        while True:
            belief = self.watching.believe(self.term)[cluster]
            seen.append(belief.verdict)
            if condition(belief):
                return [verdict for verdict, _ in itertools.groupby(seen)]
            assert time.monotonic() < deadline, f"{[v for v, _ in itertools.groupby(seen)]}: {belief.reasons}"
            time.sleep(TICK_SECONDS)

    def until_verdict(self, cluster: str, *wanted: Verdict, seconds: float = BOUND_SECONDS) -> list[Verdict]:
        return self.until(cluster, lambda belief: belief.verdict in wanted, seconds)

    def hold(self, cluster: str, seconds: float) -> set[Verdict]:
        """Tick for a while; every verdict that was given."""
        deadline = time.monotonic() + seconds
        seen = set()
        while time.monotonic() < deadline:
            seen.add(self.watching.believe(self.term)[cluster].verdict)
            time.sleep(TICK_SECONDS)
        return seen

    def belief(self, cluster: str) -> Belief:
        return next(each for each in self.store.beliefs() if each.cluster == cluster)


@contextmanager
def controller(world: RunningWorld, folder: Path, eyes: Mapping[str, OpenEye] | None = None) -> Iterator[Controller]:
    settings = load(world.config).settings
    store = open_store(f"sqlite:///{folder / 'watch.db'}")
    watch = Controller(settings, store, {**eyes_on(settings), **eyes} if eyes else None)
    watch.observer.begin()
    try:
        yield watch
    finally:
        watch.observer.close()
        store.close()


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(tmp_path_factory.mktemp("watch")) as up:
        yield up


@pytest.mark.parametrize(("fault", "cure"), [("kill", "start"), ("freeze", "thaw")])
def test_a_cluster_that_is_gone_is_down_and_up_again_when_it_is_back(
    world: RunningWorld, tmp_path: Path, fault: str, cure: str
) -> None:
    with controller(world, tmp_path) as watch:
        watch.until("east", lambda belief: belief.verdict is Verdict.UP)
        watch.until_verdict("west", Verdict.UP)
        struck = now()
        world.lab(fault, "east")
        hit = now()
        course = watch.until_verdict("east", Verdict.DOWN)
        down = watch.belief("east")
        assert course[-2:] == [Verdict.SUSPECT, Verdict.DOWN]
        assert down.first_failed_at is not None
        assert struck <= down.first_failed_at <= down.since
        print(
            f"{fault}: DOWN {(down.since - hit).total_seconds():.2f} to {(down.since - struck).total_seconds():.2f} s "
            f"after the signal, {(down.since - down.first_failed_at).total_seconds():.2f} s after the first failure: "
            f"{down.reasons}"
        )
        assert watch.belief("west").verdict is Verdict.UP
        assert watch.hold("east", 3.0) == {Verdict.DOWN}
        world.lab(cure, "east")
        course = watch.until_verdict("east", Verdict.UP, seconds=60)
        assert Verdict.SUSPECT in course, "it has to answer some times in a row"


def test_a_replicated_heartbeat_speaks_for_a_cluster_that_only_we_cannot_see(
    world: RunningWorld, tmp_path: Path
) -> None:
    with silent_server() as nowhere:
        dark = Cluster(bootstrap=(nowhere,))
        memory = Memory()
        blind = {"east": lambda: Probe(dark, name="east", topics=["orders"], memory=memory)}
        with controller(world, tmp_path, blind) as watch:
            replicator = "replicator:east->west"
            watch.until(
                "west",
                lambda _: any(s.viewpoint == replicator and s.last_ok_at for s in watch.store.sightings("east")),
                seconds=60,
            )
            watch.until_verdict("east", Verdict.UNREACHABLE_FROM_HERE)
            assert Verdict.DOWN not in watch.hold("east", 10.0)
            assert any(replicator in reason for reason in watch.belief("east").reasons)
            world.lab("freeze", "east")
            try:
                watch.until_verdict("east", Verdict.DOWN)
            finally:
                world.lab("thaw", "east")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(tmp_path_factory.mktemp("three"), brokers=3) as up:
        yield up


@pytest.mark.parametrize(("fault", "cure"), [("freeze", "thaw"), ("kill", "start")])
def test_one_broker_of_three_is_never_more_than_degraded(
    three: RunningWorld, tmp_path: Path, fault: str, cure: str
) -> None:
    with controller(three, tmp_path) as watch:
        watch.until_verdict("east", Verdict.UP, seconds=60)
        three.lab(fault, "east-2")
        course = watch.until_verdict("east", Verdict.DEGRADED)
        assert set(course) <= {Verdict.UP, Verdict.DEGRADED}
        print(f"{fault} 1 of 3: {watch.belief('east').reasons}")
        assert watch.hold("east", 15.0) == {Verdict.DEGRADED}, "also while leaders are elected"
        print(f"{fault} 1 of 3, later: {watch.belief('east').reasons}")
        three.lab(cure, "east-2")
        assert Verdict.DOWN not in watch.until_verdict("east", Verdict.UP, seconds=60)


def test_an_end_whose_newest_record_is_not_on_all_replicas_keeps_the_time_of_the_one_that_can_be_read(
    three: RunningWorld,
) -> None:
    bootstrap = three.bootstrap("east").split(",")
    with Link(Cluster(bootstrap=tuple(bootstrap)), name="east") as link:
        partitions = link.describe(["orders"], timeout=5)["orders"].partitions
        number = next(each for each, facts in partitions.items() if facts.leader != 2)
        partition = TopicPartition("orders", number)
        producer = Producer({"bootstrap.servers": bootstrap[0], "acks": "1", "log_level": 0})
        produce(producer, partition, timestamp_ms=1_000_000)
        sampler = EndSampler("east", link)
        until_told = time.monotonic() + 10
        while not (former := sampler.sample([partition], now(), timeout=5)) or former[0].newest_timestamp_ms is None:
            assert time.monotonic() < until_told
        three.lab("freeze", "east-2")
        try:
            produce(producer, partition, timestamp_ms=int(time.time() * 1000))
            asked = link.offsets({partition: Spec.MAX_TIMESTAMP}, timeout=5)[partition]
            (told,) = sampler.sample([partition], now(), timeout=5)
        finally:
            three.lab("thaw", "east-2")
    assert (asked.timestamp_ms, asked.error) == (None, None), "the leader knows a newer one, and may not tell it"
    assert (told.end, told.newest_timestamp_ms) == (former[0].end, former[0].newest_timestamp_ms)


def produce(producer: Producer, partition: TopicPartition, timestamp_ms: int) -> None:
    """One record that the leader has acknowledged."""
    producer.produce(partition.topic, b"{}", partition=partition.partition, timestamp=timestamp_ms)
    assert producer.flush(10) == 0


def test_all_three_gone_is_down(three: RunningWorld, tmp_path: Path) -> None:
    with controller(three, tmp_path) as watch:
        watch.until_verdict("east", Verdict.UP, seconds=60)
        struck = now()
        three.lab("freeze", "east")
        watch.until_verdict("east", Verdict.DOWN)
        print(f"freeze 3 of 3: DOWN {(watch.belief('east').since - struck).total_seconds():.2f} s after the command")
        three.lab("thaw", "east")
        watch.until_verdict("east", Verdict.UP, seconds=60)
