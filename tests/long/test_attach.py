"""An application that knows nothing of Tideover, under a scheduler: moved under load while a replicator copies.

It is moved in its run where the batch under way can be continued, and else by a restart by its scheduler. The judge
compares what producers were acknowledged with what both queries have.

``MOMENTS=n`` changes how many random moments each kind of application gets, and ``SEED=n`` the first seed. Moment i has
seed + i: its fault alternates, and in every second pair the driver dies with the cluster.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.applications import EXACT, MOVED, QUERIES, SECONDS, Application, Scheduler
from tests.moments import KINDS, Moment, play
from tests.scene import Controller
from tests.waiting import until
from tests.world import RunningWorld, running_world

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
RATE = 2000
COPIED_SECONDS = 5.0
"""The replicator copies within a second: what it has not copied is lost with the cluster, and not by the move."""


@dataclass
class Shop:
    """The application and the clusters."""

    world: RunningWorld
    application: Application

    def acknowledged(self) -> set[int]:
        lines = [line.split() for file in self.world.directory.glob("acked/*.ids") for line in file.open()]
        return {int(words[0]) for words in lines if words and words[2] != "-1"}

    def judge(self) -> dict[str, int]:
        return self.application.judge(self.acknowledged())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running_world(tmp_path) as world:
        application = Application(tmp_path, world.bootstrap("east"))
        application.configure(yaml.safe_load(world.config.read_text(encoding="utf-8")))
        controller = Controller(application.config, "main")
        try:
            yield Shop(world, application)
        finally:
            controller.kill()


def more_than(shop: Shop, count: int) -> Callable[[], bool]:
    return lambda: len(shop.application.ids()) > count and (shop.application.out / "totals.json").exists()


def test_an_unmodified_job_is_moved_and_is_on_the_right_cluster_after_a_kill(shop: Shop) -> None:
    traffic = shop.world.start_traffic(rate=100)
    with Scheduler(shop.application) as scheduler:
        until(more_than(shop, 100), "the job reads", seconds=SECONDS)
        until(lambda: shop.application.type("check").code == 0, "both queries could be moved", seconds=SECONDS)
        traffic.send_signal(signal.SIGTERM)
        traffic.wait()
        until(lambda: shop.judge() == EXACT, "all was read", seconds=SECONDS)
        time.sleep(COPIED_SECONDS)
        shop.world.lab("kill", "east")
        moved = shop.application.type("failover", "--all", "--to", "west", "--yes", "--reason", "test", "-o", "json")
        assert moved.code == 0, moved.err + moved.out
        shop.world.traffic(to="west", rate=100, seconds=3)
        until(lambda: shop.judge() == EXACT, "every record once", seconds=SECONDS)
        until(shop.application.has_rested, "every record once, and committed", seconds=SECONDS)
        assert set(scheduler.codes) <= {MOVED}
        assert scheduler.codes or shop.application.log().count("query continues") == len(QUERIES)
    with Scheduler(shop.application) as scheduler:
        shop.world.traffic(to="west", rate=100, seconds=3)
        until(lambda: shop.judge() == EXACT, "every record once behind the restart", seconds=SECONDS)
        assert "archive reads source orders on west" in shop.application.log()
        assert scheduler.codes == []


@pytest.mark.timeout(14400)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_application_is_exact_at_random_moments(tmp_path: Path, kind: str) -> None:
    first = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    for seed in range(first, first + int(os.environ.get("MOMENTS", "10"))):
        moment = Moment.drawn(seed)
        print(f"SEED={seed}: {kind}, {moment}")
        play(tmp_path / str(seed), [kind], moment, RATE)
        shutil.rmtree(tmp_path / str(seed))
