"""A cluster freezes while tasks read: they read on with the next record of the other one, in the same run and batch."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.world import CLUSTERS
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.read import batch_ids
from tests.real.pipelines import HOLD
from tests.real.theatre import COPIES, ORDERS, Theatre, read_ids, settings, sides_of
from tests.scene import exactly
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]
EAST, WEST = CLUSTERS
FETCHED, COUNT = 50, 3000
"""Records of a partition that a consumer fetches at once, and how many there are in all."""
TRIES = 3


class InBatch(Theatre):
    """``rows`` and ``sums`` read orders slowly, and ``copied`` writes them to a topic of the west."""

    def copies(self) -> Counter[int]:
        return Counter(read_ids(self.clusters[WEST].bootstrap, COPIES))

    def begun(self) -> int:
        """How many records were sent to the topic of copies, requested quickly."""
        watching = Consumer({"bootstrap.servers": self.clusters[WEST].bootstrap, "group.id": "watch", "log_level": 0})
        try:
            return sum(watching.get_watermark_offsets(TopicPartition(COPIES, number))[1] for number in range(2))
        finally:
            watching.close()

    def await_read(self, end: int) -> None:
        """All three have each order, once."""
        self.await_all(ORDERS)
        self.until("all is copied", lambda: self.copies().keys() >= set(range(end)))
        self.assert_all_once()
        assert self.copies() == exactly(range(end))

    def freeze_in_batch(self, *, in_transactions: bool = False, lacking: int = 0) -> int:
        """Freeze the east when each query is in the middle of a batch, and the store knows where its batch and the
        topic end; how many orders there are now, of which the standby lacks some.

        On a busy machine the quickest batch may end before the slowest one is long: then all begin again.
        """
        for _ in range(TRIES):
            end = self.begin_batches(in_transactions=in_transactions, lacking=lacking)
            self.freeze(EAST)
            if all(map(self.is_in_long_batch, self.settings["queries"])):
                break
            self.thaw(EAST)
            self.extend(ORDERS, end, WEST)
            self.await_read(end)
        else:
            raise AssertionError("each time a batch ended before the cluster froze")
        self.until("all are silent", lambda: all(each.silent_since is not None for each in self.store.query_facts()))
        assert self.copies().total() < end, "nothing was left to read"
        return end

    def begin_batches(self, *, in_transactions: bool, lacking: int) -> int:
        """Write orders, and wait until each query is in a long batch of them; how many there are now.

        Those that a sink can hold take all of them in one batch, which begins once the slowest query is in its own.
        """
        held = self.hold_batches("rows", "sums")
        end = self.clusters[EAST].ends[ORDERS] + COUNT
        self.clusters[WEST].extend(ORDERS, end - lacking)
        if in_transactions:
            self.clusters[EAST].extend_in_transactions(ORDERS, end, each=2 * FETCHED)
        else:
            self.clusters[EAST].extend(ORDERS, end)
        self.until("the ends of the topic are sampled", lambda: self.sampled() >= end)
        self.until("copied is in a long batch", partial(self.is_in_long_batch_or_behind, "copied", end))
        for query in held:
            self.sink(query).joinpath(HOLD).unlink()
        for query in held:
            self.until(f"{query} is in a long batch", partial(self.is_in_long_batch_or_behind, query, end))
        begun = min(self.begun() + FETCHED, end - 1)
        self.until("some more are copied", lambda: self.begun() > begun)
        return end

    def sampled(self) -> int:
        return sum(each.end for each in self.store.ends(EAST, topics=frozenset({ORDERS})).values())

    def is_in_long_batch(self, query: str) -> bool:
        planned = self.newest("offsets", query)
        ends = [sum(each.offset for each in self.store.positions(query, batch=planned - back)) for back in (1, 0)]
        return planned > self.newest("commits", query) and 0 < ends[0] < ends[1] - COUNT // 3

    def is_in_long_batch_or_behind(self, query: str, end: int) -> bool:
        """Whether it is, or has ended it and read all."""
        committed = self.newest("commits", query)
        return (
            self.is_in_long_batch(query)
            or sum(each.offset for each in self.store.positions(query, batch=committed)) >= end
        )

    def newest(self, log: str, query: str) -> int:
        """The newest batch of one of the checkpoint's logs."""
        return max(batch_ids(LocalFiles(), str(self.folder / "checkpoints" / query), log))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[InBatch]:
    folder = tmp_path
    url = f"sqlite:///{folder / 'tideover.db'}"
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        declared = settings(world, folder, url)
        del declared["queries"]["boxed"]
        declared["policy"] = {"max_exposure": "1s"}
        few: dict[str, Any] = {"kafka.max.partition.fetch.bytes": 1, "kafka.max.poll.records": FETCHED}
        for name, pipeline, more in (
            ("rows", "slow_rows_by_batch", {"minPartitions": 4}),
            ("sums", "slow_sums_by_batch", {}),
            ("copied", "slow_copies", {}),
        ):
            declared["queries"][name] |= {
                "pipeline": f"tests.real.pipelines:{pipeline}",
                "sources": {"orders": {"topics": [ORDERS], "options": {**few, **more}}},
                "resume": "switch",
            }
        declared["queries"]["copied"]["output"]["cluster"] = WEST
        sides = {name: replace(each, batch=FETCHED) for name, each in sides_of(world).items()}
        with closing(InBatch(folder, store, declared, sides, world=world)) as stage:
            stage.make(ORDERS, COPIES)
            stage.more(ORDERS)
            stage.run("a")
            stage.await_read(stage.more(ORDERS))
            yield stage


