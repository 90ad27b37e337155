"""Queries of many kinds move by ``resume: switch`` to a cluster that calls a topic otherwise, and back in one run.

One reads under a rate limit, in more tasks than there are partitions, with headers; one joins a topic with itself, so
that the source is in the log twice; one writes Spark's own files; two read a topic that is called otherwise there,
of which one takes topic, partition and offset for the identity of a record; and of one the topic has a partition more
there.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from lab.world import CLUSTERS
from state.store.sql.migrate import open_store
from tests.real.pipelines import kept
from tests.real.sinks import FILES, delivered
from tests.real.theatre import BATCH, LETTERS, ORDERS, PARCELS, Theatre, settings, sides_of
from tests.scene import exactly
from tests.topics import widen_topic
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]
RENAMED = "parcels-of-east"
LATE = range(10_000, 10_040)
"""Ids in the third partition of the letters, which the home cluster gets last."""
LIMIT, TASKS = 40, 6


class Kinds(Theatre):
    """``limited``, ``paired`` and ``filed`` read orders, ``renamed`` and ``placed`` parcels and ``grown`` letters."""

    late: range = range(0)

    def ids(self, query: str = "rows") -> Counter[int]:
        if query == "filed":
            return delivered(FILES, str(self.sink(query)), [], "")
        rows = [row for each in kept(self.sink(query)) for row in each["rows"]]
        return Counter(row[0] if isinstance(row, list) else row for row in rows)

    def write(self, *names: str) -> int:
        """The next ids of both topics to the clusters named, or to both; returns how many there are now."""
        end = max(each.ends[ORDERS] for each in self.clusters.values()) + BATCH
        for name in names or CLUSTERS:
            self.clusters[name].extend(ORDERS, end)
            self.clusters[name].extend(self.parcels(name), end)
            self.clusters[name].extend(LETTERS, end)
        return end

    def read_by(self, query: str) -> str:
        """The topic of a query, as it is called where the query is."""
        if query in ("renamed", "placed"):
            return self.parcels(self.sides(query)[0])
        return LETTERS if query == "grown" else ORDERS

    @staticmethod
    def parcels(cluster: str) -> str:
        return PARCELS if cluster == CLUSTERS[0] else RENAMED

    def await_read(self, end: int) -> None:
        """Each query has each id up to this one, once."""
        for query in self.settings["queries"]:
            wanted = exactly([*range(end), *(self.late if query == "grown" else ())])
            self.until(f"{query} has {end}", partial(self._has, query, wanted))
            assert self.ids(query) == wanted, query
        for query in self.settings["queries"]:  # what a cluster that dies now cannot be read for any more
            self.until(f"all that {query} has read is tracked", partial(self.is_tracked, query, self.read_by(query)))
        self.until("operations are closed", lambda: not self.store.operations(only_open=True))

    def _has(self, query: str, wanted: Counter[int]) -> bool:
        return self.ids(query).keys() >= wanted.keys()

    def widen(self, cluster: str) -> None:
        """A third partition of the letters, with records of its own."""
        there = self.clusters[cluster]
        widen_topic({"bootstrap.servers": there.bootstrap}, LETTERS, 3)
        there.append(LETTERS, 2, LATE)
        self.late = LATE

    def switch(self, verb: str, there: str, *more: str) -> dict[str, Any]:
        """All queries; their plans."""
        plans = {query: operation["plan"] for query, operation in self.move(verb, there, *more).items()}
        assert plans.keys() == self.settings["queries"].keys()
        assert {plan["resume"] for plan in plans.values()} == {"switch"}
        return plans


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    folder = tmp_path_factory.mktemp("kinds")
    url = f"sqlite:///{folder / 'tideover.db'}"
    east, west = CLUSTERS
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        declared = settings(world, folder, url)
        declared["spark"]["master"] = "local[32]"
        declared["routes"] = [
            {"from": east, "to": west, "topics": {ORDERS: ORDERS, LETTERS: LETTERS, PARCELS: RENAMED}},
            {"from": west, "to": east, "topics": {ORDERS: ORDERS, LETTERS: LETTERS, RENAMED: PARCELS}},
        ]
        like = declared["queries"]["rows"]
        options = {"maxOffsetsPerTrigger": LIMIT, "minPartitions": TASKS, "includeHeaders": True}
        declared["queries"] = {
            name: {
                **like,
                "pipeline": f"tests.real.pipelines:{pipeline}",
                "settings": {"sink": str(folder / "sinks" / name)},
                "sources": {"orders": {"topics": [topic], "options": more}},
                "checkpoint": str(folder / "checkpoints" / name),
            }
            for name, pipeline, topic, more in (
                ("limited", "rows_by_batch", ORDERS, options),
                ("paired", "paired_ids", ORDERS, {}),
                ("filed", "files", ORDERS, {}),
                ("renamed", "rows_by_batch", PARCELS, {}),
                ("placed", "ids_by_place", PARCELS, {}),
                ("grown", "rows_by_batch", LETTERS, {}),
            )
        }
        declared["queries"]["placed"]["home_offsets"] = True
        declared["queries"]["renamed"]["policy"] = {"catch_up_batch": LIMIT}
        with closing(Kinds(folder, store, declared, sides_of(world), world=world)) as stage:
            stage.make(ORDERS, LETTERS)
            stage.clusters[east].make(PARCELS, foreign=False)
            stage.clusters[west].make(RENAMED, foreign=True)
            end = stage.write()
            stage.run("a")
            stage.await_read(end)
            yield stage


def test_queries_of_many_kinds_leave_a_dead_cluster_and_come_back_in_one_run(stage: Kinds) -> None:
    east, west = CLUSTERS
    checkpoints = {row.query: row.checkpoint for row in stage.store.assignments()}
    stage.kill(east)
    stage.widen(west)
    plans = stage.switch("failover", west)
    assert plans["renamed"]["starting_offsets"].keys() == {RENAMED}
    assert plans["grown"]["starting_offsets"][LETTERS]["2"] == 0
    end = stage.write(west)
    stage.await_read(end)
    stage.start(east)
    stage.clusters[east].extend(ORDERS, end)
    stage.clusters[east].extend(PARCELS, end)
    stage.clusters[east].extend(LETTERS, end)
    stage.widen(east)
    runs = stage.run_ids()
    stage.switch("switchover", east, "--consent", "replication")
    end = stage.write()
    stage.await_read(end)
    assert stage.run_ids() == runs, "a run was started"
    assert {row.query: row.checkpoint for row in stage.store.assignments()} == checkpoints
    limited = [len(each["rows"]) for each in kept(stage.sink("limited")) if each["rows"]]
    assert max(limited) <= LIMIT, "the rate limit holds on either cluster"
    behind = [len(each["rows"]) for each in kept(stage.sink("renamed")) if each["rows"] and min(each["rows"]) < BATCH]
    assert len(behind) > 1
    assert max(behind) <= LIMIT, "what came before its first start is read in small batches"
    assert_places_are_of_one_log(kept(stage.sink("placed")))
    logs = sorted((stage.folder / "checkpoints" / "paired" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    newest = logs[-1].read_text(encoding="utf-8").splitlines()[2:]
    assert ["@east" in line for line in newest] == [True, True], "the source stands in the log twice"


def assert_places_are_of_one_log(batches: list[dict[str, Any]]) -> None:
    """Over all moves: no offset comes twice, and in each partition a later record has a higher one."""
    rows = sorted(row for each in batches for row in each["rows"])
    for partition in {row[1] for row in rows}:
        offsets = [offset for _, own, offset in rows if own == partition]
        assert offsets == sorted(set(offsets)), partition
        assert offsets == list(range(len(offsets))), "they are those of the home cluster"
