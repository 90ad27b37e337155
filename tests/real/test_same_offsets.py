"""Between clusters whose copies have the same offsets: a planned move, and the way home.

The tests write each record to both clusters in one order, as a replicator that keeps offsets does.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.world import CLUSTERS, TOPIC
from state.store.sql.migrate import open_store
from tests.real.pipelines import kept_ids
from tests.real.theatre import sides_of
from tests.scene import Stage, exactly, one_query
from tests.streams import position
from tests.world import running_clusters

pytestmark = [pytest.mark.real, pytest.mark.matrix]

BATCH = 200
NAME = "rows"


def test_a_planned_move_and_the_way_home_keep_every_offset(tmp_path: Path) -> None:
    east, west = CLUSTERS
    url, folder = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "scene"
    with running_clusters(tmp_path / "world") as world, closing(open_store(url)) as store:
        settings: dict[str, Any] = one_query(world, url, folder, NAME, "rows_by_batch")
        settings["routes"] = [
            {"from": here, "to": there, "keeps_offsets": True} for here, there in ((east, west), (west, east))
        ]
        with closing(Stage(folder, store, settings, sides_of(world), world=world)) as scene:
            for cluster in scene.clusters.values():
                cluster.make(TOPIC, foreign=False)
            scene.extend(TOPIC, BATCH)
            scene.run()
            await_read(scene, BATCH)
            (run,) = (fact.run_id for fact in scene.store.query_facts())
            for words in (("switchover", NAME, "--to", west), ("failback", NAME, "--expect-active", west)):
                end = len(kept_ids(folder / NAME))
                moved = scene.type(*words, "--consent", "replication", "--yes", "-o", "json").end()
                assert moved.code == 0, moved.err + moved.out
                rows = moved.operations[NAME]["plan"]["partitions"]
                assert {row["method"] for row in rows} == {"identity"}, rows
                assert {row["partition"]: row["target_offset"] for row in rows} == {0: end // 2, 1: end // 2}
                scene.extend(TOPIC, end + BATCH)
                await_read(scene, end + BATCH)
                assert kept_ids(folder / NAME) == exactly(range(end + BATCH))
            assert {fact.run_id for fact in scene.store.query_facts()} == {run}, "a run was started"


def await_read(scene: Stage, end: int) -> None:
    """Wait until the query has read so many records, and the last of each partition is remembered."""
    ends = position(end, topic=TOPIC)[TOPIC]

    def is_read() -> bool:
        last = {str(row.partition): row.ring[-1].offset + 1 for row in scene.store.positions(NAME) if row.ring}
        return last == ends and len(kept_ids(scene.folder / NAME)) == end

    scene.until(f"{end} records are read and remembered", is_read)
