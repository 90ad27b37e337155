"""Queries between two brokers that want a login: they read, their cluster dies, they move and read on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.world import CLUSTERS, TOPIC
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import join
from tests.logins import LoginBroker
from tests.object_store import ObjectStore, keys
from tests.real.pipelines import kept_ids
from tests.real.theatre import read_ids
from tests.scene import Scene, exactly
from tests.streams import Cluster, position

BEFORE, AFTER = 200, 300
COPIES = "copies"


@dataclass
class Moving(Scene):
    """``rows`` keeps each record; ``copied`` writes each to a topic of the cluster that it reads from."""

    def read(self, end: int, cluster: str) -> None:
        """Wait until the ids up to ``end`` were read, and both sinks have them."""
        plain = self.clusters[cluster].bootstrap
        self.until(f"rows has {end}", lambda: kept_ids(self.folder / "rows").keys() >= set(range(end)))
        begin = 0 if cluster == CLUSTERS[0] else BEFORE
        self.until(f"all up to {end} is copied", lambda: set(read_ids(plain, COPIES)) >= set(range(begin, end)))
        self.until("the positions are tracked", lambda: all(map(self.is_tracked, ("rows", "copied"))))

    def is_tracked(self, query: str) -> bool:
        """Whether the newest record of each partition is remembered."""
        (row,) = (each for each in self.store.assignments() if each.query == query)
        ends = position(self.clusters[row.cluster].ends[TOPIC], topic=TOPIC, shifted=row.cluster != CLUSTERS[0])
        last = {str(each.partition): each.ring[-1].offset for each in self.store.positions(query) if each.ring}
        return all(last.get(key, -1) >= end - 1 for key, end in ends[TOPIC].items())

    def assert_moves(self, kill: Callable[[], None]) -> None:
        """A failover by hand of both queries behind the death of their cluster, with each record once."""
        east, west = CLUSTERS
        self.make(TOPIC, COPIES)
        self.extend(TOPIC, BEFORE)
        self.run()
        self.read(BEFORE, east)
        kill()
        said = self.failover("--all", west).end()
        assert said.code == 0, said.err + said.out
        methods = {each["method"] for row in said.operations.values() for each in row["plan"]["partitions"]}
        assert methods == {"exact"}, "records were looked up on the standby, which wants a login"
        self.extend(TOPIC, AFTER, west)
        self.read(AFTER, west)
        assert kept_ids(self.folder / "rows") == exactly(range(AFTER))
        assert sorted(read_ids(self.clusters[west].bootstrap, COPIES)) == list(range(BEFORE, AFTER))


@contextmanager
def moving(
    folder: Path,
    brokers: tuple[LoginBroker, LoginBroker],
    security: tuple[Mapping[str, Any], Mapping[str, Any]],
    objects: ObjectStore | None = None,
) -> Iterator[Moving]:
    """The queries, declared and not started; the primary first, ``security`` as the configuration has it.

    Their checkpoints are on the store of objects, or else on the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = join(str(folder) if objects is None else objects.url, "checkpoints")
    url = f"sqlite:///{folder / 'tideover.db'}"

    def query(name: str, **more: Any) -> dict[str, Any]:
        return {
            "sources": {"orders": {"topics": [TOPIC]}},
            "clusters": list(CLUSTERS),
            "runners": ["a"],
            "checkpoint": join(checkpoints, name),
            "trigger": "200ms",
            **more,
        }

    rows = {"pipeline": "tests.real.pipelines:rows_by_batch", "settings": {"sink": str(folder / "rows")}}
    settings = {
        "store": url,
        "clusters": {
            name: {"bootstrap": [each.address], "security": group}
            for name, each, group in zip(CLUSTERS, brokers, security, strict=True)
        },
        "routes": [{"from": CLUSTERS[0], "to": CLUSTERS[1]}],
        "runners": {"a": {}},
        "spark": {
            "master": "local[8]",
            "conf": {"spark.sql.shuffle.partitions": 1, **({} if objects is None else keys(objects, folder))},
        },
        "queries": {
            "rows": query("rows", **rows, sink="batch-id"),
            "copied": query(
                "copied", pipeline="tests.real.pipelines:copies", sink="append",
                output={"cluster": "active", "topic": COPIES},
            ),
        },
    }  # fmt: skip
    plain = {name: Cluster(each.plain) for name, each in zip(CLUSTERS, brokers, strict=True)}
    with closing(open_store(url)) as store, closing(Moving(folder, store, settings, plain)) as scene:
        yield scene
