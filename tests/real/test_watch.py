"""The watch on real clusters: killed, frozen, limping, seen by others only, and back again.

How long each verdict took is printed; what is asserted is the order of verdicts and a generous bound, because a busy
machine says nothing about the watch.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient

from lab import configuration, faults, topics
from lab.delivery import Delivery
from lab.faults import FAULTS
from lab.world import TOPIC, World
from orchestrator.cluster_watch import ClusterWatch, Observer
from orchestrator.config.load import load
from state.model.cluster_status import ClusterStatus, Verdict
from state.model.entities import EndSample, TopicPartition
from state.settings.keys import Cluster, Detection, Tideover
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from state.store.write_checks import CONTROLLER
from streaming.cluster_log import Spec
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.kafka.probed_clusters import OpenProbe, probes_on
from streaming.probe.identities import Identities
from streaming.spark.tracking.reading import EndSampler
from tests.fakecluster import silent_server
from tests.waiting import PROCESS_SECONDS, until
from tests.world import RunningWorld, running_clusters, running_world

pytestmark = [pytest.mark.real, pytest.mark.shared]

FAILURES = 3
"""Looks that make DOWN."""
TICK_SECONDS = 0.1
T = TypeVar("T")


class Controller:
    """The watch of one controller, ticked by the test, with every verdict on the way noted."""

    def __init__(self, settings: Tideover, store: ControllerStore, eyes: Mapping[str, OpenProbe] | None = None) -> None:
        lease = store.lead(CONTROLLER, "one", timedelta(minutes=10))
        assert lease is not None
        self.store, self.term = store, lease.term
        links = {name: Link(cluster, name=name) for name, cluster in settings.clusters.items()}
        identities = Identities(settings)
        self.observer = Observer(
            settings, name="one", instance="1", eyes=eyes or probes_on(settings, identities),
            open_log=lambda name: links[name],
        )  # fmt: skip
        self.watching = ClusterWatch(store, settings, self.observer, identities=identities, actor="controller one")

    def until(self, cluster: str, condition: Callable[[ClusterStatus], bool]) -> list[Verdict]:
        """Tick until the cluster status is so; the verdicts on the way, without repeats."""
        seen: list[Verdict] = []
        deadline = time.monotonic() + PROCESS_SECONDS
        while True:
            status = self.watching.give_verdicts(self.term)[cluster]
            seen.append(status.verdict)
            if condition(status):
                return [verdict for verdict, _ in itertools.groupby(seen)]
            assert time.monotonic() < deadline, f"{[v for v, _ in itertools.groupby(seen)]}: {status.reasons}"
            time.sleep(TICK_SECONDS)

    def until_verdict(self, cluster: str, *wanted: Verdict) -> list[Verdict]:
        return self.until(cluster, lambda status: status.verdict in wanted)

    def hold(self, cluster: str, seconds: float, over: Callable[[], bool] = lambda: True) -> set[Verdict]:
        """Tick for a while, and on until it is over; every verdict that was given."""
        deadline = time.monotonic() + seconds
        seen = set()
        while time.monotonic() < deadline or not over():
            seen.add(self.watching.give_verdicts(self.term)[cluster].verdict)
            time.sleep(TICK_SECONDS)
        return seen

    def failures(self, cluster: str) -> int:
        """How many of its own looks have failed in a row."""
        own = (each for each in self.store.probe_reports(cluster) if each.viewpoint.startswith("controller"))
        return max(each.failures_in_a_row for each in own)

    def status(self, cluster: str) -> ClusterStatus:
        return next(each for each in self.store.cluster_statuses() if each.cluster == cluster)


@contextmanager
def controller(
    config: Path, folder: Path, eyes: Mapping[str, OpenProbe] | None = None, interval_seconds: float = 1.0
) -> Iterator[Controller]:
    """It is patient: a busy machine is no dead cluster."""
    detection = Detection(interval=timedelta(seconds=interval_seconds), timeout=timedelta(seconds=5), failures=FAILURES)
    settings = load(config).settings.model_copy(update={"detection": detection})
    store = open_store(f"sqlite:///{folder / 'watch.db'}")
    watch = Controller(settings, store, {**probes_on(settings, Identities(settings)), **eyes} if eyes else None)
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


@contextmanager
def beside_ticks(act: Callable[[], T]) -> Iterator[Future[T]]:
    """The lab's process comes and goes (a second) while the controller ticks: it shall see each step of the course."""
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(act)
        yield done
        done.result()


@pytest.mark.parametrize(("fault", "cure"), [("kill", "start"), ("freeze", "thaw")])
def test_a_cluster_that_is_gone_is_down_and_up_again_when_it_is_back(
    world: RunningWorld, tmp_path: Path, fault: str, cure: str
) -> None:
    with controller(world.config, tmp_path) as watch:
        watch.until("east", lambda status: status.verdict is Verdict.UP)
        watch.until_verdict("west", Verdict.UP)
        struck = now()
        with beside_ticks(lambda: (world.lab(fault, "east"), now())[1]) as striking:
            course = watch.until_verdict("east", Verdict.DOWN)
        hit = striking.result()
        down = watch.status("east")
        assert course[-2:] == [Verdict.SUSPECT, Verdict.DOWN]
        assert down.first_failed_at is not None
        assert struck <= down.first_failed_at <= down.since
        print(
            f"{fault}: DOWN {(down.since - hit).total_seconds():.2f} to {(down.since - struck).total_seconds():.2f} s "
            f"after the signal, {(down.since - down.first_failed_at).total_seconds():.2f} s after the first failure: "
            f"{down.reasons}"
        )
        assert watch.status("west").verdict is Verdict.UP
        assert watch.hold("east", 3.0) == {Verdict.DOWN}
        with beside_ticks(lambda: world.lab(cure, "east")):
            course = watch.until_verdict("east", Verdict.UP)
        if fault == "kill":  # a thawed one answers all probes that waited for it, and those may be enough at once
            assert Verdict.SUSPECT in course, "it has to answer some times in a row"
        assert course[-1] is Verdict.UP


