"""A standalone master that has lost its connection to a driver calls its application finished; the driver runs on."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from state.messages import Process, Proof
from state.settings.keys import Spark
from streaming.errors import ServiceTrouble
from streaming.java import java_home
from streaming.process import own_identity, started_at
from streaming.spark.masters.proof import prove_gone
from streaming.spark.masters.standalone import applications
from tests.ports import free_base_port
from tests.spark_cluster import spark_class
from tests.waiting import PROCESS_SECONDS, until

pytestmark = pytest.mark.real

_DRIVER = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
session = SparkSession.builder.master(sys.argv[1]).appName("lost").config("spark.ui.enabled", "false").getOrCreate()
Path(sys.argv[2]).write_text(session.sparkContext.applicationId)
beats = 0
while True:
    beats += 1
    Path(sys.argv[3]).write_text(str(beats))
    time.sleep(0.05)
"""


class Wire:
    """Passes one port on to another, until it is cut: no connection comes through any more."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)

    def cut(self) -> None:
        self._listener.close()
        for each in self._ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def driver_of(master: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java_home())}
    command = [sys.executable, "-c", _DRIVER, master, str(folder / "application"), str(folder / "beats")]
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PROCESS_SECONDS)


def state_of(page: str, application: str) -> str | None:
    try:
        return next((each.state for each in applications(page) if each.id == application), None)
    except ServiceTrouble:
        return None


def answers(page: str) -> bool:
    try:
        return list(applications(page)) == []
    except ServiceTrouble:
        return False


def test_a_driver_that_its_master_has_lost_writes_on_and_is_not_proven_gone(tmp_path: Path) -> None:
    base, here = free_base_port(), own_identity()
    page = f"http://127.0.0.1:{base + 1}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(base), "--webui-port",
              str(base + 1)]  # fmt: skip
    with spark_class(tmp_path, "master", master):
        until(lambda: answers(page), f"no master, by {tmp_path / 'master.log'}")
        wire = Wire(base)
        with driver_of(f"spark://127.0.0.1:{wire.port}", tmp_path) as driver:
            until((tmp_path / "beats").exists, f"no driver, by {tmp_path / 'driver.log'}")
            application = (tmp_path / "application").read_text(encoding="utf-8")
            hosting = Process(
                runner="a", instance="lost", host=here.host, boot_id=here.boot_id, pid=driver.pid,
                pid_started=started_at(driver.pid) or 0, spark_master="spark://127.0.0.1", application_id=application,
            )  # fmt: skip
            elsewhere = hosting.model_copy(update={"host": "elsewhere"})
            wire.cut()
            until(lambda: state_of(page, application) == "FINISHED", "the master keeps the application")
            beats = (tmp_path / "beats").read_text(encoding="utf-8")
            until(lambda: (tmp_path / "beats").read_text(encoding="utf-8") not in {"", beats}, "the driver has ended")
            spark = Spark(master="spark://127.0.0.1", master_ui=page)
            for each in (hosting, elsewhere):
                found = prove_gone(here, spark, each, "runner a")
                assert found.proof is None
                assert (
                    f"the master says that {application} ended (FINISHED), which a driver can outlive" in found.detail
                )
        assert prove_gone(here, spark, hosting, "runner a").proof is Proof.APPLICATION
        assert prove_gone(here, spark, elsewhere, "runner a").proof is None