def test_waiting_tasks_continue_with_the_next_record_of_the_other_cluster(stage: InBatch) -> None:
    runs = stage.run_ids()
    end = stage.freeze_in_batch()
    done = stage.move("failover", WEST)
    for operation in done.values():
        assert "held here in the middle of a batch" in stage.fence_text(operation["id"])
        totals = operation["plan"]["totals"]
        assert totals["replay_records"] == totals["possible_replay_records"] == 0
    stage.await_read(end)
    assert stage.run_ids() == runs, "a run was started"
    stage.thaw(EAST)
    stage.await_read(stage.more(ORDERS))


def test_a_batch_that_has_other_offsets_there_is_read_again_under_its_id(stage: InBatch) -> None:
    """At home transactions ended among its records, whose markers take offsets."""
    runs = stage.run_ids()
    stage.freeze_in_batch(in_transactions=True)
    done = stage.move("failover", WEST, "--consent", "loss")  # markers look like records that the standby lacks
    for query, operation in done.items():
        assert "held here in the middle of a batch" in stage.fence_text(operation["id"])
        assert operation["plan"]["uncommitted_batch"] == "replan"
        assert (operation["plan"]["totals"]["possible_replay_records"] > 0) is (query == "copied"), query
    stage.await_all(ORDERS)
    stage.assert_all_once()
    assert all(run != runs[query] for query, run in stage.run_ids().items()), "a run went on"


def test_a_batch_whose_move_is_refused_continues_where_it_was(stage: InBatch) -> None:
    runs = stage.run_ids()
    end = stage.freeze_in_batch(lacking=COUNT)
    said = stage.type("failover", "--all", "--to", WEST, "--yes", "-o", "json").end()
    assert said.code == 1, said.err
    for query in runs:
        operation = stage.operations(query)[0]
        assert "held here in the middle of a batch" in stage.fence_text(operation.id)
        assert operation.sentence.startswith("exposure")
    stage.thaw(EAST)
    stage.extend(ORDERS, end)
    stage.await_read(end)
    assert stage.run_ids() == runs, "a run was started"
    assert {row.cluster for row in stage.store.assignments()} == {EAST}
