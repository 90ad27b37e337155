"""A checkpoint's bucket is lost, and there is a copy of it in another one, by a server of the S3 protocol."""

import json
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from lab.world import CLUSTERS, World
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles, join
from streaming.spark.checkpoint.read import newest_commit
from tests.object_store import keys, running_store
from tests.real.pipelines import kept_sums, sums_of
from tests.real.theatre import sides_of
from tests.scene import Stage, one_query
from tests.streams import has_rested

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.jars("s3a")]
ORDERS, BATCH = "orders-of-a-copied-bucket", 100


def test_a_query_continues_from_the_copy_of_a_lost_bucket_once_accepted(pair: World, tmp_path: Path) -> None:
    """The copy lacks the newest batch and all that is ours. Its cluster is alive, and its positions are kept."""
    url, folder = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "scene"
    with running_store(tmp_path / "kept") as objects, closing(open_store(url)) as kept_store:
        settings = one_query(pair, url, folder, "sums", "sums_by_batch")
        query = settings["queries"]["sums"]
        query["sources"]["orders"]["topics"] = [ORDERS]
        query["checkpoint"] = join(objects.url, "sums")
        settings["spark"]["conf"] |= keys(objects, tmp_path)
        with closing(Stage(folder, kept_store, settings, sides_of(pair), world=pair)) as scene:
            scene.make(ORDERS)
            checkpoint = objects.folder / "sums"
            ends = [committed(scene, checkpoint, end) for end in (BATCH, 2 * BATCH)]
            scene.drivers.pop("a").stop()
            copy = objects.folder.with_name(f"second-{objects.port}") / "sums"
            shutil.copytree(checkpoint, copy, ignore=shutil.ignore_patterns("_tideover_*"))
            go_back(copy, ends[0])
            shutil.rmtree(objects.folder)
            query["checkpoint"] = f"s3a://{copy.parent.name}/sums"
            scene.config.write_text(json.dumps(settings), encoding="utf-8")
            scene.run()
            scene.until("its runner has found the copy", partial(is_found, scene, query["checkpoint"], 1))
            done = scene.type("reconcile", "sums", "--yes", "-o", "json").end()
            assert done.code == 0, done.err
            scene.until("its runner has compared it", partial(is_contradicted, scene, query["checkpoint"]))
            scene.until("and has looked at it", partial(is_found, scene, query["checkpoint"], 2))
            refused = scene.type("reconcile", "sums", "--yes").end()
            assert refused.code == 1
            assert f"batch {ends[1]} is committed, but the newest is commits/{ends[0]}" in refused.err
            assert f"would run again: at most {BATCH} records" in refused.err
            assert "Its sink drops a batch whose id it has" in refused.err
            assert scene.type("reconcile", "sums", "--yes", "--consent", "repeats").end().code == 1
            assert scene.type("reconcile", "sums", "--yes", "--consent", "loss").end().code == 0
            scene.extend(ORDERS, 3 * BATCH)
            scene.until("the orders are counted from the copy", partial(is_counted, scene, 3 * BATCH))
            assert kept_sums(folder / "sums") == sums_of(3 * BATCH)
            row = scene.store.assignment("sums")
            assert row is not None
            assert (row.cluster, row.checkpoint) == (CLUSTERS[0], query["checkpoint"])


def committed(scene: Stage, checkpoint: Path, end: int) -> int:
    """Have the orders up to ``end`` counted; the newest batch, of which the store has the positions."""
    scene.extend(ORDERS, end)
    scene.drivers or scene.run()
    scene.until("the orders are counted", partial(is_counted, scene, end))
    scene.until("the batch is committed", partial(has_rested, checkpoint))
    newest = newest_commit(LocalFiles(), str(checkpoint))
    assert newest is not None
    scene.until("the store knows of it", partial(is_seen, scene, newest))
    scene.until("and where it ended", lambda: bool(scene.store.positions("sums", batch=newest)))
    return newest


def go_back(copy: Path, batch: int) -> None:
    """Leave out what was committed after a batch, and planned after the next."""
    for log, last in (("commits", batch), ("offsets", batch + 1)):
        for entry in (copy / log).glob("[0-9]*"):
            if int(entry.name) > last:
                entry.unlink()


def is_counted(scene: Stage, end: int) -> bool:
    """Whether the query's sink has so many orders."""
    return sum(count for count, _ in kept_sums(scene.folder / "sums").values()) == end


def is_seen(scene: Stage, batch: int) -> bool:
    """Whether a run has reported that a batch is committed."""
    (fact,) = scene.store.query_facts(query="sums")
    return fact.seen is not None and fact.seen.committed == batch


def is_found(scene: Stage, checkpoint: str, epoch: int) -> bool:
    """Whether a runner found the query in a folder, beside its row of an epoch."""
    found = scene.store.found_place("sums")
    return found is not None and (found.checkpoint, found.row_epoch) == (checkpoint, epoch)


def is_contradicted(scene: Stage, checkpoint: str) -> bool:
    """Whether the runner reports that the files of a folder cannot be what the query wrote."""
    facts = scene.store.query_facts(query="sums")
    return any(fact.checkpoint == checkpoint and fact.contradicted is not None for fact in facts)
