"""``resume: switch`` on real brokers: the same checkpoint, the same query id and batch ids, and each record once."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from state.model.entities import QueryFact
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import all_moves
from streaming.spark.checkpoint.read import batch_ids, newest_commit
from tests.real.pipelines import HOLD, UNREAD, kept, sums_of
from tests.real.theatre import BATCH, ORDERS, Theatre, settings, sides_of
from tests.streams import has_rested
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]
QUERIES = ("rows", "sums")
PATIENCE = "40s"
LATE = f"{ORDERS}-late"


class Switched(Theatre):
    """``rows`` and ``sums`` read orders by the companion's source."""

    def checkpoint(self, query: str) -> Path:
        return self.folder / "checkpoints" / query

    def query_id(self, query: str) -> str:
        return self.checkpoint(query).joinpath("metadata").read_text(encoding="utf-8")

    def newest_offsets(self, query: str) -> dict[str, Any]:
        """By topic, of the newest committed entry of the offset log; it also names its cluster."""
        newest = newest_commit(LocalFiles(), str(self.checkpoint(query)))
        text = self.checkpoint(query).joinpath("offsets", str(newest)).read_text(encoding="utf-8")
        offsets: dict[str, Any] = json.loads(text.splitlines()[-1])
        return offsets

    def marks(self, query: str) -> dict[str, Any]:
        """By what the newest entry of the offset log says which cluster it is of; empty at home."""
        return {name: mark for name, mark in self.newest_offsets(query).items() if name.startswith("@")}

    def knows_batch(self, query: str, batch: int) -> bool:
        """Whether the store has its positions: without them its records are not known to be the same elsewhere."""
        return bool(self.store.positions(query, batch=batch))

    def fact(self, query: str) -> QueryFact:
        return next(fact for fact in self.store.query_facts() if fact.query == query)

    def run_id(self, query: str) -> str | None:
        return self.fact(query).run_id

    def query_ids(self) -> dict[str, str]:
        return {query: self.query_id(query) for query in QUERIES}

    def epochs_in_sink(self, query: str) -> int:
        """The epoch under which the sink was called last."""
        return int(kept(self.sink(query))[-1]["epoch"])

    def error(self, query: str) -> str | None:
        return self.fact(query).error

    def states(self) -> dict[str, str]:
        """As ``list`` shows them."""
        said = self.type("list", "-o", "json").end()
        assert said.code == 0, said.err
        return {row["query"]: row["state"] for row in json.loads(said.out)}

    def plan_batches(self, *queries: str) -> None:
        """One of each that is planned and that nothing was read for; taking ``UNREAD`` away lets it."""
        self.await_all(ORDERS)
        for query in queries:
            self.until(f"{query} has committed what it has planned", partial(self.has_rested, query))
            self.sink(query).joinpath(UNREAD).touch()
        before = {query: self.offsets(query)[-1] for query in queries}
        self.more(ORDERS)
        for query in queries:
            self.until(f"{query} has planned a batch", partial(self.has_planned, query, before[query] + 1))

    def has_planned(self, query: str, batch: int) -> bool:
        return self.offsets(query)[-1] == batch

    def offsets(self, query: str) -> list[int]:
        """The batches that are planned, oldest first."""
        return batch_ids(LocalFiles(), str(self.checkpoint(query)), "offsets")

    def has_rested(self, query: str) -> bool:
        return has_rested(self.checkpoint(query))

    def has_reported(self, query: str) -> bool:
        """Whether the newest commit is in the store, and with it when there was progress."""
        return self.fact(query).batch == newest_commit(LocalFiles(), str(self.checkpoint(query)))

    def are_silent(self) -> bool:
        """As the store knows it, where a verb would take a part of their patience."""
        return all(self.fact(query).silent_since is not None for query in QUERIES)

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
        wanted["queries"]["rows"]["resume"] = "auto"
        wanted["queries"]["sums"]["sources"] = {"orders": {"pattern": f"{ORDERS}.*"}}
        wanted["queries"]["sums"]["policy"] = {"outage_patience": PATIENCE}
        with closing(Switched(folder, store, wanted, sides_of(world), world=world)) as stage:
            stage.make(ORDERS)
            stage.extend(ORDERS, BATCH)
            stage.run("a")
            stage.await_all(ORDERS)
            stage.until("sums has committed what it has planned", partial(stage.has_rested, "sums"))
            assert stage.marks("sums") == {}, "at home the log is what Spark's own source writes"
            yield stage


def test_a_move_and_the_way_back_keep_checkpoint_and_query_id(stage: Switched) -> None:
    ids = stage.query_ids()
    here, there = stage.gathered()
    stage.kill(here)
    done = stage.move("failover", there)
    assert {each["plan"]["resume"] for each in done.values()} == {"switch"}
    stage.more(ORDERS, there)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    mark = {f"@{there}": {"epoch": done["sums"]["plan"]["epoch"]}}
    stage.until("its log says of which cluster it is", lambda: stage.marks("sums") == mark)
    stage.start(here)
    stage.extend(ORDERS, max(each.ends[ORDERS] for each in stage.clusters.values()))
    done = stage.move("failover", here)
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    back = {f"@{here}": {"epoch": done["sums"]["plan"]["epoch"]}}
    stage.until("its log says that it is back", lambda: stage.marks("sums") == back)
    assert [move.to for move in all_moves(LocalFiles(), str(stage.checkpoint("sums")))][-2:] == [there, here]


