"""Copies sent again behind the place, on real brokers: a query with state is refused, or they are as forecast."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import topics
from lab.world import CLUSTERS, World
from state.store.sql.migrate import open_store
from tests.real.pipelines import kept_ids, kept_sums
from tests.scene import Said, Stage, exactly
from tests.streams import Cluster
from tests.world import running_clusters

pytestmark = pytest.mark.real

EAST, WEST = CLUSTERS
ORDERS, PARCELS = "orders", "parcels"
END = 700
"""Ids of a topic: of each of its two partitions more than are remembered."""


def settings(world: World, folder: Path, url: str) -> dict[str, Any]:
    """``sums`` and ``counts`` keep state without de-duplication, ``rows`` keeps none."""

    def query(name: str, pipeline: str, topic: str) -> dict[str, Any]:
        return {
            "pipeline": f"tests.real.pipelines:{pipeline}",
            "settings": {"sink": str(folder / "sinks" / name)},
            "sources": {"orders": {"topics": [topic]}},
            "clusters": list(CLUSTERS),
            "runners": ["a"],
            "checkpoint": str(folder / "checkpoints" / name),
            "trigger": "200ms",
            "sink": "batch-id",
        }

    return {
        "store": url,
        "clusters": {name: {"bootstrap": world.bootstrap(name)} for name in CLUSTERS},
        "routes": [{"from": EAST, "to": WEST}, {"from": WEST, "to": EAST}],
        "runners": {"a": {}},
        "spark": {"master": "local[8]", "conf": {"spark.sql.shuffle.partitions": 1}},
        "queries": {
            "rows": query("rows", "rows_by_batch", ORDERS),
            "sums": query("sums", "sums_by_batch", ORDERS),
            "counts": query("counts", "sums_by_batch", PARCELS),
        },
    }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("resent")
    url = f"sqlite:///{folder / 'tideover.db'}"
    with running_clusters(folder / "world") as world, closing(open_store(url)) as store:
        clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        built = Stage(folder, store, settings(world, folder, url), clusters, world=world)
        built.make(ORDERS, PARCELS)
        for topic in (ORDERS, PARCELS):
            built.extend(topic, END)
        with closing(built):
            built.run("a")
            yield built


def counted(stage: Stage, query: str) -> int:
    return sum(count for count, _ in kept_sums(stage.folder / "sinks" / query).values())


def ids(stage: Stage) -> Counter[int]:
    return Counter({number: n for number, n in kept_ids(stage.folder / "sinks" / "rows").items() if number >= 0})


def send_again(stage: Stage, topic: str, to: str, *, first: int) -> int:
    """Write ids to one cluster a second time, as a copier does that begins there; returns how many."""
    stage.clusters[to].ends[topic] = first
    stage.extend(topic, END, to)
    return END - first


def await_position(stage: Stage, query: str, topic: str) -> None:
    """Wait until everything on the query's cluster is read, and what was read last is remembered."""
    here, _ = stage.sides(query)
    ends = topics.ends(stage.world.bootstrap(here), topic)

    def holds() -> bool:
        rows = {row.partition: row for row in stage.store.positions(query) if row.cluster == here}
        return rows.keys() == ends.keys() and all(rows[n].ring and rows[n].offset == end for n, end in ends.items())

    stage.until(f"{query} remembers all of {here}", holds)


def moved(stage: Stage, query: str, to: str, *more: str) -> tuple[Said, int | None]:
    """What a failover ended with, and its forecast."""
    said = stage.failover(query, to, *more).end()
    totals = said.operations[query]["plan"]["totals"] if said.out else {}
    return said, totals.get("replay_records")


def measured(stage: Stage, said: Said, query: str) -> int | None:
    shown = stage.type("show-op", said.operations[query]["id"], "-o", "json").end()
    number: int | None = json.loads(shown.out)["measured"]["replay_records"]
    return number


def assert_refused(stage: Stage, query: str, to: str, repeats: int) -> None:
    said = stage.failover(query, to).end()
    assert said.code == 1, said.err
    assert "repeats-into-state" in said.out + said.err
    plan = json.loads(stage.type("plan", "failover", query, "--to", to, "-o", "json").end().out)
    assert plan["totals"]["replay_records"] == repeats
    assert {gate["name"]: gate["measured"] for gate in plan["gates"] if not gate["ok"]} == {
        "repeats-into-state": f"{repeats} records"
    }


def test_a_copy_of_an_idle_topic_from_its_begin_repeats_only_the_forecast(stage: Stage) -> None:
    stage.until("all is read", lambda: counted(stage, "sums") == END and len(ids(stage)) == END)
    for query in ("sums", "rows"):
        await_position(stage, query, ORDERS)
        said, forecast = moved(stage, query, WEST)
        assert (said.code, forecast) == (0, 0), said.err
    again = send_again(stage, ORDERS, EAST, first=0)

    assert_refused(stage, "sums", EAST, again)
    assert stage.sides("sums")[0] == WEST
    for query, consents in (("rows", ()), ("sums", ("--consent", "repeats"))):
        said, forecast = moved(stage, query, EAST, *consents)
        assert (said.code, forecast) == (0, again), said.err
        stage.until("it is measured", lambda said=said, query=query: measured(stage, said, query) == again)  # type: ignore[misc] # a lambda's own name in a loop
    stage.until("rows are read", lambda: ids(stage) == exactly(range(END)) + exactly(range(END)))
    stage.until("all is counted", lambda: counted(stage, "sums") == 2 * END)


def test_a_replicator_that_sends_again_while_a_topic_is_idle_is_forecast(stage: Stage) -> None:
    stage.until("all is read", lambda: counted(stage, "counts") == END)
    await_position(stage, "counts", PARCELS)
    again = send_again(stage, PARCELS, WEST, first=END - 60)

    assert_refused(stage, "counts", WEST, again)
    said, forecast = moved(stage, "counts", WEST, "--consent", "repeats")
    assert (said.code, forecast) == (0, again), said.err
    stage.until("the copies are counted", lambda: counted(stage, "counts") == END + again)
    stage.until("they are measured", lambda: measured(stage, said, "counts") == again)
