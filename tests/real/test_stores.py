"""One runner, and queries whose checkpoints are on every store: the primary is killed, and each continues."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.world import CLUSTERS, TOPIC
from state.store.sql.migrate import open_store
from streaming.jars import jar_paths
from streaming.secrets import looks_secret
from streaming.spark.checkpoint.files import join
from tests.cloud_storage import cloud_storage
from tests.data_lake import data_lake
from tests.hdfs_cluster import hdfs_cluster
from tests.jars import spark_line
from tests.object_store import running_store
from tests.real.pipelines import kept, kept_sums, sums_of
from tests.real.theatre import sides_of
from tests.scene import Stage, one_query
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("gcs"), pytest.mark.timeout(1800)]
# the servers are built from source, once on a machine

BATCH = 200
WAYS = {"hdfs": "switch", "hdfs-carried": "carry", "s3a": "switch", "abfs": "switch", "gs": "switch"}
"""By query, how it is moved; its name begins with the scheme of its checkpoint."""


@dataclass(frozen=True)
class Stores:
    """Where checkpoints may be, by scheme; what Spark needs to reach them."""

    urls: dict[str, str]
    conf: dict[str, str]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    with ExitStack() as running, ThreadPoolExecutor() as pool:
        hdfs = pool.submit(running.enter_context, hdfs_cluster(tmp_path / "hdfs"))
        objects = running.enter_context(running_store(tmp_path / "objects"))
        google, lake = running.enter_context(cloud_storage(tmp_path)), running.enter_context(data_lake())
        jars = [str(jar) for kind in ("abfs", "gcs") for jar in jar_paths(f"{kind}-{spark_line().spark}")]
        known = {**objects.spark_conf(), **google.spark_conf(), **lake.spark_conf(), "spark.jars": ",".join(jars)}
        conf = {key: by_reference(tmp_path / key, text) if looks_secret(key) else text for key, text in known.items()}
        yield Stores({"hdfs": hdfs.result().url, "s3a": objects.url, "abfs": lake.url, "gs": google.url}, conf)


def by_reference(file: Path, secret: str) -> str:
    """As a configuration has a secret."""
    file.write_text(secret, encoding="utf-8")
    return f"file:{file}"


def test_a_query_on_each_store_goes_to_the_standby(stores: Stores, tmp_path: Path) -> None:
    """Checkpoint, state and batch ids stay, or are carried, and every order is counted once."""
    east, west = CLUSTERS
    url, folder = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "scene"
    with running_clusters(tmp_path / "world") as world, closing(open_store(url)) as kept_store:
        settings: dict[str, Any] = one_query(world, url, folder, "sums", "sums_by_batch")
        query = settings["queries"].pop("sums")
        for name, resume in WAYS.items():
            checkpoint = join(stores.urls[name.partition("-")[0]], "failover", name)
            own = {"checkpoint": checkpoint, "settings": {"sink": str(folder / name)}, "resume": resume}
            settings["queries"][name] = {**query, **own}
        settings["spark"]["conf"] |= stores.conf
        with closing(Stage(folder, kept_store, settings, sides_of(world), world=world)) as scene:

            def await_counts(end: int) -> None:
                scene.until(f"{end} orders are counted", lambda: set(counts(folder).values()) == {end}, seconds=600,
                            instead=lambda: str(counts(folder)))  # fmt: skip

            scene.make(TOPIC)
            scene.extend(TOPIC, BATCH)
            scene.run()
            await_counts(BATCH)
            scene.kill(east)
            said = scene.failover("--all", west, "--consent", "loss").end(600)
            assert said.code == 0, said.err + said.out
            assert {name: row["plan"]["resume"] for name, row in said.operations.items()} == WAYS
            scene.extend(TOPIC, 2 * BATCH, west)
            await_counts(2 * BATCH)
            for name in WAYS:
                assert kept_sums(folder / name) == sums_of(2 * BATCH), name
                batches = [each["batch"] for each in kept(folder / name)]
                assert batches == list(range(len(batches))), name


def counts(folder: Path) -> dict[str, int]:
    """By query, how many orders its sink has."""
    return {name: sum(count for count, _ in kept_sums(folder / name).values()) for name in WAYS}