def test_a_planned_move_and_its_way_back_are_made_in_one_run(stage: Switched) -> None:
    """Held between two batches, sent elsewhere, held again and sent home: no start, no copy, each record once."""
    ids, runs = stage.query_ids(), stage.run_ids()
    here, there = stage.gathered()
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    done = stage.move("switchover", there, "--consent", "replication")
    assert stage.run_ids() == runs, "a run was started"
    for query in QUERIES:
        assert "held here between two batches" in stage.fence_text(done[query]["id"])
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    mark = {f"@{there}": {"epoch": done["sums"]["plan"]["epoch"]}}
    stage.until("its log says of which cluster it is", lambda: stage.marks("sums") == mark)
    assert stage.epochs_in_sink("rows") == done["rows"]["plan"]["epoch"], "the user's code asks for the epoch"
    stage.move("switchover", here, "--consent", "replication")
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    assert stage.run_ids() == runs, "a run was started"
    for query in QUERIES:
        assert stage.error(query) is None


def test_a_topic_that_matches_on_the_standby_alone_is_read_there(stage: Switched) -> None:
    """``sums`` subscribes by a pattern; the topic is empty, so that nothing but its log shows it."""
    here, there = stage.gathered()
    stage.clusters[there].make(LATE, foreign=False)
    done = stage.move("switchover", there, "--consent", "replication")
    assert done["sums"]["plan"]["starting_offsets"][LATE] == {"0": 0, "1": 0}
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.until("its log has the topic", lambda: LATE in stage.newest_offsets("sums"))
    stage.clusters[here].make(LATE, foreign=False)
    stage.move("switchover", here, "--consent", "replication")
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_all_once()
    assert LATE in stage.newest_offsets("sums")


def test_a_query_that_waits_for_a_frozen_cluster_leaves_it_in_its_run(stage: Switched) -> None:
    ids, runs = stage.query_ids(), stage.run_ids()
    here, there = stage.gathered()
    for query in QUERIES:
        stage.until(f"{query} has committed what it has planned", partial(stage.has_rested, query))
    stage.freeze(here)
    stage.until("both are silent", lambda: set(stage.states().values()) == {"silent"})
    stage.move("failover", there)
    stage.more(ORDERS, there)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    assert stage.run_ids() == runs, "a run was started"
    stage.thaw(here)
    stage.extend(ORDERS, max(each.ends[ORDERS] for each in stage.clusters.values()))


def test_a_running_query_outlives_a_frozen_cluster_for_as_long_as_it_may(stage: Switched) -> None:
    """A task of ``rows`` waits in the middle of its batch, ``sums`` for its next one, and its patience ends first."""
    here, _ = stage.gathered()
    before, said = stage.run_ids(), "policy.outage_patience is 40 s"
    stage.plan_batches("rows")
    end = max(each.ends[ORDERS] for each in stage.clusters.values())
    stage.until("sums has read all", lambda: stage.sums() == sums_of(end))
    stage.until("sums has committed what it has planned", partial(stage.has_rested, "sums"))
    stage.until("and has reported it", partial(stage.has_reported, "sums"))
    stage.freeze(here)
    frozen_at = stage.store.now()
    stage.sink("rows").joinpath(UNREAD).unlink()
    stage.until("both are silent", lambda: set(stage.states().values()) == {"silent"})
    for fact in stage.store.query_facts():
        assert fact.progressed_at is not None
        assert fact.progressed_at < frozen_at + timedelta(seconds=1), f"{fact.query} takes silence for progress"
    for seen in stage.store.probe_reports():
        if seen.cluster == here:
            assert seen.last_ok_at is not None
            assert seen.last_ok_at < frozen_at + timedelta(seconds=1), f"{seen.viewpoint} takes it for a sign of life"
    stage.until("sums has lost patience", lambda: said in str(stage.error("sums")))
    assert stage.run_id("rows") == before["rows"]
    stage.thaw(here)
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_all_once()
    assert stage.run_id("rows") == before["rows"], "the run did not go on"
    stage.until("it runs again", lambda: stage.states()["rows"] == "running")


def test_a_running_query_outlives_a_restart_of_its_cluster(stage: Switched) -> None:
    here, _ = stage.gathered()
    before = stage.run_ids()
    stage.plan_batches(*QUERIES)
    stage.kill(here)
    for query in QUERIES:
        stage.sink(query).joinpath(UNREAD).unlink()
    stage.until("both are silent", stage.are_silent)
    stage.start(here)
    stage.extend(ORDERS, max(each.ends[ORDERS] for each in stage.clusters.values()))
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_all_once()
    assert stage.run_ids() == before, "the runs did not go on"


def test_a_batch_in_flight_runs_again_under_its_id_on_the_standby(stage: Switched) -> None:
    """Its driver is killed when sink and store have it and Spark does not; its cluster dies, another runner follows."""
    ids = stage.query_ids()
    here, there = stage.gathered()
    lost = stage.host
    spare = stage.stand_by()
    for query, batch in stage.hold_batches(*QUERIES).items():
        stage.until(f"the store knows where {query} is", partial(stage.knows_batch, query, batch))
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
