"""A controller's tick of the watch and a runner's report meet in the store, on one clock."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from orchestrator import cluster_watch as module
from orchestrator.cluster_watch import ClusterWatch, Observer
from state.errors import StaleTerm
from state.model.cluster_status import Layer, Verdict
from state.settings.keys import Tideover
from state.store.write_checks import CONTROLLER
from streaming.probe.identities import Identities
from streaming.probe.probe_result import LayerPassed, ProbeResult
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.runner.runner_probe import RunnerProbe
from tests.contract import samples
from tests.memory_log import MemoryCluster
from tests.memory_store import MemoryStore
from tests.sights import TROUBLES
from tests.waiting import until

AHEAD = timedelta(hours=2)
"""The store's clock is another one than ours."""
SETTINGS = Tideover.model_validate(
    {
        "store": "sqlite://",
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
        "routes": [{"from": "east", "to": "west", "heartbeats": "east.heartbeats"}],
        "detection": {"interval": "250ms", "timeout": "500ms", "failures": 3},
    }
)


class World:
    """Two clusters that a test turns on and off, for each who looks."""

    def __init__(self) -> None:
        self.dark: set[tuple[str, str]] = set()
        """Who does not see which cluster."""
        self.trouble = "refused"
        self.answered: tuple[LayerPassed, ...] = ()
        """What a prober that does not see it met, and how far it came."""
        self.west = MemoryCluster("west")
        self.lock = threading.Lock()

    def eye(self, who: str, cluster: str) -> "WorldProbe":
        return WorldProbe(self, who, cluster)


class WorldProbe:
    is_over = True

    def __init__(self, world: World, who: str, cluster: str) -> None:
        self._world, self._place = world, (who, cluster)

    def run(self, timeout: float) -> ProbeResult:
        began, world = time.monotonic(), self._world
        if self._place not in world.dark:
            return ProbeResult(began=began, seconds=0.0)
        return ProbeResult(began=began, seconds=0.0, passed=world.answered, trouble=TROUBLES[world.trouble])

    def close(self) -> None:
        """Nothing to give back."""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: datetime.now(UTC) + AHEAD)


@pytest.fixture
def watching(world: World, store: MemoryStore) -> Iterator[ClusterWatch]:
    eyes = {cluster: lambda cluster=cluster: world.eye("controller", cluster) for cluster in SETTINGS.clusters}
    observer = Observer(SETTINGS, name="one", instance="1", eyes=eyes, open_log=lambda _: world.west)
    observer.begin()
    yield ClusterWatch(store, SETTINGS, observer, identities=Identities(SETTINGS), actor="controller one")
    observer.close()


@pytest.fixture
def lookout(world: World, store: MemoryStore) -> Iterator[RunnerProbe]:
    eyes = {"east": lambda: world.eye("runner", "east")}
    lookout = RunnerProbe("a", "1", eyes, store, SETTINGS.detection)
    lookout.begin()
    yield lookout
    lookout.close()


def term_of(store: MemoryStore) -> int:
    lease = store.lead(CONTROLLER, "one", timedelta(minutes=10))
    assert lease is not None
    return lease.term


def verdicts(watching: ClusterWatch, term: int) -> tuple[Verdict, ...]:
    return tuple(status.verdict for status in watching.give_verdicts(term).values())


def test_a_cluster_that_dies_for_all_is_down_and_history_shows_how(
    world: World, store: MemoryStore, watching: ClusterWatch, lookout: RunnerProbe
) -> None:
    term = term_of(store)
    until(lambda: verdicts(watching, term) == (Verdict.UP, Verdict.UP))
    world.dark = {("controller", "east"), ("runner", "east")}
    until(lambda: verdicts(watching, term) == (Verdict.DOWN, Verdict.UP))
    down = store.cluster_statuses()[0]
    assert down.first_failed_at is not None
    assert timedelta(0) < down.since - down.first_failed_at < timedelta(minutes=1), "on the store's clock"
    verdict = [event.detail["verdict"] for event in store.history() if event.detail["cluster"] == "east"]
    assert verdict[-1] == "DOWN"
    assert "SUSPECT" in verdict
    world.dark = set()
    until(lambda: verdicts(watching, term) == (Verdict.UP, Verdict.UP))


def test_a_cluster_that_only_this_controller_cannot_see_is_never_down(
    world: World, store: MemoryStore, watching: ClusterWatch, lookout: RunnerProbe
) -> None:
    term = term_of(store)
    until(lambda: verdicts(watching, term) == (Verdict.UP, Verdict.UP) and len(store.probe_reports("east")) >= 2)
    world.dark = {("controller", "east")}
    until(lambda: verdicts(watching, term)[0] is Verdict.UNREACHABLE_FROM_HERE)
    seen = set()
    for _ in range(40):
        seen.add(verdicts(watching, term)[0])
        time.sleep(0.01)
    assert seen <= {Verdict.UNREACHABLE_FROM_HERE, Verdict.UNKNOWN}, "unknown where this very machine stood still"
    world.dark.add(("runner", "east"))
    until(lambda: verdicts(watching, term)[0] is Verdict.DOWN)


