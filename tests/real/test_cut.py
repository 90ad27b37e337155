"""``tideover control`` cut off from a cluster, in silence and by refusal: while others see it, it is never DOWN."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from orchestrator.config.load import load
from state.model.cluster_status import Verdict
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from streaming.spark.runner.runner_probe import RunnerProbe
from tests.fakecluster import BASE_MS, STEP_MS, FakeCluster
from tests.namespace import Namespace, cabled
from tests.waiting import PROCESS_SECONDS, until

pytestmark = pytest.mark.real

HEARTBEATS = "east.heartbeats"
FAILURES = 3
"""Looks that make DOWN."""


def await_verdict(store: ControllerStore, cluster: str, wanted: Verdict) -> None:
    until(lambda: any(each.cluster == cluster and each.verdict is wanted for each in store.cluster_statuses()), wanted)


def await_failures(store: ControllerStore, cluster: str) -> None:
    """Wait until the controller has failed to see a cluster far more often than it takes for DOWN."""

    def have_failed() -> bool:
        seen = (each for each in store.probe_reports(cluster) if each.viewpoint.startswith("controller"))
        return any(each.failures_in_a_row >= 4 * FAILURES for each in seen)

    until(have_failed, f"looks at {cluster} that failed")


def declared(directory: Path, east: FakeCluster, west: FakeCluster) -> Path:
    """A configuration file of two clusters and one query, with its store beside it."""
    contents = {
        "store": f"sqlite:///{directory / 't.db'}",
        "clusters": {"east": {"bootstrap": list(east.bootstrap)}, "west": {"bootstrap": list(west.bootstrap)}},
        "routes": [{"from": "east", "to": "west", "heartbeats": HEARTBEATS}],
        "runners": {"a": {}},
        "detection": {"interval": "2s", "timeout": "5s", "failures": FAILURES},  # a busy machine is no dead cluster
        "queries": {
            "revenue": {
                "pipeline": "examples.orders:revenue_per_minute", "clusters": ["east", "west"], "runners": ["a"],
                "sources": {"orders": {"topics": ["orders"]}}, "checkpoint": str(directory / "cp"),
            }
        },
    }  # fmt: skip
    config = directory / "tideover.yaml"
    config.write_text(yaml.safe_dump(contents), encoding="utf-8")
    return config


@contextmanager
def controller(config: Path, place: Namespace) -> Iterator[None]:
    """One that runs in that place."""
    command = place.command(sys.executable, "-m", "orchestrator", "-c", str(config), "control", "--name", "one")
    with (config.parent / "controller.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PROCESS_SECONDS)


@contextmanager
def beating(west: FakeCluster, seconds: float) -> Iterator[Callable[[], None]]:
    """Heartbeats of another cluster arrive until the function is called, each stamped with the second that it is."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            west.records = 1 + round(time.time() * 1000 - BASE_MS) // STEP_MS

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield over.set
    finally:
        over.set()
        thread.join()


def reported_of(store: ControllerStore, cluster: str) -> list[str]:
    """The verdicts that were given, oldest first."""
    return [each.text for each in store.history() if each.kind == "verdict" and each.text.startswith(cluster)]


def test_a_cut_cluster_is_unreachable_from_here_until_all_lose_it(tmp_path: Path) -> None:
    with FakeCluster({"orders": 4}, brokers=1) as east, FakeCluster({"orders": 4}, brokers=1) as west:
        config = declared(tmp_path, east, west)
        settings = load(str(config)).settings
        ports = {"east": list(east.ports.values()), "west": list(west.ports.values())}
        with closing(open_store(f"sqlite:///{tmp_path / 't.db'}")) as store, cabled(ports) as place:
            lookout = RunnerProbe("a", "1", probes_on(settings, Identities(settings)), store, settings.detection)
            lookout.begin()
            with closing(lookout), controller(config, place):
                await_verdict(store, "east", Verdict.UP)
                await_verdict(store, "west", Verdict.UP)
                place.cut("east")
                await_verdict(store, "east", Verdict.UNREACHABLE_FROM_HERE)
                await_failures(store, "east")
                assert not any("is DOWN" in each for each in reported_of(store, "east"))
                place.mend("east")
                await_verdict(store, "east", Verdict.UP)
                east.kill(0)
                await_verdict(store, "east", Verdict.DOWN)
                assert reported_of(store, "west")[-1].startswith("west is UP"), "its cable is whole"


@pytest.mark.long
def test_a_cluster_whose_heartbeats_arrive_is_not_down_for_the_controller(tmp_path: Path) -> None:
    with FakeCluster({"orders": 4}, brokers=1) as east, FakeCluster({"orders": 4, HEARTBEATS: 1}, brokers=1) as west:
        config = declared(tmp_path, east, west)
        ports = {"east": list(east.ports.values()), "west": list(west.ports.values())}
        with (
            closing(open_store(f"sqlite:///{tmp_path / 't.db'}")) as store,
            cabled(ports) as place,
            beating(west, 1.1) as stop,
            controller(config, place),
        ):
            await_verdict(store, "east", Verdict.UP)
            seen: set[datetime] = set()

            def have_arrived() -> bool:
                seen.update(each.last_ok_at for each in store.probe_reports("east") if each.due_at and each.last_ok_at)
                return len(seen) > 4

            until(have_arrived, "some heartbeats, so that the gaps between them are known")
            place.refuse("east")
            await_verdict(store, "east", Verdict.UNREACHABLE_FROM_HERE)
            await_failures(store, "east")
            reported = reported_of(store, "east")
            assert not any("is DOWN" in each for each in reported), reported
            assert any("connection refused" in each.lower() for each in reported), "not silence"
            place.accept("east")
            await_verdict(store, "east", Verdict.UP)
            place.refuse("east")
            await_verdict(store, "east", Verdict.UNREACHABLE_FROM_HERE)
            stop()
            await_verdict(store, "east", Verdict.DOWN)
