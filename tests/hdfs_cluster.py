"""HDFS with one node, by Hadoop's own NameNode and DataNode in one process. It listens on the loopback alone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hadoop_daemons import configure, running_daemon
from tests.waiting import until

_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"


@dataclass(frozen=True)
class Hdfs:
    """A running file system."""

    port: int
    """Of its NameNode."""

    @property
    def url(self) -> str:
        return url_at(self.port)


def url_at(port: int) -> str:
    """The address of the file system whose NameNode is reached by a port of this host."""
    return f"hdfs://127.0.0.1:{port}"


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[Hdfs]:
    """An empty file system, until the block ends; what it keeps and its log lie in the folder."""
    known = {
        "hadoop.tmp.dir": f"{folder}/tmp",
        "hdfs.minidfs.basedir": f"{folder}/data",
        "dfs.permissions.enabled": False,
        "dfs.blocksize": 1 << 20,
        "dfs.namenode.fs-limits.min-block-size": 1 << 20,
    }
    configure(folder, known, ("core-site", "hdfs-site"))
    details = folder / "details.json"
    words = ("-format", "-datanodes", "1", "-writeDetails", str(details))
    with running_daemon(folder, "hdfs", _MAIN, *words) as process:

        def is_up() -> bool:
            assert process.poll() is None, f"it ended, by {folder}/hdfs.log"
            return details.exists() and details.read_text().endswith("}")

        until(is_up, f"no file system, by {folder}/hdfs.log", seconds=240)
        yield Hdfs(int(json.loads(details.read_text())["namenode_port"]))
