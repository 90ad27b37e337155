"""A Spark standalone cluster of one worker, from the jars of pyspark itself."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from streaming.java import java_home
from tests.ports import free_base_port
from tests.waiting import PROCESS_SECONDS, until


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and one worker of many slots, from pyspark's own jars; yields the master's address."""
    folder.mkdir()
    base = free_base_port()
    port, page, worker_page = base, base + 1, base + 2
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with (
        spark_class(folder, "master", [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port),
                                       "--webui-port", str(page)]),
        spark_class(folder, "worker", [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "8", "--memory",
                                       "2g", "--work-dir", str(folder / "work"), "--webui-port", str(worker_page),
                                       address]),
    ):  # fmt: skip
        until(
            lambda: has_worker(f"http://127.0.0.1:{page}/json/"), f"no worker, by {folder / 'master.log'}", seconds=240
        )
        yield address


@contextmanager
def spark_class(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), *arguments]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java_home()),
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PROCESS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def has_worker(page: str) -> bool:
    try:
        with urlopen(page, timeout=2) as answer:
            return b'"aliveworkers" : 1' in answer.read()
    except (URLError, OSError):
        return False
