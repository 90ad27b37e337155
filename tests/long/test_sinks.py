"""Five kinds of sinks, and a driver that is killed before, in and after the write of the batch in flight.

The driver dies with its JVM, another runner takes the queries to the other cluster, and each sink is read whole by
another reader than Spark. Nothing may be lost; what may be there twice is what the plan said, and no more.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyspark
import pytest

from lab.world import CLUSTERS
from state.settings.keys import Resume
from state.store.sql.migrate import open_store
from streaming.jars import jar_paths
from tests.postgres import Postgres, running_postgres
from tests.real import sinks
from tests.real.kinds import DELTA_CONF
from tests.real.theatre import sides_of
from tests.scene import Scene
from tests.streams import forget_seen, has_rested, uncommit
from tests.world import running_clusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.jars("delta")]

ORDERS, COPIES = "orders", "copies"
CALM, FLYING, LATER = 400, 8_400, 8_600
"""Ends of the ids that were committed, of those in flight, and of those that come after the move."""
HELD = {"before": CALM, "in": FLYING - 20}
"""From which id on the batch is held. Rows come out of Python 64 KB at a time, so most of it is written by then."""

RESUMES = (Resume.CARRY.value, Resume.SWITCH.value)
_APPENDED = {("in", sinks.COPIED), ("after", sinks.COPIED)}
TWICE = {"carry": {("after", sinks.TABLE), *_APPENDED}, "switch": _APPENDED}
"""What may stand twice, because the sink appends, or knows a batch by the query id, which ``carry`` changes."""


@dataclass(frozen=True)
class Played:
    """How a run ended: by query, its plan and how often each id was delivered."""

    plans: Mapping[str, Any]
    delivered: Mapping[str, Mapping[int, int]]

    def repeated(self, name: str) -> int:
        return sum(count - 1 for count in self.delivered[name].values() if count > 1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module", params=[(resume, moment) for resume in RESUMES for moment in ("before", "in", "after")])
def sink_run(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Played]:
    resume, moment = request.param
    return resume, moment, play(resume, moment, postgres, tmp_path_factory.mktemp(f"{resume}-{moment}"))


@pytest.mark.parametrize("name", sinks.SINKS)
def test_a_sink_loses_nothing_and_has_twice_what_the_plan_said(sink_run: tuple[str, str, Played], name: str) -> None:
    resume, moment, played = sink_run
    totals = played.plans[name]["totals"]
    said, repeated = totals["replay_records"] + totals["possible_replay_records"], played.repeated(name)
    print(f"{resume}, killed {moment}: {name} {played.plans[name]['uncommitted_batch']}, said {said}, twice {repeated}")
    assert sorted(played.delivered[name]) == list(range(LATER))
    assert repeated <= said <= FLYING - CALM
    if (moment, name) not in TWICE[resume]:
        assert repeated == 0
    elif moment == "after":
        assert repeated == said > 0, "the whole batch, which the sink had"


def play(resume: str, moment: str, postgres: Postgres, folder: Path) -> Played:
    """Killed at that moment, moved, and read to the end."""
    east, west = CLUSTERS
    database = postgres.new_database()
    address = database.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE ids (id bigint PRIMARY KEY)")
    url = f"sqlite:///{folder / 'store.db'}"
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        declared = settings({name: world.bootstrap(name) for name in CLUSTERS}, folder, url, resume, address)
        with closing(Scene(folder / "scene", store, declared, sides_of(world))) as scene:
            for name, topic in ((east, ORDERS), (west, ORDERS), (east, COPIES), (west, COPIES)):
                scene.clusters[name].make(topic, foreign=topic == ORDERS and name == west)
            bootstraps = [each.bootstrap for each in scene.clusters.values()]

            def found(name: str) -> Mapping[int, int]:
                return sinks.delivered(name, str(declared["queries"][name]["settings"]["sink"]), bootstraps, COPIES)

            def has(name: str, end: int) -> bool:
                return has_all(scene, found(name), folder / "checkpoints" / name, name, end)

            scene.extend(ORDERS, CALM)
            first = scene.run("a")
            for name in sinks.SINKS:
                scene.until(f"{name} has the calm ones", partial(has, name, CALM))
            for name in sinks.SINKS if moment in HELD else ():
                (folder / f"{name}.hold").write_text(str(HELD[moment]), encoding="utf-8")
            scene.extend(ORDERS, FLYING)
            for name in sinks.SINKS:
                if moment in HELD:
                    scene.until(f"{name} is held", (folder / f"{name}.reached").exists)
                else:
                    scene.until(f"{name} has all", partial(has, name, FLYING))
            first.die()
            for name in sinks.SINKS:
                (folder / f"{name}.hold").unlink(missing_ok=True)
                if moment == "after":
                    uncommit(folder / "checkpoints" / name)
                    forget_seen(scene.store, name)
            scene.run("b")
            said = scene.failover("--all", west).end()
            assert said.code == 0, said.err
            scene.extend(ORDERS, LATER)

            def has_ids(name: str) -> bool:
                return found(name).keys() >= set(range(LATER))

            for name in sinks.SINKS:
                scene.until(f"{name} has it all", partial(has_ids, name))
            plans = {name: each["plan"] for name, each in said.operations.items()}
            return Played(plans, {name: found(name) for name in sinks.SINKS})


def has_all(scene: Scene, found: Mapping[int, int], checkpoint: Path, name: str, end: int) -> bool:
    """Whether a sink has these ids, the checkpoint the commit of their batch, and the store their positions."""
    tracked = {each.partition: each.ring[-1].offset + 1 for each in scene.store.positions(name) if each.ring}
    return has_rested(checkpoint) and tracked == {0: end // 2, 1: end // 2} and found.keys() >= set(range(end))


def settings(bootstraps: Mapping[str, list[str]], folder: Path, url: str, resume: str, address: str) -> dict[str, Any]:
    def query(name: str) -> dict[str, Any]:
        sink = address if name == sinks.UPSERTED else str(folder / "sinks" / name)
        return {
            "pipeline": f"tests.real.sinks:{name}",
            "settings": {"sink": sink, "hold": str(folder / f"{name}.hold")},
            "sources": {"orders": {"topics": [ORDERS]}},
            "clusters": list(CLUSTERS),
            "runners": ["a", "b"],
            "checkpoint": str(folder / "checkpoints" / name),
            "trigger": "500ms",
            "resume": resume,
            "sink": sinks.SINKS[name],
            **({"output": {"cluster": "active", "topic": COPIES}} if name == sinks.COPIED else {}),
        }

    east, west = CLUSTERS
    jars = ",".join(map(str, jar_paths(f"delta-{pyspark.__version__}")))
    return {
        "store": url,
        "clusters": {name: {"bootstrap": each} for name, each in bootstraps.items()},
        "routes": [{"from": east, "to": west}],
        "runners": {"a": {}, "b": {}},
        "spark": {"master": "local[16]", "conf": {"spark.sql.shuffle.partitions": 1, **DELTA_CONF, "spark.jars": jars}},
        "queries": {name: query(name) for name in sinks.SINKS},
    }