def test_a_heartbeat_that_still_arrives_keeps_a_cluster_from_being_down(
    world: World, store: MemoryStore, watching: ClusterWatch
) -> None:
    term = term_of(store)
    world.west.create("east.heartbeats")

    def beat() -> None:
        world.west.append("east.heartbeats", 0, int(store.now().timestamp() * 1000), bytes(16))

    def beaten() -> tuple[Verdict, ...]:
        beat()
        return verdicts(watching, term)

    until(lambda: beaten() == (Verdict.UP, Verdict.UP))
    until(
        lambda: (
            beaten() == (Verdict.UP, Verdict.UP)
            and any(s.last_ok_at for s in store.probe_reports("east") if s.viewpoint.startswith("replicator"))
        )
    )
    world.dark = {("controller", "east")}
    until(lambda: beaten()[0] is Verdict.UNREACHABLE_FROM_HERE)
    assert any("replicator:east->west saw it alive" in reason for reason in store.cluster_statuses()[0].reasons)
    until(lambda: verdicts(watching, term)[0] is Verdict.DOWN)


def test_another_controller_of_the_same_name_is_reported_once(
    world: World, store: MemoryStore, watching: ClusterWatch
) -> None:
    eyes = {"east": lambda: world.eye("namesake", "east")}
    observer = Observer(SETTINGS, name="one", instance="2", eyes=eyes, open_log=lambda _: world.west)
    namesake = ClusterWatch(store, SETTINGS, observer, identities=Identities(SETTINGS), actor="controller one")
    term = term_of(store)
    before = samples.probe_report(viewpoint="controller:one", instance="0", seen_at=store.now(), last_ok_at=store.now())
    store.save_probe_reports([before])
    with capture_logs() as logs:
        until(lambda: verdicts(watching, term) == (Verdict.UP, Verdict.UP))
        assert logs == [], "who had the name before this process is none"
        observer.begin()
        try:
            world.dark = {("controller", "east")}
            seen = set()

            def verdict() -> Verdict:
                namesake.report()
                seen.add(verdicts(watching, term)[0])
                return verdicts(watching, term)[0]

            until(lambda: verdict() is Verdict.UNREACHABLE_FROM_HERE)
            for _ in range(100):
                verdict()
                time.sleep(0.01)
            assert Verdict.DOWN not in seen
            world.dark.add(("namesake", "east"))
            until(lambda: verdict() is Verdict.DOWN)
        finally:
            observer.close()
    namesakes = [line for line in logs if line["event"] == "another controller has the same name"]
    assert [line["instance"] for line in namesakes] == ["2"], "the prober may log, too: that we were paused"


def test_a_planned_batch_is_evidence_where_the_runners_probes_fail(
    world: World, store: MemoryStore, watching: ClusterWatch, lookout: RunnerProbe
) -> None:
    term = term_of(store)
    subject = Subject("revenue", 1, "east", "/checkpoints/revenue")
    number = [0]

    def planned() -> tuple[Verdict, ...]:
        number[0] += 1
        lookout.see(subject, Batch(id=number[0], offsets={}, committed=False, planned_after=time.monotonic()))
        return verdicts(watching, term)

    until(lambda: verdicts(watching, term)[0] is Verdict.UP)
    world.dark = {("controller", "east"), ("runner", "east")}
    until(lambda: planned()[0] is Verdict.UNREACHABLE_FROM_HERE)
    lookout.see(subject, Batch(id=1000, offsets={}, committed=True))
    lookout.see(subject, Batch(id=1000, offsets={}, committed=False, planned_after=None))
    until(lambda: verdicts(watching, term)[0] is Verdict.DOWN)


def test_a_runner_calls_silent_what_answers_nothing_for_a_reason_of_its_own(world: World, lookout: RunnerProbe) -> None:
    until(lambda: lookout.probe_reports() != [])
    assert not lookout.is_silent("east")
    assert not lookout.is_silent("north"), "nobody looks at it"
    world.dark = {("runner", "east")}
    until(lambda: lookout.is_silent("east"))
    world.trouble = "credential"
    until(lambda: not lookout.is_silent("east"))
    world.trouble = "silent"
    until(lambda: lookout.is_silent("east"))
    world.answered = (LayerPassed(layer=Layer.METADATA, ms=1.0),)
    until(lambda: not lookout.is_silent("east"))


def test_a_verdict_that_stays_is_rewritten_sometimes_and_not_every_tick(
    store: MemoryStore, watching: ClusterWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST_SECONDS", 0.5)
    term = term_of(store)
    until(lambda: verdicts(watching, term) == (Verdict.UP, Verdict.UP))
    first = store.cluster_statuses()[0]
    written = {first.decided_at}

    def again() -> bool:
        watching.give_verdicts(term)
        written.add(store.cluster_statuses()[0].decided_at)
        return len(written) == 3

    until(again)
    assert max(written) - min(written) >= timedelta(seconds=0.5)
    assert store.cluster_statuses()[0].since == first.since


def test_a_stale_leader_believes_nothing(store: MemoryStore, watching: ClusterWatch) -> None:
    stale = term_of(store)
    store.seize(CONTROLLER, "two", "one", timedelta(minutes=10))
    until(lambda: len(watching_reports(watching, store)) >= 2)
    with pytest.raises(StaleTerm):
        watching.give_verdicts(stale)
    assert store.cluster_statuses() == []


def watching_reports(watching: ClusterWatch, store: MemoryStore) -> list[str]:
    watching.report()
    return [each.viewpoint for each in store.probe_reports()]
