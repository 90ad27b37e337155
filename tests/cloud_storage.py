"""An emulator of Cloud Storage's JSON API that a test starts and stops itself: fake-gcs-server, in memory.

It checks ``ifGenerationMatch`` when an upload ends, under a lock, as Google's service does. It knows no user: a request
is never refused for its login. A way to it (``tests.cut_answers``) loses the answers of uploads, or takes the condition
out of them.
"""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.ports import is_free
from tests.cut_answers import LossyWay, lossy_way
from tests.go_program import GoProgram
from tests.ports import free_port
from tests.waiting import until

_SERVER = GoProgram("fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1")
_CONNECTOR = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
_ENDS = rb"\APUT /upload/"
"""The request that ends an upload, and makes the object."""
_CONDITION, _NONE = b"ifGenerationMatch=0", b"xxGenerationMatch=0"


@dataclass(frozen=True)
class CloudStorage:
    """A running server with one bucket."""

    port: int
    bucket: str

    @property
    def url(self) -> str:
        return f"gs://{self.bucket}"

    def conf(self, port: int | None = None) -> dict[str, str]:
        """Hadoop's settings to reach it, by its own port or by that of a way to it."""
        return {
            "fs.gs.impl": _CONNECTOR,  # Hadoop 3.5 names its own, which is not there,
            "fs.gs.block.size": "67108864",  # and has 64m here, which Google's cannot read
            "fs.gs.storage.root.url": f"http://127.0.0.1:{port or self.port}/",
            "fs.gs.project.id": "tideover",
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.auth.service.account.enable": "false",  # these two: version 2 of the connector
            "fs.gs.auth.null.enable": "true",
        }

    def spark_conf(self) -> dict[str, str]:
        """The same as settings of a Spark session."""
        return {f"spark.hadoop.{key}": value for key, value in self.conf().items()}

    def add_bucket(self, name: str) -> str:
        """Another bucket; its address. Hadoop keeps one client for each, with the settings that it was made by."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/storage/v1/b?project=tideover",
            json.dumps({"name": name}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30):
            return f"gs://{name}"


@contextmanager
def cloud_storage(folder: Path) -> Iterator[CloudStorage]:
    """A server from nothing, until the block ends; its log lies in the folder."""
    program, port = _SERVER.find(), free_port()
    options = ("-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port))
    with (folder / f"fake-gcs-server-{port}.log").open("wb") as log:
        process = subprocess.Popen([program, *options, "-public-host", f"127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        until(lambda: not is_free(port), "the server of objects listens")
        store = CloudStorage(port, f"checkpoints-{port}")
        store.add_bucket(store.bucket)
        yield store
    finally:
        process.terminate()
        process.wait()


@contextmanager
def losing_uploads(store: CloudStorage, loses: Callable[[int], bool]) -> Iterator[tuple[LossyWay, str]]:
    """A way on which answers of uploads are lost, and the address of a bucket for it.

    The client then looks what became of the upload, by a request that counts as well.
    """
    with lossy_way(store.port, loses, counts=_ENDS) as way:
        yield way, store.add_bucket(f"lossy-{way.port}")


@contextmanager
def careless(store: CloudStorage) -> Iterator[tuple[LossyWay, str]]:
    """A way behind which the store knows no condition, and the address of a bucket for it."""
    with lossy_way(store.port, lambda _: False, counts=_ENDS, instead=(_CONDITION, _NONE)) as way:
        yield way, store.add_bucket(f"careless-{way.port}")
