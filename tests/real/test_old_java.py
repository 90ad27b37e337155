"""An ordinary job on Java 8 and on 11, on which Spark 3.4 and 3.5 run: it loads the companion there, and moves."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from lab.world import CLUSTERS, TOPIC
from tests.applications import EXACT, QUERIES, Application
from tests.javas import OLDER, older_home
from tests.streams import Cluster
from tests.world import running_clusters

pytestmark = [
    pytest.mark.real,
    pytest.mark.matrix,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not pyspark.__version__.startswith("3.5."), reason="Spark 4 itself needs Java 17"),
]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    """Two clusters; the second one has the orders behind foreign records."""
    with running_clusters(tmp_path_factory.mktemp("world")) as world:
        made = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        for name, cluster in made.items():
            cluster.make(TOPIC, foreign=name != CLUSTERS[0])
        yield made


def extend(clusters: dict[str, Cluster]) -> int:
    """Write the next hundred orders to both; how many there are then."""
    end = max(each.ends[TOPIC] for each in clusters.values()) + 100
    for each in clusters.values():
        each.extend(TOPIC, end)
    return end


@pytest.mark.parametrize("major", OLDER)
def test_a_query_of_a_job_on_an_older_java_moves_in_its_run(
    clusters: dict[str, Cluster], tmp_path: Path, major: int
) -> None:
    home, servers = older_home(major), {name: each.bootstrap for name, each in clusters.items()}
    shop = Application(tmp_path, servers["east"], java=home)
    shop.configure({
        "store": f"sqlite:///{tmp_path / 'tideover.db'}",
        "clusters": {name: {"bootstrap": [each]} for name, each in servers.items()},
        "routes": [{"from": "east", "to": "west"}],
    })  # fmt: skip
    end = extend(clusters)
    shop.submit()
    try:
        shop.until(lambda: shop.judge(set(range(end))) == EXACT, "both queries have read all")
        assert Path(f"/proc/{shop.job.pid}/exe").resolve().is_relative_to(home.resolve())
        shop.until(lambda: shop.type("check").code == 0, "both queries could be moved")
        known = ("--consent", "replication", "--yes", "--reason", "an older Java", "-o", "json")
        moved = shop.type("switchover", "--all", "--to", "west", *known)
        assert moved.code == 0, moved.err + moved.out
        more = extend(clusters)
        shop.until(lambda: shop.judge(set(range(more))) == EXACT, "the same run reads on")
        assert shop.job.poll() is None
        assert {row["cluster"] for row in json.loads(shop.type("list", "-o", "json").out)} == {"west"}
        assert shop.log().count("query continues") >= len(QUERIES)
    finally:
        shop.kill()
