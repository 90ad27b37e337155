"""The replicator comes back after a failover and appends what was read already: announced, read again, counted."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import ledger, topics
from lab.world import CLUSTERS, REPLICATOR, TOPIC, World
from state.store.sql.migrate import open_store
from tests.real.pipelines import kept_ids
from tests.scene import Stage, one_query
from tests.streams import Cluster
from tests.topics import read_whole
from tests.world import RunningWorld, running_world

pytestmark = pytest.mark.real

EAST, WEST = CLUSTERS
PARTITIONS = 4
LATE = 200
"""Records that the standby lacks at the move; fewer than the records remembered per partition."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RunningWorld]:
    with running_world(tmp_path, partitions=PARTITIONS) as world:
        yield world


@pytest.fixture
def stage(lab: RunningWorld, tmp_path: Path) -> Iterator[Stage]:
    world = World.load(lab.directory)
    folder = tmp_path / "tideover"
    url = f"sqlite:///{tmp_path / 'tideover.db'}"
    settings = one_query(world, url, tmp_path, "rows", "rows_by_batch")
    settings |= {"policy": {"max_exposure": "1h"}}  # how old the standby is goes by how slow the machine is
    store = open_store(url)
    clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
    built = Stage(folder, store, settings, clusters, world=world)
    try:
        yield built
    finally:
        built.close()
        store.close()


def test_records_of_a_returning_replicator_are_forecast_and_counted(
    stage: Stage, lab: RunningWorld, tmp_path: Path
) -> None:
    def ids() -> Counter[int]:
        return Counter({number: count for number, count in kept_ids(tmp_path / "rows").items() if number >= 0})

    def sent() -> set[int]:
        every = (each for name in CLUSTERS for each in ledger.read(stage.world.acked, TOPIC, name))
        return {each.id for each in every if each.acknowledged}

    def measured() -> Any:
        said = stage.type("show-op", operation, "-o", "json").end()
        return json.loads(said.out)["measured"]

    def beside_forecast(what: str) -> list[tuple[int, int | None]]:
        """What was forecast of each partition, and what was measured."""
        return [(row[f"forecast_{what}"], row[what]) for row in measured()["partitions"]]

    stage.run()
    lab.traffic(rate=400, seconds=2)
    early = sent()
    stage.until("all is read", lambda: ids().keys() >= early)
    stage.until("all is replicated", lambda: on_standby(stage) >= len(early))
    stage.until("the replicator has written down how far it read", lambda: is_written_down(stage))
    stage.freeze(REPLICATOR)
    lab.traffic(rate=LATE, seconds=1)
    late = sent() - early
    assert len(late) == LATE
    stage.until("what the standby lacks is read", lambda: ids().keys() >= late)
    stage.until("and remembered", lambda: remembered(stage))
    stage.kill(EAST)

    said = stage.failover("rows", WEST).end()
    assert said.code == 0, said.err
    shown = said.operations["rows"]
    operation = shown["id"]
    assert shown["plan"]["totals"]["replay_later_records"] == LATE
    assert shown["plan"]["totals"]["replay_records"] == 0
    lab.traffic(rate=300, seconds=1, to=WEST)
    new = sent() - early - late
    stage.until("the standby is read", lambda: ids().keys() >= new)
    assert max(ids().values()) == 1, "nothing has come a second time yet"
    assert measured()["replay_later_records"] == 0
    stage.until("what is read again is measured", lambda: None not in (n for _, n in beside_forecast("replay_records")))
    assert beside_forecast("replay_records") == [(0, 0)] * PARTITIONS
    assert {number for _, number in beside_forecast("exposure_records")} == {None}, "the old cluster cannot be asked"

    stage.start(EAST)
    stage.thaw(REPLICATOR)
    stage.until("what was announced has come", lambda: all(ids()[number] == 2 for number in late))
    assert ids() == Counter(dict.fromkeys(early | new, 1)) + Counter(dict.fromkeys(late, 2))
    stage.until("it is counted", lambda: measured()["replay_later_records"] == LATE)
    exposed = beside_forecast("exposure_records")
    assert sum(number or 0 for _, number in exposed) == LATE
    assert all(forecast == number for forecast, number in exposed), exposed
    assert beside_forecast("replay_records") == [(0, 0)] * PARTITIONS, "what came later is no part of it"


def on_standby(stage: Stage) -> int:
    """Records of ours on the standby; foreign ones and the probe of each partition came first."""
    foreign = sum(37 + 13 * partition + 1 for partition in range(PARTITIONS))
    return sum(topics.ends(stage.world.bootstrap(WEST), TOPIC).values()) - foreign


def is_written_down(stage: Stage) -> bool:
    """Whether the replicator has noted that it read everything: later it shall send nothing again on its own."""
    noted: dict[int, int] = {}
    for _, _, key, value in read_whole(stage.clusters[WEST].bootstrap, f"mm2-offsets.{EAST}.internal"):
        source = json.loads(key or b"null")[1]
        if source.get("topic") == TOPIC:
            noted[source["partition"]] = json.loads(value)["offset"]
    ends = topics.ends(stage.world.bootstrap(EAST), TOPIC)
    return noted == {number: end - 1 for number, end in ends.items()}


def remembered(stage: Stage) -> bool:
    """Whether the newest positions hold the records that will come later."""
    ends = topics.ends(stage.world.bootstrap(EAST), TOPIC)
    newest = {each.partition: each for each in stage.store.positions("rows")}
    return newest.keys() == ends.keys() and all(
        newest[number].ring and newest[number].offset == end for number, end in ends.items()
    )
