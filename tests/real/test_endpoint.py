"""One endpoint before two real clusters is turned under load: nothing is lost, and repeats are forecast."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.broker import new_cluster_id, running_broker
from tests.gateway import Gateway
from tests.ports import free_port
from tests.runner_process import RunnerProcess
from tests.scene import Controller
from tests.streams import Cluster
from tests.waiting import THREAD_SECONDS

pytestmark = pytest.mark.real

QUERIES = {"strict": ("slow_rows_by_batch", "true"), "lenient": ("rows_by_batch", "false")}
"""By query, its pipeline and ``failOnDataLoss``. The batches of one last, so that the turn comes in the middle."""


class Load:
    """Writes the same ids to both clusters past the endpoint, as a replicator that keeps up would have it."""

    def __init__(self, clusters: list[Cluster]) -> None:
        self._clusters = clusters
        self._over = threading.Event()
        self.end = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._over.wait(0.1):
            for each in self._clusters:
                each.extend("orders", self.end + 10)
            self.end += 10

    def stop(self) -> int:
        self._over.set()
        self._thread.join(THREAD_SECONDS)
        return self.end


class Turning:
    """Two clusters behind one endpoint, two queries, and where each wrote what it read."""

    def __init__(self, folder: Path, gateway: Gateway, brokers: dict[str, str], ids: dict[str, str]) -> None:
        self.folder, self.gateway, self.brokers, self.ids = folder, gateway, brokers, ids
        self.settings: dict[str, Any] = {
            "store": f"sqlite:///{folder / 'tideover.db'}",
            "clusters": {"dr": {"bootstrap": [gateway.address], "ids": ids}},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "runners": {"a": {}},
            "spark": {"master": "local[6]", "conf": {"spark.sql.shuffle.partitions": 1}},
            "policy": {"automatic": True, "cooldown": "0s"},
            "queries": {
                name: {
                    "pipeline": f"tests.real.pipelines:{pipeline}",
                    "settings": {"sink": str(folder / name)},
                    "sources": {"orders": {"topics": ["orders"], "options": {"failOnDataLoss": loss}}},
                    "clusters": ["east", "west"],
                    "runners": ["a"],
                    "checkpoint": str(folder / "checkpoints" / name),
                    "trigger": "200ms",
                }
                for name, (pipeline, loss) in QUERIES.items()
            },
        }
        self.store: ControllerStore = open_store(str(self.settings["store"]))

    def delivered(self, query: str) -> Counter[int]:
        """Each id with how often it was delivered; a batch that was written twice with other records counts twice."""
        found = [json.loads(path.read_text()) for path in (self.folder / query).glob("*.json")]
        return Counter(int(each) for batch in found for each in batch["rows"])

    def have_read(self, number: int) -> bool:
        return all(max(self.delivered(query), default=0) > number for query in QUERIES)

    def has_all(self, query: str, end: int) -> bool:
        return set(self.delivered(query)) >= set(range(end))

    def where(self) -> set[str]:
        return {row.cluster for row in self.store.assignments()}

    def forecast(self, query: str) -> int:
        """How many records a batch in flight may have delivered before, by the plans of the moves."""
        plans = [each.plan for each in self.store.operations() if each.query == query and each.plan is not None]
        totals = [each.totals for each in plans if each.totals is not None]
        return sum((each.replay_records or 0) + (each.possible_replay_records or 0) for each in totals)

    def is_settled(self, moves: int) -> bool:
        done = [each for each in self.store.operations() if each.outcome == "done"]
        return len(done) == moves * len(QUERIES) and not any(each.is_open for each in self.store.operations())


@pytest.fixture
def turning(tmp_path: Path) -> Iterator[Turning]:
    with ExitStack() as stack:
        gateway = stack.enter_context(closing(Gateway()))
        ids = {name: new_cluster_id() for name in ("east", "west")}
        behind, direct = {}, {}
        for name in ids:
            past, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
            settings = {
                "listeners": f"PLAINTEXT://LISTEN,DIRECT://{past},CONTROLLER://{controller}",
                "advertised.listeners": f"PLAINTEXT://{gateway.address},DIRECT://{past}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"1@{controller}",
                "inter.broker.listener.name": "DIRECT",
            }
            behind[name] = stack.enter_context(running_broker(tmp_path / name, settings=settings, cluster_id=ids[name]))
            direct[name] = past
            Cluster(past).make("orders", foreign=name == "west")
        gateway.lead_to(behind["east"])
        turning = Turning(tmp_path, gateway, behind, ids)
        turning.settings["direct"] = direct
        yield turning
        turning.store.close()


def test_queries_follow_an_endpoint_under_load_and_read_each_record_once(turning: Turning) -> None:
    direct = turning.settings.pop("direct")
    runner = RunnerProcess(turning.settings, turning.folder)
    controller = Controller(turning.folder / "settings.json", "one")
    load = Load([Cluster(direct[name], ends={"orders": 0}) for name in ("west", "east")])
    try:
        for turn, (here, there) in enumerate([("east", "west"), ("west", "east")], start=1):
            runner.until("both read under load", partial(turning.have_read, load.end + 50))
            turning.gateway.lead_to(turning.brokers[there])
            turned = time.monotonic()
            runner.until("both are moved", partial(turning.is_settled, turn))
            print(f"from {here} to {there}: {time.monotonic() - turned:.1f} s after the turn both have read there")
            assert turning.where() == {there}
        end = load.stop()
        for query in QUERIES:
            runner.until(f"{query} has all", partial(turning.has_all, query, end))
            delivered = turning.delivered(query)
            assert set(delivered) == set(range(end)), "a record of another writer was read"
            assert sum(delivered.values()) - end <= turning.forecast(query), query
    finally:
        load.stop()
        controller.kill()
        runner.kill()
    verdicts = {str(each.detail["verdict"]) for each in turning.store.history() if each.kind == "verdict"}
    assert "NOT_HERE" in verdicts
    assert "CONFIG_ERROR" not in verdicts
    assert {each.plan.fence for each in turning.store.operations() if each.plan is not None} == {"runner"}
