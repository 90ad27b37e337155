"""``resume: switch`` on real brokers: the same checkpoint, the same query id and batch ids, and each record once."""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import all_moves
from streaming.spark.checkpoint.read import newest_commit
from tests.real.pipelines import HOLD, kept
from tests.real.theatre import BATCH, ORDERS, Theatre, settings, sides_of
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]
QUERIES = ("rows", "sums")


class Switched(Theatre):
    """``rows`` and ``sums`` read orders by the companion's source."""

    def checkpoint(self, query: str) -> Path:
        return self.folder / "checkpoints" / query

    def query_id(self, query: str) -> str:
        return self.checkpoint(query).joinpath("metadata").read_text(encoding="utf-8")

    def marks(self, query: str) -> dict[str, Any]:
        """By what the newest entry of the offset log says which cluster it is of; empty at home."""
        newest = newest_commit(LocalFiles(), str(self.checkpoint(query)))
        text = self.checkpoint(query).joinpath("offsets", str(newest)).read_text(encoding="utf-8")
        return {name: mark for name, mark in json.loads(text.splitlines()[-1]).items() if name.startswith("@")}

    def has_batch(self, query: str, batch: int) -> bool:
        """Whether the sink has it."""
        return bool(kept(self.sink(query))[-1]["batch"] >= batch)

    def move(self, verb: str, there: str) -> dict[str, Any]:
        """Both queries; how their operations went."""
        said = self.type(verb, "--all", "--to", there, "--yes", "-o", "json").end()
        assert said.code == 0, said.err + said.out
        return said.operations

    def assert_same(self, before: dict[str, str]) -> None:
        """Nothing was copied: each query has its checkpoint and its id, and both sinks have each record once."""
        self.assert_all_once()
        for query in QUERIES:
            row = self.store.assignment(query)
            assert row is not None
            assert Path(row.checkpoint) == self.checkpoint(query)
            assert self.query_id(query) == before[query]
            assert [each.name for each in self.checkpoint(query).iterdir() if each.name.startswith("epoch-")] == []


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    folder = tmp_path_factory.mktemp("switch")
    url = f"sqlite:///{folder / 'tideover.db'}"
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        wanted = settings(world, folder, url)
        wanted["queries"] = {name: {**wanted["queries"][name], "resume": "switch"} for name in QUERIES}
        with closing(Switched(folder, store, wanted, sides_of(world), world=world)) as stage:
            stage.make(ORDERS)
            stage.extend(ORDERS, BATCH)
            stage.run("a")
            stage.await_all(ORDERS)
            assert stage.marks("sums") == {}, "at home the log is what Spark's own source writes"
            yield stage


def test_a_move_and_the_way_back_keep_checkpoint_and_query_id(stage: Switched) -> None:
    ids = {query: stage.query_id(query) for query in QUERIES}
    here, there = stage.gathered()
    stage.kill(here)
    done = stage.move("failover", there)
    assert {each["plan"]["resume"] for each in done.values()} == {"switch"}
    stage.more(ORDERS, there)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    assert stage.marks("sums") == {f"@{there}": {"epoch": done["sums"]["plan"]["epoch"]}}
    stage.start(here)
    stage.extend(ORDERS, max(each.ends[ORDERS] for each in stage.clusters.values()))
    done = stage.move("failover", here)
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    assert stage.marks("sums") == {f"@{here}": {"epoch": done["sums"]["plan"]["epoch"]}}
    assert [move.to for move in all_moves(LocalFiles(), str(stage.checkpoint("sums")))][-2:] == [there, here]


def test_a_batch_in_flight_runs_again_under_its_id_on_the_standby(stage: Switched) -> None:
    """Its driver is killed when the sink has it and Spark does not; its cluster dies, and another runner goes on."""
    ids = {query: stage.query_id(query) for query in QUERIES}
    here, there = stage.gathered()
    lost = stage.host
    spare = stage.stand_by()
    for query in QUERIES:
        stage.sink(query).joinpath(HOLD).touch()
    before = {query: kept(stage.sink(query))[-1]["batch"] for query in QUERIES}
    stage.more(ORDERS)
    for query in QUERIES:
        stage.until(f"{query} has a batch", partial(stage.has_batch, query, before[query] + 1))
    lost.kill()
    flying = {query: kept(stage.sink(query))[-1] for query in QUERIES}
    for query in QUERIES:
        stage.sink(query).joinpath(HOLD).unlink()
    stage.kill(here)
    done = stage.move("failover", there)
    assert {each["plan"]["uncommitted_batch"] for each in done.values()} == {"replan"}
    stage.more(ORDERS, there)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    for query in QUERIES:
        again = next(each for each in kept(stage.sink(query)) if each["batch"] == flying[query]["batch"])
        assert again["rows"] == flying[query]["rows"]
        assert again["epoch"] > flying[query]["epoch"], "it did not run again"
    assert stage.host is spare
    stage.start(here)
    stage.extend(ORDERS, max(each.ends[ORDERS] for each in stage.clusters.values()))