def test_a_replicated_heartbeat_speaks_for_a_cluster_that_only_we_cannot_see(
    world: RunningWorld, tmp_path: Path
) -> None:
    with silent_server() as nowhere:
        dark = Cluster(bootstrap=(nowhere,))
        memory = ProbeMemory()
        blind = {"east": lambda: Probe(dark, name="east", topics=["orders"], memory=memory)}
        with controller(world.config, tmp_path, blind, interval_seconds=3.0) as watch:  # so late may a heartbeat be
            replicator = "replicator:east->west"
            watch.until(
                "west",
                lambda _: any(s.viewpoint == replicator and s.last_ok_at for s in watch.store.probe_reports("east")),
            )
            watch.until_verdict("east", Verdict.UNREACHABLE_FROM_HERE)
            assert Verdict.DOWN not in watch.hold("east", 0.0, lambda: watch.failures("east") >= 4 * FAILURES)
            assert any(replicator in reason for reason in watch.status("east").reasons)
            world.lab("freeze", "east")
            try:
                watch.until_verdict("east", Verdict.DOWN)
            finally:
                world.lab("thaw", "east")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """East alone, of three brokers."""
    with running_clusters(tmp_path_factory.mktemp("three"), "east", brokers=3) as up:
        topics.create(up.bootstrap("east"), TOPIC, 4, 3)
        configuration.write(up)
        yield up


@pytest.mark.parametrize(("fault", "cure"), [("freeze", "thaw"), ("kill", "start")])
def test_one_broker_of_three_is_never_more_than_degraded(three: World, tmp_path: Path, fault: str, cure: str) -> None:
    with controller(three.configuration, tmp_path) as watch:
        watch.until_verdict("east", Verdict.UP)
        FAULTS[fault](three, "east-2", print)
        course = watch.until_verdict("east", Verdict.DEGRADED)
        assert set(course) <= {Verdict.UP, Verdict.DEGRADED}
        print(f"{fault} 1 of 3: {watch.status('east').reasons}")
        assert watch.hold("east", 5.0, lambda: leaders(three) <= {1, 3}) == {Verdict.DEGRADED}, "also in elections"
        assert watch.hold("east", 3.0) == {Verdict.DEGRADED}, "and behind them"
        print(f"{fault} 1 of 3, later: {watch.status('east').reasons}")
        FAULTS[cure](three, "east-2", print)
        assert Verdict.DOWN not in watch.until_verdict("east", Verdict.UP)


def test_an_end_keeps_its_time_while_its_newest_record_is_not_replicated(
    three: World,
) -> None:
    bootstrap = three.bootstrap("east")
    with Link(Cluster(bootstrap=tuple(bootstrap)), name="east") as link:
        partitions = link.describe(["orders"], timeout=60)["orders"].partitions
        number = next(each for each, facts in partitions.items() if facts.leader != 2)
        partition = TopicPartition("orders", number)
        until(  # a test before this one may have killed or frozen it: the leader does not wait for one that lags
            lambda: 2 in link.describe(["orders"], timeout=60)["orders"].partitions[number].in_sync,
            "broker 2 is not in sync",
        )
        on_all, on_the_leader = (
            Delivery({"bootstrap.servers": bootstrap[0], "acks": acks, "log_level": 0}) for acks in ("all", "1")
        )
        produce(
            on_the_leader, partition, timestamp_ms=1_000_000
        )  # later it queries no broker about leaders: not a frozen one
        produce(on_all, partition, timestamp_ms=1_000_000)  # else the end that is sampled first may lie before it
        sampler = EndSampler("east", link)
        former: list[EndSample] = []

        def is_reported() -> bool:
            former[:] = sampler.sample([partition], now(), timeout=60)
            return bool(former) and former[0].newest_timestamp_ms is not None

        until(is_reported, "the end's time")
        faults.freeze(three, "east-2", print)
        try:
            produce(on_the_leader, partition, timestamp_ms=int(time.time() * 1000))
            requested = link.offsets({partition: Spec.MAX_TIMESTAMP}, timeout=60)[partition]
            (samples,) = sampler.sample([partition], now(), timeout=60)
        finally:
            faults.thaw(three, "east-2", print)
    assert (requested.timestamp_ms, requested.error) == (None, None), (
        "the leader knows a newer one, and may not tell it"
    )
    assert (samples.end, samples.newest_timestamp_ms) == (former[0].end, former[0].newest_timestamp_ms)


def leaders(three: World) -> set[int]:
    """Who leads the partitions of the topic, by its first broker; a new client queries no other one."""
    admin = AdminClient({"bootstrap.servers": three.bootstrap("east")[0], "log_level": 0})
    return {each.leader for each in admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions.values()}


def produce(producer: Delivery, partition: TopicPartition, timestamp_ms: int) -> None:
    """One record that the leader has acknowledged."""
    producer.produce(partition.topic, b"{}", partition=partition.partition, timestamp=timestamp_ms)
    producer.confirm()


def test_all_three_gone_is_down(three: World, tmp_path: Path) -> None:
    with controller(three.configuration, tmp_path) as watch:
        watch.until_verdict("east", Verdict.UP)
        struck = now()
        faults.freeze(three, "east", print)
        watch.until_verdict("east", Verdict.DOWN)
        print(f"freeze 3 of 3: DOWN {(watch.status('east').since - struck).total_seconds():.2f} s after the command")
        faults.thaw(three, "east", print)
        watch.until_verdict("east", Verdict.UP)
