"""Two real clusters swap behind one address: nothing is run on the other one, moved to it or recorded of it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cluster_watch import ClusterWatch, Observer
from state.model.cluster_status import Verdict
from state.model.entities import QueryFact, RunState
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from state.store.write_checks import CONTROLLER
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from tests.broker import new_cluster_id, running_broker
from tests.gateway import Gateway
from tests.runner_process import RunnerProcess
from tests.scene import Controller
from tests.streams import Cluster

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
READ, MORE = 200, 2000
FEW_SECONDS = 30.0
"""On a busy machine; a process reads the pins every second, and looks at a cluster twice a second."""


class Place:
    """East behind a gateway, the stranger that may take its address, west, one query, and what watches."""

    def __init__(self, folder: Path, gateway: Gateway, brokers: dict[str, str], ids: dict[str, str]) -> None:
        self.folder, self.gateway, self.brokers, self.ids = folder, gateway, brokers, ids
        self.sink = folder / "ids"
        self.settings: dict[str, Any] = {
            "store": f"sqlite:///{folder / 'tideover.db'}",
            "clusters": {"east": {"bootstrap": [gateway.address]}, "west": {"bootstrap": [brokers["west"]]}},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "runners": {"a": {}},
            "spark": {"master": "local[4]", "conf": {"spark.sql.shuffle.partitions": 1}},
            "queries": {
                "ids": {
                    "pipeline": "tests.real.pipelines:distinct_ids",
                    "settings": {"sink": str(self.sink)},
                    "sources": {"orders": {"topics": ["orders"]}},
                    "clusters": ["east", "west"],
                    "runners": ["a"],
                    "checkpoint": str(folder / "checkpoints" / "ids"),
                    "trigger": "200ms",
                }
            },
        }
        self.store: ControllerStore = open_store(str(self.settings["store"]))

    def has_all(self, end: int) -> bool:
        return self.sink.exists() and set(range(end)) <= set(map(int, self.sink.read_text().splitlines()))

    def fact(self) -> QueryFact | None:
        return next(iter(self.store.query_facts()), None)

    def failed_with(self, words: str) -> bool:
        fact = self.fact()
        return fact is not None and fact.state is RunState.FAILED and words in (fact.error or "")

    def offsets(self) -> set[tuple[int, int]]:
        """Partition and offset of every position that is stored of east."""
        return {(row.partition, row.offset) for row in self.store.positions("ids") if row.cluster == "east"}

    def tideover(self, *arguments: str) -> tuple[int, Any, str]:
        """A verb, as a person types it: exit code, what it printed, what it said."""
        config = self.folder / "settings.json"
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "-c", str(config), *arguments, "-o", "json"],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout or "null"), done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        gateway = stack.enter_context(closing(Gateway()))
        behind = {"advertised.listeners": f"PLAINTEXT://{gateway.address}"}
        ids = {name: new_cluster_id() for name in ("east", "stranger", "west")}
        brokers = {
            name: stack.enter_context(
                running_broker(tmp_path / name, settings=None if name == "west" else behind, cluster_id=ids[name])
            )
            for name in ids
        }
        for name, records in (("stranger", MORE), ("east", READ), ("west", READ)):
            if name != "west":
                gateway.lead_to(brokers[name])
            cluster = Cluster(brokers["west"] if name == "west" else gateway.address)
            cluster.make("orders", foreign=name == "west")
            cluster.extend("orders", records)
        place = Place(tmp_path, gateway, brokers, ids)
        yield place
        place.store.close()


def test_verdict_gate_and_runner_refuse_a_cluster_at_anothers_address(place: Place) -> None:
    store, east, stranger = place.store, place.ids["east"], place.ids["stranger"]
    runner = RunnerProcess(place.settings, place.folder)
    try:
        runner.until("all is read", lambda: place.has_all(READ))
        runner.until("it is tracked", lambda: len({row for row in place.offsets() if row[1] == READ // 2}) == 2)
        runner.until("both are pinned", lambda: len(store.pins()) == 2)
        assert {pin.cluster: pin.id for pin in store.pins()} == {"east": east, "west": place.ids["west"]}

        settings = Tideover.model_validate(place.settings)
        known = Identities(settings)
        known.learn(store)
        observer = Observer(
            settings, name="one", instance="1", eyes=probes_on(settings, known), open_log=lambda name: pytest.fail(name)
        )
        observer.begin()
        watching = ClusterWatch(store, settings, observer, identities=known, actor="controller:one")
        lease = store.lead(CONTROLLER, "one", timedelta(minutes=10))
        assert lease is not None

        def verdict() -> Verdict:
            assert lease is not None
            return watching.give_verdicts(lease.term)["east"].verdict

        runner.until("it is up", lambda: verdict() is Verdict.UP)
        place.gateway.lead_to(place.brokers["stranger"])
        seen: set[Verdict] = set()

        def is_refused() -> bool:
            seen.add(verdict())
            return Verdict.CONFIG_ERROR in seen and place.failed_with(f"east leads to cluster {stranger}")

        runner.until("the verdict is given and the query has failed", is_refused)
        assert Verdict.DOWN not in seen
        status = next(each for each in store.cluster_statuses() if each.cluster == "east")
        assert status.reasons[0].startswith(f"east leads to cluster {stranger}, but was cluster {east} until now")
        code, plan, _ = place.tideover("plan", "failover", "ids")
        (gate,) = [each for each in plan["gates"] if each["name"] == "cluster-identity"]
        assert (code, plan["refused"], gate["ok"]) == (1, True, False)
        assert stranger in gate["measured"]
        assert east in gate["limit"]
        assert "tideover accept-cluster east" in gate["text"]
        store.resign(lease)
        code, refused, said = place.tideover("failover", "ids", "--to", "west", "--yes")
        assert (code, f"east leads to cluster {stranger}" in f"{refused}{said}") == (1, True), (refused, said)

        runner.terminate()
        delivered = place.sink.read_text()
        runner = RunnerProcess(place.settings, place.folder)
        runner.until("it is not started", lambda: place.failed_with(f"east leads to cluster {stranger}"))
        assert "query started" not in runner.log()
        assert place.sink.read_text() == delivered
        assert {offset for _, offset in place.offsets()} <= set(range(READ // 2 + 1)), "none is of the other cluster"

        code, row, said = place.tideover("accept-cluster", "east", "--yes")
        assert (code, row[0]["id"], row[0]["left_behind"]) == (0, stranger, ["ids"]), said
        runner.until("it stays behind", lambda: place.failed_with(f"ids last ran on cluster {east}"))
        assert "query started" not in runner.log()
        lease = store.lead(CONTROLLER, "one", timedelta(minutes=10))
        assert lease is not None
        runner.until("a controller that lived through it calls it up", lambda: verdict() is Verdict.UP)
        store.resign(lease)
        observer.close()
        code, operation, said = place.tideover("failover", "ids", "--to", "west", "--yes")
        assert (code, operation["outcome"]) == (0, "done"), said
        west = Cluster(place.brokers["west"], ends={"orders": READ})
        west.extend("orders", READ + 50)
        runner.until("it goes on there", lambda: place.has_all(READ + 50))
    finally:
        runner.kill()


def test_nothing_is_read_from_another_cluster_however_rare_the_checks(place: Place) -> None:
    """The reader itself compares, before it plans a batch: the next probe would come ten seconds later."""
    place.settings["detection"] = {"interval": "10s", "timeout": "1s"}
    stranger = place.ids["stranger"]
    runner = RunnerProcess(place.settings, place.folder)
    try:
        runner.until("all is read", lambda: place.has_all(READ))
        runner.until("both are pinned", lambda: len(place.store.pins()) == 2)
        place.gateway.lead_to(place.brokers["stranger"])
        runner.until("the query has failed", lambda: place.failed_with(f"east leads to cluster {stranger}"))
        time.sleep(12)  # until a person has looked, and the query was started again in the meantime
        assert sorted(map(int, place.sink.read_text().split())) == list(range(READ))
        place.gateway.lead_to(place.brokers["east"])
        east = Cluster(place.gateway.address, ends={"orders": READ})
        east.extend("orders", READ + 50)
        runner.until("it goes on by itself where it was", lambda: place.has_all(READ + 50))
    finally:
        runner.kill()


def test_an_accepted_cluster_is_up_and_read_by_the_processes_that_ran(place: Place) -> None:
    """A controller and a runner with its companion live through all of it; within seconds both take the new cluster."""
    place.settings["queries"]["ids"]["clusters"] = ["west", "east"]
    store, stranger = place.store, place.ids["stranger"]
    runner = RunnerProcess(place.settings, place.folder)
    controller = Controller(place.folder / "settings.json", "one")

    def verdict() -> Verdict | None:
        return next((each.verdict for each in store.cluster_statuses() if each.cluster == "east"), None)

    def runner_sees() -> bool:
        """Whether its own newest probe of east reached the new cluster, and found nothing wrong."""
        (found,) = (each for each in store.probe_reports("east") if each.viewpoint == "runner:a")
        return found.fault is None and found.cluster_id == stranger

    try:
        runner.until("all is read", lambda: place.has_all(READ))
        runner.until("east is up", lambda: verdict() is Verdict.UP)
        place.gateway.lead_to(place.brokers["stranger"])
        runner.until("another cluster has the name", lambda: verdict() is Verdict.CONFIG_ERROR)
        code, row, said = place.tideover("accept-cluster", "east", "--yes")
        accepted = time.monotonic()
        assert (code, row[0]["id"], row[0]["left_behind"]) == (0, stranger, []), said
        runner.until("the controller calls it up", lambda: verdict() is Verdict.UP, FEW_SECONDS)
        runner.until("the runner does", runner_sees, FEW_SECONDS)
        print(f"up for both {time.monotonic() - accepted:.1f} s after the verb")
        code, operation, said = place.tideover("failover", "ids", "--to", "east", "--yes")
        assert (code, operation["outcome"], operation["plan"]["resume"]) == (0, "done", "switch"), said
        runner.until("the companion reads the new cluster", lambda: place.has_all(MORE))
        assert sorted(map(int, place.sink.read_text().split())) == list(range(MORE))
    finally:
        controller.kill()
        runner.kill()
