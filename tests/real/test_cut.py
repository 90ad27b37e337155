"""``tideover control`` behind a cable that is pulled: a cluster that others see is never DOWN, and comes back."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from orchestrator.config import load
from state.ports import Store
from state.sighting import Verdict
from state.sql.migrate import open_store
from streaming.eyes import eyes_on
from streaming.spark.sight import Lookout
from tests.fakecluster import FakeCluster
from tests.namespace import cabled

pytestmark = pytest.mark.real

SECONDS = 30.0


def await_verdict(store: Store, cluster: str, wanted: Verdict, seconds: float = SECONDS) -> None:
    until(lambda: any(each.cluster == cluster and each.verdict is wanted for each in store.beliefs()), seconds)


def until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_cluster_behind_a_pulled_cable_is_unreachable_from_here_until_nobody_sees_it(tmp_path: Path) -> None:
    with FakeCluster({"orders": 4}, brokers=1) as east, FakeCluster({"orders": 4}, brokers=1) as west:
        url = f"sqlite:///{tmp_path / 't.db'}"
        declared = {
            "store": url,
            "clusters": {"east": {"bootstrap": list(east.bootstrap)}, "west": {"bootstrap": list(west.bootstrap)}},
            "routes": [{"from": "east", "to": "west"}],
            "runners": {"a": {}},
            "queries": {
                "revenue": {
                    "pipeline": "examples.orders:revenue_per_minute", "clusters": ["east", "west"], "runners": ["a"],
                    "sources": {"orders": {"topics": ["orders"]}}, "checkpoint": str(tmp_path / "cp"),
                }
            },
        }  # fmt: skip
        config = tmp_path / "tideover.yaml"
        config.write_text(yaml.safe_dump(declared), encoding="utf-8")
        settings = load(str(config)).settings
        ports = {"east": list(east.ports.values()), "west": list(west.ports.values())}
        with closing(open_store(url)) as store, cabled(ports) as place:
            lookout = Lookout("a", "1", eyes_on(settings), store, settings.detection)
            lookout.begin()
            command = place.command(sys.executable, "-m", "orchestrator", "-c", str(config), "control", "--name", "one")
            with (tmp_path / "controller.log").open("wb") as log:
                controller = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                await_verdict(store, "east", Verdict.UP)
                await_verdict(store, "west", Verdict.UP)
                place.cut("east")
                await_verdict(store, "east", Verdict.UNREACHABLE_FROM_HERE)
                time.sleep(5.0)
                told = [each.text for each in store.history() if each.kind == "verdict"]
                assert not any("east is DOWN" in each for each in told), told
                place.mend("east")
                await_verdict(store, "east", Verdict.UP)
                east.kill(0)
                await_verdict(store, "east", Verdict.DOWN)
                assert [each for each in told if each.startswith("west")][-1].startswith("west is UP"), (
                    "its cable is whole"
                )
            finally:
                controller.terminate()
                controller.wait(30)
                lookout.close()
