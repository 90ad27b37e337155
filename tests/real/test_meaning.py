"""A query whose logic uses offsets, on real brokers and real Spark: refused by name, and wrong where a person insists.

The source has more records in front than the standby, so offsets there are lower, and records that were never seen have
offsets that the state knows already.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.world import CLUSTERS
from state.store.sql.migrate import open_store
from tests.real.pipelines import kept_ids
from tests.scene import Stage
from tests.streams import Cluster
from tests.world import running_clusters

pytestmark = pytest.mark.real

ORDERS = "orders"
IN_FRONT = 40
"""Records of another program in each partition of the source."""
NAMES = ("once", "rows", "hidden")
READ, NEW = 100, 100
"""Ids before the move, and after it; each in two partitions by turns."""


def query(folder: Path, name: str, pipeline: str) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "settings": {"sink": str(folder / "sinks" / name)},
        "sources": {"orders": {"topics": [ORDERS]}},
        "clusters": list(CLUSTERS),
        "runners": ["a"],
        "checkpoint": str(folder / "checkpoints" / name),
        "trigger": "200ms",
        "sink": "batch-id",
    }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("meaning")
    url = f"sqlite:///{folder / 'tideover.db'}"
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        settings = {
            "store": url,
            "clusters": {name: {"bootstrap": world.bootstrap(name)} for name in CLUSTERS},
            "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
            "runners": {"a": {}},
            "spark": {"master": "local[6]", "conf": {"spark.sql.shuffle.partitions": 1}},
            "queries": {
                "once": query(folder, "once", "tests.real.pipelines:rows_once"),
                "rows": query(folder, "rows", "tests.real.pipelines:rows_by_batch"),
                "hidden": query(folder, "hidden", "tests.real.pipelines:rows_once_in_a_batch"),
            },
        }
        clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        built = Stage(folder, store, settings, clusters, world=world)
        built.make(ORDERS)
        for partition in (0, 1):
            clusters["east"].append(ORDERS, partition, [-1] * IN_FRONT)
        built.extend(ORDERS, READ)
        with closing(built):
            built.run("a")
            built.until("all is read", lambda: {len(counted(built, name)) for name in NAMES} == {READ})
            built.until("all is tracked", lambda: all(is_tracked(built, name) for name in NAMES))
            built.until("the uses of all are reported", lambda: all(is_reported(built, name) for name in NAMES))
            yield built


def counted(stage: Stage, name: str) -> set[int]:
    """The ids that a sink has, without those of another program."""
    return {number for number in kept_ids(stage.folder / "sinks" / name) if number >= 0}


def is_tracked(stage: Stage, name: str) -> bool:
    rows = stage.store.positions(name)
    return sum(row.offset for row in rows if row.batch == max(each.batch for each in rows)) == READ + 2 * IN_FRONT


def is_reported(stage: Stage, name: str) -> bool:
    """Whether the runner has said which columns the plan uses: a report of its own, behind the first batch."""
    return any(fact.columns is not None for fact in stage.store.query_facts(query=name))


def gate(stage: Stage, name: str, kind: str = "offset-in-logic") -> dict[str, Any]:
    """A gate of ``check``."""
    (row,) = json.loads(stage.type("check", name, "-o", "json").end().out)
    found: dict[str, Any] = next(each for each in row["gates"] if each["name"] == kind)
    return found


def known_offsets(stage: Stage) -> int:
    """Of the records that west will get after the move, how many have offsets that were read on east."""
    plan = json.loads(stage.type("plan", "failover", "once", "--to", "west", "-o", "json").end().out)
    return sum(max(0, place["offset"] - place["target_offset"]) for place in plan["partitions"])


def test_a_use_is_reported_and_the_query_beside_it_is_not_refused(stage: Stage) -> None:
    shown = json.loads(stage.type("show", "once", "-o", "json").end().out)
    assert [use for use in shown["report"]["columns"] if use["column"] == "offset"] == [
        {"source": "orders", "column": "offset", "operator": "dropDuplicates", "logic": True, "delay_ms": None}
    ]
    assert "columns     dropDuplicates: offset, partition" in stage.type("show", "once").end().out
    assert json.loads(stage.type("show", "rows", "-o", "json").end().out)["report"]["columns"] == []
    assert gate(stage, "rows")["measured"] == "not used"


def test_a_function_for_each_batch_may_use_offsets_and_is_unknown(stage: Stage) -> None:
    """Its code removes duplicates by offset, and the plan ends before it."""
    sentence = "offset, partition reaches foreachBatch: what foreachBatch does with it is unknown; "
    assert "columns     foreachBatch: offset, partition" in stage.type("show", "hidden").end().out
    checked = gate(stage, "hidden")
    assert (checked["ok"], checked["measured"]) == (False, "unknown"), "check and automatic mode are not content"
    assert checked["text"].startswith(sentence)
    plan = json.loads(stage.type("plan", "failover", "hidden", "--to", "west", "-o", "json").end().out)
    (shown,) = (each for each in plan["gates"] if each["name"] == "offset-in-logic")
    assert (shown["ok"], shown["measured"], plan["refused"]) == (True, "unknown", False), "a person may accept it"
    assert shown["text"].startswith(sentence)


def test_new_records_that_would_be_dropped_are_counted_before_the_move(stage: Stage) -> None:
    expected = known_offsets(stage)
    assert 0 < expected < NEW
    sentence = (
        "dropDuplicates uses offset, partition: offsets of west differ, so up to "
        f"{expected} records that were not seen before could be dropped as duplicates; "
    )
    checked = gate(stage, "once")
    assert (checked["ok"], checked["measured"]) == (False, "dropDuplicates: offset")
    assert checked["text"].startswith(sentence)
    assert "--consent columns accepts it" in checked["text"]
    stage.kill("east")
    refused = stage.failover("once", "west").end()
    assert refused.code == 1
    assert "offset-in-logic" in refused.out + refused.err
    assert stage.sides("once")[0] == "east"
    moved = stage.failover("once", "west", "--consent", "columns").end()
    assert moved.code == 0, moved.err
    assert stage.failover("rows", "west").end().code == 0
    stage.extend(ORDERS, READ + NEW, "west")
    stage.until("the other query has all", lambda: len(counted(stage, "rows")) == READ + NEW)
    stage.until("this one lacks as many", lambda: len(counted(stage, "once")) == READ + NEW - expected)
