"""A controller and a runner that stand still fail the probe of Kubernetes; one that continues passes it again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streaming.pulse import PULSE
from streaming.spark.runner.service import STATE
from tests.contract.test_kubernetes import containers
from tests.scene import is_stopped

pytestmark = pytest.mark.real

CONFIG = """
store: sqlite:///store.db
clusters:
  east: {bootstrap: ["127.0.0.1:1"]}
  west: {bootstrap: ["127.0.0.1:2"]}
runners: {a: {}}
"""
"""Clusters that no one reaches: to wait for them is no hanging."""
WAIT = 180.0


def until(what: str, holds: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        alive = process.poll() is None
        assert alive, f"{what}: it ended\n{log.read_text(encoding='utf-8')[-3000:]}"
        assert time.monotonic() < deadline, f"{what}\n{log.read_text(encoding='utf-8')[-3000:]}"
        time.sleep(0.05)


@contextmanager
def started(words: list[str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The verb of a container's command in a process of its own; ended in the end, frozen or not."""
    (folder / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    surroundings = {**os.environ, PULSE: str(folder / "pulse"), STATE: str(folder / "state")}
    command = [sys.executable, "-c", "import sys; from orchestrator.cli import main; sys.exit(main())", *words]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=surroundings, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        assert process.wait(WAIT) == 0


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
def test_the_probe_sees_a_frozen_process_and_one_that_continues_as_alive(
    container: dict[str, Any], tmp_path: Path
) -> None:
    command: list[str] = container["command"]
    pulse, log = tmp_path / "pulse", tmp_path / "log"

    def is_alive() -> bool:
        probe = container["livenessProbe"]["exec"]["command"]
        done = subprocess.run(probe, env={**os.environ, PULSE: str(pulse)}, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def let_two_minutes_pass() -> None:
        os.utime(pulse, (time.time() - 130,) * 2)

    with started(["-c", str(tmp_path / "tideover.yaml"), *command[3:]], tmp_path) as process:
        until("the loop turns", is_alive, process, log)
        let_two_minutes_pass()
        until("the loop turns on", is_alive, process, log)
        process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{process.pid}/task")
        until("it stands", lambda: all(is_stopped(each) for each in threads.glob("*/stat")), process, log)
        let_two_minutes_pass()
        assert not is_alive()
        process.send_signal(signal.SIGCONT)
        until("it goes on", is_alive, process, log)
