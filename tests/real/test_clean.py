"""A checkpoint that was left is cleaned by a real runner, which is killed in the middle; then the query moves again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.world import CLUSTERS, TOPIC, World
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import holder
from streaming.spark.checkpoint.read import CLEANED
from tests.real.pipelines import kept_sums, sums_of
from tests.scene import Stage, one_query
from tests.streams import Cluster

pytestmark = [pytest.mark.real, pytest.mark.shared]

EAST, WEST = CLUSTERS
MANY = 40_000
"""Files of state: deleting them takes the runner long enough to be killed on the way."""


@pytest.fixture
def stage(pair: World, tmp_path: Path) -> Iterator[Stage]:
    url = f"sqlite:///{tmp_path / 'tideover.db'}"
    settings = one_query(pair, url, tmp_path, "sums", "sums_by_batch") | {
        "routes": [{"from": EAST, "to": WEST}, {"from": WEST, "to": EAST}],
        "retention": {"keep_checkpoints": 1},
    }
    store = open_store(url)
    clusters = {name: Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS}
    built = Stage(tmp_path / "tideover", store, settings, clusters, world=pair)
    try:
        built.make(TOPIC)
        yield built
    finally:
        built.close()
        store.close()


@pytest.mark.long
def test_after_a_runner_is_killed_while_it_cleans_the_next_one_continues(stage: Stage, tmp_path: Path) -> None:
    def reads(end: int) -> None:
        stage.extend(TOPIC, end)
        stage.until(f"{end} are read", lambda: kept_sums(tmp_path / "sums") == sums_of(end))

    def moves(to: str) -> None:
        stage.until("positions are stored", tracked)
        said = stage.failover("sums", to).end()
        assert said.code == 0, said.err
        assert said.operations["sums"]["plan"]["totals"]["replay_records"] == 0

    def tracked() -> bool:
        (fact,) = stage.store.query_facts()
        kept = stage.store.positions("sums")
        return any((each.epoch, each.batch) == (fact.epoch, fact.batch) and each.ring for each in kept)

    stage.run()
    reads(100)
    moves(WEST)
    reads(200)
    moves(EAST)
    reads(300)
    left = tmp_path / "checkpoint"
    heavy = left / "state" / "0" / "0" / "heavy"
    heavy.mkdir()
    for number in range(MANY):
        (heavy / str(number)).touch()

    dry = stage.type("clean", "--dry-run", "--older-than", "0s", "-o", "json").end()
    assert dry.code == 0, dry.err
    assert [(row["checkpoint"], row["fate"]) for row in json.loads(dry.out)["checkpoints"]] == [
        (stage.store.formers()[1].checkpoint, "stays"), (str(left), "goes"),
    ]  # fmt: skip
    assert not (left / CLEANED).exists()

    cleaning = stage.type("clean", "sums", "--older-than", "0s", "--yes", "-o", "json")
    stage.until("the runner is at it", lambda: (left / CLEANED).exists())
    stage.drivers["a"].kill()
    assert any(heavy.iterdir()), "it was killed in the middle"
    assert holder(LocalFiles(), str(left)) is not None
    stage.run()
    said = cleaning.end()
    assert said.code == 0, said.err
    (row,) = json.loads(said.out)["checkpoints"]
    assert (row["checkpoint"], row["fate"]) == (str(left), "cleaned")
    assert row["files"] > MANY
    assert not (left / "state").exists()
    assert holder(LocalFiles(), str(left)) is not None, "it is fenced still"
    texts = [event.text for event in stage.store.history(query="sums") if event.kind == "cleaned"]
    assert len(texts) == 1
    assert str(left) in texts[0]

    reads(400)
    moves(WEST)
    reads(500)
