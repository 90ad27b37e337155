"""A real server of the S3 protocol that a test starts and stops itself: Versity's gateway in front of a folder.

Of several conditional puts of one object it lets exactly one through, also at the end of a multipart upload: it looks
and publishes under a lock. (The server of moto looks first and puts then, in threads.)
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.ports import is_free
from streaming.spark.checkpoint.batch_news import MANAGER
from tests.go_program import GoProgram
from tests.jars import local_spark, spark_line
from tests.ports import free_port
from tests.waiting import until

_GATEWAY = GoProgram("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
ACCESS_KEY, SECRET_KEY = "tideover", "correct-horse-51b2"


@dataclass(frozen=True)
class ObjectStore:
    """A running server with one bucket."""

    port: int
    folder: Path
    """What it keeps, an object a file."""

    @property
    def url(self) -> str:
        return f"s3a://{self.folder.name}"

    def conf(self) -> dict[str, str]:
        """Hadoop's settings to reach it, the keys included."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.directory.marker.retention": "keep",  # Hadoop 3.4's own way: this server deletes no full folder
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
        }

    def spark_conf(self) -> dict[str, str]:
        """The same as settings of a Spark session."""
        return {f"spark.hadoop.{key}": value for key, value in self.conf().items()}


@contextmanager
def running_store(folder: Path, *options: str) -> Iterator[ObjectStore]:
    """A server from nothing; ``options`` of its backend, such as ``--nometa``, under which it obeys no condition."""
    program = _GATEWAY.find()
    port = free_port()
    store = ObjectStore(port, folder / f"checkpoints-{port}")  # Hadoop keeps one client per bucket, with its endpoint
    store.folder.mkdir(parents=True)
    secrets = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    command: Sequence[str] = [program, "--port", f"127.0.0.1:{store.port}", "--quiet", "posix", *options, str(folder)]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **secrets})
    try:
        until(lambda: not is_free(store.port), "the server of objects listens")
        yield store
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module", name="store")
def module_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A server for the tests of one module, which imports this."""
    with running_store(tmp_path_factory.mktemp("objects") / "kept") as store:
        yield store


@contextmanager
def spark_on(store: ObjectStore, **more: str) -> Iterator[SparkSession]:
    """A session that reaches the store, with the companion's manager of checkpoint files."""
    with local_spark({MANAGER: spark_line().manager, **store.spark_conf(), **more}) as session:
        yield session


def keys(store: ObjectStore, folder: Path) -> dict[str, str]:
    """As a configuration has them: each secret in a file of its own."""
    (folder / "secret-key").write_text(store.conf()["fs.s3a.secret.key"], encoding="utf-8")
    conf = {key: value for key, value in store.spark_conf().items() if not key.endswith("secret.key")}
    return conf | {"spark.hadoop.fs.s3a.secret.key": f"file:{folder / 'secret-key'}"}
